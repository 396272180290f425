/* Files get their names when their data is on storage, and nothing of anybody else's is touched. */
#include "../test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/place.h"

#define COUNT (FILES_WAITING_MOST + 5u)

struct world {
    char folder[32];
    struct files_place place;
    struct files_list files;
    uint8_t is_dirty[COUNT]; /* written since the last wait for storage */
    unsigned named, waits, named_at_wait;
};

static struct world *now;

/* In the place of the system's: what would be on storage after a crash. */
int syncfs(int fd) {
    (void)fd;
    memset(now->is_dirty, 0, sizeof now->is_dirty);
    now->waits++;
    now->named_at_wait = now->named;
    return 0;
}

static void on_named(void *arg, uint32_t number) {
    struct world *world = arg;
    assert_int_equal(world->is_dirty[number], 0);
    world->named++;
}

static void open_world(struct world *world, const char *const *paths, uint32_t count) {
    struct varve_error error;
    *world = (struct world){.folder = "/tmp/varve-place.XXXXXX"};
    now = world;
    assert_non_null(mkdtemp(world->folder));
    world->files.list = calloc(count, sizeof *world->files.list);
    world->files.count = count;
    for (uint32_t i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "sub/%u", i);
        world->files.list[i] = (struct files_file){.path = strdup(paths ? paths[i] : path), .size = 5, .mode = 0640};
    }
    world->place.folder = open(world->folder, O_RDONLY | O_DIRECTORY);
    world->place.named = on_named;
    world->place.arg = world;
    assert_int_equal(files_place_open(&world->place, &world->files, &error), 0);
}

static void close_world(struct world *world) {
    char command[64];
    for (uint32_t i = 0; i < world->files.count; i++)
        files_place_drop(&world->place, i);
    files_place_close(&world->place);
    close(world->place.folder);
    files_list_clear(&world->files);
    snprintf(command, sizeof command, "rm -r %s", world->folder);
    assert_int_equal(system(command), 0);
}

static int write_file(struct world *world, uint32_t number, struct varve_error *error) {
    world->is_dirty[number] = 1;
    return files_place_write(&world->place, number, 0, "hello", 5, error);
}

static void put(struct world *world, const char *name, const char *text) {
    int fd = openat(world->place.folder, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static int has(struct world *world, const char *name, const char *text) {
    char buffer[64] = "";
    int fd = openat(world->place.folder, name, O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof buffer - 1);
    if (fd >= 0)
        close(fd);
    return got >= 0 && !strcmp(buffer, text);
}

/* The names in the folder; the one of a temporary is written to out. */
static unsigned list(struct world *world, char out[256]) {
    unsigned count = 0;
    DIR *folder = opendir(world->folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
        if (!strncmp(entry->d_name, ".varve-", 7))
            snprintf(out, 256, "%s", entry->d_name);
    }
    closedir(folder);
    return count;
}

/* What has its name is on storage, in the end the names as well, and there are few waits for very many files. */
static void test_order(void **state) {
    (void)state;
    struct world world;
    struct varve_error error;
    open_world(&world, NULL, COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(files_place_begin(&world.place, i, &error), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(write_file(&world, i, &error), 0);
        assert_int_equal(world.named, i >= FILES_WAITING_MOST ? FILES_WAITING_MOST : 0);
        assert_int_equal(files_place_finish(&world.place, i, &error), 0);
    }
    assert_int_equal(files_place_settle(&world.place, &error), 0);
    assert_int_equal(world.named, COUNT);
    assert_int_equal(world.named_at_wait, COUNT);
    assert_in_range(world.waits, 2, 4);
    assert_true(has(&world, "sub/0", "hello"));
    assert_true(has(&world, "sub/1004", "hello"));
    close_world(&world);
}

/* Somebody puts a file of his own where ours is: it is neither written nor taken away, nor given a name. */
static void test_replaced(void **state) {
    (void)state;
    const char *const paths[] = {"a", "b"};
    char temporary[256] = "", other[256] = "";
    struct world world;
    struct varve_error error;
    open_world(&world, paths, 2);
    assert_int_equal(files_place_begin(&world.place, 0, &error), 0);
    assert_int_equal(list(&world, temporary), 1);
    assert_int_equal(write_file(&world, 0, &error), 0);
    assert_int_equal(files_place_finish(&world.place, 0, &error), 0);
    put(&world, "mine", "precious");
    assert_int_equal(renameat(world.place.folder, "mine", world.place.folder, temporary), 0);
    assert_int_equal(files_place_settle(&world.place, &error), -ESTALE);
    assert_false(has(&world, "a", "precious"));
    assert_int_equal(write_file(&world, 0, &error), -ESTALE);
    files_place_drop(&world.place, 0);
    assert_true(has(&world, temporary, "precious"));

    unlinkat(world.place.folder, temporary, 0);
    assert_int_equal(files_place_begin(&world.place, 1, &error), 0);
    assert_int_equal(list(&world, other), 1);
    files_place_drop(&world.place, 1);
    assert_int_equal(list(&world, other), 0);
    close_world(&world);
}

/* Names that look like temporary ones belong to whoever has them. */
static void test_names(void **state) {
    (void)state;
    const char *const paths[] = {"a", "a.partial", "b.partial", "b"};
    struct world world;
    struct varve_error error;
    char ignored[256];
    for (int is_forced = 0; is_forced < 2; is_forced++) {
        open_world(&world, paths, 4);
        put(&world, "c.partial", "precious");
        world.place.is_forced = is_forced;
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(files_place_begin(&world.place, i, &error), 0);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(write_file(&world, i, &error), 0);
            assert_int_equal(files_place_finish(&world.place, i, &error), 0);
        }
        files_place_drop(&world.place, 3);
        assert_int_equal(files_place_settle(&world.place, &error), 0);
        assert_int_equal(list(&world, ignored), 4);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(has(&world, paths[i], "hello"));
        assert_true(has(&world, "c.partial", "precious"));
        close_world(&world);
    }
}

/* A file that appears while ours is written stays, unless it may be replaced; a folder always does. */
static void test_appears(void **state) {
    (void)state;
    const char *const paths[] = {"a"};
    struct world world;
    struct varve_error error;
    for (int is_forced = 0; is_forced < 2; is_forced++) {
        open_world(&world, paths, 1);
        world.place.is_forced = is_forced;
        assert_int_equal(files_place_begin(&world.place, 0, &error), 0);
        assert_int_equal(write_file(&world, 0, &error), 0);
        assert_int_equal(files_place_finish(&world.place, 0, &error), 0);
        put(&world, "a", "theirs");
        assert_int_equal(files_place_settle(&world.place, &error), is_forced ? 0 : -EEXIST);
        assert_true(has(&world, "a", is_forced ? "hello" : "theirs"));
        close_world(&world);
    }
    open_world(&world, paths, 1);
    world.place.is_forced = 1;
    assert_int_equal(mkdirat(world.place.folder, "a", 0700), 0);
    assert_int_equal(files_place_begin(&world.place, 0, &error), -EISDIR);
    close_world(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_appears),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
