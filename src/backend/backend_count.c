/* Counts what passes: calls, errors and bytes per verb, and the time of reading. */
#include <errno.h>
#include <stdatomic.h>

#include "backend/backend_wrap_private.h"
#include "base/alloc.h"
#include "base/thread.h"

struct count {
    struct wrap wrap;
    atomic_uint_least64_t calls[VV_VERB_COUNT];
    atomic_uint_least64_t errors[VV_VERB_COUNT];
    atomic_uint_least64_t bytes[VV_VERB_COUNT];
    atomic_uint_least64_t get_ns;
};

static int count_enter(struct wrap *wrap, struct wrap_op *op) {
    (void)wrap;
    op->mark = op->verb == VV_VERB_GET ? vv_clock_ns() : 0;
    return 0;
}

static int64_t count_leave(struct wrap *wrap, struct wrap_op *op, int64_t result) {
    struct count *count = (struct count *)wrap;
    atomic_fetch_add_explicit(&count->calls[op->verb], 1, memory_order_relaxed);
    if (result < 0)
        atomic_fetch_add_explicit(&count->errors[op->verb], 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&count->bytes[op->verb], op->verb == VV_VERB_GET ? (uint64_t)result : op->size,
                                  memory_order_relaxed);
    if (op->verb == VV_VERB_GET)
        atomic_fetch_add_explicit(&count->get_ns, vv_clock_ns() - op->mark, memory_order_relaxed);
    return result;
}

static const struct wrap_hooks count_hooks = {.name = "count", .enter = count_enter, .leave = count_leave};

int vv_count_backend_wrap(struct varve_backend *inner, struct varve_backend **out) {
    struct count *count = vv_calloc(1, sizeof(*count));
    if (!count)
        return -ENOMEM;
    vv_wrap_init(&count->wrap, &count_hooks, inner);
    *out = &count->wrap.base;
    return 0;
}

int vv_count_get(struct varve_backend *backend, struct vv_backend_counts *out) {
    struct count *count = (struct count *)vv_wrap_find(backend, &count_hooks);
    if (!count)
        return VARVE_UNSUPPORTED;
    *out = (struct vv_backend_counts){0};
    for (int i = 0; i < VV_VERB_COUNT; i++) {
        out->calls[i] = atomic_load(&count->calls[i]);
        out->errors[i] = atomic_load(&count->errors[i]);
        out->bytes[i] = atomic_load(&count->bytes[i]);
    }
    out->bytes_written = out->bytes[VV_VERB_WRITE] + out->bytes[VV_VERB_REPLACE];
    out->bytes_read = out->bytes[VV_VERB_GET];
    out->get_ns = atomic_load(&count->get_ns);
    return 0;
}
