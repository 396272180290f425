#include "conformance.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "test.h"

#define THREADS 8

static const struct conformance_target *target;

static int setup(void **state) {
    struct varve_backend *backend = NULL;
    if (target->open(target->arg, &backend) < 0)
        return -1;
    *state = backend;
    return 0;
}

static int teardown(void **state) {
    vv_backend_close(*state);
    if (target->clean)
        target->clean(target->arg);
    return 0;
}

static uint8_t byte_at(uint64_t offset) {
    return (uint8_t)((offset * 0x9e3779b97f4a7c15ull) >> 56);
}

static uint8_t *pattern(size_t size) {
    uint8_t *data = malloc(size ? size : 1);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = byte_at(i);
    return data;
}

static void put(struct varve_backend *backend, const char *key, const char *text) {
    assert_int_equal(vv_backend_put(backend, key, text, strlen(text)), 0);
}

static void assert_text(struct varve_backend *backend, const char *key, const char *text) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_get_all(backend, key, 1 << 20, &buf), 0);
    assert_int_equal(buf.size, strlen(text));
    assert_memory_equal(buf.data, text, buf.size);
    vv_buf_clear(&buf);
}

static void assert_absent(struct varve_backend *backend, const char *key) {
    uint64_t size = 77;
    uint8_t byte;
    assert_int_equal(vv_backend_stat(backend, key, &size), -ENOENT);
    assert_int_equal(size, 77);
    assert_int_equal(vv_backend_get(backend, key, 0, &byte, 1), -ENOENT);
    assert_int_equal(vv_backend_remove(backend, key), -ENOENT);
}

/* list() into one line: "a b/ c". */
struct line {
    char text[4096];
    int stop_after; /* then return stop */
    int stop;
};

static int take(void *arg, const char *name, int is_prefix) {
    struct line *line = arg;
    size_t used = strlen(line->text);
    snprintf(line->text + used, sizeof(line->text) - used, "%s%s%s", used ? " " : "", name, is_prefix ? "/" : "");
    return line->stop_after && --line->stop_after == 0 ? line->stop : 0;
}

static void assert_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                        const char *expected) {
    struct line line = {0};
    assert_int_equal(vv_backend_list(backend, prefix, after, limit, take, &line), 0);
    assert_string_equal(line.text, expected);
}

static void test_object_appears_in_commit(void **state) {
    struct varve_backend *backend = *state;
    struct varve_upload *upload = NULL;
    char memory[8] = "abc";
    assert_int_equal(vv_backend_create(backend, "x/one", 6, &upload), 0);
    assert_int_equal(vv_backend_upload_write(upload, memory, 3), 0);
    memset(memory, 'z', sizeof(memory)); /* the buffer may be reused */
    assert_absent(backend, "x/one");
    assert_int_equal(vv_backend_upload_write(upload, "def", 3), 0);
    assert_absent(backend, "x/one");
    assert_int_equal(vv_backend_upload_commit(upload), 0);
    assert_text(backend, "x/one", "abcdef");
    uint64_t size = 0;
    assert_int_equal(vv_backend_stat(backend, "x/one", &size), 0);
    assert_int_equal(size, 6);
}

static void test_taken_key_is_refused_and_unchanged(void **state) {
    struct varve_backend *backend = *state;
    struct varve_upload *first = NULL, *second = NULL;
    assert_int_equal(vv_backend_create(backend, "k", 0, &first), 0);
    assert_int_equal(vv_backend_create(backend, "k", 0, &second), 0);
    assert_int_equal(vv_backend_upload_write(first, "first", 5), 0);
    assert_int_equal(vv_backend_upload_write(second, "second", 6), 0);
    assert_int_equal(vv_backend_upload_commit(second), 0);
    assert_int_equal(vv_backend_upload_commit(first), -EEXIST);
    assert_text(backend, "k", "second");
    assert_int_equal(vv_backend_put(backend, "k", "third", 5), -EEXIST);
    assert_text(backend, "k", "second");
    assert_list(backend, "", NULL, 0, "k");
}

