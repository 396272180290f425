/* What all ranks have, put together along a tree: as many steps as the number of ranks has bits. */
#include "base/bytes.h"
#include "comm/comm.h"

struct step {
    const struct vv_merging *merging;
    int rc; /* of this rank: what follows is passed on, and not taken */
};

static int take(void *arg, uint32_t rank, const void *data, size_t size) {
    struct step *step = arg;
    (void)rank;
    if (step->rc == 0 && size > 0)
        step->rc = step->merging->take(step->merging->arg, data, size);
    return 0; /* the group can talk; what went wrong is this rank's own */
}

static void give(struct step *step, struct vv_buf *out) {
    if (step->rc == 0)
        step->rc = step->merging->give(step->merging->arg, out);
    if (step->rc)
        out->size = 0;
}

/* A group that has no exchange: rank 0 takes from one after the other, itself included. */
static int merge_in_turn(struct varve_comm *comm, struct step *step) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    if (!vv_comm_is_root(comm)) /* it has its own already */
        give(step, &buf);
    int rc = comm->ops->gather(comm, buf.data, buf.size, take, step);
    vv_buf_clear(&buf);
    return rc;
}

/* Its turn to give has come, which is its last step. */
static int send_to(struct varve_comm *comm, struct step *step, uint32_t rank) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    give(step, &buf);
    struct varve_message message = {.rank = rank, .data = buf.data, .size = buf.size};
    int rc = comm->ops->exchange(comm, &message, 1, NULL, 0, take, step);
    vv_buf_clear(&buf);
    return rc;
}

/* What cannot be received, for want of memory perhaps, is this rank's failure: the others still wait for what it gives.
 */
static void receive_from(struct varve_comm *comm, struct step *step, uint32_t rank) {
    int rc = comm->ops->exchange(comm, NULL, 0, &rank, 1, take, step);
    step->rc = step->rc ? step->rc : rc;
}

int vv_comm_merge(struct varve_comm *comm, const struct vv_merging *merging) {
    struct step step = {.merging = merging};
    int rc = 0;
    if (!comm->ops->exchange)
        rc = merge_in_turn(comm, &step);
    for (uint64_t bit = 1; comm->ops->exchange && bit < comm->ranks; bit *= 2) {
        if (comm->rank & bit) {
            rc = send_to(comm, &step, (uint32_t)(comm->rank - bit));
            break;
        }
        if (comm->rank + bit < comm->ranks)
            receive_from(comm, &step, (uint32_t)(comm->rank + bit));
    }
    return step.rc ? step.rc : rc;
}
