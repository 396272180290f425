/* A region in the memory of a device (varve_device.h). */
#ifndef VV_DEVICE_H
#define VV_DEVICE_H

#include <varve/varve_device.h>

#include "memory/regions.h"

struct vv_device {
    struct varve_device_ops ops;
    void *arg;
    uint64_t bytes;
    uint32_t chunk; /* 0: as the setting says */
    int is_in_step;
    int is_asked; /* and was not told yet how it ended */
    char name[256];
};

/* How the rest of the library sees it; their arg is the device. */
extern const struct varve_callbacks vv_device_callbacks;
/* NULL: no memory. vv_free it unless a region has it. */
struct vv_device *vv_device_create(const char *name, uint64_t bytes, uint32_t chunk, const struct varve_device_ops *ops,
                                   void *arg);
void vv_device_leave(struct vv_region *region); /* if it is one */
/* Bytes of its chunks; usual: as the setting says. */
uint32_t vv_device_chunk(const struct vv_region *region, uint32_t usual);
/* Devices are told whether the last attempt was committed. In the thread of the program; nothing is in flight. */
void vv_devices_settle(struct vv_regions *regions, int is_committed);
/* Our history is not what they remember. */
void vv_devices_lose_step(struct vv_regions *regions, int is_committed);

#endif
