/* Arrays of the whole job: which there are, and their elements. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "arrays/global_array.h"
#include "arrays/scatter.h"
#include "base/alloc.h"
#include "base/error.h"
#include "inspect/inspect_private.h"
#include "read/region_reader.h"

#define WINDOW_BYTES ((uint64_t)64 << 20) /* given out at once */
#define BOOK_BYTES ((uint64_t)16 << 20)

/* Add what this rank holds: 1 if that is not, or not all, on this node. */
static int add_rank(struct vv_view *view, struct vv_residents *residents, uint32_t rank, const char *name,
                    struct vv_global_arrays *out, struct varve_error *error) {
    struct varve_error ignored = {0};
    int rc = vv_global_arrays_add(out, view, rank, name, error);
    if (rc == VARVE_CORRUPT && residents && vv_owner_needs_others(residents, view, rank, &ignored) == 1) {
        vv_error_clear(error);
        return 1;
    }
    return rc;
}

int vv_inspect_arrays(struct varve_store *store, const struct varve_which *which, struct vv_view *view,
                      const char *name, struct vv_global_arrays *out, struct varve_error *error) {
    struct vv_left_out left_out = {0};
    struct vv_residents *residents = NULL;
    int rc = 0;
    for (uint32_t rank = 0; rc == 0 && rank < vv_view_record(view)->ranks; rank++) {
        rc = vv_inspect_is_elsewhere(store, which, view, rank, &residents, error);
        if (rc == 0)
            rc = add_rank(view, residents, rank, name, out, error);
        if (rc > 0)
            vv_inspect_leave_out(&left_out, rank);
        rc = rc > 0 ? 0 : rc;
    }
    int has_others = left_out.count > 0;
    vv_inspect_tell_left_out(store, which, &left_out);
    vv_residents_destroy(residents);
    return rc ? rc : vv_global_arrays_check(out, has_others, error);
}

static const char *problem_of(const struct vv_global_array *global) {
    return global->problem ? global->problem : global->is_ambiguous || global->missing ? "it is not whole" : "";
}

static int tell_array(const struct vv_global_array *global, varve_global_array_fn fn, void *arg) {
    struct varve_global_array told = {
        .name = global->name,
        .type = vv_type_name(global->array.type),
        .array = &global->array,
        .bytes = global->is_ambiguous ? 0 : vv_array_bytes(&global->array),
        .blocks = global->count,
        .is_private = global->is_private,
        .is_whole = !global->is_private && !global->is_ambiguous && global->missing == 0,
        .problem = problem_of(global),
    };
    return fn(arg, &told);
}

int varve_store_arrays(struct varve_store *store, const struct varve_which *which, const char *name,
                       varve_global_array_fn fn, void *arg, struct varve_error *error) {
    struct varve_which found = which ? *which : (struct varve_which){0};
    struct vv_global_arrays arrays = {0};
    struct vv_view *view = NULL;

    vv_error_clear(error);
    if (!fn)
        return vv_error(error, -EINVAL, "varve_store_arrays needs a function");
    int rc = vv_inspect_open_view(store, &found, &view, error);
    if (rc < 0)
        return rc;
    rc = vv_inspect_arrays(store, &found, view, name, &arrays, error);
    for (size_t i = 0; rc == 0 && i < arrays.count; i++)
        rc = tell_array(&arrays.list[i], fn, arg);
    vv_global_arrays_clear(&arrays);
    vv_view_close(view);
    return rc < 0 ? vv_error_default(error, rc, "cannot look for the arrays of %s@%" PRId64 ": %s", found.name,
                                     found.version, varve_error_text(rc))
                  : 0;
}

/* ---- the elements of one ---- */

static int zero(void *ptr, uint64_t size) {
    memset(ptr, 0, size);
    return 0;
}

