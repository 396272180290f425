/* The group of processes that checkpoint together, behind one ops struct. Every call is collective: all ranks make it, in the same order. */
#ifndef VV_COMM_H
#define VV_COMM_H

#include <stddef.h>
#include <stdint.h>

struct vv_comm;

struct vv_comm_ops {
    const char *name;
    /* The lowest code of all ranks: 0 only if it is 0 everywhere (errors are negative). rank_out (may be NULL) gets a rank that had it. */
    int (*agree)(struct vv_comm *comm, int code, uint32_t *rank_out);
    /* Everybody gets root's bytes. */
    int (*broadcast)(struct vv_comm *comm, void *data, size_t size, uint32_t root);
    void (*close)(struct vv_comm *comm);
};
struct vv_comm {
    const struct vv_comm_ops *ops;
    uint32_t rank;
    uint32_t ranks;
};

/* A group of one. */
extern struct vv_comm vv_comm_single;

#endif