static void test_abort_leaves_nothing(void **state) {
    struct varve_backend *backend = *state;
    struct varve_upload *upload = NULL;
    uint8_t *data = pattern(3u << 20);
    assert_int_equal(vv_backend_create(backend, "deep/er/aborted", 0, &upload), 0);
    assert_int_equal(vv_backend_upload_write(upload, data, 3u << 20), 0);
    vv_backend_upload_abort(upload);
    assert_int_equal(vv_backend_create(backend, "aborted", 0, &upload), 0);
    vv_backend_upload_abort(upload);
    assert_absent(backend, "deep/er/aborted");
    assert_absent(backend, "aborted");
    assert_list(backend, "", NULL, 0, "");
    vv_backend_upload_abort(NULL);
    free(data);
}

static void test_empty_object(void **state) {
    struct varve_backend *backend = *state;
    uint64_t size = 1;
    uint8_t byte;
    assert_int_equal(vv_backend_put(backend, "empty", "", 0), 0);
    assert_int_equal(vv_backend_stat(backend, "empty", &size), 0);
    assert_int_equal(size, 0);
    assert_int_equal(vv_backend_get(backend, "empty", 0, &byte, 1), 0);
    assert_int_equal(vv_backend_replace(backend, "empty", "x", 1), 0);
    assert_int_equal(vv_backend_replace(backend, "empty", NULL, 0), 0);
    assert_int_equal(vv_backend_stat(backend, "empty", &size), 0);
    assert_int_equal(size, 0);
}

static void test_replace(void **state) {
    struct varve_backend *backend = *state;
    assert_int_equal(vv_backend_replace(backend, "n/a/beat", "one", 3), 0);
    assert_text(backend, "n/a/beat", "one");
    assert_int_equal(vv_backend_replace(backend, "n/a/beat", "longer", 6), 0);
    assert_text(backend, "n/a/beat", "longer");
    assert_int_equal(vv_backend_replace(backend, "n/a/beat", "s", 1), 0);
    assert_text(backend, "n/a/beat", "s");
    assert_list(backend, "", NULL, 0, "n/");
    assert_int_equal(vv_backend_put(backend, "n/a/beat", "no", 2), -EEXIST);
}

static void test_ranges(void **state) {
    struct varve_backend *backend = *state;
    char out[16];
    put(backend, "r", "0123456789");
    memset(out, '.', sizeof(out));
    assert_int_equal(vv_backend_get(backend, "r", 3, out, 4), 4);
    assert_memory_equal(out, "3456.", 5);
    assert_int_equal(vv_backend_get(backend, "r", 8, out, 16), 2);
    assert_memory_equal(out, "89", 2);
    assert_int_equal(vv_backend_get(backend, "r", 10, out, 4), 0);
    assert_int_equal(vv_backend_get(backend, "r", 1000000, out, 4), 0);
    assert_int_equal(vv_backend_get(backend, "r", 2, out, 0), 0);
    assert_int_equal(vv_backend_get(backend, "r", UINT64_MAX - 1, out, 4), -EINVAL);
}

/* Odd pieces, odd total; read back in odd pieces at odd offsets into odd addresses. */
static void check_big(struct varve_backend *backend, const char *key, size_t size, size_t piece, uint64_t hint) {
    struct varve_upload *upload = NULL;
    uint8_t *data = pattern(size), *back = malloc(size + 64);
    assert_non_null(back);
    assert_int_equal(vv_backend_create(backend, key, hint, &upload), 0);
    for (size_t at = 0; at < size; at += piece)
        assert_int_equal(vv_backend_upload_write(upload, data + at, size - at < piece ? size - at : piece), 0);
    assert_int_equal(vv_backend_upload_commit(upload), 0);
    uint64_t found = 0;
    assert_int_equal(vv_backend_stat(backend, key, &found), 0);
    assert_int_equal(found, size);
    assert_int_equal(vv_backend_get(backend, key, 0, back, size + 64), size);
    assert_memory_equal(back, data, size);
    memset(back, 0, size + 64);
    for (size_t at = 0, step = 777777; at < size; at += step)
        assert_int_equal(vv_backend_get(backend, key, at, back + 1 + at, step), size - at < step ? size - at : step);
    assert_memory_equal(back + 1, data, size);
    size_t tail = size < 5000 ? size : 5000;
    assert_int_equal(vv_backend_get(backend, key, size - tail, back, 8192), tail);
    assert_memory_equal(back, data + size - tail, tail);
    free(back);
    free(data);
}

