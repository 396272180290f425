/* Manifests (docs/format.md 8): region entries and runs, written and read as a stream. No I/O: the writer appends to a
 * buffer the caller empties when it likes; the reader pulls bytes through a function.
 *
 * Order of calls, writer: begin, then per region (ascending numbers): region, run..., region_end; then end, which
 * gives the counts that the head needs. The head comes first in the bytes but is known last, so the caller encodes
 * it with vv_manifest_head_encode: into a separate buffer written before the entries when they are buffered, or
 * counts first in a dry pass when they are not. */
#ifndef VV_MANIFEST_H
#define VV_MANIFEST_H

#include <varve/varve.h>

#include "format/pack.h"

#define VV_MANIFEST_HEAD_SIZE 120
#define VV_LAYERS_MAX 4 /* a base and at most three overlays */
#define VV_REGION_NAME_MAX 255
#define VV_DIMS_MAX 16
#define VV_PLACES_MAX 16

struct vv_layer_ref {
    uint32_t dependency; /* dependency index in the footer of the pack that holds the manifest */
    uint32_t writer;
    struct vv_hash128 digest;
};
struct vv_manifest_head {
    uint32_t owner;
    uint32_t lower_count;
    int is_packed; /* its entries lie in the section as pieces (below) */
    uint64_t regions;
    uint64_t protected_bytes;
    uint64_t layout_bytes;
    uint64_t entries;
    uint64_t runs;
    struct vv_layer_ref lower[VV_LAYERS_MAX - 1];
};
void vv_manifest_head_encode(struct vv_buf *buf, const struct vv_manifest_head *head);
int vv_manifest_head_parse(const uint8_t *data, size_t size, struct vv_manifest_head *out, struct varve_error *error);

/* The entries of a packed manifest: cut into pieces anywhere, each with a head of 8 bytes in front. The reader gets
 * them unpacked, through fill(). */
#define VV_PIECE_HEAD_SIZE 8
#define VV_PIECE_MAX (1u << 20)
struct vv_manifest_piece {
    uint32_t raw;    /* 1 to VV_PIECE_MAX */
    uint32_t stored; /* 1 to raw, and raw / VV_PIECE_RATIO at least; less than raw: a zstd frame */
};
#define VV_PIECE_RATIO 256u /* or little storage could ask for much memory */
void vv_manifest_piece_encode(uint8_t out[VV_PIECE_HEAD_SIZE], const struct vv_manifest_piece *piece);
/* left: bytes of the section from the head of the piece on. */
int vv_manifest_piece_parse(const uint8_t data[VV_PIECE_HEAD_SIZE], uint64_t left, struct vv_manifest_piece *out,
                            struct varve_error *error);

enum vv_region_flags { VV_REGION_DESCRIBED = 1, VV_REGION_REMOVED = 2 };

struct vv_region_shape {
    uint8_t type; /* docs/format.md 8 */
    uint8_t dims;
    uint8_t is_lossy;
    double bound;
    uint8_t distribution; /* enum varve_distribution */
    struct {
        uint64_t global, first, local;
        struct varve_stride stride;
    } dim[VV_DIMS_MAX];
};
/* As a program says it; the array given out owns nothing. */
void vv_shape_of_array(const struct varve_array *array, struct vv_region_shape *out);
void vv_array_of(const struct vv_region_shape *shape, struct varve_array *out);

struct vv_region_entry {
    uint64_t number;
    uint8_t flags;
    uint64_t length;
    /* only when described: */
    char name[VV_REGION_NAME_MAX + 1];
    uint64_t address;
    struct vv_region_shape shape;
};

enum vv_run_kind {
    VV_RUN_END = 0,
    VV_RUN_HERE = 1,
    VV_RUN_FROM = 2,
    VV_RUN_FROM_ANY = 3,
    VV_RUN_ZERO = 4,
    VV_RUN_REPEATED = 5,
    VV_RUN_KEEP = 6
};
struct vv_place {
    uint32_t dependency; /* dependency index; 0 is the manifest's own attempt */
    uint32_t owner;
    uint64_t address;
    uint32_t copy;
};
struct vv_run {
    int kind;
    uint64_t offset; /* in the region */
    uint64_t length;
    uint64_t piece; /* repeated only */
    uint32_t place_count;
    struct vv_place places[VV_PLACES_MAX]; /* `here` is delivered as one place with dependency 0 by the reader */
};

struct vv_manifest_writer {
    struct vv_buf *buf;
    uint32_t owner;
    uint64_t next_number; /* lowest number the next entry may have */
    uint64_t entries;
    uint64_t runs;
    uint64_t region_address; /* of the open region, for `here` and places */
    uint64_t offset;         /* end of the last run */
    uint64_t length;
};
void vv_manifest_begin(struct vv_manifest_writer *writer, struct vv_buf *buf, uint32_t owner);
/* address is given even when the entry is not described: runs are relative to it. */
void vv_manifest_region(struct vv_manifest_writer *writer, const struct vv_region_entry *entry, uint64_t address);
/* run->offset must be the end of the run before. */
void vv_manifest_run(struct vv_manifest_writer *writer, const struct vv_run *run);
void vv_manifest_region_end(struct vv_manifest_writer *writer, struct vv_hash128 digest);

/* Reading. fill() copies up to size bytes of the section, beginning at offset, and returns how many (0 only at the
 * end) or an error. */
typedef int64_t (*vv_fill_fn)(void *arg, uint64_t offset, void *data, size_t size);

struct vv_manifest_reader;
/* Reads and checks the head; owner is the one the footer gives for this section. section_length (unpacked) bounds
 * everything; dependency_count is that of the pack's footer. The reader takes one piece of memory, whatever the
 * section's length. */
int vv_manifest_open(vv_fill_fn fill, void *arg, uint64_t section_length, uint32_t owner, uint32_t dependency_count,
                     struct vv_manifest_reader **out, struct varve_error *error);
const struct vv_manifest_head *vv_manifest_head(const struct vv_manifest_reader *reader);
/* 1 and the next region entry, or 0 at the end (all counts checked then), or an error. The runs of the entry before
 * must have been read to their end, or are skipped. For entries that are not described, the caller knows the address
 * from the layers below and must set it before the first run with vv_manifest_set_address. */
int vv_manifest_next_region(struct vv_manifest_reader *reader, struct vv_region_entry *out, struct varve_error *error);
void vv_manifest_set_address(struct vv_manifest_reader *reader, uint64_t address);
/* 1 and the next run, or 0 at the end of the region's runs; then digest_out is valid. For a removed region 0 at
 * once, with digest 0. A run is shorter than 2^61 bytes. */
int vv_manifest_next_run(struct vv_manifest_reader *reader, struct vv_run *out, struct vv_hash128 *digest_out,
                         struct varve_error *error);
void vv_manifest_close(struct vv_manifest_reader *reader); /* accepts NULL */

#endif
