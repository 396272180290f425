/* The text of every error that a user can cause: what happened, to which object, on which rank, and what to do, in less
 * than 200 characters. Errors of the `varve` command: tests/cli/t0950-errors.t. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <varve/varve_comm.h>
#include <varve/varve_inspect.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/hash.h"
#include "folder.h"
#include "format/object.h"
#include "storage/storage.h"
#include "test.h"
#include "thread_group.h"

#define URI "mem://texts"
#define RANKS 3u
#define LONGEST 200u

static char folder[64];

static int make_folder(void **unused) {
    (void)unused;
    return folder_make(NULL, "varve-texts", folder, sizeof folder);
}

static int forget(void **unused) {
    (void)unused;
    vv_mem_drop("texts");
    return folder_remove(folder);
}

/* ---- one error ---- */

static void has(const struct varve_error *error, const char *part) {
    if (!strstr(error->text, part))
        fail_msg("\"%s\" does not have \"%s\"", error->text, part);
}

/* Codes whose texts were looked at, for the last test. */
static int tried[128];
static size_t tried_count;

static void note_tried(int code) {
    assert_true(tried_count < sizeof tried / sizeof tried[0]);
    for (size_t i = 0; i < tried_count; i++)
        if (tried[i] == code)
            return;
    tried[tried_count++] = code;
}

/* what: happened; which: object; todo: for the user. */
static void tells(const struct varve_error *error, int code, int rank, const char *what, const char *which,
                  const char *todo) {
    note_tried(code);
    if (error->code != code || error->rank != rank || strlen(error->text) >= LONGEST)
        fail_msg("code %d (not %d), rank %d (not %d), %zu characters: %s", error->code, code, error->rank, rank,
                 strlen(error->text), error->text);
    has(error, what);
    has(error, which);
    has(error, todo);
}

static void be_silent(void *arg, int level, const char *line) {
    (void)arg, (void)level, (void)line;
}

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = {sizeof options, settings, be_silent, NULL};
    struct varve_session *s = NULL;
    struct varve_error error = {0};
    if (varve_open(URI, "job", &options, &s, &error) != 0)
        fail_msg("open: %s", error.text);
    return s;
}

static void open_tells(const char *store, const char *name, const char *settings, int code, const char *what,
                       const char *which, const char *todo) {
    struct varve_options options = {sizeof options, settings, be_silent, NULL};
    struct varve_session *s = NULL;
    struct varve_error error = {0};
    assert_int_equal(varve_open(store, name, &options, &s, &error), code);
    assert_null(s);
    tells(&error, code, error.rank == 0 ? 0 : -1, what, which, todo);
}

static void session_tells(struct varve_session *s, int rc, int code, const char *what, const char *which,
                          const char *todo) {
    if (rc != code)
        fail_msg("%d, not %d: %s", rc, code, varve_session_error(s)->text);
    tells(varve_session_error(s), code, 0, what, which, todo);
}

