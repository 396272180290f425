/* What the blocks of a run hold, without reading them: coding and lengths from the tables, ranges from their section,
 * and which addresses are in a block altogether. The last two take a pass over a pack and are wanted only by those who
 * look at a checkpoint from outside; so they are loaded when asked for, and kept beside the tables. */
#include "base/alloc.h"
#include "read/view_private.h"

#include <errno.h>

/* Of one block. */
struct content {
    struct vv_range range;
    uint64_t first, end; /* addresses */
    uint32_t owner;
    int is_mixed; /* it has extents of other owners, too */
};

struct contents_load {
    struct vv_view *view;
    uint32_t source;
    uint32_t writer;
};

static void note_extent(struct content *content, const struct vv_pack_extent *extent) {
    uint64_t end = extent->address + extent->length;
    if (content->end == 0) { /* no extent is empty: the first one */
        content->first = extent->address;
        content->owner = extent->owner;
    }
    content->is_mixed |= extent->owner != content->owner;
    content->first = extent->address < content->first ? extent->address : content->first;
    content->end = end > content->end ? end : content->end;
}

struct ranges_load {
    struct vv_store *store;
    uint64_t block_count;
    struct vv_range *ranges;
};

static int read_ranges(void *arg, const char *key, const struct vv_section *section, struct varve_error *error) {
    struct ranges_load *load = arg;
    return vv_pack_ranges_load(load->store, key, section, load->block_count, &load->ranges, error);
}

/* Whoever wrote the pack may not have known of ranges: then no block has one. */
static int add_ranges(const struct contents_load *load, struct content *contents, uint64_t count,
                      struct varve_error *error) {
    struct vv_cached *footer;
    int rc = vv_view_footer(load->view, load->source, load->writer, &footer, error);
    if (rc < 0)
        return rc;
    int has_ranges = vv_footer_section(footer->object, VV_SECTION_RANGES, 0) != NULL;
    vv_view_release(load->view, footer);
    if (!has_ranges)
        return 0;
    struct ranges_load ranges = {.store = load->view->store, .block_count = count};
    rc = vv_view_section(load->view, load->source, load->writer, VV_SECTION_RANGES, 0, read_ranges, &ranges, error);
    for (uint64_t i = 0; i < count && rc == 0; i++)
        contents[i].range = ranges.ranges[i];
    vv_free(ranges.ranges);
    return rc;
}

static int fill_contents(const struct contents_load *load, const struct vv_pack_tables *tables, void **object_out,
                         size_t *bytes_out, struct varve_error *error) {
    uint64_t count = tables->block_count;
    struct content *contents = vv_calloc(count ? count : 1, sizeof *contents);
    if (!contents)
        return vv_error_sys(error, -ENOMEM, "the contents of %llu blocks", (unsigned long long)count);
    for (uint64_t i = 0; i < tables->extent_count; i++)
        note_extent(&contents[tables->extents[i].block], &tables->extents[i]);
    int rc = add_ranges(load, contents, count, error);
    if (rc < 0) {
        vv_free(contents);
        return rc;
    }
    *object_out = contents;
    *bytes_out = count * sizeof *contents;
    return 0;
}

static int load_contents(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    const struct contents_load *load = arg;
    struct vv_cached *tables;
    int rc = vv_view_tables(load->view, load->source, load->writer, &tables, error);
    if (rc == 0) {
        rc = fill_contents(load, tables->object, object_out, bytes_out, error);
        vv_view_release(load->view, tables);
    }
    return rc;
}

/* ---- the pieces of a run ---- */

struct walk {
    struct vv_view *view;
    struct vv_seeker seeker;
    struct vv_cached *contents; /* of this pack, or NULL */
    uint32_t source;
    uint32_t writer;
    vv_block_piece_fn fn;
    void *arg;
    struct vv_block block;       /* of the piece */
    struct vv_block_piece piece; /* waits for what may follow it in the same block; length 0: none */
};

static int use_contents(struct walk *walk, uint32_t source, uint32_t writer, const struct content **out,
                        struct varve_error *error) {
    if (!walk->contents || walk->source != source || walk->writer != writer) {
        struct contents_load load = {.view = walk->view, .source = source, .writer = writer};
        struct vv_cache_key key = {
            .attempt = *vv_view_source(walk->view, source), .writer = writer, .kind = VV_CACHED_CONTENTS};
        struct vv_cached *cached;
        int rc = vv_pack_cache_acquire(walk->view->cache, &key, load_contents, &load, vv_free, &cached, error);
        if (rc < 0)
            return vv_view_missing(walk->view, rc, error);
        vv_view_release(walk->view, walk->contents);
        walk->contents = cached;
        walk->source = source;
        walk->writer = writer;
    }
    *out = walk->contents->object;
    return 0;
}