static int choose_slice(struct vv_array_reading *reading, const struct varve_slice *slice, struct varve_error *error) {
    const struct vv_global_array *global = reading->global;
    vv_part_of_array(&global->array, &reading->slice);
    for (unsigned i = 0; slice && i < global->array.dims; i++) {
        uint64_t first = slice->first[i], count = slice->count[i], size = global->array.dim[i].local;
        if (first > size || count > size - first)
            return vv_error(error, VARVE_MISMATCH,
                            "array %s: dimension %u has %" PRIu64 " elements; %" PRIu64 " from %" PRIu64
                            " on are too many",
                            global->name, i, size, count, first);
        reading->slice.dim[i] = (struct vv_part_dim){count, first, count ? count : 1, count ? count : 1};
    }
    return 0;
}

/* Is every element of the slice there? */
static int check_slice(const struct vv_array_reading *reading, struct varve_error *error) {
    const struct vv_global_array *global = reading->global;
    struct vv_part part;
    uint64_t found = 0;
    if (global->is_private)
        return vv_error(error, VARVE_MISMATCH,
                        "array %s: each rank has one of its own, and the region of one rank is to be asked for",
                        global->name);
    if (global->is_ambiguous)
        return vv_error(error, VARVE_MISMATCH, "array %s: %s", global->name, problem_of(global));
    for (size_t i = 0; global->missing > 0 && i < global->count; i++) {
        vv_array_block_part(global, i, &part);
        found += global->blocks[i].is_again ? 0 : vv_overlap_count(&part, &reading->slice);
    }
    if (global->missing > 0 && found < vv_part_elements(&reading->slice))
        return vv_error(error, VARVE_MISMATCH, "array %s: %s", global->name, problem_of(global));
    return 0;
}

int vv_array_reading_choose(struct vv_array_reading *reading, const struct varve_slice *slice,
                            struct varve_error *error) {
    int rc = choose_slice(reading, slice, error);
    return rc ? rc : check_slice(reading, error);
}

static void choose_slabs(struct vv_array_reading *reading) {
    const struct vv_part *slice = &reading->slice;
    uint64_t inner = slice->element;
    for (unsigned i = 1; i < slice->dims; i++)
        inner *= slice->dim[i].local;
    reading->dim = 0;
    while (reading->dim + 1 < slice->dims && inner > WINDOW_BYTES)
        inner /= slice->dim[++reading->dim].local;
    uint64_t size = slice->dim[reading->dim].local, rows = WINDOW_BYTES / inner;
    reading->inner = inner;
    reading->rows = rows < 1 ? 1 : rows < size ? rows : size;
}

static int read_block(struct vv_array_reading *reading, size_t number, const struct vv_part *slab,
                      struct varve_error *error) {
    const struct vv_array_block *block = &reading->global->blocks[number];
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    struct vv_overlap overlap;
    struct vv_part part;
    vv_array_block_part(reading->global, number, &part);
    if (block->is_again || !vv_overlap_begin(&overlap, &part, slab))
        return 0;
    int rc = vv_region_find(reading->view, block->owner, reading->global->name, &recipe, &region, error);
    if (rc == 0)
        rc = vv_scatter_region(reading->scatter, recipe, &overlap, reading->window, VV_SHARING_NOTHING, error);
    vv_recipe_close(recipe);
    return rc ? vv_error_in_region(error, rc, reading->global->name) : 0;
}

int vv_array_slab_read(struct vv_array_reading *reading, const struct vv_part *slab, struct varve_error *error) {
    int rc = 0;
    for (size_t i = 0; i < reading->global->count && rc == 0; i++)
        rc = read_block(reading, i, slab, error);
    return rc ? rc : vv_scatter_run(reading->scatter, error);
}

/* To the next slab; 0 when it was the last. */
int vv_array_slab_next(const struct vv_array_reading *reading, struct vv_part *slab) {
    const struct vv_part *slice = &reading->slice;
    for (unsigned i = reading->dim + 1; i-- > 0;) {
        struct vv_part_dim *dim = &slab->dim[i];
        uint64_t end = slice->dim[i].first + slice->dim[i].local, most = i == reading->dim ? reading->rows : 1;
        uint64_t next = dim->first + dim->local;
        int is_again = next == end;
        uint64_t first = is_again ? slice->dim[i].first : next, left = end - first, local = left < most ? left : most;
        *dim = (struct vv_part_dim){local, first, local, local};
        if (!is_again)
            return 1;
    }
    return 0;
}

