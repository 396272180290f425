/* The pieces of large objects: reading several at a time, removing them, and those that nobody needs any more. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rados_private.h"

#define OLD_S (7 * 24 * 3600) /* an upload that was begun so long ago has ended */
#define PAGE 100u

void vv_rados_piece_name(const uint8_t token[VV_RADOS_TOKEN], uint64_t number, char out[VV_RADOS_NAME]) {
    int at = snprintf(out, VV_RADOS_NAME, "p/");
    for (int i = 0; i < VV_RADOS_TOKEN; i++)
        at += snprintf(out + at, VV_RADOS_NAME - (size_t)at, "%02x", token[i]);
    snprintf(out + at, VV_RADOS_NAME - (size_t)at, "/%08" PRIx64, number);
}

uint64_t vv_rados_piece_count(uint64_t size) {
    return (size + VV_RADOS_PIECE - 1) / VV_RADOS_PIECE;
}

/* ---- reading ---- */

struct reading {
    rados_completion_t done;
    size_t wanted;
};

/* How it ended: bytes, all that were wanted; or an error. Not to be called without a completion. */
static int64_t end_reading(struct reading *reading) {
    rados_aio_wait_for_complete(reading->done);
    int64_t rc = rados_aio_get_return_value(reading->done);
    rados_aio_release(reading->done);
    reading->done = NULL;
    return rc < 0 ? rc : (size_t)rc == reading->wanted ? rc : -EIO; /* a piece is as long as it should be */
}

static int begin_reading(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], uint64_t offset, void *data,
                         size_t size, struct reading *out) {
    char name[VV_RADOS_NAME];
    vv_rados_piece_name(token, offset / VV_RADOS_PIECE, name);
    out->wanted = size;
    int rc = rados_aio_create_completion2(NULL, NULL, &out->done);
    if (rc < 0)
        return rc;
    rc = rados_aio_read(rados->io, name, out->done, data, size, offset % VV_RADOS_PIECE);
    if (rc < 0) {
        rados_aio_release(out->done);
        out->done = NULL;
    }
    return rc;
}

int64_t vv_rados_pieces_read(struct vv_rados *rados, const struct vv_rados_head *head, uint64_t offset, void *data,
                             size_t size) {
    struct reading readings[VV_RADOS_FLIGHT] = {0};
    uint8_t *to = data;
    size_t begun = 0;
    unsigned slot = 0;
    int64_t rc = 0;
    while (rc >= 0 && begun < size) {
        size_t left = size - begun, part = VV_RADOS_PIECE - (size_t)((offset + begun) % VV_RADOS_PIECE);
        if (readings[slot].done && (rc = end_reading(&readings[slot])) < 0)
            break;
        part = part < left ? part : left;
        rc = begin_reading(rados, head->token, offset + begun, to + begun, part, &readings[slot]);
        begun += part;
        slot = (slot + 1) % VV_RADOS_FLIGHT;
    }
    for (unsigned i = 0; i < VV_RADOS_FLIGHT; i++) { /* none may write into data after this */
        int64_t ended = readings[i].done ? end_reading(&readings[i]) : 0;
        rc = rc < 0 ? rc : ended < 0 ? ended : 0;
    }
    return rc < 0 ? rc : (int64_t)size;
}

/* ---- notes ---- */

/* A note says when it was made and for which key. Clocks differ, so its age alone proves nothing: a sweep first makes
 * the note its own, with the time DYING, and its writer does not go on when the note is not as it was made. */
#define DYING 0
#define NOTE (VV_RADOS_NAME + 8)

static size_t put_note(uint64_t made, const char *key, char out[NOTE]) {
    size_t size = strlen(key);
    for (int i = 0; i < 8; i++)
        out[i] = (char)(made >> 8 * i);
    memcpy(out + 8, key, size);
    return size + 8;
}

static void set_note(rados_write_op_t op, const uint8_t token[VV_RADOS_TOKEN], const char *value, size_t size) {
    size_t token_size = VV_RADOS_TOKEN;
    const char *tokens[] = {(const char *)token}, *values[] = {value};
    rados_write_op_omap_set2(op, tokens, values, &token_size, &size, 1);
}

int vv_rados_pieces_note(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], const char *key,
                         uint64_t *made_out) {
    char value[NOTE];
    *made_out = (uint64_t)time(NULL);
    size_t size = put_note(*made_out, key, value);
    rados_write_op_t op = rados_create_write_op();
    set_note(op, token, value, size);
    return vv_rados_write(rados, op, VV_RADOS_UPLOADS);
}

