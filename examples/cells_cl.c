/* A program whose data lives on an OpenCL device: it counts in a large buffer there, and takes a checkpoint every 10
 * steps. The device finds what changed; only that comes to the host.
 *
 *     cells_cl STORE [MEBIBYTES [STEPS [FILE]]]
 *
 * Kill it at any time and start it again: it goes on from the last checkpoint. What every cell must be after a step is
 * known, so it is checked after a restart, and at the end. FILE gets the cells as they are then. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_cl.h>

#define PIECE ((size_t)16 << 20) /* bytes that are looked at at once */

/* Cells are counted up in groups of 16, every hundredth group in each step: few bytes in nearly every page. */
static const char source[] = "__kernel void first(__global uint *cells) {\n"
                             "    cells[get_global_id(0)] = (uint)get_global_id(0) * 2654435761u;\n"
                             "}\n"
                             "__kernel void count(__global uint *cells, uint number) {\n"
                             "    size_t i = get_global_id(0);\n"
                             "    if (i / 16 % 100 == number % 100)\n"
                             "        cells[i] += 1;\n"
                             "}\n";

static cl_uint expected(uint64_t i, int64_t step) {
    uint64_t rounds = step < 0 ? 0 : (uint64_t)step / 100 + ((uint64_t)step % 100 >= i / 16 % 100);
    return (cl_uint)(i * 2654435761u + rounds);
}

struct device {
    cl_context context;
    cl_command_queue queue;
    cl_kernel first, step;
    cl_mem cells;
    size_t count;
};

static void check(cl_int code, const char *what) {
    if (code != CL_SUCCESS) {
        fprintf(stderr, "cells_cl: %s: OpenCL says %d\n", what, (int)code);
        exit(1);
    }
}

static void open_device(struct device *device, size_t bytes) {
    cl_platform_id platform;
    cl_device_id id;
    cl_int code;
    const char *text = source;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL) != CL_SUCCESS) {
        fprintf(stderr, "cells_cl: there is no OpenCL device\n");
        exit(77);
    }
    device->context = clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    check(code, "context");
    device->queue = clCreateCommandQueue(device->context, id, 0, &code);
    check(code, "queue");
    cl_program program = clCreateProgramWithSource(device->context, 1, &text, NULL, &code);
    check(code, "program");
    check(clBuildProgram(program, 1, &id, "", NULL, NULL), "build");
    device->first = clCreateKernel(program, "first", &code);
    check(code, "kernel first");
    device->step = clCreateKernel(program, "count", &code);
    check(code, "kernel count");
    clReleaseProgram(program);
    device->cells = clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    check(code, "buffer");
    device->count = bytes / sizeof(cl_uint);
}

static void close_device(struct device *device) {
    clReleaseMemObject(device->cells);
    clReleaseKernel(device->first);
    clReleaseKernel(device->step);
    clReleaseCommandQueue(device->queue);
    clReleaseContext(device->context);
}

static void compute(struct device *device, int64_t step) {
    cl_kernel kernel = step < 0 ? device->first : device->step;
    cl_uint number = (cl_uint)step;
    check(clSetKernelArg(kernel, 0, sizeof device->cells, &device->cells), "argument");
    if (step >= 0)
        check(clSetKernelArg(kernel, 1, sizeof number, &number), "argument");
    check(clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &device->count, NULL, 0, NULL, NULL), "run");
}

/* Ends the program if a cell is not what it must be. out: gets them, or NULL. */
static void verify(struct device *device, int64_t step, FILE *out) {
    cl_uint *cells = malloc(PIECE);
    if (!cells)
        exit(1);
    for (size_t at = 0; at < device->count; at += PIECE / sizeof *cells) {
        size_t count = device->count - at < PIECE / sizeof *cells ? device->count - at : PIECE / sizeof *cells;
        check(clEnqueueReadBuffer(device->queue, device->cells, CL_TRUE, at * sizeof *cells, count * sizeof *cells,
                                  cells, 0, NULL, NULL),
              "read");
        for (size_t i = 0; i < count; i++)
            if (cells[i] != expected(at + i, step)) {
                fprintf(stderr, "cells_cl: after step %" PRId64 " cell %zu is wrong\n", step, at + i);
                exit(1);
            }
        if (out && fwrite(cells, sizeof *cells, count, out) != count) {
            perror("cells_cl: the file of the cells");
            exit(1);
        }
    }
    free(cells);
    printf("all %zu cells are as they must be after step %" PRId64 "\n", device->count, step);
}

static void verify_last(struct device *device, int64_t step, const char *path) {
    FILE *out = path ? fopen(path, "wb") : NULL;
    if (path && !out) {
        perror(path);
        exit(1);
    }
    verify(device, step, out);
    if (out && fclose(out) != 0) {
        perror(path);
        exit(1);
    }
}

static int fail(struct varve_session *session) {
    fprintf(stderr, "cells_cl: %s\n", varve_session_error(session)->text);
    varve_close(session);
    return 1;
}

static void find_new(void *arg, const struct varve_stat *stat) {
    if (strcmp(stat->name, "bytes_new") == 0)
        *(double *)arg = stat->value;
}

static void tell(struct varve_session *session) {
    struct varve_stats stats = {.size = sizeof stats};
    double bytes_new = 0;
    if (varve_wait(session) == 0 && varve_stats_get(session, &stats) == 0 &&
        varve_stats_each(session, find_new, &bytes_new) == 0)
        printf("checkpoint %" PRId64 ": %" PRIu64 " of %" PRIu64 " bytes changed, %.0f are new\n", stats.version,
               stats.bytes_changed, stats.bytes_protected, bytes_new);
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    struct device device;
    int64_t step = -1, last = argc > 3 ? atoll(argv[3]) : 30;
    size_t bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 512) << 20;
    if (argc < 2 || argv[1][0] == '-' || bytes == 0) {
        fprintf(stderr, "usage: cells_cl STORE [MEBIBYTES [STEPS [FILE]]]\n");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* who looks through a pipe wants to see it, too */
    open_device(&device, bytes);
    if (varve_open(argv[1], "cells", NULL, &session, &error) != 0) {
        fprintf(stderr, "cells_cl: %s\n", error.text);
        return 1;
    }
    int rc = varve_protect_cl(session, "cells", device.queue, device.cells, 0, bytes, 0);
    if (rc == 0)
        rc = varve_restart(session, VARVE_LATEST, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return fail(session);
    if (rc == 0) {
        printf("restarted from step %" PRId64 "\n", step);
        verify(&device, step, NULL);
    } else {
        printf("first run; the kernels are compiled now\n");
        compute(&device, -1);
    }
    for (step++; step < last; step++) {
        compute(&device, step);
        if (step % 10 != 0)
            continue;
        if (varve_checkpoint(session, step) != 0)
            return fail(session);
        tell(session);
    }
    verify_last(&device, step - 1, argc > 4 ? argv[4] : NULL);
    rc = varve_close(session);
    close_device(&device);
    return rc == 0 ? 0 : 1;
}
