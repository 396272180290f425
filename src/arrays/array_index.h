/* Which rank has which block of an array, written down once for all ranks, so that a restart on other ranks reads the
 * descriptions of those that it needs and no others (docs/format.md 8). A regular decomposition is a rule; others are
 * sorted blocks in groups, of which a reader takes those that reach into its own.
 *
 * An index only says where to look: what a rank has stored is said by its manifest alone. */
#ifndef VV_ARRAY_INDEX_H
#define VV_ARRAY_INDEX_H

#include "arrays/global_array.h"
#include "base/bytes.h"
#include "format/attributes.h"

/* Arrays that are ambiguous or private are left out. -ENOMEM is in out->failed. */
void vv_index_encode(const struct vv_global_arrays *arrays, uint32_t ranks, struct vv_buf *out);

/* Bytes of the index; 0 or an error. */
typedef int (*vv_index_fill_fn)(void *arg, uint64_t offset, void *data, size_t size, struct varve_error *error);
struct vv_index {
    vv_index_fill_fn fill;
    void *arg;
    uint64_t length;
    uint32_t ranks;
    uint32_t arrays;
    uint8_t *entries;
    size_t entries_size;
    uint32_t *by_name; /* where each entry begins */
};
/* length: of the whole. VARVE_CORRUPT if it is not one of a checkpoint of so many ranks. */
int vv_index_open(struct vv_index *index, vv_index_fill_fn fill, void *arg, uint64_t length, uint32_t ranks,
                  struct varve_error *error);
void vv_index_close(struct vv_index *index);

/* An owner that has some of the elements, and its part; of a list, the place of that part. Nonzero stops. */
typedef int (*vv_index_owner_fn)(void *arg, uint32_t owner, const struct vv_part *part);
/* 1 and how many elements it has along its first dimension, 0 if it is not there. */
int vv_index_rows(const struct vv_index *index, const char *name, uint64_t *rows);
/* 1: fn has been told all of them, in any order. 0: the index does not have the array, or another one of this name. */
int vv_index_owners(const struct vv_index *index, const char *name, const struct vv_part *wanted, vv_index_owner_fn fn,
                    void *arg, struct varve_error *error);

/* ---- what writing and reading share ---- */

#define VV_INDEX_MAGIC 0x31585656u /* "VVX1" */
#define VV_INDEX_HEAD 24
#define VV_INDEX_GROUP 256 /* blocks */
enum vv_index_kind { VV_INDEX_GRID = 1, VV_INDEX_LIST = 2 };
/* How a dimension of n elements is cut for p of P. */
enum vv_index_rule {
    VV_CUT_FLOOR,  /* from n p / P on */
    VV_CUT_REST,   /* the first n mod P have one more */
    VV_CUT_CEIL,   /* each n / P, rounded up; the last ones have less, or nothing */
    VV_CUT_CYCLIC, /* dealt out in blocks */
    VV_CUT_LIST    /* each is written down */
};
/* What p has by the rule; block: of VV_CUT_CYCLIC. */
struct vv_part_dim vv_index_cut(enum vv_index_rule rule, uint64_t size, uint64_t parts, uint64_t at, uint64_t block);

#endif
