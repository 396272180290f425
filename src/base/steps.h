/* How far work is that consists of steps: found as it goes on, each about one request to the storage. */
#ifndef VV_STEPS_H
#define VV_STEPS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

struct vv_steps {
    int (*fn)(void *arg, uint64_t done, uint64_t total); /* nonzero: stop */
    void *arg;
    uint64_t done;
    uint64_t total;           /* that are known */
    size_t parts, parts_done; /* of the work, names say: those to come are taken to be as large as those before */
};

/* So many were found. Whatever is given here may be NULL: then nobody asks. */
static inline void vv_steps_found(struct vv_steps *steps, uint64_t count) {
    if (steps)
        steps->total += count;
}

/* So many are left at least. */
static inline void vv_steps_left(struct vv_steps *steps, uint64_t count) {
    if (steps && steps->total < steps->done + count)
        steps->total = steps->done + count;
}

/* One is done: 0, or -EINTR to stop. */
static inline int vv_steps_did(struct vv_steps *steps) {
    if (!steps)
        return 0;
    steps->done++;
    vv_steps_left(steps, 0);
    uint64_t left = steps->parts > steps->parts_done ? steps->parts - steps->parts_done - 1 : 0;
    return steps->fn(steps->arg, steps->done, steps->total + steps->total / (steps->parts_done + 1) * left) ? -EINTR
                                                                                                            : 0;
}

#endif
