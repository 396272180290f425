/* The way of the questions, and back.
 *
 * Stage by stage: each question goes into the message to the partner that is nearer to its home; what comes in meets,
 * and goes on together. What has met where is kept, and so the answers need no ids on their way back.
 *
 * A rank in trouble goes on sending messages, marked and empty, so that nobody waits for it. Who gets one gives up too,
 * and in the end all agree on what the first one says. */
#include "comm/hops.h"

#include <errno.h>

#include "base/alloc.h"
#include "comm/hops_private.h"

/* What a stage keeps from the way there for the way back. */
struct leg {
    struct vv_hop_lane *out, *from; /* one per partner */
    uint8_t *box;                   /* the messages of out, or of from on the way back */
    uint32_t *order;                /* which question went where */
    uint32_t *met;                  /* which question those that came in are part of */
    size_t asked;
};

struct vv_hops {
    struct varve_comm *comm;
    int shape;
    int is_laid_out;
    uint32_t columns;
    uint64_t questions; /* that a rank had at most, last time */
    struct vv_grid grid;
    struct leg legs[VV_STAGES_MAX];
    struct varve_message *messages; /* room for all partners of a stage */
    uint32_t *others;
};

/* One vv_hops_ask. */
struct tour {
    struct vv_hops *hops;
    const struct vv_hops_ops *ops;
    void *arg;
    struct vv_hops_sums *sums;
    struct vv_meeting meeting; /* the questions that are here */
    struct vv_answer *answers; /* that are here */
    size_t answer_count;
    uint32_t *own; /* where those are that were asked here */
    int code;      /* what went wrong on this rank */
    int is_marked; /* or on another */
    uint8_t mark[VV_MESSAGE_HEAD];
    /* while messages come in: */
    const struct vv_partners *senders;
    struct vv_hop_lane *lanes;
};

static int is_well(const struct tour *tour) {
    return tour->code == 0 && !tour->is_marked;
}

static void fail(struct tour *tour, int code) {
    if (tour->code == 0)
        tour->code = code;
}

/* ---- lay out ---- */

static void clear_layout(struct vv_hops *hops) {
    for (uint32_t i = 0; i < VV_STAGES_MAX; i++) {
        vv_free(hops->legs[i].out);
        vv_free(hops->legs[i].from);
        hops->legs[i] = (struct leg){0};
    }
    vv_free(hops->messages);
    vv_free(hops->others);
    hops->messages = NULL;
    hops->others = NULL;
    vv_grid_clear(&hops->grid);
    hops->is_laid_out = 0;
}

static int make_lanes(struct vv_hops *hops) {
    size_t most = 1;
    for (uint32_t i = 0; i < hops->grid.stage_count; i++) {
        const struct vv_stage *stage = &hops->grid.stages[i];
        hops->legs[i].out = vv_calloc(stage->out.count + 1, sizeof *hops->legs[i].out);
        hops->legs[i].from = vv_calloc(stage->from.count + 1, sizeof *hops->legs[i].from);
        if (!hops->legs[i].out || !hops->legs[i].from)
            return -ENOMEM;
        most = stage->out.count > most ? stage->out.count : most;
        most = stage->from.count > most ? stage->from.count : most;
    }
    hops->messages = vv_calloc(most, sizeof *hops->messages);
    hops->others = vv_calloc(most, sizeof *hops->others);
    return hops->messages && hops->others ? 0 : -ENOMEM;
}

/* Collective: whoever has no memory for it would leave the others waiting. */
static int lay_out(struct vv_hops *hops, uint32_t columns, struct varve_error *error) {
    clear_layout(hops);
    int rc = vv_grid_lay_out(&hops->grid, columns);
    if (rc == 0)
        rc = make_lanes(hops);
    rc = vv_comm_agree(hops->comm, rc, error);
    if (rc)
        clear_layout(hops);
    hops->is_laid_out = rc == 0;
    hops->columns = columns;
    return rc;
}

static int broken(const struct vv_hops *hops, int rc, struct varve_error *error) {
    vv_error(error, rc, "the processes of the job cannot talk to each other any more (%s): %s", hops->comm->ops->name,
             varve_error_text(rc));
    error->rank = (int)hops->comm->rank;
    return rc;
}

static int prepare_tour(struct vv_hops *hops, size_t count, struct varve_error *error) {
    uint32_t columns = hops->shape == VV_HOPS_FLAT ? 0 : vv_grid_square(&hops->grid);
    if (hops->shape == VV_HOPS_AUTO) {
        if (!hops->is_laid_out) {
            hops->questions = count;
            int rc = vv_comm_most(hops->comm, &hops->questions);
            if (rc)
                return broken(hops, rc, error);
        }
        columns = vv_grid_columns(&hops->grid, hops->questions);
    }
    return hops->is_laid_out && columns == hops->columns ? 0 : lay_out(hops, columns, error);
}