static void test_big_objects(void **state) {
    struct varve_backend *backend = *state;
    const size_t mib = 1u << 20;
    check_big(backend, "big/0", 40 * mib + 12345, 1000003, 0);
    check_big(backend, "big/1", 8 * mib, mib, 8 * mib);
    check_big(backend, "big/2", mib - 1, 4096, mib - 1);
    check_big(backend, "big/3", mib, 65536, 0);
    check_big(backend, "big/4", mib + 1, 2 * mib, 5);
    check_big(backend, "big/5", 3 * mib + 4096, 3 * mib + 4096, 16 * mib);
    check_big(backend, "big/6", 5 * mib + 4095, 7 * mib, 0);
    assert_list(backend, "big", NULL, 0, "0 1 2 3 4 5 6");
}

static void test_list(void **state) {
    struct varve_backend *backend = *state;
    static const char *const keys[] = {
        "varve",        "a/c",           "a-b", "a.b", "B", "a/-", "n/x/claim/00000002", "n/x/claim/00000001",
        "n/x/record/f", "n/%2Fy/beat/1", "n/~", "a0"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        put(backend, keys[i], "");
    assert_list(backend, "", NULL, 0, "B a/ a-b a.b a0 n/ varve");
    assert_list(backend, "a", NULL, 0, "- c");
    assert_list(backend, "n", NULL, 0, "%2Fy/ x/ ~");
    assert_list(backend, "n/x/claim", NULL, 0, "00000001 00000002");
    assert_list(backend, "", "a", 0, "a-b a.b a0 n/ varve");
    assert_list(backend, "", "a", 2, "a-b a.b");
    assert_list(backend, "", "a,", 1, "a-b");
    assert_list(backend, "", "zz", 0, "");
    assert_list(backend, "", NULL, 1, "B");
    assert_list(backend, "nothing", NULL, 0, "");
    assert_list(backend, "nothing/below/it", NULL, 0, "");
    assert_list(backend, "varve", NULL, 0, "");
    assert_list(backend, "a-", NULL, 0, "");
}

static void test_list_stops(void **state) {
    struct varve_backend *backend = *state;
    put(backend, "a", "");
    put(backend, "b", "");
    put(backend, "c", "");
    struct line early = {.stop_after = 2, .stop = 7};
    assert_int_equal(vv_backend_list(backend, "", NULL, 0, take, &early), 0);
    assert_string_equal(early.text, "a b");
    struct line wrong = {.stop_after = 1, .stop = -EAGAIN};
    assert_int_equal(vv_backend_list(backend, "", NULL, 0, take, &wrong), -EAGAIN);
    assert_string_equal(wrong.text, "a");
}

static int remove_it(void *arg, const char *name, int is_prefix) {
    assert_false(is_prefix);
    return vv_backend_remove(arg, name);
}

static void test_list_callback_may_use_the_backend(void **state) {
    struct varve_backend *backend = *state;
    put(backend, "a", "");
    put(backend, "b", "");
    assert_int_equal(vv_backend_list(backend, "", NULL, 0, remove_it, backend), 0);
    assert_list(backend, "", NULL, 0, "");
}

static void test_remove(void **state) {
    struct varve_backend *backend = *state;
    put(backend, "d/e/f", "1");
    put(backend, "d/g", "2");
    assert_int_equal(vv_backend_remove(backend, "d/e/f"), 0);
    assert_absent(backend, "d/e/f");
    assert_text(backend, "d/g", "2");
    assert_list(backend, "d", NULL, 0, "g");
    assert_int_equal(vv_backend_remove(backend, "d/g"), 0);
    assert_list(backend, "", NULL, 0, "");
    put(backend, "d/e/f", "again");
    assert_text(backend, "d/e/f", "again");
}

/* A key under which other keys lie has no object, and neither has one below an object. */
static void test_prefix_is_no_object(void **state) {
    struct varve_backend *backend = *state;
    put(backend, "p/q/r", "x");
    assert_absent(backend, "p");
    assert_absent(backend, "p/q");
    assert_absent(backend, "p/q/r/s");
    assert_text(backend, "p/q/r", "x");
}

static void test_removed_and_recreated(void **state) {
    struct varve_backend *backend = *state;
    size_t size = 2u << 20;
    uint8_t *data = pattern(size), *back = malloc(size);
    assert_non_null(back);
    for (int round = 0; round < 3; round++) {
        memset(data, 'a' + round, size);
        assert_int_equal(vv_backend_put(backend, "again", data, size), 0);
        assert_int_equal(vv_backend_get(backend, "again", 0, back, size), size);
        assert_memory_equal(back, data, size);
        assert_int_equal(vv_backend_remove(backend, "again"), 0);
        assert_absent(backend, "again");
    }
    for (int round = 0; round < 3; round++) {
        memset(data, 'A' + round, size);
        assert_int_equal(vv_backend_replace(backend, "again", data, size - (size_t)round), 0);
        assert_int_equal(vv_backend_get(backend, "again", 0, back, size), size - (size_t)round);
        assert_memory_equal(back, data, size - (size_t)round);
    }
    free(back);
    free(data);
}

static void test_keys_are_checked(void **state) {
    struct varve_backend *backend = *state;
    char longest[1100];
    static const char *const bad[] = {"",       "/",   "/a",  "a/",  "a//b", ".",    "..",       "../x",
                                      "a/../b", "a/.", "a b", "a\n", "a:b",  "a\\b", "\xc3\xa9", "a*b"};
    struct varve_upload *upload = NULL;
    uint64_t size;
    uint8_t byte;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(vv_backend_create(backend, bad[i], 0, &upload), -EINVAL);
        assert_int_equal(vv_backend_replace(backend, bad[i], "", 0), -EINVAL);
        assert_int_equal(vv_backend_get(backend, bad[i], 0, &byte, 1), -EINVAL);
        assert_int_equal(vv_backend_stat(backend, bad[i], &size), -EINVAL);
        assert_int_equal(vv_backend_remove(backend, bad[i]), -EINVAL);
        if (bad[i][0])
            assert_int_equal(vv_backend_list(backend, bad[i], NULL, 0, take, NULL), -EINVAL);
    }
    memset(longest, 'x', sizeof(longest));
    for (size_t i = 200; i < sizeof(longest); i += 200)
        longest[i] = '/';
    size_t most = target->key_max ? target->key_max : VV_BACKEND_KEY_MAX;
    longest[most] = '\0';
    put(backend, longest, "long");
    assert_text(backend, longest, "long");
    put(backend, "...", "dots");
    put(backend, "%.~_-aZ09", "all");
    assert_list(backend, "", "%", 2, "%.~_-aZ09 ...");
    longest[most] = 'x';
    longest[1024] = '\0';
    assert_int_equal(vv_backend_stat(backend, longest, &size), -EINVAL);
    memset(longest, 'y', 256);
    longest[256] = '\0';
    assert_int_equal(vv_backend_stat(backend, longest, &size), -EINVAL);
    longest[255] = '\0';
    put(backend, longest, "255");
}

