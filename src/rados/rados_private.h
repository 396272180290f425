/* Objects in a pool of Ceph, over librados. What lies in the pool, all in one namespace of it:
 *
 *   o/KEY      the head of an object: 32 bytes that say its size and its token, and, up to PIECE bytes, its content
 *   p/TOKEN/N  piece N of a larger object. The token is random, so pieces of two writers never meet
 *   d/PREFIX   a directory: an omap with one entry for each component below that prefix
 *   u          an omap with the tokens of pieces that no head has yet, or has no more
 *
 * The head comes last, by an operation that fails if it exists: then the object is there, with all its pieces. RADOS
 * lists a whole pool or nothing, so directories are ours to keep, and they must never lack what is there: an entry is
 * made before its head, and goes after it. Only operations on one object of the pool are atomic. So whoever creates
 * sets the entry once more behind the head, and whoever removes marks the entry with a token of its own, and removes it
 * only if that still stands there (entries.c). */
#ifndef VV_RADOS_PRIVATE_H
#define VV_RADOS_PRIVATE_H

#include <pthread.h>
#include <rados/librados.h>
#include <stddef.h>
#include <stdint.h>
#include <varve/varve_backend.h>

#define VV_RADOS_PIECE (8u << 20)
#define VV_RADOS_FLIGHT 4 /* pieces that are written, or read, at a time */
#define VV_RADOS_TOKEN 16
#define VV_RADOS_HEAD 32
#define VV_RADOS_NAME 1100 /* of an object of the pool: a key, and what we put before it */
#define VV_RADOS_UPLOADS "u"

/* Where, and how it is spoken to. */
struct vv_rados_place {
    char pool[128];
    char namespace_[512];
    char user[64];  /* "" : as the configuration has it */
    char conf[512]; /* "" : where librados looks */
    unsigned timeout_s;
};
int vv_rados_place_read(const char *place, const struct varve_backend_option *options, struct vv_rados_place *out,
                        struct varve_error *error);
int vv_rados_refuse(struct varve_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct vv_rados {
    struct varve_backend base;
    struct vv_rados_place place;
    rados_t cluster;
    rados_ioctx_t io;
    int has_io;
    int is_reading;
    void (*log)(void *log_arg, int level, const char *line);
    void *log_arg;
};
struct vv_rados *vv_rados_of(struct varve_backend *backend);
void vv_rados_log(const struct vv_rados *rados, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* 0, or an error. */
int vv_rados_token(uint8_t out[VV_RADOS_TOKEN]);
/* A compound write, with one try: -ETIMEDOUT where nobody answers in time. A full cluster takes it all the same:
 * without entries, notes, tombstones and removals nothing could ever be freed there. With is_data it does not: -ENOSPC.
 * Frees op. */
int vv_rados_write(struct vv_rados *rados, rados_write_op_t op, const char *name);
int vv_rados_write_as(struct vv_rados *rados, rados_write_op_t op, const char *name, int is_data);
/* The same for reads; version_out (may be NULL): of the object as it was read. The version that librados remembers for
 * all threads may be that of another operation. */
int vv_rados_read(struct vv_rados *rados, rados_read_op_t op, const char *name, uint64_t *version_out);
/* An operation found no such object. It certainly is not there if the pool is: -ENOENT, or -ESTALE. */
int vv_rados_absent(struct vv_rados *rados);

/* ---- heads ---- */
struct vv_rados_head {
    uint64_t size;
    uint8_t token[VV_RADOS_TOKEN];
    int has_pieces;
};
void vv_rados_head_put(const struct vv_rados_head *head, uint8_t out[VV_RADOS_HEAD]);
int vv_rados_head_parse(const uint8_t *data, size_t size, struct vv_rados_head *out);
/* The head of a key, and up to size bytes of the content from offset on, if they are in it (got_out). version_out may
 * be NULL. -ENOENT if there is none. */
int vv_rados_head_read(struct vv_rados *rados, const char *key, struct vv_rados_head *out, uint64_t offset, void *data,
                       size_t size, size_t *got_out, uint64_t *version_out);
void vv_rados_piece_name(const uint8_t token[VV_RADOS_TOKEN], uint64_t number, char out[VV_RADOS_NAME]);
uint64_t vv_rados_piece_count(uint64_t size);

/* ---- entries.c: directories ---- */
/* The key has an entry when these return: set before its object is created, and created, with its token, behind it. */
int vv_rados_entry_set(struct vv_rados *rados, const char *key, uint8_t token[VV_RADOS_TOKEN]);
int vv_rados_entry_created(struct vv_rados *rados, const char *key, uint8_t token[VV_RADOS_TOKEN]);
/* Remove the key's entry after its object, by calling between: mark, remove the object, end. */
int vv_rados_entry_mark(struct vv_rados *rados, const char *key, uint8_t token[VV_RADOS_TOKEN]);
void vv_rados_entry_end(struct vv_rados *rados, const char *key, const uint8_t token[VV_RADOS_TOKEN]);
int vv_rados_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit, varve_list_fn fn,
                  void *arg);

/* ---- upload.c ---- */
int vv_rados_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out);
int vv_rados_upload_write(struct varve_upload *base, const void *data, size_t size);
int vv_rados_upload_commit(struct varve_upload *base);
void vv_rados_upload_abort(struct varve_upload *base);
int vv_rados_replace(struct varve_backend *backend, const char *key, const void *data, size_t size);

/* ---- pieces.c ---- */
/* Note, before the first piece is written or the head is removed, that these pieces may be without one. made_out: when,
 * by which the note is known again. */
int vv_rados_pieces_note(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], const char *key,
                         uint64_t *made_out);
/* Is the note as it was made? -ECANCELED: a sweep has taken it over, and the pieces may be gone. forget removes it. */
int vv_rados_pieces_check(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], const char *key, uint64_t made);
int vv_rados_pieces_forget(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], const char *key, uint64_t made);
/* Remove pieces 0 to count - 1, and then the note. */
int vv_rados_pieces_remove(struct vv_rados *rados, const uint8_t token[VV_RADOS_TOKEN], uint64_t count);
/* Bytes from the pieces, several at a time. -ENOENT if one is not there. */
int64_t vv_rados_pieces_read(struct vv_rados *rados, const struct vv_rados_head *head, uint64_t offset, void *data,
                             size_t size);
int vv_rados_sweep(struct varve_backend *backend);
int vv_rados_remove(struct varve_backend *backend, const char *key);
/* With wanted (may be NULL) only the object that has this token. */
int vv_rados_remove_object(struct vv_rados *rados, const char *key, const uint8_t *wanted);

#endif
