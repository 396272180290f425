/* Reading one region after the other through one handle: what stays open in between changes nothing but the time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/bytes.h"
#include "format/object.h"
#include "storage/storage.h"
#include "test.h"

#define URI "mem://readon"
#define PACK "n/r/data/00000001/0000000000000001/00000000/00000000"
#define COUNT 24
#define SIZE 12288u

static uint8_t data[COUNT][SIZE];
static struct varve_store *store;
static struct varve_which which;

struct reading {
    uint8_t bytes[SIZE];
    int inner;   /* read this one meanwhile, -1: none */
    int stop_at; /* return this */
};

static void name_of(char out[24], int number) {
    snprintf(out, 24, "region-%02d", number);
}

static int read_region(int number, struct reading *reading, struct varve_error *error);

static int take(void *arg, uint64_t offset, const void *bytes, size_t size, uint64_t total) {
    struct reading *reading = arg;
    assert_true(total == SIZE && offset + size <= total);
    memcpy(reading->bytes + offset, bytes, size);
    if (reading->inner >= 0) {
        struct reading inner = {.inner = -1};
        struct varve_error error;
        assert_int_equal(read_region(reading->inner, &inner, &error), 0);
        assert_memory_equal(inner.bytes, data[reading->inner], SIZE);
    }
    return reading->stop_at;
}

static int read_region(int number, struct reading *reading, struct varve_error *error) {
    char name[24];
    name_of(name, number);
    memset(reading->bytes, 0x5a, SIZE);
    return varve_store_read(store, &which, 0, name, 0, take, reading, error);
}

static void expect(int number, int inner) {
    struct reading reading = {.inner = inner};
    struct varve_error error = {0};
    if (read_region(number, &reading, &error) != 0)
        fail_msg("region %d: %s", number, error.text);
    assert_memory_equal(reading.bytes, data[number], SIZE);
}

static int setup(void **state) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error = {0};
    (void)state;
    options.settings = "log=error,codec=zstd,block_size=128K,threads=1";
    if (varve_open(URI, "r", &options, &session, &error) != 0)
        fail_msg("open: %s", error.text);
    for (int i = 0; i < COUNT; i++) {
        char name[24];
        name_of(name, i);
        for (unsigned j = 0; j < SIZE; j++)
            data[i][j] = (uint8_t)(j % (unsigned)(7 + i) + (unsigned)i);
        varve_protect(session, name, data[i], SIZE);
    }
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_wait(session), 0);
    varve_close(session);
    assert_int_equal(varve_store_open(URI, NULL, &store, &error), 0);
    which = (struct varve_which){"r", 0, -1};
    assert_int_equal(varve_store_resolve(store, &which, &error), 0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    varve_store_close(store);
    vv_mem_drop("readon");
    return 0;
}

static void any_order(void **state) {
    (void)state;
    for (int i = 0; i < COUNT; i++)
        expect(i, -1);
    for (int i = COUNT; i-- > 0;)
        expect(i, -1);
    for (int i = 0; i < 3 * COUNT; i++)
        expect(i * 7 % COUNT, -1);
    expect(5, -1);
    expect(5, -1);
}

static void one_within_another(void **state) {
    (void)state;
    for (int i = 0; i < COUNT; i++)
        expect(i, (i * 5 + 3) % COUNT);
}

static void stopped_half_way(void **state) {
    struct reading reading = {.inner = -1, .stop_at = -ECANCELED};
    struct varve_error error;
    (void)state;
    expect(2, -1);
    assert_int_equal(read_region(3, &reading, &error), -ECANCELED);
    expect(4, -1);
    expect(3, -1);
    assert_int_equal(varve_store_read(store, &which, 0, "nobody", 0, take, &reading, &error), VARVE_MISMATCH);
    expect(6, -1);
}

/* A block that was decoded a moment ago is still looked at each time. */
static void damage_shows(void **state) {
    struct varve_backend *backend;
    struct varve_error error;
    struct reading reading = {.inner = -1};
    struct vv_buf buf;
    (void)state;
    expect(0, -1);
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_open(URI, NULL, &backend, NULL), 0);
    assert_int_equal(vv_backend_get_all(backend, PACK, 1 << 30, &buf), 0);
    buf.data[VV_HEAD_SIZE + 20] ^= 1; /* in the first block */
    assert_int_equal(vv_backend_replace(backend, PACK, buf.data, buf.size), 0);
    assert_int_equal(read_region(1, &reading, &error), VARVE_CORRUPT);
    buf.data[VV_HEAD_SIZE + 20] ^= 1;
    assert_int_equal(vv_backend_replace(backend, PACK, buf.data, buf.size), 0);
    expect(1, -1);
    vv_buf_clear(&buf);
    vv_backend_close(backend);
}

static void what_is_forgotten_is_gone(void **state) {
    struct varve_error error;
    struct reading reading = {.inner = -1};
    (void)state;
    expect(0, -1);
    assert_int_equal(varve_store_forget(store, &which, &error), 0);
    assert_true(read_region(1, &reading, &error) < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(one_within_another, setup, teardown),
        cmocka_unit_test_setup_teardown(stopped_half_way, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_shows, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_forgotten_is_gone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
