/* The public calls of one process: what each promises in varve.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve.h>

#include "base/bytes.h"
#include "details.h"
#include "storage/storage.h"
#include "test.h"

#define URI "mem://api"

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error = {0};
    options.settings = settings;
    if (varve_open(URI, "api", &options, &session, &error) != 0)
        fail_msg("open: %s", error.text);
    return session;
}

static int forget_store(void **unused) {
    (void)unused;
    vv_mem_drop("api");
    return 0;
}

static void first_run_has_no_checkpoint(void **unused) {
    (void)unused;
    char data[100] = "as it was";
    int64_t version = 42;
    struct varve_session *s = open_session(NULL);
    assert_int_equal(varve_protect(s, "data", data, sizeof data), 0);
    assert_int_equal(varve_restart(s, VARVE_LATEST, &version), VARVE_NO_CHECKPOINT);
    assert_string_equal(data, "as it was");
    assert_int_equal(version, 42);
    assert_int_equal(varve_close(s), 0);
}

static void versions_rise(void **unused) {
    (void)unused;
    char data[100] = "x";
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "data", data, sizeof data);
    assert_int_equal(varve_checkpoint(s, 5), 0);
    assert_int_equal(varve_checkpoint(s, 5), -EINVAL);
    assert_non_null(strstr(varve_session_error(s)->text, "5"));
    assert_int_equal(varve_checkpoint(s, -1), -EINVAL);
    assert_int_equal(varve_checkpoint(s, 7), 0);
    int64_t version;
    strcpy(data, "y");
    assert_int_equal(varve_restart(s, 5, &version), 0); /* back: a new generation */
    assert_int_equal(version, 5);
    assert_string_equal(data, "x");
    strcpy(data, "z");
    assert_int_equal(varve_checkpoint(s, 6), 0);
    assert_int_equal(varve_checkpoint(s, 7), 0);
    strcpy(data, "?");
    assert_int_equal(varve_restart(s, VARVE_LATEST, &version), 0);
    assert_int_equal(version, 7);
    assert_string_equal(data, "z");
    assert_int_equal(varve_close(s), 0);
}

static void reject_offers_the_next_older(void **unused) {
    (void)unused;
    int value = 1;
    int64_t version;
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "value", &value, sizeof value);
    for (int i = 1; i <= 3; i++) {
        value = i;
        assert_int_equal(varve_checkpoint(s, i), 0);
    }
    for (int i = 3; i >= 1; i--) {
        assert_int_equal(varve_restart(s, VARVE_LATEST, &version), 0);
        assert_int_equal(version, i);
        assert_int_equal(value, i);
        assert_int_equal(varve_reject(s, version), 0);
    }
    /* Not to be taken for a first run. */
    assert_int_equal(varve_restart(s, VARVE_LATEST, &version), -ENOENT);
    assert_non_null(strstr(varve_session_error(s)->text, "were rejected"));
    assert_int_equal(varve_stored(s, VARVE_LATEST, NULL, NULL, NULL), -ENOENT);
    assert_int_equal(varve_restart(s, 2, &version), 0);
    assert_int_equal(varve_reject(s, 9), -ENOENT);
    assert_int_equal(varve_close(s), 0);
}

static void mismatch_writes_nothing(void **unused) {
    (void)unused;
    char a[64] = "first", b[64] = "second", more[128] = "keep";
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "a", a, sizeof a);
    varve_protect(s, "b", b, sizeof b);
    assert_int_equal(varve_checkpoint(s, 1), 0);
    strcpy(a, "changed");
    varve_protect(s, "b", more, sizeof more);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), VARVE_MISMATCH);
    assert_non_null(strstr(varve_session_error(s)->text, "region b"));
    assert_string_equal(a, "changed");
    assert_string_equal(more, "keep");
    assert_int_equal(varve_restart_regions(s, 1, NULL, 0, VARVE_RESTART_RESIZE, NULL), 0);
    assert_string_equal(a, "first");
    assert_string_equal(more, "second");
    varve_protect(s, "c", b, sizeof b);
    assert_int_equal(varve_restart_regions(s, 1, NULL, 0, VARVE_RESTART_RESIZE, NULL), VARVE_MISMATCH);
    assert_int_equal(varve_restart_regions(s, 1, NULL, 0, VARVE_RESTART_RESIZE | VARVE_RESTART_MISSING, NULL), 0);
    assert_int_equal(varve_close(s), 0);
}

