#include "comm/rounds.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define ROUND (1u << 20) /* bytes that wait before they are sent */
#define STEPS 4          /* that a rank which only receives takes between two messages */

/* All ranks run the same program, so structs travel as they are. */
struct head {
    uint32_t is_last;
    uint32_t has_failed;
};

static const struct head failure = {1, 1};

int vv_rounds_open(struct vv_rounds *rounds, const uint32_t *to, uint32_t to_count, const uint32_t *from,
                   uint32_t from_count) {
    *rounds = (struct vv_rounds){.to_count = to_count, .from_count = from_count};
    rounds->to = vv_calloc(to_count + 1, sizeof *rounds->to);
    rounds->from = vv_calloc(from_count + 1, sizeof *rounds->from);
    rounds->sending = vv_calloc(to_count + 1, sizeof *rounds->sending);
    rounds->out = vv_calloc(to_count + 1, sizeof *rounds->out);
    rounds->waiting = vv_calloc(from_count + 1, sizeof *rounds->waiting);
    rounds->is_over = vv_calloc(from_count + 1, 1);
    if (!rounds->to || !rounds->from || !rounds->sending || !rounds->out || !rounds->waiting || !rounds->is_over)
        return -ENOMEM;
    for (uint32_t i = 0; i < to_count; i++)
        rounds->to[i] = to[i];
    for (uint32_t i = 0; i < from_count; i++)
        rounds->from[i] = from[i];
    return 0;
}

void vv_rounds_close(struct vv_rounds *rounds) {
    vv_rounds_clear(rounds);
    vv_free(rounds->to);
    vv_free(rounds->from);
    vv_free(rounds->sending);
    vv_free(rounds->out);
    vv_free(rounds->waiting);
    vv_free(rounds->is_over);
    *rounds = (struct vv_rounds){0};
}

void vv_rounds_clear(struct vv_rounds *rounds) {
    for (uint32_t i = 0; rounds->sending && i < rounds->to_count; i++)
        vv_buf_clear(&rounds->sending[i]);
}

void vv_rounds_begin(struct vv_rounds *rounds) {
    struct head head = {0, 0};
    for (uint32_t i = 0; i < rounds->to_count; i++) {
        rounds->sending[i].size = 0;
        vv_buf_append(&rounds->sending[i], &head, sizeof head);
    }
}

int vv_rounds_is_empty(const struct vv_buf *message) {
    return message->size <= sizeof(struct head);
}

uint32_t vv_rounds_from(const struct vv_rounds *rounds, uint32_t rank) {
    uint32_t i = 0;
    while (i + 1 < rounds->from_count && rounds->from[i] != rank)
        i++;
    return i;
}

/* ---- messages ---- */

static int take_message(void *arg, uint32_t rank, const void *data, size_t size) {
    struct vv_taking *taking = arg;
    struct head head = failure;
    if (size >= sizeof head)
        memcpy(&head, data, sizeof head);
    taking->rounds->is_over[vv_rounds_from(taking->rounds, rank)] = head.is_last != 0;
    if (!head.has_failed && taking->rc == 0) /* if it has, the agreement that follows will tell */
        taking->rc = taking->take(taking, rank, (const uint8_t *)data + sizeof head, size - sizeof head);
    return 0;
}

static void check_messages(struct vv_taking *taking) {
    for (uint32_t i = 0; i < taking->rounds->to_count; i++)
        if (taking->rounds->sending[i].failed && taking->rc == 0)
            taking->rc = vv_error(taking->error, -ENOMEM, "no memory to pass data on to other ranks");
}

/* What goes to number i; a rank that has failed says only that. */
static struct varve_message end_message(const struct vv_taking *taking, uint32_t i, int is_last) {
    struct vv_buf *buf = &taking->rounds->sending[i];
    struct head head = {(uint32_t)is_last, 0};
    if (taking->rc)
        return (struct varve_message){taking->rounds->to[i], &failure, sizeof failure};
    memcpy(buf->data, &head, sizeof head);
    return (struct varve_message){taking->rounds->to[i], buf->data, buf->size};
}

/* Send, if we still do, and take from those who are not over yet. An error is one of the group; that of a message is in
 * taking. */
static int send_and_take(struct vv_taking *taking, int is_sending, int is_last) {
    struct vv_rounds *rounds = taking->rounds;
    struct varve_comm *comm = taking->comm;
    uint32_t out_count = 0, from_count = 0;
    check_messages(taking);
    for (; is_sending && out_count < rounds->to_count; out_count++)
        rounds->out[out_count] = end_message(taking, out_count, is_last || taking->rc != 0);
    for (uint32_t i = 0; i < rounds->from_count; i++)
        if (!rounds->is_over[i])
            rounds->waiting[from_count++] = rounds->from[i];
    int rc = comm->ops->exchange(comm, rounds->out, out_count, rounds->waiting, from_count, take_message, taking);
    return rc ? vv_error(taking->error, rc, "data could not be passed on to other ranks: %s", varve_error_text(rc)) : 0;
}

int vv_rounds_once(struct vv_taking *taking) {
    memset(taking->rounds->is_over, 0, taking->rounds->from_count);
    return send_and_take(taking, 1, 1);
}

/* ---- rounds ---- */

/* A receive-only rank must not delay the senders. */
static int has_enough(const struct vv_rounds *rounds, unsigned steps) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < rounds->to_count; i++)
        bytes += rounds->sending[i].size;
    return bytes >= ROUND || (rounds->to_count == 0 && rounds->from_count > 0 && steps >= STEPS);
}

static int is_everybody_over(const struct vv_rounds *rounds) {
    for (uint32_t i = 0; i < rounds->from_count; i++)
        if (!rounds->is_over[i])
            return 0;
    return 1;
}

int vv_rounds_run(struct vv_taking *taking, vv_step_fn step, void *arg) {
    struct vv_rounds *rounds = taking->rounds;
    int more = 1, is_sending = 1, broken = 0;
    memset(rounds->is_over, 0, rounds->from_count);
    while (broken == 0 && (is_sending || !is_everybody_over(rounds))) {
        vv_rounds_begin(rounds);
        for (unsigned steps = 0; taking->rc == 0 && more > 0 && !has_enough(rounds, steps); steps++)
            taking->rc = (more = step(arg, taking->error)) < 0 ? more : 0;
        int is_last = taking->rc != 0 || more <= 0;
        broken = send_and_take(taking, is_sending, is_last);
        is_sending = is_sending && !is_last;
    }
    vv_rounds_clear(rounds);
    return broken ? broken : taking->rc;
}
