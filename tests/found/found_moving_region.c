/* Arrays that move and grow had to be protected again before every checkpoint, and a program without a hook before its
 * reallocation lost the checkpoint in flight (-EFAULT). A region of varve_protect_moving is asked where it is at each
 * checkpoint, and its memory may be freed or moved at any time between calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <varve/varve.h>

#include "details.h"
#include "ranks.h"
#include "test.h"

struct list {
    uint64_t *items;
    size_t count;
    int asked;
    int answer;   /* what the function returns */
    int is_typed; /* it tells an array */
    unsigned flags;
};

static int where(void *arg, struct varve_memory *out) {
    struct list *list = arg;
    list->asked++;
    if (list->answer)
        return list->answer;
    assert_true(out->size >= sizeof *out && out->array.dims == 0 && out->ptr == NULL);
    out->ptr = list->items;
    out->bytes = list->count * 8;
    out->array.flags = list->flags;
    if (list->is_typed) {
        out->bytes = 0;
        out->array.type = VARVE_U64;
        out->array.dims = 1;
        out->array.dim[0].local = list->count;
    }
    return 0;
}

static void *give(void *arg, const struct varve_region_info *region) {
    struct list *list = arg;
    if (strcmp(region->name, "list") != 0)
        return VARVE_NOT_WANTED;
    list->count = region->bytes / 8;
    return list->items = malloc(region->bytes);
}

static void take_back(void *arg, const char *region, void *ptr) {
    struct list *list = arg;
    (void)region;
    free(ptr);
    list->items = NULL;
    list->count = 0;
}

static const struct varve_allocator allocator = {.size = sizeof allocator, .alloc = give, .release = take_back};

static struct varve_session *open_at(const char *query, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    char address[512], all[256];
    snprintf(address, sizeof address, "file://%s/store%s", ranks_folder(), query);
    snprintf(all, sizeof all, "keep=0,log=error,codec=none,fine=1,%s", settings);
    options.settings = all;
    if (varve_open(address, "job", &options, &session, &error) != 0)
        fail_msg("%s", error.text);
    return session;
}

static uint64_t value(size_t i, int64_t version) {
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)version * (i % 1000 == 0);
}

/* As many items as this version has, somewhere else than before. */
static void reallocate(struct list *list, int64_t version, size_t count) {
    uint64_t *items = malloc(count * 8 + 64);
    free(list->items);
    list->items = items;
    list->count = count;
    for (size_t i = 0; i < count; i++)
        items[i] = value(i, version);
}

static void expect_version(int64_t version, size_t count) {
    struct list list = {0};
    struct varve_session *session = open_at("", "threads=0");
    assert_int_equal(varve_restart_alloc(session, version, &allocator, &list, NULL), 0);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++)
        if (list.items[i] != value(i, version))
            fail_msg("version %d, item %zu is wrong", (int)version, i);
    assert_int_equal(varve_close(session), 0);
    free(list.items);
}

static const size_t counts[] = {100000, 150000, 150001, 20000, 1, 0, 300000};

static void move_and_grow(const char *settings) {
    struct list list = {0};
    struct varve_session *session = open_at("", settings);
    assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
    assert_int_equal(list.asked, 0);
    for (int version = 0; version < 7; version++) {
        reallocate(&list, version, counts[version]);
        assert_int_equal(varve_checkpoint(session, version), 0);
        assert_int_equal(list.asked, version + 1);
    }
    assert_int_equal(varve_close(session), 0);
    for (int version = 0; version < 7; version++)
        expect_version(version, counts[version]);
    free(list.items);
}

