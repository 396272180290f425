/* The values of a region: from the ranges that are stored with its blocks, without reading them. Where a block has none
 * (small regions share blocks; a region without type once had the same bytes) its bytes are read and looked at, up to
 * READ_MAX. */
#include "inspect/inspect_private.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "format/values.h"
#include "read/region_reader.h"

#define READ_MAX ((uint64_t)64 << 20)
#define READ_AT_ONCE ((size_t)4 << 20) /* a want may be a block, which is at most VV_BLOCK_RAW_MAX */
#define PARTS_AT_ONCE 1024
#define PIECES_MAX ((size_t)1 << 20) /* of blocks used in part; with more nothing is said to be exact */

/* A part of the region: what of it lies in one block, or zeros. */
struct part {
    uint64_t offset, size;
    const char *codec;
    struct vv_range range;
    int is_known, is_exact;
    /* Its bytes, when they have to be looked at: at `at` in the buffer. */
    int is_read;
    size_t at, length;
};

/* What the region uses of a block that it does not use in one piece. */
struct piece {
    uint32_t source, writer, number;
    uint32_t raw, length, whole;
};

struct looking {
    struct varve_store *store;
    struct vv_view *view;
    uint8_t type;
    uint64_t length; /* of the region */
    const struct vv_run *run;
    struct vv_fetch *fetch;
    uint8_t *buffer;
    size_t used, capacity;
    uint64_t read; /* bytes wanted so far */
    struct part *parts;
    size_t part_count;
    /* How the whole comes out. */
    struct vv_range all;
    int is_known, is_exact;
    struct piece *pieces;
    size_t piece_count, piece_capacity;
    varve_block_range_fn fn; /* NULL: only the whole is wanted */
    void *arg;
    struct varve_error *error;
};

static void tell_range(const struct vv_range *range, int is_known, int is_exact, struct varve_range *out) {
    *out = (struct varve_range){.low = NAN, .high = NAN};
    if (!is_known || !range->type)
        return;
    out->is_known = 1;
    out->is_exact = is_exact;
    out->has_nan = (range->flags & VV_RANGE_NAN) != 0;
    if (!(range->flags & VV_RANGE_EMPTY))
        vv_range_doubles(range, &out->low, &out->high);
}

/* ---- blocks of which only pieces are used ---- */

/* A region that has all pieces of a block, though in other places or order, still has all of its values. */
static int note_piece(struct looking *looking, const struct vv_block_piece *from) {
    struct piece *last = looking->piece_count ? &looking->pieces[looking->piece_count - 1] : NULL;
    uint32_t length = (uint32_t)from->length;

    if (!looking->is_exact)
        return 0;
    if (last && last->source == from->source && last->writer == from->writer && last->number == from->number &&
        last->raw + last->length == from->raw) {
        last->length += length;
        return 0;
    }
    if (looking->piece_count == PIECES_MAX) {
        looking->is_exact = 0;
        return 0;
    }
    if (VV_GROW(looking->pieces, looking->piece_count, looking->piece_capacity) != 0)
        return vv_error_sys(looking->error, -ENOMEM, "cannot look at %zu pieces of blocks", looking->piece_count + 1);
    looking->pieces[looking->piece_count++] = (struct piece){.source = from->source,
                                                             .writer = from->writer,
                                                             .number = from->number,
                                                             .raw = from->raw,
                                                             .length = length,
                                                             .whole = from->block->raw};
    return 0;
}

static int compare_u32(uint32_t a, uint32_t b) {
    return (a > b) - (a < b);
}

static int compare_block(const struct piece *a, const struct piece *b) {
    int order = compare_u32(a->source, b->source);
    order = order ? order : compare_u32(a->writer, b->writer);
    return order ? order : compare_u32(a->number, b->number);
}

static int compare_pieces(const void *a, const void *b) {
    const struct piece *first = a, *second = b;
    int order = compare_block(first, second);
    return order ? order : compare_u32(first->raw, second->raw);
}

