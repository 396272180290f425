/* What the program protects. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "capture/device.h"
#include "format/attributes.h"
#include "session/session_private.h"

/* The region's memory is the program's again. */
static void let_go(struct vv_session *session, struct vv_region *region) {
    vv_device_leave(region);
    vv_unwatch_region(&session->memory, region, session->background.is_flying);
}

/* What a checkpoint in flight says about the region does not change: its history holds the old description. */
static void describe(struct vv_region *region, struct vv_array *array) {
    vv_array_drop(region->array);
    region->array = array;
}

/* Its memory is here from now on. What is where it was keeps its watch. */
static void place(struct vv_session *session, struct vv_region *region, void *ptr, uint64_t size, unsigned flags) {
    if (region->watch && !region->is_callback && region->ptr == ptr && region->size == size && region->flags == flags)
        return;
    let_go(session, region);
    region->is_callback = 0;
    region->ptr = ptr;
    region->size = size;
    region->flags = flags;
    if (session->background.is_flying)
        return;
    vv_background_lock(session);
    vv_watch_region(&session->memory, region); /* if there is no memory for it now, the next checkpoint tries again */
    vv_background_sample(session);
    vv_background_unlock(session);
}

int vv_session_protect(struct vv_session *session, const char *name, void *ptr, uint64_t size, unsigned flags) {
    struct vv_region *region = vv_regions_add(&session->memory.regions, name);
    if (!region)
        return -ENOMEM;
    describe(region, NULL);
    if (region->ask)
        let_go(session, region); /* it may be held from now on */
    region->ask = NULL;
    place(session, region, ptr, size, flags);
    return 0;
}

/* ---- regions that move ---- */

int vv_session_protect_moving(struct vv_session *session, const char *name, varve_memory_fn fn, void *arg) {
    struct vv_region *region = vv_regions_add(&session->memory.regions, name);
    if (!region)
        return -ENOMEM;
    let_go(session, region);
    describe(region, NULL);
    region->is_callback = 0;
    region->ptr = NULL;
    region->size = 0;
    region->flags = 0;
    region->ask = fn;
    region->arg = arg;
    return 0;
}

/* Is what the program says possible? Its bytes, if an array tells them. */
static int check_memory(const char *name, struct varve_memory *memory, struct varve_error *error) {
    struct varve_array *array = &memory->array;
    if (array->dims > 0) {
        int rc = vv_array_check(array, name, error);
        if (rc)
            return rc;
        uint64_t bytes = vv_array_bytes(array);
        if (memory->bytes != 0 && memory->bytes != bytes)
            return vv_error(error, -EINVAL, "region %s: its array has %llu bytes, but %zu are said", name,
                            (unsigned long long)bytes, memory->bytes);
        memory->bytes = (size_t)bytes;
    }
    if (!memory->ptr && memory->bytes > 0)
        return vv_error(error, -EINVAL, "region %s: no memory was given", name);
    return vv_region_flags_check(name, array->flags, error);
}

static int ask_region(struct vv_session *session, struct vv_region *region, struct varve_error *error) {
    struct varve_memory memory = {.size = sizeof memory, .array = {.size = sizeof memory.array}};
    int rc = region->ask(region->arg, &memory);
    if (rc)
        return vv_error(error, rc < 0 ? rc : -EIO,
                        "region %s: the program's function that tells where it is failed, with %d; nothing was begun",
                        region->name, rc);
    rc = check_memory(region->name, &memory, error);
    if (rc)
        return rc;
    if (memory.array.dims > 0) { /* otherwise what varve_describe has said holds */
        struct vv_array *made = vv_array_make(&memory.array);
        if (!made)
            return vv_error(error, -ENOMEM, "no memory to describe region %s", region->name);
        describe(region, made);
    }
    place(session, region, memory.ptr, memory.bytes, memory.array.flags);
    return 0;
}

/* ---- allocations without a name ---- */

static int tell_block(void *arg, struct varve_memory *out) {
    const struct vv_heap_block *block = arg;
    out->ptr = block->ptr;
    out->bytes = block->size;
    return 0;
}

