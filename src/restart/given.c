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
    int was_protected; /* elsewhere, in memory that the program may have freed since it was asked */
};

/* Where the protection of a region that the program knows has ended, the next checkpoint must not just be without it.
 */
static void leave(struct vv_regions *regions, const struct vv_given_region *entry) {
    struct vv_region *region = vv_regions_find(regions, entry->name);
    if (region && !region->ask && !entry->was_protected) {
        vv_regions_remove(regions, region);
    } else if (region) {
        region->is_ended = !region->ask; /* one that moves tells where it is when it is asked again */
        region->ptr = NULL;
        region->size = 0;
    }
}

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
    list[given->count] = (struct vv_given_region){vv_strdup(name), NULL, vv_regions_find(given->regions, name) != NULL};
    return list[given->count].name ? &list[given->count] : NULL;
}

static int protect(struct vv_regions *regions, const struct vv_given_want *want, void *ptr) {
    int is_typed = want->array->type != VARVE_BYTES || want->array->dims > 0;
    struct vv_array *made = is_typed ? vv_array_make(want->array) : NULL;
    struct vv_region *region = is_typed && !made ? NULL : vv_regions_add(regions, want->name);
    if (!region) {
        vv_array_drop(made);
        return -ENOMEM;
    }
    vv_array_drop(region->array);
    region->array = made;
    region->ptr = ptr;
    region->size = want->bytes;
    region->distribution = (uint8_t)want->how;
    return 0;
}

int vv_given_take(struct vv_given *given, struct vv_peers *peers, const struct vv_given_want *want,
                  struct varve_error *error) {
    struct question question = {.options = given->options,
                                .info = {want->name, want->bytes, want->array, (int)want->how}};
    struct vv_given_region *entry = make_entry(given, want->name);
    if (!entry)
        return vv_error(error, -ENOMEM, "no memory to restart region %s", want->name);
    vv_peers_call(peers, ask_program, &question);
    if (question.ptr == VARVE_NOT_WANTED) {
        vv_free(entry->name);
        return 0;
    }
    entry->ptr = question.ptr;
    given->count++;
    if (!question.ptr && want->bytes > 0)
        return vv_error(error, -ENOMEM, "region %s: the program gave no memory for its %" PRIu64 " bytes", want->name,
                        want->bytes);
    if (protect(given->regions, want, question.ptr) != 0)
        return vv_error(error, -ENOMEM, "no memory to protect region %s", want->name);
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
        leave(regions, entry);
        if (entry->ptr)
            given->options->allocator->release(given->options->arg, entry->name, entry->ptr);
    }
    if (!is_kept && given->count)
        vv_regions_pack(regions);
    clear(given);
}
