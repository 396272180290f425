/* What the ranks have done for a checkpoint, in numbers that add up (job.h). They travel with the votes. */
#include <stdlib.h>

#include "base/alloc.h"
#include "job/job.h"

struct vv_spread vv_spread_of(uint64_t value, uint32_t rank) {
    return (struct vv_spread){.least = value, .most = value, .sum = value, .most_rank = rank};
}

void vv_spread_add(struct vv_spread *to, const struct vv_spread *other) {
    to->least = other->least < to->least ? other->least : to->least;
    to->sum += other->sum;
    if (other->most <= to->most)
        return;
    to->most = other->most;
    to->most_rank = other->most_rank;
}

void vv_tally_add(struct vv_tally *to, const struct vv_tally *other) {
    for (unsigned i = 0; i < VV_TALLY_SUMS; i++)
        to->sums[i] += other->sums[i];
    vv_spread_add(&to->changed, &other->changed);
    vv_spread_add(&to->took, &other->took);
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Without memory there is no median. */
void vv_tally_writers(struct vv_tally *to, const struct vv_writers *writers) {
    uint64_t *list = vv_malloc(writers->count * sizeof *list + 1);
    to->writers = writers->count;
    for (uint32_t i = 0; i < writers->count; i++) {
        uint64_t bytes = writers->list[i].pack_length + writers->list[i].parts_length;
        struct vv_spread own = vv_spread_of(bytes, writers->list[i].first_owner);
        if (i == 0)
            to->written = own;
        else
            vv_spread_add(&to->written, &own);
        if (list)
            list[i] = bytes;
    }
    if (list && writers->count) {
        qsort(list, writers->count, sizeof *list, compare);
        to->written_median = list[(writers->count - 1) / 2];
    }
    vv_free(list);
}
