/* A region in an OpenCL buffer: what is needed for it, and what Varve asks of it (varve_device.h). Every call of
 * OpenCL that Varve makes is in this folder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl_private.h"

static void leave(void *arg) {
    vv_cl_region_destroy(arg);
}

static const char *why(void *arg) {
    return ((const struct cl_region *)arg)->why;
}

const struct varve_device_ops vv_cl_ops = {
    .size = sizeof(struct varve_device_ops),
    .name = "opencl",
    .compare = vv_cl_compare,
    .settle = vv_cl_settle,
    .write = vv_cl_write,
    .restored = vv_cl_restored,
    .leave = leave,
    .why = why,
};

/* ---- what the device must have ---- */

static int refuse_device(int code, const char *text, char *why, size_t why_size) {
    snprintf(why, why_size, "%s", text);
    return code;
}

/* "OpenCL 1.2 ..." */
static int is_new_enough(const char *version) {
    int major = 0, minor = 0;
    return sscanf(version, "OpenCL %d.%d", &major, &minor) == 2 && (major > 1 || (major == 1 && minor >= 2));
}

static int check_device(cl_device_id device, char *why, size_t why_size) {
    cl_bool is_little = CL_FALSE, has_compiler = CL_FALSE;
    char version[128] = "";
    cl_int code = clGetDeviceInfo(device, CL_DEVICE_ENDIAN_LITTLE, sizeof is_little, &is_little, NULL);
    if (code == CL_SUCCESS)
        code = clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof has_compiler, &has_compiler, NULL);
    if (code == CL_SUCCESS)
        code = clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
    if (code != CL_SUCCESS)
        return vv_cl_code(code, "clGetDeviceInfo", why, why_size);
    if (!is_new_enough(version))
        return refuse_device(-ENODEV, "the device has no OpenCL 1.2", why, why_size);
    if (!is_little)
        return refuse_device(-ENODEV, "the device is not little-endian", why, why_size);
    return has_compiler ? 0 : refuse_device(-ENODEV, "the device has no compiler for OpenCL C", why, why_size);
}

static int check_buffer(struct cl_region *region, cl_context context, char *why, size_t why_size) {
    cl_mem_flags flags = 0;
    cl_context own = NULL;
    size_t size = 0;
    cl_int code = clGetMemObjectInfo(region->buffer, CL_MEM_SIZE, sizeof size, &size, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(region->buffer, CL_MEM_FLAGS, sizeof flags, &flags, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(region->buffer, CL_MEM_CONTEXT, sizeof own, &own, NULL);
    if (code != CL_SUCCESS)
        return vv_cl_code(code, "clGetMemObjectInfo", why, why_size);
    if (own != context)
        return refuse_device(-EINVAL, "queue and buffer are of different contexts", why, why_size);
    if (region->base > size || region->bytes > size - region->base)
        return refuse_device(-EINVAL, "the buffer is smaller than what is to be protected", why, why_size);
    if (flags & CL_MEM_WRITE_ONLY)
        return refuse_device(-EINVAL, "kernels may not read the buffer (CL_MEM_WRITE_ONLY)", why, why_size);
    region->is_closed_to_host = (flags & (CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY)) != 0;
    return 0;
}

/* ---- coming and going ---- */

/* Steps must follow each other. Where the program's queue does not keep the order, they get one of their own. */
static int take_queue(struct cl_region *region, cl_context context, cl_device_id device, char *why, size_t why_size) {
    cl_command_queue_properties properties = 0;
    cl_int code = clGetCommandQueueInfo(region->given, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (code != CL_SUCCESS)
        return vv_cl_code(code, "clGetCommandQueueInfo", why, why_size);
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) {
        region->queue = clCreateCommandQueue(context, device, 0, &code);
        return vv_cl_code(code, "clCreateCommandQueue", why, why_size);
    }
    code = clRetainCommandQueue(region->given);
    if (code == CL_SUCCESS)
        region->queue = region->given;
    return vv_cl_code(code, "clRetainCommandQueue", why, why_size);
}

static int retain(struct cl_region *region, cl_command_queue queue, cl_mem buffer, char *why, size_t why_size) {
    cl_int code = clRetainCommandQueue(queue);
    if (code != CL_SUCCESS)
        return vv_cl_code(code, "clRetainCommandQueue", why, why_size);
    region->given = queue;
    code = clRetainMemObject(buffer);
    if (code != CL_SUCCESS)
        return vv_cl_code(code, "clRetainMemObject", why, why_size);
    region->buffer = buffer;
    return 0;
}

static int fill_region(struct cl_region *region, char *why, size_t why_size) {
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_int code = clGetCommandQueueInfo(region->given, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(region->given, CL_QUEUE_DEVICE, sizeof(cl_device_id), &device, NULL);
    if (code != CL_SUCCESS)
        return vv_cl_code(code, "clGetCommandQueueInfo", why, why_size);
    int rc = check_buffer(region, context, why, why_size);
    if (rc == 0)
        rc = check_device(device, why, why_size);
    if (rc == 0)
        rc = take_queue(region, context, device, why, why_size);
    return rc ? rc : vv_cl_share(context, device, &region->shared, why, why_size);
}

int vv_cl_region_create(cl_command_queue queue, cl_mem buffer, uint64_t offset, uint64_t bytes, struct cl_region **out,
                        char *why, size_t why_size) {
    if (!queue || !buffer || bytes == 0)
        return refuse_device(-EINVAL, "a queue, a buffer and a size are needed", why, why_size);
    if (offset % 64 != 0)
        return refuse_device(-EINVAL, "the offset in the buffer is not a multiple of 64", why, why_size);
    if (bytes > (UINT64_C(1) << 43))
        return refuse_device(-EINVAL, "a region of a device has 8 TiB at the most", why, why_size);
    struct cl_region *region = calloc(1, sizeof *region);
    if (!region)
        return refuse_device(-ENOMEM, "no memory", why, why_size);
    region->base = offset;
    region->bytes = bytes;
    int rc = retain(region, queue, buffer, why, why_size);
    if (rc == 0)
        rc = fill_region(region, why, why_size);
    if (rc)
        vv_cl_region_destroy(region);
    else
        *out = region;
    return rc;
}

void vv_cl_region_destroy(struct cl_region *region) {
    if (!region)
        return;
    vv_cl_forget(region);
    (void)vv_cl_unmap(region);
    vv_cl_drop(&region->out.memory);
    vv_cl_unshare(region->shared);
    if (region->queue)
        clReleaseCommandQueue(region->queue);
    if (region->buffer)
        clReleaseMemObject(region->buffer);
    if (region->given)
        clReleaseCommandQueue(region->given);
    free(region);
}