/* The run's bytes from offset on: at its places as they are listed, then in copies 1, 2, 3 of each that is no copy
 * itself. If all fail, the first failure is told. */
static int seek_any(struct walk *walk, const struct vv_run *run, uint64_t offset, struct vv_place *place_out,
                    struct vv_spot *out, struct varve_error *error) {
    struct varve_error first = {0}, why;
    for (uint32_t i = 0; i < run->place_count * (1 + VV_PARTNERS_MAX); i++) {
        struct vv_place place = run->places[i % run->place_count];
        uint32_t copy = i / run->place_count, partners = 0;
        place.address += offset;
        vv_error_clear(&why);
        int rc = 0;
        if (copy && place.copy)
            continue;
        if (copy) {
            rc = vv_seek_partners(&walk->seeker, &place, &partners, &why);
            place.copy = copy;
        }
        if (rc == 0 && copy > partners)
            continue;
        if (rc == 0)
            rc = vv_seek(&walk->seeker, &place, out, &why);
        if (rc == 0) {
            *place_out = place;
            return 0;
        }
        first = first.code ? first : why;
        if (rc == -ENOMEM || rc == VARVE_FORGOTTEN) {
            first = why;
            break;
        }
    }
    return vv_error(error, first.code ? first.code : VARVE_CORRUPT, "%s",
                    first.code ? first.text : "a run has no place");
}

static int tell_block(struct walk *walk) {
    uint64_t length = walk->piece.length;
    walk->piece.block = &walk->block;
    int rc = length ? walk->fn(walk->arg, &walk->piece) : 0;
    walk->piece.length = 0;
    return rc;
}

/* Extents that follow each other in the run and in the block are one piece. */
static int add_spot(struct walk *walk, uint64_t offset, uint64_t length, const struct vv_place *place,
                    const struct vv_spot *spot, struct varve_error *error) {
    struct vv_block_piece *piece = &walk->piece;
    const struct content *contents = NULL;
    if (piece->length && piece->source == place->dependency && piece->writer == spot->writer &&
        piece->number == spot->block && piece->raw + piece->length == spot->raw && piece->owner == place->owner &&
        piece->address + piece->length == place->address) {
        piece->length += length;
        return 0;
    }
    int rc = tell_block(walk);
    if (rc == 0)
        rc = use_contents(walk, place->dependency, spot->writer, &contents, error);
    if (rc != 0)
        return rc;
    const struct content *content = &contents[spot->block];
    walk->block = spot->tables->blocks[spot->block];
    walk->block.range = content->range;
    *piece = (struct vv_block_piece){.offset = offset,
                                     .length = length,
                                     .source = place->dependency,
                                     .writer = spot->writer,
                                     .number = spot->block,
                                     .raw = spot->raw,
                                     .owner = place->owner,
                                     .address = place->address,
                                     .first = content->first,
                                     .end = content->end,
                                     .is_mixed = content->is_mixed};
    return 0;
}

static int walk_run(struct walk *walk, const struct vv_run *run, uint64_t length, struct varve_error *error) {
    int rc = 0;
    for (uint64_t done = 0; done < length && rc == 0;) {
        struct vv_place place = {0};
        struct vv_spot spot;
        rc = seek_any(walk, run, done, &place, &spot, error);
        if (rc == 0) {
            uint64_t part = spot.length < length - done ? spot.length : length - done;
            rc = add_spot(walk, done, part, &place, &spot, error);
            done += part;
        }
    }
    return rc ? rc : tell_block(walk);
}

int vv_view_blocks(struct vv_view *view, const struct vv_run *run, vv_block_piece_fn fn, void *arg,
                   struct varve_error *error) {
    if (run->kind == VV_RUN_ZERO)
        return 0;
    if (run->kind == VV_RUN_KEEP || run->kind == VV_RUN_END || run->place_count == 0)
        return vv_error(error, -EINVAL, "a run of kind %d lies in no block", run->kind);
    struct walk walk = {.view = view, .fn = fn, .arg = arg};
    vv_seeker_init(&walk.seeker, view);
    int rc = walk_run(&walk, run, run->kind == VV_RUN_REPEATED ? run->piece : run->length, error);
    vv_view_release(view, walk.contents);
    vv_seeker_clear(&walk.seeker);
    return rc;
}
