/* What several ranks hold is stored once: naming, the exchange, and whether it pays.
 *
 * An exchange costs time on every rank, and saves what would have been written twice. With dedup=auto both are
 * measured; when it twice in a row neither saved time nor a good part of the bytes, the next checkpoints go without, at
 * first three, then twice as many each time, and then it is tried again. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "save/save_private.h"

#define WORTH_PERCENT 10u /* of the bytes: then it is worth some time */
#define LOSSES 2u         /* in a row: once may be bad luck; not after a rest, when it only did not pay again */
#define REST_FIRST 3u
#define REST_MOST 63u
#define RECENT 128u     /* sources that homes may answer with */
#define FIRST_GUESS 1e9 /* storage speed before anything was measured, bytes per second */
#define CAPACITY_LEAST 4096u
#define NS 1e9

/* ---- who takes part ---- */

static int say(struct vv_rank_dedup *rank_dedup, const char *name, const char *reason) {
    rank_dedup->name = name;
    rank_dedup->reason = reason;
    return 0;
}

static int open_exchange(struct vv_rank_dedup *rank_dedup, struct vv_job *job, struct varve_error *error) {
    rank_dedup->is_exact = job->settings.dedup != VV_CHOOSE_DEDUP_TOP_K;
    size_t top = (size_t)job->settings.dedup_top;
    return rank_dedup->is_exact ? vv_exchange_exact(job->comm, VV_HOPS_AUTO, &rank_dedup->exchange, error)
                                : vv_exchange_topk(job->comm, top, &rank_dedup->exchange, error);
}

int vv_rank_dedup_open(struct vv_rank_dedup *rank_dedup, struct vv_job *job, struct varve_error *error) {
    int choice = job->settings.dedup;
    if (choice == VV_CHOOSE_DEDUP_NONE)
        return say(rank_dedup, "none", "as it was asked for");
    if (choice == VV_CHOOSE_DEDUP_LOCAL)
        return say(rank_dedup, "local", "as it was asked for");
    if (job->comm->ranks == 1)
        return say(rank_dedup, "local", "there is one process");
    int rc = job->comm->ops->exchange ? open_exchange(rank_dedup, job, error) : -ENOTSUP;
    if (rc == -ENOTSUP)
        return say(rank_dedup, "local", "the group of processes cannot exchange messages");
    if (rc)
        return vv_error_default(error, rc, "deduplication between ranks could not be set up: %s", varve_error_text(rc));
    return say(rank_dedup, rank_dedup->exchange->ops->name,
               choice == VV_CHOOSE_DEDUP_AUTO ? "nothing was measured yet" : "as it was asked for");
}

void vv_rank_dedup_close(struct vv_rank_dedup *rank_dedup) {
    vv_exchange_close(rank_dedup->exchange);
    rank_dedup->exchange = NULL;
}

void vv_rank_dedup_forget(struct vv_rank_dedup *rank_dedup) {
    if (rank_dedup->exchange && rank_dedup->is_exact)
        vv_exchange_exact_forget(rank_dedup->exchange);
}

int vv_rank_dedup_is_due(struct vv_rank_dedup *rank_dedup) {
    if (!rank_dedup->exchange)
        return 0;
    if (rank_dedup->rest == 0)
        return 1;
    rank_dedup->rest--;
    say(rank_dedup, "local", "asking the other ranks did not pay; tried again later");
    return 0;
}

/* ---- whether it pays ---- */

static int rest(struct vv_save *save) {
    struct vv_rank_dedup *rank_dedup = save->rank_dedup;
    rank_dedup->resting = rank_dedup->resting ? rank_dedup->resting * 2 + 1 : REST_FIRST;
    rank_dedup->resting = rank_dedup->resting < REST_MOST ? rank_dedup->resting : REST_MOST;
    rank_dedup->rest = rank_dedup->resting;
    rank_dedup->losses = 0;
    if (vv_comm_is_root(save->job->comm))
        vv_log(&save->job->log, VV_LOG_INFO,
               "asking the other ranks for duplicates did not pay: %u checkpoints go without", rank_dedup->rest);
    return say(save->rank_dedup, rank_dedup->exchange->ops->name,
               "it took more time than it saved: the next checkpoints go without");
}

