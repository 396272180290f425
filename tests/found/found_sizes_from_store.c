/* A program that learns its sizes from the store (varve_stored, malloc, varve_protect, varve_restart) got VARVE_CORRUPT
 * when the newest checkpoint was damaged, although older ones were whole: their regions have other sizes.
 * varve_restart_alloc asks the program for memory, for each candidate anew, and falls back as promised. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <varve/varve.h>

#include "ranks.h"
#include "test.h"

/* ---- a program whose list grows ---- */

struct list {
    uint32_t *items;
    size_t bytes;
    int given, released; /* how often */
    int refuses;         /* there is no memory */
    int unwanted;        /* regions it does not know */
    struct varve_array array;
};

static size_t bytes_of(int rank, int64_t version) {
    return (size_t)version * 40000 + (size_t)rank * 4096 + 4;
}

static void fill(struct list *list, int rank, int64_t version) {
    list->bytes = bytes_of(rank, version);
    list->items = malloc(list->bytes);
    for (size_t i = 0; i < list->bytes / 4; i++)
        list->items[i] = (uint32_t)(i * 2654435761u + (uint32_t)version * 97 + (uint32_t)rank);
}

static int is_right(const struct list *list, int rank, int64_t version) {
    if (list->bytes != bytes_of(rank, version))
        return 0;
    for (size_t i = 0; i < list->bytes / 4; i++)
        if (list->items[i] != (uint32_t)(i * 2654435761u + (uint32_t)version * 97 + (uint32_t)rank))
            return 0;
    return 1;
}

static int protect(struct varve_session *session, struct list *list) {
    struct varve_array array = {
        .size = sizeof array, .type = VARVE_U32, .dims = 1, .dim = {{list->bytes / 4, 0, list->bytes / 4}}};
    return varve_protect_array(session, "list", list->items, &array);
}

static void *give(void *arg, const struct varve_region_info *region) {
    struct list *list = arg;
    if (strcmp(region->name, "list") != 0) {
        list->unwanted++;
        return VARVE_NOT_WANTED;
    }
    list->given++;
    list->array = *region->array;
    if (list->refuses)
        return NULL;
    list->bytes = region->bytes;
    return list->items = malloc(region->bytes);
}

static void take_back(void *arg, const char *region, void *ptr) {
    struct list *list = arg;
    (void)region;
    list->released++;
    free(ptr);
    list->items = NULL;
    list->bytes = 0;
}

static const struct varve_allocator allocator = {.size = sizeof allocator, .alloc = give, .release = take_back};

/* ---- one process ---- */

static struct varve_session *open_session(void) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    options.settings = "keep=0,log=error,codec=none";
    if (varve_open(ranks_folder(), "job", &options, &session, &error) != 0)
        fail_msg("%s", error.text);
    return session;
}

static void make_store(int versions) {
    struct varve_session *session = open_session();
    for (int version = 1; version <= versions; version++) {
        struct list list = {0};
        fill(&list, 0, version);
        assert_int_equal(protect(session, &list), 0);
        assert_int_equal(varve_checkpoint(session, version), 0);
        assert_int_equal(varve_wait(session), 0);
        assert_int_equal(varve_unprotect(session, "list"), 0);
        free(list.items);
    }
    assert_int_equal(varve_close(session), 0);
}

/* A bit in the middle of its data. */
static void damage(int64_t version, int writer) {
    char path[512];
    struct stat st;
    uint8_t byte;
    ranks_pack_path(version, writer, path, sizeof path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pread(fd, &byte, 1, st.st_size / 3), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, st.st_size / 3), 1);
    close(fd);
}

static void falls_back(void **state) {
    struct list list = {0};
    int64_t version = -1;
    (void)state;
    make_store(3);
    damage(3, 0);
    damage(2, 0);
    struct varve_session *session = open_session();
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, &version), 0);
    assert_int_equal(version, 1);
    assert_true(is_right(&list, 0, 1));
    assert_int_equal(list.given, 3);
    assert_int_equal(list.released, 2);
    assert_int_equal(list.array.type, VARVE_U32);
    assert_int_equal(list.array.dim[0].local, list.bytes / 4);
    /* It is protected, and what it holds is known: the next checkpoint has what changes now. */
    list.items[5] = 77;
    assert_int_equal(varve_checkpoint(session, 4), 0);
    assert_int_equal(varve_close(session), 0);
    free(list.items);
    memset(&list, 0, sizeof list);
    session = open_session();
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, &version), 0);
    assert_int_equal(version, 4);
    assert_int_equal(list.bytes, bytes_of(0, 1));
    assert_int_equal(list.items[5], 77);
    assert_int_equal(list.array.type, VARVE_U32);
    assert_int_equal(varve_close(session), 0);
    free(list.items);
}

