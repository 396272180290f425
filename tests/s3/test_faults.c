/* What the backend makes of a server that fails: server.py beside this says how a key names its faults. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "storage/storage.h"
#include "test.h"

static char lines[8192]; /* what was logged */

static void take_line(void *arg, int level, const char *line) {
    (void)arg;
    (void)level;
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static struct vv_log quiet = {.level = 1, .rank = -1, .fn = take_line};

static struct varve_backend *open_with(const char *options, int expected, struct varve_error *error) {
    static int number;
    char address[512];
    struct varve_backend *backend = NULL;
    struct vv_backend_options how = {.may_create = 1, .log = &quiet};
    snprintf(address, sizeof address, "%s/%d-%d%s", getenv("S3_STORE"), (int)getpid(), number++, options);
    assert_int_equal(vv_backend_open(address, &how, &backend, error), expected);
    return backend;
}

static struct varve_backend *open_quick(void) {
    return open_with("?timeout=1s&patience=4s", 0, NULL);
}

static void assert_text(struct varve_backend *backend, const char *key, const char *text) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_get_all(backend, key, 1 << 20, &buf), 0);
    assert_int_equal(buf.size, strlen(text));
    assert_memory_equal(buf.data, text, buf.size);
    vv_buf_clear(&buf);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void test_put_is_repeated(void **state) {
    (void)state;
    static const char *const keys[] = {"a~put-503-2", "a~put-409-2", "a~put-500-1", "a~put-reset-1", "a~put-hang-1"};
    struct varve_backend *backend = open_quick();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_int_equal(vv_backend_put(backend, keys[i], "one", 3), 0);
        assert_text(backend, keys[i], "one");
        assert_int_equal(vv_backend_put(backend, keys[i], "two", 3), -EEXIST);
        assert_text(backend, keys[i], "one");
    }
    vv_backend_close(backend);
}

/* It was put, and the answer was lost; the next try meets 412, and the object says that it is ours. */
static void test_lost_answer_is_no_conflict(void **state) {
    (void)state;
    struct varve_backend *backend = open_quick();
    assert_int_equal(vv_backend_put(backend, "k~put-lost-1", "mine", 4), 0);
    assert_text(backend, "k~put-lost-1", "mine");
    assert_int_equal(vv_backend_put(backend, "k~put-lost-1", "mine", 4), -EEXIST); /* the same bytes, another writer */
    /* It cannot be found out: not a conflict, which callers would take for somebody else's. */
    int rc = vv_backend_put(backend, "k~put-lost-1~head-503-99", "mine", 4);
    assert_true(rc < 0 && rc != -EEXIST);
    vv_backend_close(backend);
}

static void test_patience_ends(void **state) {
    (void)state;
    struct varve_backend *backend = open_with("?timeout=500ms&patience=1s", 0, NULL);
    uint64_t size;
    char byte;
    double begun = seconds();
    assert_int_equal(vv_backend_put(backend, "a~any-503-999", "x", 1), -EBUSY);
    assert_int_equal(vv_backend_get(backend, "a~any-503-999", 0, &byte, 1), -EBUSY);
    assert_int_equal(vv_backend_stat(backend, "a~any-hang-999", &size), -ETIMEDOUT);
    assert_int_equal(vv_backend_remove(backend, "a~any-reset-999"), -ECONNRESET);
    assert_true(seconds() - begun < 12);
    vv_backend_close(backend);
}

static void test_bodies_that_are_wrong(void **state) {
    (void)state;
    struct varve_backend *backend = open_quick();
    static const struct {
        const char *key;
        int64_t expected;
    } cases[] = {{"a~get-cut-1", 9},     {"a~get-drip-1", 9},     {"a~get-hang-1", 9}, {"a~get-fewer-9", -EIO},
                 {"a~get-more-9", -EIO}, {"a~get-other-9", -EIO}, {"a~get-503-2", 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[16] = "";
        assert_int_equal(vv_backend_put(backend, cases[i].key, "0123456789", 10), 0);
        int64_t got = vv_backend_get(backend, cases[i].key, 1, out, 9);
        /* A body with more than was asked for ends the transfer. */
        assert_true(got == cases[i].expected || (cases[i].expected < 0 && got < 0));
        if (got > 0)
            assert_string_equal(out, "123456789");
    }
    vv_backend_close(backend);
}

static int count_name(void *arg, const char *name, int is_prefix) {
    (void)name;
    (void)is_prefix;
    ++*(int *)arg;
    return 0;
}

static int count_below(struct varve_backend *backend, const char *prefix, int *count) {
    *count = 0;
    return vv_backend_list(backend, prefix, NULL, 0, count_name, count);
}

static void test_listings_that_are_wrong(void **state) {
    (void)state;
    struct varve_backend *backend = open_quick();
    static const char *const good[] = {"l~list-503-2", "l~list-cut-1", "l~list-lost-1"};
    static const char *const wrong[] = {"l~list-half-9", "l~list-again-9", "l~list-turns-99"};
    char key[64];
    int count;
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%s/x", good[i]);
        assert_int_equal(vv_backend_put(backend, key, "", 0), 0);
        assert_int_equal(count_below(backend, good[i], &count), 0);
        assert_int_equal(count, 1);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(count_below(backend, wrong[i], &count) < 0);
        assert_int_equal(count, 0);
    }
    vv_backend_close(backend);
}

