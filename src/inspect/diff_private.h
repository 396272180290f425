/* Comparing two checkpoints: what its files share.
 *
 *   diff.c         the calls
 *   diff_regions.c the regions of a rank in both, and which belong together
 *   diff_order.c   those that come in another order
 *   diff_runs.c    the runs of two regions side by side: what is the same without looking
 *   diff_read.c    what has to be looked at, read in batches that go across regions and ranks
 *   diff_values.c  elements: how far apart, and as text
 *   diff_arrays.c  arrays in other blocks or on other ranks, by their places in the whole */
#ifndef VV_INSPECT_DIFF_PRIVATE_H
#define VV_INSPECT_DIFF_PRIVATE_H

#include "arrays/global_array.h"
#include "inspect/inspect_private.h"

#define VV_DIFF_ELEMENT_MAX 16
#define VV_DIFF_TEXT_CAPACITY 96

enum vv_diff_what { VV_SAME, VV_CHANGED, VV_ONLY_FIRST, VV_ONLY_SECOND, VV_RESIZED, VV_WITHIN };

/* ---- elements ---- */

struct vv_diff_rule {
    uint8_t type;     /* enum varve_type */
    uint32_t element; /* its bytes */
    int is_by_value;
    double tolerance;
    double relative;
};
struct vv_diff_tally {
    uint64_t changed; /* elements that are not the same bits */
    uint64_t bytes;   /* theirs */
    uint64_t differing;
    uint64_t nan;
    /* The first that differs; or the first that changed, as long as none differs. */
    uint64_t first;
    uint8_t value[2][VV_DIFF_ELEMENT_MAX];
    int has_largest;
    double largest;
    double largest_relative;
    uint64_t largest_element;
};
/* Compare elements from number `first` on. Bytes behind the last whole element are one more, which is only the same or
 * not. */
void vv_diff_elements(const struct vv_diff_rule *rule, uint64_t first, const uint8_t *a, const uint8_t *b, size_t size,
                      struct vv_diff_tally *tally);
/* The value of an element, every digit of it. */
void vv_diff_value_text(uint8_t type, const uint8_t *value, char out[VV_DIFF_TEXT_CAPACITY]);

/* ---- a comparison ---- */

/* A region that is told when all before it have been, and its own bytes are compared. */
struct vv_diff_region {
    struct vv_diff_region *next;
    struct varve_difference told;
    struct vv_diff_rule rule;
    struct vv_diff_tally tally;
    int are_digests_different; /* of as many bytes: some byte must differ */
    int is_walked;             /* nothing more will be wanted of it */
    size_t waiting;            /* ranges of it in the batch */
    char name[];
};

/* Bytes of both at the same place in both buffers. */
struct vv_diff_item {
    struct vv_diff_region *region;
    uint64_t offset; /* in the region */
    size_t at;
    size_t size;
};

struct vv_diff {
    struct varve_store *store[2];
    struct varve_which which[2];
    struct vv_view *view[2];
    struct vv_residents *residents[2];
    struct vv_global_arrays arrays[2]; /* if some rank may have another block in the one than in the other */
    uint8_t *is_compared;              /* of the first ones: as a whole, so not region by region */
    struct varve_compare_options options;
    struct varve_compare_result result;
    int has_places;    /* a place means the same in both: one store, one name */
    int has_digests;   /* digests do */
    int has_ids;       /* ids do, and can be read */
    uint64_t ids_from; /* ids are asked for when so many bytes had to be looked at */
    uint64_t done, total, told_at;
    int stopped; /* what a callback returned */
    /* Regions that are not told yet. */
    struct vv_diff_region *oldest, *newest;
    size_t queued;
    /* The batch. */
    struct vv_fetch *fetch[2];
    uint8_t *buffer[2];
    size_t used;
    uint32_t *map; /* sources of one checkpoint, as the other knows them; or NULL */
    int mapped;    /* of which */
    struct vv_diff_item *items;
    size_t item_count, item_capacity;
};

/* One rank of one of the two. */
struct vv_diff_side {
    const struct vv_diff *diff;
    struct vv_view *view;
    uint32_t rank;
    struct vv_recipe *recipe; /* stands behind the head of region `at` */
    int has_region;
    struct vv_recipe_region at;
    struct vv_run run;              /* the one at hand */
    const uint8_t *kept, *kept_end; /* runs come from memory instead of the recipe; NULL: they do not */
};

