/* Answering what other ranks ask. Everything in a question was written by somebody else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "peers/peers_private.h"

/* A question as it is answered. */
struct reply {
    struct vv_peers *peers;
    int kind;
    uint64_t offset;
    uint32_t length;
    int status; /* 0, or what the asker gets instead; -EAGAIN: in a later round */
    char key[VV_KEY_ROOM];
    struct vv_slice *slices[VV_QUESTION_SLICES]; /* borrowed */
    size_t slice_count;
    uint64_t size;          /* of the object */
    const struct vv_holders *holders;
};

const struct vv_holders *vv_holders_find(const struct vv_buf *list, struct vv_hash128 id) {
    const struct vv_holders *holders = (const struct vv_holders *)list->data;
    size_t low = 0, high = list->size / sizeof *holders;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct vv_hash128 at = holders[middle].id;
        if (vv_hash128_equal(at, id))
            return &holders[middle];
        if (at.low < id.low || (at.low == id.low && at.high < id.high))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- reading questions ---- */

/* Only data of the checkpoints of this session's name is given away. */
static int is_allowed(const struct vv_peers *peers, const char *text) {
    struct vv_key key;
    return vv_key_parse(text, &key) == 0 && strcmp(key.name, peers->name) == 0 &&
           (key.kind == VV_KIND_PACK || key.kind == VV_KIND_PART || key.kind == VV_KIND_COPY ||
            key.kind == VV_KIND_WRITERS);
}

static void read_question(struct vv_peers *peers, const struct vv_question *question, struct reply *reply) {
    const uint8_t *data = question->data;
    *reply = (struct reply){.peers = peers, .status = -EPROTO};
    if (question->size <= 16 || question->size >= 16 + VV_KEY_ROOM)
        return;
    reply->kind = data[0];
    reply->length = vv_get32(data + 4);
    reply->offset = vv_get64(data + 8);
    memcpy(reply->key, data + 16, question->size - 16);
    if (memchr(reply->key, 0, question->size - 16) || !is_allowed(peers, reply->key) ||
        reply->kind > VV_ASKED_HOLDERS)
        return;
    if (reply->kind == VV_ASKED_BYTES) {
        if (reply->length == 0 || reply->offset >= VV_ADDRESS_END || reply->length > VV_QUESTION ||
            reply->offset % VV_QUESTION + reply->length > VV_QUESTION)
            return;
        reply->slice_count = (size_t)((reply->offset + reply->length - 1) / VV_SLICE - reply->offset / VV_SLICE + 1);
    }
    if (reply->kind == VV_ASKED_HOLDERS)
        reply->holders = vv_holders_find(&peers->directory, question->id);
    reply->status = 0;
}

/* ---- finding answers ---- */

static int by_object(const void *a, const void *b) {
    const struct reply *x = *(struct reply *const *)a, *y = *(struct reply *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int look_up(void *arg) {
    struct reply *reply = arg;
    struct vv_peers *peers = reply->peers;
    reply->status = reply->kind == VV_ASKED_SIZE
                        ? vv_backend_stat(peers->own->backend, reply->key, &reply->size)
                        : vv_slices_acquire(peers->slices, reply->key, reply->offset / VV_SLICE, reply->slice_count,
                                            reply->slices);
    if (reply->status == -EAGAIN)
        reply->status = -EBUSY; /* the storage's; ours means something else */
    return 0;
}

/* In the order of the objects, as much as may be held at once; the rest has to wait for another round. What several
 * questions need counts for each: there are seldom many. */
static void choose(struct vv_peers *peers, struct reply **order, size_t count) {
    size_t held = 0;
    for (size_t i = 0; i < count; i++) {
        struct reply *reply = order[i];
        if (reply->status || reply->kind != VV_ASKED_BYTES)
            continue;
        if (held && held + reply->slice_count * VV_SLICE > peers->window)
            reply->status = -EAGAIN;
        else
            held += reply->slice_count * VV_SLICE;
    }
}

static int read_all(struct vv_peers *peers, struct reply **order, size_t count) {
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (order[i]->status == 0 && order[i]->kind != VV_ASKED_HOLDERS)
            rc = vv_pool_submit(peers->readers, look_up, order[i]);
    int waited = vv_pool_wait(peers->readers);
    return rc ? rc : waited;
}

/* ---- writing answers: the status, then what was asked for ---- */

static void write_answer(const struct reply *reply, struct vv_buf *out) {
    vv_buf_u32(out, (uint32_t)reply->status);
    if (reply->status)
        return;
    if (reply->kind == VV_ASKED_SIZE)
        vv_buf_u64(out, reply->size);
    for (uint32_t i = 0; reply->holders && i < reply->holders->count; i++)
        vv_buf_u32(out, reply->holders->ranks[i]);
    if (reply->slices[0]) {
        uint8_t *data = vv_buf_extend(out, reply->length);
        uint64_t start = reply->offset / VV_SLICE * VV_SLICE;
        if (data)
            out->size -= reply->length -
                         vv_slices_copy(reply->slices, reply->slice_count, start, reply->offset, data, reply->length);
    }
}

static int answer(void *arg, const struct vv_question *questions, size_t count, struct vv_buf *out, uint32_t *sizes) {
    struct vv_peers *peers = ((struct vv_peers_round *)arg)->peers;
    struct reply *replies = vv_calloc(count + 1, sizeof *replies);
    struct reply **order = vv_calloc(count + 1, sizeof *order);
    int rc = replies && order ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && rc == 0; i++) {
        read_question(peers, &questions[i], &replies[i]);
        order[i] = &replies[i];
    }
    if (rc == 0) {
        qsort(order, count, sizeof *order, by_object);
        choose(peers, order, count);
        rc = read_all(peers, order, count);
    }
    for (size_t i = 0; i < count && replies && order; i++) {
        size_t before = out->size;
        if (rc == 0)
            write_answer(&replies[i], out);
        sizes[i] = (uint32_t)(out->size - before);
        vv_slices_release(peers->slices, replies[i].slices, replies[i].slice_count);
    }
    vv_free(replies);
    vv_free(order);
    return rc ? rc : out->failed;
}

/* ---- back at the asker ---- */

static int take(void *arg, size_t index, const void *data, uint32_t size) {
    struct vv_peers_round *round = arg;
    struct vv_asking *asking = round->asked[index];
    if (size < 4)
        return -EPROTO;
    int32_t status = (int32_t)vv_get32(data);
    size -= 4;
    if (status > 0 || size > asking->room || (status < 0 && size))
        return -EPROTO;
    memcpy(asking->out, (const uint8_t *)data + 4, size);
    asking->result = status ? status : (int64_t)size;
    return 0;
}

const struct vv_hops_ops vv_peers_ask_ops = {.answer = answer, .take = take};
