/* Sessions that go on from a checkpoint without reading it, and regions of which nothing is kept in memory. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "dedup/table.h"
#include "details.h"
#include "storage/storage.h"
#include "test.h"

#define URI "mem://continue"
#define CHUNK 4096u
#define SIZE (2u << 20)

/* With the usual share one id in a thousand may be forgotten: tests that count chunks need more room. */
#define ROOMY "keep=all,table_share=0.05"

static uint8_t one[SIZE], two[SIZE], other[2 * SIZE], seen[2 * SIZE];

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error = {0};
    options.settings = settings ? settings : "log=error," ROOMY;
    if (varve_open(URI, "c", &options, &session, &error) != 0)
        fail_msg("open: %s", error.text);
    return session;
}

static int forget_store(void **unused) {
    (void)unused;
    vv_mem_drop("continue");
    return 0;
}

static void fill(uint8_t *data, size_t size, uint64_t seed) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t x = (seed * 1000003 + i) * UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
        memcpy(data + i, &x, size - i < 8 ? size - i : 8);
    }
}

static struct vv_details stats_of(struct varve_session *s) {
    struct vv_details stats = {0};
    assert_int_equal(varve_wait(s), 0);
    assert_int_equal(vv_details_get(s, &stats), 0);
    return stats;
}

static void save(struct varve_session *s, int64_t version) {
    if (varve_checkpoint(s, version) != 0 || varve_wait(s) != 0)
        fail_msg("version %" PRId64 ": %s", version, varve_session_error(s)->text);
}

static void go_on(struct varve_session *s, int64_t expected) {
    int64_t version = -5;
    if (varve_continue(s, VARVE_LATEST, &version) != 0)
        fail_msg("continue: %s", varve_session_error(s)->text);
    assert_int_equal(version, expected);
}

/* Version 1: one and two. */
static void first_life(const char *settings) {
    struct varve_session *s = open_session(settings);
    fill(one, sizeof one, 1);
    fill(two, sizeof two, 2);
    varve_protect(s, "one", one, sizeof one);
    varve_protect(s, "two", two, sizeof two - 100);
    save(s, 1);
    varve_close(s);
}

static int take_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    assert_true(offset + size <= total && total <= sizeof seen);
    memcpy((uint8_t *)arg + offset, data, size);
    return 0;
}

/* The region of this version, read by the tool's way, and verify has nothing to say. */
static void check_stored(int64_t version, const char *region, const void *expected, size_t size) {
    struct varve_store *store;
    struct varve_error error = {0};
    struct varve_which which = {"c", 0, version};
    assert_int_equal(varve_store_open(URI, NULL, &store, &error), 0);
    memset(seen, 0x5a, sizeof seen);
    if (varve_store_read(store, &which, 0, region, 0, take_bytes, seen, &error) != 0)
        fail_msg("%s of version %" PRId64 ": %s", region, version, error.text);
    assert_memory_equal(seen, expected, size);
    varve_store_close(store);
}

static void say(void *arg, int level, const char *key, const char *text) {
    (void)arg;
    print_message("level %d: %s: %s\n", level, key, text);
}

static void check_sound(uint64_t checkpoints) {
    struct varve_store *store;
    struct varve_error error = {0};
    struct varve_verify_options options = {.size = sizeof options, .finding = say};
    struct varve_verify_result result;
    assert_int_equal(varve_store_open(URI, NULL, &store, &error), 0);
    assert_int_equal(varve_store_verify(store, &options, &result, &error), 0);
    assert_int_equal(result.damaged_objects, 0);
    assert_int_equal(result.lost_checkpoints, 0);
    assert_int_equal(result.checkpoints, checkpoints);
    varve_store_close(store);
}

static int forget(int64_t version) {
    struct varve_store *store;
    struct varve_error error = {0};
    struct varve_which which = {"c", 0, version};
    struct varve_prune_result pruned;
    assert_int_equal(varve_store_open(URI, NULL, &store, &error), 0);
    int rc = varve_store_forget(store, &which, &error);
    assert_int_equal(varve_store_prune(store, NULL, 0, NULL, NULL, &pruned, &error), 0);
    varve_store_close(store);
    return rc;
}

