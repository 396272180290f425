/* What is cheapest for what does not fit staging: to hold it, to freeze it, or to drain it inside the call? All three
 * are estimated in seconds that the program loses, the first two by what they cost last time. */
#include <math.h>

#include "capture/capture_private.h"
#include "memory/process.h"

#define UNKNOWN_SPEED 500e6    /* bytes per second of a storage not measured yet */
#define LOOK_SECONDS 0.25e-9   /* to look at a byte that did not change */
#define NAME_SECONDS 0.4e-9    /* to give a byte its name and ask for it, before it was measured */
#define ARM_SECONDS 0.4e-6     /* to arm a page, before it was measured */
#define RELEASE_SECONDS 5.5e-6 /* to read, release and store a page of its own */
#define SCATTERED_SECONDS                                                                                              \
    3.5e-6 /* that a running program loses by the release of a page of its own: its processor is interrupted */
#define SCATTERED 4u             /* one jump in so many pages */
#define TRAP_SECONDS 20e-6       /* lost by a writer that is stopped, beside what it waits for */
#define PAGES_PER_TRAP 64.0      /* held pages per trap, before it was measured */
#define FREEZE_SECONDS 120e-9    /* a page of the process, to make a frozen copy, before it was measured */
#define FIRST_WRITE_SECONDS 1e-6 /* that the first write to a page takes longer when a frozen copy had it */
#define COPY_SECONDS 2.5e-6      /* and more, when it still has it */
#define COPIED 0.25              /* of what is frozen, written before it was given back, before it was measured */
#define FORGET 0.5               /* of what holding or freezing cost, for every checkpoint that did without */
#define NAME_FORGET 0.0625       /* of what naming cost; trying it again stops the program for longest */

/* Do expected writes jump about? Then pages are released one by one, which costs many times what a range costs. */
int vv_cost_is_scattered(const struct vv_capture *c) {
    uint32_t jumps = 0;
    for (uint32_t i = 1; i < c->order.count; i++) {
        int64_t step = (int64_t)c->order.list[i] - c->order.list[i - 1];
        jumps += step != 1 && step != -1;
    }
    return jumps > c->order.count / SCATTERED;
}

/* How many chunks are better drained before the call returns? A program that writes faster than pages can be released
 * runs into a trap at every page from where it has caught up. What it would lose there it can as well wait for
 * beforehand, without the traps: so many that the rest is released in the time the program needs for all. */
uint64_t vv_cost_drained_first(const struct vv_capture *c) {
    if (c->pace <= 0)
        return 0;
    double stored = c->plan.storage_speed > 0 ? VV_PAGE * c->plan.changed_share / c->plan.storage_speed : 0;
    double released = stored > RELEASE_SECONDS ? stored : RELEASE_SECONDS;
    double share = c->pace / released, all = c->order.count;
    double first = all - (double)c->slots.free_count - share * all;
    return first > 0 ? (uint64_t)first : 0;
}

static uint64_t pages_to_arm(const struct vv_capture *c) {
    uint64_t pages = 0;
    for (size_t i = 0; i < c->sorted_count; i++)
        if (c->sorted[i]->may_hold)
            pages += c->sorted[i]->page_end - c->sorted[i]->page_first;
    return pages;
}

static double cost_of_draining(const struct vv_capture *c, double excess) {
    double known = c->plan.drain_speed > c->plan.storage_speed ? c->plan.drain_speed : c->plan.storage_speed;
    double speed = known > 0 ? known : UNKNOWN_SPEED;
    return excess * VV_PAGE * (LOOK_SECONDS + c->plan.changed_share / speed);
}

static double cost_of_holding(const struct vv_capture *c, uint64_t scheduled, double excess) {
    double arm = c->arm_seconds_per_page > 0 ? c->arm_seconds_per_page : ARM_SECONDS;
    double traps = c->hold_traps >= 0 ? c->hold_traps : excess / PAGES_PER_TRAP;
    double pages = (double)pages_to_arm(c);
    /* What is held is not tracked meanwhile: next time all of it has to be looked at. */
    double hold = pages * (arm + VV_PAGE * LOOK_SECONDS) + traps * TRAP_SECONDS + c->hold_seconds_waited;
    if (c->was_scattered)
        hold += excess * SCATTERED_SECONDS;
    /* What was held last time counts as changed. If so little really changes that it will fit staging as soon as it is
     * tracked again, that is worth looking at everything once. */
    double share = c->was_first ? c->sampled_share : c->plan.changed_share;
    if (c->was_held_before && c->noted && c->preferred == c->noted &&
        share * (double)scheduled < (double)c->slots.count)
        return INFINITY;
    return hold;
}

