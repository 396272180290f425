/* Space is bounded: old attempts are emptied.
 *
 * A checkpoint depends on the attempts in which its chunks were stored. A few chunks that are left of an old one keep
 * all of it alive. So with every checkpoint some live chunks of the emptiest attempts are stored again, as if they were
 * new: memory has them. When none is left nothing depends on that attempt any more, and it goes when the checkpoints
 * that did are forgotten.
 *
 * How many: none while little is wasted, more the nearer the store comes to `space` times what is needed, and never so
 * many that a checkpoint becomes much slower than others. What is emptied is emptied wholly, as the rest would keep it
 * alive; only one attempt that is too large for that is emptied in several checkpoints. A large one, such as the first
 * of a job, is emptied early: while it is, what it holds is stored twice, which fits into the bound only as long as
 * little else is wasted.
 *
 * An attempt goes when no rank depends on it, so the ranks of a job choose together: by the rank that has most left of
 * it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "save/save_private.h"

#define BEGIN 0.80       /* of the waste that is allowed: from there on something is done about it, */
#define PAYS 0.5         /* of the new bytes beside which it is stored: so much must be freed */
#define RATE 0.8         /* up to so much of the new bytes; more would not be freed sooner, and swings */
#define LARGE 6          /* an attempt with more than 1/6 of what is alive goes early, */
#define LARGE_BEGIN 0.04 /* as soon as so much of the waste that is allowed is there, */
#define LARGE_STEPS 16   /* in so many steps, or more: */
#define LARGE_RATE 6u    /* times the new bytes at most in each, */
#define DECAY 0.08       /* if it loses at least so much of what it would lose if all of memory changed alike */
#define ATTEMPTS 160     /* that a checkpoint depends on: small ones are put together, */
#define SMALL_STEPS 64   /* of what is alive, 1/64 at a time */
#define OVERFULL 1.0     /* of the waste that is allowed: then everything is tried */
#define WORTH 0.95       /* what is fuller than this frees next to nothing */
#define OLDEST 512u      /* attempts that are looked at */
#define FULL 1000000     /* of a share */

/* What the ranks know of the oldest attempts that are alive on any of them, each number from the rank for which it is
 * largest. */
enum { LIVE, RAW, OWN, LOST, PINNED, NUMBERS };
struct oldest {
    uint32_t count;
    uint32_t source[OLDEST];
    uint64_t numbers[NUMBERS * OLDEST];
    const uint64_t *live;   /* bytes that are alive, */
    const uint64_t *raw;    /* that a rank has stored there, */
    const uint64_t *own;    /* the part of them that it needs itself, */
    const uint64_t *lost;   /* and that were alive one checkpoint before */
    const uint64_t *pinned; /* some of it cannot be stored again */
};

/* In bytes, summed over the ranks. */
struct account {
    double raw, live, fresh;
};

static uint64_t less(uint64_t from, uint64_t amount) {
    return from > amount ? from - amount : 0;
}

/* By the rank that has most of it: one with little of its own must not speak for all. What is unknown counts as full.
 */
static double fullness(const struct oldest *oldest, uint32_t at) {
    if (oldest->own[at] == 0)
        return 0;
    return oldest->own[at] < oldest->raw[at] ? (double)oldest->own[at] / (double)oldest->raw[at] : 1;
}

static void list_oldest(const struct vv_history *history, struct oldest *oldest) {
    oldest->count = 0;
    for (uint32_t i = 0; i < history->source_count && oldest->count < OLDEST; i++)
        if (!history->sources[i].is_over)
            oldest->source[oldest->count++] = i;
}

/* Do all ranks count the same attempts? 1, 0, or an error of the group. Collective. */
static int agree_on_sources(struct vv_save *save, int rc, const struct oldest *oldest) {
    const struct vv_history *history = &save->job->lineage.history;
    uint64_t sum = rc ? 0 : vv_sum64(&history->source_count, sizeof history->source_count);
    for (uint32_t i = 0; rc == 0 && i < oldest->count; i++)
        sum = sum * 31 + vv_sum64(&history->sources[oldest->source[i]], offsetof(struct vv_source, writers_digest));
    uint64_t values[2] = {sum, ~sum};
    int broken = save->job->comm->ops->reduce_min(save->job->comm, values, 2);
    return broken ? broken : values[0] == ~values[1] && values[0] != 0;
}

