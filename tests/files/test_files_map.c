/* Plans and maps: files are taken apart without a gap, and a map that is not right is refused. */
#include "../test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/map.h"

static void add_file(struct files_list *files, const char *path, uint64_t size) {
    files->list = realloc(files->list, (files->count + 1) * sizeof *files->list);
    files->list[files->count++] =
        (struct files_file){.path = strdup(path), .size = size, .mode = 0644, .mtime = -5, .mtime_ns = 999999999};
    files->bytes += size;
}

static void add_variable(struct files_found *found, const char *name, int is_filtered, uint64_t offset, uint64_t length,
                         size_t count, uint64_t stride) {
    struct files_variable like = {.type = VARVE_F64, .is_filtered = is_filtered};
    assert_int_equal(files_found_variable(found, name, &like), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(files_found_extent(found, offset + i * stride, length), 0);
}

/* Three files: with variables, plain, empty. */
static void make_plan(struct files_plan *plan) {
    struct files_list files = {.count = 0};
    struct files_found found = {.count = 0}, none = {.count = 0};
    add_file(&files, "a/out.h5", 1000000);
    add_file(&files, "b", 12345);
    add_file(&files, "c", 0);
    add_variable(&found, "/whole", 0, 2048, 80000, 1, 0);
    add_variable(&found, "/packed", 1, 100000, 5000, 10, 6000);
    add_variable(&found, "/interleaved", 0, 200000, 8000, 20, 20000);
    assert_int_equal(files_found_check(&found, 1000000), 0);
    files_plan_begin(plan, &files);
    assert_int_equal(files_plan_add(plan, 0, &found), 0);
    assert_int_equal(files_plan_add(plan, 1, &none), 0);
    assert_int_equal(files_plan_add(plan, 2, &none), 0);
    assert_int_equal(files_plan_settle(plan), 0);
    files_found_clear(&found);
}

static int compare_places(const void *a, const void *b) {
    const struct files_piece *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->file_offset < y->file_offset ? -1 : x->file_offset > y->file_offset;
}

/* Every byte of every file is in exactly one piece, and pieces lie in their regions. */
static void check_covers(const struct files_plan *plan) {
    struct files_piece *pieces = calloc(plan->piece_count + 1, sizeof *pieces);
    size_t at = 0;
    memcpy(pieces, plan->pieces, plan->piece_count * sizeof *pieces);
    qsort(pieces, plan->piece_count, sizeof *pieces, compare_places);
    for (uint32_t i = 0; i < plan->files.count; i++) {
        uint64_t end = 0;
        for (; at < plan->piece_count && pieces[at].file == i; at++) {
            assert_int_equal(pieces[at].file_offset, end);
            end += pieces[at].length;
        }
        assert_int_equal(end, plan->files.list[i].size);
    }
    assert_int_equal(at, plan->piece_count);
    for (size_t i = 0; i < plan->piece_count; i++)
        assert_true(plan->pieces[i].region_offset + plan->pieces[i].length <=
                    plan->regions[plan->pieces[i].region].length);
    free(pieces);
}

static void test_plan(void **state) {
    (void)state;
    struct files_plan plan;
    make_plan(&plan);
    assert_int_equal(plan.region_count, 5);
    assert_string_equal(plan.regions[0].name, "a/out.h5:/whole");
    assert_string_equal(plan.regions[3].name, "a/out.h5");
    assert_string_equal(plan.regions[4].name, "b");
    assert_int_equal(plan.regions[1].length, 9 * 8192 + 5000); /* each packed piece begins at a granule */
    assert_int_equal(plan.regions[2].length, 20 * 8000);
    check_covers(&plan);
    files_plan_clear(&plan);
}

static void test_names(void **state) {
    (void)state;
    struct files_list files = {.count = 0};
    struct files_found found = {.count = 0}, none = {.count = 0};
    struct files_plan plan;
    char path[600];
    memset(path, 'x', sizeof path);
    memcpy(path + 200, "/", 1);
    memcpy(path + 400, "/", 1);
    path[599] = '\0';
    add_file(&files, ":files", 10);
    add_file(&files, "a", 100000);
    add_file(&files, "a:b", 10);
    add_file(&files, path, 10);
    path[598] = 'y';
    add_file(&files, path, 10);
    add_variable(&found, "b", 0, 0, 50000, 1, 0);
    add_variable(&found, "b", 0, 50000, 8000, 1, 0);
    files_plan_begin(&plan, &files);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(files_plan_add(&plan, i, i == 1 ? &found : &none), 0);
    assert_int_equal(files_plan_settle(&plan), 0);
    for (size_t i = 0; i < plan.region_count; i++) {
        assert_true(strlen(plan.regions[i].name) <= 255);
        assert_string_not_equal(plan.regions[i].name, FILES_MAP_REGION);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(plan.regions[i].name, plan.regions[j].name);
    }
    assert_string_equal(plan.regions[plan.region_count - 1].full, path);
    check_covers(&plan);
    files_found_clear(&found);
    files_plan_clear(&plan);
}

static void test_many_files_share_a_rest(void **state) {
    (void)state;
    struct files_list files = {.count = 0};
    struct files_found none = {.count = 0};
    struct files_plan plan;
    char path[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(path, sizeof path, "%06d", i);
        if (files.count == files.capacity) {
            files.capacity = 2 * files.capacity + 64;
            files.list = realloc(files.list, files.capacity * sizeof *files.list);
        }
        files.list[files.count++] = (struct files_file){.path = strdup(path), .size = (uint64_t)i % 5000};
    }
    files_plan_begin(&plan, &files);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(files_plan_add(&plan, i, &none), 0);
    assert_int_equal(files_plan_settle(&plan), 0);
    assert_int_equal(plan.region_count, 1);
    check_covers(&plan);
    uint8_t *data;
    size_t size;
    struct files_plan again;
    struct varve_error error;
    assert_int_equal(files_map_encode(&plan, &data, &size), 0);
    assert_int_equal(files_map_parse(data, size, &again, &error), 0);
    check_covers(&again);
    files_plan_clear(&again);
    free(data);
    files_plan_clear(&plan);
}

static void test_round_trip(void **state) {
    (void)state;
    struct files_plan plan, again;
    struct varve_error error;
    uint8_t *data, *twice;
    size_t size, twice_size;
    make_plan(&plan);
    assert_int_equal(files_map_encode(&plan, &data, &size), 0);
    assert_int_equal(files_map_parse(data, size, &again, &error), 0);
    assert_int_equal(again.files.count, 3);
    assert_string_equal(again.files.list[1].path, "b");
    assert_int_equal(again.files.list[1].mode, 0644);
    assert_int_equal(again.files.list[1].mtime, -5);
    assert_int_equal(again.piece_count, plan.piece_count);
    assert_memory_equal(again.pieces, plan.pieces, plan.piece_count * sizeof *plan.pieces);
    check_covers(&again);
    assert_int_equal(files_map_encode(&again, &twice, &twice_size), 0);
    assert_int_equal(twice_size, size);
    assert_memory_equal(twice, data, size);
    free(data);
    free(twice);
    files_plan_clear(&plan);
    files_plan_clear(&again);
}

/* Cut anywhere or changed anywhere it is refused, or is still a map that covers its files. */
static void test_damage(void **state) {
    (void)state;
    struct files_plan plan, again;
    struct varve_error error;
    uint8_t *data;
    size_t size;
    make_plan(&plan);
    assert_int_equal(files_map_encode(&plan, &data, &size), 0);
    files_plan_clear(&plan);
    for (size_t i = 0; i < size; i++) {
        assert_true(files_map_parse(data, i, &again, &error) < 0);
        for (int bit = 0; bit < 8; bit++) {
            data[i] ^= (uint8_t)(1 << bit);
            if (files_map_parse(data, size, &again, &error) == 0) {
                check_covers(&again);
                files_plan_clear(&again);
            }
            data[i] ^= (uint8_t)(1 << bit);
        }
    }
    free(data);
}

struct hostile {
    const char *what;
    const char *bytes; /* behind the magic */
    size_t size;
};
#define HOSTILE(what, bytes)                                                                                           \
    { what, bytes, sizeof bytes - 1 }

static void test_hostile(void **state) {
    (void)state;
    static const struct hostile maps[] = {
        HOSTILE("version 3", "\3\0\0"),
        HOSTILE("absolute path", "\1\1\1r\4\0\1\2/a\4\0\0\0\1\0\0\4"),
        HOSTILE("leads out", "\1\1\1r\4\0\1\4../a\4\0\0\0\1\0\0\4"),
        HOSTILE("leads out in the middle", "\1\1\1r\4\0\1\6a/../b\4\0\0\0\1\0\0\4"),
        HOSTILE("empty path", "\1\1\1r\4\0\1\0\4\0\0\0\1\0\0\4"),
        HOSTILE("a zero byte in a path", "\1\1\1r\4\0\1\3a\0b\4\0\0\0\1\0\0\4"),
        HOSTILE("the same path twice", "\1\1\1r\4\0\2\1a\4\0\0\0\1\0\0\4\1a\0\0\0\0\0"),
        HOSTILE("too short a file", "\1\1\1r\4\0\1\1a\5\0\0\0\1\0\0\4"),
        HOSTILE("beyond its region", "\1\1\1r\4\0\1\1a\5\0\0\0\1\0\0\5"),
        HOSTILE("before its region", "\1\1\1r\4\0\1\1a\4\0\0\0\1\0\1\4"),
        HOSTILE("no such region", "\1\1\1r\4\0\1\1a\4\0\0\0\1\2\0\4"),
        HOSTILE("region below 0", "\1\1\1r\4\0\1\1a\4\0\0\0\1\1\0\4"),
        HOSTILE("a piece of nothing", "\1\1\1r\4\0\1\1a\4\0\0\0\2\0\0\4\0\0\0"),
        HOSTILE("bytes twice", "\1\1\1r\4\0\1\1a\10\0\0\0\2\0\0\4\0\7\4"),
        HOSTILE("setting of the map itself", "\1\1\6:files\4\0\1\1a\4\0\0\0\1\0\0\4"),
        HOSTILE("more files than bytes", "\1\0\377\377\1"),
        HOSTILE("long number", "\1\200\0\0"),
        HOSTILE("number of 70 bits", "\1\377\377\377\377\377\377\377\377\377\177\0"),
        HOSTILE("bytes behind", "\1\0\0\0\1"),
        HOSTILE("strange permissions", "\1\1\1r\4\0\1\1a\4\200\40\0\0\1\0\0\4"),
        HOSTILE("strange time", "\1\1\1r\4\0\1\1a\4\0\0\200\224\353\334\3\1\0\0\4"),
        HOSTILE("least number", "\1\1\1r\4\0\1\1a\4\0\0\0\1\0\377\377\377\377\377\377\377\377\377\1\4"),
    };
    struct files_plan plan;
    struct varve_error error;
    char data[256] = "VarveMap";
    static const char good[] = "\1\1\1r\4\0\1\1a\4\0\0\0\1\0\0\4";
    memcpy(data + 8, good, sizeof good - 1);
    assert_int_equal(files_map_parse((uint8_t *)data, 8 + sizeof good - 1, &plan, &error), 0);
    files_plan_clear(&plan);
    assert_int_equal(files_map_parse((uint8_t *)data, sizeof data, &plan, &error), 0); /* zeros behind it */
    files_plan_clear(&plan);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        memcpy(data + 8, maps[i].bytes, maps[i].size);
        int rc = files_map_parse((uint8_t *)data, 8 + maps[i].size, &plan, &error);
        if (rc != (i == 0 ? VARVE_UNKNOWN_FORMAT : VARVE_CORRUPT))
            fail_msg("%s: %d", maps[i].what, rc);
    }
}