static void chosen_regions_only(void **unused) {
    (void)unused;
    int a = 1, b = 2;
    const char *const only_b[] = {"b"}, *const unknown[] = {"nobody"};
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "a", &a, sizeof a);
    varve_protect(s, "b", &b, sizeof b);
    assert_int_equal(varve_checkpoint(s, 1), 0);
    a = b = 9;
    assert_int_equal(varve_restart_regions(s, VARVE_LATEST, unknown, 1, 0, NULL), VARVE_MISMATCH);
    assert_int_equal(varve_restart_regions(s, VARVE_LATEST, only_b, 1, 0, NULL), 0);
    assert_int_equal(a, 9);
    assert_int_equal(b, 2);
    assert_int_equal(varve_checkpoint(s, 2), 0); /* holds both as they are now */
    a = b = 0;
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_int_equal(a, 9);
    assert_int_equal(b, 2);
    assert_int_equal(varve_close(s), 0);
}

struct heard {
    int warnings;
    char last[512];
};

static void hear_warnings(void *arg, int level, const char *line) {
    struct heard *heard = arg;
    heard->warnings += level == 1;
    if (level == 1)
        snprintf(heard->last, sizeof heard->last, "%s", line);
}

static void *decline(void *arg, const struct varve_region_info *region) {
    (void)arg, (void)region;
    return VARVE_NOT_WANTED;
}
static void release_nothing(void *arg, const char *region, void *ptr) {
    (void)arg, (void)region, (void)ptr;
}

static void what_is_stored_and_not_protected_is_warned_of(void **unused) {
    (void)unused;
    static struct heard heard;
    int a = 1, b = 2, c = 3;
    const char *const only_a[] = {"a"};
    const struct varve_allocator allocator = {sizeof allocator, decline, release_nothing, NULL};
    struct varve_options options = {sizeof options, NULL, hear_warnings, &heard};
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "a", &a, sizeof a);
    varve_protect(s, "b", &b, sizeof b);
    varve_protect(s, "c", &c, sizeof c);
    varve_attribute(s, "unit", "kelvin"); /* a region of the library's own */
    assert_int_equal(varve_checkpoint(s, 7), 0);
    varve_close(s);
    assert_int_equal(varve_open(URI, "api", &options, &s, NULL), 0);
    varve_protect(s, "a", &a, sizeof a);
    heard.warnings = 0;
    assert_int_equal(varve_restart_regions(s, 7, only_a, 1, 0, NULL), 0); /* asked for by name */
    assert_int_equal(varve_restart_alloc(s, 7, &allocator, NULL, NULL), 0);
    assert_int_equal(heard.warnings, 0);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_int_equal(heard.warnings, 1);
    assert_non_null(strstr(heard.last, "version 7 has region b and 1 more, not protected here: not restored"));
    varve_protect(s, "b", &b, sizeof b);
    assert_int_equal(varve_restart_begin(s, VARVE_LATEST, NULL), 0);
    assert_int_equal(varve_restart_end(s), 0);
    assert_int_equal(heard.warnings, 2);
    assert_non_null(strstr(heard.last, "version 7 has region c, not protected here"));
    varve_protect(s, "c", &c, sizeof c);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_int_equal(heard.warnings, 2);
    varve_close(s);
}

struct list {
    char text[300000];
    uint64_t length;
    int is_failing;
};
static int list_length(void *arg, uint64_t *out) {
    *out = ((struct list *)arg)->length;
    return 0;
}
static int list_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    struct list *list = arg;
    memcpy(buffer, list->text + offset, size);
    return list->is_failing ? -7 : 0;
}
static int list_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    struct list *list = arg;
    list->length = total;
    memcpy(list->text + offset, buffer, size);
    return 0;
}