/* A device reports what has changed, and nothing else. */
static void pin_devices(const struct vv_save *save, const struct oldest *oldest, uint64_t *pinned) {
    for (size_t i = 0; i < save->memory->regions.count; i++) {
        const struct vv_past *past = save->memory->regions.list[i].device
                                         ? vv_history_find((struct vv_history *)&save->job->lineage.history,
                                                           save->memory->regions.list[i].number)
                                         : NULL;
        for (size_t j = 0; past && j < past->origins.count; j++)
            for (uint32_t at = 0; at < oldest->count && past->origins.list[j].kind != VV_ORIGIN_ZERO; at++)
                if (oldest->source[at] == past->origins.list[j].source)
                    pinned[at] = ~UINT64_C(1);
    }
}

/* What nobody needs any more is never asked about again. */
static void note_over(struct vv_save *save, const struct oldest *oldest) {
    for (uint32_t i = 0; i < oldest->count; i++)
        if (oldest->live[i] == 0 && oldest->source[i] != save->plan.source)
            save->job->lineage.history.sources[oldest->source[i]].is_over = 1;
}

/* Collective. */
static int agree_on_live(struct vv_save *save, struct oldest *oldest) {
    const struct vv_history *history = &save->job->lineage.history;
    struct varve_comm *comm = save->job->comm;
    uint64_t *numbers = oldest->numbers;
    size_t count = oldest->count;
    for (size_t i = 0; i < count; i++) {
        const struct vv_source *source = &history->sources[oldest->source[i]];
        numbers[LIVE * count + i] = ~source->live_bytes;
        numbers[RAW * count + i] = ~source->raw_bytes;
        numbers[OWN * count + i] = ~source->own_bytes;
        numbers[LOST * count + i] = ~source->lost_bytes;
        numbers[PINNED * count + i] = ~UINT64_C(0);
    }
    pin_devices(save, oldest, numbers + PINNED * count);
    int rc = comm->ops->reduce_min(comm, numbers, NUMBERS * count);
    for (size_t i = 0; i < NUMBERS * count; i++)
        numbers[i] = ~numbers[i];
    oldest->live = numbers + LIVE * count;
    oldest->raw = numbers + RAW * count;
    oldest->own = numbers + OWN * count;
    oldest->lost = numbers + LOST * count;
    oldest->pinned = numbers + PINNED * count;
    if (rc == 0)
        note_over(save, oldest);
    return rc;
}

/* ---- how much ---- */

