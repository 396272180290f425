/* OpenCL and the CPU say the same in every bit. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "world.h"

static struct gpu gpu;

static uint64_t scale(uint64_t count) {
    const char *percent = getenv("TEST_SCALE");
    uint64_t scaled = percent ? count * strtoull(percent, NULL, 10) / 100 : count;
    return scaled ? scaled : 1;
}

/* Is the id of a region of so many bytes what the library's hash says? All ways of hashing, with and without an odd
 * end. */
static void test_ids(void **state) {
    (void)state;
    for (uint64_t bytes = 1; bytes <= 4096; bytes += bytes < 300 ? 1 : 41 + bytes % 7) {
        struct world world;
        struct plan plan = {.seed = bytes, .bytes = bytes, .base = 64 * (bytes % 3), .chunk = 4096, .most = 10};
        world_init(&world, &gpu, &plan);
        for (int i = 0; i < 3; i++)
            world_edit(&world);
        world_attempt(&world, 1, 0);
        world_clear(&world);
    }
}

static void run(uint64_t seed, uint64_t bytes, uint32_t chunk, uint64_t most, uint32_t steps, uint64_t counts[4]) {
    struct world world;
    struct plan plan = {
        .seed = seed, .bytes = bytes, .base = seed % 2 * 192, .chunk = chunk, .most = most, .steps = steps};
    world_init(&world, &gpu, &plan);
    world_run(&world);
    for (int i = 0; i < 4; i++)
        counts[i] += world.counts[i];
    world_clear(&world);
}

static void test_scripts(void **state) {
    static const uint64_t sizes[] = {1, 31, 32, 4095, 4096, 4097, 12321, 5 * 4096 + 17, 100000, 65536, 262144 + 33};
    static const uint64_t mosts[] = {UINT64_MAX, 1000000, 0, 1, 17, 300, UINT64_MAX};
    uint64_t counts[4] = {0}, seed = getenv("DEVICE_SEED") ? strtoull(getenv("DEVICE_SEED"), NULL, 10) : 1;
    uint64_t many = scale(11) > 3 ? scale(11) : 3,
             steps = scale(12) > 6 ? scale(12) : 6; /* or not all labels come up */
    (void)state;
    for (uint32_t chunk = 32; chunk <= 4096; chunk *= 2)
        for (uint64_t i = 0; i < many; i++)
            run(seed * 1000000 + chunk * 100 + i, sizes[10 - i], chunk, mosts[(i + chunk / 32) % 7], (uint32_t)steps,
                counts);
    printf("# chunks fixed %llu, zero %llu, first %llu, shifted %llu\n", (unsigned long long)counts[0],
           (unsigned long long)counts[1], (unsigned long long)counts[2], (unsigned long long)counts[3]);
    for (int i = 0; i < 4; i++)
        assert_true(counts[i] > 0);
}

/* Chunks whose only copy may not be referred to are stored again, and, if that fails, are where they were. With more
 * of them than fit at first. */
static void test_moved(void **state) {
    struct world world;
    struct plan plan = {.seed = 9, .bytes = 40000, .chunk = 32, .most = UINT64_MAX};
    (void)state;
    world_init(&world, &gpu, &plan);
    for (uint64_t i = 0; i < plan.bytes; i++)
        world.now[i] = (uint8_t)(1 + world_random(&world, 255));
    world_send(&world);
    world_attempt(&world, 1, 0);
    memmove(world.now + 20480, world.now, 12288);
    world_send(&world);
    world.is_usable[0] = 0;
    for (int i = 0; i < 2; i++)
        world_attempt(&world, 0, i == 1);
    world.is_usable[0] = 1;
    uint64_t shifted = world.counts[VARVE_SHIFTED];
    world_attempt(&world, 1, 0);
    assert_int_equal(world.counts[VARVE_SHIFTED] - shifted, 12288 / 32);
    world_clear(&world);
}

static int create(cl_mem buffer, uint64_t offset, uint64_t bytes, struct cl_region **out) {
    char why[256] = "";
    int rc = vv_cl_region_create(gpu.queue, buffer, offset, bytes, out, why, sizeof why);
    assert_int_equal(rc != 0, why[0] != '\0');
    return rc;
}