/* ---- continuing ---- */

static void nothing_to_go_on_from(void **unused) {
    (void)unused;
    int64_t version = 42;
    struct varve_session *s = open_session(NULL);
    fill(one, sizeof one, 1);
    varve_protect(s, "one", one, sizeof one);
    assert_int_equal(varve_continue(s, VARVE_LATEST, &version), VARVE_NO_CHECKPOINT);
    assert_int_equal(version, 42);
    assert_int_equal(varve_continue(s, 7, NULL), -ENOENT);
    assert_int_equal(varve_continue(s, -9, NULL), -EINVAL);
    save(s, 1);
    assert_int_equal(stats_of(s).bytes_new, SIZE);
    varve_close(s);
}

static void unchanged_content_is_not_stored_again(void **unused) {
    (void)unused;
    first_life(NULL);
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "deux", two, sizeof two - 100); /* other names, another order */
    varve_protect(s, "un", one, sizeof one);
    go_on(s, 1);
    save(s, 2);
    struct vv_details stats = stats_of(s);
    assert_int_equal(stats.bytes_new, 0);
    assert_int_equal(stats.bytes_known, 2 * SIZE - 100);
    save(s, 3); /* from now on it is a session like any other */
    assert_int_equal(stats_of(s).bytes_changed, 0);
    varve_close(s);
    check_stored(2, "un", one, sizeof one);
    check_stored(3, "deux", two, sizeof two - 100);
    check_sound(3);
}

/* The same with the share that sessions have unless told otherwise. */
static void the_usual_table_will_do(void **unused) {
    (void)unused;
    first_life("log=error");
    struct varve_session *s = open_session("log=error");
    varve_protect(s, "one", one, sizeof one);
    varve_protect(s, "two", two, sizeof two - 100);
    go_on(s, 1);
    save(s, 2);
    assert_true(stats_of(s).bytes_new <= 2 * SIZE / 200);
    varve_close(s);
    check_stored(2, "two", two, sizeof two - 100);
}

static void content_moves_by_whole_chunks(void **unused) {
    (void)unused;
    first_life(NULL);
    memcpy(other, two, CHUNK * 300);
    memcpy(other + CHUNK * 300, one, SIZE);
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "all", other, CHUNK * 300 + SIZE);
    go_on(s, 1);
    save(s, 2);
    assert_int_equal(stats_of(s).bytes_new, 0);
    varve_close(s);
    check_stored(2, "all", other, CHUNK * 300 + SIZE);
    check_sound(2);
}

static void only_what_changed_is_stored(void **unused) {
    (void)unused;
    first_life(NULL);
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "one", one, sizeof one);
    varve_protect(s, "two", two, sizeof two - 100);
    go_on(s, 1);
    for (size_t i = 0; i < 20; i++)
        one[i * 7 * CHUNK + 5]++;
    save(s, 2);
    assert_int_equal(stats_of(s).bytes_new, 20 * CHUNK);
    memcpy(other, one, sizeof one);
    one[0]++;
    assert_int_equal(varve_restart(s, 2, NULL), 0);
    assert_memory_equal(one, other, sizeof one);
    varve_close(s);
    check_sound(2);
}

static void many_small_regions_are_known(void **unused) {
    (void)unused;
    char name[16];
    for (int life = 1; life <= 2; life++) {
        struct varve_session *s = open_session(NULL);
        fill(one, sizeof one, 3);
        for (int i = 0; i < 5000; i++) {
            snprintf(name, sizeof name, "%d.%d", life, i);
            varve_protect(s, name, one + 40 * (life == 1 ? i : 4999 - i), 40);
        }
        if (life == 2)
            go_on(s, 1);
        save(s, life);
        uint64_t stored = stats_of(s).bytes_new;
        assert_true(life == 1 ? stored == 200000 : stored <= 10 * 40); /* the table may forget a few */
        varve_close(s);
    }
    check_stored(2, "2.17", one + 40 * (4999 - 17), 40);
    check_sound(2);
}

