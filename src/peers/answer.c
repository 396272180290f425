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
    char key[VV_KEY_CAPACITY];
    struct vv_slice *slices[VV_QUESTION_SLICES]; /* borrowed */
    size_t slice_count;
    uint64_t size; /* of the object */
    const struct vv_holders *holders;
    /* parts: */
    struct vv_block block;
    struct vv_hash128 id;       /* of the block */
    struct vv_cursor list;      /* in the question */
    struct vv_whole *whole;     /* borrowed, */
    const struct reply *leader; /* or by this one, which is about the same block */
};

/* ---- reading questions ---- */

/* Only data of the checkpoints of this session's name is given away. */
static int is_allowed(const struct vv_peers *peers, const char *text) {
    struct vv_key key;
    return vv_key_parse(text, &key) == 0 && strcmp(key.name, peers->name) == 0 &&
           (key.kind == VV_KIND_PACK || key.kind == VV_KIND_PART || key.kind == VV_KIND_COPY ||
            key.kind == VV_KIND_PARITY || key.kind == VV_KIND_WRITERS);
}

/* The next of a list of parts: 1, 0 at its end, -1 if it is none. */
static int next_part(struct vv_cursor *list, uint32_t raw, uint64_t *end, uint64_t *from_out, uint32_t *length_out) {
    if (vv_cursor_left(list) == 0)
        return 0;
    int64_t step = vv_cursor_svarint(list);
    uint64_t length = vv_cursor_varint(list);
    if (list->failed || step < -(int64_t)raw || step > (int64_t)raw)
        return -1;
    int64_t from = (int64_t)*end + step;
    if (from < 0 || from > raw || length < 1 || length > raw - (uint64_t)from)
        return -1;
    *from_out = (uint64_t)from;
    *length_out = (uint32_t)length;
    *end = (uint64_t)from + length;
    return 1;
}

/* The block's entry and the parts, which must be in it and together as long as the question says. */
static int read_parts(struct vv_cursor *cursor, struct reply *reply) {
    struct varve_error ignored = {0};
    const uint8_t *entry = vv_cursor_take(cursor, VV_BLOCK_ENTRY_SIZE);
    if (!entry || vv_block_parse(entry, &reply->block, &ignored) < 0 || reply->block.offset != reply->offset)
        return -EPROTO;
    reply->list = *cursor;
    uint64_t end = 0, from, total = 0, count = 0;
    uint32_t length;
    int more;
    while ((more = next_part(cursor, reply->block.raw, &end, &from, &length)) > 0) {
        total += length;
        if (++count > VV_PARTS_MOST || total > VV_QUESTION)
            return -EPROTO;
    }
    reply->id = vv_block_cache_id(reply->key, &reply->block);
    return more == 0 && count > 0 && total == reply->length ? 0 : -EPROTO;
}

static int read_bytes(struct reply *reply) {
    if (reply->length == 0 || reply->offset >= VV_ADDRESS_END || reply->length > VV_QUESTION ||
        reply->offset % VV_QUESTION + reply->length > VV_QUESTION)
        return -EPROTO;
    reply->slice_count = (size_t)((reply->offset + reply->length - 1) / VV_SLICE - reply->offset / VV_SLICE + 1);
    return 0;
}

static void read_question(struct vv_peers *peers, const struct vv_question *question, struct reply *reply) {
    struct vv_cursor cursor;
    *reply = (struct reply){.peers = peers, .status = -EPROTO};
    vv_cursor_init(&cursor, question->data, question->size);
    uint32_t kind = vv_cursor_u32(&cursor);
    reply->length = vv_cursor_u32(&cursor);
    reply->offset = vv_cursor_u64(&cursor);
    vv_cursor_text16(&cursor, reply->key, sizeof reply->key);
    if (cursor.failed || kind > VV_ASKED_PARTS || !is_allowed(peers, reply->key) ||
        (kind != VV_ASKED_PARTS && vv_cursor_left(&cursor)))
        return;
    reply->kind = (int)kind;
    if (kind == VV_ASKED_HOLDERS)
        reply->holders = vv_holders_find(&peers->directory, question->id);
    reply->status = kind == VV_ASKED_PARTS   ? read_parts(&cursor, reply)
                    : kind == VV_ASKED_BYTES ? read_bytes(reply)
                                             : 0;
}

/* ---- finding answers ---- */

static int by_object(const void *a, const void *b) {
    const struct reply *x = *(struct reply *const *)a, *y = *(struct reply *const *)b;
    int order = strcmp(x->key, y->key);
    if (order)
        return order;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind - y->kind;
    return vv_hash128_compare(x->id, y->id);
}

