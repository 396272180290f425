/* Queue kernels, and move bytes between host and device. */
#include <string.h>

#include "opencl_private.h"

#define SCAN_BLOCK 256u /* as in part.cl */

int vv_cl_run(struct cl_region *region, enum cl_kernel_name name, size_t items, const struct cl_arg *args,
              size_t count) {
    struct cl_shared *shared = region->shared;
    size_t group = shared->group[name], global = (items + group - 1) / group * group;
    if (items == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        cl_int code = clSetKernelArg(shared->kernels[name], (cl_uint)i, args[i].size, args[i].value);
        if (code != CL_SUCCESS)
            return TOLD(region, code, "clSetKernelArg");
    }
    return TOLD(region,
                clEnqueueNDRangeKernel(region->queue, shared->kernels[name], 1, NULL, &global, &group, 0, NULL, NULL),
                "clEnqueueNDRangeKernel");
}

int vv_cl_make(struct cl_region *region, uint64_t size, cl_mem *out) {
    cl_int code = CL_INVALID_BUFFER_SIZE;
    cl_mem memory = NULL;
    if (size <= SIZE_MAX)
        memory = clCreateBuffer(region->shared->context, CL_MEM_READ_WRITE, size ? (size_t)size : 1, NULL, &code);
    if (code == CL_SUCCESS)
        *out = memory;
    return TOLD(region, code, "clCreateBuffer");
}

void vv_cl_drop(cl_mem *memory) {
    if (*memory)
        clReleaseMemObject(*memory);
    *memory = NULL;
}

int vv_cl_enlarge(struct cl_region *region, struct cl_space *space, uint64_t size) {
    if (space->memory && space->size >= size)
        return 0;
    /* A little more than asked for: the next part may be a little larger. */
    uint64_t wish = size + size / 8 + 64;
    vv_cl_drop(&space->memory);
    space->size = 0;
    int rc = vv_cl_make(region, wish, &space->memory);
    if (rc == 0)
        space->size = (size_t)wish;
    return rc;
}

int vv_cl_space(struct cl_region *region, enum cl_space_name name, uint64_t size) {
    return vv_cl_enlarge(region, &region->shared->spaces[name], size);
}

int vv_cl_fill(struct cl_region *region, cl_mem memory, uint32_t word, uint64_t size) {
    return TOLD(region, clEnqueueFillBuffer(region->queue, memory, &word, sizeof word, 0, (size_t)size, 0, NULL, NULL),
                "clEnqueueFillBuffer");
}

int vv_cl_copy(struct cl_region *region, cl_mem from, cl_mem to, uint64_t size) {
    if (size == 0)
        return 0;
    return TOLD(region, clEnqueueCopyBuffer(region->queue, from, to, 0, 0, (size_t)size, 0, NULL, NULL),
                "clEnqueueCopyBuffer");
}

int vv_cl_send(struct cl_region *region, cl_mem to, const void *data, uint64_t size) {
    if (size == 0)
        return 0;
    return TOLD(region, clEnqueueWriteBuffer(region->queue, to, CL_TRUE, 0, (size_t)size, data, 0, NULL, NULL),
                "clEnqueueWriteBuffer");
}

int vv_cl_fetch(struct cl_region *region, cl_mem from, uint64_t offset, uint64_t size, void *out) {
    if (size == 0)
        return 0;
    return TOLD(region,
                clEnqueueReadBuffer(region->queue, from, CL_TRUE, (size_t)offset, (size_t)size, out, 0, NULL, NULL),
                "clEnqueueReadBuffer");
}

int vv_cl_unmap(struct cl_region *region) {
    uint8_t *answer = region->answer;
    region->answer = NULL;
    if (!answer)
        return 0;
    return TOLD(region, clEnqueueUnmapMemObject(region->queue, region->out.memory, answer, 0, NULL, NULL),
                "clEnqueueUnmapMemObject");
}

int vv_cl_send_part(struct cl_region *region) {
    int rc = vv_cl_space(region, SPACE_PART, sizeof region->part);
    return rc ? rc : vv_cl_send(region, region->shared->spaces[SPACE_PART].memory, &region->part, sizeof region->part);
}

int vv_cl_sum(struct cl_region *region, cl_mem marks, uint32_t count) {
    cl_mem values[SPACE_SUMS_LAST - SPACE_SUMS + 2] = {marks};
    cl_uint counts[SPACE_SUMS_LAST - SPACE_SUMS + 2] = {count};
    int rc = 0, level = 0;
    /* Blocks, blocks of their sums, and so on up to one block; then back with what came before each. */
    for (; rc == 0 && (level == 0 || counts[level] > 1); level++) {
        enum cl_space_name sums = (enum cl_space_name)(SPACE_SUMS + level);
        counts[level + 1] = (counts[level] + SCAN_BLOCK - 1) / SCAN_BLOCK;
        rc = vv_cl_space(region, sums, (uint64_t)counts[level + 1] * 2 * sizeof(cl_uint));
        values[level + 1] = region->shared->spaces[sums].memory;
        if (rc == 0)
            rc = RUN(region, sum_blocks, counts[level + 1], MEMORY(values[level]), MEMORY(values[level + 1]),
                     NUMBER(counts[level]));
    }
    while (rc == 0 && --level >= 0)
        if (counts[level] > SCAN_BLOCK)
            rc = RUN(region, add_sums, counts[level], MEMORY(values[level]), MEMORY(values[level + 1]),
                     NUMBER(counts[level]));
    return rc;
}