static void the_older_one_may_go(void **unused) {
    (void)unused;
    first_life(NULL);
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "one", one, sizeof one);
    go_on(s, 1);
    assert_int_equal(forget(1), VARVE_BUSY); /* the session refers to it */
    one[9]++;
    save(s, 2);
    varve_close(s);
    memset(other, 0, sizeof other);
    assert_int_equal(forget(1), 0);
    check_stored(2, "one", one, sizeof one);
    check_sound(1);
    memcpy(other, one, sizeof one);
    s = open_session(NULL);
    memset(one, 0, sizeof one);
    varve_protect(s, "one", one, sizeof one);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_memory_equal(one, other, sizeof one);
    varve_close(s);
}

static void life_after_life(void **unused) {
    (void)unused;
    first_life("codec=none,log=error,part_size=1M");
    for (int64_t life = 2; life <= 8; life++) {
        struct varve_session *s = open_session("log=error,part_size=1M," ROOMY);
        varve_protect(s, "one", one, sizeof one);
        varve_protect(s, "two", two, sizeof two - 100);
        go_on(s, life - 1);
        one[(size_t)life * 2 * CHUNK]++;
        two[sizeof two - 101]++;
        save(s, life);
        assert_int_equal(stats_of(s).bytes_new, 2 * CHUNK - 100);
        varve_close(s);
        if (life > 3)
            assert_int_equal(forget(life - 2), 0);
    }
    check_stored(8, "one", one, sizeof one);
    check_stored(8, "two", two, sizeof two - 100);
    check_sound(3);
}

static void it_comes_before_the_first_checkpoint(void **unused) {
    (void)unused;
    first_life(NULL);
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "one", one, sizeof one);
    assert_int_equal(varve_restart_regions(s, 1, NULL, 0, 0, NULL), 0);
    assert_int_equal(varve_continue(s, VARVE_LATEST, NULL), -EINVAL);
    assert_non_null(strstr(varve_session_error(s)->text, "version 1"));
    varve_close(s);
    s = open_session(NULL);
    varve_protect(s, "one", one, sizeof one);
    save(s, 2);
    assert_int_equal(varve_continue(s, VARVE_LATEST, NULL), -EINVAL);
    assert_non_null(strstr(varve_session_error(s)->text, "first checkpoint"));
    varve_close(s);
    s = open_session(NULL); /* a restart may follow: it is what counts then */
    varve_protect(s, "one", one, sizeof one);
    go_on(s, 2);
    assert_int_equal(varve_restart(s, 1, NULL), 0);
    save(s, 3);
    assert_int_equal(stats_of(s).bytes_changed, 0);
    varve_close(s);
    check_stored(3, "one", one, sizeof one);
    check_sound(3);
}

static void a_version_by_its_number(void **unused) {
    (void)unused;
    first_life(NULL);
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "one", other, sizeof one);
    fill(other, sizeof one, 9);
    save(s, 2);
    varve_close(s);
    s = open_session(NULL);
    varve_protect(s, "one", one, sizeof one);
    int64_t version = 0;
    assert_int_equal(varve_continue(s, 1, &version), 0);
    assert_int_equal(version, 1);
    save(s, 5);
    assert_int_equal(stats_of(s).bytes_new, 0);
    varve_close(s);
    check_stored(5, "one", one, sizeof one);
}

static void dedup_none_is_no_reason_to_store_it_again(void **unused) {
    (void)unused;
    first_life(NULL);
    struct varve_session *s = open_session("dedup=none,log=error," ROOMY);
    varve_protect(s, "one", one, sizeof one);
    go_on(s, 1);
    save(s, 2);
    assert_int_equal(stats_of(s).bytes_new, 0);
    varve_close(s);
}

/* ---- damage ---- */

static void damage(const char *key, uint64_t behind) {
    struct varve_backend *backend;
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_open(URI, NULL, &backend, NULL), 0);
    assert_int_equal(vv_backend_get_all(backend, key, 1 << 30, &buf), 0);
    buf.data[buf.size - behind] ^= 1;
    assert_int_equal(vv_backend_replace(backend, key, buf.data, buf.size), 0);
    vv_buf_clear(&buf);
    vv_backend_close(backend);
}

