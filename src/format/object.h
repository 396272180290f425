/* The head of every object and the small objects (docs/format.md 4 and 5): encode into a buffer, parse from bytes. No
 * I/O.
 *
 * A parser trusts nothing: it checks magic, version, kind, identity, lengths and digest before it looks at a field.
 * It returns VARVE_CORRUPT for damage, VARVE_UNKNOWN_FORMAT for something newer, -ENOMEM, and says in error which
 * field. The identity to expect comes as a struct vv_key (the key the bytes were read from); store_id may be NULL to
 * accept any. */
#ifndef VV_OBJECT_H
#define VV_OBJECT_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/key.h"

#define VV_HEAD_SIZE 96
#define VV_TAIL_SIZE 24
#define VV_FORMAT_VERSION 1
#define VV_PARTNERS_MAX 3
#define VV_TEXT_CAPACITY 256 /* host, program; longer ones are cut when written */
#define VV_DEPENDENCIES_MAX 1048576u
#define VV_SMALL_MAX (64u << 20)

struct vv_head {
    uint16_t format, kind;
    uint64_t required, optional;
    uint8_t store_id[16];
    uint32_t generation;
    uint32_t attempt;
    uint64_t version;
    uint32_t writer, part;
    uint64_t name_sum;
};

/* Append the 96 bytes of a head for this key. */
void vv_head_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16], uint64_t required);
/* Parse and check a head; out may be NULL. Under the key of a pack, a writers list, a record or a pin a tombstone is
 * accepted too; see out->kind. */
int vv_head_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                  struct vv_head *out, struct varve_error *error);

enum vv_id_kind { VV_ID_XXH3 = 1, VV_ID_SHA256 = 2 };

/* Where the packs of a checkpoint are. */
enum vv_layout {
    VV_LAYOUT_SHARED, /* all in this store */
    VV_LAYOUT_LOCAL   /* each in the store of the node that wrote it; there is one on every node, with the same id */
};

struct vv_settings_store {
    uint16_t id_kind;
    uint16_t granule_log2;
    uint32_t layout;
    uint64_t seed;
    uint64_t created_ns;
};

struct vv_attempt {
    uint32_t generation; /* 0: none */
    uint32_t attempt;
    uint64_t version;
};
int vv_attempt_compare(const struct vv_attempt *a, const struct vv_attempt *b); /* by (generation, version, attempt) */

struct vv_dependency {
    struct vv_attempt attempt;
    struct vv_hash128 writers_digest;
};
/* By attempt, for qsort and bsearch. */
int vv_dependency_compare(const void *a, const void *b);

struct vv_store_object {
    uint8_t store_id[16];
    struct vv_settings_store settings;
};
void vv_store_object_encode(struct vv_buf *buf, const struct vv_store_object *store);
int vv_store_object_parse(const void *data, size_t size, struct vv_store_object *out, struct varve_error *error);

struct vv_claim {
    uint8_t store_id[16]; /* filled by the parser */
    struct vv_settings_store settings;
    uint8_t session_id[16];
    uint64_t time_ns;
    uint8_t boot_id[16];
    uint64_t pid_namespace;
    uint64_t pid_start;
    uint32_t pid;
    uint32_t ranks;
    uint32_t beat_seconds;
    uint32_t dead_seconds;
    char host[VV_TEXT_CAPACITY];
    char program[VV_TEXT_CAPACITY];
};
void vv_claim_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                     const struct vv_claim *claim);
int vv_claim_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                   struct vv_claim *out, struct varve_error *error);

enum vv_heartbeat_state { VV_HEARTBEAT_RUNNING = 1, VV_HEARTBEAT_ENDED = 2 };
struct vv_heartbeat {
    uint8_t session_id[16];
    uint64_t counter;
    uint64_t time_ns;
    uint32_t state;
    struct vv_attempt refers;
};
void vv_heartbeat_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                         const struct vv_heartbeat *heartbeat);
int vv_heartbeat_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                       struct vv_heartbeat *out, struct varve_error *error);

struct vv_writer {
    uint32_t first_owner;
    uint32_t owners;
    uint32_t parts;
    uint32_t partner_count;
    uint32_t partners[VV_PARTNERS_MAX];
    uint64_t pack_length;
    uint64_t parts_length;
    struct vv_hash128 footer_digest;
};
struct vv_writers {
    uint32_t ranks;
    uint32_t count;
    struct vv_writer *list;
    struct vv_hash128 digest; /* the last 16 bytes; filled by the parser */
    uint64_t length;
};
/* Returns the digest of the encoded object in digest_out (may be NULL). */
void vv_writers_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                       const struct vv_writers *writers, struct vv_hash128 *digest_out);
int vv_writers_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                     struct vv_writers *out, struct varve_error *error);
void vv_writers_clear(struct vv_writers *writers);
/* The writer whose owners include owner, or -1. */
int64_t vv_writers_home(const struct vv_writers *writers, uint32_t owner);
int64_t vv_writers_find(const struct vv_writer *list, uint32_t count, uint32_t owner);