static int are_blocks_whole(struct piece *pieces, size_t count) {
    uint32_t reached = 0;

    if (count > 1)
        qsort(pieces, count, sizeof *pieces, compare_pieces);
    for (size_t i = 0; i < count; i++) {
        int is_first = i == 0 || compare_block(&pieces[i - 1], &pieces[i]) != 0;
        int is_last = i + 1 == count || compare_block(&pieces[i], &pieces[i + 1]) != 0;
        uint32_t end = pieces[i].raw + pieces[i].length;
        reached = is_first ? 0 : reached;
        if (pieces[i].raw > reached)
            return 0;
        reached = end > reached ? end : reached;
        if (is_last && reached < pieces[i].whole)
            return 0;
    }
    return 1;
}

/* ---- parts, in the order of the region ---- */

static int tell_part(struct looking *looking, struct part *part) {
    struct varve_block_range told = {.offset = part->offset, .size = part->size, .codec = part->codec};

    if (part->is_read)
        vv_values_range(looking->type, looking->buffer + part->at, part->length, &part->range);
    looking->is_known &= part->is_known;
    vv_range_join(&looking->all, &part->range);
    if (!looking->fn)
        return 0;
    tell_range(&part->range, part->is_known, part->is_exact, &told.range);
    return looking->fn(looking->arg, &told);
}

/* Read what is to be read, and tell of all parts so far. */
static int tell_parts(struct looking *looking) {
    int rc = looking->used ? vv_fetch_run(looking->fetch, looking->error) : 0;

    for (size_t i = 0; rc == 0 && i < looking->part_count; i++)
        rc = tell_part(looking, &looking->parts[i]);
    looking->part_count = 0;
    looking->used = 0;
    return rc;
}

static int reserve_bytes(struct looking *looking, size_t size) {
    if (looking->capacity - looking->used >= size)
        return 0;
    int rc = tell_parts(looking);
    if (rc || looking->capacity >= size)
        return rc;
    size_t capacity = size > READ_AT_ONCE ? size : READ_AT_ONCE;
    vv_free(looking->buffer);
    looking->buffer = vv_malloc(capacity);
    looking->capacity = looking->buffer ? capacity : 0;
    return looking->buffer ? 0 : vv_error_sys(looking->error, -ENOMEM, "cannot look at %zu bytes", capacity);
}

/* Bytes from skip on in the run, for the part: all of them, or one period of what is repeated. */
static int want(struct looking *looking, struct part *part, uint64_t skip, uint64_t length) {
    looking->read += length;
    if (looking->read > READ_MAX) {
        part->is_known = 0;
        return 0;
    }
    int rc = reserve_bytes(looking, (size_t)length);
    if (rc == 0 && !looking->fetch) {
        rc = vv_fetch_create(looking->view, looking->store->pool, &looking->fetch);
        rc = rc < 0 ? vv_error_sys(looking->error, rc, "cannot read a region") : 0;
    }
    if (rc == 0) {
        part->is_read = part->is_known = part->is_exact = 1;
        part->at = looking->used;
        part->length = (size_t)length;
        rc = vv_fetch_add(looking->fetch, looking->run, skip, length, looking->buffer + looking->used, 0,
                          looking->error);
        looking->used += (size_t)length;
    }
    return rc;
}

static int add_part(struct looking *looking, const struct part *part) {
    looking->parts[looking->part_count++] = *part;
    return looking->part_count == PARTS_AT_ONCE ? tell_parts(looking) : 0;
}

/* Elements must not be cut by the edges of a part, nor by those of what is repeated: those of ours never are, for they
 * lie at multiples of 4096. */
static int is_aligned(const struct looking *looking, const struct part *part) {
    const struct vv_run *run = looking->run;
    uint32_t element = vv_type_size(looking->type);
    int is_at_end = part->offset + part->size == looking->length;
    return part->offset % element == 0 && (part->size % element == 0 || is_at_end) &&
           (run->kind != VV_RUN_REPEATED || run->piece % element == 0);
}