static void test_get_all_is_bounded(void **state) {
    struct varve_backend *backend = *state;
    struct vv_buf buf;
    vv_buf_init(&buf);
    put(backend, "five", "12345");
    assert_int_equal(vv_backend_get_all(backend, "five", 4, &buf), -EFBIG);
    assert_int_equal(vv_backend_get_all(backend, "none", 4, &buf), -ENOENT);
    assert_int_equal(buf.size, 0);
    assert_int_equal(vv_backend_get_all(backend, "five", 5, &buf), 0);
    assert_int_equal(vv_backend_get_all(backend, "five", 5, &buf), 0);
    assert_int_equal(buf.size, 10);
    assert_memory_equal(buf.data, "1234512345", 10);
    vv_buf_clear(&buf);
}

static void test_optional_verbs(void **state) {
    struct varve_backend *backend = *state;
    uint64_t bytes = 0;
    int result = vv_backend_space(backend, &bytes);
    assert_true(result == VARVE_UNSUPPORTED || (result == 0 && bytes > 0));
    result = vv_backend_sweep(backend);
    assert_true(result == VARVE_UNSUPPORTED || result >= 0);
    assert_int_equal(vv_backend_put(backend, "sync/object", "x", 1), 0);
    assert_int_equal(vv_backend_sync(backend, "sync/object"), 0);
    assert_int_equal(vv_backend_probe(backend, NULL), 0);
    assert_list(backend, "", NULL, 0, "sync/");
}

