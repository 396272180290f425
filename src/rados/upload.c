/* Writing an object: pieces as they come, the head last. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rados_private.h"

#define SMALL (1u << 20) /* what is announced with less is no data, as with files */

struct piece {
    uint8_t *data;
    rados_completion_t done; /* NULL: it is not under way */
};

struct upload {
    struct varve_upload base;
    char *key;
    struct vv_rados_head head;
    uint8_t entry[VV_RADOS_TOKEN];        /* of the entry, in commit */
    uint64_t pieces;                      /* that were begun */
    uint64_t noted;                       /* when, if there are some */
    struct piece flight[VV_RADOS_FLIGHT]; /* the one at hand is pieces % FLIGHT */
    size_t used;                          /* of the one at hand */
    int is_small;                         /* and so taken by a cluster that is full */
    int failed;
};

static struct vv_rados *rados_of_upload(const struct upload *upload) {
    return vv_rados_of(upload->base.backend);
}

int vv_rados_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out) {
    struct vv_rados *rados = vv_rados_of(backend);
    if (rados->is_reading)
        return -EROFS;
    struct upload *upload = calloc(1, sizeof *upload);
    if (!upload)
        return -ENOMEM;
    upload->base.backend = backend;
    upload->is_small = size_hint > 0 && size_hint < SMALL;
    upload->key = strdup(key);
    int rc = upload->key ? vv_rados_token(upload->head.token) : -ENOMEM;
    if (rc < 0) {
        vv_rados_upload_abort(&upload->base);
        return rc;
    }
    *out = &upload->base;
    return 0;
}

static int end_piece(struct piece *piece) {
    if (!piece->done)
        return 0;
    rados_aio_wait_for_complete(piece->done);
    int rc = rados_aio_get_return_value(piece->done);
    rados_aio_release(piece->done);
    piece->done = NULL;
    return rc == -EDQUOT ? -ENOSPC : rc;
}

static int end_pieces(struct upload *upload) {
    int rc = 0;
    for (unsigned i = 0; i < VV_RADOS_FLIGHT; i++) {
        int ended = end_piece(&upload->flight[i]);
        rc = rc < 0 ? rc : ended;
    }
    return rc;
}

/* The piece at hand is under way, and the next one can be filled. Its writing may fail later. */
static int begin_piece(struct upload *upload) {
    struct vv_rados *rados = rados_of_upload(upload);
    struct piece *piece = &upload->flight[upload->pieces % VV_RADOS_FLIGHT];
    char name[VV_RADOS_NAME];
    int rc = upload->pieces ? 0 : vv_rados_pieces_note(rados, upload->head.token, upload->key, &upload->noted);
    if (rc == 0)
        rc = rados_aio_create_completion2(NULL, NULL, &piece->done);
    if (rc < 0)
        return rc;
    vv_rados_piece_name(upload->head.token, upload->pieces, name);
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_write_full(op, (const char *)piece->data, upload->used);
    rc = rados_aio_write_op_operate(op, rados->io, piece->done, name, NULL, LIBRADOS_OPERATION_FULL_TRY);
    rados_release_write_op(op);
    if (rc < 0) {
        rados_aio_release(piece->done);
        piece->done = NULL;
        return rc;
    }
    upload->pieces++;
    upload->used = 0;
    return end_piece(&upload->flight[upload->pieces % VV_RADOS_FLIGHT]);
}

int vv_rados_upload_write(struct varve_upload *base, const void *data, size_t size) {
    struct upload *upload = (struct upload *)base;
    const uint8_t *from = data;
    int rc = upload->failed;
    while (rc == 0 && size > 0) {
        if (upload->used == VV_RADOS_PIECE && (rc = begin_piece(upload)) < 0)
            break;
        struct piece *piece = &upload->flight[upload->pieces % VV_RADOS_FLIGHT];
        size_t room = VV_RADOS_PIECE - upload->used, part = size < room ? size : room;
        if (!piece->data && !(piece->data = malloc(VV_RADOS_PIECE))) {
            rc = -ENOMEM;
            break;
        }
        memcpy(piece->data + upload->used, from, part);
        upload->used += part;
        upload->head.size += part;
        from += part;
        size -= part;
    }
    upload->failed = rc;
    return rc;
}

static void free_upload(struct upload *upload) {
    for (unsigned i = 0; i < VV_RADOS_FLIGHT; i++)
        free(upload->flight[i].data);
    free(upload->key);
    free(upload);
}

