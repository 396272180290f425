/* A restart that hands out regions while others are still to be read: one process, and ranks that must agree.
 *
 * The linker gives us the calls that read a batch of regions (-Wl,--wrap): a test lets as many pass as it wants, so
 * what is not read yet is certain, and depends on no clock. */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "details.h"
#include "folder.h"
#include "group.h"
#include "read/view.h"
#include "test.h"

#define RANKS 3
#define REGIONS 4
#define PAGE ((size_t)4096)
#define SIZE ((size_t)1 << 20) /* of a region: 16 blocks, so it is read without the next one */
#define NAME "begin"
#define USUAL "log=error,keep=all,block_size=64K,threads=2,codec=none,aggregate=off"
#define GARBAGE 0xa5
#define ALL 1000000

static char folder[64];
static const char *const names[REGIONS] = {"a", "b", "c", "d"};

/* ---- the gate ---- */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static int gate_open = ALL; /* batches that may still pass */
static int batches;         /* that have passed */
static _Thread_local int opens_when_waiting, opens_when_joining;

static void gate_set(int count) {
    pthread_mutex_lock(&gate_lock);
    gate_open = count;
    batches = 0;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

static void gate_more(int *count) {
    pthread_mutex_lock(&gate_lock);
    gate_open += *count;
    *count = 0;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock) {
    if (opens_when_waiting)
        gate_more(&opens_when_waiting);
    return __real_pthread_cond_wait(cond, lock);
}

int __real_pthread_join(pthread_t thread, void **out);
int __wrap_pthread_join(pthread_t thread, void **out);
int __wrap_pthread_join(pthread_t thread, void **out) {
    if (opens_when_joining)
        gate_more(&opens_when_joining);
    return __real_pthread_join(thread, out);
}

__typeof__(vv_fetch_run) __real_vv_fetch_run, __wrap_vv_fetch_run;
int __wrap_vv_fetch_run(struct vv_fetch *fetch, struct varve_error *error) {
    pthread_mutex_lock(&gate_lock);
    while (gate_open == 0)
        __real_pthread_cond_wait(&gate_changed, &gate_lock);
    gate_open--;
    batches++;
    pthread_mutex_unlock(&gate_lock);
    return __real_vv_fetch_run(fetch, error);
}

/* ---- the program ---- */

struct program {
    struct varve_comm *comm; /* NULL: one process */
    uint32_t rank;
    struct varve_session *session;
    uint8_t *region[REGIONS];
};

/* In a rank of a group there is no cmocka. */
#define must(program, condition, ...)                                                                                  \
    do {                                                                                                               \
        int must_hold = (condition);                                                                                   \
        if (!must_hold && (program)->comm)                                                                             \
            group_fail((program)->comm, __VA_ARGS__);                                                                  \
        if (!must_hold)                                                                                                \
            fail_msg(__VA_ARGS__);                                                                                     \
    } while (0)
#define must_be(program, call, code)                                                                                   \
    do {                                                                                                               \
        int must_code = (call);                                                                                        \
        must(program, must_code == (code), "%s gave %d, not %d: %s", #call, must_code, (int)(code),                    \
             varve_session_error((program)->session)->text);                                                           \
    } while (0)

/* One page in eight is this rank's alone, the others are everybody's: so much that ranks of several nodes read for each
 * other. */
static uint64_t word_of(uint32_t rank, int region, int64_t version, size_t at) {
    uint64_t owner = at / PAGE % 8 == 1 ? rank + 1 : 0;
    uint64_t page = owner << 48 | (uint64_t)version << 40 | (uint64_t)region << 32 | at / PAGE;
    return (page + 1) * UINT64_C(0x9e3779b97f4a7c15) + at % PAGE * UINT64_C(0xbf58476d1ce4e5b9);
}

static void fill(struct program *program, int64_t version) {
    for (int r = 0; r < REGIONS; r++)
        for (size_t at = 0; at < SIZE; at += 8) {
            uint64_t word = word_of(program->rank, r, version, at);
            memcpy(program->region[r] + at, &word, 8);
        }
}

static int is_right(const struct program *program, int region, int64_t version) {
    for (size_t at = 0; at < SIZE; at += 8) {
        uint64_t word = word_of(program->rank, region, version, at);
        if (memcmp(program->region[region] + at, &word, 8) != 0)
            return 0;
    }
    return 1;
}

static int is_garbage(const struct program *program, int region) {
    for (size_t at = 0; at < SIZE; at++)
        if (program->region[region][at] != GARBAGE)
            return 0;
    return 1;
}

static void open_session(struct program *program, struct varve_comm *comm, const char *query, const char *more) {
    char address[128], settings[256];
    struct varve_options options = {.size = sizeof options, .settings = settings};
    struct varve_error error;
    snprintf(address, sizeof address, "file://%s%s", folder, query);
    snprintf(settings, sizeof settings, "%s%s", USUAL, more);
    *program = (struct program){.comm = comm, .rank = comm ? comm->rank : 0};
    int rc = comm ? varve_open_comm(group_comm(comm), address, NAME, &options, &program->session, &error)
                  : varve_open(address, NAME, &options, &program->session, &error);
    must(program, rc == 0, "open: %s", error.text);
    for (int r = 0; r < REGIONS; r++) {
        program->region[r] = aligned_alloc(PAGE, SIZE);
        memset(program->region[r], GARBAGE, SIZE);
        must_be(program, varve_protect(program->session, names[r], program->region[r], SIZE), 0);
    }
}

static void close_session(struct program *program) {
    must(program, varve_close(program->session) == 0, "close");
    for (int r = 0; r < REGIONS; r++)
        free(program->region[r]);
}

static uint64_t save(struct program *program, int64_t version) {
    struct vv_details stats;
    must_be(program, varve_checkpoint(program->session, version), 0);
    must_be(program, varve_wait(program->session), 0);
    must_be(program, vv_details_get(program->session, &stats), 0);
    return stats.bytes_stored;
}

/* Versions 1 to count. */
static void make_store(struct varve_comm *comm, const char *more, int64_t count) {
    struct program program;
    open_session(&program, comm, "", more);
    for (int64_t version = 1; version <= count; version++) {
        fill(&program, version);
        save(&program, version);
    }
    close_session(&program);
}

static void begin(struct program *program, int64_t version) {
    int64_t got = -1;
    must_be(program, varve_restart_begin(program->session, VARVE_LATEST, &got), 0);
    must(program, got == version, "version %" PRId64, got);
}

static void must_wait(struct program *program, int region, int64_t version) {
    must_be(program, varve_restart_wait(program->session, names[region]), 0);
    must(program, is_right(program, region, version), "region %s has other bytes", names[region]);
}

static void must_end(struct program *program, int64_t version) {
    must_be(program, varve_restart_end(program->session), 0);
    for (int r = 0; r < REGIONS; r++)
        must(program, is_right(program, r, version), "region %s has other bytes after the end", names[r]);
}

/* ---- damage ---- */

static uint64_t damaged_word;
static int damaged_files;

/* Wherever the word is stored, a bit is turned. */
static int damage_file(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    FILE *file = kind == FTW_F ? fopen(path, "r+be") : NULL;
    uint8_t *data = file ? malloc((size_t)st->st_size + 1) : NULL;
    (void)ftw;
    size_t size = data ? fread(data, 1, (size_t)st->st_size, file) : 0;
    const uint8_t *found = size ? memmem(data, size, &damaged_word, sizeof damaged_word) : NULL;
    if (found) {
        fseek(file, found - data, SEEK_SET);
        fputc(*found ^ 1, file);
        damaged_files++;
    }
    free(data);
    if (file)
        fclose(file);
    return 0;
}

/* Of a page that only this rank has. */
static void damage(uint32_t rank, int region, int64_t version) {
    damaged_word = word_of(rank, region, version, PAGE + 8);
    damaged_files = 0;
    nftw(folder, damage_file, 16, FTW_PHYS);
    assert_int_equal(damaged_files, 1);
}

/* ---- one process ---- */

static int setup(void **state) {
    (void)state;
    gate_set(ALL);
    return folder_make(NULL, "test-restart-begin", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    gate_set(ALL);
    return folder_remove(folder);
}

/* A store, and a restart that has handed out the first region. */
static void begin_with_one(struct program *program) {
    make_store(NULL, "", 1);
    open_session(program, NULL, "", "");
    gate_set(1);
    begin(program, 1);
    must_wait(program, 0, 1);
}

static void regions_come_one_by_one(void **state) {
    struct program program;
    (void)state;
    begin_with_one(&program);
    for (int r = 1; r < REGIONS; r++)
        assert_true(is_garbage(&program, r));
    must_wait(&program, 0, 1); /* again */
    opens_when_waiting = 1;
    must_wait(&program, 1, 1);
    assert_true(is_garbage(&program, 2));
    assert_true(is_garbage(&program, 3));
    opens_when_joining = 2;
    must_end(&program, 1);
    assert_int_equal(batches, REGIONS);
    close_session(&program);
}

static void the_one_that_is_waited_for_comes_first(void **state) {
    struct program program;
    (void)state;
    begin_with_one(&program);
    opens_when_waiting = 2; /* b is being read already */
    must_wait(&program, 3, 1);
    must_wait(&program, 1, 1);
    assert_true(is_garbage(&program, 2));
    opens_when_waiting = 1;
    must_wait(&program, 2, 1);
    must_end(&program, 1);
    close_session(&program);
}

/* Small ones share blocks: they are read together, not one after the other. */
static void small_regions_are_read_together(void **state) {
    static uint8_t small[64][PAGE], seen[64][PAGE];
    struct varve_session *session;
    struct varve_error error;
    struct varve_options options = {.size = sizeof options, .settings = USUAL};
    char address[128], name[16];
    (void)state;
    snprintf(address, sizeof address, "file://%s", folder);
    for (int life = 0; life < 2; life++) {
        assert_int_equal(varve_open(address, NAME, &options, &session, &error), 0);
        for (int i = 0; i < 64; i++) {
            snprintf(name, sizeof name, "small%d", i);
            memset(small[i], i + 1, PAGE);
            assert_int_equal(varve_protect(session, name, life ? seen[i] : small[i], PAGE), 0);
        }
        if (life == 0)
            assert_int_equal(varve_checkpoint(session, 1), 0);
        gate_set(ALL);
        if (life == 1) {
            assert_int_equal(varve_restart_begin(session, VARVE_LATEST, NULL), 0);
            assert_int_equal(varve_restart_wait(session, "small63"), 0);
            assert_memory_equal(seen[63], small[63], PAGE);
            assert_int_equal(varve_restart_end(session), 0);
            assert_memory_equal(seen, small, sizeof seen);
            assert_in_range(batches, 1, 2); /* from the wish on, and the rest */
        }
        assert_int_equal(varve_close(session), 0);
    }
}

/* The next checkpoint stores what is different from the one that was restored, and finds what the program has changed
 * before the end. With fine chunks, nobody may take what is in memory at the end for what was restored. */
static void what_was_handed_out_may_change(void **state) {
    static const char *const settings[] = {"", ",fine=64", ",fine=64,tracker=none", ",capture=sync"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct program program;
        make_store(NULL, settings[i], 1);
        open_session(&program, NULL, "", settings[i]);
        gate_set(1);
        begin(&program, 1);
        must_wait(&program, 0, 1);
        program.region[0][5 * PAGE + 100] ^= 0xff;
        opens_when_joining = 3;
        must_be(&program, varve_restart_end(program.session), 0);
        gate_set(ALL);
        uint64_t stored = save(&program, 2);
        print_message("\"%s\": the next checkpoint stores %" PRIu64 " bytes\n", settings[i], stored);
        assert_in_range(stored, 1, 2 * PAGE);
        close_session(&program);
        open_session(&program, NULL, "", settings[i]);
        must_be(&program, varve_restart(program.session, VARVE_LATEST, NULL), 0);
        program.region[0][5 * PAGE + 100] ^= 0xff;
        for (int r = 0; r < REGIONS; r++)
            assert_true(is_right(&program, r, 1));
        close_session(&program);
        folder_remove(folder);
        setup(state);
    }
}

static void a_damaged_one_is_not_handed_out(void **state) {
    struct program program;
    int64_t version = -1;
    (void)state;
    make_store(NULL, "", 2);
    damage(0, 2, 2);
    open_session(&program, NULL, "", ",log=error");
    begin(&program, 2);
    must_wait(&program, 0, 2);
    must_wait(&program, 1, 2);
    must_be(&program, varve_restart_wait(program.session, "c"), VARVE_CORRUPT);
    assert_non_null(strstr(varve_session_error(program.session)->text, "region c"));
    must_be(&program, varve_restart_wait(program.session, "d"), VARVE_CORRUPT);
    must_wait(&program, 0, 2);
    must_be(&program, varve_restart_end(program.session), VARVE_CORRUPT);
    assert_non_null(strstr(varve_session_error(program.session)->text, "region c"));
    must_be(&program, varve_restart_wait(program.session, "a"), -EINVAL);
    must_be(&program, varve_restart(program.session, VARVE_LATEST, &version), 0);
    assert_int_equal(version, 1);
    for (int r = 0; r < REGIONS; r++)
        assert_true(is_right(&program, r, 1));
    close_session(&program);
}

static int count_failed(void *arg, const struct varve_job_log *log) {
    static const char failed[] = "\"what\":\"restart failed\"";
    *(int *)arg += log->text && memmem(log->text, log->length, failed, sizeof failed - 1) != NULL;
    return 0;
}

/* Inside the call or behind it: `varve report` tells that it failed. */
static void a_failure_is_in_the_log(void **state) {
    for (int is_inside = 0; is_inside < 2; is_inside++) {
        struct program program;
        struct varve_store *store;
        struct varve_error error;
        int failed = 0;
        int64_t version = -1;
        make_store(NULL, "", 1);
        damage(0, 2, 1);
        open_session(&program, NULL, "", is_inside ? ",threads=0" : "");
        must_be(&program, varve_restart_begin(program.session, VARVE_LATEST, &version), is_inside ? VARVE_CORRUPT : 0);
        must_be(&program, varve_restart_end(program.session), is_inside ? -EINVAL : VARVE_CORRUPT);
        save(&program, 2);
        close_session(&program);
        assert_int_equal(varve_store_open(folder, NULL, &store, &error), 0);
        assert_int_equal(varve_store_logs(store, NAME, count_failed, &failed, &error), 0);
        varve_store_close(store);
        assert_int_equal(failed, 1);
        folder_remove(folder);
        setup(state);
    }
}

static int no_region(void *arg, const struct varve_region_info *region) {
    (void)arg, (void)region;
    return 0;
}

static int no_memory(void *arg, struct varve_memory *out) {
    (void)arg, (void)out;
    return -1;
}

static void ignore_stat(void *arg, const struct varve_stat *stat) {
    (void)arg, (void)stat;
}

static void *give_nothing(void *arg, const struct varve_region_info *region) {
    (void)arg, (void)region;
    return NULL;
}

static void take_nothing(void *arg, const char *region, void *ptr) {
    (void)arg, (void)region, (void)ptr;
}

#define refused(call)                                                                                                  \
    do {                                                                                                               \
        must_be(&program, call, -EBUSY);                                                                               \
        const char *const text = varve_session_error(s)->text;                                                         \
        if (strncmp(text, #call, strcspn(#call, "(")) != 0 || !strstr(text, "varve_restart_end"))                      \
            fail_msg("%s: %s", #call, text);                                                                           \
    } while (0)

static void other_calls_are_refused(void **state) {
    static const struct varve_allocator allocator = {
        .size = sizeof allocator, .alloc = give_nothing, .release = take_nothing};
    static const struct varve_array array = {
        .size = sizeof array, .type = VARVE_U8, .dims = 1, .dim = {{.local = PAGE}}};
    struct varve_callbacks callbacks = {.size = sizeof callbacks};
    struct varve_stats stats = {.size = sizeof stats};
    uint8_t other[PAGE];
    struct program program;
    (void)state;
    make_store(NULL, "", 1);
    open_session(&program, NULL, "", ",log=error");
    struct varve_session *s = program.session;
    must_be(&program, varve_restart_wait(s, "a"), -EINVAL);
    must_be(&program, varve_restart_end(s), -EINVAL);
    void *mine = varve_alloc(s, "mine", PAGE);
    assert_non_null(mine);
    must_be(&program, varve_restart_begin(s, VARVE_LATEST, NULL), VARVE_MISMATCH); /* it is not stored */
    must_be(&program, varve_unprotect(s, "mine"), 0);
    begin(&program, 1);
    refused(varve_protect(s, "x", other, PAGE));
    refused(varve_protect_flags(s, "x", other, PAGE, 0));
    refused(varve_protect_array(s, "x", other, &array));
    refused(varve_protect_moving(s, "x", no_memory, NULL));
    refused(varve_protect_callback(s, "x", &callbacks, NULL));
    refused(varve_describe(s, "a", NULL));
    refused(varve_fine(s, "a", 64));
    refused(varve_unprotect(s, "a"));
    refused(varve_checkpoint(s, 2));
    refused(varve_wait(s));
    refused(varve_test(s));
    refused(varve_need(s));
    refused(varve_restart(s, VARVE_LATEST, NULL));
    refused(varve_restart_regions(s, VARVE_LATEST, NULL, 0, 0, NULL));
    refused(varve_restart_alloc(s, VARVE_LATEST, &allocator, NULL, NULL));
    refused(varve_restart_begin(s, VARVE_LATEST, NULL));
    refused(varve_continue(s, VARVE_LATEST, NULL));
    refused(varve_reject(s, 1));
    refused(varve_stored(s, VARVE_LATEST, no_region, NULL, NULL));
    refused(varve_stats_get(s, &stats));
    refused(varve_stats_each(s, ignore_stat, NULL));
    assert_null(varve_alloc(s, "x", PAGE));
    assert_int_equal(varve_session_error(s)->code, -EBUSY);
    varve_free(s, mine); /* refused: it is still there */
    memset(mine, 1, PAGE);
    assert_int_equal(varve_session_error(s)->code, -EBUSY);
    assert_int_equal(varve_release(s), 0);
    must_be(&program, varve_restart_wait(s, "x"), -ENOENT);
    must_be(&program, varve_restart_wait(s, ""), -EINVAL);
    must_end(&program, 1);
    varve_free(s, mine);
    assert_true(save(&program, 2) < PAGE);
    close_session(&program);
}

static void close_gives_it_up(void **state) {
    struct program program;
    (void)state;
    begin_with_one(&program);
    opens_when_joining = ALL;
    close_session(&program);
    opens_when_joining = 0;
    assert_in_range(batches, 1, 2); /* what was being read, and no more */
    open_session(&program, NULL, "", "");
    begin(&program, 1);
    close_session(&program); /* nothing was waited for */
    open_session(&program, NULL, "", "");
    must_be(&program, varve_restart(program.session, VARVE_LATEST, NULL), 0);
    assert_true(is_right(&program, 3, 1));
    close_session(&program);
}

static void a_first_run(void **state) {
    struct program program;
    int64_t version = -7;
    (void)state;
    open_session(&program, NULL, "", ",log=error");
    must_be(&program, varve_restart_begin(program.session, VARVE_LATEST, &version), VARVE_NO_CHECKPOINT);
    must_be(&program, varve_restart_begin(program.session, 3, &version), -ENOENT);
    must_be(&program, varve_restart_begin(program.session, -3, &version), -EINVAL);
    assert_int_equal(version, -7);
    fill(&program, 1);
    save(&program, 1);
    close_session(&program);
    assert_int_equal(varve_restart_begin(NULL, VARVE_LATEST, NULL), -EINVAL);
    assert_int_equal(varve_restart_wait(NULL, "a"), -EINVAL);
    assert_int_equal(varve_restart_end(NULL), -EINVAL);
}

/* ---- what is read inside the call ---- */

struct box {
    pthread_t caller;
    uint8_t data[SIZE];
};

static int box_length(void *arg, uint64_t *out) {
    (void)arg;
    *out = SIZE;
    return 0;
}

static int box_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    memcpy(buffer, ((struct box *)arg)->data + offset, size);
    return 0;
}

static int box_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    struct box *box = arg;
    assert_int_equal(total, SIZE);
    assert_true(pthread_equal(box->caller, pthread_self()));
    memcpy(box->data + offset, buffer, size);
    return 0;
}

static void callbacks_run_in_the_calling_thread(void **state) {
    static struct box box, wanted;
    static const struct varve_callbacks callbacks = {sizeof callbacks, box_length, box_save, box_load, 0};
    struct program program;
    (void)state;
    box.caller = pthread_self();
    memset(wanted.data, 7, SIZE);
    memcpy(box.data, wanted.data, SIZE);
    open_session(&program, NULL, "", "");
    must_be(&program, varve_protect_callback(program.session, "box", &callbacks, &box), 0);
    fill(&program, 1);
    save(&program, 1);
    close_session(&program);
    memset(box.data, GARBAGE, SIZE);
    open_session(&program, NULL, "", "");
    must_be(&program, varve_protect_callback(program.session, "box", &callbacks, &box), 0);
    begin(&program, 1);
    assert_memory_equal(box.data, wanted.data, SIZE); /* already */
    must_be(&program, varve_restart_wait(program.session, "box"), 0);
    must_end(&program, 1);
    assert_true(save(&program, 2) < PAGE);
    close_session(&program);
}

/* The gate is shut when begin has returned: whoever reads later never returns. */
static void must_be_inside(struct program *program) {
    gate_set(ALL);
    begin(program, 1);
    gate_set(0);
    for (int r = 0; r < REGIONS; r++)
        must_wait(program, r, 1);
    must_end(program, 1);
    gate_set(ALL);
    uint64_t stored = save(program, 2);
    must(program, stored < PAGE, "the next checkpoint stored %" PRIu64 " bytes", stored);
}

static void without_threads_it_is_all_inside(void **state) {
    struct program program;
    (void)state;
    make_store(NULL, "", 1);
    open_session(&program, NULL, "", ",threads=0");
    must_be_inside(&program);
    close_session(&program);
}

/* ---- ranks ---- */

static void rank_saves(struct varve_comm *comm, void *arg) {
    make_store(comm, arg, 2);
}

static void run(group_fn fn, const char *settings, uint32_t ranks_per_node) {
    const struct group_options options = {.ranks_per_node = ranks_per_node};
    group_must_run(RANKS, rank_saves, settings, &options, "saving");
    group_must_run(RANKS, fn, settings, &options, settings);
}

static void rank_comes_back(struct varve_comm *comm, void *arg) {
    struct program program;
    open_session(&program, comm, "", arg);
    gate_set(1);
    begin(&program, 2);
    must_wait(&program, 0, 2);
    for (int r = 1; r < REGIONS; r++)
        must(&program, is_garbage(&program, r), "region %s is there already", names[r]);
    must_be(&program, varve_checkpoint(program.session, 3), -EBUSY);
    opens_when_waiting = ALL;
    for (int r = (int)comm->rank; r < REGIONS; r++) /* each as it likes: it is not collective */
        must_wait(&program, r, 2);
    opens_when_joining = ALL;
    must_end(&program, 2);
    uint64_t stored = save(&program, 3);
    must(&program, stored < PAGE, "the next checkpoint stored %" PRIu64 " bytes", stored);
    close_session(&program);
}

static void ranks_come_back(void **state) {
    (void)state;
    run(rank_comes_back, ",dedup=none", 0);
}

static void ranks_come_back_on_several_nodes(void **state) {
    (void)state;
    run(rank_comes_back, ",dedup=none", 1);
}

/* What is everybody's the ranks of a node lend to each other. */
static void rank_borrows(struct varve_comm *comm, void *arg) {
    struct program program;
    open_session(&program, comm, "", arg);
    begin(&program, 2);
    for (int r = 0; r < REGIONS; r++)
        must_wait(&program, (r + (int)comm->rank) % REGIONS, 2);
    must_end(&program, 2);
    uint64_t stored = save(&program, 3);
    must(&program, stored < PAGE, "the next checkpoint stored %" PRIu64 " bytes", stored);
    close_session(&program);
}

static void ranks_of_a_node_lend(void **state) {
    (void)state;
    run(rank_borrows, ",dedup=exact", 0);
}

static void rank_asks(struct varve_comm *comm, void *arg) {
    struct program program;
    open_session(&program, comm, "", arg);
    int64_t got = -1;
    must_be(&program, varve_restart_begin(program.session, VARVE_LATEST, &got), 0);
    gate_set(0); /* whoever reads later never returns */
    for (int r = 0; r < REGIONS; r++)
        must_wait(&program, r, 2);
    must_end(&program, 2);
    gate_set(ALL);
    close_session(&program);
}

static void where_ranks_ask_each_other_it_is_all_inside(void **state) {
    (void)state;
    run(rank_asks, ",dedup=exact", 1);
}

/* The damage is on one rank, and all are told. */
static void rank_meets_damage(struct varve_comm *comm, void *arg) {
    struct program program;
    int64_t version = -1;
    open_session(&program, comm, "", arg);
    begin(&program, 2);
    must_wait(&program, 0, 2);
    must_be(&program, varve_restart_wait(program.session, "c"), comm->rank == 1 ? VARVE_CORRUPT : 0);
    must_be(&program, varve_restart_end(program.session), VARVE_CORRUPT);
    const struct varve_error *error = varve_session_error(program.session);
    must(&program, error->rank == 1 && strstr(error->text, "region c"), "rank %d: %s", error->rank, error->text);
    must_be(&program, varve_restart(program.session, VARVE_LATEST, &version), 0);
    must(&program, version == 1, "version %" PRId64, version);
    for (int r = 0; r < REGIONS; r++)
        must(&program, is_right(&program, r, 1), "region %s has other bytes", names[r]);
    close_session(&program);
}

static void damage_on_one_rank_is_told_to_all(void **state) {
    (void)state;
    group_must_run(RANKS, rank_saves, ",dedup=none", NULL, "saving");
    damage(1, 2, 2);
    group_must_run(RANKS, rank_meets_damage, ",dedup=none", NULL, "damage");
}

/* In rounds the damage is met inside begin, which takes an older checkpoint as varve_restart does. */
static void rank_passes_over(struct varve_comm *comm, void *arg) {
    struct program program;
    open_session(&program, comm, "", arg);
    begin(&program, 1);
    must_wait(&program, 2, 1);
    must_end(&program, 1);
    close_session(&program);
}

static void damage_met_inside_is_passed_over(void **state) {
    const struct group_options apart = {.ranks_per_node = 1};
    (void)state;
    group_must_run(RANKS, rank_saves, ",dedup=exact", &apart, "saving");
    damage(1, 2, 2);
    group_must_run(RANKS, rank_passes_over, ",dedup=exact", &apart, "damage inside");
}

static void rank_gives_up(struct varve_comm *comm, void *arg) {
    struct program program;
    open_session(&program, comm, "", arg);
    gate_set(1);
    begin(&program, 2);
    must_wait(&program, 0, 2);
    opens_when_joining = ALL;
    close_session(&program);
}

static void ranks_give_up(void **state) {
    (void)state;
    run(rank_gives_up, ",dedup=none", 0);
    run(rank_gives_up, ",dedup=exact", 0);
}

/* ---- how soon ---- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void time_to_the_first_region(void **state) {
    struct program program;
    (void)state;
    make_store(NULL, "", 1);
    open_session(&program, NULL, "?limit=20MB", "");
    double from = now();
    begin(&program, 1);
    must_wait(&program, 0, 1);
    double first = now() - from;
    must_end(&program, 1);
    print_message("20 MB/s, 4 regions of 1 MiB: the first after %.0f ms, all after %.0f ms\n", first * 1e3,
                  (now() - from) * 1e3);
    close_session(&program);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(regions_come_one_by_one),
        TEST(the_one_that_is_waited_for_comes_first),
        TEST(small_regions_are_read_together),
        TEST(what_was_handed_out_may_change),
        TEST(a_damaged_one_is_not_handed_out),
        TEST(a_failure_is_in_the_log),
        TEST(other_calls_are_refused),
        TEST(close_gives_it_up),
        TEST(a_first_run),
        TEST(callbacks_run_in_the_calling_thread),
        TEST(without_threads_it_is_all_inside),
        TEST(ranks_come_back),
        TEST(ranks_come_back_on_several_nodes),
        TEST(ranks_of_a_node_lend),
        TEST(where_ranks_ask_each_other_it_is_all_inside),
        TEST(damage_on_one_rank_is_told_to_all),
        TEST(damage_met_inside_is_passed_over),
        TEST(ranks_give_up),
        TEST(time_to_the_first_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