static void remove_object(const char *key) {
    struct varve_backend *backend;
    assert_int_equal(vv_backend_open(URI, NULL, &backend, NULL), 0);
    assert_int_equal(vv_backend_remove(backend, key), 0);
    vv_backend_close(backend);
}

static void damaged_ones_are_passed_over(void **unused) {
    (void)unused;
    static const char key[] = "n/c/data/00000002/0000000000000002/00000000/00000000";
    for (int round = 0; round < 2; round++) {
        first_life(NULL);
        struct varve_session *s = open_session("log=error,part_size=1M,codec=none");
        fill(other, sizeof other, 5);
        varve_protect(s, "all", other, sizeof other);
        save(s, 2);
        varve_close(s);
        if (round == 0)
            damage(key, 40); /* in its footer */
        else
            remove_object("n/c/data/00000002/0000000000000002/00000000/00000000.00000001");
        s = open_session(NULL);
        assert_int_equal(varve_continue(s, 2, NULL), VARVE_CORRUPT);
        varve_protect(s, "one", one, sizeof one);
        go_on(s, 1);
        save(s, 3);
        assert_int_equal(stats_of(s).bytes_new, 0);
        varve_close(s);
        check_stored(3, "one", one, sizeof one);
        forget_store(NULL);
    }
}

/* ---- large regions ---- */

struct made {
    uint64_t size;
    uint64_t period;  /* bytes repeat after so many */
    uint64_t zero_to; /* zeros up to here */
    uint64_t shift;   /* chunks below have other content for each shift */
    uint64_t changed; /* that many chunks have it */
    uint64_t checked;
};

static void make_bytes(const struct made *made, uint64_t offset, uint8_t *buffer, size_t size) {
    for (size_t done = 0; done < size; done += 8) {
        uint64_t at = offset + done, x = at % made->period / 8 + 1;
        if (at / CHUNK < made->changed)
            x += made->shift * 1000003;
        x *= UINT64_C(0x9e3779b97f4a7c15);
        x = at < made->zero_to ? 0 : x ^ (x >> 31);
        memcpy(buffer + done, &x, size - done < 8 ? size - done : 8);
    }
}

static int made_length(void *arg, uint64_t *length) {
    *length = ((struct made *)arg)->size;
    return 0;
}
static int made_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    make_bytes(arg, offset, buffer, size);
    return 0;
}
static int made_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    struct made *made = arg;
    uint8_t *expected = malloc(size + 1);
    make_bytes(made, offset, expected, size);
    int differs = total != made->size || memcmp(expected, buffer, size) != 0;
    free(expected);
    made->checked += size;
    return differs;
}

static void protect_made(struct varve_session *s, struct made *made, unsigned flags) {
    struct varve_callbacks callbacks = {sizeof callbacks, made_length, made_save, made_load, flags};
    assert_int_equal(varve_protect_callback(s, "made", &callbacks, made), 0);
}

static void check_made(struct made *made) {
    struct varve_session *s = open_session(NULL);
    protect_made(s, made, 0);
    made->checked = 0;
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_int_equal(made->checked, made->size);
    varve_close(s);
}

static void large_regions_come_back(void **unused) {
    (void)unused;
    struct made made = {.size = 5 * SIZE + 77, .period = UINT64_MAX, .zero_to = 10 * CHUNK};
    struct varve_session *s = open_session(NULL);
    protect_made(s, &made, VARVE_LARGE);
    save(s, 1);
    assert_int_equal(stats_of(s).bytes_new, made.size - made.zero_to);
    save(s, 2);
    struct vv_details stats = stats_of(s);
    assert_int_equal(stats.bytes_new, 0);
    assert_int_equal(stats.bytes_changed, 0);
    assert_int_equal(stats.runs_changed, 0);
    made.changed = 30; /* of them 10 zeros */
    made.shift = 1;
    save(s, 3);
    assert_int_equal(stats_of(s).bytes_new, 20 * CHUNK);
    made.size = 2 * SIZE + 5; /* shorter, and longer again */
    save(s, 4);
    made.size = 3 * SIZE + 5;
    save(s, 5);
    made.zero_to = 0;
    save(s, 6);
    varve_close(s);
    check_made(&made);
    s = open_session(NULL); /* a restart keeps no ids either, and knows what is there all the same */
    protect_made(s, &made, VARVE_LARGE);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    save(s, 7);
    stats = stats_of(s);
    assert_int_equal(stats.bytes_new, 0);
    assert_int_equal(stats.bytes_changed, 0);
    varve_close(s);
    check_made(&made);
    check_sound(7);
}