static int look_up(void *arg) {
    struct reply *reply = arg;
    struct vv_peers *peers = reply->peers;
    if (reply->kind == VV_ASKED_SIZE)
        reply->status = vv_backend_stat(peers->own->backend, reply->key, &reply->size);
    else if (reply->kind == VV_ASKED_PARTS)
        reply->status = vv_block_cache_acquire(peers->wholes, reply->key, &reply->block, &reply->whole);
    else
        reply->status = vv_slice_cache_acquire(peers->slices, reply->key, reply->offset / VV_SLICE, reply->slice_count,
                                               reply->slices);
    if (reply->status == -EAGAIN)
        reply->status = -EBUSY; /* the storage's; ours means something else */
    return 0;
}

/* What is held while a question is answered. Slices count for each question: there are seldom several about the same.
 */
static size_t memory_of(const struct reply *reply) {
    if (reply->kind == VV_ASKED_PARTS)
        return reply->length + (reply->leader ? 0 : (size_t)reply->block.raw);
    return reply->slice_count * VV_SLICE;
}

/* In the order of the objects, as much as may be held at once; the rest has to wait for another round. Of several
 * questions about one block, one leads. */
static void choose(struct vv_peers *peers, struct reply **order, size_t count) {
    const struct reply *leader = NULL;
    size_t held = 0;
    for (size_t i = 0; i < count; i++) {
        struct reply *reply = order[i];
        if (reply->status || (reply->kind != VV_ASKED_BYTES && reply->kind != VV_ASKED_PARTS))
            continue;
        if (reply->kind == VV_ASKED_PARTS && leader && vv_hash128_equal(leader->id, reply->id))
            reply->leader = leader;
        size_t size = memory_of(reply);
        if (held && held + size > peers->window) {
            reply->status = -EAGAIN;
            continue;
        }
        held += size;
        if (reply->kind == VV_ASKED_PARTS && !reply->leader)
            leader = reply;
    }
}

static int read_all(struct vv_peers *peers, struct reply **order, size_t count) {
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (order[i]->status == 0 && order[i]->kind != VV_ASKED_HOLDERS && !order[i]->leader)
            rc = vv_pool_submit(peers->readers, look_up, order[i]);
    int waited = vv_pool_wait(peers->readers);
    for (size_t i = 0; i < count; i++)
        if (order[i]->status == 0 && order[i]->leader)
            order[i]->status = order[i]->leader->status;
    return rc ? rc : waited;
}

/* ---- writing answers: the status, then what was asked for ---- */

static void write_parts(const struct reply *reply, struct vv_buf *out) {
    const struct vv_whole *whole = reply->leader ? reply->leader->whole : reply->whole;
    struct vv_cursor list = reply->list;
    uint64_t end = 0, from;
    uint32_t length;
    while (next_part(&list, reply->block.raw, &end, &from, &length) > 0)
        vv_buf_append(out, whole->data + from, length);
}

static void write_answer(const struct reply *reply, struct vv_buf *out) {
    vv_buf_u32(out, (uint32_t)reply->status);
    if (reply->status)
        return;
    if (reply->kind == VV_ASKED_SIZE)
        vv_buf_u64(out, reply->size);
    for (uint32_t i = 0; reply->holders && i < reply->holders->count; i++) {
        vv_buf_u32(out, reply->holders->ranks[i]);
        vv_buf_u32(out, reply->holders->writers[i]);
    }
    if (reply->kind == VV_ASKED_PARTS)
        write_parts(reply, out);
    if (reply->slices[0]) {
        uint8_t *data = vv_buf_extend(out, reply->length);
        uint64_t start = reply->offset / VV_SLICE * VV_SLICE;
        if (data)
            out->size -= reply->length - vv_slice_cache_copy(reply->slices, reply->slice_count, start, reply->offset,
                                                             data, reply->length);
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
        vv_slice_cache_release(peers->slices, replies[i].slices, replies[i].slice_count);
    }
    for (size_t i = 0; i < count && replies; i++)
        vv_block_cache_release(peers->wholes, replies[i].whole);
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
    if (status > 0 || size > asking->capacity || (status < 0 && size))
        return -EPROTO;
    if (asking->wish && status == 0 && size != asking->capacity)
        return -EPROTO;
    if (asking->wish)
        vv_parts_place(asking, (const uint8_t *)data + 4, size);
    else
        memcpy(asking->out, (const uint8_t *)data + 4, size);
    asking->result = status ? status : (int64_t)size;
    if (status < 0) {
        round->peers->refused = status;
        round->peers->refused_by = asking->home;
    }
    return 0;
}

const struct vv_hops_ops vv_peers_ask_ops = {.answer = answer, .take = take};