static const char *inside(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* ---- opening ---- */

static void settings_that_are_wrong(void **unused) {
    (void)unused;
    const struct {
        const char *settings, *what, *which, *todo;
    } wrong[] = {
        {"kepe=3", "there is no setting", "program: ", "varve(5) lists all"},
        {"keep=many", "cannot be \"many\"", "program: keep", "allowed is all, 0 to"},
        {"capture=fast", "cannot be \"fast\"", "program: capture", "allowed is auto|sync|trap|frozen|held"},
        {"staging=-1", "cannot be \"-1\"", "program: staging", "allowed is auto, 0 or more"},
        {"match=(", "cannot be \"(\"", "program: match", "\""},
        {"keep", "is not of the form", "program: \"keep\"", "name=value"},
        {"fine=3", "fine (3, from program)", "fine", "must be auto, off, or a power of two"},
        {"beat_seconds=60", "must be more than beat_seconds", "dead_seconds (60, from default)", "must be more"},
        {"capture=trap,tracker=none", "does not", "capture=trap (from program)", "leave tracker at auto"},
        {"tiers=a;;b", "none of them empty", "tiers (from program)", "with a semicolon between them"},
        {"tiers=a,,b", "stray comma", "tiers", "a semicolon is between addresses"},
        {"durable=2", "names a tier that is not there", "durable (2, from program)", "tiers has 0"},
        {"key=words", "cannot be", "program: key", "file:PATH|env:NAME|command:TEXT"},
        {"encrypt=on", "encrypt=on needs a key", URI, "file:PATH, env:NAME or command:TEXT"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        open_tells(URI, "job", wrong[i].settings, VARVE_SETTING, wrong[i].what, wrong[i].which, wrong[i].todo);
    open_tells("file:///tmp/%zz", "job", NULL, VARVE_SETTING, "'%'", "file:///tmp/%zz", "two hexadecimal digits");
}

/* What is given as a key may be the key itself. */
static void a_key_is_not_told(void **unused) {
    (void)unused;
    struct varve_options options = {sizeof options, "key=00112233", be_silent, NULL};
    struct varve_session *s = NULL;
    struct varve_error error = {0};
    assert_int_equal(varve_open(URI, "job", &options, &s, &error), VARVE_SETTING);
    assert_null(strstr(error.text, "0011"));
}

static void stores_that_cannot_be_opened(void **unused) {
    (void)unused;
    char path[128];
    open_tells(NULL, "job", NULL, -EINVAL, "needs a store", "varve_open", "none of them may be NULL");
    open_tells("gopher://x", "job", NULL, VARVE_UNSUPPORTED, "no backend", "gopher", "there are file, mem, s3");
    snprintf(path, sizeof path, "%s", inside("none/ck"));
    open_tells(path, "job", NULL, VARVE_NO_STORE, "parent folder does not exist", path, "is the file system mounted?");
    snprintf(path, sizeof path, "%s", inside("none"));
    open_tells(path, "job", "access=read", VARVE_NO_STORE, "there is no store", path, "access=read");
    write_file(inside("file"), "");
    snprintf(path, sizeof path, "%s", inside("file"));
    open_tells(path, "job", NULL, -ENOTDIR, "is not a folder", path, "folder");
    open_tells(folder, "job", NULL, VARVE_NO_STORE, "no store", folder, "give a new or an empty folder");
    assert_int_equal(unlink(path), 0);
    write_file(inside("varve"), "this is no object of Varve, and there is nothing from which it could be made again");
    open_tells(folder, "job", NULL, VARVE_CORRUPT, "damaged", folder, "object varve");
}

static void names_and_sessions(void **unused) {
    (void)unused;
    struct varve_options options = {.size = 4000};
    struct varve_session *s = NULL;
    struct varve_error error = {0};
    char name[120];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    open_tells(URI, "", NULL, -EINVAL, "1 to 80 bytes", "name", "choose another");
    open_tells(URI, name, NULL, -EINVAL, "this one 119", "name", "choose another");
    assert_int_equal(varve_open(URI, "job", &options, &s, &error), -EINVAL);
    tells(&error, -EINVAL, error.rank, "size 4000", "varve_options", "VARVE_OPTIONS_INIT");
    s = open_session(NULL);
    open_tells(URI, "job", "takeover_seconds=0", VARVE_BUSY, "is in use: process", "job", "varve unlock");
    varve_close(s);
    tells(varve_session_error(NULL), -EINVAL, -1, "no session", "varve_open", "look at what");
}

/* ---- protecting ---- */

static int nothing(void *arg, uint64_t *bytes) {
    (void)arg;
    *bytes = 0;
    return 0;
}

static void regions_that_are_wrong(void **unused) {
    (void)unused;
    static char long_name[300];
    double x[4] = {0};
    struct varve_session *s = open_session(NULL);
    struct varve_callbacks callbacks = {sizeof callbacks, nothing, NULL, NULL, 0};
    struct varve_array array = {.size = sizeof array, .type = 99, .dims = 1, .dim = {{4, 0, 4}}};
    memset(long_name, 'x', sizeof long_name - 1);
    session_tells(s, varve_protect(s, "", x, 8), -EINVAL, "1 to 255 bytes", "region's name", "choose another");
    session_tells(s, varve_protect(s, long_name, x, 8), -EINVAL, "this one 299", "region's name", "choose another");
    session_tells(s, varve_protect(s, ":varve:x", x, 8), -EINVAL, "the library's own", ":varve:x", "choose another");
    session_tells(s, varve_protect(s, "x", NULL, 8), -EINVAL, "address is NULL", "region x", "check the allocation");
    session_tells(s, varve_protect_flags(s, "x", x, 8, 64), -EINVAL, "unknown flags 0x40", "region x", "varve.h");
    session_tells(s, varve_protect_flags(s, "x", x, 8, VARVE_DEVICE_WRITES | VARVE_NO_DEVICE_WRITES), -EINVAL,
                  "contradict", "region x", "give one");
    session_tells(s, varve_protect_array(s, "x", x, &array), -EINVAL, "type", "region x", "99");
    session_tells(s, varve_protect_callback(s, "x", &callbacks, NULL), -EINVAL, "callbacks", "region x",
                  "length, save and load");
    session_tells(s, varve_protect_moving(s, "x", NULL, NULL), -EINVAL, "needs a function", "region x",
                  "tells where it is");
    session_tells(s, varve_unprotect(s, "nobody"), -ENOENT, "nothing was unprotected", "nobody", "check the name");
    session_tells(s, varve_describe(s, "nobody", NULL), -ENOENT, "is protected", "nobody", "before varve_describe");
    session_tells(s, varve_fine(s, "nobody", 64), -ENOENT, "is protected", "nobody", "before varve_fine");
    session_tells(s, varve_distribute(s, "nobody", VARVE_JOINED), -ENOENT, "is protected", "nobody",
                  "before varve_distribute");
    assert_int_equal(varve_protect(s, "x", x, 8), 0);
    assert_int_equal(varve_protect(s, "x", x, 16), 0); /* a second time: its new size */
    session_tells(s, varve_fine(s, "x", 33), -EINVAL, "33 is no size", "region x", "a power of two from 32");
    session_tells(s, varve_distribute(s, "x", (enum varve_distribution)9), -EINVAL, "9 is no distribution", "region x",
                  "enum varve_distribution");
    session_tells(s, varve_attribute(s, "", "y"), -EINVAL, "1 to 255 bytes", "attribute", "must have");
    varve_close(s);
}

/* ---- saving ---- */

static int refuse_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    (void)arg, (void)offset, (void)buffer, (void)size;
    return -EPERM;
}
static int refuse_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size, (void)total;
    return -EPERM;
}
static int ten(void *arg, uint64_t *bytes) {
    (void)arg;
    *bytes = 10;
    return 0;
}

static void checkpoints_that_fail(void **unused) {
    (void)unused;
    struct varve_callbacks callbacks = {sizeof callbacks, ten, refuse_save, refuse_load, 0};
    struct varve_session *s = open_session(NULL);
    char *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int x = 1;
    varve_protect(s, "x", &x, sizeof x);
    session_tells(s, varve_checkpoint(s, -1), -EINVAL, "below 0", "version -1 of job", "give 0 or more");
    assert_int_equal(varve_checkpoint(s, 5), 0);
    session_tells(s, varve_checkpoint(s, 5), -EINVAL, "version 5", "of job", "6 is the next");
    varve_protect_callback(s, "list", &callbacks, NULL);
    session_tells(s, varve_checkpoint(s, 6), -EPERM, "program's save callback failed at byte 0, with -1", "region list",
                  "earlier checkpoints are as they were");
    varve_unprotect(s, "list");
    varve_protect(s, "gone", gone, 8192);
    mprotect(gone, 8192, PROT_NONE); /* unmapped, something else might come to lie there */
    session_tells(s, varve_checkpoint(s, 7), -EFAULT, "is not mapped", "region gone", "unprotect a region before");
    varve_unprotect(s, "gone");
    munmap(gone, 8192);
    assert_int_equal(varve_checkpoint(s, 8), 0);
    assert_int_equal(varve_close(s), 0);
    s = open_session("access=read");
    varve_protect(s, "x", &x, sizeof x);
    session_tells(s, varve_checkpoint(s, 9), -EROFS, "only reads", "job", "access=write");
    varve_close(s);
}

/* ---- coming back ---- */

static void *give_nothing(void *arg, const struct varve_region_info *region) {
    (void)arg, (void)region;
    return NULL;
}
static void release(void *arg, const char *region, void *ptr) {
    (void)arg, (void)region, (void)ptr;
}

/* Version 1: a has 64 bytes, list is a callback's. */
static void save_one(void) {
    static char a[64] = "a";
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "a", a, sizeof a);
    assert_int_equal(varve_checkpoint(s, 1), 0);
    assert_int_equal(varve_close(s), 0);
}