static void callbacks_save_and_load(void **unused) {
    (void)unused;
    static struct list list, copy;
    struct varve_callbacks callbacks = {sizeof callbacks, list_length, list_save, list_load, 0};
    struct varve_session *s = open_session(NULL);
    for (size_t i = 0; i < sizeof list.text; i++)
        list.text[i] = (char)(i * i / 7);
    assert_int_equal(varve_protect_callback(s, "list", &callbacks, &list), 0);
    for (int v = 1; v <= 4; v++) {
        list.length = (uint64_t)v * 70000;
        list.text[v * 1000]++;
        assert_int_equal(varve_checkpoint(s, v), 0);
    }
    copy = list;
    memset(&list, 0, sizeof list);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_int_equal(list.length, copy.length);
    assert_memory_equal(list.text, copy.text, copy.length);
    list.is_failing = 1;
    assert_int_equal(varve_checkpoint(s, 5), -7);
    assert_non_null(strstr(varve_session_error(s)->text, "region list"));
    list.is_failing = 0;
    struct vv_details stats = {0};
    assert_int_equal(varve_checkpoint(s, 6), 0);
    assert_int_equal(vv_details_get(s, &stats), 0);
    assert_int_equal(stats.bytes_changed, 0); /* the history survived restart and failure */
    assert_int_equal(varve_close(s), 0);
}

/* The table names every member: a struct that is made of it is as large. */
#define MEMBER_WIDE(member) uint64_t member;
#define MEMBER_SHORT(member) uint32_t member;
#define MEMBER_REAL(member) double member;
#define MEMBER_TEXT(member) char member[sizeof((struct vv_details *)0)->member];
#define MEMBER(kind, member, unit) MEMBER_##kind(member)
struct of_table {
    int64_t version;
    int result;
    VV_DETAILS_TABLE(MEMBER)
};

struct told {
    size_t count, texts;
    double stored;
    char names[96][24];
};

static void hear_stat(void *arg, const struct varve_stat *stat) {
    struct told *told = arg;
    assert_true(told->count < 96 && strlen(stat->name) > 0 && strlen(stat->name) < sizeof told->names[0]);
    for (size_t i = 0; i < told->count; i++)
        assert_string_not_equal(told->names[i], stat->name);
    strcpy(told->names[told->count++], stat->name);
    assert_non_null(stat->unit);
    if (!strncmp(stat->name, "bytes_", 6))
        assert_string_equal(stat->unit, "bytes");
    if (!strncmp(stat->name, "seconds_", 8))
        assert_string_equal(stat->unit, "seconds");
    if (!strcmp(stat->name, "bytes_stored"))
        told->stored = stat->value;
    if (stat->text) {
        assert_string_equal(stat->unit, "");
        assert_true(stat->value == 0);
        told->texts++;
    }
}

static void statistics_have_names(void **unused) {
    (void)unused;
    static struct told told;
    struct varve_session *s = open_session("codec=none");
    uint8_t *data = varve_alloc(s, "data", 8192);
    struct varve_stats stats = {.size = sizeof stats};
    assert_non_null(data);
    memset(data, 7, 4096);
    assert_int_equal(varve_checkpoint(s, 3), 0);
    assert_int_equal(varve_wait(s), 0);
    assert_int_equal(varve_stats_get(s, &stats), 0);
    assert_int_equal(stats.size, sizeof stats);
    assert_int_equal(stats.version, 3);
    assert_int_equal(stats.result, 0);
    assert_true(stats.seconds_blocked > 0 && stats.seconds_durable > 0);
    assert_int_equal(stats.bytes_protected, 8192);
    assert_int_equal(stats.bytes_changed, 8192);
    assert_int_equal(stats.bytes_stored, 4096);
    assert_int_equal(varve_stats_each(s, hear_stat, &told), 0);
    assert_int_equal(told.count, 78);
    assert_true(told.texts > 0 && told.texts < told.count);
    assert_true(told.stored == 4096);
    assert_int_equal(sizeof(struct of_table), sizeof(struct vv_details));
    assert_int_equal(varve_stats_each(s, NULL, NULL), -EINVAL);
    stats.size = sizeof stats + 1;
    assert_int_equal(varve_stats_get(s, &stats), -EINVAL);
    stats.size = offsetof(struct varve_stats, bytes_stored);
    stats.bytes_stored = 1;
    assert_int_equal(varve_stats_get(s, &stats), 0);
    assert_int_equal(stats.bytes_stored, 1);
    assert_int_equal(varve_close(s), 0);
}

