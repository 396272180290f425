/* Regions and the capture's watches over them. A region gets its watch when it is protected, or, while a checkpoint is in flight, when the
 * next one begins. Memory that the program takes back is let go of first. */
#include <errno.h>

#include "base/alloc.h"
#include "base/array.h"
#include "engine/engine_private.h"

/* With the lock; nothing is in flight. */
static int watch_region(struct vv_session *session, struct vv_region *region) {
    if (region->watch || region->is_callback || !region->name)
        return 0;
    region->watch = vv_capture_watch(session->capture, region->name, region->ptr, region->size, region->flags);
    if (region->watch)
        region->watch->is_doubted = region->is_doubted;
    return region->watch ? 0 : -ENOMEM;
}

static void unwatch_left(struct vv_session *session) {
    while (session->left) {
        struct vv_watch *watch = session->left;
        session->left = watch->next_left;
        vv_capture_unwatch(session->capture, watch);
    }
}

int vv_watch_regions(struct vv_session *session) {
    int rc = 0;
    vv_flight_lock(session);
    unwatch_left(session);
    for (size_t i = 0; i < session->regions.count && rc == 0; i++)
        rc = watch_region(session, &session->regions.list[i]);
    vv_flight_unlock(session);
    return rc;
}

void vv_unwatch_regions(struct vv_session *session) {
    vv_flight_lock(session);
    unwatch_left(session);
    for (size_t i = 0; i < session->regions.count; i++) {
        if (session->regions.list[i].watch)
            vv_capture_unwatch(session->capture, session->regions.list[i].watch);
        session->regions.list[i].watch = NULL;
    }
    vv_flight_unlock(session);
}

/* The region's memory is the program's again. Copies of it may still be on their way, so the watch stays until they have landed. */
static void let_go(struct vv_session *session, struct vv_region *region) {
    struct vv_watch *watch = region->watch;
    vv_device_leave(region);
    region->watch = NULL;
    if (!watch)
        return;
    if (session->is_flying) { /* without the lock: the thread that has to take the pieces may need it to begin */
        vv_capture_leave(session->capture, watch);
        watch->next_left = session->left;
        session->left = watch;
        return;
    }
    vv_flight_lock(session);
    vv_capture_unwatch(session->capture, watch);
    vv_flight_unlock(session);
}

/* What a checkpoint in flight says about the region does not change: its history holds the old description. */
static void describe(struct vv_region *region, struct vv_array *array) {
    vv_array_drop(region->array);
    region->array = array;
}

int vv_session_protect(struct vv_session *session, const char *name, void *ptr, uint64_t size, unsigned flags) {
    struct vv_region *region = vv_regions_add(&session->regions, name);
    if (!region)
        return -ENOMEM;
    describe(region, NULL);
    if (region->watch && !region->is_callback && region->ptr == ptr && region->size == size && region->flags == flags)
        return 0;
    let_go(session, region);
    region->is_callback = 0;
    region->ptr = ptr;
    region->size = size;
    region->flags = flags;
    if (session->is_flying)
        return 0;
    vv_flight_lock(session);
    watch_region(session, region); /* if there is no memory for it now, the next checkpoint tries again */
    vv_flight_sample(session);
    vv_flight_unlock(session);
    return 0;
}

int vv_session_protect_callback(struct vv_session *session, const char *name, const struct varve_callbacks *callbacks,
                                void *arg) {
    struct vv_region *region = vv_regions_add(&session->regions, name);
    if (!region)
        return -ENOMEM;
    let_go(session, region);
    describe(region, NULL);
    region->is_callback = 1;
    region->ptr = NULL;
    region->flags = 0;
    region->callbacks = *callbacks;
    region->arg = arg;
    return 0;
}

int vv_session_describe(struct vv_session *session, const char *name, const struct varve_array *array) {
    struct vv_region *region = vv_regions_find(&session->regions, name);
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
    struct vv_region *region = vv_regions_find(&session->regions, name);
    if (!region)
        return -ENOENT;
    if (region->device && chunk == 1)
        return -ENOTSUP; /* a device always looks finely */
    region->fine = chunk;
    return 0;
}

int vv_session_unprotect(struct vv_session *session, const char *name) {
    struct vv_region *region = vv_regions_find(&session->regions, name);
    if (!region)
        return -ENOENT;
    let_go(session, region);
    vv_regions_remove(&session->regions, region);
    return 0;
}

void vv_session_free(struct vv_session *session, void *ptr) {
    for (size_t i = 0; i < session->regions.count; i++) {
        struct vv_region *region = &session->regions.list[i];
        if (region->name && !region->is_callback && region->ptr == ptr)
            let_go(session, region);
    }
    vv_regions_unmap(&session->regions, ptr);
}
