#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define SEED UINT64_C(0x1234567890abcdef)

/* ---- the device ---- */

void gpu_open(struct gpu *gpu) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    char why[1024] = "";
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        printf("1..0 # skipped: there is no OpenCL device\n");
        exit(77);
    }
    gpu->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    gpu->queue = clCreateCommandQueue(gpu->context, device, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    int rc = vv_cl_share(gpu->context, device, &gpu->shared, why, sizeof why);
    if (rc) {
        printf("Bail out! %d: %s\n", rc, why);
        exit(1);
    }
}

void gpu_close(struct gpu *gpu) {
    vv_cl_unshare(gpu->shared);
    clReleaseCommandQueue(gpu->queue);
    clReleaseContext(gpu->context);
}

/* ---- the world ---- */

uint64_t world_random(struct world *world, uint64_t below) {
    world->random += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t x = world->random;
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return below ? (x ^ (x >> 31)) % below : 0;
}

static void *must(void *memory) {
    assert_non_null(memory);
    return memory;
}

void world_send(struct world *world) {
    assert_int_equal(clEnqueueWriteBuffer(world->gpu->queue, world->buffer, CL_TRUE, world->plan.base,
                                          world->plan.bytes, world->now, 0, NULL, NULL),
                     CL_SUCCESS);
}

