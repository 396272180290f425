/* Reading one region back, window by window, every granule named and the digest compared at the end. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/content_id.h"
#include "read/region_reader.h"

int vv_error_in_region(struct varve_error *error, int rc, const char *region) {
    struct varve_error why = error ? *error : (struct varve_error){0};
    return vv_error(error, rc, "region %.100s: %.380s", region, why.text);
}

struct vv_hash128 vv_ids_take(uint64_t seed, uint64_t first, const uint8_t *data, uint64_t size,
                              struct vv_hash128 *ids) {
    struct vv_hash128 sum = {0, 0};
    for (uint64_t at = 0; at < size; at += VV_GRANULE, first++) {
        size_t length = size - at < VV_GRANULE ? size - at : VV_GRANULE;
        if (vv_is_zero(data + at, length))
            continue;                                          /* ids begin as zeros */
        int is_named = ids && !vv_hash128_is_zero(ids[first]); /* when its bytes arrived */
        struct vv_hash128 id = is_named ? ids[first] : vv_id(seed, data + at, length);
        sum = vv_hash128_add(sum, vv_digest_term(first, id));
        if (ids)
            ids[first] = id;
    }
    return sum;
}

int vv_region_find(struct vv_view *view, uint32_t owner, const char *region, struct vv_recipe **recipe_out,
                   struct vv_recipe_region *region_out, struct varve_error *error) {
    struct vv_recipe *recipe;
    int rc = vv_recipe_open(view, owner, &recipe, error);
    if (rc)
        return rc;
    while ((rc = vv_recipe_next_region(recipe, region_out, error)) > 0)
        if (strcmp(region_out->name, region) == 0) {
            *recipe_out = recipe;
            return 0;
        }
    vv_recipe_close(recipe);
    return rc ? rc
              : vv_error(error, VARVE_MISMATCH,
                         "rank %u has no region %s in this checkpoint; `varve show` lists its regions", owner, region);
}

struct stream {
    struct vv_view *view;
    struct vv_recipe *recipe;
    const struct vv_recipe_region *region;
    struct vv_fetch *fetch;
    vv_run_fn on_run;
    void *run_arg;
    uint8_t *window;
    uint64_t done;      /* bytes of the region before the window */
    struct vv_run run;  /* the run that reaches into the next window */
    uint64_t run_taken; /* bytes of it that are done */
    int has_run;
};

static int next_run(struct stream *stream, struct varve_error *error) {
    int rc = vv_recipe_next_run(stream->recipe, &stream->run, error);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return vv_error(error, VARVE_CORRUPT, "its runs end before the region does");
    stream->has_run = 1;
    stream->run_taken = 0;
    return stream->on_run ? stream->on_run(stream->run_arg, &stream->run) : 0;
}

/* Fill the window with the next `size` bytes. */
static int fill_window(struct stream *stream, uint64_t size, struct varve_error *error) {
    uint64_t filled = 0;
    while (filled < size) {
        int rc = stream->has_run ? 0 : next_run(stream, error);
        if (rc)
            return rc;
        uint64_t left = stream->run.length - stream->run_taken;
        uint64_t take = left < size - filled ? left : size - filled;
        rc = vv_fetch_add(stream->fetch, &stream->run, stream->run_taken, take, stream->window + filled, 0, error);
        if (rc)
            return rc;
        stream->run_taken += take;
        stream->has_run = stream->run_taken < stream->run.length;
        filled += take;
    }
    return vv_fetch_run(stream->fetch, error);
}

static int check_digest(const struct vv_recipe_region *region, struct vv_hash128 digest, struct varve_error *error) {
    if (vv_hash128_equal(digest, region->digest))
        return 0;
    return vv_error(error, VARVE_CORRUPT, "region %s: the bytes read do not have the digest that was stored",
                    region->name);
}

int vv_region_take(struct vv_view *view, struct vv_recipe *recipe, const struct vv_recipe_region *region, uint64_t seed,
                   size_t window, struct vv_pool *pool, vv_bytes_fn fn, void *arg, struct vv_hash128 *ids,
                   vv_run_fn on_run, void *run_arg, struct varve_error *error) {
    struct stream stream = {.view = view, .recipe = recipe, .region = region, .on_run = on_run, .run_arg = run_arg};
    struct vv_hash128 digest = {0, 0};
    window = (window + VV_GRANULE - 1) & ~(size_t)(VV_GRANULE - 1);
    if (window > region->length)
        window = region->length ? (size_t)region->length : 1;
    stream.window = vv_malloc(window);
    int rc = stream.window ? vv_fetch_create(view, pool, &stream.fetch) : -ENOMEM;
    if (rc)
        vv_error(error, rc, "no memory to read region %s", region->name);
    while (rc == 0 && stream.done < region->length) {
        uint64_t size = region->length - stream.done < window ? region->length - stream.done : window;
        rc = fill_window(&stream, size, error);
        rc = rc == VARVE_CORRUPT ? vv_error_in_region(error, rc, region->name) : rc;
        if (rc)
            break;
        digest = vv_hash128_add(digest, vv_ids_take(seed, stream.done / VV_GRANULE, stream.window, size, ids));
        rc = fn ? fn(arg, stream.done, stream.window, size, region->length) : 0;
        rc = rc > 0 ? -EIO : rc; /* whatever it meant, it is no success of ours */
        if (rc)
            vv_error_default(error, rc, "region %s: the receiver of its bytes returned %d", region->name, rc);
        stream.done += size;
    }
    if (rc == 0)
        rc = check_digest(region, digest, error);
    vv_fetch_destroy(stream.fetch);
    vv_free(stream.window);
    return rc;
}

int vv_region_stream(struct vv_view *view, struct vv_recipe *recipe, const struct vv_recipe_region *region,
                     uint64_t seed, size_t window, struct vv_pool *pool, vv_bytes_fn fn, void *arg,
                     struct varve_error *error) {
    return vv_region_take(view, recipe, region, seed, window, pool, fn, arg, NULL, NULL, NULL, error);
}