/* Page tables are copied, and whatever is written next was shared with the copy. */
static double cost_of_freezing(const struct vv_capture *c, uint64_t scheduled, double excess) {
    int64_t resident = vv_process_resident();
    double pages = resident > 0 ? (double)resident : (double)scheduled;
    double make = c->freeze_seconds_per_page > 0 ? c->freeze_seconds_per_page : FREEZE_SECONDS;
    double copies = c->frozen_copies >= 0 ? c->frozen_copies : excess * COPIED;
    copies = copies < excess ? copies : excess;
    return pages * make + (double)scheduled * FIRST_WRITE_SECONDS + copies * COPY_SECONDS;
}

/* So that the copy does not grow too large. */
static double cost_of_bounding(const struct vv_capture *c, double excess) {
    return cost_of_draining(c, (double)c->drain_first < excess ? (double)c->drain_first : excess);
}

/* Of what was named, others store a part: what is left may fit. */
int vv_cost_defers(const struct vv_capture *c, uint64_t scheduled) {
    double own = (double)scheduled * (c->plan.own_share > 0 ? c->plan.own_share : 1), slots = (double)c->slots.count;
    double name = c->name_seconds_per_page > 0 ? c->name_seconds_per_page : VV_PAGE * NAME_SECONDS;
    double here = (double)scheduled * name + cost_of_draining(c, own > slots ? own - slots : 0);
    return c->freezing == VV_FREEZE_ALWAYS || cost_of_freezing(c, scheduled, (double)scheduled - slots) < here;
}

enum vv_rest vv_cost_choose(struct vv_capture *c, uint64_t scheduled, int can_hold, int can_freeze) {
    double excess = (double)(scheduled - c->slots.count), drain = cost_of_draining(c, excess);
    double hold = can_hold ? cost_of_holding(c, scheduled, excess) : INFINITY;
    double freeze = can_freeze ? cost_of_freezing(c, scheduled, excess) + cost_of_bounding(c, excess) : INFINITY;
    if (can_freeze && c->freezing == VV_FREEZE_ALWAYS)
        return VV_REST_FREEZE;
    if (freeze < drain && freeze < hold)
        return VV_REST_FREEZE;
    return hold < drain ? VV_REST_HOLD : VV_REST_DRAIN;
}

/* Ranks that share processors name their bytes many times slower than one alone. */
void vv_cost_named(struct vv_capture *c, double seconds, uint64_t pages) {
    if (pages > 0)
        c->name_seconds_per_page = seconds / (double)pages;
}

/* To know what a copy would have: a part of what one takes, and charged also where none was made after all. */
void vv_cost_walked(struct vv_capture *c, double seconds, uint64_t pages) {
    double known = c->freeze_seconds_per_page > FREEZE_SECONDS ? c->freeze_seconds_per_page : FREEZE_SECONDS;
    if (pages > 0 && seconds / (double)pages > known)
        c->freeze_seconds_per_page = seconds / (double)pages;
}

void vv_cost_frozen(struct vv_capture *c, double seconds, uint64_t pages) {
    if (pages > 0)
        c->freeze_seconds_per_page = seconds / (double)pages;
}

void vv_cost_armed(struct vv_capture *c, double seconds, uint64_t pages) {
    if (pages > 0)
        c->arm_seconds_per_page = seconds / (double)pages;
}

/* The epoch is over: what did it cost? */
void vv_cost_learn(struct vv_capture *c) {
    if (c->sums.bytes_frozen > 0) {
        c->frozen_copies = (double)c->sums.frozen_memory / VV_PAGE;
        if (c->name_seconds_per_page > VV_PAGE * NAME_SECONDS)
            c->name_seconds_per_page -= (c->name_seconds_per_page - VV_PAGE * NAME_SECONDS) * NAME_FORGET;
    } else {
        if (c->frozen_copies > 0)
            c->frozen_copies *= FORGET;
        if (c->freeze_seconds_per_page > FREEZE_SECONDS)
            c->freeze_seconds_per_page -= (c->freeze_seconds_per_page - FREEZE_SECONDS) * FORGET;
    }
    if (c->was_held) {
        c->hold_traps = (double)c->sums.trapped_pages;
        c->hold_seconds_waited = c->sums.seconds_waited;
    } else if (c->hold_traps > 0) {
        c->hold_traps *= FORGET;
        c->hold_seconds_waited *= FORGET;
    }
}
