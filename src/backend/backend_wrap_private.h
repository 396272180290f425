/* What the wrappers share: a backend that passes every verb to the one inside, with a hook before and one after.
 *
 *   enter(wrap, op)          may wait, and may change op->size of a write, replace or get to less; a negative result is
 *                            returned instead of doing the verb
 *   leave(wrap, op, result)  sees the result (a count for get) and returns the one to report, or WRAP_AGAIN to have the
 *                            verb done again
 *
 * A commit that enter() refuses aborts the inner upload, as the verb frees it in every case. A list that is done again
 * goes on after the last name that was handed out. */
#ifndef VV_BACKEND_WRAP_PRIVATE_H
#define VV_BACKEND_WRAP_PRIVATE_H

#include "backend/backend_parts.h"

#define WRAP_AGAIN INT64_MIN /* never the result of a verb */

struct wrap_op {
    enum vv_verb verb;
    const char *key; /* or prefix, or NULL */
    const void *data_in;
    void *data_out;
    size_t size;
    unsigned tries; /* how often it was done again */
    uint64_t mark;  /* these two for the wrapper's own use between enter and leave */
    void *owned;
};

struct wrap;
struct wrap_hooks {
    const char *name;
    int (*enter)(struct wrap *wrap, struct wrap_op *op);                     /* may be NULL */
    int64_t (*leave)(struct wrap *wrap, struct wrap_op *op, int64_t result); /* may be NULL */
    void (*destroy)(struct wrap *wrap); /* may be NULL; the memory itself is freed by the caller */
};

/* First member of every wrapper. */
struct wrap {
    struct varve_backend base;
    struct varve_backend *inner;
    const struct wrap_hooks *hooks;
};

/* What the verbs of a wrapper are; one with verbs of its own has a copy of it, with close as it is here. */
extern const struct varve_backend_ops vv_wrap_ops;
void vv_wrap_init(struct wrap *wrap, const struct wrap_hooks *hooks, struct varve_backend *inner);
/* The nearest wrapper with these hooks in backend or inside it; NULL if there is none. */
struct wrap *vv_wrap_find(struct varve_backend *backend, const struct wrap_hooks *hooks);

#endif