/* Threads. Asserts of cmocka belong to the main thread: workers count what went wrong, and keep what did so first. */
struct worker {
    struct varve_backend *backend;
    pthread_barrier_t *barrier;
    int number;
    int won;
    int wrong;
    const char *verb; /* that failed first, in which round, and what it gave */
    int round;
    int64_t result;
};

static void expect(struct worker *worker, const char *verb, int round, int is_right, int64_t result) {
    if (!is_right && worker->wrong++ == 0) {
        worker->verb = verb;
        worker->round = round;
        worker->result = result;
    }
}

static void tell_wrong(const struct worker *worker) {
    if (worker->wrong)
        print_error("thread %d: %d results were wrong, first that of %s in round %d: %lld%s%s\n", worker->number,
                    worker->wrong, worker->verb, worker->round, (long long)worker->result,
                    worker->result < 0 ? ", " : "", worker->result < 0 ? varve_error_text((int)worker->result) : "");
}

static void run_threads(struct varve_backend *backend, void *(*main)(void *), struct worker *workers) {
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.backend = backend, .barrier = &barrier, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, main, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    for (int i = 0; i < THREADS; i++)
        tell_wrong(&workers[i]);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].wrong, 0);
}

static void *race_to_create(void *arg) {
    struct worker *worker = arg;
    for (int round = 0; round < 20; round++) {
        char key[64], text[16];
        snprintf(key, sizeof(key), "race/%d/key", round);
        snprintf(text, sizeof(text), "%d", worker->number);
        pthread_barrier_wait(worker->barrier);
        int result = vv_backend_put(worker->backend, key, text, strlen(text));
        worker->won |= (result == 0) << round;
        expect(worker, "put", round, result == 0 || result == -EEXIST, result);
    }
    return NULL;
}

static void test_one_of_many_creators_wins(void **state) {
    struct varve_backend *backend = *state;
    struct worker workers[THREADS];
    run_threads(backend, race_to_create, workers);
    for (int round = 0; round < 20; round++) {
        int winners = 0, winner = -1;
        for (int i = 0; i < THREADS; i++)
            if (workers[i].won >> round & 1) {
                winners++;
                winner = i;
            }
        assert_int_equal(winners, 1);
        char key[64], text[16];
        snprintf(key, sizeof(key), "race/%d/key", round);
        snprintf(text, sizeof(text), "%d", winner);
        assert_text(backend, key, text);
    }
}

/* Objects come and go in one folder, so that the folder itself comes and goes. */
static void *come_and_go(void *arg) {
    struct worker *worker = arg;
    char key[64], out[8];
    snprintf(key, sizeof(key), "come/and/go/%d", worker->number);
    for (int round = 0; round < 30; round++) {
        int64_t result = vv_backend_put(worker->backend, key, key, 4);
        expect(worker, "put", round, result == 0, result);
        result = vv_backend_get(worker->backend, key, 0, out, 8);
        expect(worker, "get", round, result == 4, result);
        result = vv_backend_replace(worker->backend, key, key, 5);
        expect(worker, "replace", round, result == 0, result);
        result = vv_backend_remove(worker->backend, key);
        expect(worker, "remove", round, result == 0, result);
    }
    return NULL;
}

