/* The processors that this process may use, and how much of them nobody used. */
#ifndef VV_PROCESSORS_H
#define VV_PROCESSORS_H

#include <stdint.h>

struct vv_processors {
    unsigned count;   /* that the calling thread may run on; at least 1 */
    uint64_t idle_ns; /* of all of them together since the machine started; 0 if the system does not tell */
    uint64_t now_ns;
};
void vv_processors_look(struct vv_processors *out);
/* How many were idle between two looks, on average; -1 if that cannot be told: the looks are too close. */
double vv_processors_idle(const struct vv_processors *before, const struct vv_processors *after);

#endif