/* What has gone or moved is let go of before anything is protected: its place may be another's now. */
static void leave_places(struct vv_session *session, const struct vv_heap *now) {
    struct vv_regions *regions = &session->memory.regions;
    for (size_t i = 0; i < regions->count; i++) {
        struct vv_region *region = &regions->list[i];
        if (!region->name || region->ask != tell_block)
            continue;
        const struct vv_heap_block *block = vv_heap_find(now, region->name);
        if (block && block->ptr == region->ptr && block->size == region->size)
            continue;
        let_go(session, region);
        if (!block)
            vv_regions_remove(regions, region);
    }
}

/* Those that are live now and have no name are protected, and no others. */
static int protect_blocks(struct vv_session *session, struct varve_error *error) {
    struct vv_heap *heap = &session->about.heap, now = {.each = heap->each};
    int rc = heap->each ? vv_heap_take(heap, &session->memory.regions, &now, error) : 0;
    if (rc || !heap->each)
        return rc;
    leave_places(session, &now);
    vv_heap_replace(heap, &now);
    for (size_t i = 0; i < heap->count && rc == 0; i++) {
        struct vv_region *region = vv_regions_find(&session->memory.regions, heap->list[i].name);
        if (region)
            region->arg = &heap->list[i];
        else
            rc = vv_session_protect_moving(session, heap->list[i].name, tell_block, &heap->list[i]);
        region = heap->fixed ? vv_regions_find(&session->memory.regions, heap->list[i].name) : NULL;
        if (region && strcmp(region->name, VV_HEAP_ARENA) == 0)
            region->resize = vv_fixed_resize;
    }
    if (rc == 0 && !vv_regions_find(&session->memory.regions, VV_HEAP_ADDRESSES))
        rc = vv_session_protect_moving(session, VV_HEAP_ADDRESSES, vv_heap_tell_ranges, heap->ranges);
    if (rc == 0 && !vv_regions_find(&session->memory.regions, VV_HEAP_POINTERS))
        rc = vv_session_protect_moving(session, VV_HEAP_POINTERS, vv_heap_tell_pointers, heap->pointers);
    return rc ? vv_error(error, rc, "no memory to protect the program's allocations") : 0;
}

void vv_tell_protected(struct vv_session *session) {
    const struct vv_regions *regions = &session->memory.regions;
    const struct vv_heap *heap = &session->about.heap;
    size_t named = 0, bytes = 0;
    if (session->about.is_told || !vv_comm_is_root(session->job.comm))
        return;
    for (size_t i = 0; i < regions->count; i++)
        named += regions->list[i].name && !vv_is_ours(regions->list[i].name);
    for (size_t i = 0; i < heap->count; i++)
        bytes += heap->list[i].size;
    if (heap->fixed)
        vv_log_note(&session->job.log,
                    "address-true mode (experimental): heap and static variables are protected here");
    else if (heap->count > 0)
        vv_log_note(&session->job.log,
                    "%zu allocations without names are protected here, %zu bytes; those below VARVE_PRELOAD_LEAST (64K "
                    "unless set) are not",
                    heap->count, bytes);
    else if (named == 0 && session->job.comm->ranks == 1)
        vv_log(
            &session->job.log, VV_LOG_WARN,
            "nothing is protected: a checkpoint holds no memory of the program (varve_protect; or start it by `varve "
            "run`, with arrays of VARVE_PRELOAD_LEAST at least)");
    session->about.is_told = 1;
}

static int ask_those(struct vv_session *session, int is_heap, struct varve_error *error) {
    int rc = 0;
    for (size_t i = 0; i < session->memory.regions.count && rc == 0; i++) {
        struct vv_region *region = &session->memory.regions.list[i];
        if (region->name && region->ask && vv_is_heap(region->name) == is_heap)
            rc = ask_region(session, region, error);
    }
    return rc;
}

