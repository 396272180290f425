/* Mistakes that were found once: devices that leave something out, memory that is reserved but never touched, going on
 * without reading, and pieces of packed manifests that promise too much. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <varve/varve_device.h>

#include "base/bytes.h"
#include "base/content_id.h"
#include "details.h"
#include "format/manifest.h"
#include "test.h"

#define GRANULES 8u
#define BYTES (GRANULES * VARVE_GRANULE)

/* ---- a device that reports everything, or leaves something out ---- */

enum lie { HONEST, GAP, NO_RUN, NO_GRANULE, SHORT_DATA, UNUSABLE };

struct device {
    enum lie lie;
    uint8_t memory[BYTES];
    struct varve_granule granules[GRANULES];
    struct varve_run runs[GRANULES];
    uint8_t data[BYTES];
    int settled; /* the last word about a checkpoint; -1: none yet */
    int asked;   /* since then */
    size_t restored_runs;
};

/* Each granule is a run of its own; zeros are told, too. */
static int compare(void *arg, const struct varve_ask *ask, struct varve_answer *answer) {
    struct device *device = arg;
    device->asked++;
    *answer = (struct varve_answer){.granules = device->granules, .runs = device->runs, .data = device->data};
    for (uint64_t i = 0; i < GRANULES; i++) {
        const uint8_t *from = device->memory + i * VARVE_GRANULE;
        int is_zero = vv_is_zero(from, VARVE_GRANULE), is_left_out = i == 3;
        struct vv_hash128 id = is_zero ? (struct vv_hash128){0, 0} : vv_id(ask->seed, from, VARVE_GRANULE);
        struct varve_run run = {i * VARVE_GRANULE,
                                VARVE_GRANULE,
                                is_zero ? VARVE_ZERO : VARVE_FIRST,
                                {ask->source, 0, ask->address + i * VARVE_GRANULE}};
        if (device->lie == UNUSABLE && is_left_out) {
            run.label = VARVE_SHIFTED;
            run.place.source = ask->source_count;
        }
        if (device->lie != GAP || !is_left_out) {
            if (device->lie != NO_GRANULE || !is_left_out)
                device->granules[answer->granule_count++] = (struct varve_granule){i, {id.low, id.high}};
            if (device->lie != NO_RUN || !is_left_out)
                device->runs[answer->run_count++] = run;
        }
        if (run.label == VARVE_FIRST && device->runs[answer->run_count - 1].offset == run.offset) {
            memcpy(device->data + answer->data_bytes, from, VARVE_GRANULE);
            answer->data_bytes += VARVE_GRANULE;
        }
    }
    answer->data_bytes -= device->lie == SHORT_DATA ? 1 : 0;
    return 0;
}

static int settle(void *arg, int is_committed) {
    struct device *device = arg;
    device->settled = is_committed;
    device->asked = 0;
    return is_committed ? -EIO : 0; /* never in step: it is asked for everything each time */
}

static int take(void *arg, uint64_t offset, const void *data, size_t size) {
    struct device *device = arg;
    assert_int_equal(device->asked, 0); /* what it was asked before is settled */
    memcpy(device->memory + offset, data, size);
    return 0;
}

static int restored(void *arg, const struct varve_ask *ask, const struct varve_run *runs, size_t count) {
    struct device *device = arg;
    uint64_t at = 0;
    for (size_t i = 0; i < count; at += runs[i++].length)
        assert_int_equal(runs[i].offset, at);
    assert_int_equal(at, ask->total);
    device->restored_runs = count;
    return 0;
}

static void leave(void *arg) {
    (void)arg;
}

static const struct varve_device_ops ops = {.size = sizeof ops,
                                            .name = "liar",
                                            .compare = compare,
                                            .settle = settle,
                                            .write = take,
                                            .restored = restored,
                                            .leave = leave};

static struct varve_session *open_mem(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    options.settings = settings;
    assert_int_equal(varve_open("mem://found", "t", &options, &session, NULL), 0);
    return session;
}

static void gaps_in_answers(void **state) {
    (void)state;
    for (int lie = HONEST; lie <= UNUSABLE; lie++) {
        struct device *device = calloc(1, sizeof *device);
        assert_non_null(device);
        memset(device->memory, 7, BYTES);
        struct varve_session *session = open_mem("codec=none");
        assert_int_equal(varve_protect_device(session, "d", BYTES, 64, &ops, device), 0);
        assert_int_equal(varve_checkpoint(session, 0), 0);
        assert_int_equal(varve_wait(session), 0);
        memset(device->memory + 3 * VARVE_GRANULE, 0, VARVE_GRANULE);
        device->memory[0] = 1;
        device->lie = lie;
        int rc = varve_checkpoint(session, 1);
        if (rc == 0)
            rc = varve_wait(session);
        if (lie == HONEST) {
            uint8_t expected[BYTES];
            assert_int_equal(rc, 0);
            memcpy(expected, device->memory, BYTES);
            memset(device->memory, 9, BYTES);
            assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
            assert_memory_equal(device->memory, expected, BYTES);
            assert_int_equal(device->settled, 1);
        } else {
            assert_int_equal(rc, -EPROTO);
            assert_non_null(strstr(varve_session_error(session)->text, "region d"));
            assert_non_null(strstr(varve_session_error(session)->text, "liar"));
        }
        varve_close(session);
        free(device);
    }
}

