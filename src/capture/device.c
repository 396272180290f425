/* A region in the memory of a device (varve_device.h). To everything but a save it is a region behind callbacks.
 *
 * What a device remembers must be the checkpoint that our history is of: it is *in step* then. If that is not sure
 * it is asked for everything. A checkpoint may end in the background, so the device is told how it ended when the
 * program calls next. */
#include "capture/device.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define CHUNK_USUAL 128u

static int device_length(void *arg, uint64_t *bytes_out) {
    const struct vv_device *device = arg;
    *bytes_out = device->bytes;
    return 0;
}

static int device_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    (void)arg, (void)offset, (void)buffer, (void)size;
    return -ENOTSUP; /* a save asks the device itself */
}

static int device_load(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct vv_device *device = arg;
    device->is_in_step = 0;
    return total == device->bytes ? device->ops.write(device->arg, offset, data, size) : -EINVAL;
}

const struct varve_callbacks vv_device_callbacks = {
    .size = sizeof vv_device_callbacks, .length = device_length, .save = device_save, .load = device_load};

struct vv_device *vv_device_create(const char *name, uint64_t bytes, uint32_t chunk, const struct varve_device_ops *ops,
                                   void *arg) {
    struct vv_device *device = vv_calloc(1, sizeof *device);
    if (!device)
        return NULL;
    *device = (struct vv_device){.ops = *ops, .arg = arg, .bytes = bytes, .chunk = chunk};
    strncpy(device->name, name, sizeof device->name - 1);
    return device;
}

void vv_device_leave(struct vv_region *region) {
    struct vv_device *device = region->device;
    region->device = NULL;
    if (!device)
        return;
    device->ops.leave(device->arg);
    vv_free(device);
}

uint32_t vv_device_chunk(const struct vv_region *region, uint32_t usual) {
    uint32_t chunk = region->fine ? region->fine : region->device->chunk ? region->device->chunk : usual;
    return chunk > 1 ? chunk : CHUNK_USUAL;
}

/* ---- in step ---- */

void vv_devices_settle(struct vv_regions *regions, int is_committed) {
    for (size_t i = 0; i < regions->count; i++) {
        struct vv_device *device = regions->list[i].device;
        if (!device || !device->is_asked)
            continue;
        device->is_asked = 0;
        int rc = device->ops.settle(device->arg, is_committed);
        if (is_committed)
            device->is_in_step = rc == 0;
        else if (rc)
            device->is_in_step = 0;
    }
}

void vv_devices_lose_step(struct vv_regions *regions, int is_committed) {
    vv_devices_settle(regions, is_committed); /* or a later word about it would put them into step again */
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].device)
            regions->list[i].device->is_in_step = 0;
}