int vv_rados_pieces_check(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], const char *key, uint64_t made) {
    char value[NOTE];
    int compared = 0;
    size_t size = put_note(made, key, value);
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_omap_cmp2(op, (const char *)token, LIBRADOS_CMPXATTR_OP_EQ, value, VV_RADOS_TOKEN, size, &compared);
    int rc = vv_rados_read(rados, op, VV_RADOS_UPLOADS, NULL);
    return rc == -ENOENT ? -ECANCELED : rc;
}

int vv_rados_pieces_forget(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], const char *key,
                           uint64_t made) {
    char value[NOTE];
    int compared = 0;
    size_t size = put_note(made, key, value), token_size = VV_RADOS_TOKEN;
    const char *tokens[] = {(const char *)token};
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_cmp2(op, tokens[0], LIBRADOS_CMPXATTR_OP_EQ, value, token_size, size, &compared);
    rados_write_op_omap_rm_keys2(op, tokens, &token_size, 1);
    int rc = vv_rados_write(rados, op, VV_RADOS_UPLOADS);
    return rc == -ENOENT ? -ECANCELED : rc;
}

/* When there are no pieces any more, whoever has written the note. */
static int remove_note(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN]) {
    size_t token_size = VV_RADOS_TOKEN;
    const char *tokens[] = {(const char *)token};
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_rm_keys2(op, tokens, &token_size, 1);
    return vv_rados_write(rados, op, VV_RADOS_UPLOADS);
}

/* Not rados_remove, which waits where the cluster is full: there pieces must go above all. */
static int remove_piece(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], uint64_t number) {
    char name[VV_RADOS_NAME];
    vv_rados_piece_name(token, number, name);
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_remove(op);
    int rc = vv_rados_write(rados, op, name);
    return rc == -ENOENT ? 0 : rc;
}

/* The last one first: whatever is left then begins with piece 0, where a sweep looks. */
int vv_rados_pieces_remove(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], uint64_t count) {
    int rc = 0;
    for (uint64_t i = count; rc == 0 && i-- > 0;)
        rc = remove_piece(rados, token, i);
    return rc == 0 ? remove_note(rados, token) : rc;
}

/* ---- leftovers ---- */

struct leftover {
    uint8_t token[VV_RADOS_TOKEN];
    uint64_t made;
    char key[VV_RADOS_NAME];
};

/* Pieces of a writer that has died have no count: up to the first gap that no writer leaves. */
static int remove_unknown(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN]) {
    unsigned gap = 0;
    uint64_t count = 0;
    int rc = 0;
    while (rc == 0 && gap <= VV_RADOS_FLIGHT) {
        char name[VV_RADOS_NAME];
        uint64_t size;
        time_t time;
        vv_rados_piece_name(token, count++, name);
        rc = rados_stat(rados->io, name, &size, &time);
        gap = rc == -ENOENT ? gap + 1 : 0;
        rc = rc == -ENOENT ? 0 : rc;
    }
    return rc == 0 ? vv_rados_pieces_remove(rados, token, count - gap) : rc;
}

/* The note becomes ours. -ECANCELED: it is no longer as it was seen. */
static int take_over(struct vv_rados *rados, const struct leftover *leftover) {
    char seen[NOTE], dying[NOTE];
    int compared = 0;
    size_t size = put_note(leftover->made, leftover->key, seen);
    put_note(DYING, leftover->key, dying);
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_cmp2(op, (const char *)leftover->token, LIBRADOS_CMPXATTR_OP_EQ, seen, VV_RADOS_TOKEN, size,
                             &compared);
    set_note(op, leftover->token, dying, size);
    return vv_rados_write(rados, op, VV_RADOS_UPLOADS);
}

/* The head is looked at after the note was taken over: one that comes later is taken back by its writer. */
static int sweep_one(struct vv_rados *rados, const struct leftover *leftover) {
    struct vv_rados_head head;
    int rc = take_over(rados, leftover);
    if (rc < 0)
        return rc == -ECANCELED ? 0 : rc;
    rc = vv_rados_head_read(rados, leftover->key, &head, 0, NULL, 0, NULL, NULL);
    if (rc == -ENOENT && vv_rados_absent(rados) != -ENOENT)
        return -ESTALE;
    if (rc < 0 && rc != -ENOENT)
        return rc;
    int is_needed = rc == 0 && head.has_pieces && memcmp(head.token, leftover->token, VV_RADOS_TOKEN) == 0;
    if (!is_needed)
        return remove_unknown(rados, leftover->token);
    rc = vv_rados_pieces_forget(rados, leftover->token, leftover->key, DYING);
    return rc == -ECANCELED ? 0 : rc; /* it is removed just now, and noted again */
}