/* One value everywhere is one run; a restart tells it in a few. */
static void repeats_are_told_shortly(void **state) {
    (void)state;
    struct device *device = calloc(1, sizeof *device);
    assert_non_null(device);
    memset(device->memory, 5, BYTES);
    struct varve_session *session = open_mem("codec=none,fine=32");
    uint8_t *memory = malloc(BYTES);
    assert_non_null(memory);
    memset(memory, 5, BYTES);
    assert_int_equal(varve_protect(session, "d", memory, BYTES), 0);
    assert_int_equal(varve_checkpoint(session, 0), 0);
    assert_int_equal(varve_wait(session), 0);
    assert_int_equal(varve_protect_device(session, "d", BYTES, 32, &ops, device), 0);
    assert_int_equal(varve_restart(session, 0, NULL), 0);
    assert_in_range(device->restored_runs, 1, 3);
    varve_close(session);
    free(memory);
    free(device);
}

/* ---- reserved memory ---- */

static size_t resident(void) {
    unsigned long all = 0, own = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &own), 2);
    fclose(file);
    return own * (size_t)sysconf(_SC_PAGESIZE);
}

static void reserved_memory_costs_nothing(void **state) {
    (void)state;
    size_t size = (size_t)1 << 30, touched = 1 << 20;
    struct varve_session *session = open_mem("codec=none,fine=64");
    uint8_t *memory = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 3, touched);
    static const int steps[] = {0, -1, 1, 2};
    size_t begin = resident();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(varve_protect(session, "m", memory, size + (size_t)(steps[i] * 4096)), 0);
        memory[touched - 1] = (uint8_t)i;
        assert_int_equal(varve_checkpoint(session, i), 0);
        assert_int_equal(varve_wait(session), 0);
    }
    assert_true(resident() < begin + (64u << 20));
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
    assert_int_equal(memory[touched - 1], 3);
    assert_true(resident() < begin + (64u << 20));
    varve_close(session);
    munmap(memory, 2 * size);
}

/* ---- going on without reading ---- */

static void continued_with_nothing_shared(void **state) {
    static const char *const settings[] = {"codec=none,dedup=none,fine=64", "codec=none,fine_method=basic,fine=64",
                                           "codec=none,fine=64"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        size_t size = 1 << 20;
        uint8_t *memory = malloc(size);
        assert_non_null(memory);
        uint64_t value = 1; /* no chunk twice: then blocks have ids, by which it is found again */
        for (size_t at = 0; at < size; at++)
            memory[at] = (uint8_t)((value = value * 6364136223846793005u + 1442695040888963407u) >> 56);
        struct varve_session *first = open_mem(settings[i]), *session;
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct vv_details stats = {0};
        varve_protect(first, "m", memory, size);
        assert_int_equal(varve_checkpoint(first, 0), 0);
        assert_int_equal(varve_wait(first), 0);
        assert_int_equal(varve_close(first), 0);
        options.settings = settings[i];
        assert_int_equal(varve_open("mem://found", "t", &options, &session, NULL), 0);
        assert_int_equal(varve_continue(session, VARVE_LATEST, NULL), 0);
        varve_protect(session, "m", memory, size);
        memory[5]++;
        assert_int_equal(varve_checkpoint(session, 1), 0);
        assert_int_equal(varve_wait(session), 0);
        assert_int_equal(vv_details_get(session, &stats), 0);
        assert_int_equal(stats.bytes_new, 4096);
        varve_close(session);
        free(memory);
    }
}

/* ---- packed manifests ---- */

static int parse_piece(uint32_t raw, uint32_t stored, uint64_t left) {
    uint8_t head[VV_PIECE_HEAD_SIZE];
    struct vv_manifest_piece piece;
    struct varve_error error = {0};
    vv_put32(head, raw);
    vv_put32(head + 4, stored);
    int rc = vv_manifest_piece_parse(head, left, &piece, &error);
    assert_true(rc == 0 || strstr(error.text, "manifest piece"));
    return rc;
}

static void pieces_that_promise_too_much(void **state) {
    (void)state;
    assert_int_equal(parse_piece(100, 100, 108), 0);
    assert_int_equal(parse_piece(VV_PIECE_MAX, VV_PIECE_MAX / 256, 1 << 20), 0);
    assert_int_equal(parse_piece(0, 0, 100), VARVE_CORRUPT);
    assert_int_equal(parse_piece(100, 0, 200), VARVE_CORRUPT);
    assert_int_equal(parse_piece(100, 101, 200), VARVE_CORRUPT);
    assert_int_equal(parse_piece(100, 100, 107), VARVE_CORRUPT); /* beyond the section */
    assert_int_equal(parse_piece(VV_PIECE_MAX + 1, VV_PIECE_MAX, UINT32_MAX), VARVE_CORRUPT);
    assert_int_equal(parse_piece(VV_PIECE_MAX, VV_PIECE_MAX / 256 - 1, 1 << 20), VARVE_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_in_answers),
        cmocka_unit_test(repeats_are_told_shortly),
        cmocka_unit_test(reserved_memory_costs_nothing),
        cmocka_unit_test(continued_with_nothing_shared),
        cmocka_unit_test(pieces_that_promise_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