static int is_range_of_use(const struct looking *looking, const struct vv_block_piece *piece) {
    return piece->block->range.type == looking->type && piece->raw % vv_type_size(looking->type) == 0;
}

static int on_piece(void *arg, const struct vv_block_piece *piece) {
    struct looking *looking = arg;
    const struct vv_run *run = looking->run;
    int is_repeated = run->kind == VV_RUN_REPEATED;
    struct part part = {
        .offset = run->offset + piece->offset,
        .size = is_repeated && piece->length == run->piece ? run->length : piece->length,
        .codec = vv_inspect_codec(piece->block),
    };
    int rc = 0;

    if (!vv_values_have_range(looking->type) || !is_aligned(looking, &part)) {
        part.is_known = 0;
    } else if (is_range_of_use(looking, piece)) {
        part.range = piece->block->range;
        part.is_known = 1;
        part.is_exact = piece->raw == 0 && piece->length == piece->block->raw;
        rc = part.is_exact ? 0 : note_piece(looking, piece);
    } else {
        rc = want(looking, &part, piece->offset, piece->length);
    }
    return rc ? rc : add_part(looking, &part);
}

static int look_at_zeros(struct looking *looking) {
    struct part part = {.offset = looking->run->offset, .size = looking->run->length, .codec = "zero", .is_exact = 1};

    if (vv_values_have_range(looking->type)) { /* 0 has the same bits in all kinds */
        part.range = (struct vv_range){.type = looking->type};
        part.is_known = 1;
    }
    return add_part(looking, &part);
}

/* Until the end, or until it is clear that the whole cannot be told and nobody wants the parts. */
static int look_at_runs(struct looking *looking, struct vv_recipe *recipe) {
    struct vv_run run;
    int rc;

    while ((rc = vv_recipe_next_run(recipe, &run, looking->error)) > 0) {
        looking->run = &run;
        rc = run.kind == VV_RUN_ZERO ? look_at_zeros(looking)
                                     : vv_view_blocks(looking->view, &run, on_piece, looking, looking->error);
        if (rc || (!looking->fn && looking->read > READ_MAX))
            break;
    }
    return rc ? rc : tell_parts(looking);
}

/* ---- finding the region ---- */

static void close_ranged(struct vv_ranged *ranged) {
    vv_recipe_close(ranged->recipe);
    vv_view_close(ranged->view);
    memset(ranged, 0, sizeof *ranged);
}

void vv_inspect_ranged_clear(struct varve_store *store) {
    close_ranged(&store->ranged);
}

static int is_there_already(const struct vv_ranged *ranged, const struct varve_which *which, uint32_t rank) {
    return ranged->view && ranged->rank == rank && which->version >= 0 && which->version == ranged->version &&
           which->generation == ranged->generation && strcmp(which->name, ranged->name) == 0;
}

static int open_rank(struct varve_store *store, const struct varve_which *which, uint32_t rank,
                     struct vv_ranged *ranged, struct varve_error *error) {
    struct varve_which found = *which;
    struct vv_residents *residents = NULL;

    if (is_there_already(ranged, which, rank))
        return 0;
    close_ranged(ranged);
    int rc = vv_inspect_open_rank(store, &found, rank, &ranged->view, &residents, error);
    vv_residents_destroy(residents);
    if (rc < 0)
        return rc;
    vv_view_expect_parts(ranged->view);
    ranged->rank = rank;
    ranged->generation = found.generation;
    ranged->version = found.version;
    memcpy(ranged->name, found.name, strlen(found.name) + 1); /* its length was checked */
    return 0;
}

