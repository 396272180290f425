/* Two checkpoints of other numbers of ranks: an array that both have as a whole is compared by places in it, whichever
 * ranks hold them. Other regions are compared rank by rank. */
#include <errno.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "inspect/diff_private.h"

/* 1 if some rank is on another node: then nothing is known to be whole. */
static int gather(struct vv_diff *diff, int i, struct varve_error *error) {
    uint32_t ranks = vv_view_record(diff->view[i])->ranks;
    int rc = 0;
    for (uint32_t rank = 0; rank < ranks && rc == 0; rank++) {
        rc = vv_inspect_is_elsewhere(diff->store[i], &diff->which[i], diff->view[i], rank, &diff->residents[i], error);
        rc = rc ? rc : vv_global_arrays_add(&diff->arrays[i], diff->view[i], rank, NULL, error);
    }
    return rc ? rc : vv_global_arrays_check(&diff->arrays[i], 0, error);
}

static int is_whole(const struct vv_global_array *global) {
    return !global->is_private && !global->is_ambiguous && global->missing == 0;
}

static int is_alike(const struct varve_array *a, const struct varve_array *b) {
    if (a->type != b->type || a->dims != b->dims)
        return 0;
    for (unsigned i = 0; i < a->dims; i++)
        if (a->dim[i].global != b->dim[i].global)
            return 0;
    return 1;
}

/* Both in the same slabs, since they have the same sizes. */
static int compare_slabs(struct vv_diff *diff, struct vv_array_reading *readings, struct vv_diff_region *region,
                         struct varve_error *error) {
    struct vv_part slab;
    uint64_t total = vv_array_slab_first(&readings[0], &slab), done = 0;
    int rc = 0, more = total > 0;
    while (more && rc == 0) {
        uint64_t bytes = slab.dim[readings[0].dim].local * readings[0].inner;
        rc = vv_array_slab_read(&readings[0], &slab, error);
        rc = rc ? rc : vv_array_slab_read(&readings[1], &slab, error);
        if (rc == 0)
            vv_diff_elements(&region->rule, done / region->rule.element, readings[0].window, readings[1].window, bytes,
                             &region->tally);
        done += bytes;
        diff->result.bytes_compared += bytes;
        rc = rc ? rc : vv_diff_progress(diff, bytes, error);
        more = vv_array_slab_next(&readings[0], &slab);
    }
    return rc;
}

static int compare_array(struct vv_diff *diff, const struct vv_global_array *a, const struct vv_global_array *b,
                         struct varve_error *error) {
    uint64_t bytes = vv_array_bytes(&a->array);
    struct varve_difference told = {.region = a->name, .bytes_first = bytes, .bytes_second = bytes, .is_array = 1};
    struct vv_array_reading readings[2] = {{.view = diff->view[0], .global = a}, {.view = diff->view[1], .global = b}};
    struct vv_diff_region *region = vv_diff_queue(diff, &told);
    if (!region)
        return vv_error_sys(error, -ENOMEM, "cannot compare array \"%s\"", a->name);
    region->rule = (struct vv_diff_rule){.type = (uint8_t)a->array.type,
                                         .element = vv_type_size(a->array.type),
                                         .is_by_value = diff->options.is_by_value,
                                         .tolerance = diff->options.tolerance,
                                         .relative = diff->options.relative};
    int rc = vv_array_reading_open(&readings[0], diff->store[0], NULL, error);
    rc = rc ? rc : vv_array_reading_open(&readings[1], diff->store[1], NULL, error);
    rc = rc ? rc : compare_slabs(diff, readings, region, error);
    vv_array_reading_close(&readings[0]);
    vv_array_reading_close(&readings[1]);
    return rc < 0 ? rc : vv_diff_walked(diff, region, error);
}

int vv_diff_arrays(struct vv_diff *diff, struct varve_error *error) {
    if (diff->options.is_quick || vv_view_record(diff->view[0])->ranks == vv_view_record(diff->view[1])->ranks)
        return 0;
    int rc = gather(diff, 0, error);
    rc = rc ? rc : gather(diff, 1, error);
    if (rc > 0)
        return 0;
    diff->is_compared = rc ? NULL : vv_calloc(diff->arrays[0].count + 1, 1);
    if (rc == 0 && !diff->is_compared)
        rc = vv_error_sys(error, -ENOMEM, "cannot compare arrays");
    for (size_t i = 0; i < diff->arrays[0].count && rc == 0; i++) {
        const struct vv_global_array *a = &diff->arrays[0].list[i];
        const struct vv_global_array *b = vv_global_arrays_find(&diff->arrays[1], a->name);
        if (!b || !is_whole(a) || !is_whole(b) || !is_alike(&a->array, &b->array))
            continue;
        diff->is_compared[i] = 1;
        rc = compare_array(diff, a, b, error);
    }
    return rc;
}

int vv_diff_is_compared(const struct vv_diff *diff, const char *name) {
    const struct vv_global_array *found = diff->is_compared ? vv_global_arrays_find(&diff->arrays[0], name) : NULL;
    return found && diff->is_compared[found - diff->arrays[0].list];
}

void vv_diff_arrays_clear(struct vv_diff *diff) {
    vv_global_arrays_clear(&diff->arrays[0]);
    vv_global_arrays_clear(&diff->arrays[1]);
    vv_free(diff->is_compared);
    diff->is_compared = NULL;
}
