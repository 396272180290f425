/* The audit: trackers are not believed blindly. A device that writes past the page table, a kernel with a bug, a
 * program that found a way we did not think of: all end in chunks that have changed and that no tracker reports. At
 * every checkpoint some of those that were not reported are chosen at random and compared with the ids of the last one.
 * One that differs proves the tracker wrong: the checkpoint fails, and the region is looked at whole from then on.
 * Inside the call, since only then does nobody write them. */
#include <errno.h>
#include <inttypes.h>

#include "save/save_private.h"

#define LEAST 64u       /* chunks, whatever they cost */
#define MOST (1u << 16) /* however much time there is */
#define SHARE 0.005 /* of the processor time of the call, if that is more: half of what it may be, since times vary */
#define GUESS 4e-6  /* seconds per chunk, before it was measured */

#define AHEAD 8u /* chunks that are on their way from memory while another one is compared */
#define LINE 64u

struct drawn {
    struct vv_watch *watch;
    uint64_t chunk;
    const uint8_t *data;
};

struct audit {
    struct vv_save *save;
    struct drawn drawn[AHEAD];
    uint64_t count;               /* drawn; all but the last few are compared */
    const struct vv_region *liar; /* the first that was found */
    uint64_t offset;
};

/* By plain loads: memory that is tracked can be read. What cannot was told when it became so, and is not tracked since.
 */
static void compare_drawn(struct audit *audit, const struct drawn *drawn) {
    struct vv_watch *watch = drawn->watch;
    const struct vv_scan *scan = watch->user;
    if (watch->is_doubted || vv_scan_is_same(watch->user, drawn->chunk, drawn->data))
        return;
    struct vv_region *region = &audit->save->memory->regions.list[scan - audit->save->scans.list];
    watch->is_doubted = region->is_doubted = 1;
    if (!audit->liar) {
        audit->liar = region;
        audit->offset = drawn->chunk * VV_GRANULE;
    }
}

/* Chunks drawn at random are in no cache: most of the time would be waiting for them, one line after the other. */
static int take_drawn(void *arg, struct vv_watch *watch, uint64_t chunk, const uint8_t *data) {
    struct audit *audit = arg;
    struct drawn *place = &audit->drawn[audit->count % AHEAD];
    if (audit->count++ >= AHEAD)
        compare_drawn(audit, place);
    *place = (struct drawn){watch, chunk, data};
    uint32_t size = vv_scan_prefetch(watch->user, chunk);
    for (uint32_t at = 0; at < size; at += LINE)
        __builtin_prefetch(data + at);
    return 0;
}

static uint64_t how_many(const struct vv_audit_state *state) {
    double per_chunk = state->chunk_seconds > 0 ? state->chunk_seconds : GUESS;
    double affordable = SHARE * state->call_seconds / per_chunk;
    return affordable > MOST ? MOST : affordable > LEAST ? (uint64_t)affordable : LEAST;
}

static void learn(struct vv_audit_state *state, double seconds, uint64_t count) {
    double now = count ? seconds / (double)count : 0;
    if (now > 0)
        vv_learn(&state->chunk_seconds, now);
}

int vv_audit(struct vv_save *save, struct varve_error *error) {
    struct vv_audit_state *state = save->audit;
    struct audit audit = {.save = save};
    uint64_t begin = vv_clock_thread_ns();
    int rc = state->random ? 0 : vv_random(&state->random, sizeof state->random);
    if (rc == 0)
        rc = vv_capture_unreported(save->memory->capture, how_many(state), &state->random, take_drawn, &audit);
    for (uint64_t i = audit.count > AHEAD ? audit.count - AHEAD : 0; i < audit.count; i++)
        compare_drawn(&audit, &audit.drawn[i % AHEAD]);
    save->outcome.stats.chunks_audited = audit.count;
    save->outcome.stats.seconds_audit = (double)(vv_clock_thread_ns() - begin) * 1e-9;
    learn(state, save->outcome.stats.seconds_audit, audit.count);
    if (rc)
        return vv_error(error, rc, "what the trackers have told could not be checked: %s", varve_error_text(rc));
    if (!audit.liar)
        return 0;
    return vv_error(error, -EFAULT,
                    "region %s changed at offset %" PRIu64
                    ", and the tracker (%s) did not notice: a device, a registered buffer or a thread wrote it."
                    " Use VARVE_DEVICE_WRITES or tracker=none. Older checkpoints may hold old bytes",
                    audit.liar->name, audit.offset, vv_capture_tracker(save->memory->capture));
}

void vv_audit_learn(struct vv_save *save, double seconds) {
    vv_learn(&save->audit->call_seconds, seconds);
}