/* The head, with the content if it is not in pieces. With is_new it must not be there yet. */
static int put_head(struct vv_rados *rados, const char *key, const struct vv_rados_head *head, const void *content,
                    int is_new, int is_small) {
    char name[VV_RADOS_NAME];
    uint8_t bytes[VV_RADOS_HEAD];
    vv_rados_head_put(head, bytes);
    snprintf(name, sizeof name, "o/%s", key);
    rados_write_op_t op = rados_create_write_op();
    if (is_new)
        rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
    rados_write_op_write_full(op, (const char *)bytes, sizeof bytes);
    if (!head->has_pieces && head->size)
        rados_write_op_write(op, content, (size_t)head->size, sizeof bytes);
    return vv_rados_write_as(rados, op, name, !is_small && !head->has_pieces);
}

/* The entry was set before, so that it is never missing; and is set after, should somebody have removed it meanwhile
 * with an older object of this key. */
static int publish(struct vv_rados *rados, const char *key, const struct vv_rados_head *head, const void *content,
                   int is_new, int is_small, uint8_t entry[VV_RADOS_TOKEN]) {
    int rc = put_head(rados, key, head, content, is_new, is_small);
    if (rc == -ENOENT)
        rc = vv_rados_absent(rados) == -ESTALE ? -ESTALE : -EIO;
    return rc == 0 ? vv_rados_entry_created(rados, key, entry) : rc;
}

static int say_taken(struct upload *upload) {
    vv_rados_log(rados_of_upload(upload),
                 "rados: a prune took the upload of %.200s for dead: compare the clocks of the hosts, and save again",
                 upload->key);
    return -EIO;
}

/* All that comes before the head. */
static int prepare(struct upload *upload) {
    struct vv_rados *rados = rados_of_upload(upload);
    int rc = upload->failed;
    upload->head.has_pieces = upload->head.size > VV_RADOS_PIECE;
    if (rc == 0 && upload->head.has_pieces && upload->used)
        rc = begin_piece(upload);
    int ended = end_pieces(upload);
    rc = rc < 0 ? rc : ended;
    if (rc == 0)
        rc = vv_rados_entry_set(rados, upload->key, upload->entry);
    if (rc == 0 && upload->pieces)
        rc = vv_rados_pieces_check(rados, upload->head.token, upload->key, upload->noted);
    return rc == -ECANCELED ? say_taken(upload) : rc;
}

/* The head stands. If a sweep has taken the note over since prepare, it may not have seen the head. */
static int settle(struct upload *upload) {
    struct vv_rados *rados = rados_of_upload(upload);
    int rc = vv_rados_pieces_forget(rados, upload->head.token, upload->key, upload->noted);
    if (rc != -ECANCELED)
        return rc;
    rc = vv_rados_remove_object(rados, upload->key, upload->head.token);
    return rc == -ENOENT ? 0 : say_taken(upload); /* a remover was faster, with a note of its own */
}

int vv_rados_upload_commit(struct varve_upload *base) {
    struct upload *upload = (struct upload *)base;
    struct vv_rados *rados = rados_of_upload(upload);
    int rc = prepare(upload);
    int is_without_head = rc < 0 && rc != -ETIMEDOUT; /* a piece may still be written after that */
    if (rc == 0) {
        rc = publish(rados, upload->key, &upload->head, upload->flight[0].data, 1, upload->is_small, upload->entry);
        is_without_head = rc == -EEXIST;
    }
    if (rc == 0 && upload->pieces)
        rc = settle(upload);
    if (is_without_head && upload->pieces)
        vv_rados_pieces_remove(rados, upload->head.token, upload->pieces);
    free_upload(upload);
    return rc;
}

void vv_rados_upload_abort(struct varve_upload *base) {
    struct upload *upload = (struct upload *)base;
    end_pieces(upload);
    if (upload->pieces)
        vv_rados_pieces_remove(rados_of_upload(upload), upload->head.token, upload->pieces);
    free_upload(upload);
}

/* Small ones lie in their head, which is replaced at once. */
int vv_rados_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct vv_rados *rados = vv_rados_of(backend);
    struct vv_rados_head old = {0}, head = {.size = size};
    uint8_t entry[VV_RADOS_TOKEN];
    uint64_t made;
    if (rados->is_reading)
        return -EROFS;
    if (size > VV_RADOS_PIECE * 8u)
        return -EFBIG;
    int rc = vv_rados_token(head.token);
    if (rc == 0)
        rc = vv_rados_head_read(rados, key, &old, 0, NULL, 0, NULL, NULL);
    if (rc == -ENOENT)
        rc = 0;
    if (rc == 0 && old.has_pieces)
        rc = vv_rados_pieces_note(rados, old.token, key, &made);
    if (rc == 0)
        rc = vv_rados_entry_set(rados, key, entry);
    if (rc == 0)
        rc = publish(rados, key, &head, data, 0, size < SMALL, entry);
    if (rc == 0 && old.has_pieces)
        vv_rados_pieces_remove(rados, old.token, vv_rados_piece_count(old.size));
    return rc;
}
