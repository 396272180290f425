/* Is it cheaper to hold what does not fit staging, or to drain it inside the call? Both are estimated in seconds that the program loses,
 * holding by what it cost last time. */
#include "memory/capture_private.h"

#define UNKNOWN_SPEED 500e6      /* bytes per second of a storage not measured yet */
#define LOOK_SECONDS 0.25e-9     /* to look at a byte that did not change */
#define ARM_SECONDS 0.4e-6       /* to arm a page, before it was measured */
#define TRAP_SECONDS 20e-6       /* lost by a writer that is stopped, beside what it waits for */
#define PAGES_PER_TRAP 64.0      /* held pages per trap, before it was measured */
#define FORGET 0.5               /* of what holding cost, for every checkpoint that did without: it may be better by now */

/* Of the chunks that could be held, how many are better drained before the call returns. */
static uint64_t drained_first(const struct vv_capture *c, uint64_t excess) {
    (void)c;
    (void)excess;
    return 0;
}

static uint64_t pages_to_arm(const struct vv_capture *c) {
    uint64_t pages = 0;
    for (size_t i = 0; i < c->sorted_count; i++)
        if (c->sorted[i]->may_hold)
            pages += c->sorted[i]->page_end - c->sorted[i]->page_first;
    return pages;
}

int vv_cost_holding_pays(struct vv_capture *c, uint64_t scheduled, uint64_t *drain_first) {
    double excess = (double)(scheduled - c->slots.count);
    double speed = c->plan.storage_speed > 0 ? c->plan.storage_speed : UNKNOWN_SPEED;
    double arm = c->arm_seconds_per_page > 0 ? c->arm_seconds_per_page : ARM_SECONDS;
    double traps = c->hold_traps >= 0 ? c->hold_traps : excess / PAGES_PER_TRAP;
    double drain = excess * VV_PAGE * (LOOK_SECONDS + c->plan.changed_share / speed);
    double hold = arm * (double)pages_to_arm(c) + traps * TRAP_SECONDS + c->hold_seconds_waited;
    *drain_first = drained_first(c, scheduled - c->slots.count);
    return hold < drain;
}

void vv_cost_armed(struct vv_capture *c, double seconds, uint64_t pages) {
    if (pages > 0)
        c->arm_seconds_per_page = seconds / (double)pages;
}

/* The epoch is over: what did it cost? */
void vv_cost_learn(struct vv_capture *c) {
    if (c->was_held) {
        c->hold_traps = (double)c->sums.trapped_pages;
        c->hold_seconds_waited = c->sums.seconds_waited;
    } else if (c->hold_traps > 0) {
        c->hold_traps *= FORGET;
        c->hold_seconds_waited *= FORGET;
    }
}