/* Of the bytes that this rank would store without it, the share that it need not, in percent. */
static uint64_t percent_saved(const struct vv_save *save) {
    uint64_t all = save->sums.elsewhere + save->sums.fresh;
    return all ? save->sums.elsewhere * 100 / all : 0;
}

/* The rank for which it is most counts, on all sides. The same numbers, so the same decision, on all ranks. */
static int learn(struct vv_save *save, double seconds, struct varve_error *error) {
    struct vv_rank_dedup *rank_dedup = save->rank_dedup;
    double bytes = (double)save->sums.elsewhere * (1 + save->outputs->replicas.count);
    double speed = vv_known_or(save->measured->storage_speed, FIRST_GUESS);
    uint64_t cost = (uint64_t)(seconds * NS), gain = (uint64_t)(bytes / speed * NS), percent = percent_saved(save);
    int rc = vv_comm_most(save->job->comm, &cost);
    if (rc == 0)
        rc = vv_comm_most(save->job->comm, &gain);
    if (rc == 0)
        rc = vv_comm_most(save->job->comm, &percent);
    if (rc)
        return vv_error(error, rc, "the ranks could not agree: %s", varve_error_text(rc));
    if (save->job->settings.dedup != VV_CHOOSE_DEDUP_AUTO)
        return 0;
    if (gain < cost && percent < WORTH_PERCENT) {
        if (++rank_dedup->losses < LOSSES && rank_dedup->resting == 0)
            return say(save->rank_dedup, rank_dedup->exchange->ops->name, "it took more time than it saved this time");
        return rest(save);
    }
    rank_dedup->resting = rank_dedup->losses = 0;
    return say(save->rank_dedup, rank_dedup->exchange->ops->name,
               gain >= cost ? "it saved more time than it took" : "it saved a good part of the bytes");
}

/* ---- naming ---- */

static int name_chunks(void *arg, struct vv_watch *watch, uint64_t first, uint32_t count, const uint8_t *data) {
    struct vv_save *save = arg;
    struct vv_scan *scan = watch->user;
    for (uint64_t i = first; i < first + count && i < scan->granules; i++) {
        int rc = vv_scan_name(scan, i, data + (i - first) * VV_GRANULE);
        if (rc < 0)
            return rc;
        if (rc == 0)
            vv_offers_spare(save, watch, i);
    }
    return 0;
}

static int name_all(struct vv_save *save, struct varve_error *error) {
    uint64_t begin = vv_clock_ns();
    save->sums.fixed = save->sums.fresh;
    save->sums.fixed_rewritten = save->sums.rewritten;
    save->offers.is_copied = save->plan.is_shared_behind;
    save->offers.is_stable = save->plan.is_shared_behind && !vv_capture_is_frozen(save->memory->capture);
    int rc = vv_capture_look(save->memory->capture, name_chunks, save, error);
    save->outcome.stats.seconds_named = (double)(vv_clock_ns() - begin) / NS;
    if (rc == 0) {
        save->offers.dispositions = vv_calloc(save->offers.offer_count + 1, 1);
        rc = save->offers.dispositions ? 0 : -ENOMEM;
    }
    return rc ? vv_error_default(error, rc, "what changed could not be named: %s", varve_error_text(rc)) : 0;
}

/* ---- the exchange ---- */

/* Which of the latest sources may be referred to: those that any rank's data lies in, since then the last record
 * depends on them. A rank that counts them differently makes all go without. NULL: none. */
static uint8_t *agree_on_sources(struct vv_save *save, int *rc) {
    const struct vv_history *history = &save->job->lineage.history;
    uint32_t count = history->source_count, first = count > RECENT ? count - RECENT : 0;
    uint64_t values[RECENT + 2];
    uint64_t sum = vv_sum64(&count, sizeof count);
    uint8_t *is_alive = vv_calloc(count, 1);
    memset(values, 0xff, sizeof values);
    for (uint32_t i = first; i < count; i++) {
        const struct vv_source *source = &history->sources[i];
        sum = sum * 31 + vv_sum64(source, offsetof(struct vv_source, writers_digest));
        int is_emptied = save->plan.is_sparse && save->plan.is_sparse[i]; /* on all ranks */
        values[i - first] = !(history->is_alive[i] && i != save->plan.source) || is_emptied;
    }
    if (!is_alive)
        sum = 0; /* differs from everybody's */
    values[RECENT] = sum;
    values[RECENT + 1] = ~sum;
    *rc = save->job->comm->ops->reduce_min(save->job->comm, values, RECENT + 2);
    if (*rc || values[RECENT] != ~values[RECENT + 1]) {
        vv_free(is_alive);
        return NULL;
    }
    for (uint32_t i = first; i < count; i++)
        is_alive[i] = values[i - first] == 0 || i == save->plan.source; /* homes keep what is offered now */
    return is_alive;
}

