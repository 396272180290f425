/* Memory that the program gives for the regions of one candidate, when their sizes are known from the store only.
 *
 * What was given is protected at once, so that reading finds it like any other region. If the candidate fails, on
 * whichever rank, all of it goes back to the program before the next one is tried. So at any moment the program has
 * memory for one candidate, and who owns it is never in doubt. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "restart/given.h"

struct vv_given_region {
    char *name;
    void *ptr;
};

/* Asking the program, in its own thread. */
struct question {
    const struct vv_restart_options *options;
    struct varve_region_info info;
    void *ptr;
};

static int ask_program(void *arg) {
    struct question *question = arg;
    question->ptr = question->options->allocator->alloc(question->options->arg, &question->info);
    if (question->ptr == MAP_FAILED) /* the answer of mmap, handed on */
        question->ptr = NULL;
    return 0;
}

/* Room for the answer comes first: what was given must never be forgotten. */
static struct vv_given_region *make_entry(struct vv_given *given, const char *name) {
    struct vv_given_region *list = vv_realloc(given->list, (given->count + 1) * sizeof *list);
    if (!list)
        return NULL;
    given->list = list;
    list[given->count] = (struct vv_given_region){vv_strdup(name), NULL};
    return list[given->count].name ? &list[given->count] : NULL;
}

static int protect(struct vv_regions *regions, const char *name, void *ptr, uint64_t bytes,
                   const struct varve_array *array) {
    int is_typed = array->type != VARVE_BYTES || array->dims > 0;
    struct vv_array *made = is_typed ? vv_array_make(array) : NULL;
    struct vv_region *region = is_typed && !made ? NULL : vv_regions_add(regions, name);
    if (!region) {
        vv_array_drop(made);
        return -ENOMEM;
    }
    vv_array_drop(region->array);
    region->array = made;
    region->ptr = ptr;
    region->size = bytes;
    return 0;
}

int vv_given_take(struct vv_given *given, struct vv_peers *peers, const struct vv_recipe_region *stored,
                  struct varve_error *error) {
    struct varve_array array;
    struct question question = {.options = given->options, .info = {stored->name, stored->length, &array}};
    struct vv_given_region *entry = make_entry(given, stored->name);
    if (!entry)
        return vv_error(error, -ENOMEM, "no memory to restart region %s", stored->name);
    vv_array_of(&stored->shape, &array);
    vv_peers_call(peers, ask_program, &question);
    if (question.ptr == VARVE_NOT_WANTED || (!question.ptr && stored->length > 0)) {
        vv_free(entry->name);
        return question.ptr
                   ? 0
                   : vv_error(error, -ENOMEM, "region %s: the program gave no memory for its %" PRIu64 " bytes",
                              stored->name, stored->length);
    }
    entry->ptr = question.ptr;
    given->count++;
    if (protect(given->regions, stored->name, question.ptr, stored->length, &array) != 0)
        return vv_error(error, -ENOMEM, "no memory to protect region %s", stored->name);
    return 1;
}

static void clear(struct vv_given *given) {
    for (size_t i = 0; i < given->count; i++)
        vv_free(given->list[i].name);
    vv_free(given->list);
    given->list = NULL;
    given->count = 0;
}

void vv_given_end(struct vv_given *given, int is_kept) {
    struct vv_regions *regions = given->regions;
    for (size_t i = 0; !is_kept && i < given->count; i++) {
        const struct vv_given_region *entry = &given->list[i];
        struct vv_region *region = vv_regions_find(regions, entry->name);
        if (region && region->ask) { /* it tells where it is when it is asked again */
            region->ptr = NULL;
            region->size = 0;
        } else if (region) {
            vv_regions_remove(regions, region);
        }
        if (entry->ptr)
            given->options->allocator->release(given->options->arg, entry->name, entry->ptr);
    }
    if (!is_kept && given->count)
        vv_regions_pack(regions);
    clear(given);
}
