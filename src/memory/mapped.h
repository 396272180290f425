/* Is memory there, and may it be read, or written? Asked for in ascending order, so that one walk over the mappings
 * answers for a million regions. */
#ifndef VV_MAPPED_H
#define VV_MAPPED_H

#include "memory/pagemap.h"

struct vv_mapped {
    struct vv_maps maps;
    uint64_t end; /* up to here there is no gap since the start of what was asked for last */
    int is_for_writing;
};

/* 0 or -errno. */
int vv_mapped_open(struct vv_mapped *mapped, int is_for_writing);
void vv_mapped_close(struct vv_mapped *mapped);
/* 1 if all of it is there, 0 if not, or -errno. No address may be below that of the call before; after a 0 nothing more
 * is asked. */
int vv_mapped_has(struct vv_mapped *mapped, const void *ptr, uint64_t size);

#endif