void world_init(struct world *world, struct gpu *gpu, const struct plan *plan) {
    char why[256];
    cl_int code;
    *world = (struct world){.plan = *plan, .gpu = gpu, .random = plan->seed};
    /* Bytes beside the region: who reads them gets another id. */
    world->buffer = clCreateBuffer(gpu->context, CL_MEM_READ_WRITE, plan->base + plan->bytes + 256, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    uint8_t other = 0xa5;
    assert_int_equal(
        clEnqueueFillBuffer(gpu->queue, world->buffer, &other, 1, 0, plan->base + plan->bytes + 256, 0, NULL, NULL),
        CL_SUCCESS);
    world->now = must(calloc(1, plan->bytes));
    world->model = must(calloc(1, plan->bytes));
    world->older = must(calloc(1, plan->bytes));
    twin_init(&world->twin, world->now, plan->bytes);
    int rc = vv_cl_region_create(gpu->queue, world->buffer, plan->base, plan->bytes, &world->region, why, sizeof why);
    if (rc)
        fail_msg("%d: %s", rc, why);
    world_send(world);
}

void world_clear(struct world *world) {
    vv_cl_ops.leave(world->region);
    twin_clear(&world->twin);
    clReleaseMemObject(world->buffer);
    for (uint32_t i = 0; i < SOURCES; i++)
        free(world->stored[i]);
    free(world->now);
    free(world->model);
    free(world->older);
}

/* ---- edits ---- */

/* Few different words: chunks that are equal by chance. */
static void scribble(struct world *world, uint64_t from, uint64_t length) {
    int is_poor = world_random(world, 2) == 0;
    for (uint64_t i = from; i < from + length;) {
        uint64_t word = is_poor ? (i / 32 % 3 ? 7 : world_random(world, 4)) : world_random(world, 0) + world->random;
        size_t piece = from + length - i < 8 ? from + length - i : 8;
        memcpy(world->now + i, &word, piece);
        i += piece;
    }
}

static uint64_t aligned(struct world *world, uint64_t value) {
    static const uint64_t units[] = {1, 8, 32, 128, 4096};
    return value / units[world_random(world, 5)] * units[world_random(world, 5) % 3];
}

static void edit_once(struct world *world) {
    uint64_t bytes = world->plan.bytes, from = aligned(world, world_random(world, bytes)) % bytes;
    uint64_t to = aligned(world, world_random(world, bytes)) % bytes, most = bytes - (from > to ? from : to);
    uint64_t length = 1 + world_random(world, world_random(world, 3) ? (most < 5000 ? most : 5000) : most);
    length = length < most ? length : most;
    switch (world_random(world, 9)) {
    case 0: /* overwrite */
        scribble(world, from, length);
        break;
    case 1: /* a few bytes in many places */
        for (int i = 0; i < 20; i++)
            world->now[world_random(world, bytes)] ^= 1 + world_random(world, 255);
        break;
    case 2: /* move */
    case 3:
        memmove(world->now + to, world->now + from, length);
        break;
    case 4: { /* insert: what follows is moved on */
        uint64_t gap = bytes - from < 32 ? 0 : 32 * (1 + world_random(world, 4));
        if (from + gap < bytes) {
            memmove(world->now + from + gap, world->now + from, bytes - from - gap);
            scribble(world, from, gap);
        }
        break;
    }
    case 5: /* repeat */
        for (uint64_t i = from + 64; i < from + length && i < bytes; i++)
            world->now[i] = world->now[i - 64];
        break;
    case 6: /* zeros */
        memset(world->now + from, 0, length);
        break;
    case 7: /* as it was long ago, or from now on */
        if (world_random(world, 4) == 0)
            memcpy(world->older, world->now, bytes);
        else
            memcpy(world->now + from, world->older + from, length);
        break;
    default: /* exchange two granules */
        if (bytes >= 2 * VARVE_GRANULE) {
            uint8_t between[VARVE_GRANULE];
            uint8_t *a = world->now + world_random(world, bytes / VARVE_GRANULE) * VARVE_GRANULE;
            uint8_t *b = world->now + world_random(world, bytes / VARVE_GRANULE) * VARVE_GRANULE;
            memcpy(between, a, sizeof between);
            memmove(a, b, sizeof between);
            memcpy(b, between, sizeof between);
        }
    }
}

void world_edit(struct world *world) {
    for (uint64_t i = world_random(world, 6); i > 0; i--)
        edit_once(world);
    world_send(world);
}

/* ---- answers ---- */

static void same_answers(const struct varve_answer *a, const struct varve_answer *b) {
    assert_int_equal(a->granule_count, b->granule_count);
    assert_int_equal(a->run_count, b->run_count);
    assert_int_equal(a->data_bytes, b->data_bytes);
    assert_int_equal(a->chunks_fixed, b->chunks_fixed);
    assert_int_equal(a->chunks_first, b->chunks_first);
    assert_int_equal(a->chunks_shifted, b->chunks_shifted);
    assert_int_equal(a->chunks_zero, b->chunks_zero);
    if (a->granule_count)
        assert_memory_equal(a->granules, b->granules, a->granule_count * sizeof *a->granules);
    if (a->run_count)
        assert_memory_equal(a->runs, b->runs, a->run_count * sizeof *a->runs);
    if (a->data_bytes)
        assert_memory_equal(a->data, b->data, a->data_bytes);
}

/* Do what the answer says to a copy of the last checkpoint. */
static void apply(struct world *world, const struct varve_answer *answer, uint8_t *model, uint32_t source) {
    const uint8_t *data = answer->data;
    for (size_t i = 0; i < answer->run_count; i++) {
        const struct varve_run *run = &answer->runs[i];
        assert_true(run->offset < world->plan.bytes && run->length <= world->plan.bytes - run->offset);
        if (run->label == VARVE_ZERO) {
            memset(model + run->offset, 0, run->length);
            continue;
        }
        uint8_t *stored = world->stored[run->place.source];
        assert_non_null(stored);
        stored += run->place.address - world->address[run->place.source];
        if (run->label == VARVE_FIRST) {
            assert_int_equal(run->place.source, source);
            assert_int_equal(run->place.address, world->address[source] + run->offset);
            memcpy(stored, data, run->length);
            data += run->length;
        } else {
            assert_int_equal(run->label, VARVE_SHIFTED);
            assert_true(run->place.source == source || world->is_usable[run->place.source]);
        }
        memcpy(model + run->offset, stored, run->length);
    }
    assert_int_equal(answer->data_bytes ? (uint64_t)(data - answer->data) : 0, answer->data_bytes);
}

static uint64_t part_size(struct world *world, uint64_t rest) {
    uint64_t granules = (rest + VARVE_GRANULE - 1) / VARVE_GRANULE;
    uint64_t size = (1 + world_random(world, world_random(world, 2) ? granules
                                             : granules < 4         ? granules
                                                                    : 4)) *
                    VARVE_GRANULE;
    return size < rest ? size : rest;
}

static struct varve_ask ask_of(struct world *world, uint32_t source, int is_whole) {
    return (struct varve_ask){.size = sizeof(struct varve_ask),
                              .total = world->plan.bytes,
                              .seed = SEED,
                              .address = world->address[source],
                              .source = source,
                              .chunk = world->plan.chunk,
                              .most = world->plan.most,
                              .is_usable = world->is_usable,
                              .source_count = source + 1,
                              .is_whole = is_whole};
}

static void compare_part(struct world *world, const struct varve_ask *ask, uint8_t *model) {
    struct varve_answer ours, theirs;
    int rc = vv_cl_ops.compare(world->region, ask, &ours);
    if (rc)
        fail_msg("%d: %s", rc, world->region->why);
    assert_int_equal(twin_ops.compare(&world->twin, ask, &theirs), 0);
    same_answers(&ours, &theirs);
    apply(world, &ours, model, ask->source);
    world->counts[VARVE_FIXED] += ours.chunks_fixed;
    world->counts[VARVE_ZERO] += ours.chunks_zero;
    world->counts[VARVE_FIRST] += ours.chunks_first;
    world->counts[VARVE_SHIFTED] += ours.chunks_shifted;
}

static uint32_t new_source(struct world *world) {
    uint32_t source = world->source++;
    assert_true(source < SOURCES);
    world->address[source] = world_random(world, 100) * VARVE_GRANULE;
    world->is_usable[source] = 1;
    world->stored[source] = must(malloc(world->plan.bytes));
    memset(world->stored[source], 0xEE, world->plan.bytes);
    return source;
}

void world_attempt(struct world *world, int is_committed, int is_whole) {
    uint32_t source = new_source(world);
    struct varve_ask ask = ask_of(world, source, is_whole);
    uint8_t *model = must(malloc(world->plan.bytes));
    if (is_whole || !world->twin.has_kept)
        memset(model, 0xEE, world->plan.bytes); /* nothing of it may be left */
    else
        memcpy(model, world->model, world->plan.bytes);
    for (ask.offset = 0; ask.offset < world->plan.bytes; ask.offset += ask.length) {
        if (!is_committed && world_random(world, 6) == 0)
            break; /* it may fail before all is asked */
        ask.length = part_size(world, world->plan.bytes - ask.offset);
        compare_part(world, &ask, model);
    }
    if (ask.offset >= world->plan.bytes)
        assert_memory_equal(model, world->now, world->plan.bytes);
    assert_int_equal(vv_cl_ops.settle(world->region, is_committed), 0);
    assert_int_equal(twin_ops.settle(&world->twin, is_committed), 0);
    if (is_committed)
        memcpy(world->model, model, world->plan.bytes);
    world->is_usable[source] = (uint8_t)is_committed;
    free(model);
}

/* ---- coming back ---- */

static void add_run(struct varve_run *runs, size_t *count, struct varve_run run) {
    struct varve_run *last = *count ? &runs[*count - 1] : NULL;
    if (last && last->label == run.label &&
        (run.label == VARVE_ZERO ||
         (last->place.source == run.place.source && last->place.address + last->length == run.place.address)))
        last->length += run.length;
    else
        runs[(*count)++] = run;
}

/* What the manifest would say. Some of it is another rank's. */
static struct varve_run *runs_of(struct world *world, size_t *count) {
    const struct vv_origins *past = &world->twin.past;
    struct varve_run *runs = must(malloc((world->plan.bytes / 32 + past->count + 1) * sizeof *runs));
    *count = 0;
    for (size_t i = 0; i < past->count; i++) {
        const struct vv_origin *origin = &past->list[i];
        uint32_t label = world_random(world, 10) ? VARVE_SHIFTED : VARVE_FIRST;
        uint64_t piece = origin->kind == VV_ORIGIN_REPEATED ? origin->piece : origin->length;
        for (uint64_t at = 0; at < origin->length; at += piece) {
            uint64_t left = origin->length - at;
            struct varve_run run = {.offset = origin->offset + at, .length = (uint32_t)(left < piece ? left : piece)};
            run.label = origin->kind == VV_ORIGIN_ZERO ? VARVE_ZERO : label;
            if (run.label != VARVE_ZERO)
                run.place = (struct varve_place){origin->source, 0, origin->address};
            add_run(runs, count, run);
        }
    }
    return runs;
}

void world_restart(struct world *world, uint32_t chunk) {
    size_t count;
    struct varve_run *runs = runs_of(world, &count);
    memset(world->now, 0xDD, world->plan.bytes);
    world_send(world);
    for (uint64_t at = 0, size; at < world->plan.bytes; at += size) {
        size = 1 + world_random(world, 20000);
        size = size < world->plan.bytes - at ? size : world->plan.bytes - at;
        assert_int_equal(vv_cl_ops.write(world->region, at, world->model + at, size), 0);
    }
    assert_int_equal(clEnqueueReadBuffer(world->gpu->queue, world->buffer, CL_TRUE, world->plan.base, world->plan.bytes,
                                         world->now, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_memory_equal(world->now, world->model, world->plan.bytes);
    world->plan.chunk = chunk;
    struct varve_ask ask = ask_of(world, 0, 0);
    ask.address = 0;
    ask.length = world->plan.bytes;
    int rc = vv_cl_ops.restored(world->region, &ask, runs, count);
    if (rc)
        fail_msg("%d: %s", rc, world->region->why);
    assert_int_equal(twin_ops.restored(&world->twin, &ask, runs, count), 0);
    free(runs);
}

void world_run(struct world *world) {
    for (uint32_t i = 0; i < world->plan.steps; i++) {
        uint64_t what = world_random(world, 12);
        world_edit(world);
        if (world_random(world, 5) == 0 && world->source)
            world->is_usable[world_random(world, world->source)] ^= 1; /* forgotten, or there again */
        if (what == 0 && world->twin.has_kept)
            world_restart(world, UINT32_C(32) << world_random(world, 8));
        world_attempt(world, what < 9, what == 1 || what == 11);
    }
}