/* What this rank has stored and refers to. What it refers to in the packs of others is theirs to count. */
static struct account own_account(const struct vv_save *save, const struct oldest *oldest) {
    const struct vv_history *history = &save->job->lineage.history;
    struct account account = {.fresh = (double)save->measured->last_fresh};
    for (uint32_t i = 0; i < oldest->count; i++) {
        const struct vv_source *source = &history->sources[oldest->source[i]];
        account.live += (double)(source->own_bytes < source->raw_bytes ? source->own_bytes : source->raw_bytes);
        account.raw += oldest->live[i] > 0 ? (double)source->raw_bytes : 0;
    }
    for (size_t i = 0; i < VV_DYING; i++)
        account.raw += (double)save->job->lineage.dying[i];
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

/* Of the waste that is allowed, the share that is there. */
static double find_waste(const struct vv_save *save, const struct account *all) {
    double keep = save->job->settings.keep;
    double allowed = save->job->settings.space * (all->live + (keep - 1) * all->fresh) - all->live;
    return allowed > 0 ? (all->raw + all->fresh - all->live) / allowed : 1;
}

/* Of the new bytes, the share that is stored again beside them. */
static double find_rate(double waste) {
    double rate = waste > BEGIN ? RATE * (waste - BEGIN) / (1 - BEGIN) : 0;
    return rate < RATE ? rate : RATE;
}

/* The same on all ranks. */
struct measure {
    double waste;
    uint64_t fresh; /* bytes that were new last time, whoever stored them, on the rank that had most: the slowest one
                       decides how long it takes */
};

/* Collective. */
static int agree_on_measure(struct vv_save *save, const struct oldest *oldest, struct measure *out,
                            struct varve_error *error) {
    struct account own = own_account(save, oldest), all = {0};
    *out = (struct measure){.fresh = save->measured->last_fresh + save->measured->last_elsewhere};
    int rc = save->job->comm->ops->gather(save->job->comm, &own, sizeof own, add_account, &all);
    if (rc == 0)
        out->waste = find_waste(save, &all);
    rc = vv_comm_follow(save->job->comm, rc, &out->waste, sizeof out->waste, VV_COMM_ROOT, error);
    return rc ? rc : vv_comm_most(save->job->comm, &out->fresh);
}

/* ---- which ---- */

struct choice {
    uint32_t at;
    uint64_t order;
};

static int compare_sources(const void *a, const void *b) {
    const struct choice *x = a, *y = b;
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : x->at < y->at ? -1 : 1;
}

struct choices {
    struct vv_save *save;
    const struct oldest *oldest;
    uint64_t live;     /* bytes of the sparse sources */
    uint32_t attempts; /* that are left */
};

static int is_open(const struct choices *choices, uint32_t at) {
    const struct oldest *oldest = choices->oldest;
    return oldest->live[at] > 0 && !oldest->pinned[at] && !choices->save->plan.is_sparse[oldest->source[at]];
}

static void add_sparse(struct choices *choices, uint32_t at) {
    choices->save->plan.is_sparse[choices->oldest->source[at]] = 1;
    choices->live += choices->oldest->live[at];
    choices->attempts--;
}

static uint64_t sum_live(const struct oldest *oldest) {
    uint64_t live = 0;
    for (uint32_t i = 0; i < oldest->count; i++)
        live += oldest->live[i];
    return live;
}

/* Does it lose bytes as others do? What never changes may stay where it is. */
static int is_decaying(const struct oldest *oldest, uint32_t at, uint64_t live, const struct measure *measure) {
    double usual = (double)measure->fresh * (double)oldest->live[at] / (double)live;
    return (double)oldest->lost[at] > DECAY * usual;
}

/* Nothing of a large attempt is freed before all of it is: so it is emptied before much else is wasted. */
static void choose_large(struct choices *choices, const struct measure *measure) {
    const struct oldest *oldest = choices->oldest;
    uint64_t live = sum_live(oldest), budget = (uint64_t)(RATE * (double)measure->fresh), step = live / LARGE_STEPS;
    uint64_t large = live / LARGE > 3 * budget ? live / LARGE : 3 * budget;
    step = step < LARGE_RATE * measure->fresh ? step : LARGE_RATE * measure->fresh;
    for (uint32_t i = 0; i < oldest->count && measure->waste > LARGE_BEGIN && choices->live == 0; i++)
        if (is_open(choices, i) && oldest->raw[i] > large && is_decaying(oldest, i, live, measure)) {
            add_sparse(choices, i);
            choices->save->plan.rewrite_left = step > budget ? step : budget;
        }
}

/* What is stored again keeps the attempt alive that it is stored in. That must be worth less than what is freed; or
 * there is so much waste that anything helps. */
static int does_pay(const struct measure *measure, uint64_t own, uint64_t freed, uint64_t budget) {
    uint64_t steps = (own + budget - 1) / budget;
    return measure->waste > OVERFULL || (double)freed > PAYS * (double)steps * (double)measure->fresh;
}

/* The emptiest, as far as the budget goes, and all of them or none. The first one may be emptied in several
 * checkpoints. */
static void choose_empty(struct choices *choices, const struct measure *measure) {
    struct vv_save *save = choices->save;
    const struct oldest *oldest = choices->oldest;
    struct choice list[OLDEST];
    uint64_t budget = (uint64_t)(find_rate(measure->waste) * (double)measure->fresh), live = 0, own = 0, freed = 0;
    size_t count = 0, taken = 0;
    for (uint32_t i = 0; i < oldest->count && budget > 0; i++)
        if (is_open(choices, i) && fullness(oldest, i) < WORTH)
            list[count++] = (struct choice){i, (uint64_t)(fullness(oldest, i) * FULL)};
    qsort(list, count, sizeof *list, compare_sources);
    budget = budget > save->plan.rewrite_left ? budget : save->plan.rewrite_left;
    for (; taken < count; taken++) {
        uint32_t at = list[taken].at;
        if (choices->live + live > 0 && choices->live + live + oldest->live[at] > budget)
            break;
        live += oldest->live[at];
        own += oldest->own[at];
        freed += less(oldest->raw[at], oldest->own[at]); /* what others hold there counts as live more than once */
    }
    if (taken == 0 || !does_pay(measure, own, freed, budget))
        return;
    save->plan.rewrite_left = budget;
    for (size_t i = 0; i < taken; i++)
        add_sparse(choices, list[i].at);
}

/* A restart opens every attempt, so there are not many of them: those go that have the fewest bytes. */
static void choose_small(struct choices *choices, const struct measure *measure) {
    const struct oldest *oldest = choices->oldest;
    struct choice list[OLDEST];
    uint64_t most = sum_live(oldest) / SMALL_STEPS, budget = 0;
    size_t count = 0;
    if (choices->attempts <= ATTEMPTS)
        return;
    most = measure->fresh > most ? measure->fresh : most;
    for (uint32_t i = 0; i < oldest->count; i++)
        if (is_open(choices, i))
            list[count++] = (struct choice){i, oldest->live[i]};
    qsort(list, count, sizeof *list, compare_sources);
    for (size_t i = 0; i < count && (i == 0 || budget + oldest->live[list[i].at] <= most); i++) {
        budget += oldest->live[list[i].at];
        add_sparse(choices, list[i].at);
    }
    if (budget > choices->save->plan.rewrite_left)
        choices->save->plan.rewrite_left = budget;
}

static void choose_sources(struct vv_save *save, const struct oldest *oldest, const struct measure *measure) {
    struct choices choices = {.save = save, .oldest = oldest};
    for (uint32_t i = 0; i < oldest->count; i++)
        choices.attempts += oldest->live[i] > 0;
    choose_large(&choices, measure);
    choose_small(&choices, measure);
    choose_empty(&choices, measure);
}

/* 1, 0 if nothing can be said, or an error of the group. Collective. */
static int measure_all(struct vv_save *save, int rc, struct oldest *oldest, struct measure *measure) {
    struct varve_error ignored = {.rank = -1};
    list_oldest(&save->job->lineage.history, oldest);
    int is_known = agree_on_sources(save, rc, oldest);
    if (is_known < 1)
        return is_known;
    return agree_on_live(save, oldest) == 0 && agree_on_measure(save, oldest, measure, &ignored) == 0;
}

/* While ranks do not ask each other, each of them would store what they share: so it waits until they do, which may be
 * next time. */
static int is_apart(struct vv_save *save, const struct measure *measure) {
    struct vv_rank_dedup *rank_dedup = save->rank_dedup;
    if (!rank_dedup->exchange || save->plan.is_shared)
        return 0;
    if (measure->waste > BEGIN)
        rank_dedup->rest = 0;
    return 1;
}

int vv_emptying_plan(struct vv_save *save, int rc, struct varve_error *error) {
    const struct vv_settings *settings = &save->job->settings;
    struct oldest oldest;
    struct measure measure;
    if (settings->space == 0 || settings->keep == 0)
        return rc;
    if (measure_all(save, rc, &oldest, &measure) < 1 || rc || is_apart(save, &measure))
        return rc;
    save->plan.is_sparse = vv_calloc(save->job->lineage.history.source_count, 1);
    if (!save->plan.is_sparse)
        return vv_error(error, -ENOMEM, "no memory to begin a checkpoint");
    choose_sources(save, &oldest, &measure);
    if (save->plan.rewrite_left == 0) { /* then nobody need look */
        vv_free(save->plan.is_sparse);
        save->plan.is_sparse = NULL;
    }
    return 0;
}

/* ---- doing it ---- */

void vv_emptying_look(struct vv_save *save) {
    uint64_t left = save->plan.rewrite_left;
    for (size_t i = 0; i < save->memory->regions.count && save->plan.is_sparse && left > 0; i++) {
        const struct vv_past *past = save->scans.list[i].past;
        struct vv_watch *watch = save->memory->regions.list[i].watch;
        for (size_t j = 0; watch && j < past->origins.count && left > 0; j++) {
            const struct vv_origin *origin = &past->origins.list[j];
            if (origin->kind == VV_ORIGIN_ZERO || !save->plan.is_sparse[origin->source])
                continue;
            int is_repeated = origin->kind == VV_ORIGIN_REPEATED; /* one piece is stored */
            uint64_t cost = is_repeated ? origin->piece : origin->length;
            cost = cost < left ? cost : left;
            vv_capture_mark(save->memory->capture, watch, origin->offset, is_repeated ? origin->length : cost);
            left -= cost;
        }
    }
}

int vv_emptying_take(struct vv_save *save, uint32_t size) {
    int may = save->plan.rewrite_left > 0;
    save->plan.rewrite_left = less(save->plan.rewrite_left, size);
    return may;
}

/* What nothing depends on any more stays as long as the checkpoints that did are kept. */
void vv_emptying_note(struct vv_save *save) {
    struct vv_history *history = &save->job->lineage.history;
    vv_history_own(history, save->job->comm->rank);
    size_t others = (size_t)save->job->settings.keep - 1; /* checkpoints that are kept beside the newest */
    others = others < VV_DYING ? others : VV_DYING;
    uint64_t dead = 0;
    for (uint32_t i = 0; i < history->source_count; i++) {
        struct vv_source *source = &history->sources[i];
        uint64_t lost = less(source->live_bytes, save->manifest.live[i]);
        if (save->plan.is_sparse && save->plan.is_sparse[i]) /* that it was emptied does not mean that it changes */
            lost = less(lost, save->sums.rewritten);
        source->lost_bytes = lost < source->lost_last ? lost : source->lost_last; /* once is not a habit */
        source->lost_last = lost;
        dead += history->is_alive[i] && save->manifest.live[i] == 0 ? source->raw_bytes : 0;
    }
    vv_lineage_note_dying(&save->job->lineage, dead, others);
}