/* Requests for pages so far, by --log. */
static int count_pages(void) {
    char line[4096];
    int count = 0;
    FILE *file = fopen(getenv("S3_LOG"), "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "max-keys=") != NULL;
    fclose(file);
    return count;
}

/* A name that has to wait for others makes all of them wanted: in whole pages, however few were asked for. */
static void test_pages_grow(void **state) {
    (void)state;
    struct varve_backend *backend = open_quick();
    char key[64];
    int count = 0;
    for (int i = 0; i < 38; i++) {
        snprintf(key, sizeof key, "p/a-%02d", i);
        assert_int_equal(vv_backend_put(backend, key, "", 0), 0);
    }
    int before = count_pages();
    assert_int_equal(vv_backend_list(backend, "p", NULL, 1, count_name, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(count_pages() - before, 1 + 5); /* 3, and 5 times 7 */
    vv_backend_close(backend);
}

/* With --page 7: many pages, an order that is not that of S3, and limits in the middle. */
static void test_pages(void **state) {
    (void)state;
    struct varve_backend *backend = open_quick();
    char key[64];
    int count;
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "p/%02d%s", i, i % 3 ? "" : "/below");
        assert_int_equal(vv_backend_put(backend, key, "", 0), 0);
    }
    assert_int_equal(count_below(backend, "p", &count), 0);
    assert_int_equal(count, 40);
    count = 0;
    assert_int_equal(vv_backend_list(backend, "p", "11", 20, count_name, &count), 0);
    assert_int_equal(count, 20);
    count = 0;
    assert_int_equal(vv_backend_list(backend, "p", "29", 0, count_name, &count), 0);
    assert_int_equal(count, 10);
    vv_backend_close(backend);
}

/* 404 from something that is not S3 must not look like an object that does not exist. */
static void test_absence_is_certain(void **state) {
    (void)state;
    struct varve_backend *backend = open_quick();
    uint64_t size;
    char byte;
    assert_int_equal(vv_backend_get(backend, "none", 0, &byte, 1), -ENOENT);
    assert_int_equal(vv_backend_get(backend, "a~get-plain-9", 0, &byte, 1), -EIO);
    assert_int_equal(vv_backend_stat(backend, "a~any-plain-9", &size), -EIO);
    assert_int_equal(vv_backend_remove(backend, "b~any-plain-9"), -EIO);
    assert_int_equal(vv_backend_put(backend, "c~delete-plain-1", "x", 1), 0);
    assert_int_equal(vv_backend_remove(backend, "c~delete-plain-1"), -EIO);
    assert_text(backend, "c~delete-plain-1", "x");
    assert_int_equal(vv_backend_remove(backend, "c~delete-plain-1"), 0);
    vv_backend_close(backend);
    struct varve_error error = {0};
    assert_int_equal(vv_backend_open("s3://bkt/look~list-plain-9", NULL, &backend, &error), -EIO);
    assert_non_null(strstr(error.text, "404"));
}

/* 200 from something that is not S3, or 202, must not look like an object that is stored. */
static void test_stored_is_certain(void **state) {
    (void)state;
    static const char *const keys[] = {"a~put-page-9", "a~put-accepted-9"};
    struct varve_backend *backend = open_quick();
    uint64_t size;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_int_equal(vv_backend_put(backend, keys[i], "x", 1), -EIO);
        assert_int_equal(vv_backend_replace(backend, keys[i], "x", 1), -EIO);
        assert_int_equal(vv_backend_stat(backend, keys[i], &size), -ENOENT);
    }
    vv_backend_close(backend);
}