static void restarts_that_do_not_fit(void **unused) {
    (void)unused;
    static char b[128];
    const char *const nobody[] = {"nobody"};
    const struct varve_allocator allocator = {sizeof allocator, give_nothing, release, NULL};
    struct varve_array array = {.size = sizeof array, .type = VARVE_F32, .dims = 1, .dim = {{16, 0, 16}}};
    struct varve_session *s = open_session(NULL);
    session_tells(s, varve_restart(s, VARVE_LATEST, NULL), VARVE_NO_CHECKPOINT, "no checkpoint of job", URI,
                  "a first run begins from the start");
    varve_close(s);
    save_one();
    s = open_session(NULL);
    session_tells(s, varve_restart(s, 7, NULL), -ENOENT, "no checkpoint with version 7", "job", "`varve ls`");
    session_tells(s, varve_restart(s, -2, NULL), -EINVAL, "version -2", "-2", "give 0 or more, or VARVE_LATEST");
    session_tells(s, varve_restart_regions(s, 1, NULL, 0, 64, NULL), -EINVAL, "flags 0x40", "flags", "not known");
    session_tells(s, varve_restart_regions(s, 1, nobody, 1, 0, NULL), VARVE_MISMATCH, "not protected", "region nobody",
                  "protect it first");
    varve_protect(s, "a", b, sizeof b);
    session_tells(s, varve_restart(s, VARVE_LATEST, NULL), VARVE_MISMATCH, "64 bytes are stored but 128",
                  "region a of version 1", "protect the stored size");
    session_tells(s, varve_restart_alloc(s, 1, &allocator, NULL, NULL), -ENOMEM, "the program gave no memory",
                  "region a", "64 bytes");
    session_tells(s, varve_checkpoint(s, 2), -EINVAL, "ended its protection", "region a", "protect it again");
    varve_protect(s, "a", b, 64);
    varve_protect(s, "c", b + 64, 8);
    session_tells(s, varve_restart(s, VARVE_LATEST, NULL), VARVE_MISMATCH, "version 1 has none", "region c",
                  "VARVE_RESTART_MISSING");
    varve_unprotect(s, "c");
    assert_int_equal(varve_checkpoint(s, 2), 0);
    varve_protect_array(s, "a", b, &array);
    assert_int_equal(varve_checkpoint(s, 3), 0);
    array.type = VARVE_I32;
    varve_protect_array(s, "a", b, &array);
    session_tells(s, varve_restart(s, 3, NULL), VARVE_MISMATCH,
                  "1-dimensional array of type f32, protected a 1-dimensional one of i32", "region a",
                  "VARVE_RESTART_RESIZE");
    varve_close(s);
}

