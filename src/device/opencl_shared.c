/* What all regions of a device share: the program, which is built once, and the memory to work in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl_private.h"

#define GROUP_WISH 64 /* a multiple of what the hardware runs in step, on all that is around */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cl_shared *list;

/* The compiler's first words: the rest would not fit. */
static int tell_log(struct cl_shared *shared, cl_int code, char *why, size_t why_size) {
    char log[2048] = "";
    int rc = vv_cl_code(code, "clBuildProgram", why, why_size);
    size_t length = strlen(why);
    if (clGetProgramBuildInfo(shared->program, shared->device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL) ==
            CL_SUCCESS &&
        log[0] && length < why_size)
        snprintf(why + length, why_size - length, ": %s", log);
    return rc;
}

static int build(struct cl_shared *shared, char *why, size_t why_size) {
    const char *source = (const char *)vv_cl_source;
    const size_t length = vv_cl_source_size;
    cl_int code;
    shared->program = clCreateProgramWithSource(shared->context, 1, &source, &length, &code);
    if (code != CL_SUCCESS)
        return vv_cl_code(code, "clCreateProgramWithSource", why, why_size);
    code = clBuildProgram(shared->program, 1, &shared->device, "-cl-std=CL1.2", NULL, NULL);
    return code == CL_SUCCESS ? 0 : tell_log(shared, code, why, why_size);
}

static int make_kernels(struct cl_shared *shared, char *why, size_t why_size) {
#define KERNEL_NAME(name) #name,
    static const char *const names[] = {KERNEL_MAP(KERNEL_NAME)};
#undef KERNEL_NAME
    for (int i = 0; i < KERNEL_COUNT; i++) {
        cl_int code;
        size_t most = 1;
        shared->kernels[i] = clCreateKernel(shared->program, names[i], &code);
        if (code != CL_SUCCESS)
            return vv_cl_code(code, "clCreateKernel", why, why_size);
        code = clGetKernelWorkGroupInfo(shared->kernels[i], shared->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
                                        &most, NULL);
        if (code != CL_SUCCESS)
            return vv_cl_code(code, "clGetKernelWorkGroupInfo", why, why_size);
        for (shared->group[i] = GROUP_WISH; shared->group[i] > most && shared->group[i] > 1;)
            shared->group[i] /= 2;
    }
    return 0;
}

static void destroy(struct cl_shared *shared) {
    for (int i = 0; i < SPACE_COUNT; i++)
        vv_cl_drop(&shared->spaces[i].memory);
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (shared->kernels[i])
            clReleaseKernel(shared->kernels[i]);
    if (shared->program)
        clReleaseProgram(shared->program);
    clReleaseContext(shared->context);
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

static int create(cl_context context, cl_device_id device, struct cl_shared **out, char *why, size_t why_size) {
    cl_int code = clRetainContext(context);
    if (code != CL_SUCCESS)
        return vv_cl_code(code, "clRetainContext", why, why_size);
    struct cl_shared *shared = calloc(1, sizeof *shared);
    if (!shared) {
        clReleaseContext(context);
        return -ENOMEM;
    }
    shared->context = context;
    shared->device = device;
    pthread_mutex_init(&shared->lock, NULL);
    int rc = build(shared, why, why_size);
    if (rc == 0)
        rc = make_kernels(shared, why, why_size);
    if (rc)
        destroy(shared);
    else
        *out = shared;
    return rc;
}

int vv_cl_share(cl_context context, cl_device_id device, struct cl_shared **out, char *why, size_t why_size) {
    int rc = 0;
    pthread_mutex_lock(&list_lock);
    struct cl_shared *shared = list;
    while (shared && (shared->context != context || shared->device != device))
        shared = shared->next;
    if (!shared) {
        rc = create(context, device, &shared, why, why_size);
        if (rc == 0) {
            shared->next = list;
            list = shared;
        }
    }
    if (rc == 0) {
        shared->users++;
        *out = shared;
    }
    pthread_mutex_unlock(&list_lock);
    return rc;
}

void vv_cl_unshare(struct cl_shared *shared) {
    if (!shared)
        return;
    pthread_mutex_lock(&list_lock);
    if (--shared->users == 0) {
        struct cl_shared **link = &list;
        while (*link != shared)
            link = &(*link)->next;
        *link = shared->next;
        destroy(shared);
    }
    pthread_mutex_unlock(&list_lock);
}
