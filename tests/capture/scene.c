#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const struct region plan[SCENE_REGIONS] = {
    {.name = "bulk", .kind = MAPPED, .usual = 40}, /* in percent of all bytes; see scene_create */
    {.name = "alias", .kind = ALIAS, .usual = 10000},
    {.name = "lent", .kind = LENT, .usual = 13},
    {.name = "odd", .kind = MAPPED, .usual = 13},
    {.name = "heap", .kind = HEAP, .usual = 5},
    {.name = "sparse", .kind = MAPPED, .usual = 17, .is_sparse = 1},
    {.name = "shared", .kind = SHARED, .usual = 2},
    {.name = "device", .kind = MAPPED, .usual = 2, .flags = VARVE_DEVICE_WRITES},
    {.name = "calls", .kind = CALLBACK, .usual = 3},
    {.name = "visitor", .kind = LENT, .usual = 5},
    {.name = "short", .kind = MAPPED, .usual = 4095},
    {.name = "near", .kind = NEIGHBOUR, .usual = 4097},
    {.name = "byte", .kind = MAPPED, .usual = 1},
    {.name = "empty", .kind = MAPPED, .usual = 0},
};

/* ---- callbacks ---- */

static int calls_length(void *arg, uint64_t *out) {
    *out = ((struct region *)arg)->size;
    return 0;
}
static int calls_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    memcpy(buffer, ((struct region *)arg)->ptr + offset, size);
    return 0;
}
static int calls_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    struct region *region = arg;
    if (total > region->map_size - (size_t)(region->ptr - region->map))
        return -1;
    memcpy(region->ptr + offset, buffer, size);
    region->size = total;
    return 0;
}

/* ---- memory ---- */

static int protect(struct scene *scene, struct region *region) {
    static const struct varve_callbacks callbacks = {sizeof callbacks, calls_length, calls_save, calls_load, 0};
    if (region->kind == CALLBACK)
        return varve_protect_callback(scene->session, region->name, &callbacks, region);
    unsigned flags = region->flags ? region->flags : scene->flags;
    if (flags)
        return varve_protect_flags(scene->session, region->name, region->ptr, region->size, flags);
    return varve_protect(scene->session, region->name, region->ptr, region->size);
}

static void protect_or_fail(struct scene *scene, struct region *region) {
    if (region->kind == ALIAS && !scene->has_alias)
        return;
    if (protect(scene, region) != 0)
        fail("protect %s: %s", region->name, varve_session_error(scene->session)->text);
    region->is_present = 1;
}

static uint8_t *map(size_t size, int how) {
    uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("no memory");
    return at;
}

/* Somewhere in its first page: at 16 in every second place. */
static size_t odd_start(struct dice *dice) {
    return roll_below(dice, 2) ? 16 : roll_below(dice, PAGE);
}

/* Room to grow to twice the usual size. */
static void place(struct scene *scene, struct region *region) {
    size_t capacity = 2 * region->usual + 2 * PAGE;
    region->map_size = (capacity + 2 * PAGE - 1) / PAGE * PAGE;
    if (region->kind == HEAP) {
        region->ptr = region->map = malloc(region->size);
        if (!region->map)
            fail("no memory");
        return;
    }
    region->map = map(region->map_size, region->kind == SHARED ? MAP_SHARED : MAP_PRIVATE);
    region->ptr = region->map + odd_start(&scene->dice);
}

static struct region *find(struct scene *scene, const char *name) {
    for (size_t i = 0; i < SCENE_REGIONS; i++)
        if (strcmp(scene->regions[i].name, name) == 0)
            return &scene->regions[i];
    fail("no region %s", name);
}

/* Those that lie where others are follow them. */
static void follow(struct scene *scene) {
    struct region *bulk = find(scene, "bulk"), *alias = find(scene, "alias"), *at = find(scene, "short"),
                  *near = find(scene, "near");
    alias->ptr = bulk->ptr + bulk->size / 3;
    alias->size = alias->usual < bulk->size / 2 ? alias->usual : bulk->size / 2;
    near->ptr = at->ptr + at->size;
    near->size = near->usual;
}

void scene_create(struct scene *scene, size_t bytes, unsigned flags, int has_alias, uint64_t seed) {
    *scene = (struct scene){.flags = flags, .has_alias = has_alias, .dice = {mix(seed)}};
    memcpy(scene->regions, plan, sizeof plan);
    for (size_t i = 0; i < SCENE_REGIONS; i++) {
        struct region *region = &scene->regions[i];
        if (region->usual > 1 && region->usual <= 100)
            region->usual = bytes / 100 * region->usual / PAGE * PAGE + 17;
        region->size = region->usual;
    }
}

static int has_own_memory(const struct region *region) {
    return region->kind != NEIGHBOUR && region->kind != ALIAS && region->kind != LENT;
}

void scene_enter(struct scene *scene, struct varve_session *session) {
    scene->session = session;
    for (size_t i = 0; i < SCENE_REGIONS; i++) {
        struct region *region = &scene->regions[i];
        if (has_own_memory(region) && !region->map)
            place(scene, region);
        if (region->kind == LENT) {
            region->ptr = varve_alloc(session, region->name, region->size);
            if (!region->ptr)
                fail("varve_alloc %s", region->name);
        }
        if (!region->is_sparse)
            fill(region->ptr, region->kind == ALIAS || region->kind == NEIGHBOUR ? 0 : region->size,
                 roll(&scene->dice));
    }
    follow(scene);
    for (size_t i = 0; i < SCENE_REGIONS; i++)
        protect_or_fail(scene, &scene->regions[i]);
}

void scene_leave(struct scene *scene) {
    scene->session = NULL;
}

static void release(struct region *region) {
    if (region->kind == HEAP)
        free(region->map);
    else if (region->map)
        munmap(region->map, region->map_size);
    region->map = NULL;
}