static void moves_and_grows(void **state) {
    static const char *const settings[] = {"capture=auto", "capture=sync", "staging=1M", "tracker=none"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        move_and_grow(settings[i]);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* What stays where it is costs nothing; what has grown stores the new part. */
static void only_what_is_new(void **state) {
    struct list list = {0};
    struct vv_details stats = {0};
    (void)state;
    struct varve_session *session = open_at("", "threads=0");
    assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
    reallocate(&list, 1, 512 * 400);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_checkpoint(session, 2), 0);
    assert_int_equal(vv_details_get(session, &stats), 0);
    assert_int_equal(stats.bytes_changed, 0);
    reallocate(&list, 1, 512 * 500);
    assert_int_equal(varve_checkpoint(session, 3), 0);
    assert_int_equal(vv_details_get(session, &stats), 0);
    assert_true(stats.bytes_changed >= 100 * 4096 && stats.bytes_changed < 120 * 4096);
    assert_true(stats.bytes_new < 120 * 4096);
    assert_int_equal(varve_close(session), 0);
    free(list.items);
}

/* The memory goes as soon as the call has returned, long before everything is stored. */
static void may_go_in_flight(void **state) {
    const size_t bytes = 8 << 20;
    struct list list = {0};
    (void)state;
    struct varve_session *session = open_at("?limit=20MB", "staging=1M,capture=auto");
    assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
    for (int version = 1; version <= 2; version++) {
        list.count = bytes / 8;
        list.items = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t i = 0; i < list.count; i++)
            list.items[i] = value(i, version) * (uint64_t)version;
        assert_int_equal(varve_checkpoint(session, version), 0);
        munmap(list.items, bytes);
        assert_int_equal(varve_wait(session), 0);
    }
    list.count = 0;
    list.items = NULL;
    assert_int_equal(varve_checkpoint(session, 3), 0);
    assert_int_equal(varve_restart_alloc(session, 2, &allocator, &list, NULL), 0);
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i] != value(i, 2) * 2)
            fail_msg("item %zu is wrong", i);
    assert_int_equal(varve_close(session), 0);
    free(list.items);
}

/* Freed, and by chance allocated at the same place with the same size: no protection was changed, but all bytes were.
 */
static void the_same_place_again(void **state) {
    static const char *const settings[] = {"tracker=auto", "tracker=none", "tracker=trap-uffd", "capture=sync"};
    const size_t bytes = 2 << 20;
    (void)state;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        struct list list = {.count = bytes / 8};
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session;
        struct varve_error error;
        options.settings = settings[k];
        if (varve_open("mem://same-place", "probe", &options, &session, &error) != 0)
            continue; /* not on this kernel */
        assert_int_equal(varve_close(session), 0);
        session = open_at("", settings[k]);
        assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
        for (int version = 1; version <= 4; version++) {
            list.items = mmap(list.items, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | (list.items ? MAP_FIXED : 0), -1, 0);
            assert_ptr_not_equal(list.items, MAP_FAILED);
            for (size_t i = 0; i < list.count && version != 3; i++) /* 3: zeros, nothing is touched */
                list.items[i] = value(i, version) * (uint64_t)version;
            assert_int_equal(varve_checkpoint(session, version), 0);
        }
        for (int version = 1; version <= 4; version++) {
            assert_int_equal(varve_restart(session, version, NULL), 0);
            for (size_t i = 0; i < list.count; i++)
                if (list.items[i] != (version == 3 ? 0 : value(i, version) * (uint64_t)version))
                    fail_msg("%s: version %d, item %zu is wrong", settings[k], version, i);
        }
        assert_int_equal(varve_close(session), 0);
        munmap(list.items, bytes);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

static void what_the_function_says(void **state) {
    struct list list = {.answer = -EAGAIN};
    (void)state;
    struct varve_session *session = open_at("", "threads=0");
    assert_int_equal(varve_protect_moving(NULL, "list", where, &list), -EINVAL);
    assert_int_equal(varve_protect_moving(session, "", where, &list), -EINVAL);
    assert_int_equal(varve_protect_moving(session, "list", NULL, &list), -EINVAL);
    assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
    assert_int_equal(varve_checkpoint(session, 1), -EAGAIN);
    assert_non_null(strstr(varve_session_error(session)->text, "region list"));
    list.answer = 3;
    assert_int_equal(varve_checkpoint(session, 1), -EIO);
    list.answer = 0;
    list.count = 5; /* and no memory */
    assert_int_equal(varve_checkpoint(session, 1), -EINVAL);
    list.count = 0;
    list.flags = 1u << 30;
    assert_int_equal(varve_checkpoint(session, 1), -EINVAL);
    list.flags = VARVE_DEVICE_WRITES;
    reallocate(&list, 1, 1000);
    list.is_typed = 1;
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_close(session), 0);
    expect_version(1, 1000);
    free(list.items);
}

