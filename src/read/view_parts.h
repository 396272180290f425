/* What a view has read: borrowed writers lists, footers and tables, and the search for a place. For the files of this
 * folder, and for check/, which looks at every part. */
#ifndef VV_VIEW_PARTS_H
#define VV_VIEW_PARTS_H

#include "read/view.h"
#include "store/pack_cache.h"
#include "store/pack_reader.h"

#define VV_TABLES_BUDGET (256u << 20)
#define VV_NO_SOURCE UINT32_MAX

/* vv_view_open with a cache that several views of the same name share. */
int vv_view_open_with(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                      struct vv_pack_cache *cache, struct vv_view **out, struct varve_error *error);

/* Verify knows packs whose ids are not to be believed: is_trusted tells. */
typedef int (*vv_trust_fn)(void *arg, const struct vv_attempt *attempt, uint32_t writer);
void vv_view_distrust(struct vv_view *view, vv_trust_fn is_trusted, void *arg);
/* The seed of its store's ids. */
uint64_t vv_view_seed(const struct vv_view *view);

/* The footer of a pack, and the object it was read from: the pack, or its copy where the pack is missing or damaged. */
struct vv_view_footer {
    struct vv_footer footer; /* first: a borrowed footer is a struct vv_footer, too */
    int kind;                /* VV_KIND_PACK or VV_KIND_COPY */
    int is_lost;             /* there is certainly no pack */
};

/* Borrowed objects: struct vv_writers_index, struct vv_view_footer, struct vv_pack_tables. Give them back with
 * vv_view_release. */
int vv_view_writers(struct vv_view *view, uint32_t source, struct vv_cached **out, struct varve_error *error);
int vv_view_footer(struct vv_view *view, uint32_t source, uint32_t writer, struct vv_cached **out,
                   struct varve_error *error);
int vv_view_tables(struct vv_view *view, uint32_t source, uint32_t writer, struct vv_cached **out,
                   struct varve_error *error);
/* The same, but the extents need not be those of other owners than this one. */
int vv_view_tables_of(struct vv_view *view, uint32_t source, uint32_t writer, uint32_t owner, struct vv_cached **out,
                      struct varve_error *error);
/* Call fn with a section of the pack (the one of this kind, and owner, for manifests), which it reads and checks; if it
 * fails, with the same section in the pack's copy. The first failure is the result when neither works. */
typedef int (*vv_section_fn)(void *arg, const char *key, const struct vv_section *section, struct varve_error *error);
int vv_view_section(struct vv_view *view, uint32_t source, uint32_t writer, int kind, uint32_t owner, vv_section_fn fn,
                    void *arg, struct varve_error *error);
/* The key of the object that holds blocks of this part; a part's head is checked the first time. key: VV_KEY_CAPACITY
 * bytes. */
int vv_view_block_key(struct vv_view *view, uint32_t source, uint32_t writer, uint32_t part, uint32_t parts, char *key,
                      struct varve_error *error);
void vv_view_release(struct vv_view *view, struct vv_cached *cached); /* accepts NULL */

/* The writer whose owners include owner: 1, 0 when there is none, or an error. Of a long list only pages are read; home
 * keeps the last one, and out points into it. */
struct vv_home {
    uint32_t source; /* if the list is set */
    uint32_t number; /* of the page, if it is set */
    struct vv_cached *list, *page;
};
int vv_home_find(struct vv_view *view, struct vv_home *home, uint32_t source, uint32_t owner,
                 const struct vv_writer **out, uint32_t *number_out, struct varve_error *error);
void vv_home_clear(struct vv_view *view, struct vv_home *home);
/* The same, for once. */
int vv_view_home(struct vv_view *view, uint32_t source, uint32_t owner, uint32_t *out, struct varve_error *error);
/* What the list says of one writer. */
int vv_view_listed(struct vv_view *view, uint32_t source, uint32_t writer, struct vv_listed *out,
                   struct varve_error *error);

struct vv_pack_id vv_view_pack(const struct vv_view *view, uint32_t source, uint32_t writer);
/* The source that a dependency means, or VV_NO_SOURCE when the record does not name that attempt with that writers
 * list. */
uint32_t vv_view_find_source(const struct vv_view *view, const struct vv_dependency *dependency);
/* An object was not there (rc is -ENOENT or VARVE_FORGOTTEN; every other rc is returned untouched): VARVE_CORRUPT if
 * the record still stands, VARVE_FORGOTTEN if it is gone. */
int vv_view_missing(const struct vv_view *view, int rc, struct varve_error *error);
/* "generation 1 version 7", for messages. */
const char *vv_attempt_text(const struct vv_attempt *attempt, char out[64]);

/* ---- where a place is. A seeker remembers the last pack, since most searches are neighbours, and the writers of some
 * sources; one thread. ---- */
#define VV_SEEKER_HOMES 32
struct vv_seeker {
    struct vv_view *view;
    struct vv_home homes[VV_SEEKER_HOMES]; /* of a source: at its number modulo their count */
    uint32_t tables_source;
    uint32_t tables_writer;
    int tables_are_own; /* only of the owner the view is read for */
    struct vv_cached *tables;
    uint64_t last_extent; /* in tables */
    uint64_t ids_page;
    uint32_t ids_source;
    uint32_t ids_writer;
    struct vv_cached *ids;
};
struct vv_spot {
    uint32_t writer;
    uint32_t block;
    uint32_t raw;                        /* offset in the decoded block */
    uint32_t length;                     /* bytes that lie there together */
    uint32_t extent_delta;               /* from the extent's start */
    const struct vv_pack_extent *extent; /* these two until the next search */
    const struct vv_pack_tables *tables;
};
void vv_seeker_init(struct vv_seeker *seeker, struct vv_view *view);
void vv_seeker_clear(struct vv_seeker *seeker);
/* The bytes at place.address, as many as one extent holds. place->dependency is a source. */
int vv_seek(struct vv_seeker *seeker, const struct vv_place *place, struct vv_spot *out, struct varve_error *error);
/* The home writer of the place's owner. */
int vv_seek_home(struct vv_seeker *seeker, const struct vv_place *place, uint32_t *out, struct varve_error *error);
/* How many copies of a place its home writer's partners may hold. */
int vv_seek_partners(struct vv_seeker *seeker, const struct vv_place *place, uint32_t *out, struct varve_error *error);
/* The stored ids of `count` granules of a block, which has ids, from its granule `first` on. Any thread. */
int vv_view_block_ids(struct vv_view *view, uint32_t source, uint32_t writer, const struct vv_block *block,
                      uint32_t first, uint32_t count, struct vv_hash128 *out, struct varve_error *error);
/* The stored ids of the granules from this place on, at most max and only those whose bytes are wholly in the length
 * bytes asked for. count_out 0 when there are none; covered_out: how many bytes were answered, with or without ids. */
int vv_seek_ids(struct vv_seeker *seeker, const struct vv_place *place, uint64_t length, struct vv_hash128 *out,
                uint32_t max, uint32_t *count_out, uint64_t *covered_out, struct varve_error *error);

#endif