uint64_t vv_array_slab_first(const struct vv_array_reading *reading, struct vv_part *slab) {
    *slab = reading->slice;
    for (unsigned i = 0; i <= reading->dim; i++) {
        uint64_t local = i == reading->dim ? reading->rows : 1;
        slab->dim[i] = (struct vv_part_dim){local, slab->dim[i].first, local, local};
    }
    return vv_part_elements(&reading->slice) * reading->slice.element;
}

int vv_array_reading_open(struct vv_array_reading *reading, struct varve_store *store, const struct varve_slice *slice,
                          struct varve_error *error) {
    const struct vv_scatter_options options = {
        .threads = (unsigned)store->settings.threads, .window = BOOK_BYTES, .zero = zero};
    int rc = vv_array_reading_choose(reading, slice, error);
    if (rc || vv_part_elements(&reading->slice) == 0)
        return rc;
    choose_slabs(reading);
    reading->window = vv_malloc(reading->rows * reading->inner);
    if (!reading->window)
        return vv_error(error, -ENOMEM, "no memory for %" PRIu64 " bytes of an array", reading->rows * reading->inner);
    return vv_scatter_create(reading->view, &options, &reading->scatter, error);
}

void vv_array_reading_close(struct vv_array_reading *reading) {
    vv_scatter_destroy(reading->scatter);
    vv_free(reading->window);
    reading->scatter = NULL;
    reading->window = NULL;
}

static int read_slabs(struct vv_array_reading *reading, int is_checked_only, varve_bytes_fn fn, void *arg,
                      struct varve_error *error) {
    struct vv_part slab;
    uint64_t total = vv_array_slab_first(reading, &slab), done = 0;
    int rc = 0, more = total > 0;
    while (more && rc == 0) {
        uint64_t bytes = slab.dim[reading->dim].local * reading->inner;
        rc = vv_array_slab_read(reading, &slab, error);
        if (rc == 0)
            rc = fn(arg, done, is_checked_only ? NULL : reading->window, bytes, total);
        done += bytes;
        more = vv_array_slab_next(reading, &slab);
    }
    return rc > 0 ? vv_error(error, -EIO, "the function that takes the bytes returned %d", rc) : rc;
}

int varve_store_read_array(struct varve_store *store, const struct varve_which *which, const char *name,
                           const struct varve_slice *slice, int is_checked_first, varve_bytes_fn fn, void *arg,
                           struct varve_error *error) {
    struct varve_which found = which ? *which : (struct varve_which){0};
    struct vv_global_arrays arrays = {0};
    struct vv_array_reading reading = {0};

    vv_error_clear(error);
    if (!name || !fn)
        return vv_error(error, -EINVAL, "the name of an array, and a function for its bytes, are needed");
    int rc = vv_inspect_open_view(store, &found, &reading.view, error);
    if (rc < 0)
        return rc;
    vv_view_expect_parts(reading.view);
    rc = vv_inspect_arrays(store, &found, reading.view, name, &arrays, error);
    if (rc == 0 && arrays.count == 0)
        rc = vv_error(error, VARVE_MISMATCH, "%s@%" PRId64 " has no array \"%s\"; `varve show` tells what there is",
                      found.name, found.version, name);
    reading.global = arrays.list;
    rc = rc ? rc : vv_array_reading_open(&reading, store, slice, error);
    if (rc == 0 && is_checked_first)
        rc = read_slabs(&reading, 1, fn, arg, error);
    if (rc == 0)
        rc = read_slabs(&reading, 0, fn, arg, error);
    vv_array_reading_close(&reading);
    vv_global_arrays_clear(&arrays);
    vv_view_close(reading.view);
    return rc < 0 ? vv_error_default(error, rc, "cannot read array \"%s\" of %s@%" PRId64 ": %s", name, found.name,
                                     found.version, varve_error_text(rc))
                  : 0;
}
