/* Would a child process have this memory as it is now, and keep it when ours changes? Not where it is shared, where
 * pages that were not written yet come from a file, which may change, where the program has asked for something else
 * (MADV_DONTFORK, MADV_WIPEONFORK), where somebody fills pages in when they are first touched (a userfaultfd of the
 * program's), and not memory of devices or huge pages of a pool.
 *
 * Asked for in ascending order. Only the long list of mappings tells it, which walks the page tables: about as long as
 * making the child takes. */
#ifndef VV_INHERITED_H
#define VV_INHERITED_H

#include <stdint.h>
#include <stdio.h>

struct vv_inherited {
    FILE *text;
    uint64_t start, end; /* the mapping that was read last */
    int is_good;
    int has_pool; /* one that was read has private huge pages of a pool */
};

/* 0 or -errno. */
int vv_inherited_open(struct vv_inherited *inherited);
void vv_inherited_close(struct vv_inherited *inherited);
/* 1 if all of it is such memory, 0 if not. No address may be below that of the call before. */
int vv_inherited_has(struct vv_inherited *inherited, const void *ptr, uint64_t size);
/* Reads on to the end. 1 if the process has private huge pages of a pool anywhere: when it writes one that a child has,
 * too, and the pool is empty, one of them loses it. */
int vv_inherited_has_pool(struct vv_inherited *inherited);

#endif