void scene_destroy(struct scene *scene) {
    for (size_t i = 0; i < SCENE_REGIONS; i++)
        if (has_own_memory(&scene->regions[i]))
            release(&scene->regions[i]);
}

void scene_images(const struct scene *scene, struct images *out) {
    for (size_t i = 0; i < SCENE_REGIONS; i++) {
        const struct region *region = &scene->regions[i];
        if (region->is_present)
            images_add(out, region->name, region->ptr, region->size);
    }
}

static int lies_in(const struct region *inner, const struct region *outer) {
    return outer && ((inner->kind == ALIAS && strcmp(outer->name, "bulk") == 0) ||
                     (inner->kind == NEIGHBOUR && strcmp(outer->name, "short") == 0));
}

size_t scene_targets(const struct scene *scene, const struct region *sparse, struct scribble_target *out) {
    size_t count = 0;
    for (size_t i = 0; i < SCENE_REGIONS; i++) {
        const struct region *region = &scene->regions[i];
        if (region->is_present && region != sparse && region->size && region->kind != ALIAS && !region->is_sparse &&
            !lies_in(region, sparse))
            out[count++] = (struct scribble_target){region->ptr, region->size};
    }
    return count;
}

/* ---- changes ---- */

struct region *scene_sparse(struct scene *scene) {
    for (;;) {
        struct region *region = &scene->regions[roll_below(&scene->dice, SCENE_REGIONS)];
        if (region->usual && region->kind != ALIAS && region->kind != NEIGHBOUR)
            return region;
    }
}

static size_t new_size(struct scene *scene, const struct region *region) {
    if (region->usual == 1)
        return 1 + roll_below(&scene->dice, 3);
    return region->usual / 2 + 1 + roll_below(&scene->dice, region->usual);
}

static void resize(struct scene *scene, struct region *region) {
    size_t size = new_size(scene, region), before = region->size;
    if (region->kind == HEAP) { /* may move: told before and after */
        if (varve_unprotect(scene->session, region->name) != 0)
            fail("unprotect %s", region->name);
        region->ptr = region->map = realloc(region->map, size);
        if (!region->map)
            fail("no memory");
    }
    region->size = size;
    if (size > before && !region->is_sparse)
        fill(region->ptr + before, size - before, roll(&scene->dice));
    scene->resized++;
}

/* To another place, and the old one is unmapped as soon as the library was told. */
static void move(struct scene *scene, struct region *region) {
    struct region old = *region;
    place(scene, region);
    memcpy(region->ptr, old.ptr, region->size);
    protect_or_fail(scene, region);
    follow(scene);
    protect_or_fail(scene, find(scene, "alias"));
    protect_or_fail(scene, find(scene, "near"));
    memset(old.ptr, 0x5a, old.size);
    release(&old);
    scene->moved++;
}

/* Its memory goes as soon as the library was told. */
static void go_away(struct scene *scene, struct region *region) {
    if (region->kind == LENT) {
        varve_free(scene->session, region->ptr); /* unprotects, too */
    } else {
        if (varve_unprotect(scene->session, region->name) != 0)
            fail("unprotect %s: %s", region->name, varve_session_error(scene->session)->text);
        memset(region->ptr, 0xc3, region->size);
        release(region);
    }
    region->ptr = NULL;
    region->is_present = 0;
    scene->left++;
}

static void come_back(struct scene *scene, struct region *region) {
    region->size = new_size(scene, region);
    if (region->kind == LENT)
        region->ptr = varve_alloc(scene->session, region->name, region->size);
    else
        place(scene, region);
    if (!region->ptr)
        fail("varve_alloc %s", region->name);
    if (!region->is_sparse)
        fill(region->ptr, region->size, roll(&scene->dice));
    protect_or_fail(scene, region);
}

void scene_disturb(struct scene *scene, struct region *region) {
    unsigned what = (unsigned)roll_below(&scene->dice, 4);
    int is_host = strcmp(region->name, "bulk") == 0 || strcmp(region->name, "short") == 0; /* others lie there */
    if (!region->is_present) {
        come_back(scene, region);
    } else if (what == 0 && !is_host) {
        go_away(scene, region);
    } else if (region->kind == LENT) { /* less of it: the memory stays what it is */
        region->size = region->size / 2 + 1;
        protect_or_fail(scene, region);
    } else if (what == 1 && region->kind != HEAP) {
        move(scene, region);
    } else if (strcmp(region->name, "short") != 0) {
        resize(scene, region);
        protect_or_fail(scene, region);
        follow(scene);
        protect_or_fail(scene, find(scene, "alias"));
    }
}

void scene_hollow(struct scene *scene) {
    for (size_t i = 0; i < SCENE_REGIONS; i++) {
        struct region *region = &scene->regions[i];
        size_t pages = region->map_size / PAGE;
        if (!region->is_present || region->kind != MAPPED || pages < 16 || roll_below(&scene->dice, 2))
            continue;
        size_t first = 1 + roll_below(&scene->dice, pages - 2), count = 1 + roll_below(&scene->dice, pages / 4);
        if (region->is_sparse)
            first = 1, count = pages;
        if (count > pages - 1 - first)
            count = pages - 1 - first;
        madvise(region->map + first * PAGE, count * PAGE, MADV_DONTNEED);
        scene->hollowed++;
    }
}

void scene_write(struct scene *scene, unsigned one_in, uint64_t seed) {
    for (size_t i = 0; i < SCENE_REGIONS; i++) {
        struct region *region = &scene->regions[i];
        struct scribble_target target = {region->ptr, region->size};
        if (region->is_present && region->size && (!region->is_sparse || one_in > 10))
            scribble_once(&target, one_in, seed + i);
    }
}
