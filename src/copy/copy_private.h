/* What the files of this folder share: copy.c (the order of the steps), copy_data.c (bytes into packs), copy_manifest.c
 * (what tells where they are), copy_earlier.c (what an earlier try has left). */
#ifndef VV_COPY_PRIVATE_H
#define VV_COPY_PRIVATE_H

#include "copy/copy.h"
#include "dedup/table.h"
#include "lifecycle/commit.h"
#include "read/view.h"
#include "store/pack_reader.h"
#include "write/offline.h"

#define VV_COPY_WINDOW (32u << 20)

/* Packs of an attempt: those of the first writers have the manifests of some ranks each, and no data; the others have
 * the data, one stretch of all bytes each. Both follow from the checkpoint that is copied, so that a later try comes
 * to the same packs. */
struct vv_copy_plan {
    uint32_t homes, units;
    uint64_t unit_bytes;
};

#define VV_COPY_ZERO UINT32_MAX
/* Bytes of a region, and where they are in the store that is written to. */
struct vv_copied_run {
    uint64_t length, address;
    uint32_t owner;
    uint32_t source; /* 0 the copy itself, i source i - 1 of its parent, or VV_COPY_ZERO */
};
struct vv_copied_region {
    size_t runs;
    struct vv_hash128 digest; /* with the ids of the store that is written to */
};

/* The pack of a stretch, as an earlier try has left it. */
struct vv_earlier {
    int is_there;
    struct vv_pack_tables tables;
    uint8_t *ids;
    uint64_t id_count;
};

struct vv_copy {
    const struct vv_copy_source *from;
    struct vv_store *to; /* NULL: a dry run without a store */
    const char *name;
    const struct vv_copy_options *options;
    struct vv_copy_result *result;
    struct varve_error *error;
    struct vv_view *view; /* what is copied */
    struct vv_lease *lease;
    char program[VV_TEXT_CAPACITY]; /* of the claim: which checkpoint this copies */
    struct vv_attempt attempt;
    int is_resumed;   /* it is that of an earlier try */
    int is_useless;   /* what it left cannot be gone on with */
    int is_bad;       /* what was written is not what was read, or cannot be read */
    int is_read_only; /* nothing is written: how much is new, or is what is there the same? */
    struct vv_copy_plan plan;
    /* what the copy builds on */
    struct vv_attempt parent; /* generation 0: none */
    struct vv_dependency *sources;
    uint32_t *indices; /* of the sources in the footers; 0: not used */
    uint32_t source_count;
    struct vv_table table;
    uint8_t *is_alive; /* for the table: all are */
    struct vv_offline offline;
    /* what was found out about the data */
    struct vv_copied_run *runs;
    size_t run_count, run_capacity;
    struct vv_copied_region *regions;
    size_t region_count, region_capacity;
    struct vv_moved *moved; /* which writer has which bytes */
    size_t moved_count, moved_capacity;
    uint64_t progress, total;
};

int vv_copy_no_memory(const struct vv_copy *copy);
/* Say of which checkpoint and rank it is. Returns rc. */
int vv_copy_error_at(const struct vv_copy *copy, int rc, const char *name, uint32_t owner);
/* So many bytes more; -EINTR when it shall stop. */
int vv_copy_progress(struct vv_copy *copy, uint64_t bytes);
uint64_t vv_copy_seed(const struct vv_copy *copy); /* of content ids there */
struct vv_pack_options vv_copy_pack_options(const struct vv_copy *copy, uint32_t writer);

/* copy_data.c: all bytes are read and checked, and stored unless they are there. copy->is_useless: the earlier
 * try stored something else. */
int vv_copy_data(struct vv_copy *copy);
/* copy_manifest.c: the packs that make the attempt complete; those of the earlier try stay. */
int vv_copy_manifests(struct vv_copy *copy);

/* copy_earlier.c: look for an attempt at the same copy that can go on: 1, and copy->attempt; 0; or an error. */
int vv_copy_find_earlier(struct vv_copy *copy);
/* Was this generation claimed by a copy of the same checkpoint? 1, 0 or an error. */
int vv_copy_is_ours(struct vv_copy *copy, uint32_t generation);
/* Is the pack of this writer there, as the plan has it? 1, 0, or an error; if it is another, copy->is_useless. */
int vv_copy_has_pack(struct vv_copy *copy, uint32_t writer, struct vv_footer *footer_out);
int vv_earlier_load(struct vv_copy *copy, uint32_t writer, struct vv_earlier *out);
void vv_earlier_clear(struct vv_earlier *earlier);
/* It must have this granule: 0, or an error and copy->is_useless. */
int vv_earlier_has(struct vv_copy *copy, const struct vv_earlier *earlier, uint32_t owner, uint64_t address,
                   uint32_t size, struct vv_hash128 id);

#endif