static void statistics_add_up(void **unused) {
    (void)unused;
    enum { SIZE = 1 << 20 };
    /* room for every id: a table that is nearly full may forget one */
    struct varve_session *s = open_session("codec=none,table_share=0.5");
    uint8_t *data = varve_alloc(s, "data", SIZE);
    assert_non_null(data);
    srand(7);
    for (int i = 0; i < SIZE / 2; i++)
        data[i] = (uint8_t)rand();
    memcpy(data + SIZE / 2, data, SIZE / 4); /* half is unique, a quarter a copy, a quarter never touched */
    struct vv_details stats = {0};
    assert_int_equal(varve_checkpoint(s, 0), 0);
    assert_int_equal(varve_wait(s), 0);
    assert_int_equal(vv_details_get(s, &stats), 0);
    assert_int_equal(stats.bytes_protected, SIZE);
    assert_int_equal(stats.bytes_changed, SIZE);
    assert_int_equal(stats.bytes_zero, SIZE / 4);
    assert_int_equal(stats.bytes_known, SIZE / 4);
    assert_int_equal(stats.bytes_new, SIZE / 2);
    assert_int_equal(stats.bytes_stored, SIZE / 2);
    assert_true(strlen(stats.tracker) > 0 && strlen(stats.tracker_reason) > 0);
    assert_string_equal(stats.codec, "none");
    assert_true(stats.seconds_blocked > 0);
    data[5000]++;
    memset(data, 0, 4096);
    assert_int_equal(varve_checkpoint(s, 1), 0);
    assert_int_equal(varve_wait(s), 0);
    assert_int_equal(vv_details_get(s, &stats), 0);
    assert_int_equal(stats.bytes_changed, 8192);
    assert_int_equal(stats.bytes_zero, 4096);
    assert_int_equal(stats.bytes_stored, 4096);
    assert_int_equal(stats.runs_changed, 2);
    varve_free(s, data);
    assert_int_equal(varve_checkpoint(s, 2), 0);
    assert_int_equal(vv_details_get(s, &stats), 0);
    assert_int_equal(stats.bytes_protected, 0);
    assert_int_equal(varve_close(s), 0);
}

static void keep_keeps_at_least_two(void **unused) {
    (void)unused;
    int value;
    int64_t version;
    struct varve_session *s = open_session("keep=1");
    varve_protect(s, "value", &value, sizeof value);
    for (value = 1; value <= 5; value++)
        assert_int_equal(varve_checkpoint(s, value), 0);
    for (int v = 1; v <= 5; v++)
        assert_int_equal(varve_stored(s, v, NULL, NULL, &version), v >= 4 ? 0 : -ENOENT);
    assert_int_equal(varve_close(s), 0);
}

static void due_by_time_and_by_share(void **unused) {
    (void)unused;
    int value = 0;
    struct varve_session *s = open_session(NULL);
    assert_int_equal(varve_need(s), 1);
    varve_close(s);
    s = open_session("interval_seconds=3600");
    varve_protect(s, "value", &value, sizeof value);
    assert_int_equal(varve_need(s), 0);
    varve_close(s);
    s = open_session("interval_share=1");
    assert_int_equal(varve_need(s), 1);
    varve_close(s);
}

static void warnings_instead_of_failures(void **unused) {
    (void)unused;
    static struct list list = {.is_failing = 1, .length = 10};
    struct varve_callbacks callbacks = {sizeof callbacks, list_length, list_save, list_load, 0};
    struct varve_session *s = open_session("on_error=warn,log=error");
    varve_protect_callback(s, "list", &callbacks, &list);
    assert_int_equal(varve_checkpoint(s, 1), 0);
    struct vv_details stats = {0};
    vv_details_get(s, &stats);
    assert_int_equal(stats.result, -7); /* it is told where it is asked for */
    assert_int_equal(varve_close(s), -7);
}

static void versions_do_not_fall_below_a_failed_one(void **unused) {
    (void)unused;
    static struct list list = {.is_failing = 1, .length = 10};
    struct varve_callbacks callbacks = {sizeof callbacks, list_length, list_save, list_load, 0};
    struct varve_session *s = open_session(NULL);
    varve_protect_callback(s, "list", &callbacks, &list);
    assert_int_equal(varve_checkpoint(s, 10), -7);
    list.is_failing = 0;
    assert_int_equal(varve_checkpoint(s, 5), -EINVAL);
    assert_int_equal(varve_wait(s), -7);
    assert_int_equal(varve_checkpoint(s, 10), 0);
    assert_int_equal(varve_close(s), 0);
}

static int refuse_bytes(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size, (void)total;
    return 1;
}

static int refuse_access(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size, (void)total;
    return -EACCES;
}

static int count_loads(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size;
    assert_int_equal(total, 0);
    ++*(int *)arg;
    return 0;
}