static void nothing_is_left_when_all_fails(void **state) {
    struct list list = {0};
    int64_t version = -7;
    (void)state;
    make_store(2);
    damage(2, 0);
    damage(1, 0);
    struct varve_session *session = open_session();
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, &version), VARVE_CORRUPT);
    assert_int_equal(list.given, 2);
    assert_int_equal(list.released, 2);
    assert_null(list.items);
    assert_int_equal(version, -7);
    assert_int_equal(varve_unprotect(session, "list"), -ENOENT);
    assert_int_equal(varve_checkpoint(session, 3), 0); /* of nothing */
    assert_int_equal(varve_close(session), 0);
}

static void no_memory_is_an_error(void **state) {
    struct list list = {.refuses = 1};
    (void)state;
    make_store(2);
    struct varve_session *session = open_session();
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, NULL), -ENOMEM);
    assert_non_null(strstr(varve_session_error(session)->text, "region list"));
    assert_int_equal(list.given, 1); /* an older one would not help */
    list.refuses = 0;
    assert_int_equal(varve_restart_alloc(session, 1, &allocator, &list, NULL), 0);
    assert_true(is_right(&list, 0, 1));
    assert_int_equal(varve_close(session), 0);
    free(list.items);
}

/* A program that maps its memory hands on what mmap returned. That was taken for VARVE_NOT_WANTED: the restart
 * succeeded without the region, and the next checkpoints did not have it. */
static void *give_map_failed(void *arg, const struct varve_region_info *region) {
    struct list *list = arg;
    list->given++;
    void *ptr = mmap(NULL, SIZE_MAX & ~(size_t)4095, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_equal(ptr, MAP_FAILED);
    assert_true(region->bytes > 0);
    return ptr;
}

static void a_failed_mmap_is_no_memory(void **state) {
    static const struct varve_allocator mapping = {
        .size = sizeof mapping, .alloc = give_map_failed, .release = take_back};
    struct list list = {0};
    (void)state;
    make_store(2);
    struct varve_session *session = open_session();
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &mapping, &list, NULL), -ENOMEM);
    assert_int_equal(list.given, 1);
    assert_int_equal(list.released, 0);
    assert_int_equal(varve_close(session), 0);
}

/* Going back: the list is protected with another size by now. */
static void asks_again_where_sizes_differ(void **state) {
    struct list list = {0};
    int64_t version = -1;
    (void)state;
    make_store(3);
    struct varve_session *session = open_session();
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, &version), 0);
    assert_int_equal(varve_reject(session, 3), 0);
    void *old = list.items;
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, &version), 0);
    assert_int_equal(version, 2);
    assert_true(is_right(&list, 0, 2));
    free(old);
    /* With the right size it stays where it is. */
    void *there = list.items;
    memset(list.items, 0, list.bytes);
    assert_int_equal(varve_restart_alloc(session, 2, &allocator, &list, &version), 0);
    assert_ptr_equal(list.items, there);
    assert_true(is_right(&list, 0, 2));
    assert_int_equal(list.given, 2);
    assert_int_equal(varve_close(session), 0);
    free(list.items);
}

/* Asked, the program may have freed what was protected: the next checkpoint was just without it. */
static void what_has_lost_its_memory_is_missed(void **state) {
    struct list list = {0};
    uint32_t other[9] = {0};
    (void)state;
    make_store(1);
    damage(1, 0);
    for (int refuses = 1; refuses >= 0; refuses--) {
        struct varve_session *session = open_session();
        list = (struct list){.refuses = refuses};
        assert_int_equal(varve_protect(session, "list", other, sizeof other), 0);
        assert_int_equal(varve_restart_alloc(session, 1, &allocator, &list, NULL), refuses ? -ENOMEM : VARVE_CORRUPT);
        assert_int_equal(varve_checkpoint(session, 9), -EINVAL);
        assert_non_null(strstr(varve_session_error(session)->text, "region list"));
        assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), -EINVAL);
        if (refuses)
            assert_int_equal(varve_protect(session, "list", other, sizeof other), 0);
        else
            assert_int_equal(varve_unprotect(session, "list"), 0);
        assert_int_equal(varve_checkpoint(session, 8 - refuses), 0);
        assert_int_equal(varve_close(session), 0);
    }
}

