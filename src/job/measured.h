/* What this run has shown so far about the storage, the processors and the data. */
#ifndef VV_MEASURED_H
#define VV_MEASURED_H

#include <stdint.h>

struct vv_measured {
    double storage_speed;    /* bytes per second from the call until all is stored, hashing and compressing included; 0
                                before the first */
    double stream_speed;     /* of the storage by itself, as the stream of blocks has shown; 0: it has not yet */
    double spare;            /* processors that were free for us during the last checkpoint; 0 before the first */
    double changed_share;    /* of what was looked at in the last checkpoint, what was different; 1 before the first */
    double fine_look;        /* seconds per byte of granules that were looked at finely; 0 before the first */
    char fine_reason[64];    /* what the last sample has shown */
    uint64_t last_fresh;     /* new bytes in the last checkpoint that this rank has stored, */
    uint64_t last_elsewhere; /* and that others have stored */
};

/* The mean of what is known and a new sample. */
static inline void vv_learn(double *known, double sample) {
    *known = *known > 0 ? (*known + sample) / 2 : sample;
}
/* What is known, or what is usual before anything was measured. */
static inline double vv_known_or(double known, double usual) {
    return known > 0 ? known : usual;
}

#endif