/* Where few bytes are left alive, they are stored again, so that the rest can go. */
static void large_regions_leave_sparse_sources(void **unused) {
    (void)unused;
    struct made made = {.size = 400 * CHUNK, .period = UINT64_MAX};
    struct varve_session *s = open_session("log=error," ROOMY ",space=1.2,keep=2");
    protect_made(s, &made, VARVE_LARGE);
    save(s, 1);
    made.changed = 350;
    made.shift = 1;
    save(s, 2);
    assert_int_equal(stats_of(s).bytes_new, 350 * CHUNK);
    made.changed = 350;
    made.shift = 2;
    save(s, 3);
    struct vv_details stats = stats_of(s);
    assert_int_equal(stats.bytes_new, 350 * CHUNK);
    assert_int_equal(stats.bytes_rewritten, 50 * CHUNK);
    save(s, 4);
    stats = stats_of(s);
    assert_int_equal(stats.bytes_new, 0);
    assert_int_equal(stats.bytes_rewritten, 0);
    varve_close(s);
    check_made(&made);
    check_sound(2);
}

/* What is replaced again and again must not push what stays out of the table. */
static void what_stays_is_remembered(void **unused) {
    (void)unused;
    struct made made = {.size = 2000 * CHUNK, .period = UINT64_MAX, .changed = 1000};
    struct varve_session *s = open_session("log=error,space=0");
    protect_made(s, &made, VARVE_LARGE);
    save(s, 1);
    uint64_t again = 0;
    for (int64_t version = 2; version <= 12; version++) {
        made.shift = (uint64_t)version;
        save(s, version);
        again += stats_of(s).bytes_new - 1000 * CHUNK;
    }
    print_message("%d of 11000 chunks were stored again\n", (int)(again / CHUNK));
    assert_true(again / CHUNK < 1100); /* without a thought for age it would be a quarter */
    varve_close(s);
    check_made(&made);
}

/* Every allocation on the way fails once: an error, or a table that knows less, and nothing else. */
static void want_of_memory(void **unused) {
    (void)unused;
    for (uint64_t k = 1, is_over = 0; !is_over; k++) {
        int64_t version = -5;
        forget_store(NULL); /* sessions that commit nothing add to what the next one looks at */
        first_life(NULL);
        struct varve_session *s = open_session(NULL);
        varve_protect(s, "one", one, sizeof one);
        vv_alloc_fail_at(k);
        int rc = varve_continue(s, VARVE_LATEST, &version);
        is_over = vv_alloc_count() < k;
        vv_alloc_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
        if (rc != 0)
            assert_int_equal(version, -5);
        if (rc == 0 && is_over)
            assert_int_equal(version, 1);
        if (rc == -ENOMEM)
            go_on(s, 1); /* it changed nothing */
        varve_close(s);
        if (k == 1 && is_over) {
            print_message("allocations do not fail in this build\n");
            skip();
        }
    }
}

static void large_becomes_small_and_back(void **unused) {
    (void)unused;
    struct made made = {.size = SIZE + 99, .period = UINT64_MAX, .zero_to = 3 * CHUNK};
    struct varve_session *s = open_session("keep=all,log=error,on_error=fail");
    for (int64_t version = 1; version <= 12; version++) {
        made.changed = 5;
        made.shift = (uint64_t)version;
        made.size += version % 3 == 0 ? 6 * CHUNK : -(uint64_t)(2 * CHUNK + 1);
        made.zero_to = version % 4 * 2 * CHUNK;
        protect_made(s, &made, version % 4 < 2 ? VARVE_LARGE : 0);
        save(s, version);
        made.checked = 0;
        check_sound((uint64_t)version);
    }
    varve_close(s);
    check_made(&made);
}