static void put_parts(struct varve_backend *backend, const char *key, int expected) {
    static char data[1 << 20];
    struct varve_upload *upload = NULL;
    int rc = vv_backend_create(backend, key, 0, &upload);
    for (int i = 0; i < 36 && rc == 0; i++) {
        memset(data, i + 1, sizeof data);
        rc = vv_backend_upload_write(upload, data, sizeof data);
    }
    if (rc == 0)
        rc = vv_backend_upload_commit(upload);
    else
        vv_backend_upload_abort(upload);
    assert_int_equal(rc, expected);
}

static void assert_parts(struct varve_backend *backend, const char *key) {
    uint64_t size = 0;
    assert_int_equal(vv_backend_stat(backend, key, &size), 0);
    assert_int_equal(size, 36u << 20);
    for (unsigned i = 0; i < 36; i++) {
        char byte = 0;
        assert_int_equal(vv_backend_get(backend, key, ((uint64_t)i << 20) + 5, &byte, 1), 1);
        assert_int_equal(byte, i + 1);
    }
}

static void test_parts(void **state) {
    (void)state;
    struct varve_backend *backend = open_with("?timeout=5s&patience=60s", 0, NULL); /* nothing here lasts by design */
    static const char *const keys[] = {
        "p", "p~post-503-2", "p~put-503-1", "p~put-reset-2", "p~post-error-2", "p~post-lost-2",
        "p~put-meet-1"}; /* parts are sent at the same time */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        put_parts(backend, keys[i], 0);
        assert_parts(backend, keys[i]);
    }
    put_parts(backend, "p", -EEXIST);
    assert_parts(backend, "p");
    put_parts(backend, "q~put-403-9", -EACCES);
    uint64_t size;
    assert_int_equal(vv_backend_stat(backend, "q~put-403-9", &size), -ENOENT);
    vv_backend_close(backend);
}

/* A wrong ETag: parts are not joined by it, and nothing of them stays. That of a whole object need not follow from its
 * bytes (encryption on the server), and says nothing. */
static void test_wrong_etags(void **state) {
    (void)state;
    struct varve_backend *backend = open_with("?timeout=5s&patience=60s", 0, NULL);
    static const char key[] = "n/p~put-wrong-1~post-old-1"; /* old: a sweep finds it */
    uint64_t size;
    put_parts(backend, key, -EIO);
    assert_int_equal(vv_backend_stat(backend, key, &size), -ENOENT);
    assert_int_equal(vv_backend_sweep(backend), 0);
    put_parts(backend, key, 0); /* the next one is right */
    assert_parts(backend, key);
    assert_int_equal(vv_backend_put(backend, "a~put-wrong-9", "one", 3), 0);
    assert_text(backend, "a~put-wrong-9", "one");
    vv_backend_close(backend);
}

