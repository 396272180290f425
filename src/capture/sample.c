/* Learns the order of writes before anything was held: looks at the kernel's notes while the program runs. */
#include "base/thread.h"
#include "capture/capture_private.h"

#define SAMPLES 2000u        /* in an epoch */
#define SAMPLES_PER_STEP 64u /* then half as often */
#define SAMPLE_SHARE 20u     /* one in so many of the time */

struct sampling {
    struct vv_capture *capture;
    struct vv_watched *watched;
};

static int note_sample(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    struct sampling *sampling = arg;
    struct vv_watched *w = sampling->watched;
    uint64_t last = (offset + length + VV_PAGE - 1) / VV_PAGE;
    if (is_untouched)
        return 0;
    vv_lock_take(&sampling->capture->lock);
    for (uint64_t chunk = offset / VV_PAGE; chunk < last && chunk < w->base.chunks; chunk++)
        vv_order_note(sampling->capture, w, chunk, VV_ACCESS_AFTER);
    vv_lock_give(&sampling->capture->lock);
    return 0;
}

static int wants_samples(const struct vv_capture *c, const struct vv_watched *w) {
    return !w->has_order && !w->is_left && w->is_attached && w->base.tracker->ops->peek &&
           w->base.size > c->plan.staging;
}

/* What one sample sees comes in ascending order. A program on its way down wrote it in descending order. */
static void turn_if_descending(struct vv_capture *c, uint32_t before) {
    struct vv_watch_numbers *log = &c->log_of_writes;
    if (before < log->count && before > 0 && log->list[log->count - 1] < c->sampled_lowest)
        for (uint32_t i = before, j = log->count - 1; i < j; i++, j--) {
            uint32_t number = log->list[i];
            log->list[i] = log->list[j];
            log->list[j] = number;
        }
    if (before < log->count) {
        uint32_t first = log->list[before], last = log->list[log->count - 1];
        c->sampled_lowest = first < last ? first : last;
    }
}

/* How fast the program comes to new pages, from the first sample that saw some to the last. */
static void note_pace(struct vv_capture *c, uint32_t before) {
    uint64_t now = vv_clock_ns();
    if (c->log_of_writes.count == before)
        return;
    if (before == 0)
        c->sampled_ns = now;
    else if (c->sampled_ns)
        c->pace = (double)(now - c->sampled_ns) * 1e-9 / (double)c->log_of_writes.count;
}

unsigned vv_capture_sample(struct vv_capture *c) {
    if (c->mode != VV_CHOOSE_CAPTURE_AUTO || c->ordering != VV_CHOOSE_ORDER_LEARNED || c->is_begun ||
        c->samples >= SAMPLES)
        return 0;
    uint64_t start = vv_clock_ns(), wanted = 0;
    if (c->has_changed && vv_watches_take_in(c) != 0)
        return 0;
    vv_begin_early(c);
    uint32_t before = c->log_of_writes.count;
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct sampling sampling = {c, c->sorted[i]};
        if (!wants_samples(c, sampling.watched))
            continue;
        wanted += sampling.watched->base.chunks;
        sampling.watched->base.tracker->ops->peek(sampling.watched->base.tracker, &sampling.watched->base, note_sample,
                                                  &sampling);
    }
    c->samples++;
    vv_lock_take(&c->lock);
    note_pace(c, before);
    turn_if_descending(c, before);
    vv_lock_give(&c->lock);
    if (wanted == 0 || (c->log_of_writes.count >= wanted && c->log_of_writes.count == before))
        return 0;
    if (c->samples % SAMPLES_PER_STEP == 0)
        c->sample_ms *= 2;
    uint64_t least_ms = (vv_clock_ns() - start) * SAMPLE_SHARE / 1000000;
    return (unsigned)(least_ms > c->sample_ms ? least_ms : c->sample_ms);
}
