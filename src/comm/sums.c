/* Running sums over the ranks: as many steps as the number of ranks has bits. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "comm/comm.h"

struct step {
    uint64_t *sums;
    size_t count;
    int rc; /* of this rank */
};

/* A message is the code of its sender, and if that is 0 its sums. Whoever hears of a failure has it, too. In an
 * exchange those are ranks behind the one where it happened, so an agreement tells of that one. */
static int add(void *arg, uint32_t rank, const void *data, size_t size) {
    struct step *step = arg;
    int64_t code = 0;
    (void)rank;
    if (size >= sizeof code)
        memcpy(&code, data, sizeof code);
    if (step->rc == 0 && code < 0 && code > INT32_MIN)
        step->rc = (int)code;
    else if (step->rc == 0 && size != sizeof code + step->count * sizeof *step->sums)
        step->rc = VARVE_DISAGREED;
    for (size_t i = 0; step->rc == 0 && i < step->count; i++) {
        uint64_t value;
        memcpy(&value, (const uint8_t *)data + sizeof code + i * sizeof value, sizeof value);
        step->sums[i] += value;
    }
    return 0; /* the group can talk; what went wrong is this rank's own */
}

/* What this rank sends; without memory it is the code alone. */
static struct varve_message write_message(struct step *step, int64_t *code, struct vv_buf *buf) {
    *code = 0;
    vv_buf_append(buf, code, sizeof *code);
    vv_buf_append(buf, step->sums, step->count * sizeof *step->sums);
    step->rc = step->rc ? step->rc : buf->failed;
    *code = step->rc;
    return (struct varve_message){.data = step->rc ? (const void *)code : buf->data,
                                  .size = step->rc ? sizeof *code : buf->size};
}

/* Each rank has the sums of so many ranks up to itself; now of twice as many. A rank in trouble goes on sending: the
 * others wait for it. */
static void double_up(struct varve_comm *comm, struct step *step, uint64_t distance) {
    struct vv_buf buf;
    int64_t code;
    vv_buf_init(&buf);
    struct varve_message message = write_message(step, &code, &buf);
    message.rank = (uint32_t)(comm->rank + distance);
    uint32_t from = (uint32_t)(comm->rank - distance);
    int rc = comm->ops->exchange(comm, &message, comm->rank + distance < comm->ranks, &from, comm->rank >= distance,
                                 add, step);
    step->rc = step->rc ? step->rc : rc;
    vv_buf_clear(&buf);
}

struct turn {
    struct step *step;
    struct vv_buf all; /* running sums of all ranks */
};

static int add_in_turn(void *arg, uint32_t rank, const void *data, size_t size) {
    struct turn *turn = arg;
    add(turn->step, rank, data, size);
    vv_buf_append(&turn->all, turn->step->sums, turn->step->count * sizeof(uint64_t));
    return 0;
}

/* A group that has no exchange: rank 0 adds up for all. */
static int sum_in_turn(struct varve_comm *comm, struct step *step) {
    struct turn turn = {.step = step};
    struct varve_error ignored = {0};
    struct vv_buf own;
    int64_t code;
    vv_buf_init(&turn.all);
    vv_buf_init(&own);
    struct varve_message message = write_message(step, &code, &own);
    if (vv_comm_is_root(comm))
        memset(step->sums, 0, step->count * sizeof(uint64_t));
    int rc = comm->ops->gather(comm, message.data, message.size, add_in_turn, &turn);
    step->rc = step->rc ? step->rc : turn.all.failed;
    if (rc == 0)
        rc = vv_comm_share(comm, &turn.all, VV_COMM_ROOT, &ignored);
    size_t each = step->count * sizeof(uint64_t);
    if (rc == 0 && turn.all.size == each * comm->ranks)
        memcpy(step->sums, turn.all.data + each * comm->rank, each);
    else
        step->rc = step->rc ? step->rc : VARVE_DISAGREED;
    vv_buf_clear(&turn.all);
    vv_buf_clear(&own);
    return rc;
}

int vv_comm_sums(struct varve_comm *comm, uint64_t *values, size_t count, uint64_t *total) {
    struct step step = {.sums = values, .count = count};
    int rc = comm->ops->exchange ? 0 : sum_in_turn(comm, &step);
    for (uint64_t distance = 1; comm->ops->exchange && distance < comm->ranks; distance *= 2)
        double_up(comm, &step, distance);
    memcpy(total, values, count * sizeof *total);
    int told = comm->ops->broadcast(comm, total, count * sizeof *total, comm->ranks - 1);
    rc = rc ? rc : told;
    return step.rc ? step.rc : rc;
}