static void restarts_in_a_wrong_order(void **unused) {
    (void)unused;
    static char a[64];
    struct varve_session *s;
    save_one();
    s = open_session(NULL);
    varve_protect(s, "a", a, sizeof a);
    session_tells(s, varve_restart_wait(s, "a"), -EINVAL, "no restart is under way", "region a",
                  "varve_restart_begin first");
    session_tells(s, varve_restart_end(s), -EINVAL, "no restart", "under way", "varve_restart_begin first");
    assert_int_equal(varve_restart_begin(s, VARVE_LATEST, NULL), 0);
    session_tells(s, varve_checkpoint(s, 2), -EBUSY, "a restart is under way", "varve_checkpoint",
                  "varve_restart_end first");
    session_tells(s, varve_restart_wait(s, "b"), -ENOENT, "nothing to wait for", "region b", "is read by this restart");
    assert_int_equal(varve_restart_end(s), 0);
    session_tells(s, varve_continue(s, VARVE_LATEST, NULL), -EINVAL, "goes on from version 1", "1",
                  "varve_continue comes first");
    session_tells(s, varve_reject(s, 9), -ENOENT, "no checkpoint with version 9", "job", "to reject");
    session_tells(s, varve_reject(s, -9), -EINVAL, "below 0", "version -9 of job", "give 0 or more");
    assert_int_equal(varve_reject(s, 1), 0);
    session_tells(s, varve_restart(s, VARVE_LATEST, NULL), -ENOENT, "were rejected", "job", "by its number");
    varve_close(s);
}

static void damage(const char *key) {
    struct varve_backend *backend;
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_open(URI, NULL, &backend, NULL), 0);
    assert_int_equal(vv_backend_get_all(backend, key, 1 << 20, &buf), 0);
    buf.data[buf.size / 2] ^= 1;
    assert_int_equal(vv_backend_replace(backend, key, buf.data, buf.size), 0);
    vv_buf_clear(&buf);
    vv_backend_close(backend);
}

