/* One checkpoint: its details, its regions, the bytes of a region. */
#include "inspect/inspect_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "encode/coding.h"
#include "format/attributes.h"
#include "read/region_reader.h"

#define WINDOW_BYTES ((size_t)16 << 20)
#define CODECS_SEEN 16    /* ways of compression told apart in one region */
#define BLIND_REGIONS 64u /* so many whose blocks cannot be looked up, and no more is tried of this rank */

static void fill_detail(struct varve_store *store, const struct varve_which *found, const struct vv_record *record,
                        struct varve_checkpoint_detail *out) {
    snprintf(store->shown_name, sizeof store->shown_name, "%s", found->name);
    snprintf(store->shown_program, sizeof store->shown_program, "%s", record->program);
    *out = (struct varve_checkpoint_detail){
        .info =
            {
                .name = store->shown_name,
                .generation = found->generation,
                .version = found->version,
                .time_ns = record->time_ns,
                .ranks = record->ranks,
                .regions = record->regions,
                .bytes_protected = record->protected_bytes,
                .bytes_stored = record->stored_bytes,
                .bytes_metadata = record->metadata_bytes,
                .reason = "",
            },
        .parent_generation = record->parent.generation,
        .parent_version = (int64_t)record->parent.version,
        .writers = record->writers,
        .attempt = record->attempt,
        .dependencies = record->dependency_count,
        .program = store->shown_program,
    };
}

/* Regions of rank 0 that are the library's own; those that cannot be seen do not count. */
static uint64_t count_about(struct vv_view *view) {
    struct varve_error ignored = {0};
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    uint64_t count = 0;
    int rc = vv_recipe_open(view, 0, &recipe, &ignored);
    while (rc >= 0 && recipe && (rc = vv_recipe_next_region(recipe, &region, &ignored)) > 0)
        count += vv_is_about(region.name) != 0;
    vv_recipe_close(recipe);
    return count;
}

const char *vv_inspect_codec(const struct vv_block *block) {
    struct vv_coding coding = {
        .codec = block->codec, .filter = {block->filter[0], block->filter[1]}, .element = block->element};
    return vv_coding_describe(&coding);
}

/* What the blocks of a region say: what it takes on storage, and how most of it was compressed. */
struct blocks_seen {
    long double stored;
    struct {
        const char *codec;
        uint64_t bytes;
    } seen[CODECS_SEEN];
};

static int see_piece(void *arg, const struct vv_block_piece *piece) {
    struct blocks_seen *blocks = arg;
    const struct vv_block *block = piece->block;
    const char *codec = vv_inspect_codec(block);

    blocks->stored += (long double)block->stored * piece->length / (block->raw ? block->raw : 1);
    for (int i = 0; i < CODECS_SEEN; i++) {
        if (!blocks->seen[i].codec || !strcmp(blocks->seen[i].codec, codec)) {
            blocks->seen[i].codec = codec;
            blocks->seen[i].bytes += piece->length;
            return 0;
        }
    }
    return 0;
}

static const char *most_used(const struct blocks_seen *blocks) {
    int most = 0;
    for (int i = 1; i < CODECS_SEEN; i++)
        most = blocks->seen[i].bytes > blocks->seen[most].bytes ? i : most;
    return blocks->seen[most].codec ? blocks->seen[most].codec : "";
}

/* One rank of the checkpoint that is shown. */
struct rank_shown {
    struct vv_view *view;
    uint32_t rank;
    uint32_t blind; /* regions whose blocks could not be looked up */
    varve_stored_region_fn fn;
    void *arg;
};

/* Blocks that cannot be looked up are no reason not to show the rest: `varve verify` is there to tell. */
static int see_run(struct rank_shown *shown, const struct vv_run *run, struct blocks_seen *blocks, int *is_blind,
                   struct varve_error *error) {
    if (*is_blind || shown->blind >= BLIND_REGIONS) {
        *is_blind = 1;
        return 0;
    }
    struct varve_error why = {0};
    int rc = vv_view_blocks(shown->view, run, see_piece, blocks, &why);
    if (rc == -ENOMEM || rc == VARVE_FORGOTTEN)
        return vv_error(error, rc, "%s", why.text);
    *is_blind = rc < 0;
    shown->blind += rc < 0;
    return 0;
}

