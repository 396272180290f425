/* Space is bounded: old attempts are emptied.
 *
 * A checkpoint leans on the attempts in which its chunks were stored. A few chunks that are left of an old one keep all of it
 * alive. So with every checkpoint some live chunks of the emptiest attempts are stored again, as if they were new: memory has
 * them. When none is left nothing leans on that attempt any more, and it goes when the checkpoints that did are forgotten.
 *
 * How many: none while little is wasted, more the nearer the store comes to `space` times what is needed, and never so many
 * that a checkpoint becomes much slower than others. What is emptied is emptied wholly, as the rest would keep it alive;
 * only one attempt that is too large for that is emptied in several checkpoints.
 *
 * An attempt goes when no rank leans on it, so the ranks of a job choose together: by the rank that has most left of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

#define BEGIN 0.85   /* of the waste that is allowed: from there on something is done about it, */
#define RATE 0.8     /* up to so much of the new bytes */
#define WORTH 0.95   /* what is fuller than this frees next to nothing */
#define OLDEST 512u  /* attempts that are looked at */
#define FULL 1000000 /* of a share */

/* What the ranks know of the oldest attempts. */
struct oldest {
    uint32_t first, count;
    uint64_t live[OLDEST]; /* bytes, on the rank that has most */
    uint64_t full[OLDEST]; /* the share that is alive, in parts of FULL, likewise */
};

/* In bytes, summed over the ranks. */
struct account {
    double raw, live, fresh;
};

static uint32_t first_alive(const struct vv_history *history) {
    uint32_t i = 0;
    while (i < history->source_count && !history->is_alive[i])
        i++;
    return i;
}

static uint64_t share_alive(const struct vv_source *source) {
    if (source->live_bytes == 0)
        return 0;
    double share = source->raw_bytes ? (double)source->own_bytes / (double)source->raw_bytes : 0;
    return share < 1 ? (uint64_t)(share * FULL) : FULL;
}

/* Do all ranks count the same attempts, and from where on are any alive? 1, 0, or an error of the group. Collective. */
static int agree_on_first(struct vv_save *save, int rc, uint32_t *first) {
    const struct vv_history *history = &save->session->history;
    uint64_t sum = rc ? 0 : vv_sum64(&history->source_count, sizeof history->source_count);
    uint32_t from = history->source_count > OLDEST ? history->source_count - OLDEST : 0;
    for (uint32_t i = from; rc == 0 && i < history->source_count; i++)
        sum = sum * 31 + vv_sum64(&history->sources[i], offsetof(struct vv_source, writers_digest));
    uint64_t values[3] = {sum, ~sum, rc ? 0 : first_alive(history)};
    int broken = save->session->comm->ops->least(save->session->comm, values, 3);
    *first = (uint32_t)values[2];
    return broken ? broken : values[0] == ~values[1] && values[0] != 0;
}

/* Collective. */
static int agree_on_live(struct vv_save *save, struct oldest *oldest) {
    const struct vv_history *history = &save->session->history;
    struct varve_comm *comm = save->session->comm;
    uint32_t left = history->source_count - oldest->first;
    oldest->count = left < OLDEST ? left : OLDEST;
    for (uint32_t i = 0; i < oldest->count; i++) {
        const struct vv_source *source = &history->sources[oldest->first + i];
        oldest->live[i] = ~source->live_bytes;
        oldest->full[i] = ~share_alive(source);
    }
    int rc = comm->ops->least(comm, oldest->live, oldest->count);
    if (rc == 0)
        rc = comm->ops->least(comm, oldest->full, oldest->count);
    for (uint32_t i = 0; i < oldest->count; i++) {
        oldest->live[i] = ~oldest->live[i];
        oldest->full[i] = ~oldest->full[i];
    }
    return rc;
}

/* ---- how much ---- */

/* What this rank has stored and refers to. What it refers to in the packs of others is theirs to count. */
static struct account own_account(const struct vv_session *session, const struct oldest *oldest) {
    const struct vv_history *history = &session->history;
    struct account account = {.fresh = (double)session->last_fresh};
    for (uint32_t i = oldest->first; i < history->source_count; i++) {
        const struct vv_source *source = &history->sources[i];
        uint32_t at = i - oldest->first;
        int is_alive = at < oldest->count ? oldest->live[at] > 0 : history->is_alive[i];
        account.live += (double)(source->own_bytes < source->raw_bytes ? source->own_bytes : source->raw_bytes);
        account.raw += is_alive ? (double)source->raw_bytes : 0;
    }
    for (size_t i = 0; i < VV_DYING; i++)
        account.raw += (double)session->dying[i];
    return account;
}

static int add_account(void *arg, uint32_t rank, const void *data, size_t size) {
    struct account *sum = arg, one;
    (void)rank;
    if (size != sizeof one)
        return -EPROTO;
    memcpy(&one, data, sizeof one);
    sum->raw += one.raw;
    sum->live += one.live;
    sum->fresh += one.fresh;
    return 0;
}