static void what_cannot_be_read(void **unused) {
    (void)unused;
    static char a[64];
    struct varve_callbacks callbacks = {sizeof callbacks, ten, refuse_save, refuse_load, 0};
    struct varve_session *s;
    save_one();
    s = open_session(NULL);
    varve_protect_callback(s, "a", &callbacks, NULL);
    session_tells(s, varve_restart(s, VARVE_LATEST, NULL), -EPERM, "the program's load callback failed", "region a",
                  "not found damaged");
    varve_protect(s, "a", a, sizeof a);
    damage("n/job/data/00000001/0000000000000001/00000000/00000000");
    session_tells(s, varve_restart(s, VARVE_LATEST, NULL), VARVE_CORRUPT, "does not match", "n/job/data/00000001",
                  "`varve verify`");
    varve_close(s);
}

/* ---- many ranks ---- */

static int rank_gather(struct varve_comm *comm, const void *data, size_t size, varve_gather_fn fn, void *arg) {
    const struct varve_message own = {0, data, size};
    int rc = 0;
    if (comm->rank > 0)
        return thread_exchange(comm, &own, 1, NULL, 0, NULL, NULL);
    for (uint32_t rank = 0; rank < comm->ranks; rank++) {
        int failed = thread_exchange(comm, &own, rank == 0, &rank, 1, fn, arg);
        rc = rc ? rc : failed;
    }
    return rc;
}

static void rank_close(struct varve_comm *comm) {
    (void)comm;
}

static const struct varve_comm_ops rank_ops = {
    .size = sizeof rank_ops,
    .name = "threads",
    .reduce_min = thread_reduce_min,
    .broadcast = thread_broadcast,
    .gather = rank_gather,
    .close = rank_close,
};

/* What each rank is told; looked at when all threads have ended. */
struct rank {
    struct thread_comm comm;
    void (*fn)(struct rank *rank, struct varve_session *session);
    int rc;
    struct varve_error error;
};

static void *run_rank(void *arg) {
    struct rank *rank = arg;
    struct varve_options options = {sizeof options, "capture=sync,threads=0", be_silent, NULL};
    struct varve_session *s = NULL;
    rank->rc = varve_open_comm(&rank->comm.comm, URI, "ranks", &options, &s, &rank->error);
    if (rank->rc == 0)
        rank->fn(rank, s);
    varve_close(s);
    return NULL;
}

static void run_ranks(struct rank *ranks, uint32_t count, void (*fn)(struct rank *, struct varve_session *)) {
    struct thread_group *group = thread_group_create(count, NULL);
    pthread_t threads[RANKS];
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = (struct rank){.comm = thread_comm_of(group, i), .fn = fn};
        ranks[i].comm.comm.ops = &rank_ops;
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    thread_group_destroy(group);
}

static void take(struct rank *rank, struct varve_session *s, int rc) {
    rank->rc = rc;
    rank->error = *varve_session_error(s);
}

static void save_private(struct rank *rank, struct varve_session *s) {
    int own = (int)rank->comm.comm.rank;
    varve_protect(s, "own", &own, sizeof own);
    rank->rc = varve_checkpoint(s, 1);
}
static void come_back(struct rank *rank, struct varve_session *s) {
    int own;
    varve_protect(s, "own", &own, sizeof own);
    take(rank, s, varve_restart(s, VARVE_LATEST, NULL));
}
static void come_back_larger(struct rank *rank, struct varve_session *s) {
    int own[2];
    varve_protect(s, "own", own, rank->comm.comm.rank == 1 ? sizeof own : sizeof own[0]);
    take(rank, s, varve_restart(s, VARVE_LATEST, NULL));
}
static void disagree(struct rank *rank, struct varve_session *s) {
    take(rank, s, varve_checkpoint(s, 5 + rank->comm.comm.rank));
}
static void call_others(struct rank *rank, struct varve_session *s) {
    take(rank, s, rank->comm.comm.rank == 1 ? varve_restart(s, VARVE_LATEST, NULL) : varve_checkpoint(s, 6));
}

static void ranks_tell(const struct rank *ranks, uint32_t count, int code, int rank, const char *what,
                       const char *which, const char *todo) {
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i].rc != code)
            fail_msg("rank %u: %d, not %d: %s", i, ranks[i].rc, code, ranks[i].error.text);
        tells(&ranks[i].error, code, rank, what, which, todo);
    }
}