static int can_exchange(const struct varve_comm *comm) {
    return comm->ops->size >= offsetof(struct varve_comm_ops, exchange) + sizeof comm->ops->exchange &&
           comm->ops->exchange;
}

int vv_hops_create(struct varve_comm *comm, int shape, struct vv_hops **out, struct varve_error *error) {
    if (!can_exchange(comm))
        return -ENOTSUP;
    struct vv_hops *hops = vv_calloc(1, sizeof *hops);
    if (!hops)
        return vv_error(error, -ENOMEM, "no memory for messages between the ranks");
    hops->comm = comm;
    hops->shape = shape;
    vv_grid_init(&hops->grid, comm);
    *out = hops;
    return 0;
}

void vv_hops_destroy(struct vv_hops *hops) {
    if (!hops)
        return;
    clear_layout(hops);
    vv_free(hops);
}

uint32_t vv_hops_homes(const struct vv_hops *hops) {
    return hops->grid.nodes * hops->grid.width;
}

/* ---- messages ---- */

static void drop_messages(struct vv_hop_lane *lanes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        vv_free(lanes[i].owned);
        lanes[i].owned = NULL;
        lanes[i].message = NULL;
        lanes[i].size = 0;
    }
}

static void drop_box(struct leg *leg) {
    vv_free(leg->box);
    leg->box = NULL;
}

static int take_message(void *arg, uint32_t rank, const void *data, size_t size) {
    struct tour *tour = arg;
    uint32_t slot = vv_partners_find(tour->senders, rank);
    if (slot == UINT32_MAX || tour->lanes[slot].message) {
        fail(tour, -EPROTO);
        return 0;
    }
    struct vv_hop_lane *lane = &tour->lanes[slot];
    lane->message = lane->owned = vv_malloc(size ? size : 1);
    lane->size = size;
    if (lane->owned)
        memcpy(lane->owned, data, size);
    else
        fail(tour, -ENOMEM);
    return 0;
}

/* This rank's own message stays where it is. */
static void take_own(struct tour *tour, const struct varve_message *message) {
    uint32_t slot = vv_partners_find(tour->senders, message->rank);
    if (slot == UINT32_MAX) {
        fail(tour, -EPROTO);
        return;
    }
    tour->lanes[slot].message = message->data;
    tour->lanes[slot].size = message->size;
}

/* Each partner in `to` gets the message of its lane, and each lane of `from` the message of its partner. */
static int exchange(struct tour *tour, const struct vv_partners *to, const struct vv_hop_lane *to_lanes,
                    const struct vv_partners *from, struct vv_hop_lane *from_lanes) {
    struct vv_hops *hops = tour->hops;
    struct varve_comm *comm = hops->comm;
    size_t out_count = 0, from_count = 0;
    tour->senders = from;
    tour->lanes = from_lanes;
    drop_messages(from_lanes, from->count);
    for (uint32_t i = 0; i < from->count; i++)
        if (from->ranks[i] != comm->rank)
            hops->others[from_count++] = from->ranks[i];
    for (uint32_t i = 0; i < to->count; i++) {
        struct varve_message message = {to->ranks[i], tour->mark, sizeof tour->mark};
        if (is_well(tour)) {
            message.data = to_lanes[i].message;
            message.size = to_lanes[i].size;
        }
        if (message.rank == comm->rank) {
            take_own(tour, &message);
            continue;
        }
        hops->messages[out_count++] = message;
        tour->sums->messages++;
        tour->sums->bytes += message.size;
    }
    return out_count || from_count
               ? comm->ops->exchange(comm, hops->messages, out_count, hops->others, from_count, take_message, tour)
               : 0;
}

/* ---- the way there ---- */

static struct vv_seat home_of(const struct vv_grid *grid, const struct vv_question *question) {
    return question->home == VV_HOME_BY_ID ? vv_grid_home(grid, question->id) : vv_grid_place(grid, question->home);
}

static int is_here(const struct vv_grid *grid, const struct vv_question *question) {
    struct vv_seat home = home_of(grid, question);
    return home.node == grid->own.node && home.local == grid->own.local;
}

/* Which partner each question goes to. */
static int route(const struct tour *tour, const struct vv_stage *stage, uint32_t *next) {
    const struct vv_grid *grid = &tour->hops->grid;
    const struct vv_question *list = tour->meeting.list;
    for (size_t i = 0; i < tour->meeting.count; i++) {
        if (list[i].home != VV_HOME_BY_ID && list[i].home >= grid->comm->ranks)
            return -EINVAL;
        next[i] = vv_grid_next(grid, stage, home_of(grid, &list[i]));
        if (next[i] >= stage->out.count)
            return -EPROTO;
    }
    return 0;
}

