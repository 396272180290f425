/* A file in chunks: what stops it leaves the plan as it was. */
#include "../test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/chunks.h"

#define SIZE 3000000u

struct world {
    struct files_plan plan;
    FILE *file;
    struct varve_error error;
    unsigned steps;
    uint64_t done;
    int answer;
};

static void open_world(struct world *world) {
    struct files_list files = {.count = 1, .bytes = SIZE};
    uint64_t state = 1;
    memset(world, 0, sizeof *world);
    world->file = tmpfile();
    assert_non_null(world->file);
    for (uint32_t i = 0; i < SIZE; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        fputc((int)(state >> 56), world->file);
    }
    assert_int_equal(fflush(world->file), 0);
    files.list = calloc(1, sizeof *files.list);
    files.list[0] = (struct files_file){.path = strdup("noise"), .size = SIZE};
    files_plan_begin(&world->plan, &files);
}

static void close_world(struct world *world) {
    files_plan_clear(&world->plan);
    fclose(world->file);
}

static int on_step(void *arg, uint64_t done) {
    struct world *world = arg;
    assert_true(done > world->done);
    world->done = done;
    world->steps++;
    return world->answer;
}

static int add(struct world *world, uint32_t target) {
    return files_add_chunks(&world->plan, 0, fileno(world->file), target, on_step, world, &world->error);
}

static void test_all(void **state) {
    (void)state;
    struct world world;
    uint64_t at = 0;
    open_world(&world);
    assert_int_equal(add(&world, 4096), 0);
    assert_true(world.steps >= 3);
    assert_int_equal(world.done, SIZE);
    assert_int_equal(files_plan_settle(&world.plan), 0);
    assert_int_equal(world.plan.region_count, 1);
    assert_true(world.plan.piece_count > SIZE / 16384 && world.plan.piece_count < SIZE / 2048);
    for (size_t i = 0; i < world.plan.piece_count; i++) {
        assert_int_equal(world.plan.pieces[i].file_offset, at);
        assert_int_equal(world.plan.pieces[i].region_offset % FILES_GRANULE, 0);
        at += world.plan.pieces[i].length;
    }
    assert_int_equal(at, SIZE);
    close_world(&world);
}

static void test_too_many(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    world.plan.piece_count = FILES_PIECES_MOST - 100; /* as if others had them */
    assert_int_equal(add(&world, 512), 1);
    assert_int_equal(world.plan.piece_count, FILES_PIECES_MOST - 100);
    assert_int_equal(world.plan.region_count, 0);
    world.plan.piece_count = 0;
    close_world(&world);
}

static void test_stopped(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    world.answer = -EINTR;
    assert_int_equal(add(&world, 4096), -EINTR);
    assert_int_equal(world.steps, 1);
    assert_int_equal(world.plan.piece_count, 0);
    close_world(&world);
}

static void test_shrunk(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    assert_int_equal(ftruncate(fileno(world.file), SIZE / 2), 0);
    assert_int_equal(add(&world, 4096), -EAGAIN);
    assert_non_null(strstr(world.error.text, "noise changed"));
    assert_int_equal(world.plan.piece_count, 0);
    close_world(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_shrunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
