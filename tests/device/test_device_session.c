/* Regions on a device in a real session: random edits, checkpoints of which some fail, and lives that begin with a
 * restart from any version. Beside the one on OpenCL there is the same on its twin. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "test.h"
#include "world.h"

#define VERSIONS 64

static struct gpu gpu;

struct story {
    struct world world; /* for its bytes and edits; its own region is not used */
    struct varve_session *session;
    uint8_t *copies[VERSIONS]; /* what the region was in each version that exists */
    int64_t next;              /* version to write */
};

static void must(struct story *story, int rc) {
    if (rc)
        fail_msg("%d: %s", rc, varve_session_error(story->session)->text);
}

static void begin_life(struct story *story, const char *store, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error;
    struct plan *plan = &story->world.plan;
    options.settings = settings;
    if (varve_open(store, "device", &options, &story->session, &error) != 0)
        fail_msg("%s", error.text);
    must(story, varve_protect_cl(story->session, "opencl", gpu.queue, story->world.buffer, plan->base, plan->bytes,
                                 plan->chunk));
    must(story, varve_protect_device(story->session, "twin", plan->bytes, plan->chunk, &twin_ops, &story->world.twin));
}

static void check_bytes(struct story *story, int64_t version) {
    struct world *world = &story->world;
    uint8_t *bytes = malloc(world->plan.bytes);
    assert_non_null(bytes);
    assert_non_null(story->copies[version]);
    assert_int_equal(clEnqueueReadBuffer(gpu.queue, world->buffer, CL_TRUE, world->plan.base, world->plan.bytes, bytes,
                                         0, NULL, NULL),
                     CL_SUCCESS);
    assert_memory_equal(bytes, story->copies[version], world->plan.bytes);
    assert_memory_equal(world->now, story->copies[version], world->plan.bytes);
    free(bytes);
}

/* Of the newest, or of another one that exists. */
static void come_back(struct story *story) {
    int64_t version = VARVE_LATEST, got = -1;
    for (int i = 0; i < 3 && world_random(&story->world, 2); i++) {
        int64_t other = (int64_t)world_random(&story->world, (uint64_t)story->next);
        version = story->copies[other] ? other : version;
    }
    int rc = varve_restart(story->session, version, &got);
    if (rc == -ENOENT && version != VARVE_LATEST) /* forgotten: keep */
        rc = varve_restart(story->session, VARVE_LATEST, &got);
    must(story, rc);
    check_bytes(story, got);
}

static void save(struct story *story) {
    int64_t version = story->next++;
    int must_fail = 0;
#ifdef VARVE_FAULTS
    must_fail = world_random(&story->world, 4) == 0;
    if (must_fail)
        vv_fault_set(world_random(&story->world, 2) ? "engine.save.before_seal=error:5"
                                                    : "engine.writer.after_data=error:5");
#endif
    world_edit(&story->world);
    uint8_t *copy = malloc(story->world.plan.bytes);
    assert_non_null(copy);
    memcpy(copy, story->world.now, story->world.plan.bytes);
    int rc = varve_checkpoint(story->session, version);
    if (rc == 0)
        rc = varve_wait(story->session);
#ifdef VARVE_FAULTS
    vv_fault_set(NULL);
#endif
    if (rc && !must_fail)
        fail_msg("%d: %s", rc, varve_session_error(story->session)->text);
    if (rc == 0)
        story->copies[version] = copy;
    else
        free(copy);
}

static void tell(uint64_t seed, uint64_t bytes, uint32_t chunk, const char *settings) {
    struct story story = {0};
    struct plan plan = {.seed = seed, .bytes = bytes, .base = 64, .chunk = chunk};
    char store[64];
    snprintf(store, sizeof store, "mem://device-%u", (unsigned)seed);
    world_init(&story.world, &gpu, &plan);
    for (int life = 0; life < 4; life++) {
        begin_life(&story, store, settings);
        if (story.next > 0)
            come_back(&story);
        for (int i = 0; i < 6; i++) {
            save(&story);
            if (story.copies[story.next - 1] && world_random(&story.world, 5) == 0)
                come_back(&story);
        }
        int rc = varve_close(story.session); /* what became of the last checkpoint */
        assert_int_equal(rc == 0, story.copies[story.next - 1] != NULL);
    }
    for (int i = 0; i < VERSIONS; i++)
        free(story.copies[i]);
    world_clear(&story.world);
}

static void test_stories(void **state) {
    uint64_t seed = 1000 * (getenv("DEVICE_SEED") ? strtoull(getenv("DEVICE_SEED"), NULL, 10) : 1);
    (void)state;
    tell(seed + 1, 100001, 64, "fine_share=1");
    tell(seed + 2, 262144, 128, "");
    tell(seed + 3, 300000, 32, "fine_share=0.01");
    tell(seed + 4, 4097, 4096, "capture=sync");
    tell(seed + 5, 80000, 0, "fine=256,threads=0");
    tell(seed + 6, 120000, 64, "keep=2");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stories)};
    gpu_open(&gpu);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gpu_close(&gpu);
    return failed;
}
