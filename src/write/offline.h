/* Blocks of a tool that writes checkpoints without a session: how the data is described, and how it is encoded. Time
 * does not count there, so codec=auto means the smallest. */
#ifndef VV_OFFLINE_H
#define VV_OFFLINE_H

#include "base/settings.h"
#include "format/manifest.h"
#include "write/blocks.h"

struct vv_match;

/* What is kept from one pack to the next. Begins as zeros. */
struct vv_offline {
    const struct vv_settings *settings;
    struct vv_pool *pool; /* encodes */
    struct vv_chooser *chooser;
    struct vv_known_order *orders;
    struct vv_match *match;
};
/* 0, or an error; clear it in every case. settings must live as long. */
int vv_offline_init(struct vv_offline *offline, const struct vv_settings *settings, struct varve_error *error);
void vv_offline_clear(struct vv_offline *offline);

/* What is known of a region's values, as a session tells it (save/variable.c). */
void vv_offline_variable(const struct vv_offline *offline, uint32_t owner, const char *name, uint64_t number,
                         uint64_t length, const struct vv_region_shape *shape, struct vv_variable *out);
/* The blocks of this pack, with data of so many ranks. */
int vv_offline_blocks(struct vv_offline *offline, struct vv_pack_writer *pack, uint32_t ranks, struct vv_blocks **out);

#endif