static void write_questions(struct tour *tour, const struct vv_stage *stage, struct leg *leg) {
    size_t count = tour->meeting.count;
    uint32_t *next = vv_malloc((count + 1) * sizeof *next);
    leg->asked = count;
    leg->order = vv_malloc((count + 1) * sizeof *leg->order);
    int rc = next && leg->order ? route(tour, stage, next) : -ENOMEM;
    if (rc == 0)
        rc = vv_message_ask(tour->meeting.list, count, next, leg->out, stage->out.count, leg->order, &leg->box);
    vv_free(next);
    if (rc)
        fail(tour, rc);
}

/* How many have come in all, if everybody is well. */
static size_t count_questions(struct tour *tour, const struct vv_stage *stage, const struct leg *leg) {
    size_t total = 0;
    for (uint32_t i = 0; i < stage->from.count && is_well(tour); i++) {
        struct vv_hop_lane *lane = &leg->from[i];
        int rc = lane->message ? vv_message_count(lane, &lane->count, &tour->is_marked) : -EPROTO;
        if (rc == 0 && total + lane->count > UINT32_MAX / 2)
            rc = -EOVERFLOW;
        if (rc)
            fail(tour, rc);
        lane->first = (uint32_t)total;
        total += lane->count;
    }
    return is_well(tour) ? total : 0;
}

static void read_questions(struct tour *tour, const struct vv_stage *stage, struct leg *leg) {
    size_t total = count_questions(tour, stage, leg);
    if (!is_well(tour))
        return;
    struct vv_question *all = vv_malloc((total + 1) * sizeof *all);
    leg->met = vv_malloc((total + 1) * sizeof *leg->met);
    int rc = all && leg->met ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < stage->from.count && rc == 0; i++)
        rc = vv_message_questions(&leg->from[i], all + leg->from[i].first);
    if (rc == 0)
        rc = vv_meet(&tour->meeting, all, total, leg->met, tour->ops, tour->arg);
    vv_free(all);
    if (rc)
        fail(tour, rc);
}

/* The questions that are here move one stage on. */
static int go(struct tour *tour, uint32_t number) {
    const struct vv_stage *stage = &tour->hops->grid.stages[number];
    struct leg *leg = &tour->hops->legs[number];
    if (is_well(tour))
        write_questions(tour, stage, leg);
    vv_meeting_clear(&tour->meeting); /* all of it is in the messages now, and nothing refers to those before */
    if (number > 0) {
        struct leg *before = leg - 1;
        drop_messages(before->from, tour->hops->grid.stages[number - 1].from.count);
        drop_box(before);
    }
    int rc = exchange(tour, &stage->out, leg->out, &stage->from, leg->from);
    if (rc == 0 && is_well(tour))
        read_questions(tour, stage, leg);
    return rc;
}

/* ---- at home ---- */

static int point_at_answers(struct tour *tour, const struct vv_buf *buf, const uint32_t *sizes) {
    size_t at = 0;
    for (size_t i = 0; i < tour->answer_count; i++) {
        if (sizes[i] > buf->size - at || sizes[i] == UINT32_MAX)
            return -EINVAL;
        tour->answers[i] = (struct vv_answer){sizes[i] ? buf->data + at : NULL, sizes[i]};
        at += sizes[i];
    }
    return at == buf->size ? 0 : -EINVAL;
}

static int answer_tour(struct tour *tour, struct vv_buf *buf) {
    const struct vv_meeting *here = &tour->meeting;
    for (size_t i = 0; i < here->count; i++)
        if (!is_here(&tour->hops->grid, &here->list[i]))
            return -EPROTO;
    uint32_t *sizes = vv_calloc(here->count + 1, sizeof *sizes);
    tour->answers = vv_calloc(here->count + 1, sizeof *tour->answers);
    tour->answer_count = here->count;
    int rc = sizes && tour->answers ? tour->ops->answer(tour->arg, here->list, here->count, buf, sizes) : -ENOMEM;
    if (rc == 0)
        rc = buf->failed;
    if (rc == 0)
        rc = point_at_answers(tour, buf, sizes);
    tour->sums->answered += here->count;
    vv_free(sizes);
    return rc;
}

/* ---- the way back ---- */

static void read_answers(struct tour *tour, const struct vv_stage *stage, const struct leg *leg) {
    tour->answer_count = leg->asked;
    tour->answers = vv_calloc(leg->asked + 1, sizeof *tour->answers);
    if (!tour->answers)
        fail(tour, -ENOMEM);
    for (uint32_t i = 0; i < stage->out.count && is_well(tour); i++) {
        const struct vv_hop_lane *lane = &leg->out[i];
        int rc = lane->message ? vv_message_answers(lane, leg->order, tour->answers, &tour->is_marked) : -EPROTO;
        if (rc)
            fail(tour, rc);
    }
}

