/* A lender of blocks for the ranks of a node (store/block_lend.h). */
#ifndef VV_LENDER_H
#define VV_LENDER_H

#include "peers/peers_private.h"
#include "store/block_lend.h"

struct vv_lender;
struct vv_read_costs;

/* Each node's ranks give the same sizes. */
struct vv_lender_options {
    uint32_t block_size; /* larger blocks are not lent */
    uint64_t budget;     /* bytes of a node, unless that is for too few blocks, or more than is of use */
    double share;        /* what the rank that reads least reads, of what this one does: 0 to 1 */
    struct varve_backend *backend;
    struct vv_read_costs *costs;
};
/* Collective, and the same code on all ranks; -ENOTSUP where ranks of a node cannot share memory. */
int vv_lender_open(struct varve_comm *comm, const struct vv_lender_options *options, struct vv_lender **out,
                   struct varve_error *error);
/* This rank will not ask for a while: nobody shall keep anything for it. Accepts NULL. */
void vv_lender_rest(struct vv_lender *lender);
void vv_lender_close(struct vv_lender *lender); /* not collective; accepts NULL */

extern const struct vv_lend_ops vv_lender_ops; /* arg is a struct vv_lender */

#endif