static void errors_of_one_rank_are_told_by_all(void **unused) {
    (void)unused;
    static struct rank ranks[RANKS];
    run_ranks(ranks, 2, save_private);
    assert_int_equal(ranks[0].rc, 0);
    assert_int_equal(ranks[1].rc, 0);
    run_ranks(ranks, 2, come_back_larger);
    ranks_tell(ranks, 2, VARVE_MISMATCH, 1, "4 bytes are stored but 8", "region own of version 1",
               "protect the stored size");
    run_ranks(ranks, 3, come_back);
    ranks_tell(ranks, 3, VARVE_MISMATCH, 0, "the checkpoint is of 2 ranks, this job has 3", "region own",
               "varve_distribute");
    run_ranks(ranks, 2, disagree);
    ranks_tell(ranks, 2, VARVE_DISAGREED, 0, "from 5 to 6", "varve_checkpoint", "must give the same");
    run_ranks(ranks, 2, call_others);
    ranks_tell(ranks, 2, VARVE_DISAGREED, 0, "do not make the same call", "varve_checkpoint", "in the same order");
}

/* ---- storage that is full, gone, encrypted or of somebody else ---- */

/* A store in a folder, with version 1 of a region that every later version has to store again. */
static uint8_t page[4096];

static struct varve_session *open_file(const char *settings) {
    struct varve_options options = {sizeof options, settings, be_silent, NULL};
    struct varve_session *s = NULL;
    struct varve_error error = {0};
    if (varve_open(inside("ck"), "job", &options, &s, &error) != 0)
        fail_msg("open: %s", error.text);
    assert_int_equal(varve_protect(s, "page", page, sizeof page), 0);
    return s;
}

static void save_page(struct varve_session *s, int64_t version) {
    page[0]++;
    assert_int_equal(varve_checkpoint(s, version), 0);
    assert_int_equal(varve_wait(s), 0);
}

static void storage_that_is_full(void **unused) {
    (void)unused;
    struct varve_session *s = open_file("capture=sync,min_free=900T");
    session_tells(s, varve_checkpoint(s, 1), -ENOSPC, "version 1 of job was not saved: bytes are short", inside("ck"),
                  "`varve forget` and `varve prune` free space");
    assert_int_equal(varve_close(s), -ENOSPC);
    s = open_file("min_free=900T");
    assert_int_equal(varve_checkpoint(s, 2), 0);
    struct varve_stats stats = {.size = sizeof stats};
    do
        assert_int_equal(varve_stats_get(s, &stats), 0);
    while (stats.result == -EINPROGRESS);
    int rc = varve_checkpoint(s, 3);
    assert_int_equal(rc, VARVE_EARLIER_FAILED);
    note_tried(rc);
    tells(varve_session_error(s), -ENOSPC, 0, "version 3 was begun whole; version 2 had failed: bytes are short",
          inside("ck"), "`varve forget` and `varve prune` free space");
    varve_close(s);
}

#ifdef VARVE_FAULTS
static void a_quota_that_is_used_up(void **unused) {
    (void)unused;
    struct varve_session *s = open_file("capture=sync,min_free=0");
    save_page(s, 1);
    page[0]++;
    vv_fault_set("backend.file.before_link=error:122");
    int rc = varve_checkpoint(s, 2);
    vv_fault_set(NULL);
    session_tells(s, rc, -EDQUOT, "version 2 of job was not saved: the disk quota", inside("ck"),
                  "`varve forget` and `varve prune` free space");
    varve_close(s);
}
#endif

static void a_folder_that_is_gone(void **unused) {
    (void)unused;
    char away[128];
    struct varve_session *s = open_file("capture=sync,min_free=0");
    save_page(s, 1);
    snprintf(away, sizeof away, "%s", inside("away"));
    assert_int_equal(rename(inside("ck"), away), 0);
    page[0]++;
    session_tells(s, varve_checkpoint(s, 2), -ESTALE, "Stale file handle", "n/job/", "still there, and mounted?");
    session_tells(s, varve_restart(s, 1, NULL), -ESTALE, "Stale file handle", "n/job/", "still there, and mounted?");
    varve_close(s);
}

/* The head of the object `varve` says something else from now on, and its sum is right. */
static void forge_store(size_t at, uint16_t value) {
    struct varve_backend *backend;
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_open(URI, NULL, &backend, NULL), 0);
    assert_int_equal(vv_backend_get_all(backend, "varve", 1 << 20, &buf), 0);
    vv_put16(buf.data + at, value);
    vv_put64(buf.data + 88, vv_sum64(buf.data, 88));
    assert_int_equal(vv_backend_replace(backend, "varve", buf.data, buf.size), 0);
    vv_buf_clear(&buf);
    vv_backend_close(backend);
}

