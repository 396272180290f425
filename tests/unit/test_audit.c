/* The audit: what is drawn, and what happens to a tracker that lies. The tracker here reports what the test tells it
 * to. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "capture/capture_private.h"
#include "comm/comm.h"
#include "session/session.h"
#include "test.h"

#define CHUNKS 4096u
#define SIZE ((size_t)CHUNKS * VV_PAGE)

/* ---- a tracker that does as it is told ---- */

static int is_first;                /* the next collect reports everything */
static uint32_t told_from, told_to; /* then these chunks */
static uint32_t hole_from, hole_to;

static int liar_attach(struct vv_tracker *tracker, struct vv_watch *watch) {
    (void)tracker, (void)watch;
    is_first = 1;
    return 0;
}

static void liar_detach(struct vv_tracker *tracker, struct vv_watch *watch) {
    (void)tracker, (void)watch;
}

static int tell(vv_pages_fn fn, void *arg, uint32_t from, uint32_t to, int is_untouched) {
    return to > from ? fn(arg, (uint64_t)from * VV_PAGE, (uint64_t)(to - from) * VV_PAGE, is_untouched) : 0;
}

static int liar_collect(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg) {
    (void)tracker;
    int rc = is_first ? fn(arg, 0, watch->size, 0) : tell(fn, arg, told_from, told_to, 0);
    if (rc == 0 && !is_first)
        rc = tell(fn, arg, hole_from, hole_to, 1);
    is_first = 0;
    return rc;
}

static void liar_close(struct vv_tracker *tracker) {
    (void)tracker;
}

static const struct vv_tracker_ops liar_ops = {
    .name = "liar", .attach = liar_attach, .detach = liar_detach, .collect = liar_collect, .close = liar_close};
static struct vv_tracker liar = {&liar_ops};

/* ---- a session that believes it ---- */

static struct vv_session *open_session(struct vv_settings *settings) {
    struct vv_session *session = NULL;
    struct varve_error error = {0};
    static const struct vv_log quiet = {.level = VV_LOG_ERROR, .rank = -1};
    vv_settings_init(settings);
    assert_int_equal(vv_settings_load(settings, "tracker=none,capture=sync", &quiet, &error), 0);
    int rc = vv_session_open("mem://audit", "audit", settings, &quiet, &vv_comm_single, &session, &error);
    if (rc)
        print_message("%s\n", error.text);
    assert_int_equal(rc, 0);
    session->memory.capture->preferred = &liar;
    told_from = told_to = hole_from = hole_to = 0;
    return session;
}

static uint8_t *new_memory(void) {
    uint8_t *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (size_t i = 0; i < SIZE; i += 8)
        memcpy(memory + i, &i, 8);
    return memory;
}

static int save(struct vv_session *session, int64_t version, struct varve_error *error) {
    memset(error, 0, sizeof *error);
    return vv_session_checkpoint(session, version, error);
}

static uint64_t audited(struct vv_session *session) {
    struct vv_details stats;
    vv_session_stats(session, &stats);
    return stats.chunks_audited;
}

/* ---- tests ---- */

/* A quarter has changed and is not reported: all 64 chunks miss it with (3/4)^64, once in a hundred million runs. */
static void a_lie_is_found(void **state) {
    struct vv_settings settings;
    struct varve_error error;
    uint8_t *memory = new_memory();
    (void)state;
    struct vv_session *session = open_session(&settings);
    assert_int_equal(vv_session_protect(session, "lied-about", memory, SIZE, 0), 0);
    assert_int_equal(save(session, 1, &error), 0);
    assert_int_equal(audited(session), 0); /* everything was looked at */
    assert_int_equal(save(session, 2, &error), 0);
    assert_true(audited(session) >= 64);
    for (size_t i = 0; i < SIZE / 4; i += VV_PAGE)
        memory[i * 4 + 5]++;
    assert_int_equal(save(session, 3, &error), -EFAULT);
    assert_non_null(strstr(error.text, "lied-about"));
    /* Nobody asks the liar any more, and everything is right again. */
    told_from = told_to = 0;
    assert_int_equal(save(session, 4, &error), 0);
    struct vv_details stats;
    vv_session_stats(session, &stats);
    assert_int_equal(stats.bytes_changed, SIZE / 4);
    assert_int_equal(stats.chunks_audited, 0);
    memory[SIZE - 1]++;
    assert_int_equal(save(session, 5, &error), 0);
    vv_session_stats(session, &stats);
    assert_int_equal(stats.bytes_changed, VV_PAGE);
    vv_session_close(session);
    munmap(memory, SIZE);
}

