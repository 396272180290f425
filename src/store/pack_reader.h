/* Reading packs: end and footer, the tables with a lookup by (owner, address), sections (docs/format.md 6). No cache
 * and no record here: view.h knows which pack is wanted and what must be true of it.
 *
 * Errors: -ENOENT when the object is certainly absent, VARVE_FORGOTTEN when a tombstone stands under its key,
 * VARVE_CORRUPT, VARVE_UNKNOWN_FORMAT, or an error of the storage. */
#ifndef VV_PACK_READER_H
#define VV_PACK_READER_H

#include "format/pack.h"
#include "store/store.h"

#define VV_IDS_PAGE 65536u /* ids that are read at a time */

/* Which pack. name is not copied. */
struct vv_pack_id {
    struct vv_store *store;
    const char *name;
    struct vv_attempt attempt;
    uint32_t writer;
};
void vv_pack_key(const struct vv_pack_id *id, int kind, uint32_t part, char *text); /* VV_KEY_CAPACITY bytes */

/* What the writers list says of it. */
struct vv_listed {
    struct vv_writer entry;
    uint32_t count, ranks; /* of the whole list */
};

/* Head, end and footer of the pack, or of its copy if kind is VV_KIND_COPY; sections have the offsets of the pack in
 * both cases (see vv_pack_section). With listed the object must be the pack that it names, or its copy; without, it
 * must be sound in itself. length_out (may be NULL): of the object. Clear with vv_footer_clear. */
int vv_pack_footer_load(const struct vv_pack_id *id, int kind, const struct vv_listed *listed, struct vv_footer *out,
                        uint64_t *length_out, struct varve_error *error);
/* The same of a copy in memory, whose bytes nobody has checked. */
int vv_pack_copy_parse(const struct vv_pack_id *id, const void *data, size_t size, struct vv_footer *out,
                       struct varve_error *error);
/* Where a section that the footer names is in the object of this kind: the pack, or its copy, which has no blocks. */
struct vv_section vv_pack_section(const struct vv_footer *footer, const struct vv_section *section, int kind);
/* The head of any object: present, and of this key. */
int vv_pack_head_check(const struct vv_pack_id *id, int kind, uint32_t part, struct vv_head *out,
                       struct varve_error *error);

/* An extent and where its bytes are: at `raw` in the decoded block. */
struct vv_pack_extent {
    uint64_t address;
    uint32_t owner;
    uint32_t length;
    uint32_t block;
    uint32_t raw;
    uint32_t id; /* of its first granule, counted in the block */
};
struct vv_pack_tables {
    uint32_t parts; /* blocks with this part number are in the pack object */
    int is_lost;    /* the pack object is certainly absent: these tables are from its copy */
    uint64_t block_count;
    struct vv_block *blocks;
    uint64_t extent_count;
    struct vv_pack_extent *extents; /* ascending by (owner, address), none overlap; of all owners, or of one */
    uint64_t moved_count;
    struct vv_moved *moved; /* the same */
};
#define VV_ALL_OWNERS UINT32_MAX
/* Blocks, extents and moved extents, from the pack or its copy, each section's digest checked and all checked against
 * each other. bytes_out may be NULL. */
int vv_pack_tables_load(const struct vv_pack_id *id, int kind, const struct vv_footer *footer,
                        struct vv_pack_tables *out, size_t *bytes_out, struct varve_error *error);
/* The same, but of the extents only those of `owner` are kept, unless it is VV_ALL_OWNERS. */
int vv_pack_tables_load_of(const struct vv_pack_id *id, int kind, const struct vv_footer *footer, uint32_t owner,
                           struct vv_pack_tables *out, size_t *bytes_out, struct varve_error *error);
void vv_pack_tables_clear(struct vv_pack_tables *tables);
/* The ranges section at this place in the object under key, checked and parsed: one for each of the pack's blocks. Free
 * with vv_free. */
int vv_pack_ranges_load(struct vv_store *store, const char *key, const struct vv_section *section, uint64_t block_count,
                        struct vv_range **out, struct varve_error *error);
/* The extent that covers this address, or NULL. */
const struct vv_pack_extent *vv_pack_find(const struct vv_pack_tables *tables, uint32_t owner, uint64_t address);
const struct vv_moved *vv_pack_find_moved(const struct vv_pack_tables *tables, uint32_t owner, uint64_t address);

/* Put the key in front of what a parser said, which does not know it. Returns rc. */
int vv_pack_error(const char *key, int rc, struct varve_error *error);

/* Exactly size bytes of an object; VARVE_CORRUPT if it ends before. */
int vv_pack_get(struct vv_store *store, const char *key, uint64_t offset, void *data, size_t size,
                struct varve_error *error);
/* Check a section's digest in a pass of bounded memory. */
int vv_section_check(struct vv_store *store, const char *key, const struct vv_section *section,
                     struct varve_error *error);
/* A whole section, checked; free with vv_free. NULL for an empty one. Takes no memory for more than is really there. */
int vv_section_load(struct vv_store *store, const char *key, const struct vv_section *section, uint8_t **out,
                    struct varve_error *error);

#endif