static void test_folders_come_and_go(void **state) {
    struct worker workers[THREADS];
    run_threads(*state, come_and_go, workers);
    assert_list(*state, "", NULL, 0, "");
}

static void *write_big(void *arg) {
    struct worker *worker = arg;
    size_t size = (1u << 20) + 100000u * (unsigned)worker->number;
    uint8_t *data = malloc(size), *back = malloc(size);
    char key[64];
    snprintf(key, sizeof(key), "many/%d", worker->number);
    if (data && back) {
        memset(data, worker->number + 1, size);
        int64_t result = vv_backend_put(worker->backend, key, data, size);
        expect(worker, "put", 0, result == 0, result);
        pthread_barrier_wait(worker->barrier);
        for (int other = 0; other < THREADS; other++) {
            size_t expected = (1u << 20) + 100000u * (unsigned)other;
            snprintf(key, sizeof(key), "many/%d", other);
            size_t want = expected < size ? expected : size;
            result = vv_backend_get(worker->backend, key, 0, back, want);
            expect(worker, "get", other, result == (int64_t)want, result);
            memset(data, other + 1, size);
            expect(worker, "the comparison", other, memcmp(back, data, want) == 0, 0);
        }
    } else {
        expect(worker, "malloc", 0, 0, -ENOMEM);
        pthread_barrier_wait(worker->barrier);
    }
    free(data);
    free(back);
    return NULL;
}

static void test_many_uploads_at_once(void **state) {
    struct worker workers[THREADS];
    run_threads(*state, write_big, workers);
}

/* Readers see one of the values that were there, whole. */
static void *replace_and_read(void *arg) {
    struct worker *worker = arg;
    char data[3000];
    for (int round = 0; round < 40; round++) {
        if (worker->number < 2) {
            memset(data, 'a' + round % 26, sizeof(data));
            int replaced = vv_backend_replace(worker->backend, "beat", data, 1000 + 70 * (size_t)(round % 26));
            expect(worker, "replace", round, replaced == 0, replaced);
            continue;
        }
        struct vv_buf buf;
        vv_buf_init(&buf);
        int result = vv_backend_get_all(worker->backend, "beat", 5000, &buf);
        expect(worker, "get", round, result == 0, result);
        for (size_t i = 0; result == 0 && i < buf.size; i++)
            expect(worker, "the comparison", round, buf.data[i] == buf.data[0], (int64_t)i);
        if (result == 0)
            expect(worker, "the size", round, buf.size == 1000 + 70 * (size_t)(buf.data[0] - 'a'), (int64_t)buf.size);
        vv_buf_clear(&buf);
    }
    return NULL;
}

static void test_replace_is_whole(void **state) {
    struct worker workers[THREADS];
    char first[1000];
    memset(first, 'a', sizeof(first));
    assert_int_equal(vv_backend_replace(*state, "beat", first, sizeof(first)), 0);
    run_threads(*state, replace_and_read, workers);
}

int conformance_run(const struct conformance_target *given) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_object_appears_in_commit),
        CASE(test_taken_key_is_refused_and_unchanged),
        CASE(test_abort_leaves_nothing),
        CASE(test_empty_object),
        CASE(test_replace),
        CASE(test_ranges),
        CASE(test_big_objects),
        CASE(test_list),
        CASE(test_list_stops),
        CASE(test_list_callback_may_use_the_backend),
        CASE(test_remove),
        CASE(test_prefix_is_no_object),
        CASE(test_removed_and_recreated),
        CASE(test_keys_are_checked),
        CASE(test_get_all_is_bounded),
        CASE(test_optional_verbs),
        CASE(test_one_of_many_creators_wins),
        CASE(test_folders_come_and_go),
        CASE(test_many_uploads_at_once),
        CASE(test_replace_is_whole),
    };
    target = given;
    return cmocka_run_group_tests_name(given->name, tests, NULL, NULL);
}
