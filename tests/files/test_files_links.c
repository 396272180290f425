/* Symbolic links: a map keeps them, and whoever gives files back never writes through one. */
#include "../test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/map.h"
#include "files/place.h"

static void add_entry(struct files_list *files, const char *path, const char *target) {
    files->list = realloc(files->list, (files->count + 1) * sizeof *files->list);
    files->list[files->count++] = (struct files_file){
        .path = strdup(path), .target = target ? strdup(target) : NULL, .mode = 0777, .mtime = 1000, .mtime_ns = 7};
}

/* ---- the map ---- */

static uint8_t *encode(const char *target, size_t *size) {
    struct files_list files = {.count = 0};
    struct files_plan plan;
    uint8_t *data = NULL;
    add_entry(&files, "a", target);
    add_entry(&files, "b", NULL);
    files_plan_begin(&plan, &files);
    assert_int_equal(files_plan_settle(&plan), 0);
    assert_int_equal(files_map_encode(&plan, &data, size), 0);
    files_plan_clear(&plan);
    return data;
}

static int parse(const uint8_t *data, size_t size) {
    struct files_plan plan;
    struct varve_error error;
    int rc = files_map_parse(data, size, &plan, &error);
    if (rc == 0)
        files_plan_clear(&plan);
    return rc;
}

static void test_map(void **state) {
    (void)state;
    struct files_plan plan;
    struct varve_error error;
    size_t size;
    uint8_t *data = encode("../x", &size);
    assert_int_equal(data[8], 2);
    assert_int_equal(files_map_parse(data, size, &plan, &error), 0);
    assert_int_equal(plan.files.count, 2);
    assert_string_equal(plan.files.list[0].target, "../x");
    assert_int_equal(plan.files.list[0].mode, 0777);
    assert_null(plan.files.list[1].target);
    files_plan_clear(&plan);
    free(data);
    data = encode(NULL, &size); /* older readers know everything in it */
    assert_int_equal(data[8], 1);
    assert_int_equal(parse(data, size), 0);
    free(data);
}

/* magic, version, no regions, 2 files; "a", size, mode (3 bytes), time (2 + 1), pieces, target "../x" */
enum { AT_VERSION = 8, AT_SIZE = 13, AT_MODE = 14, AT_PIECES = 20, AT_TARGET = 21 };

static void test_hostile_map(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {
        {AT_VERSION, 1},    /* no links there */
        {AT_VERSION, 3},    /* nobody knows it */
        {AT_SIZE, 1},       /* a link with bytes */
        {AT_MODE + 2, 1},   /* neither a file nor a link */
        {AT_MODE + 2, 3},   /* neither */
        {AT_PIECES, 1},     /* a link with pieces */
        {AT_TARGET, 0},     /* it leads nowhere */
        {AT_TARGET, 127},   /* behind the end */
        {AT_TARGET + 2, 0}, /* a zero byte in it */
    };
    size_t size;
    uint8_t *data = encode("../x", &size);
    assert_memory_equal(data + AT_TARGET, "\4../x", 5);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t old = data[changes[i].at];
        data[changes[i].at] = changes[i].value;
        assert_int_not_equal(parse(data, size), 0);
        data[changes[i].at] = old;
    }
    for (size_t i = 0; i < size; i++)
        assert_int_not_equal(parse(data, i), 0);
    assert_int_equal(parse(data, size), 0);
    free(data);
}

/* ---- giving back ---- */

struct world {
    char folder[40], outside[40];
    struct files_place place;
    struct files_list files;
};

static void open_world(struct world *world, int is_forced) {
    struct varve_error error;
    *world = (struct world){.folder = "/tmp/varve-links.XXXXXX", .outside = "/tmp/varve-outside.XXXXXX"};
    assert_non_null(mkdtemp(world->folder));
    assert_non_null(mkdtemp(world->outside));
    add_entry(&world->files, "a", world->outside);
    add_entry(&world->files, "a/b", NULL);
    world->place.folder = open(world->folder, O_RDONLY | O_DIRECTORY);
    world->place.is_forced = is_forced;
    assert_int_equal(files_place_open(&world->place, &world->files, &error), 0);
}

/* Nothing may have come there. */
static void close_world(struct world *world) {
    char command[128];
    assert_int_equal(rmdir(world->outside), 0);
    files_place_close(&world->place);
    close(world->place.folder);
    files_list_clear(&world->files);
    snprintf(command, sizeof command, "rm -r %s", world->folder);
    assert_int_equal(system(command), 0);
}

static void test_link(void **state) {
    (void)state;
    struct world world;
    struct varve_error error;
    struct stat there;
    char target[64] = "";
    open_world(&world, 0);
    assert_int_equal(files_place_begin(&world.place, 0, &error), 0);
    assert_int_equal(fstatat(world.place.folder, "a", &there, AT_SYMLINK_NOFOLLOW), -1); /* not yet */
    assert_int_equal(files_place_finish(&world.place, 0, &error), 0);
    assert_int_equal(files_place_settle(&world.place, &error), 0);
    assert_true(readlinkat(world.place.folder, "a", target, sizeof target - 1) > 0);
    assert_string_equal(target, world.outside);
    assert_int_equal(fstatat(world.place.folder, "a", &there, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(there.st_mtim.tv_sec, 1000);
    /* The map goes on with a file behind the link. */
    assert_int_not_equal(files_place_begin(&world.place, 1, &error), 0);
    assert_non_null(strstr(error.text, "a link"));
    close_world(&world);
}

/* Both at once: the folder is there first, and no link takes its place. */
static void test_link_and_folder(void **state) {
    (void)state;
    for (int is_forced = 0; is_forced < 2; is_forced++) {
        struct world world;
        struct varve_error error;
        open_world(&world, is_forced);
        assert_int_equal(files_place_begin(&world.place, 0, &error), 0);
        assert_int_equal(files_place_begin(&world.place, 1, &error), 0);
        assert_int_equal(files_place_finish(&world.place, 0, &error), 0);
        assert_int_equal(files_place_finish(&world.place, 1, &error), 0);
        assert_int_not_equal(files_place_settle(&world.place, &error), 0);
        files_place_drop(&world.place, 0);
        files_place_drop(&world.place, 1);
        close_world(&world);
    }
}

static void test_drop(void **state) {
    (void)state;
    struct world world;
    struct varve_error error;
    open_world(&world, 0);
    assert_int_equal(files_place_begin(&world.place, 0, &error), 0);
    files_place_drop(&world.place, 0);
    assert_int_equal(rmdir(world.folder), 0); /* it is empty */
    assert_int_equal(mkdir(world.folder, 0700), 0);
    close_world(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),  cmocka_unit_test(test_hostile_map),     cmocka_unit_test(test_link),
        cmocka_unit_test(test_drop), cmocka_unit_test(test_link_and_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
