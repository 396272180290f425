/* Questions about the same id meet: they are put in order, and what lies together becomes one. */
#include <errno.h>

#include "base/alloc.h"
#include "base/sort.h"
#include "comm/hops_private.h"

static const uint8_t in_merged[1]; /* stands for an address in a buffer that may still move */

static void find_merged(struct vv_meeting *meeting) {
    size_t at = 0;
    for (size_t i = 0; i < meeting->count && at < meeting->merged.size; i++)
        if (meeting->list[i].data == in_merged) {
            meeting->list[i].data = meeting->merged.data + at;
            at += meeting->list[i].size;
        }
}

/* One question for `count` about the same id. */
static int merge_same(struct vv_meeting *meeting, const struct vv_question *same, size_t count,
                      const struct vv_hops_ops *ops, void *arg) {
    struct vv_question *one = &meeting->list[meeting->count++];
    if (count == 1 || !ops->merge) {
        *one = *same;
        return 0;
    }
    size_t before = meeting->merged.size;
    int rc = ops->merge(arg, same, count, &meeting->merged);
    if (rc == 0)
        rc = meeting->merged.failed;
    if (rc)
        return rc;
    if (meeting->merged.size - before >= UINT32_MAX)
        return -EOVERFLOW;
    *one = (struct vv_question){same->id, same->home, (uint32_t)(meeting->merged.size - before), in_merged};
    return 0;
}

/* Sorted questions become those of the meeting, in the same memory: there are never more than before. */
static int merge_all(struct vv_meeting *meeting, size_t count, const uint32_t *from, uint32_t *met,
                     const struct vv_hops_ops *ops, void *arg) {
    const struct vv_question *sorted = meeting->list;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && vv_hash128_equal(sorted[end].id, sorted[i].id);)
            end++;
        for (size_t k = i; k < end; k++)
            met[from[k]] = (uint32_t)meeting->count;
        int rc = merge_same(meeting, sorted + i, end - i, ops, arg);
        if (rc)
            return rc;
    }
    find_merged(meeting);
    return 0;
}

int vv_meet(struct vv_meeting *meeting, const struct vv_question *questions, size_t count, uint32_t *met,
            const struct vv_hops_ops *ops, void *arg) {
    *meeting = (struct vv_meeting){0};
    if (count == 0)
        return 0;
    if (count > UINT32_MAX / 2)
        return -EOVERFLOW;
    uint32_t *from = vv_malloc(count * sizeof *from);
    meeting->list = vv_malloc(count * sizeof *meeting->list);
    int rc = from && meeting->list ? vv_order_by_id(&questions->id, sizeof *questions, count, from) : -ENOMEM;
    for (size_t i = 0; i < count && rc == 0; i++)
        meeting->list[i] = questions[from[i]];
    if (rc == 0)
        rc = merge_all(meeting, count, from, met, ops, arg);
    vv_free(from);
    if (rc)
        vv_meeting_clear(meeting);
    return rc;
}

void vv_meeting_clear(struct vv_meeting *meeting) {
    vv_free(meeting->list);
    vv_buf_clear(&meeting->merged);
    *meeting = (struct vv_meeting){0};
}