static void a_failing_load_is_a_failure(void **unused) {
    (void)unused;
    static struct list list = {.length = 10};
    int loads = 0;
    struct varve_callbacks callbacks = {sizeof callbacks, list_length, list_save, refuse_bytes, 0};
    struct varve_session *s = open_session(NULL);
    varve_protect_callback(s, "list", &callbacks, &list);
    assert_int_equal(varve_checkpoint(s, 1), 0);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), -EIO);
    assert_string_equal(varve_session_error(s)->text, "region list: the program's load callback failed at byte 0 of 10,"
                                                      " with 1; what is stored was not found damaged");
    callbacks.load = refuse_access;
    varve_protect_callback(s, "list", &callbacks, &list);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), -EACCES);
    assert_non_null(strstr(varve_session_error(s)->text, "load callback failed at byte 0 of 10, with -13: Permission"));
    callbacks.load = refuse_bytes;
    varve_protect_callback(s, "list", &callbacks, &list);
    list.length = 0;
    assert_int_equal(varve_checkpoint(s, 2), 0);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), -EIO);
    assert_non_null(strstr(varve_session_error(s)->text, "load callback failed at byte 0 of 0, with 1;"));
    callbacks.load = count_loads;
    varve_protect_callback(s, "list", &callbacks, &loads);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_int_equal(loads, 1); /* it must hear that nothing was stored */
    assert_int_equal(varve_close(s), 0);
}

static void allocated_memory_lives_until_it_is_freed(void **unused) {
    (void)unused;
    char elsewhere[8192] = "elsewhere";
    struct varve_session *s = open_session(NULL);
    char *first = varve_alloc(s, "x", 8192);
    strcpy(first, "first");
    assert_int_equal(varve_protect(s, "x", elsewhere, sizeof elsewhere), 0);
    assert_string_equal(first, "first");
    char *second = varve_alloc(s, "y", 100);
    strcpy(second, "second");
    assert_int_equal(varve_unprotect(s, "y"), 0);
    assert_string_equal(second, "second");
    varve_free(s, first);
    varve_free(s, elsewhere); /* not ours: left alone */
    assert_int_equal(varve_checkpoint(s, 1), 0);
    elsewhere[0] = '?';
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_string_equal(elsewhere, "elsewhere");
    assert_int_equal(varve_close(s), 0);
}

/* Change one byte of the object, in the middle of the session's life. */
static void damage(const char *key, uint64_t offset) {
    struct varve_backend *backend;
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_open(URI, NULL, &backend, NULL), 0);
    assert_int_equal(vv_backend_get_all(backend, key, 1 << 30, &buf), 0);
    buf.data[offset] ^= 1;
    assert_int_equal(vv_backend_replace(backend, key, buf.data, buf.size), 0);
    vv_buf_clear(&buf);
    vv_backend_close(backend);
}

static void damage_behind_a_mismatch_is_told(void **unused) {
    (void)unused;
    static uint8_t data[1 << 20];
    struct varve_session *s = open_session("codec=none,log=error,block_size=64K");
    varve_protect(s, "data", data, 1000);
    assert_int_equal(varve_checkpoint(s, 1), 0);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)rand();
    varve_protect(s, "data", data, sizeof data);
    assert_int_equal(varve_checkpoint(s, 2), 0);
    assert_int_equal(varve_wait(s), 0);
    damage("n/api/data/00000001/0000000000000002/00000000/00000000", 900000);
    memset(data, 0, sizeof data);
    /* Version 2 was read in part, version 1 does not fit: MISMATCH would promise that nothing was written. */
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), VARVE_CORRUPT);
    assert_non_null(strstr(varve_session_error(s)->text, "is damaged"));
    assert_non_null(strstr(varve_session_error(s)->text, "an older checkpoint does not fit: region data"));
    varve_close(s);
}

static void a_lost_parent_begins_anew(void **unused) {
    (void)unused;
    char a[5000] = "a", b[9000] = "b";
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "a", a, sizeof a);
    varve_protect(s, "b", b, sizeof b);
    assert_int_equal(varve_checkpoint(s, 1), 0);
    varve_close(s);
    s = open_session(NULL);
    varve_protect(s, "b", b, sizeof b); /* in another order than stored */
    varve_protect(s, "a", a, sizeof a);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    damage("n/api/record/fffffffefffffffffffffffe", 200);
    b[1] = 'c';
    assert_int_equal(varve_checkpoint(s, 2), 0);
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_string_equal(a, "a");
    assert_string_equal(b, "bc");
    varve_close(s);
}

