/* The ids that packs store, in bulk: what an owner's regions hold and where it is, while none of it is read. */
#include "base/alloc.h"
#include "read/view_private.h"

#include <errno.h>

#define AT_ONCE 4096u

struct walk {
    struct vv_seeker seeker;
    vv_ids_fn fn;
    void *arg;
    struct vv_hash128 *ids;        /* AT_ONCE of them */
    uint32_t source, writer, part; /* the object that was looked for last; part UINT32_MAX: none was yet */
};

/* The tables of a pack may be there while a part with its bytes is not. */
static int check_part(struct walk *walk, uint32_t source, struct varve_error *error) {
    const struct vv_seeker *seeker = &walk->seeker;
    const struct vv_pack_tables *tables = seeker->tables->object;
    uint32_t part = tables->blocks[tables->extents[seeker->last_extent].block].part;
    char key[VV_KEY_CAPACITY];
    if (tables->is_lost || (walk->part == part && walk->source == source && walk->writer == seeker->tables_writer))
        return 0;
    walk->source = source;
    walk->writer = seeker->tables_writer;
    walk->part = part;
    return vv_view_block_key(seeker->view, source, walk->writer, part, tables->parts, key, error);
}

/* The bytes of the region from `at.offset` on, which lie at `at.place`. */
static int walk_place(struct walk *walk, struct vv_stored_granules at, uint64_t length, struct varve_error *error) {
    at.ids = walk->ids;
    while (length > 0) {
        uint64_t covered = 0;
        at.count = 0;
        int rc = vv_seek_ids(&walk->seeker, &at.place, length, walk->ids, AT_ONCE, &at.count, &covered, error);
        if (rc == 0)
            rc = check_part(walk, at.place.dependency, error);
        if (rc < 0)
            return rc;
        if (at.count)
            walk->fn(walk->arg, &at);
        at.place.address += covered;
        at.offset += covered;
        length -= covered;
    }
    return 0;
}

/* Of several places the first that can be looked up is enough. */
static int walk_run(struct walk *walk, uint64_t region, const struct vv_run *run, struct varve_error *error) {
    uint64_t length = run->kind == VV_RUN_REPEATED ? run->piece : run->length;
    struct varve_error why;
    int rc = 0;
    for (uint32_t i = 0; i < run->place_count; i++) {
        vv_error_clear(&why);
        struct vv_stored_granules at = {.region = region, .offset = run->offset, .place = run->places[i]};
        int now = walk_place(walk, at, length, &why);
        if (now == 0)
            return 0;
        if (rc == 0) {
            rc = now;
            if (error)
                *error = why;
        }
    }
    return rc;
}

static int walk_regions(struct walk *walk, struct vv_recipe *recipe, struct varve_error *error) {
    struct vv_recipe_region region;
    struct vv_run run;
    int rc;
    while ((rc = vv_recipe_next_region(recipe, &region, error)) > 0) {
        while ((rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
            rc = run.kind == VV_RUN_ZERO ? 0 : walk_run(walk, region.number, &run, error);
            if (rc < 0)
                return rc;
        }
        if (rc < 0)
            return rc;
    }
    return rc;
}

int vv_view_ids(struct vv_view *view, uint32_t owner, vv_ids_fn fn, void *arg, struct varve_error *error) {
    struct walk walk = {.fn = fn, .arg = arg, .part = UINT32_MAX, .ids = vv_calloc(AT_ONCE, sizeof *walk.ids)};
    struct vv_recipe *recipe = NULL;
    vv_seeker_init(&walk.seeker, view);
    int rc = walk.ids ? vv_recipe_open(view, owner, &recipe, error) : vv_error_sys(error, -ENOMEM, "ids");
    if (rc == 0)
        rc = walk_regions(&walk, recipe, error);
    vv_recipe_close(recipe);
    vv_seeker_clear(&walk.seeker);
    vv_free(walk.ids);
    return rc;
}
