/* Tables of other ranks' packs, all asked for at once before the first is needed.
 *
 * A restart that looks for its chunks one after the other would ask for the tables of one pack after the other; between
 * ranks each answer costs a round of all of them (peers.h). */
#include <stdlib.h>

#include "restart/restart_private.h"

#define TIDY_EVERY 4096u

struct wish {
    struct vv_view *view;
    uint32_t source, owner;
};

static int compare_wishes(const void *a, const void *b) {
    const struct wish *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->owner < y->owner ? -1 : x->owner > y->owner;
}

static int load(void *arg) {
    const struct wish *wish = arg;
    vv_view_ahead(wish->view, wish->source, wish->owner);
    return 0;
}

/* Sorted, each once. */
static size_t tidy(struct vv_buf *wishes) {
    struct wish *list = (struct wish *)wishes->data;
    size_t count = wishes->size / sizeof *list, kept = 0;
    if (count > 0)
        qsort(list, count, sizeof *list, compare_wishes);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare_wishes(&list[kept - 1], &list[i]) != 0)
            list[kept++] = list[i];
    wishes->size = kept * sizeof *list;
    return kept;
}

static void add_wishes(struct vv_view *view, const struct vv_run *run, struct vv_buf *wishes, size_t *next_tidy) {
    for (uint32_t i = 0; i < run->place_count; i++) {
        struct wish wish = {view, run->places[i].dependency, run->places[i].owner};
        vv_buf_append(wishes, &wish, sizeof wish);
    }
    if (wishes->size / sizeof(struct wish) >= *next_tidy)
        *next_tidy = tidy(wishes) * 2 + TIDY_EVERY;
}

static int collect(struct vv_view *view, struct vv_recipe *recipe, struct vv_buf *wishes, struct varve_error *error) {
    struct vv_recipe_region region;
    struct vv_run run;
    size_t next_tidy = TIDY_EVERY;
    int rc = vv_recipe_rewind(recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &region, error)) > 0)
        while ((rc = vv_recipe_next_run(recipe, &run, error)) > 0)
            add_wishes(view, &run, wishes, &next_tidy);
    return rc < 0 ? rc : wishes->failed;
}

void vv_load_ahead(struct vv_view *view, struct vv_recipe *recipe, struct vv_pool *pool) {
    struct varve_error ignored = {0};
    struct vv_buf wishes;
    vv_buf_init(&wishes);
    if (collect(view, recipe, &wishes, &ignored) == 0) {
        size_t count = tidy(&wishes);
        struct wish *list = (struct wish *)wishes.data;
        for (size_t i = 0; i < count; i++)
            if (vv_pool_submit(pool, load, &list[i]) != 0)
                break;
        vv_pool_wait(pool);
    }
    vv_buf_clear(&wishes);
}