static void stores_of_others(void **unused) {
    (void)unused;
    save_one();
    forge_store(8, VV_FORMAT_VERSION + 1);
    open_tells(URI, "job", NULL, VARVE_UNKNOWN_FORMAT, "format version is 2, this program knows 1", URI,
               "a newer Varve");
    forge_store(8, VV_FORMAT_VERSION);
    forge_store(10, VV_KIND_SEALED);
    open_tells(URI, "job", NULL, VARVE_KEY, "is encrypted", URI, "file:PATH, env:NAME or command:TEXT");
}

/* With the cipher, where it was built. */
static void keys_that_do_not_fit(void **unused) {
    (void)unused;
    struct varve_options options = {sizeof options, "encrypt=on,key=env:TEXTS_KEY", be_silent, NULL};
    struct varve_session *s = NULL;
    struct varve_error error = {0};
    setenv("TEXTS_KEY", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", 1);
    int rc = varve_open(URI, "job", &options, &s, &error);
    if (rc == VARVE_UNSUPPORTED)
        skip();
    assert_int_equal(rc, 0);
    varve_close(s);
    open_tells(URI, "job", NULL, VARVE_KEY, "is encrypted", URI, "file:PATH, env:NAME or command:TEXT");
    setenv("TEXTS_KEY", "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", 1);
    open_tells(URI, "job", "key=env:TEXTS_KEY", VARVE_KEY, "with another key", "the store texts",
               "key=file:PATH, env:NAME or command:TEXT gives another");
    vv_mem_drop("texts");
    save_one();
    open_tells(URI, "job", options.settings, VARVE_KEY, "has no keys: it is not encrypted", "the store texts",
               "give another folder");
}

/* ---- others, who take the name or the checkpoint away ---- */

static int forget_meanwhile(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct varve_which which = {"job", 0, 1};
    struct varve_prune_result result = {0};
    struct varve_store *store;
    struct varve_error error;
    (void)offset, (void)size, (void)total;
    if (data || (*(int *)arg)++)
        return 0;
    assert_int_equal(varve_store_open(URI, NULL, &store, &error), 0);
    assert_int_equal(varve_store_forget(store, &which, &error), 0);
    assert_int_equal(varve_store_prune(store, "job", 0, NULL, NULL, &result, &error), 0);
    varve_store_close(store);
    return 0;
}

static void a_checkpoint_that_is_forgotten(void **unused) {
    (void)unused;
    const struct varve_which which = {"job", 0, 1};
    struct varve_store *store;
    struct varve_error error = {0};
    int count = 0;
    save_one();
    assert_int_equal(varve_store_open(URI, NULL, &store, &error), 0);
    assert_int_equal(varve_store_read(store, &which, 0, "a", 1, forget_meanwhile, &count, &error), VARVE_FORGOTTEN);
    tells(&error, VARVE_FORGOTTEN, -1, "was forgotten while it was read", "version 1", "`varve ls` tells");
    varve_store_close(store);
}

#define SHORT_LIFE "capture=sync,min_free=0,beat_seconds=1,dead_seconds=2"

/* Stopped for longer than dead_seconds, as a laptop's lid or a debugger does it. */
static void be_stopped(struct varve_error *error) {
    struct varve_session *s = open_file(SHORT_LIFE);
    save_page(s, 1);
    raise(SIGSTOP);
    page[0]++;
    varve_checkpoint(s, 2);
    *error = *varve_session_error(s);
    _exit(0);
}

static void a_name_that_is_taken(void **unused) {
    (void)unused;
    int status;
    struct varve_error *error = mmap(NULL, sizeof *error, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    assert_true(error != MAP_FAILED && child >= 0);
    if (child == 0)
        be_stopped(error);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    struct varve_session *s = open_file(SHORT_LIFE); /* waits until it counts as dead */
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    tells(error, VARVE_FENCED, 0, "taken for dead", "of job", "end this process");
    munmap(error, sizeof *error);
    varve_close(s);
}

/* ---- none is left out ---- */

/* Codes of the headers that have no case above. */
static const struct {
    const char *name, *why;
} left_out[] = {
    {"EAGAIN", "is for who writes a backend"},
    {"EBADMSG", "is for who writes a cipher"},
    {"ECONNRESET", "is for who writes a backend"},
    {"EEXIST", "is for who writes a backend"},
    {"EINPROGRESS", "is no failure"},
    {"EINTR", "is what the program's own functions return"},
    {"ENODEV", "needs a device: tests/device"},
    {"ENOTSUP", "needs a kernel or a build that lacks something: tests/capture"},
    {"ESRCH", "is for who writes a backend"},
    {"ETIMEDOUT", "is for who writes a backend"},
};

static int was_tried(const char *name) {
    for (size_t i = 0; i < tried_count; i++)
        if (strcmp(varve_error_name(tried[i]), name) == 0)
            return 1;
    return 0;
}

static const char *reason_of(const char *name) {
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        if (strcmp(left_out[i].name, name) == 0)
            return left_out[i].why;
    return NULL;
}

static void must_be_tried(const char *name) {
    const char *why = reason_of(name);
#ifndef VARVE_FAULTS
    if (strcmp(name, "EDQUOT") == 0)
        return; /* nobody can be told to use up a quota */
#endif
    if (why && was_tried(name))
        fail_msg("%s is tried, although it is said that it %s", name, why);
    if (!why && !was_tried(name))
        fail_msg("no test looks at the text of %s", name);
}

/* Every -ENAME in the text. */
static size_t names_must_be_tried(const char *text) {
    size_t count = 0;
    for (const char *at = strstr(text, "-E"); at; at = strstr(at + 1, "-E")) {
        char name[32];
        size_t size = 0;
        while (size < sizeof name - 1 && (isupper((unsigned char)at[size + 1]) || isdigit((unsigned char)at[size + 1])))
            name[size] = at[size + 1], size++;
        name[size] = 0;
        if (size < 3)
            continue;
        must_be_tried(name);
        count++;
    }
    return count;
}

static size_t header_must_be_tried(const char *name) {
    char path[1024];
    static char text[1 << 20];
    snprintf(path, sizeof path, HEADERS "/%s", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return names_must_be_tried(text);
}

static void every_code_was_tried(void **unused) {
    (void)unused;
    size_t count = 0;
#define TRY(name, number, sentence) must_be_tried(#name);
    VARVE_ERROR_MAP(TRY)
#undef TRY
    DIR *headers = opendir(HEADERS);
    assert_non_null(headers);
    for (const struct dirent *entry; (entry = readdir(headers));)
        if (entry->d_name[0] != '.')
            count += header_must_be_tried(entry->d_name);
    closedir(headers);
    assert_true(count > 20);
    must_be_tried("EDQUOT"); /* like ENOSPC, and in no header */
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        assert_false(was_tried(left_out[i].name));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(settings_that_are_wrong, make_folder, forget),
        cmocka_unit_test_setup_teardown(a_key_is_not_told, make_folder, forget),
        cmocka_unit_test_setup_teardown(stores_that_cannot_be_opened, make_folder, forget),
        cmocka_unit_test_setup_teardown(names_and_sessions, make_folder, forget),
        cmocka_unit_test_setup_teardown(regions_that_are_wrong, make_folder, forget),
        cmocka_unit_test_setup_teardown(checkpoints_that_fail, make_folder, forget),
        cmocka_unit_test_setup_teardown(restarts_that_do_not_fit, make_folder, forget),
        cmocka_unit_test_setup_teardown(restarts_in_a_wrong_order, make_folder, forget),
        cmocka_unit_test_setup_teardown(what_cannot_be_read, make_folder, forget),
        cmocka_unit_test_setup_teardown(errors_of_one_rank_are_told_by_all, make_folder, forget),
        cmocka_unit_test_setup_teardown(storage_that_is_full, make_folder, forget),
#ifdef VARVE_FAULTS
        cmocka_unit_test_setup_teardown(a_quota_that_is_used_up, make_folder, forget),
#endif
        cmocka_unit_test_setup_teardown(a_folder_that_is_gone, make_folder, forget),
        cmocka_unit_test_setup_teardown(stores_of_others, make_folder, forget),
        cmocka_unit_test_setup_teardown(keys_that_do_not_fit, make_folder, forget),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_is_forgotten, make_folder, forget),
        cmocka_unit_test_setup_teardown(a_name_that_is_taken, make_folder, forget),
        cmocka_unit_test(every_code_was_tried), /* the last */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