/* Bytes of a list of so many writers; how many pages with digests it has (0: a short one has none); where one is. */
#define VV_WRITERS_PAGE 512u
uint64_t vv_writers_length(uint32_t count);
uint32_t vv_writers_pages(uint32_t count);
uint64_t vv_writers_page_at(uint32_t count, uint32_t page, size_t *size_out);

/* A list of which only the pages that are needed are read. */
struct vv_writers_index {
    uint32_t ranks;
    uint32_t count;
    struct vv_hash128 digest; /* as computed from what was read: to be compared with the one that a record names */
    uint64_t length;
    struct vv_hash128 *pages; /* NULL: the list is short */
    struct vv_writer *list;   /* and here then */
};
/* How many bytes at the beginning of the object vv_writers_index_parse needs; data: the first `size` of them. */
uint64_t vv_writers_index_size(const void *data, size_t size);
int vv_writers_index_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                           struct vv_writers_index *out, struct varve_error *error);
/* out has room for VV_WRITERS_PAGE. */
int vv_writers_page_parse(const struct vv_writers_index *index, uint32_t page, const void *data, size_t size,
                          const struct vv_key *expect, struct vv_writer *out, struct varve_error *error);
void vv_writers_index_clear(struct vv_writers_index *index);

struct vv_record {
    uint8_t store_id[16]; /* filled by the parser */
    uint32_t attempt;     /* of the key's (generation, version); filled by the parser from the head */
    struct vv_settings_store settings;
    uint64_t time_ns;
    uint32_t ranks;
    uint32_t writers;
    uint64_t writers_length;
    struct vv_hash128 writers_digest;
    struct vv_attempt parent;
    uint64_t protected_bytes;
    uint64_t raw_bytes;
    uint64_t stored_bytes;
    uint64_t metadata_bytes;
    uint64_t regions;
    uint32_t dependency_count;
    struct vv_dependency *dependencies;
    char program[VV_TEXT_CAPACITY];
};
/* The attempt that the record commits is key->attempt. */
void vv_record_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                      const struct vv_record *record);
/* The record's attempt is not part of its key: expect->attempt is ignored. If the object is a well-formed tombstone,
 * returns VARVE_FORGOTTEN. */
int vv_record_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                    struct vv_record *out, struct varve_error *error);
void vv_record_clear(struct vv_record *record);

enum vv_tombstone_reason {
    VV_TOMBSTONE_FAILED = 1,
    VV_TOMBSTONE_PRUNED = 2,
    VV_TOMBSTONE_FORGOTTEN = 3,
    VV_TOMBSTONE_GIVEN_UP = 4
};
struct vv_tombstone {
    uint32_t reason;
    uint64_t time_ns;
    char text[VV_TEXT_CAPACITY];
};
/* key is that of the object in whose place it stands. */
void vv_tombstone_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                         const struct vv_tombstone *tombstone);
int vv_tombstone_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                       struct vv_tombstone *out, struct varve_error *error);

/* A checkpoint that is not forgotten before somebody takes the pin away. */
struct vv_pin {
    uint64_t time_ns;
    char host[VV_TEXT_CAPACITY];
    char reason[VV_TEXT_CAPACITY];
};
void vv_pin_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16], const struct vv_pin *pin);
/* If the object is a well-formed tombstone, returns VARVE_FORGOTTEN. */
int vv_pin_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                 struct vv_pin *out, struct varve_error *error);

enum vv_trigger_wish { VV_TRIGGER_CHECKPOINT = 1, VV_TRIGGER_EXIT = 2 }; /* of the session that has the name open */
struct vv_trigger {
    uint32_t wish;
    uint64_t time_ns;
    char host[VV_TEXT_CAPACITY];
};
void vv_trigger_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                       const struct vv_trigger *trigger);
int vv_trigger_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                     struct vv_trigger *out, struct varve_error *error);

struct vv_catalogue_entry {
    struct vv_attempt attempt;
    uint64_t time_ns;
    uint64_t protected_bytes;
    uint64_t stored_bytes;
    uint64_t metadata_bytes;
    uint64_t regions;
    uint32_t ranks;
    uint32_t is_tombstone;
};
struct vv_catalogue {
    uint64_t count;
    struct vv_catalogue_entry *list; /* newest first */
};
void vv_catalogue_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                         const struct vv_catalogue *catalogue);
int vv_catalogue_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                       struct vv_catalogue *out, struct varve_error *error);
void vv_catalogue_clear(struct vv_catalogue *catalogue);

#endif