static void drop_leg(const struct vv_stage *stage, struct leg *leg) {
    drop_messages(leg->out, stage->out.count);
    drop_messages(leg->from, stage->from.count);
    vv_free(leg->box);
    vv_free(leg->order);
    vv_free(leg->met);
    leg->box = NULL;
    leg->order = leg->met = NULL;
}

/* The answers that are here move one stage back. */
static int go_back(struct tour *tour, uint32_t number) {
    const struct vv_grid *grid = &tour->hops->grid;
    const struct vv_stage *stage = &grid->stages[number];
    struct leg *leg = &tour->hops->legs[number];
    drop_messages(leg->from, stage->from.count);
    drop_box(leg);
    if (is_well(tour)) {
        int rc =
            vv_message_answer(tour->answers, tour->answer_count, leg->met, leg->from, stage->from.count, &leg->box);
        if (rc)
            fail(tour, rc);
    }
    vv_free(tour->answers);
    tour->answers = NULL;
    if (number + 1 < grid->stage_count)
        drop_leg(stage + 1, leg + 1);
    int rc = exchange(tour, &stage->from, leg->from, &stage->out, leg->out);
    if (rc == 0 && is_well(tour))
        read_answers(tour, stage, leg);
    return rc;
}

/* ---- all of it ---- */

static void begin(struct tour *tour, const struct vv_question *questions, size_t count) {
    tour->own = vv_malloc((count + 1) * sizeof *tour->own);
    int rc = tour->own ? vv_meet(&tour->meeting, questions, count, tour->own, tour->ops, tour->arg) : -ENOMEM;
    if (rc)
        fail(tour, rc);
}

static void deliver(struct tour *tour, size_t count) {
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct vv_answer *given = &tour->answers[tour->own[i]];
        rc = tour->ops->take(tour->arg, i, given->data, given->size);
    }
    if (rc)
        fail(tour, rc);
}

/* 0, or what the group says when it cannot talk any more. */
static int travel(struct tour *tour, const struct vv_question *questions, size_t count) {
    uint32_t stages = tour->hops->grid.stage_count;
    struct vv_buf answers;
    int rc = 0;
    vv_buf_init(&answers);
    begin(tour, questions, count);
    for (uint32_t i = 0; i < stages && rc == 0; i++)
        rc = go(tour, i);
    if (rc == 0 && is_well(tour)) {
        int code = answer_tour(tour, &answers);
        if (code)
            fail(tour, code);
    }
    vv_meeting_clear(&tour->meeting);
    for (uint32_t i = stages; i > 0 && rc == 0; i--) {
        rc = go_back(tour, i - 1);
        vv_buf_clear(&answers);
    }
    if (rc == 0 && is_well(tour))
        deliver(tour, count);
    vv_buf_clear(&answers);
    return rc;
}

static void end(struct tour *tour) {
    struct vv_hops *hops = tour->hops;
    for (uint32_t i = 0; i < hops->grid.stage_count; i++)
        drop_leg(&hops->grid.stages[i], &hops->legs[i]);
    vv_meeting_clear(&tour->meeting);
    vv_free(tour->answers);
    vv_free(tour->own);
}

/* One reduction tells whether all are well, and how many questions to expect next time. */
static int agree(struct tour *tour, size_t count, struct varve_error *error) {
    struct vv_hops *hops = tour->hops;
    uint64_t values[2] = {is_well(tour), ~(uint64_t)count};
    int rc = hops->comm->ops->reduce_min(hops->comm, values, 2);
    if (rc)
        return broken(hops, rc, error);
    hops->questions = ~values[1];
    return values[0] ? 0 : vv_comm_agree(hops->comm, tour->code, error);
}

int vv_hops_ask(struct vv_hops *hops, const struct vv_question *questions, size_t count, const struct vv_hops_ops *ops,
                void *arg, struct vv_hops_sums *sums, struct varve_error *error) {
    struct vv_hops_sums unused = {0};
    struct varve_error unused_error = {0};
    struct tour tour = {.hops = hops, .ops = ops, .arg = arg, .sums = sums ? sums : &unused};
    if (!error)
        error = &unused_error;
    int rc = prepare_tour(hops, count, error);
    if (rc)
        return rc;
    vv_message_mark(tour.mark);
    rc = travel(&tour, questions, count);
    end(&tour);
    return rc ? broken(hops, rc, error) : agree(&tour, count, error);
}
