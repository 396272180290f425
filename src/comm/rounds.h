/* Rounds: ranks pass data to other ranks while they do what else they have to do.
 *
 * A rank takes steps until some bytes are waiting, sends them, and takes what has come from the ranks that send to it,
 * until every rank has sent its last message. A rank that has failed goes on taking, so that no rank waits for it. */
#ifndef VV_ROUNDS_H
#define VV_ROUNDS_H

#include "base/bytes.h"
#include "comm/comm.h"

/* With whom data is exchanged. */
struct vv_rounds {
    uint32_t *to, to_count;     /* ranks that get some of ours, */
    struct vv_buf *sending;     /* what is on its way to each, */
    struct varve_message *out;  /* and the same as messages */
    uint32_t *from, from_count; /* ranks that send to us; */
    uint32_t *waiting;          /* of them, those that have more to send */
    uint8_t *is_over;           /* per rank in from */
};

/* One step: 1 and there may be more, 0 when there is no more, or an error. */
typedef int (*vv_step_fn)(void *arg, struct varve_error *error);

struct vv_taking {
    struct varve_comm *comm;
    struct vv_rounds *rounds;
    int rc; /* how this rank has fared so far; nothing is taken after a failure, but every message is received */
    struct varve_error *error;
    int (*take)(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size);
    void *arg; /* of take */
};

/* 0 or -ENOMEM; vv_rounds_close in both cases. The lists are copied. */
int vv_rounds_open(struct vv_rounds *rounds, const uint32_t *to, uint32_t to_count, const uint32_t *from,
                   uint32_t from_count);
void vv_rounds_close(struct vv_rounds *rounds);
/* Take steps until there are none left, sending what they put into rounds->sending and taking what comes, until all are
 * over. An error of the group, or taking->rc. */
int vv_rounds_run(struct vv_taking *taking, vv_step_fn step, void *arg);
/* One round by hand: begin, fill rounds->sending, and send and take once. An error of the group; that of a message is
 * in taking->rc. */
void vv_rounds_begin(struct vv_rounds *rounds);
int vv_rounds_once(struct vv_taking *taking);
int vv_rounds_is_empty(const struct vv_buf *message); /* nothing was put into it yet */
void vv_rounds_clear(struct vv_rounds *rounds);       /* memory of messages */
/* The number of this rank among those that send to us. */
uint32_t vv_rounds_from(const struct vv_rounds *rounds, uint32_t rank);

#endif
