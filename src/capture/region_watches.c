/* Regions and the watches of the capture over them. A region gets its watch when it is protected, or, while a
 * checkpoint is in flight, when the next one begins. Memory that the program takes back is let go of first. */
#include <errno.h>

#include "capture/protected.h"

int vv_watch_region(struct vv_protected *memory, struct vv_region *region) {
    if (region->watch || region->is_callback || !region->name)
        return 0;
    region->watch = vv_capture_watch(memory->capture, region->name, region->ptr, region->size, region->flags);
    if (region->watch)
        region->watch->is_doubted = region->is_doubted;
    if (region->watch && region->ask)
        region->watch->was_lost = 1; /* it may go at any time after the call: never held */
    return region->watch ? 0 : -ENOMEM;
}

static void unwatch_left(struct vv_protected *memory) {
    while (memory->left) {
        struct vv_watch *watch = memory->left;
        memory->left = watch->next_left;
        vv_capture_unwatch(memory->capture, watch);
    }
}

int vv_watch_regions(struct vv_protected *memory) {
    int rc = 0;
    pthread_mutex_lock(memory->lock);
    unwatch_left(memory);
    for (size_t i = 0; i < memory->regions.count && rc == 0; i++)
        rc = vv_watch_region(memory, &memory->regions.list[i]);
    pthread_mutex_unlock(memory->lock);
    return rc;
}

void vv_unwatch_regions(struct vv_protected *memory) {
    pthread_mutex_lock(memory->lock);
    unwatch_left(memory);
    for (size_t i = 0; i < memory->regions.count; i++) {
        if (memory->regions.list[i].watch)
            vv_capture_unwatch(memory->capture, memory->regions.list[i].watch);
        memory->regions.list[i].watch = NULL;
    }
    pthread_mutex_unlock(memory->lock);
}

/* Copies of it may still be on their way, so the watch stays until they have landed. */
void vv_unwatch_region(struct vv_protected *memory, struct vv_region *region, int is_in_flight) {
    struct vv_watch *watch = region->watch;
    region->watch = NULL;
    if (!watch)
        return;
    if (is_in_flight) { /* without the lock: the thread that has to take the pieces may need it to begin */
        vv_capture_leave(memory->capture, watch);
        watch->next_left = memory->left;
        memory->left = watch;
        return;
    }
    pthread_mutex_lock(memory->lock);
    vv_capture_unwatch(memory->capture, watch);
    pthread_mutex_unlock(memory->lock);
}