/* The memory of a home is half of what the table of ids may take, but not so little that small ranks forget at once. */
static void bound_exchange(const struct vv_save *save) {
    struct vv_rank_dedup *rank_dedup = save->rank_dedup;
    size_t capacity = save->plan.ids_capacity / 2;
    if (rank_dedup->is_exact) /* may fail: then it remembers less */
        vv_exchange_exact_capacity(rank_dedup->exchange, capacity < CAPACITY_LEAST ? CAPACITY_LEAST : capacity);
}

static int ask_ranks(struct vv_save *save, struct vv_verdict *verdicts, struct varve_error *error) {
    struct vv_exchange_sums sums = {0};
    uint64_t begin = vv_clock_ns();
    int rc = 0;
    uint8_t *is_alive = agree_on_sources(save, &rc);
    if (rc)
        return vv_error(error, rc, "the ranks could not agree: %s", varve_error_text(rc));
    if (!is_alive)
        vv_rank_dedup_forget(save->rank_dedup);
    bound_exchange(save);
    struct vv_exchange_in in = {.offers = save->offers.unique,
                                .count = save->offers.offer_count,
                                .fixed_bytes = save->sums.fixed + save->offers.fine_count * VV_GRANULE,
                                .source = save->plan.source,
                                .is_alive = is_alive,
                                .source_count = save->job->lineage.history.source_count};
    rc = save->rank_dedup->exchange->ops->run(save->rank_dedup->exchange, &in, verdicts, &sums, error);
    vv_free(is_alive);
    save->outcome.stats.seconds_exchange = (double)(vv_clock_ns() - begin) / NS;
    save->outcome.stats.exchange_messages = sums.hops.messages;
    save->outcome.stats.exchange_bytes = sums.hops.bytes;
    return rc;
}

static int check_verdicts(const struct vv_save *save, const struct vv_verdict *verdicts, struct varve_error *error) {
    for (size_t i = 0; i < save->offers.offer_count; i++)
        if ((verdicts[i].kind == VV_KNOWN && verdicts[i].source >= save->job->lineage.history.source_count) ||
            verdicts[i].kind > VV_KNOWN || (verdicts[i].kind != VV_MINE && verdicts[i].owner >= save->job->comm->ranks))
            return vv_error(error, -EPROTO, "another rank gave an answer that makes no sense");
    for (size_t i = 0; i < save->offers.offer_count; i++)
        save->offers.dispositions[i] = verdicts[i].kind != VV_MINE ? 0
                                       : verdicts[i].is_shared     ? VV_DISPOSITION_STORE | VV_DISPOSITION_SHARED
                                                                   : VV_DISPOSITION_STORE;
    return 0;
}

int vv_rank_dedup_run(struct vv_save *save, int rc, struct varve_error *error) {
    struct varve_comm *comm = save->job->comm;
    struct vv_verdict *verdicts = NULL;
    if (rc == 0)
        rc = name_all(save, error);
    if (rc == 0 && !(verdicts = vv_calloc(save->offers.offer_count + 1, sizeof *verdicts)))
        rc = vv_error(error, -ENOMEM, "no memory to ask the other ranks");
    rc = vv_comm_agree(comm, rc, error);
    if (rc == 0)
        rc = ask_ranks(save, verdicts, error);
    if (rc == 0)
        rc = vv_replicas_agree(save, check_verdicts(save, verdicts, error), error);
    if (rc == 0) {
        rc = vv_offers_settle(save, verdicts);
        if (rc)
            vv_error_default(error, rc, "who stores what could not be noted: %s", varve_error_text(rc));
        rc = vv_comm_agree(comm, rc, error);
    }
    if (rc == 0)
        rc = learn(save, save->outcome.stats.seconds_exchange, error);
    vv_free(verdicts);
    return rc;
}