static void protected_and_unwanted(void **state) {
    struct list list = {0};
    uint64_t header[100], other = 7;
    (void)state;
    struct varve_session *session = open_session();
    fill(&list, 0, 1);
    header[99] = 42;
    assert_int_equal(protect(session, &list), 0);
    assert_int_equal(varve_protect(session, "header", header, sizeof header), 0);
    assert_int_equal(varve_protect(session, "other", &other, sizeof other), 0);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_close(session), 0);
    free(list.items);
    memset(&list, 0, sizeof list);
    memset(header, 0, sizeof header);
    session = open_session();
    assert_int_equal(varve_protect(session, "header", header, sizeof header), 0);
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, NULL), 0);
    assert_int_equal(header[99], 42);
    assert_true(is_right(&list, 0, 1));
    assert_int_equal(list.unwanted, 1);
    assert_int_equal(varve_unprotect(session, "other"), -ENOENT);
    /* A region that is protected must be filled: not wanted does not help. */
    assert_int_equal(varve_protect(session, "header", header, 8), 0);
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, NULL), VARVE_MISMATCH);
    assert_int_equal(varve_close(session), 0);
    free(list.items);
}

static void arguments(void **state) {
    struct varve_allocator half = {.size = sizeof half, .alloc = give, .release = NULL},
                           shorter = {.size = 8, .alloc = give, .release = take_back};
    struct list list = {0};
    (void)state;
    struct varve_session *session = open_session();
    assert_int_equal(varve_restart_alloc(NULL, VARVE_LATEST, &allocator, &list, NULL), -EINVAL);
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, NULL, &list, NULL), -EINVAL);
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &half, &list, NULL), -EINVAL);
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &shorter, &list, NULL), -EINVAL);
    assert_int_equal(varve_restart_alloc(session, -2, &allocator, &list, NULL), -EINVAL);
    assert_int_equal(varve_restart_alloc(session, VARVE_LATEST, &allocator, &list, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(list.given, 0);
    assert_int_equal(varve_close(session), 0);
}

/* ---- many ranks ---- */

static void make_lists(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    for (int64_t version = 1; version <= 3; version++) {
        struct list list = {0};
        fill(&list, job->rank, version);
        protect(job->session, &list);
        rank_checkpoint(job, version);
        rank_wait(job);
        varve_unprotect(job->session, "list");
        free(list.items);
    }
    rank_close(job);
}

static void restart_lists(struct ranks_job *job) {
    struct list list = {.refuses = job->is_faulty && job->plan->value};
    int64_t got = -2;
    if (rank_open(job) != 0)
        return;
    int rc = varve_restart_alloc(job->session, VARVE_LATEST, &allocator, &list, &got);
    rank_note(job, "restart", rc, got);
    if (!job->plan->value)
        rank_note(job, "given", list.given, list.released);
    if (rc == 0 && !is_right(&list, job->rank, got))
        group_fail(job->comm, "the list is not that of version %d", (int)got);
    if (rc != 0 && list.items)
        group_fail(job->comm, "the restart failed, and memory was not released");
    if (rc == 0)
        rank_check(job, got);
    rank_checkpoint(job, 9);
    rank_wait(job);
    rank_close(job);
    free(list.items);
}

/* Damaged on one rank, passed over on all. */
static void all_ranks_fall_back(void **state) {
    static const char *const settings[] = {"", "dedup=exact", "threads=1", "storage=local,threads=1"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct plan plan = {.fn = make_lists, .settings = settings[i]};
        ranks_run(&plan);
        damage(3, 2);
        plan.fn = restart_lists;
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "restart", 1, 0, -1, "");
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
        assert_int_equal(ranks_answer(board, "given", 1)->code, 2);
        assert_int_equal(ranks_answer(board, "given", 1)->version, 1);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

static void no_memory_on_one_rank(void **state) {
    (void)state;
    struct plan plan = {.fn = make_lists, .faulty_rank = 1, .value = 1};
    ranks_run(&plan);
    plan.fn = restart_lists;
    ranks_expect(ranks_run(&plan), "restart", 1, -ENOMEM, 1, "region list");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(falls_back, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_left_when_all_fails, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(no_memory_is_an_error, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(a_failed_mmap_is_no_memory, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(asks_again_where_sizes_differ, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(what_has_lost_its_memory_is_missed, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(protected_and_unwanted, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(arguments, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(all_ranks_fall_back, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(no_memory_on_one_rank, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