/* 1: this note is old; 0. */
static int take_note(const char *token, size_t token_size, const char *value, size_t size, struct leftover *out) {
    if (token_size != VV_RADOS_TOKEN || size < 8 || size - 8 >= sizeof out->key || memchr(value + 8, 0, size - 8))
        return 0;
    out->made = 0;
    for (int i = 0; i < 8; i++)
        out->made |= (uint64_t)(uint8_t)value[i] << 8 * i;
    memcpy(out->token, token, VV_RADOS_TOKEN);
    memcpy(out->key, value + 8, size - 8);
    out->key[size - 8] = '\0';
    return out->made < (uint64_t)time(NULL) - OLD_S;
}

/* Of the first notes, those that are old; tokens are random, so the next sweep meets others when these are gone. */
static int collect_old(struct vv_rados *rados, struct leftover *list, unsigned *count_out) {
    rados_omap_iter_t iter = NULL;
    unsigned char more = 0;
    int result = 0;
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_omap_get_vals2(op, "", "", PAGE, &iter, &more, &result);
    int rc = vv_rados_read(rados, op, VV_RADOS_UPLOADS, NULL);
    rc = rc < 0 ? rc : result;
    *count_out = 0;
    while (rc == 0) {
        char *token = NULL, *value = NULL;
        size_t token_size = 0, size = 0;
        rc = rados_omap_get_next2(iter, &token, &value, &token_size, &size);
        if (rc < 0 || !token)
            break;
        *count_out += (unsigned)take_note(token, token_size, value, size, &list[*count_out]);
    }
    if (iter)
        rados_omap_get_end(iter);
    return rc == -ENOENT ? 0 : rc;
}

int vv_rados_sweep(struct varve_backend *backend) {
    struct vv_rados *rados = vv_rados_of(backend);
    struct leftover *list = calloc(PAGE + 1, sizeof *list);
    unsigned count = 0;
    if (rados->is_reading || !list) {
        free(list);
        return rados->is_reading ? -EROFS : -ENOMEM;
    }
    int rc = collect_old(rados, list, &count);
    for (unsigned i = 0; i < count && rc != -ETIMEDOUT && rc != -ESTALE; i++) {
        int swept = sweep_one(rados, &list[i]);
        if (swept < 0)
            vv_rados_log(rados, "rados: pieces of %.200s are left until a later prune: %s", list[i].key,
                         strerror(-swept));
        rc = rc == 0 || swept == -ETIMEDOUT || swept == -ESTALE ? swept : rc;
    }
    free(list);
    return rc;
}

/* ---- removing an object ---- */

static int remove_head(struct vv_rados *rados, const char *key, uint64_t version) {
    char name[VV_RADOS_NAME];
    snprintf(name, sizeof name, "o/%s", key);
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_assert_version(op, version);
    rados_write_op_remove(op);
    int rc = vv_rados_write(rados, op, name);
    return rc == -ERANGE || rc == -EOVERFLOW ? -EBUSY : rc; /* it was replaced meanwhile */
}

int vv_rados_remove_object(struct vv_rados *rados, const char *key, const uint8_t *wanted) {
    struct vv_rados_head head;
    uint8_t token[VV_RADOS_TOKEN];
    uint64_t version = 0, made;
    int rc = vv_rados_head_read(rados, key, &head, 0, NULL, 0, NULL, &version);
    if (rc == -ENOENT)
        return vv_rados_absent(rados);
    if (rc == 0 && wanted && memcmp(head.token, wanted, VV_RADOS_TOKEN) != 0)
        return -ENOENT;
    if (rc == 0 && head.has_pieces)
        rc = vv_rados_pieces_note(rados, head.token, key, &made);
    if (rc == 0)
        rc = vv_rados_entry_mark(rados, key, token);
    if (rc == 0)
        rc = remove_head(rados, key, version);
    if (rc < 0)
        return rc == -ENOENT ? vv_rados_absent(rados) : rc;
    vv_rados_entry_end(rados, key, token);
    if (head.has_pieces && (rc = vv_rados_pieces_remove(rados, head.token, vv_rados_piece_count(head.size))) < 0)
        vv_rados_log(rados, "rados: pieces of %.200s are left until a later prune: %s", key, strerror(-rc));
    return 0;
}

int vv_rados_remove(struct varve_backend *backend, const char *key) {
    struct vv_rados *rados = vv_rados_of(backend);
    return rados->is_reading ? -EROFS : vv_rados_remove_object(rados, key, NULL);
}