/* Where the named ones are decides which allocations have no name. */
int vv_ask_regions(struct vv_session *session, struct varve_error *error) {
    int rc = ask_those(session, 0, error);
    if (rc == 0)
        rc = protect_blocks(session, error);
    return rc ? rc : ask_those(session, 1, error);
}

int vv_session_protect_callback(struct vv_session *session, const char *name, const struct varve_callbacks *callbacks,
                                void *arg) {
    struct vv_region *region = vv_regions_add(&session->memory.regions, name);
    if (!region)
        return -ENOMEM;
    let_go(session, region);
    describe(region, NULL);
    region->is_callback = 1;
    region->ask = NULL;
    region->ptr = NULL;
    region->flags = 0;
    region->callbacks = *callbacks;
    region->arg = arg;
    return 0;
}

int vv_session_protect_device(struct vv_session *session, const char *name, uint64_t bytes, uint32_t chunk,
                              const struct varve_device_ops *ops, void *arg) {
    struct vv_device *device = vv_device_create(name, bytes, chunk, ops, arg);
    int rc = device ? vv_session_protect_callback(session, name, &vv_device_callbacks, device) : -ENOMEM;
    if (rc) {
        vv_free(device);
        return rc;
    }
    struct vv_region *region = vv_regions_find(&session->memory.regions, name);
    region->device = device;
    region->size = bytes;
    return 0;
}

int vv_session_describe(struct vv_session *session, const char *name, const struct varve_array *array) {
    struct vv_region *region = vv_regions_find(&session->memory.regions, name);
    if (!region)
        return -ENOENT;
    if (region->device && array && array->lossy)
        return -ENOTSUP; /* nobody would round it */
    struct vv_array *made = array ? vv_array_make(array) : NULL;
    if (array && !made)
        return -ENOMEM;
    describe(region, made);
    return 0;
}

int vv_session_fine(struct vv_session *session, const char *name, uint32_t chunk) {
    struct vv_region *region = vv_regions_find(&session->memory.regions, name);
    if (!region)
        return -ENOENT;
    if (region->device && chunk == 1)
        return -ENOTSUP; /* a device always looks finely */
    region->fine = chunk;
    return 0;
}

int vv_session_distribute(struct vv_session *session, const char *name, enum varve_distribution how) {
    struct vv_region *region = vv_regions_find(&session->memory.regions, name);
    if (!region)
        return -ENOENT;
    region->distribution = (uint8_t)how;
    return 0;
}

/* ---- the index of arrays ---- */

static int tell_index(void *arg, struct varve_memory *out) {
    struct vv_buf *index = arg;
    out->ptr = index->data;
    out->bytes = index->size;
    return 0;
}

int vv_keep_index(struct vv_session *session, struct vv_buf *made, struct varve_error *error) {
    struct vv_buf *index = &session->about.index;
    vv_buf_clear(index);
    *index = *made;
    vv_buf_init(made);
    if (index->size == 0) {
        (void)vv_session_unprotect(session, VV_INDEX); /* perhaps there was none */
        return 0;
    }
    int rc = vv_session_protect_moving(session, VV_INDEX, tell_index, index);
    if (rc == 0)
        rc = vv_session_distribute(session, VV_INDEX, VARVE_DROPPED);
    if (rc)
        return vv_error(error, rc, "no memory for the index of arrays");
    return ask_region(session, vv_regions_find(&session->memory.regions, VV_INDEX), error);
}

int vv_session_unprotect(struct vv_session *session, const char *name) {
    struct vv_region *region = vv_regions_find(&session->memory.regions, name);
    if (!region)
        return -ENOENT;
    let_go(session, region);
    vv_regions_remove(&session->memory.regions, region);
    return 0;
}

void vv_session_free(struct vv_session *session, void *ptr) {
    for (size_t i = 0; i < session->memory.regions.count; i++) {
        struct vv_region *region = &session->memory.regions.list[i];
        if (region->name && !region->is_callback && region->ptr == ptr)
            let_go(session, region);
    }
    vv_regions_unmap(&session->memory.regions, ptr);
}