static void test_paths(void **state) {
    (void)state;
    static const char *const good[] = {"a", "a/b", "...", "a b", ".a", "a.", "a..b/c"};
    static const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "../a", "a/../b"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(files_is_path(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(files_is_path(bad[i]));
}

static void add_array(struct files_found *found, const char *name, int type, uint64_t first, uint64_t second,
                      uint64_t offset) {
    struct files_variable like = {.type = type, .dims = 2, .dim = {first, second}};
    assert_int_equal(files_found_variable(found, name, &like), 0);
    assert_int_equal(files_found_extent(found, offset, 8192), 0);
}

/* The same variable of all files stands together, wherever the files have it; and the map is as good as before. */
static void test_order(void **state) {
    (void)state;
    static const char *const expected[] = {"a:1/x:u", "b:u", "c:u",   "a:1/x:v", "b:v", "b:w",
                                           "c:u~",    "c:w", "a:1/x", "b",       "c",   "d"};
    struct files_list files = {.count = 0};
    struct files_found found[3] = {{.count = 0}}, none = {.count = 0};
    struct files_plan plan, again;
    struct varve_error error = {0};
    uint8_t *map = NULL;
    size_t size = 0;
    add_file(&files, "a:1/x", 30000);
    add_file(&files, "b", 30000);
    add_file(&files, "c", 30000);
    add_file(&files, "d", 10);
    add_array(&found[0], "u", VARVE_F64, 32, 32, 4096);
    add_array(&found[0], "v", VARVE_F64, 32, 32, 16384);
    add_array(&found[1], "w", VARVE_F64, 32, 32, 100);
    add_array(&found[1], "v", VARVE_F64, 32, 32, 8292);
    add_array(&found[1], "u", VARVE_F64, 32, 32, 16484);
    add_array(&found[2], "u", VARVE_F64, 16, 64, 20000); /* another shape: another variable, though of the same name */
    add_array(&found[2], "w", VARVE_F32, 32, 64, 10000); /* another type */
    add_array(&found[2], "u", VARVE_F64, 32, 32, 0);
    files_plan_begin(&plan, &files);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(files_plan_add(&plan, i, i < 3 ? &found[i] : &none), 0);
    assert_int_equal(files_plan_settle(&plan), 0);
    assert_int_equal(plan.region_count, 12);
    unsigned twins = 0;
    for (size_t i = 0; i < 12; i++) {
        const char *full = plan.regions[i].full ? plan.regions[i].full : plan.regions[i].name;
        size_t length = strcspn(expected[i], "~");
        assert_int_equal(strlen(full), length);
        assert_memory_equal(full, expected[i], length);
        twins += plan.regions[i].full != NULL;
    }
    assert_int_equal(twins, 1);
    check_covers(&plan);
    assert_int_equal(files_map_encode(&plan, &map, &size), 0);
    assert_int_equal(files_map_parse(map, size, &again, &error), 0);
    assert_int_equal(again.region_count, 12);
    assert_int_equal(again.piece_count, plan.piece_count);
    assert_memory_equal(again.pieces, plan.pieces, plan.piece_count * sizeof *plan.pieces);
    check_covers(&again);
    free(map);
    files_plan_clear(&again);
    files_plan_clear(&plan);
    for (int i = 0; i < 3; i++)
        files_found_clear(&found[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),      cmocka_unit_test(test_plan),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_many_files_share_a_rest),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_hostile),    cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
