#include "arrays/scatter.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/content_id.h"

#define SHORT VV_GRANULE /* bytes: less is never read from the storage by itself */

/* A short stretch. */
struct copy {
    uint8_t *to;
    uint32_t from; /* in the room */
    uint32_t length;
};

/* Short stretches that are read together: offsets of one region, from a run on. */
struct cover {
    struct vv_run run;
    uint64_t from, end;
    uint32_t at; /* in the room */
};

struct vv_scatter {
    struct vv_pool *pool;
    struct vv_fetch *fetch;
    uint64_t window;
    int (*zero)(void *ptr, uint64_t size);
    uint8_t *room;
    uint32_t room_size, room_used;
    struct vv_buf copies;
    struct cover cover;
    int has_cover;
    enum vv_sharing sharing; /* of the region at hand */
};

int vv_scatter_create(struct vv_view *view, const struct vv_scatter_options *options, struct vv_scatter **out,
                      struct varve_error *error) {
    uint64_t window = options->window;
    struct vv_scatter *scatter = *out = vv_calloc(1, sizeof *scatter);
    if (!scatter)
        return vv_error(error, -ENOMEM, "no memory to read parts of arrays");
    scatter->window = window;
    scatter->zero = options->zero;
    scatter->room_size = window / 4 < (64u << 20) ? (uint32_t)(window / 4) : 64u << 20;
    scatter->room = vv_malloc(scatter->room_size);
    int rc = scatter->room ? vv_pool_create(options->threads, options->threads + 2, NULL, &scatter->pool) : -ENOMEM;
    if (rc == 0)
        rc = vv_fetch_create(view, scatter->pool, &scatter->fetch);
    return rc ? vv_error(error, rc, "parts of arrays could not be read: %s", varve_error_text(rc)) : 0;
}

void vv_scatter_destroy(struct vv_scatter *scatter) {
    if (!scatter)
        return;
    vv_fetch_destroy(scatter->fetch);
    vv_pool_destroy(scatter->pool);
    vv_buf_clear(&scatter->copies);
    vv_free(scatter->room);
    vv_free(scatter);
}

/* The short stretches that were collected become one that is wanted. */
static int end_cover(struct vv_scatter *scatter, struct varve_error *error) {
    const struct cover *cover = &scatter->cover;
    if (!scatter->has_cover)
        return 0;
    scatter->has_cover = 0;
    scatter->room_used = cover->at + (uint32_t)(cover->end - cover->from);
    /* What lies between the stretches is wanted by others. */
    vv_fetch_share(scatter->fetch, scatter->sharing ? VV_SHARING_ALL : VV_SHARING_NOTHING);
    return vv_fetch_add(scatter->fetch, &cover->run, cover->from - cover->run.offset, cover->end - cover->from,
                        scatter->room + cover->at, 0, error);
}

int vv_scatter_run(struct vv_scatter *scatter, struct varve_error *error) {
    int rc = end_cover(scatter, error);
    if (rc == 0)
        rc = vv_fetch_run(scatter->fetch, error);
    const struct copy *copies = (const struct copy *)scatter->copies.data;
    for (size_t i = 0; rc == 0 && i < scatter->copies.size / sizeof *copies; i++)
        memcpy(copies[i].to, scatter->room + copies[i].from, copies[i].length);
    scatter->copies.size = 0;
    scatter->room_used = 0;
    return rc;
}

static int is_full(const struct vv_scatter *scatter) {
    return vv_fetch_pending(scatter->fetch) + scatter->copies.size + scatter->room_size > scatter->window;
}

/* Is it in the same run as those before, close behind them, and is there room? */
static int fits_cover(const struct vv_scatter *scatter, const struct vv_run *run, uint64_t from, uint64_t length) {
    const struct cover *cover = &scatter->cover;
    return scatter->has_cover && !is_full(scatter) && cover->run.offset == run->offset && from - cover->end < SHORT &&
           cover->at + (from + length - cover->from) <= scatter->room_size;
}

static int begin_cover(struct vv_scatter *scatter, const struct vv_run *run, uint64_t from, uint64_t length,
                       struct varve_error *error) {
    int rc = end_cover(scatter, error);
    if (rc == 0 && (is_full(scatter) || scatter->room_used + length > scatter->room_size))
        rc = vv_scatter_run(scatter, error);
    scatter->cover = (struct cover){*run, from, from, scatter->room_used};
    scatter->has_cover = rc == 0;
    return rc;
}

static int want_short(struct vv_scatter *scatter, const struct vv_run *run, uint64_t from, uint64_t length, uint8_t *to,
                      struct varve_error *error) {
    struct cover *cover = &scatter->cover;
    int rc = fits_cover(scatter, run, from, length) ? 0 : begin_cover(scatter, run, from, length, error);
    if (rc)
        return rc;
    struct copy copy = {to, cover->at + (uint32_t)(from - cover->from), (uint32_t)length};
    cover->end = from + length;
    vv_buf_append(&scatter->copies, &copy, sizeof copy);
    return scatter->copies.failed ? vv_error(error, -ENOMEM, "no memory to read parts of arrays") : 0;
}

/* Bytes of one run that lie together on both sides. */
static int want_piece(struct vv_scatter *scatter, const struct vv_run *run, uint64_t from, uint64_t length, uint8_t *to,
                      struct varve_error *error) {
    if (run->kind == VV_RUN_ZERO)
        return scatter->zero(to, length) == 0
                   ? 0
                   : vv_error(error, -EFAULT,
                              "a page of it cannot be written: a guard page, or memory that has failed");
    if (length < SHORT)
        return want_short(scatter, run, from, length, to, error);
    vv_fetch_share(scatter->fetch, scatter->sharing);
    int rc = vv_fetch_add(scatter->fetch, run, from - run->offset, length, to, 0, error);
    return rc == 0 && is_full(scatter) ? vv_scatter_run(scatter, error) : rc;
}

int vv_scatter_region(struct vv_scatter *scatter, struct vv_recipe *recipe, struct vv_overlap *overlap, void *base,
                      enum vv_sharing sharing, struct varve_error *error) {
    struct vv_stretch stretch;
    struct vv_run run;
    scatter->sharing = sharing;
    int rc = 0, more = vv_overlap_next(overlap, &stretch);
    while (more && rc == 0 && (rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
        uint64_t end = run.offset + run.length;
        rc = 0;
        while (more && rc == 0 && stretch.from < end) {
            uint64_t length = stretch.length < end - stretch.from ? stretch.length : end - stretch.from;
            rc = want_piece(scatter, &run, stretch.from, length, (uint8_t *)base + stretch.to, error);
            stretch.from += length;
            stretch.to += length;
            stretch.length -= length;
            if (stretch.length == 0)
                more = vv_overlap_next(overlap, &stretch);
        }
    }
    if (rc == 0 && more)
        rc = vv_error(error, VARVE_CORRUPT, "its runs end before its length");
    return rc ? rc : end_cover(scatter, error);
}