/* A checkpoint that fails between the two kinds must not leave half a history. */
static int fail_at_end(void *arg, uint64_t offset, void *buffer, size_t size) {
    struct made *made = arg;
    make_bytes(made, offset, buffer, size);
    return offset + size == made->size ? -EIO : 0;
}

static void a_failed_change_of_kind(void **unused) {
    (void)unused;
    for (unsigned from = 0; from <= VARVE_LARGE; from += VARVE_LARGE) {
        struct made made = {.size = 4 * SIZE, .period = UINT64_MAX, .zero_to = 0};
        struct varve_callbacks failing = {sizeof failing, made_length, fail_at_end, made_load, VARVE_LARGE - from};
        struct varve_session *s = open_session("log=error,capture=sync," ROOMY);
        protect_made(s, &made, from);
        save(s, 1);
        made.zero_to = 3 * CHUNK; /* what was not zero becomes zero */
        assert_int_equal(varve_protect_callback(s, "made", &failing, &made), 0);
        assert_int_equal(varve_checkpoint(s, 2), -EIO);
        protect_made(s, &made, VARVE_LARGE - from);
        save(s, 2);
        assert_int_equal(stats_of(s).bytes_new, 0);
        varve_close(s);
        check_made(&made);
        check_sound(2);
        forget_store(NULL);
    }
}

static void a_failed_checkpoint_forgets_nothing(void **unused) {
    (void)unused;
    struct made made = {.size = CHUNK, .period = UINT64_MAX};
    struct varve_callbacks failing = {sizeof failing, made_length, fail_at_end, made_load, 0};
    first_life(NULL);
    struct varve_session *s = open_session("log=error,capture=sync," ROOMY);
    varve_protect(s, "one", one, sizeof one);
    varve_protect_callback(s, "made", &failing, &made);
    go_on(s, 1);
    assert_int_equal(varve_checkpoint(s, 2), -EIO);
    protect_made(s, &made, 0);
    save(s, 2);
    assert_int_equal(stats_of(s).bytes_new, CHUNK);
    varve_close(s);
    check_stored(2, "one", one, sizeof one);
    check_sound(2);
}

static void older_programs_have_no_flags(void **unused) {
    (void)unused;
    struct made made = {.size = 1000, .period = UINT64_MAX};
    struct varve_callbacks callbacks = {offsetof(struct varve_callbacks, flags), made_length, made_save, made_load, 77};
    struct varve_session *s = open_session(NULL);
    assert_int_equal(varve_protect_callback(s, "made", &callbacks, &made), 0);
    save(s, 1);
    callbacks.size = sizeof callbacks;
    assert_int_equal(varve_protect_callback(s, "made", &callbacks, &made), -EINVAL);
    callbacks.size = offsetof(struct varve_callbacks, load);
    assert_int_equal(varve_protect_callback(s, "made", &callbacks, &made), -EINVAL);
    varve_close(s);
    check_made(&made);
}

struct repeated {
    uint64_t size;
    uint64_t changed; /* this chunk is another; 0: none */
    uint8_t period[8 << 20];
};

static int repeated_length(void *arg, uint64_t *length) {
    *length = ((struct repeated *)arg)->size;
    return 0;
}
static int repeated_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    const struct repeated *repeated = arg;
    uint64_t at = offset % sizeof repeated->period, changed = repeated->changed * CHUNK;
    assert_true(at + size <= sizeof repeated->period);
    memcpy(buffer, repeated->period + at, size);
    if (changed > offset && changed < offset + size)
        ((uint8_t *)buffer)[changed - offset] ^= 1;
    return 0;
}
static int repeated_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size, (void)total;
    return 0;
}