static cl_mem make_buffer(cl_mem_flags flags, size_t bytes) {
    cl_int code;
    cl_mem buffer = clCreateBuffer(gpu.context, flags, bytes, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

static void test_refused(void **state) {
    struct cl_region *region = NULL;
    struct varve_answer answer;
    cl_mem buffer = make_buffer(CL_MEM_READ_WRITE, 10000), written = make_buffer(CL_MEM_WRITE_ONLY, 10000);
    (void)state;
    assert_int_equal(create(NULL, 0, 100, &region), -EINVAL);
    assert_int_equal(create(buffer, 0, 0, &region), -EINVAL);
    assert_int_equal(create(buffer, 32, 100, &region), -EINVAL);
    assert_int_equal(create(buffer, 64, 10000 - 63, &region), -EINVAL);
    assert_int_equal(create(written, 0, 100, &region), -EINVAL);
    assert_null(region);
    assert_int_equal(create(buffer, 64, 10000 - 64, &region), 0);
    struct varve_ask good = {.size = sizeof good, .length = 4096, .total = 10000 - 64, .chunk = 64, .most = 100};
    struct varve_ask bad[] = {good, good, good, good, good, good};
    bad[0].chunk = 48;
    bad[1].chunk = 8192;
    bad[2].total = 10000;
    bad[3].offset = 4096; /* the first part is missing */
    bad[4].length = 5000; /* not whole granules, and not the end */
    bad[5].length = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(vv_cl_ops.compare(region, &bad[i], &answer), -EINVAL);
        assert_int_equal(vv_cl_ops.compare(region, &good, &answer), -EINVAL); /* until it is settled */
        assert_int_equal(vv_cl_ops.settle(region, 0), 0);
    }
    assert_int_equal(vv_cl_ops.compare(region, &good, &answer), 0);
    assert_int_equal(vv_cl_ops.settle(region, 1), -EINVAL); /* not all of it was compared */
    struct varve_run run = {.length = 9000, .label = VARVE_ZERO};
    good.length = good.total;
    assert_int_equal(vv_cl_ops.restored(region, &good, &run, 1), -EINVAL); /* and these are not all of it */
    assert_int_equal(vv_cl_ops.write(region, 9000, &run, 937), -EINVAL);
    vv_cl_ops.leave(region);
    clReleaseMemObject(buffer);
    clReleaseMemObject(written);
}

/* A buffer that the host may not write, and a queue that keeps no order. */
static void test_unusual(void **state) {
    struct cl_region *region;
    cl_device_id device;
    cl_int code;
    uint8_t data[5000], back[5000];
    cl_mem closed = make_buffer(CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, 5000),
           open = make_buffer(CL_MEM_READ_WRITE, 5000);
    (void)state;
    memset(data, 7, sizeof data);
    assert_int_equal(create(closed, 0, 5000, &region), 0);
    assert_int_equal(vv_cl_ops.write(region, 0, data, sizeof data), 0);
    assert_int_equal(clEnqueueCopyBuffer(gpu.queue, closed, open, 0, 0, 5000, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clEnqueueReadBuffer(gpu.queue, open, CL_TRUE, 0, 5000, back, 0, NULL, NULL), CL_SUCCESS);
    assert_memory_equal(data, back, sizeof data);
    vv_cl_ops.leave(region);
    clReleaseMemObject(closed);
    clReleaseMemObject(open);

    struct gpu ordered = gpu;
    assert_int_equal(clGetCommandQueueInfo(gpu.queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &device, NULL),
                     CL_SUCCESS);
    gpu.queue = clCreateCommandQueue(gpu.context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (code == CL_SUCCESS) {
        uint64_t counts[4] = {0};
        run(11, 50000, 64, 500, 10, counts);
        clReleaseCommandQueue(gpu.queue);
    }
    gpu = ordered;
}

/* For a device that is simulated step by step (races.sh): all kernels, with chunks that meet in one slot, as little as
 * that takes. */
static void test_small(void **state) {
    uint64_t counts[4] = {0};
    (void)state;
    run(3, 9000, 32, 100, 12, counts);
    run(4, 20000, 64, UINT64_MAX, 12, counts);
    run(5, 8192 + 5, 256, 1000, 12, counts);
    for (int i = 0; i < 4; i++)
        assert_true(counts[i] > 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest all[] = {cmocka_unit_test(test_ids), cmocka_unit_test(test_moved),
                                     cmocka_unit_test(test_refused), cmocka_unit_test(test_unusual),
                                     cmocka_unit_test(test_scripts)};
    const struct CMUnitTest small[] = {cmocka_unit_test(test_small), cmocka_unit_test(test_moved)};
    gpu_open(&gpu);
    int failed = argc > 1 && strcmp(argv[1], "small") == 0 ? cmocka_run_group_tests(small, NULL, NULL)
                                                           : cmocka_run_group_tests(all, NULL, NULL);
    gpu_close(&gpu);
    return failed;
}