static int show_region(struct rank_shown *shown, struct vv_recipe *recipe, const struct vv_recipe_region *region,
                       struct varve_error *error) {
    struct vv_run run;
    struct varve_array array;
    struct blocks_seen blocks = {0};
    int is_blind = 0, rc;
    struct varve_stored_region told = {
        .rank = shown->rank,
        .name = region->name,
        .bytes = region->length,
        .type = vv_type_name(region->shape.type),
        .array = &array,
        .distribution = region->shape.distribution,
    };

    vv_array_of(&region->shape, &array);
    snprintf(told.digest, sizeof told.digest, "%016" PRIx64 "%016" PRIx64, region->digest.high, region->digest.low);
    while ((rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
        told.runs++;
        told.bytes_zero += run.kind == VV_RUN_ZERO ? run.length : 0;
        rc = see_run(shown, &run, &blocks, &is_blind, error);
        if (rc < 0)
            return rc;
    }
    told.codec = is_blind ? "?" : most_used(&blocks);
    told.bytes_blocks = is_blind ? 0 : (uint64_t)(blocks.stored + 0.5L);
    return rc < 0 ? rc : shown->fn(shown->arg, &told);
}

static int show_rank(struct rank_shown *shown, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    int is_over = 0;

    int rc = vv_recipe_open(shown->view, shown->rank, &recipe, error);
    while (rc == 0 && !is_over) {
        rc = vv_recipe_next_region(recipe, &region, error);
        if (rc == 0)
            is_over = 1;
        else if (rc > 0)
            rc = vv_is_about(region.name) ? 0 : show_region(shown, recipe, &region, error);
    }
    vv_recipe_close(recipe);
    return rc;
}

int varve_store_show(struct varve_store *store, const struct varve_which *which, struct varve_checkpoint_detail *detail,
                     varve_stored_region_fn fn, void *arg, struct varve_error *error) {
    struct varve_which found = which ? *which : (struct varve_which){0};
    struct vv_left_out left_out = {0};
    struct vv_residents *residents = NULL;
    struct vv_view *view = NULL;

    int rc = vv_inspect_open_view(store, &found, &view, error);
    if (rc < 0)
        return rc;
    const struct vv_record *record = vv_view_record(view);
    if (detail) {
        fill_detail(store, &found, record, detail);
        uint64_t about = count_about(view);
        detail->info.regions -= about < detail->info.regions ? about : detail->info.regions;
    }
    for (uint32_t rank = 0; fn && rc == 0 && rank < record->ranks; rank++) {
        rc = vv_inspect_is_elsewhere(store, &found, view, rank, &residents, error);
        if (rc > 0) {
            vv_inspect_leave_out(&left_out, rank);
            rc = 0;
        } else if (rc == 0) {
            struct rank_shown shown = {.view = view, .rank = rank, .fn = fn, .arg = arg};
            rc = show_rank(&shown, error);
        }
    }
    vv_inspect_tell_left_out(store, &found, &left_out);
    vv_residents_destroy(residents);
    vv_view_close(view);
    return rc < 0 ? vv_error_default(error, rc, "cannot show %s@%" PRId64 ": %s", found.name, found.version,
                                     varve_error_text(rc))
                  : 0;
}

/* ---- read ---- */

struct check_pass {
    varve_bytes_fn fn;
    void *arg;
};

static int check_only(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    const struct check_pass *pass = arg;
    (void)data;
    return pass->fn(pass->arg, offset, NULL, size, total);
}

static int read_pass(struct varve_store *store, struct vv_view *view, uint32_t rank, const char *region, vv_bytes_fn fn,
                     void *arg, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region found;

    int rc = vv_region_find(view, rank, region, &recipe, &found, error);
    if (rc == 0) {
        rc = vv_region_stream(view, recipe, &found, store->store->settings.seed, WINDOW_BYTES, store->pool, fn, arg,
                              error);
    }
    vv_recipe_close(recipe);
    return rc;
}

int vv_inspect_open_rank(struct varve_store *store, struct varve_which *which, uint32_t rank, struct vv_view **out,
                         struct vv_residents **residents, struct varve_error *error) {
    int rc = vv_inspect_open_view(store, which, out, error);
    if (rc < 0)
        return rc;
    uint32_t ranks = vv_view_record(*out)->ranks;
    if (rank >= ranks) {
        return vv_error(error, VARVE_MISMATCH, "%s@%" PRId64 " has no rank %" PRIu32 ": its ranks are 0 to %" PRIu32,
                        which->name, which->version, rank, ranks - 1);
    }
    rc = vv_inspect_is_elsewhere(store, which, *out, rank, residents, error);
    if (rc > 0) {
        rc = vv_error(error, -ENOENT,
                      "rank %" PRIu32 " of %s@%" PRId64
                      " is not on this node: it is kept on another one, where the rank ran, or "
                      "missing; this cannot be told from here",
                      rank, which->name, which->version);
    }
    return rc;
}

/* Once through: what is open stays so for the next region. */
static int read_once(struct varve_store *store, const struct varve_which *which, uint32_t rank, const char *region,
                     varve_bytes_fn fn, void *arg, struct varve_error *error) {
    struct vv_ranged ranged;
    struct vv_recipe_region found;

    int rc = vv_inspect_ranged_take(store, which, rank, region, &ranged, &found, error);
    if (rc == 0) {
        rc = vv_region_stream(ranged.view, ranged.recipe, &found, store->store->settings.seed, WINDOW_BYTES,
                              store->pool, fn, arg, error);
    }
    vv_inspect_ranged_give(store, &ranged, rc);
    return rc;
}

int varve_store_read(struct varve_store *store, const struct varve_which *which, uint32_t rank, const char *region,
                     int is_checked_first, varve_bytes_fn fn, void *arg, struct varve_error *error) {
    struct varve_which found = which ? *which : (struct varve_which){0};
    struct vv_residents *residents = NULL;
    struct vv_view *view = NULL;

    vv_error_clear(error);
    if (!store || !found.name || !region || !*region || !fn) {
        return vv_error(error, -EINVAL,
                        "a store, the names of a checkpoint and a region, and a function for its bytes are needed");
    }
    if (!is_checked_first && store->store->settings.layout != VV_LAYOUT_LOCAL) {
        int once = read_once(store, which, rank, region, fn, arg, error);
        return once < 0 ? vv_error_default(error, once, "cannot read region \"%s\" of %s@%" PRId64 ": %s", region,
                                           which->name, which->version, varve_error_text(once))
                        : 0;
    }
    int rc = vv_inspect_open_rank(store, &found, rank, &view, &residents, error);
    if (rc == 0 && is_checked_first) {
        struct check_pass pass = {.fn = fn, .arg = arg};
        rc = read_pass(store, view, rank, region, check_only, &pass, error);
    }
    if (rc == 0)
        rc = read_pass(store, view, rank, region, fn, arg, error);
    struct varve_error ignored = {0};
    if (rc == VARVE_CORRUPT && residents && vv_owner_needs_others(residents, view, rank, &ignored) == 1) {
        rc = vv_error(error, -ENOENT,
                      "rank %" PRIu32 " of %s@%" PRId64
                      " is not all on this node: the rest is kept on others, or missing; this "
                      "cannot be told from here",
                      rank, found.name, found.version);
    }
    vv_residents_destroy(residents);
    vv_view_close(view);
    return rc < 0 ? vv_error_default(error, rc, "cannot read region \"%s\" of %s@%" PRId64 ": %s", region, found.name,
                                     found.version, varve_error_text(rc))
                  : 0;
}