/* A region of one side, as little of it as the comparison needs. */
struct vv_diff_listed {
    char *name;
    uint64_t number;
    uint64_t length;
    uint8_t type;
    struct vv_hash128 digest;
    /* For diff_order.c: */
    struct vv_diff_listed *twin; /* of the same name on the other side */
    enum { VV_DIFF_DONE, VV_DIFF_LATE, VV_DIFF_KEPT, VV_DIFF_HUGE } late;
    size_t kept, kept_size; /* where its runs are in memory */
};

/* Arrays that are whole in both, in other blocks or on other ranks, are compared by their places in the whole. */
int vv_diff_arrays(struct vv_diff *diff, struct varve_error *error);
/* Is it part of such an array? Then it is not compared as the region of a rank. */
int vv_diff_is_compared(const struct vv_diff *diff, const struct vv_recipe_region *region);
void vv_diff_arrays_clear(struct vv_diff *diff);
/* Compare all regions of a rank, as far as that goes without reading; what is wanted waits in the batch. */
int vv_diff_rank(struct vv_diff *diff, uint32_t rank, struct varve_error *error);
/* Let side->at be the next one; has_region is 0 at the end. A checkpoint without this rank has no region of it. */
int vv_diff_next_region(struct vv_diff_side *side, struct varve_error *error);
/* The region at hand; its name is borrowed. */
struct vv_diff_listed vv_diff_listed(struct vv_recipe_region *region);
/* Whether the digests say that the two are the same. */
int vv_diff_is_same(const struct vv_diff *diff, const struct vv_diff_listed *a, const struct vv_diff_listed *b);
/* A region that only the first (0) or the second (1) has. */
int vv_diff_alone(struct vv_diff *diff, uint32_t rank, int i, const char *name, uint64_t length,
                  struct varve_error *error);
/* Two of the same name. Both sides stand at them, unless the digests tell enough. */
int vv_diff_twins(struct vv_diff *diff, struct vv_diff_side *sides, const struct vv_diff_listed *a,
                  const struct vv_diff_listed *b, struct varve_error *error);
/* The regions that both sides stand at and all behind them, whatever their order. */
int vv_diff_by_name(struct vv_diff *diff, struct vv_diff_side *sides, struct varve_error *error);
/* Compare the first `common` bytes of the regions that both sides stand at. What has to be looked at is read sooner or
 * later. */
int vv_diff_runs(struct vv_diff *diff, struct vv_diff_side *sides, uint64_t common, struct vv_diff_region *region,
                 struct varve_error *error);
/* Let side->run be the one that covers offset, which never goes back. */
int vv_diff_run_at(struct vv_diff_side *side, uint64_t offset, struct varve_error *error);

/* size bytes at offset of both are to be compared; the runs at hand cover them, and no element is cut. */
int vv_diff_want(struct vv_diff *diff, struct vv_diff_side *sides, struct vv_diff_region *region, uint64_t offset,
                 uint64_t size, struct varve_error *error);
/* The same for one element that lies in several runs. */
int vv_diff_want_across(struct vv_diff *diff, struct vv_diff_side *sides, struct vv_diff_region *region,
                        uint64_t offset, uint32_t size, struct varve_error *error);
/* A region to be told; told is copied. NULL without memory. */
struct vv_diff_region *vv_diff_queue(struct vv_diff *diff, const struct varve_difference *told);
/* Nothing more of it is wanted: tell what can be told. */
int vv_diff_walked(struct vv_diff *diff, struct vv_diff_region *region, struct varve_error *error);
/* Read and compare all that is wanted, and tell. */
int vv_diff_flush(struct vv_diff *diff, struct varve_error *error);
/* Both are of one store and name: read them through one of the two as far as possible. */
int vv_diff_share(struct vv_diff *diff, struct varve_error *error);
void vv_diff_batch_clear(struct vv_diff *diff);
/* So many more bytes of regions are done: tell now and then. Nonzero: stop. */
int vv_diff_progress(struct vv_diff *diff, uint64_t more, struct varve_error *error);

#endif