/* Regions that come behind the one looked at last are found on the way; others from the start. */
static int find_region(struct vv_ranged *ranged, const char *region, struct vv_recipe_region *out,
                       struct varve_error *error) {
    int rc = 0;
    while (ranged->recipe && (rc = vv_recipe_next_region(ranged->recipe, out, error)) > 0)
        if (strcmp(out->name, region) == 0)
            return 0;
    vv_recipe_close(ranged->recipe);
    ranged->recipe = NULL;
    return rc ? rc : vv_region_find(ranged->view, ranged->rank, region, &ranged->recipe, out, error);
}

int vv_inspect_ranged_take(struct varve_store *store, const struct varve_which *which, uint32_t rank,
                           const char *region, struct vv_ranged *ranged, struct vv_recipe_region *found,
                           struct varve_error *error) {
    *ranged = store->ranged;
    store->ranged = (struct vv_ranged){0};
    int rc = open_rank(store, which, rank, ranged, error);
    return rc < 0 ? rc : find_region(ranged, region, found, error);
}

void vv_inspect_ranged_give(struct varve_store *store, struct vv_ranged *ranged, int rc) {
    if (rc < 0) {
        close_ranged(ranged);
        return;
    }
    vv_inspect_ranged_clear(store);
    store->ranged = *ranged;
}

/* ---- both functions ---- */

static int look_at_range(const struct vv_ranged *ranged, const struct vv_recipe_region *found, const char *region,
                         struct looking *looking) {
    int rc;

    looking->view = ranged->view;
    looking->type = found->shape.type;
    looking->length = found->length;
    looking->is_known = looking->is_exact = 1;
    if (!looking->fn && !vv_values_have_range(looking->type))
        return 0;
    looking->parts = vv_malloc(PARTS_AT_ONCE * sizeof *looking->parts);
    rc = looking->parts ? look_at_runs(looking, ranged->recipe)
                        : vv_error_sys(looking->error, -ENOMEM, "cannot look at region \"%s\"", region);
    looking->is_exact = looking->is_exact && are_blocks_whole(looking->pieces, looking->piece_count);
    vv_fetch_destroy(looking->fetch);
    vv_free(looking->buffer);
    vv_free(looking->parts);
    vv_free(looking->pieces);
    return rc;
}

static int look_for(struct varve_store *store, const struct varve_which *which, uint32_t rank, const char *region,
                    struct looking *looking) {
    struct varve_error *error = looking->error;

    vv_error_clear(error);
    if (!store || !which || !which->name || !region || !*region)
        return vv_error(error, -EINVAL, "a store, the name of a checkpoint and that of a region are needed");
    struct vv_ranged ranged;
    struct vv_recipe_region found;
    looking->store = store;
    int rc = vv_inspect_ranged_take(store, which, rank, region, &ranged, &found, error);
    rc = rc < 0 ? rc : look_at_range(&ranged, &found, region, looking);
    vv_inspect_ranged_give(store, &ranged, rc);
    return rc < 0 ? vv_error_default(error, rc, "cannot look at region \"%s\" of %s@%" PRId64 ": %s", region,
                                     which->name, which->version, varve_error_text(rc))
                  : 0;
}

int varve_store_range(struct varve_store *store, const struct varve_which *which, uint32_t rank, const char *region,
                      struct varve_range *out, struct varve_error *error) {
    struct looking looking = {.error = error};

    if (!out)
        return vv_error(error, -EINVAL, "varve_store_range needs a place for the range");
    int rc = look_for(store, which, rank, region, &looking);
    if (rc == 0)
        tell_range(&looking.all, looking.is_known, looking.is_exact, out);
    return rc;
}

int varve_store_ranges(struct varve_store *store, const struct varve_which *which, uint32_t rank, const char *region,
                       varve_block_range_fn fn, void *arg, struct varve_error *error) {
    struct looking looking = {.fn = fn, .arg = arg, .error = error};

    if (!fn)
        return vv_error(error, -EINVAL, "varve_store_ranges needs a function");
    return look_for(store, which, rank, region, &looking);
}