static void a_name_has_one_session(void **unused) {
    (void)unused;
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *s = open_session(NULL), *second = NULL;
    struct varve_error error = {0};
    options.settings = "takeover_seconds=0";
    assert_int_equal(varve_open(URI, "api", &options, &second, &error), VARVE_BUSY);
    assert_true(strlen(error.text) > 20);
    assert_int_equal(varve_open(URI, "another", &options, &second, &error), 0);
    varve_close(second);
    varve_close(s);
    assert_int_equal(varve_open(URI, "api", &options, &second, &error), 0); /* free as soon as it is closed */
    varve_close(second);
}

static void a_folder_with_other_files_is_no_store(void **unused) {
    (void)unused;
    char folder[] = "/tmp/varve-api-XXXXXX", path[64];
    struct varve_session *s = NULL;
    struct varve_error error = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/main.c", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(varve_open(folder, "api", NULL, &s, &error), VARVE_NO_STORE);
    assert_non_null(strstr(error.text, "empty folder"));
    unlink(path);
    assert_int_equal(varve_open(folder, "api", NULL, &s, &error), 0);
    varve_close(s);
    snprintf(path, sizeof path, "rm -rf %s", folder);
    assert_int_equal(system(path), 0);
}

static void bad_arguments_are_named(void **unused) {
    (void)unused;
    struct varve_session *s = NULL;
    struct varve_error error = {0};
    struct varve_options options = VARVE_OPTIONS_INIT;
    char name[400];
    memset(name, 'x', sizeof name);
    name[300] = 0;
    assert_int_equal(varve_open(URI, "", NULL, &s, &error), -EINVAL);
    assert_int_equal(varve_open(URI, name, NULL, &s, &error), -EINVAL);
    assert_int_equal(varve_open("gopher://x", "api", NULL, &s, &error) < 0, 1);
    assert_non_null(strstr(error.text, "gopher"));
    options.settings = "kepe=3";
    assert_int_equal(varve_open(URI, "api", &options, &s, &error), VARVE_SETTING);
    assert_non_null(strstr(error.text, "kepe"));
    s = open_session(NULL);
    assert_int_equal(varve_protect(s, "", name, 1), -EINVAL);
    assert_int_equal(varve_protect(s, name, name, 1), -EINVAL);
    assert_int_equal(varve_protect(s, "x", NULL, 1), -EINVAL);
    assert_int_equal(varve_protect(s, "x", NULL, 0), 0);
    assert_int_equal(varve_unprotect(s, "nobody"), -ENOENT);
    assert_int_equal(varve_checkpoint(s, 0), 0); /* an empty region is a region */
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    varve_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(first_run_has_no_checkpoint, forget_store),
        cmocka_unit_test_teardown(versions_rise, forget_store),
        cmocka_unit_test_teardown(reject_offers_the_next_older, forget_store),
        cmocka_unit_test_teardown(mismatch_writes_nothing, forget_store),
        cmocka_unit_test_teardown(chosen_regions_only, forget_store),
        cmocka_unit_test_teardown(what_is_stored_and_not_protected_is_warned_of, forget_store),
        cmocka_unit_test_teardown(callbacks_save_and_load, forget_store),
        cmocka_unit_test_teardown(statistics_have_names, forget_store),
        cmocka_unit_test_teardown(statistics_add_up, forget_store),
        cmocka_unit_test_teardown(keep_keeps_at_least_two, forget_store),
        cmocka_unit_test_teardown(due_by_time_and_by_share, forget_store),
        cmocka_unit_test_teardown(warnings_instead_of_failures, forget_store),
        cmocka_unit_test_teardown(versions_do_not_fall_below_a_failed_one, forget_store),
        cmocka_unit_test_teardown(a_failing_load_is_a_failure, forget_store),
        cmocka_unit_test_teardown(allocated_memory_lives_until_it_is_freed, forget_store),
        cmocka_unit_test_teardown(damage_behind_a_mismatch_is_told, forget_store),
        cmocka_unit_test_teardown(a_lost_parent_begins_anew, forget_store),
        cmocka_unit_test_teardown(a_name_has_one_session, forget_store),
        cmocka_unit_test_teardown(a_folder_with_other_files_is_no_store, forget_store),
        cmocka_unit_test_teardown(bad_arguments_are_named, forget_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
