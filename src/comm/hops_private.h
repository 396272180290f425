/* The parts of hops: what a message looks like, and how questions about the same id meet. */
#ifndef VV_HOPS_PRIVATE_H
#define VV_HOPS_PRIVATE_H

#include "comm/hops.h"
#include "comm/hops_grid.h"

struct vv_answer {
    const uint8_t *data;
    uint32_t size;
};

/* What goes to a partner or comes from it. */
struct vv_hop_lane {
    const uint8_t *message;
    size_t size;
    void *owned;           /* free it; NULL when the message is part of something else */
    uint32_t first, count; /* questions: of those on their way out in the order of sending, or of those that came in */
    uint8_t *at;           /* where the next one goes while the message is written */
};

#define VV_MESSAGE_HEAD 16
/* A message from a rank that has failed: nothing in it but that. */
void vv_message_mark(uint8_t head[VV_MESSAGE_HEAD]);

/* Write the questions into one message per lane, in a box that is allocated. next[i] is the lane of questions[i];
 * order, as long as questions, becomes which question is where among all that are sent, lane by lane. 0 or -ENOMEM. */
int vv_message_ask(const struct vv_question *questions, size_t count, const uint32_t *next, struct vv_hop_lane *lanes,
                   size_t lane_count, uint32_t *order, uint8_t **box);
/* How many questions have come in a message; 1 in *is_marked when its sender has failed. 0 or -EPROTO. */
int vv_message_count(const struct vv_hop_lane *lane, uint32_t *count, int *is_marked);
/* Take them out of a message, as many as vv_message_count has said; their data stays inside the message. */
int vv_message_questions(const struct vv_hop_lane *lane, struct vv_question *out);

/* The same for answers: that to question i of a lane is answers[met[lane.first + i]]. */
int vv_message_answer(const struct vv_answer *answers, size_t count, const uint32_t *met, struct vv_hop_lane *lanes,
                      size_t lane_count, uint8_t **box);
/* The answers of a message to lane.count questions: that to the i-th becomes answers[order[lane.first + i]]. They stay
 * inside the message. 0 or -EPROTO. */
int vv_message_answers(const struct vv_hop_lane *lane, const uint32_t *order, struct vv_answer *answers,
                       int *is_marked);

/* Questions that have met. */
struct vv_meeting {
    struct vv_question *list; /* ids ascending, none twice */
    size_t count;
    struct vv_buf merged; /* the data of those that stand for several */
};

/* met[i] becomes the number in the meeting of questions[i]. What is not merged keeps its data where it is. 0, -ENOMEM
 * or what merge said. */
int vv_meet(struct vv_meeting *meeting, const struct vv_question *questions, size_t count, uint32_t *met,
            const struct vv_hops_ops *ops, void *arg);
void vv_meeting_clear(struct vv_meeting *meeting);

#endif
