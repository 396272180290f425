/* Comparing two checkpoints. Digests tell which regions differ; where they do, or cannot be compared, the runs of the
 * two are walked (diff_runs.c), and only what these leave open is read (diff_read.c). */
#include "inspect/diff_private.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

#define IDS_SHARE 16 /* in a line of checkpoints ids are asked for when this part of the bytes had to be looked at */

/* ---- ranks ---- */

/* One of the two is on another node, or a part of it: there is nothing to compare it with. */
static int is_left_out(struct vv_diff *diff, uint32_t rank, struct varve_error *error) {
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        if (rank < vv_view_record(diff->view[i])->ranks) {
            rc = vv_inspect_is_elsewhere(diff->store[i], &diff->which[i], diff->view[i], rank, &diff->residents[i],
                                         error);
            rc = rc != 0 ? rc : vv_owner_needs_others(diff->residents[i], diff->view[i], rank, error);
        }
    }
    return rc;
}

static int compare_ranks(struct vv_diff *diff, struct varve_error *error) {
    uint32_t a = vv_view_record(diff->view[0])->ranks;
    uint32_t b = vv_view_record(diff->view[1])->ranks;
    struct vv_left_out left_out = {0};
    int rc = 0;

    for (uint32_t rank = 0; rc == 0 && rank < (a > b ? a : b); rank++) {
        rc = is_left_out(diff, rank, error);
        if (rc > 0) {
            vv_inspect_leave_out(&left_out, rank);
            rc = 0;
        } else if (rc == 0) {
            rc = vv_diff_rank(diff, rank, error);
        }
    }
    rc = rc < 0 ? rc : vv_diff_flush(diff, error);
    vv_inspect_tell_left_out(diff->store[1], &diff->which[1], &left_out);
    diff->result.ranks_left_out = left_out.count;
    return rc;
}

/* ---- the calls ---- */

static int both_read_so_far(struct vv_diff *diff, uint64_t *out, struct varve_error *error) {
    uint64_t more = 0;
    int rc = vv_inspect_read_so_far(diff->store[0], out, error);
    rc = rc < 0 || diff->store[0] == diff->store[1] ? rc : vv_inspect_read_so_far(diff->store[1], &more, error);
    *out += more;
    return rc;
}

/* What of the one means the same in the other. */
static int find_grounds(struct vv_diff *diff, struct varve_error *error) {
    struct varve_store *a = diff->store[0];
    struct varve_store *b = diff->store[1];
    const struct vv_settings_store *x = &a->store->settings;
    const struct vv_settings_store *y = &b->store->settings;

    diff->has_ids = x->id_kind == y->id_kind && x->granule_log2 == y->granule_log2 && x->seed == y->seed;
    diff->has_digests = diff->has_ids;
    /* A copy of a store has its id, but may have gone on in another way. */
    diff->has_places =
        (a == b || strcmp(a->address, b->address) == 0) && strcmp(diff->which[0].name, diff->which[1].name) == 0;
    if (!diff->has_ids && diff->options.is_quick) {
        return vv_error(error, -EINVAL,
                        "%s and %s name the same bytes differently: they have to be read to be compared", a->address,
                        b->address);
    }
    uint64_t first = vv_view_record(diff->view[0])->protected_bytes;
    uint64_t second = vv_view_record(diff->view[1])->protected_bytes;
    diff->total = first > second ? first : second;
    /* A session that goes on from a checkpoint does not store again what is there, so other places mostly hold other
     * bytes; ids, 16 bytes for each 4096 of the packs, would be read in vain. */
    diff->ids_from = diff->has_places && !diff->options.is_quick ? diff->total / IDS_SHARE : 0;
    return diff->has_places && !diff->options.is_quick ? vv_diff_share(diff, error) : 0;
}

static int compare_regions(struct vv_diff *diff, struct varve_error *error) {
    uint64_t before = 0;
    uint64_t after = 0;

    int rc = both_read_so_far(diff, &before, error);
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = vv_inspect_open_view(diff->store[i], &diff->which[i], &diff->view[i], error);
    rc = rc < 0 ? rc : find_grounds(diff, error);
    rc = rc < 0 ? rc : vv_diff_arrays(diff, error);
    rc = rc < 0 ? rc : compare_ranks(diff, error);
    vv_diff_arrays_clear(diff);
    vv_diff_batch_clear(diff);
    for (int i = 0; i < 2; i++) {
        vv_residents_destroy(diff->residents[i]);
        vv_view_close(diff->view[i]);
    }
    rc = diff->stopped && rc == -ECANCELED ? 0 : rc;
    rc = rc < 0 ? rc : both_read_so_far(diff, &after, error);
    diff->result.bytes_read = after - before;
    return rc < 0 ? vv_error_default(error, rc, "cannot compare %s@%" PRId64 " with %s@%" PRId64 ": %s",
                                     diff->which[0].name, diff->which[0].version, diff->which[1].name,
                                     diff->which[1].version, varve_error_text(rc))
                  : 0;
}

static int check_options(const struct varve_compare_options *options, const struct varve_compare_result *out,
                         struct varve_error *error) {
    if (options && (options->size < sizeof(size_t) || options->size > sizeof *options))
        return vv_error(error, -EINVAL, "set options->size to sizeof(struct varve_compare_options)");
    if (out && (out->size < sizeof(size_t) || out->size > sizeof *out))
        return vv_error(error, -EINVAL, "set out->size to sizeof(struct varve_compare_result)");
    return 0;
}

static int check_bound(double bound, const char *name, struct varve_error *error) {
    if (isfinite(bound) && bound >= 0)
        return 0;
    return vv_error(error, -EINVAL, "%g is no bound of a %s: it must be finite, and 0 or more", bound, name);
}

int varve_store_compare(struct varve_store *store, const struct varve_which *first, const struct varve_which *second,
                        const struct varve_compare_options *options, struct varve_compare_result *out,
                        struct varve_error *error) {
    vv_error_clear(error);
    if (!store || !first || !second)
        return vv_error(error, -EINVAL, "a store and two checkpoints are needed to compare");
    int rc = check_options(options, out, error);
    if (rc < 0)
        return rc;
    struct vv_diff diff = {.which = {*first, *second}, .store = {store, store}};
    if (options)
        memcpy(&diff.options, options, options->size);
    rc = check_bound(diff.options.tolerance, "distance", error);
    rc = rc < 0 ? rc : check_bound(diff.options.relative, "relative distance", error);
    if (rc < 0)
        return rc;
    diff.store[1] = diff.options.second ? diff.options.second : store;
    rc = compare_regions(&diff, error);
    if (out) {
        size_t size = out->size;
        memcpy(out, &diff.result, size);
        out->size = size;
    }
    uint64_t differing = diff.result.regions_differing;
    return rc < 0 ? rc : differing < INT_MAX ? (int)differing : INT_MAX;
}

int varve_store_diff(struct varve_store *store, const struct varve_which *first, const struct varve_which *second,
                     varve_difference_fn fn, void *arg, struct varve_error *error) {
    struct varve_compare_options options = {.size = sizeof options, .is_quick = 1, .difference = fn, .arg = arg};
    return varve_store_compare(store, first, second, &options, NULL, error);
}
