/* Shared by the files of this folder only: the limits of docs/format.md 13, a place to read from that knows what it is
 * reading, and the pieces several objects are made of. */
#ifndef VV_FORMAT_PRIVATE_H
#define VV_FORMAT_PRIVATE_H

#include "format/object.h"

#define VV_COUNT_MAX 0x7fffffffu           /* ranks, writers */
#define VV_LENGTH_END (UINT64_C(1) << 62)  /* objects, regions and layouts are shorter */
#define VV_VERSION_END (UINT64_C(1) << 63) /* versions are lower */
#define VV_WRITERS_MAX (UINT64_C(4) << 30) /* bytes of a writers object */
#define VV_SETTINGS_SIZE 24
#define VV_ATTEMPT_SIZE 16
#define VV_DEPENDENCY_SIZE 32
#define VV_WRITER_ENTRY_SIZE 64
#define VV_CATALOGUE_ENTRY_SIZE 64

/* What is being parsed: where the next byte is, and how to call the whole in an error. */
struct vv_parse {
    struct vv_cursor at;
    struct varve_error *error;
    const struct vv_key *key; /* the object's key, or NULL and then: */
    const char *what;
};

/* Fill the error with "object: text" and return code. */
int vv_parse_fail(const struct vv_parse *parse, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* VARVE_CORRUPT unless this many bytes are left for `part`. */
int vv_parse_need(const struct vv_parse *parse, uint64_t size, const char *part);
/* VARVE_CORRUPT if bytes are left over. */
int vv_parse_done(const struct vv_parse *parse);
/* A text16. One that does not fit is cut between characters: it is only for people. */
int vv_parse_text(struct vv_parse *parse, const char *field, char *out, size_t capacity);
/* A text16 that is a checkpoint name. */
int vv_parse_name(struct vv_parse *parse, char out[VV_NAME_MAX + 1]);
/* VARVE_UNKNOWN_FORMAT unless 0: a newer program may have found a use for it. */
int vv_parse_reserved(const struct vv_parse *parse, const char *field, uint64_t value);
int vv_parse_settings(struct vv_parse *parse, struct vv_settings_store *out);
int vv_parse_attempt(struct vv_parse *parse, const char *field, struct vv_attempt *out);
/* Lean entries, ascending; own, if not NULL, must not be among them. The list is the caller's, also NULL when empty. */
int vv_parse_dependencies(struct vv_parse *parse, uint32_t count, const struct vv_attempt *own,
                          struct vv_dependency **out);
/* Partners: a count and three different numbers below `writers`, the unused ones 0. */
int vv_parse_partners(struct vv_parse *parse, uint32_t writers, uint32_t *count_out, uint32_t out[VV_PARTNERS_MAX]);

void vv_put_text(struct vv_buf *buf, const char *text, size_t capacity);
void vv_put_settings(struct vv_buf *buf, const struct vv_settings_store *settings);
void vv_put_attempt(struct vv_buf *buf, const struct vv_attempt *attempt);
void vv_put_dependencies(struct vv_buf *buf, const struct vv_dependency *dependencies, uint32_t count);
void vv_put_partners(struct vv_buf *buf, const uint32_t *partners, uint32_t count);
void vv_put_hash(struct vv_buf *buf, struct vv_hash128 hash);

/* The head of an object of this kind under key (a tombstone's kind is not its key's). */
void vv_head_put(struct vv_buf *buf, int kind, const struct vv_key *key, const uint8_t store_id[16], uint64_t required);
/* The digest in the tail of a writers list. */
struct vv_hash128 vv_writers_digest(const uint8_t *data, uint64_t size);

/* Begin a small object; the result is for vv_object_seal, which appends the tail and returns the digest. */
size_t vv_object_begin(struct vv_buf *buf, int kind, const struct vv_key *key, const uint8_t store_id[16]);
struct vv_hash128 vv_object_seal(struct vv_buf *buf, size_t start);
/* Check head, length, digest, and that the kind is this one; then parse->at is the body. */
int vv_object_open(struct vv_parse *parse, int kind, const void *data, uint64_t size, uint64_t size_max,
                   const struct vv_key *expect, const uint8_t *store_id, struct vv_head *head_out,
                   struct varve_error *error);

/* In a region's description, beside the number of dimensions and beside its exactness. */
#define VV_SHAPE_STRIDED 0x20u
#define VV_SHAPE_DISTRIBUTION 4 /* bits to shift by */

#endif