/* Writers that die with parts uploaded. Only what is old goes, and only what a store could have begun. */
static void leave_parts(const char *address, const char *key) {
    pid_t child = fork();
    if (child == 0) {
        struct varve_backend *backend = NULL;
        struct varve_upload *upload = NULL;
        char *data = calloc(17, 1 << 20);
        struct vv_backend_options how = {.may_create = 1};
        _exit(!data || vv_backend_open(address, &how, &backend, NULL) < 0 ||
              vv_backend_create(backend, key, 0, &upload) < 0 || vv_backend_upload_write(upload, data, 17u << 20) < 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_leftovers_are_swept(void **state) {
    (void)state;
    struct varve_backend *backend = NULL;
    struct vv_backend_options how = {.may_create = 1};
    char address[128], key[32];
    snprintf(address, sizeof address, "%s/swept-%d", getenv("S3_STORE"), (int)getpid());
    for (int i = 0; i < 9; i++) { /* more than a page of 7 */
        snprintf(key, sizeof key, "n/%d~post-old-1", i);
        leave_parts(address, key);
    }
    leave_parts(address, "n/young");
    leave_parts(address, "other~post-old-1");
    assert_int_equal(vv_backend_open(address, &how, &backend, NULL), 0);
    assert_int_equal(vv_backend_sweep(backend), 9);
    assert_int_equal(vv_backend_sweep(backend), 0);
    put_parts(backend, "n/young", 0);
    put_parts(backend, "n/z~post-old-1~put-403-9", -EACCES); /* aborted at once */
    assert_int_equal(vv_backend_sweep(backend), 0);
    vv_backend_close(backend);
}

/* DELETE with an empty id would remove the object. */
static void test_uploads_without_id(void **state) {
    (void)state;
    struct varve_backend *backend = NULL;
    struct vv_backend_options how = {.may_create = 1, .log = &quiet};
    char address[128];
    snprintf(address, sizeof address, "%s/noid-%d~list-noid-99", getenv("S3_STORE"), (int)getpid());
    leave_parts(address, "n/a~post-old-1");
    assert_int_equal(vv_backend_open(address, &how, &backend, NULL), 0);
    assert_int_equal(vv_backend_put(backend, "n/a~post-old-1", "x", 1), 0);
    assert_int_equal(vv_backend_sweep(backend), 0);
    assert_text(backend, "n/a~post-old-1", "x");
    assert_int_equal(vv_backend_put(backend, "n/b~post-noid-9", "y", 1), 0);
    put_parts(backend, "n/b~post-noid-9", -EIO);
    assert_text(backend, "n/b~post-noid-9", "y");
    vv_backend_close(backend);
}

static void test_keys_that_expire(void **state) {
    (void)state;
    struct varve_backend *backend = open_quick();
    assert_int_equal(vv_backend_put(backend, "a~put-expired-1", "x", 1), 0);
    assert_int_equal(vv_backend_put(backend, "b~put-expired-9", "x", 1), -EIO);
    /* The answer to a HEAD cannot say so; a GET after it does. */
    assert_int_equal(vv_backend_replace(backend, "d~head-expired-1~get-expired-1", "x", 1), 0);
    assert_text(backend, "d~head-expired-1~get-expired-1", "x");
    assert_int_equal(vv_backend_replace(backend, "e~head-403-9", "x", 1), 0);
    uint64_t size;
    assert_int_equal(vv_backend_stat(backend, "e~head-403-9", &size), -EACCES);
    vv_backend_close(backend);
}

static void test_condition_is_kept(void **state) {
    (void)state;
    struct varve_error error = {0};
    struct varve_backend *backend = open_quick();
    assert_int_equal(vv_backend_probe(backend, &error), 0);
    assert_int_equal(vv_backend_probe(backend, &error), 0);
    int count;
    assert_int_equal(count_below(backend, "", &count), 0);
    assert_int_equal(count, 0); /* what the probe leaves behind is no object of the store */
    vv_backend_close(backend);
}

/* With --ignore-condition or --no-metadata. */
static void test_condition_is_ignored(void **state) {
    (void)state;
    struct varve_error error = {0};
    struct varve_backend *backend = open_quick();
    /* Also without a call of probe, as from pin or forget: what is there must not be overwritten. */
    assert_int_equal(vv_backend_replace(backend, "k", "one", 3), 0);
    assert_int_equal(vv_backend_put(backend, "k", "two", 3), VARVE_UNSUPPORTED);
    assert_int_equal(vv_backend_put(backend, "k", "two", 3), VARVE_UNSUPPORTED);
    assert_text(backend, "k", "one");
    assert_non_null(strstr(lines, "127.0.0.1"));
    assert_int_equal(vv_backend_probe(backend, &error), VARVE_UNSUPPORTED);
    assert_int_equal(vv_backend_probe(backend, &error), VARVE_UNSUPPORTED);
    assert_non_null(strstr(error.text, "127.0.0.1"));
    vv_backend_close(backend);
    backend = open_with("?writers=one", 0, NULL);
    assert_int_equal(vv_backend_probe(backend, &error), 0);
    assert_int_equal(vv_backend_put(backend, "k", "one", 3), 0);
    assert_int_equal(vv_backend_put(backend, "k", "two", 3), -EEXIST);
    assert_text(backend, "k", "one");
    put_parts(backend, "k", -EEXIST);
    assert_text(backend, "k", "one");
    vv_backend_close(backend);
}

static void assert_no_secrets(const char *text) {
    assert_null(strstr(text, getenv("AWS_SECRET_ACCESS_KEY")));
    assert_null(strstr(text, "AKIATEST"));
    assert_null(strstr(text, "Signature="));
}

static void test_opening_fails_with_words(void **state) {
    (void)state;
    struct varve_error error = {0};
    struct varve_backend *backend = NULL;
    char *secret = strdup(getenv("AWS_SECRET_ACCESS_KEY"));
    assert_int_equal(vv_backend_open("s3://nosuch/a", NULL, &backend, &error), VARVE_NO_STORE);
    assert_non_null(strstr(error.text, "nosuch"));
    assert_int_equal(vv_backend_open("s3://bkt/a?region=eu-1", NULL, &backend, &error), -EACCES);
    assert_non_null(strstr(error.text, "SignatureDoesNotMatch"));
    assert_int_equal(vv_backend_open("s3://bkt/a?bad=1", NULL, &backend, &error), VARVE_SETTING);
    assert_int_equal(vv_backend_open("s3://bkt/a?endpoint=http://127.0.0.1:1&patience=1s", NULL, &backend, &error),
                     -ENOTCONN);
    assert_non_null(strstr(error.text, "port 1")); /* what libcurl says */
    assert_int_equal(vv_backend_open("s3://bkt/a?endpoint=http://nohost.invalid&patience=1s", NULL, &backend, &error),
                     -ENOTCONN);
    assert_non_null(strstr(error.text, "resolve"));
    setenv("AWS_SECRET_ACCESS_KEY", "anotherSECRET", 1);
    assert_int_equal(vv_backend_open("s3://bkt/a", NULL, &backend, &error), -EACCES);
    assert_no_secrets(error.text);
    setenv("AWS_SECRET_ACCESS_KEY", secret, 1);
    assert_no_secrets(lines);
    free(secret);
}

/* With --tls: connections that end too early, and a server that is not trusted. */
static void test_tls(void **state) {
    (void)state;
    struct varve_error error = {0};
    struct varve_backend *backend = open_quick();
    put_parts(backend, "p~put-reset-2", 0);
    put_parts(backend, "q~put-early-2", 0);
    assert_parts(backend, "q~put-early-2");
    vv_backend_close(backend);
    unsetenv("AWS_CA_BUNDLE");
    assert_int_equal(vv_backend_open("s3://bkt/a", NULL, &backend, &error), -EKEYREJECTED);
}

/* http://bkt.localhost: libcurl knows that *.localhost is the loopback. */
static void test_virtual_hosts(void **state) {
    (void)state;
    char options[128];
    const char *port = strrchr(getenv("AWS_ENDPOINT_URL"), ':');
    snprintf(options, sizeof options, "?style=virtual&endpoint=http://localhost%s", port);
    struct varve_backend *backend = open_with(options, 0, NULL);
    assert_int_equal(vv_backend_put(backend, "a/b~%", "one", 3), 0);
    assert_text(backend, "a/b~%", "one");
    int count;
    assert_int_equal(count_below(backend, "a", &count), 0);
    assert_int_equal(count, 1);
    vv_backend_close(backend);
}

static void test_reading_changes_nothing(void **state) {
    (void)state;
    struct varve_backend *backend = NULL;
    struct varve_upload *upload = NULL;
    struct vv_backend_options how = {.purpose = VV_FOR_READING};
    assert_int_equal(vv_backend_open("s3://bkt/read", &how, &backend, NULL), 0);
    assert_int_equal(vv_backend_create(backend, "a", 0, &upload), -EROFS);
    assert_int_equal(vv_backend_replace(backend, "a", "x", 1), -EROFS);
    assert_int_equal(vv_backend_remove(backend, "a"), -EROFS);
    assert_int_equal(vv_backend_probe(backend, NULL), 0);
    vv_backend_close(backend);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "ignored") == 0) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_condition_is_ignored)};
        return cmocka_run_group_tests(tests, NULL, NULL);
    }
    if (argc > 1 && strcmp(argv[1], "tls") == 0) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_tls)};
        return cmocka_run_group_tests(tests, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_is_repeated),
        cmocka_unit_test(test_lost_answer_is_no_conflict),
        cmocka_unit_test(test_patience_ends),
        cmocka_unit_test(test_bodies_that_are_wrong),
        cmocka_unit_test(test_listings_that_are_wrong),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_pages_grow),
        cmocka_unit_test(test_absence_is_certain),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_wrong_etags),
        cmocka_unit_test(test_leftovers_are_swept),
        cmocka_unit_test(test_keys_that_expire),
        cmocka_unit_test(test_condition_is_kept),
        cmocka_unit_test(test_opening_fails_with_words),
        cmocka_unit_test(test_stored_is_certain),
        cmocka_unit_test(test_uploads_without_id),
        cmocka_unit_test(test_virtual_hosts),
        cmocka_unit_test(test_reading_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