static long resident_kb(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

#if defined(__has_feature)
#define IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

/* Ids and those that wait for the commit would be 36 MiB of 4 GiB; here all but 8 MiB repeat. */
static void large_regions_take_no_memory(void **unused) {
    (void)unused;
    const char *percent = getenv("TEST_SCALE");
    static struct repeated repeated;
    repeated.size = UINT64_C(1) << (percent && atoi(percent) > 0 && atoi(percent) < 100 ? 30 : 32);
    struct varve_callbacks callbacks = {sizeof callbacks, repeated_length, repeated_save, repeated_load, VARVE_LARGE};
    fill(repeated.period, sizeof repeated.period, 4);
    struct varve_session *s = open_session("log=error,table_share=0.0001,codec=none");
    assert_int_equal(varve_protect_callback(s, "repeated", &callbacks, &repeated), 0);
    long before = resident_kb();
    save(s, 1);
    assert_int_equal(stats_of(s).bytes_new, sizeof repeated.period);
    repeated.changed = 99;
    save(s, 2);
    assert_int_equal(stats_of(s).bytes_new, CHUNK);
    long grown = resident_kb() - before - (long)(sizeof repeated.period >> 10); /* the store is in memory, too */
    print_message("%ld KiB more\n", grown);
    varve_close(s);
    if (!IS_SANITIZED)
        assert_true(grown < 24 << 10);
}

/* ---- the table they depend on ---- */

static void the_table_uses_its_places(void **unused) {
    (void)unused;
    struct vv_table table = {0};
    uint64_t lost = 0, entries = 1 << 16, count = entries / 5 * 4;
    assert_int_equal(vv_table_resize(&table, entries), 0);
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 1; i <= count; i++) {
            uint8_t bytes[16];
            struct vv_known known = {.address = i};
            fill(bytes, sizeof bytes, i);
            memcpy(&known.id, bytes, sizeof bytes);
            const struct vv_known *found = pass ? vv_table_find(&table, known.id) : NULL;
            if (pass == 0)
                vv_table_put(&table, &known, NULL);
            lost += pass && (!found || found->address != i);
        }
    print_message("%d of %d forgotten\n", (int)lost, (int)count);
    assert_true(lost * 1000 <= count);
    vv_table_clear(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nothing_to_go_on_from, forget_store),
        cmocka_unit_test_teardown(unchanged_content_is_not_stored_again, forget_store),
        cmocka_unit_test_teardown(the_usual_table_will_do, forget_store),
        cmocka_unit_test_teardown(content_moves_by_whole_chunks, forget_store),
        cmocka_unit_test_teardown(only_what_changed_is_stored, forget_store),
        cmocka_unit_test_teardown(many_small_regions_are_known, forget_store),
        cmocka_unit_test_teardown(the_older_one_may_go, forget_store),
        cmocka_unit_test_teardown(life_after_life, forget_store),
        cmocka_unit_test_teardown(it_comes_before_the_first_checkpoint, forget_store),
        cmocka_unit_test_teardown(a_version_by_its_number, forget_store),
        cmocka_unit_test_teardown(dedup_none_is_no_reason_to_store_it_again, forget_store),
        cmocka_unit_test_teardown(a_failed_checkpoint_forgets_nothing, forget_store),
        cmocka_unit_test_teardown(damaged_ones_are_passed_over, forget_store),
        cmocka_unit_test_teardown(large_regions_come_back, forget_store),
        cmocka_unit_test_teardown(large_regions_leave_sparse_sources, forget_store),
        cmocka_unit_test_teardown(what_stays_is_remembered, forget_store),
        cmocka_unit_test_teardown(want_of_memory, forget_store),
        cmocka_unit_test_teardown(large_becomes_small_and_back, forget_store),
        cmocka_unit_test_teardown(a_failed_change_of_kind, forget_store),
        cmocka_unit_test_teardown(older_programs_have_no_flags, forget_store),
        cmocka_unit_test_teardown(large_regions_take_no_memory, forget_store),
        cmocka_unit_test(the_table_uses_its_places),
    };
    unsetenv("VARVE_SETTINGS");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