static int see_array(void *arg, const struct varve_region_info *region) {
    struct varve_array *array = arg;
    *array = *region->array;
    return 0;
}

static void an_array_is_stored(void **state) {
    struct list list = {.is_typed = 1};
    struct varve_array array = {0};
    (void)state;
    struct varve_session *session = open_at("", "threads=0");
    assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
    for (int version = 1; version <= 2; version++) {
        reallocate(&list, version, 700 * (size_t)version);
        assert_int_equal(varve_checkpoint(session, version), 0);
        assert_int_equal(varve_stored(session, version, see_array, &array, NULL), 0);
        assert_int_equal(array.type, VARVE_U64);
        assert_int_equal(array.dim[0].local, 700 * (size_t)version);
    }
    assert_int_equal(varve_close(session), 0);
    free(list.items);
}

/* A damaged checkpoint: the memory given for it goes back, and the region is still one that moves. */
static void restarts(void **state) {
    struct list list = {0};
    char path[600];
    int64_t version = -1;
    uint8_t byte = 0;
    (void)state;
    struct varve_session *session = open_at("", "threads=0");
    assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
    for (int i = 1; i <= 2; i++) {
        reallocate(&list, i, 3000 * (size_t)i);
        assert_int_equal(varve_checkpoint(session, i), 0);
    }
    assert_int_equal(varve_restart(session, 1, NULL), VARVE_MISMATCH); /* another size */
    memset(list.items, 0, list.count * 8);
    assert_int_equal(varve_restart(session, 2, NULL), 0);
    assert_int_equal(list.items[5999], value(5999, 2));
    assert_int_equal(varve_close(session), 0);
    snprintf(path, sizeof path, "%s/store/n/job/data/00000001/0000000000000002/00000000/00000000", ranks_folder());
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 9000) == 1);
    byte ^= 8;
    assert_int_equal(pwrite(fd, &byte, 1, 9000), 1);
    close(fd);
    session = open_at("", "threads=0");
    list.count = 0;
    assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
    free(list.items);
    list.items = NULL;
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, &version), 0);
    assert_int_equal(version, 1);
    assert_int_equal(list.count, 3000);
    reallocate(&list, 3, 9000);
    assert_int_equal(varve_checkpoint(session, 3), 0);
    assert_int_equal(varve_close(session), 0);
    expect_version(3, 9000);
    free(list.items);
}

/* It can become an ordinary region, and the reverse. */
static void changes_its_kind(void **state) {
    struct list list = {0};
    uint64_t fixed[100];
    (void)state;
    struct varve_session *session = open_at("", "threads=0");
    assert_int_equal(varve_protect(session, "list", fixed, sizeof fixed), 0);
    assert_int_equal(varve_protect_moving(session, "list", where, &list), 0);
    reallocate(&list, 1, 2000);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    for (size_t i = 0; i < 100; i++)
        fixed[i] = value(i, 2);
    assert_int_equal(varve_protect(session, "list", fixed, sizeof fixed), 0);
    assert_int_equal(varve_checkpoint(session, 2), 0);
    assert_int_equal(list.asked, 1);
    assert_int_equal(varve_unprotect(session, "list"), 0);
    assert_int_equal(varve_close(session), 0);
    expect_version(1, 2000);
    expect_version(2, 100);
    free(list.items);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(moves_and_grows, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(only_what_is_new, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(may_go_in_flight, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(the_same_place_again, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(what_the_function_says, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(an_array_is_stored, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(restarts, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(changes_its_kind, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
