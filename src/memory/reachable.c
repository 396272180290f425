/* Before a restart writes into the program's memory: is that still there, and may it be written? */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "memory/mapped.h"
#include "memory/regions.h"

static int by_address(const void *a, const void *b) {
    const struct vv_region *x = *(const struct vv_region *const *)a, *y = *(const struct vv_region *const *)b;
    return x->ptr < y->ptr ? -1 : x->ptr > y->ptr;
}

static int check(const struct vv_region **list, size_t count, struct varve_error *error) {
    struct vv_mapped mapped;
    int rc = 1;
    if (vv_mapped_open(&mapped, 1) != 0)
        return 0; /* no /proc: nobody can tell */
    for (size_t i = 0; i < count && rc == 1; i++) {
        rc = vv_mapped_has(&mapped, list[i]->ptr, list[i]->size);
        if (rc == 0)
            vv_error(error, -EFAULT,
                     "region %s: its memory is not mapped, or some of it may not be written; nothing was restored."
                     " Protect memory that is there, or unprotect the region",
                     list[i]->name);
    }
    vv_mapped_close(&mapped);
    return rc == 0 ? -EFAULT : 0;
}

int vv_regions_reachable(const struct vv_regions *regions, int (*is_wanted)(const void *arg, size_t slot),
                         const void *arg, struct varve_error *error) {
    const struct vv_region **list = vv_calloc(regions->count + 1, sizeof(const struct vv_region *));
    size_t count = 0;
    if (!list)
        return vv_error(error, -ENOMEM, "no memory to look at the regions");
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].name && !regions->list[i].is_callback && is_wanted(arg, i))
            list[count++] = &regions->list[i];
    qsort(list, count, sizeof(const struct vv_region *), by_address);
    int rc = check(list, count, error);
    vv_free(list);
    return rc;
}
