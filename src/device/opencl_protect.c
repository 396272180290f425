/* varve_protect_cl: the one function that programs call. */
#include <errno.h>
#include <stdio.h>
#include <varve/varve_cl.h>

#include "opencl_private.h"

int varve_protect_cl(struct varve_session *session, const char *region, cl_command_queue queue, cl_mem buffer,
                     uint64_t offset, uint64_t bytes, uint32_t chunk) {
    struct cl_region *own;
    char why[256] = "", text[640];
    if (!session)
        return -EINVAL;
    int rc = vv_cl_region_create(queue, buffer, offset, bytes, &own, why, sizeof why);
    if (rc) {
        snprintf(text, sizeof text, "region %.255s, %llu bytes from offset %llu: %s", region ? region : "?",
                 (unsigned long long)bytes, (unsigned long long)offset, why);
        return varve_device_error(session, rc, text);
    }
    rc = varve_protect_device(session, region, bytes, chunk, &vv_cl_ops, own);
    if (rc)
        vv_cl_region_destroy(own);
    return rc;
}