/* Few chunks are left of which nothing was said: all of them are looked at. */
static void all_if_they_are_few(void **state) {
    struct vv_settings settings;
    struct varve_error error;
    uint8_t *memory = new_memory();
    (void)state;
    struct vv_session *session = open_session(&settings);
    assert_int_equal(vv_session_protect(session, "data", memory, SIZE, 0), 0);
    assert_int_equal(save(session, 1, &error), 0);
    told_to = CHUNKS - 10;
    assert_int_equal(save(session, 2, &error), 0);
    assert_int_equal(audited(session), 10);
    memory[SIZE - 3 * VV_PAGE]++;
    assert_int_equal(save(session, 3, &error), -EFAULT);
    vv_session_close(session);
    munmap(memory, SIZE);
}

struct drawn {
    uint32_t times[CHUNKS];
    uint64_t count;
};

static int note(void *arg, struct vv_watch *watch, uint64_t chunk, const uint8_t *data) {
    struct drawn *drawn = arg;
    assert_ptr_equal(data, watch->ptr + chunk * VV_PAGE);
    drawn->times[chunk]++;
    drawn->count++;
    return 0;
}

static int no_matter(void *arg, struct vv_watch *watch, uint64_t first, uint64_t last) {
    (void)arg, (void)watch, (void)first, (void)last;
    return 0;
}

static int save_nothing(struct vv_capture *capture) {
    const struct vv_capture_plan plan = {.staging = 1u << 20};
    struct varve_error error = {0};
    return vv_capture_begin(capture, &plan, no_matter, NULL, &error);
}

/* Every chunk of which nothing was said has the same chance, whether many or few are left; others have none. */
static void chances_are_equal(void **state) {
    static const uint32_t left[] = {3000, 1000, 100};
    static const struct vv_log quiet = {.level = VV_LOG_ERROR, .rank = -1};
    struct vv_capture_options options = {VV_CHOOSE_CAPTURE_SYNC, 0, VV_CHOOSE_TRACKER_NONE, &quiet};
    struct varve_error error = {0};
    uint8_t *memory = new_memory();
    uint64_t random = 12345;
    (void)state;
    for (size_t k = 0; k < sizeof left / sizeof left[0]; k++) {
        struct vv_capture *capture = NULL;
        struct drawn drawn = {{0}, 0};
        assert_int_equal(vv_capture_create(&options, &capture, &error), 0);
        capture->preferred = &liar;
        assert_non_null(vv_capture_watch(capture, "data", memory, SIZE, 0));
        told_from = 500;
        told_to = CHUNKS - left[k] + 300;
        hole_from = CHUNKS - 200;
        hole_to = CHUNKS;
        told_to = told_to > hole_from ? hole_from : told_to;
        for (int round = 0; round < 400; round++) {
            assert_int_equal(save_nothing(capture), 0);
            if (round > 0)
                assert_int_equal(vv_capture_unreported(capture, 64, &random, note, &drawn), 0);
            vv_capture_settle(capture, 1);
        }
        uint32_t candidates = 0, fewest = UINT32_MAX, most = 0;
        for (uint32_t i = 0; i < CHUNKS; i++) {
            int is_told = (i >= told_from && i < told_to) || i >= hole_from;
            candidates += !is_told;
            if (is_told)
                assert_int_equal(drawn.times[i], 0);
            else {
                fewest = drawn.times[i] < fewest ? drawn.times[i] : fewest;
                most = drawn.times[i] > most ? drawn.times[i] : most;
            }
        }
        double expected = 399.0 * 64 / candidates;
        assert_int_equal(drawn.count, 399 * 64);
        assert_true(most < expected * 3 + 12);
        assert_true(candidates > 1000 || fewest > 0);
        vv_capture_destroy(capture);
    }
    munmap(memory, SIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_lie_is_found), cmocka_unit_test(all_if_they_are_few),
                                       cmocka_unit_test(chances_are_equal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