/* Of the new bytes, the share that is stored again beside them. */
static double find_rate(const struct vv_session *session, const struct account *all) {
    double keep = session->settings.keep;
    double allowed = session->settings.space * (all->live + (keep - 1) * all->fresh) - all->live;
    double wasted = allowed > 0 ? (all->raw + all->fresh - all->live) / allowed : 1;
    double rate = wasted > BEGIN ? RATE * (wasted - BEGIN) / (1 - BEGIN) : 0;
    return rate < RATE ? rate : RATE;
}

/* The same on all ranks, by the one that has most new bytes: the slowest one decides how long it takes. Collective. */
static int agree_on_budget(struct vv_save *save, const struct oldest *oldest, uint64_t *out, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct account own = own_account(session, oldest), all = {0};
    uint64_t most = session->last_fresh;
    double rate = 0;
    int rc = session->comm->ops->collect(session->comm, &own, sizeof own, add_account, &all);
    if (rc == 0)
        rate = find_rate(session, &all);
    rc = vv_comm_follow(session->comm, rc, &rate, sizeof rate, VV_COMM_ROOT, error);
    if (rc == 0)
        rc = vv_comm_most(session->comm, &most);
    *out = rc == 0 ? (uint64_t)(rate * (double)most) : 0;
    return rc;
}

/* ---- which ---- */

struct choice {
    uint32_t at;
    uint64_t full;
};

static int compare(const void *a, const void *b) {
    const struct choice *x = a, *y = b;
    return x->full != y->full ? (x->full < y->full ? -1 : 1) : x->at < y->at ? -1 : 1;
}

static void choose(struct vv_save *save, const struct oldest *oldest) {
    struct choice choices[OLDEST];
    size_t count = 0;
    uint64_t live = 0;
    for (uint32_t i = 0; i < oldest->count; i++)
        if (oldest->live[i] > 0 && oldest->full[i] < WORTH * FULL && oldest->first + i != save->source)
            choices[count++] = (struct choice){i, oldest->full[i]};
    qsort(choices, count, sizeof *choices, compare);
    for (size_t i = 0; i < count; i++) {
        live += oldest->live[choices[i].at];
        if (i > 0 && live > save->rewrite_left)
            break;
        save->is_victim[oldest->first + choices[i].at] = 1;
    }
}

int vv_compact_plan(struct vv_save *save, int rc, struct varve_error *error) {
    const struct vv_settings *settings = &save->session->settings;
    struct oldest oldest;
    if (settings->space == 0 || settings->keep == 0)
        return rc;
    int is_known = agree_on_first(save, rc, &oldest.first);
    if (is_known == 1)
        is_known = agree_on_live(save, &oldest) == 0 && agree_on_budget(save, &oldest, &save->rewrite_left, error) == 0;
    if (rc || is_known < 1 || save->rewrite_left == 0)
        return rc;
    save->is_victim = vv_calloc(save->session->history.source_count, 1);
    if (!save->is_victim)
        return vv_error(error, -ENOMEM, "no memory to begin a checkpoint");
    choose(save, &oldest);
    return 0;
}

/* ---- doing it ---- */

void vv_compact_look(struct vv_save *save) {
    const struct vv_session *session = save->session;
    uint64_t left = save->rewrite_left;
    for (size_t i = 0; i < session->regions.count && save->is_victim && left > 0; i++) {
        const struct vv_past *past = save->scans[i].past;
        struct vv_watch *watch = session->regions.list[i].watch;
        for (size_t j = 0; watch && j < past->origins.count && left > 0; j++) {
            const struct vv_origin *origin = &past->origins.list[j];
            if (origin->kind == VV_ORIGIN_ZERO || !save->is_victim[origin->source])
                continue;
            uint64_t length = origin->length < left ? origin->length : left;
            vv_watch_mark(watch, origin->offset, length);
            left -= length;
        }
    }
}

int vv_compact_take(struct vv_save *save, uint32_t size) {
    if (save->rewrite_left < size)
        return 0;
    save->rewrite_left -= size;
    return 1;
}

/* What nothing leans on any more stays as long as the checkpoints that did are kept. */
void vv_compact_note(struct vv_session *session, const uint64_t *live) {
    struct vv_history *history = &session->history;
    vv_history_own(history, session->comm->rank);
    size_t keep = session->settings.keep < VV_DYING ? (size_t)session->settings.keep : VV_DYING;
    uint64_t dead = 0;
    for (uint32_t i = 0; i < history->source_count; i++)
        dead += history->is_alive[i] && live[i] == 0 ? history->sources[i].raw_bytes : 0;
    for (size_t i = keep > 1 ? keep - 1 : 0; i > 0; i--)
        session->dying[i] = session->dying[i - 1];
    session->dying[0] = dead;
}
