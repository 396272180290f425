/* What is particular to rados:// : directories that are never without what is there, pieces that nobody needs any more,
 * and an OSD that is killed. Beside a Ceph that with-ceph.sh has started.
 *
 *     test_rados           directories and pieces
 *     test_rados osd       kills the OSD and starts it again: it must keep its objects in a file */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <rados/librados.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "backend/backend.h"
#include "storage/storage.h"
#include "test.h"

#define LARGE (20u << 20) /* three pieces */

static char space[64]; /* the namespace of a test */

static struct varve_backend *open_store(const char *options) {
    struct varve_backend *backend = NULL;
    struct varve_error error = {.text = ""};
    struct vv_backend_options given = {.may_create = 1};
    char address[256];
    snprintf(address, sizeof address, "rados://ckpt/%s%s", space, options);
    if (vv_backend_open(address, &given, &backend, &error) != 0)
        fail_msg("%s", error.text);
    return backend;
}

static int setup(void **state) {
    static int number;
    (void)state;
    snprintf(space, sizeof space, "own-%d-%d", (int)getpid(), number++);
    return 0;
}

/* ---- the pool, past the backend ---- */

static rados_t cluster;
static rados_ioctx_t pool;

static void open_pool(void) {
    assert_int_equal(rados_create(&cluster, NULL), 0);
    assert_int_equal(rados_conf_read_file(cluster, NULL), 0);
    assert_int_equal(rados_connect(cluster), 0);
    assert_int_equal(rados_ioctx_create(cluster, "ckpt", &pool), 0);
    rados_ioctx_set_namespace(pool, space);
}

static void close_pool(void) {
    rados_ioctx_destroy(pool);
    rados_shutdown(cluster);
}

/* Objects of the pool whose names begin so. */
static int count_objects(const char *begin) {
    rados_list_ctx_t list;
    const char *name, *key, *in;
    int count = 0;
    assert_int_equal(rados_nobjects_list_open(pool, &list), 0);
    while (rados_nobjects_list_next(list, &name, &key, &in) == 0)
        count += strncmp(name, begin, strlen(begin)) == 0;
    rados_nobjects_list_close(list);
    return count;
}

static void set_value(const char *object, const char *key, size_t key_size, const char *value, size_t size) {
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_set2(op, &key, &value, &key_size, &size, 1);
    assert_int_equal(rados_write_op_operate(op, pool, object, NULL, 0), 0);
    rados_release_write_op(op);
}

static int count_entries(const char *object) {
    rados_omap_iter_t iter = NULL;
    unsigned char more = 0;
    int result = 0;
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_omap_get_vals2(op, "", "", 100, &iter, &more, &result);
    assert_int_equal(rados_read_op_operate(op, pool, object, 0), 0);
    int count = (int)rados_omap_iter_size(iter);
    rados_omap_get_end(iter);
    rados_release_read_op(op);
    return count;
}

/* Notes of uploads become so old that they are swept. How many there are. */
static int make_old(void) {
    rados_omap_iter_t iter = NULL;
    unsigned char more = 0;
    int result = 0, count = 0;
    char *key, *value;
    size_t key_size, size;
    rados_read_op_t op = rados_create_read_op();
    rados_read_op_omap_get_vals2(op, "", "", 100, &iter, &more, &result);
    int rc = rados_read_op_operate(op, pool, "u", 0);
    while (rc == 0 && rados_omap_get_next2(iter, &key, &value, &key_size, &size) == 0 && key) {
        char old[1200] = {0};
        assert_in_range(size, 9, sizeof old);
        memcpy(old + 8, value + 8, size - 8);
        set_value("u", key, key_size, old, size);
        count++;
    }
    if (iter)
        rados_omap_get_end(iter);
    rados_release_read_op(op);
    return count;
}

/* ---- calls of the backend, which come here first ---- */

static struct {
    const char *object; /* before write number `count` to it, do this once */
    int count;
    void (*fn)(void);
} before;
static int removes_left = -1; /* then removals fail; -1: never */
static int write_result;      /* of pieces, if not 0 */
static int is_behind;         /* the clock, by a month */

static void *real_call(const char *name) {
    void *call = dlsym(RTLD_NEXT, name);
    if (!call)
        fail_msg("librados has no %s", name);
    return call;
}

int rados_write_op_operate2(rados_write_op_t op, rados_ioctx_t io, const char *name, struct timespec *time, int flags) {
    int (*real)(rados_write_op_t, rados_ioctx_t, const char *, struct timespec *, int);
    void *call = real_call("rados_write_op_operate2");
    memcpy(&real, &call, sizeof real);
    if (strncmp(name, "p/", 2) == 0) { /* a piece is removed */
        if (removes_left == 0)
            return -ETIMEDOUT;
        removes_left -= removes_left > 0;
    }
    if (before.fn && strcmp(name, before.object) == 0 && --before.count == 0) {
        void (*fn)(void) = before.fn;
        before.fn = NULL;
        fn();
    }
    return real(op, io, name, time, flags);
}

int rados_aio_get_return_value(rados_completion_t done) {
    int (*real)(rados_completion_t);
    void *call = real_call("rados_aio_get_return_value");
    memcpy(&real, &call, sizeof real);
    int rc = write_result;
    if (rc)
        write_result = 0;
    return rc ? rc : real(done);
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec -= is_behind ? 30 * 24 * 3600 : 0;
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

/* ---- helpers on the backend ---- */

static int put(struct varve_backend *backend, const char *key, size_t size) {
    struct varve_upload *upload = NULL;
    char *data = malloc(size + 1);
    memset(data, key[strlen(key) - 1], size);
    int rc = vv_backend_create(backend, key, 0, &upload);
    if (rc == 0) {
        rc = vv_backend_upload_write(upload, data, size);
        if (rc == 0)
            rc = vv_backend_upload_commit(upload);
        else
            vv_backend_upload_abort(upload);
    }
    free(data);
    return rc;
}

struct names {
    char list[64][16];
    int count;
};

static int take(void *arg, const char *name, int is_prefix) {
    struct names *names = arg;
    (void)is_prefix;
    assert_true(names->count < 64);
    snprintf(names->list[names->count++], 16, "%s", name);
    return 0;
}

static struct names list(struct varve_backend *backend, const char *prefix) {
    struct names names = {.count = 0};
    assert_int_equal(vv_backend_list(backend, prefix, NULL, 0, take, &names), 0);
    return names;
}

/* ---- addresses ---- */

static void test_addresses(void **state) {
    static const struct {
        const char *address;
        int code;
        const char *text;
    } wrong[] = {
        {"rados://", VARVE_SETTING, "rados://pool/namespace"},
        {"rados://nopool/x", VARVE_NO_STORE, "no pool nopool"},
        {"rados://ckpt/x?timeout=soon", VARVE_SETTING, "timeout=30s"},
        {"rados://ckpt/x?region=eu", VARVE_SETTING, "unknown parameter \"region\""},
        {"rados://ckpt/x?conf=/nowhere/ceph.conf", -ENOENT, "/nowhere/ceph.conf"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct varve_backend *backend = NULL;
        struct varve_error error = {.text = ""};
        int rc = vv_backend_open(wrong[i].address, NULL, &backend, &error);
        if (rc != wrong[i].code || !strstr(error.text, wrong[i].text))
            fail_msg("%s: %d %s", wrong[i].address, rc, error.text);
    }
}

/* ---- directories ---- */

#define RACERS 6
#define KEYS 3
static _Atomic int is_over;

static void *race(void *arg) {
    struct varve_backend *backend = open_store("");
    unsigned seed = (unsigned)(uintptr_t)arg;
    while (!atomic_load(&is_over)) {
        char key[32];
        int number = (int)(rand_r(&seed) % KEYS), what = (int)(rand_r(&seed) % 3);
        snprintf(key, sizeof key, "a/b%d/c%d", number, number);
        int rc = what == 0   ? put(backend, key, 100)
                 : what == 1 ? vv_backend_remove(backend, key)
                             : vv_backend_replace(backend, key, "new", 3);
        if (rc != 0 && rc != -EEXIST && rc != -ENOENT && rc != -EBUSY)
            fail_msg("%s: %d", key, rc);
    }
    vv_backend_close(backend);
    return NULL;
}

/* Creators and removers of the same few keys, whose folders come and go: what is there is listed, and nothing else. */
static void test_race(void **state) {
    pthread_t threads[RACERS];
    int there = 0;
    (void)state;
    for (int round = 0; round < 4; round++) {
        atomic_store(&is_over, 0);
        for (uintptr_t i = 0; i < RACERS; i++)
            pthread_create(&threads[i], NULL, race, (void *)(i + 1 + (uintptr_t)round * RACERS));
        sleep(2);
        atomic_store(&is_over, 1);
        for (int i = 0; i < RACERS; i++)
            pthread_join(threads[i], NULL);
        struct varve_backend *backend = open_store("");
        for (int i = 0; i < KEYS; i++) {
            char key[32], prefix[16];
            uint64_t size = 0;
            snprintf(prefix, sizeof prefix, "a/b%d", i);
            snprintf(key, sizeof key, "%s/c%d", prefix, i);
            int rc = vv_backend_stat(backend, key, &size);
            struct names below = list(backend, prefix), above = list(backend, "a");
            int is_above = 0;
            for (int j = 0; j < above.count; j++)
                is_above |= strcmp(above.list[j], prefix + 2) == 0;
            assert_int_equal(below.count, rc == 0);
            if (rc == 0)
                assert_true(is_above);
            there += rc == 0;
        }
        vv_backend_close(backend);
    }
    assert_true(there > 0);
}

/* A remover that died before or after the head went. */
static void test_half_removed(void **state) {
    struct varve_backend *backend = open_store("");
    char value[17] = "r0123456789abcde";
    (void)state;
    open_pool();
    assert_int_equal(put(backend, "a/b/one", 10), 0);
    assert_int_equal(put(backend, "a/b/two", 10), 0);
    set_value("d/a/b", "one", 3, value, 17);
    assert_int_equal(list(backend, "a/b").count, 2);
    assert_int_equal(rados_remove(pool, "o/a/b/one"), 0);
    struct names names = list(backend, "a/b");
    assert_int_equal(names.count, 1);
    assert_string_equal(names.list[0], "two");
    /* A creator that died before there was a head; its entry goes when it is old. */
    value[0] = 'c';
    memset(value + 1, 0xff, 8);
    set_value("d/a/b", "new", 3, value, 17);
    assert_int_equal(list(backend, "a/b").count, 1);
    assert_int_equal(count_entries("d/a/b"), 3);
    memset(value + 1, 0, 8);
    set_value("d/a/b", "new", 3, value, 17);
    set_value("d/a/b", "one", 3, value, 17);
    assert_int_equal(list(backend, "a/b").count, 1);
    assert_int_equal(count_entries("d/a/b"), 1);
    /* And one that died while it removed the folder. */
    value[0] = 'q';
    set_value("d/a", "b", 1, value, 17);
    assert_int_equal(list(backend, "a").count, 1);
    assert_int_equal(put(backend, "a/b/one", 10), 0);
    assert_int_equal(list(backend, "a/b").count, 2);
    assert_int_equal(vv_backend_remove(backend, "a/b/one"), 0);
    assert_int_equal(vv_backend_remove(backend, "a/b/two"), 0);
    assert_int_equal(list(backend, "a").count, 0);
    assert_int_equal(list(backend, "").count, 0);
    assert_int_equal(count_objects("o/") + count_objects("d/a"), 0);
    value[0] = 'x';
    set_value("d/", "odd", 3, value, 17);
    assert_int_equal(vv_backend_list(backend, "", NULL, 0, take, &names), -EIO);
    close_pool();
    vv_backend_close(backend);
}

static void lose_folder(void) {
    const char *component = "a";
    size_t size = 1;
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_rm_keys2(op, &component, &size, 1);
    assert_int_equal(rados_write_op_operate(op, pool, "d/", NULL, 0), 0);
    rados_release_write_op(op);
    assert_int_equal(rados_remove(pool, "d/a"), 0);
}

/* A directory above goes while the entries are set once more. */
static void test_lost_folder(void **state) {
    struct varve_backend *backend = open_store("");
    (void)state;
    open_pool();
    before.object = "d/a";
    before.count = 3; /* it is missing; it is made; and once more */
    before.fn = lose_folder;
    assert_int_equal(put(backend, "a/b/c", 10), 0);
    assert_null(before.fn);
    assert_int_equal(list(backend, "").count, 1);
    assert_int_equal(list(backend, "a").count, 1);
    assert_int_equal(list(backend, "a/b").count, 1);
    close_pool();
    vv_backend_close(backend);
}

static void remove_folder(void) {
    assert_int_equal(rados_remove(pool, "d/a/b"), 0);
}

/* Two who remove the last keys of a directory both find it empty. One of them removes it, and does not find its own
 * token in the entry any more. */
static void test_two_removers(void **state) {
    struct varve_backend *backend = open_store("");
    (void)state;
    open_pool();
    for (int is_early = 0; is_early < 2; is_early++) { /* before it removes the directory, or marks the entry */
        assert_int_equal(put(backend, "a/b/c", 10), 0);
        before.object = is_early ? "d/a" : "d/a/b";
        before.count = is_early ? 1 : 3;
        before.fn = remove_folder;
        assert_int_equal(vv_backend_remove(backend, "a/b/c"), 0);
        assert_null(before.fn);
        assert_int_equal(list(backend, "").count, 0);
        assert_int_equal(count_objects("d/a"), 0);
    }
    close_pool();
    vv_backend_close(backend);
}

static int refuse(void *arg, const char *name, int is_prefix) {
    (void)arg, (void)name, (void)is_prefix;
    return -ENOENT;
}

static void remove_ghost(void) {
    struct varve_backend *backend = open_store("");
    assert_int_equal(vv_backend_remove(backend, "a/b/ghost"), 0);
    vv_backend_close(backend);
}

/* Entries that their makers left behind. */
static void test_stale_entries(void **state) {
    struct varve_backend *backend = open_store("");
    char value[17] = "";
    (void)state;
    open_pool();
    assert_int_equal(put(backend, "a/b/one", 10), 0);
    assert_int_equal(vv_backend_list(backend, "a/b", NULL, 0, refuse, NULL), -ENOENT);
    before.object = "d/a/b";
    before.count = 2; /* the entry before the head; and behind it */
    before.fn = remove_ghost;
    assert_int_equal(put(backend, "a/b/ghost", 10), 0);
    assert_null(before.fn);
    assert_int_equal(list(backend, "a/b").count, 1);
    value[0] = 'q'; /* without a directory, and with an empty one */
    set_value("d/a", "gone", 4, value, 17);
    set_value("d/a", "void", 4, value, 17);
    assert_int_equal(rados_write(pool, "d/a/void", "", 0, 0), 0);
    assert_int_equal(list(backend, "a").count, 1);
    assert_int_equal(count_entries("d/a"), 1);
    assert_int_equal(count_objects("d/a/"), 1);
    value[0] = 'p';
    set_value("d/a", "gone", 4, value, 17);
    assert_int_equal(list(backend, "a").count, 2);
    assert_int_equal(list(backend, "a/gone").count, 0);
    assert_int_equal(list(backend, "a").count, 1);
    memset(value + 1, 0xff, 8); /* a young one may be in the making */
    set_value("d/a", "gone", 4, value, 17);
    assert_int_equal(list(backend, "a/gone").count, 0);
    assert_int_equal(list(backend, "a").count, 2);
    close_pool();
    vv_backend_close(backend);
}

/* ---- pieces ---- */

static void test_pieces(void **state) {
    struct varve_backend *backend = open_store("");
    char byte = 0;
    (void)state;
    open_pool();
    assert_int_equal(put(backend, "a/large", LARGE), 0);
    assert_int_equal(count_objects("p/"), 3);
    assert_int_equal(put(backend, "a/large", LARGE), -EEXIST);
    assert_int_equal(count_objects("p/"), 3); /* those of the loser are gone */
    assert_int_equal(make_old(), 0);
    assert_int_equal(vv_backend_get(backend, "a/large", LARGE - 1, &byte, 1), 1);
    assert_int_equal(byte, 'e');
    /* A piece that is lost is an error, not an absent object. */
    rados_list_ctx_t names;
    const char *name = NULL, *key, *in;
    assert_int_equal(rados_nobjects_list_open(pool, &names), 0);
    while (rados_nobjects_list_next(names, &name, &key, &in) == 0 && strncmp(name, "p/", 2) != 0)
        ;
    assert_int_equal(rados_remove(pool, name), 0);
    rados_nobjects_list_close(names);
    char *all = malloc(LARGE);
    assert_int_equal(vv_backend_get(backend, "a/large", 0, all, LARGE), -EIO);
    free(all);
    assert_int_equal(vv_backend_remove(backend, "a/large"), 0);
    assert_int_equal(count_objects("p/") + make_old(), 0);
    close_pool();
    vv_backend_close(backend);
}

/* Killed in the middle of a large object, and between its head and the note's end. */
static void test_leftovers(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct varve_backend *backend = open_store("");
        struct varve_upload *upload = NULL;
        char *data = calloc(1, LARGE);
        int rc = vv_backend_create(backend, "a/killed", 0, &upload);
        rc = rc ? rc : vv_backend_upload_write(upload, data, LARGE);
        struct timespec pause = {.tv_sec = 1};
        nanosleep(&pause, NULL);
        _exit(rc ? 1 : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct varve_backend *backend = open_store("");
    open_pool();
    uint64_t size = 0;
    assert_int_equal(vv_backend_stat(backend, "a/killed", &size), -ENOENT);
    int left = count_objects("p/");
    assert_true(left >= 1);
    assert_int_equal(vv_backend_sweep(backend), 0);
    assert_int_equal(count_objects("p/"), left); /* its writer may be alive */
    assert_int_equal(make_old(), 1);
    assert_int_equal(vv_backend_sweep(backend), 0);
    assert_int_equal(count_objects("p/") + make_old(), 0);
    /* A note that has outlived the upload takes nothing away. */
    assert_int_equal(put(backend, "a/large", LARGE), 0);
    uint8_t head[32], note[40] = {0};
    assert_int_equal(rados_read(pool, "o/a/large", (char *)head, sizeof head, 0), 32);
    memcpy(note + 8, "a/large", 7);
    set_value("u", (char *)head + 16, 16, (char *)note, 15);
    assert_int_equal(make_old(), 1);
    assert_int_equal(vv_backend_sweep(backend), 0);
    assert_int_equal(count_objects("p/"), 3);
    assert_int_equal(make_old(), 0);
    close_pool();
    vv_backend_close(backend);
}

#define MANY (56u << 20) /* seven pieces */

/* A removal that ends in the middle, and a sweep that does. */
static void test_half_swept(void **state) {
    struct varve_backend *backend = open_store("");
    uint8_t note[8 + 3] = {0}, token[16] = {0};
    (void)state;
    open_pool();
    for (int is_sweep = 0; is_sweep < 2; is_sweep++) {
        assert_int_equal(put(backend, "a/many", MANY), 0);
        removes_left = is_sweep ? 0 : 6;
        assert_int_equal(vv_backend_remove(backend, "a/many"), 0);
        assert_int_equal(count_objects("p/"), is_sweep ? 7 : 1);
        assert_int_equal(make_old(), 1);
        removes_left = is_sweep ? 6 : -1;
        assert_int_equal(vv_backend_sweep(backend), is_sweep ? -ETIMEDOUT : 0);
        removes_left = -1;
        /* A note that cannot be judged does not stop the others. */
        assert_int_equal(rados_write_full(pool, "o/bad", "x", 1), 0);
        memcpy(note + 8, "bad", 3);
        set_value("u", (char *)token, 16, (char *)note, sizeof note);
        assert_int_equal(vv_backend_sweep(backend), -EIO);
        assert_int_equal(count_objects("p/"), 0);
        assert_int_equal(make_old(), 1);
        assert_int_equal(rados_remove(pool, "o/bad"), 0);
        assert_int_equal(vv_backend_sweep(backend), 0);
        assert_int_equal(make_old(), 0);
    }
    close_pool();
    vv_backend_close(backend);
}

static struct varve_upload *begin(struct varve_backend *backend, const char *key) {
    struct varve_upload *upload = NULL;
    char *data = calloc(1, LARGE);
    assert_int_equal(vv_backend_create(backend, key, 0, &upload), 0);
    assert_int_equal(vv_backend_upload_write(upload, data, LARGE), 0);
    free(data);
    return upload;
}

static void sweep(void) {
    struct varve_backend *backend = open_store("");
    assert_int_equal(vv_backend_sweep(backend), 0);
    vv_backend_close(backend);
}

/* The clock of a writer is so far behind that a sweep takes its pieces: before it commits, just before the head comes,
 * and behind it. No object with holes is left. */
static void test_clocks(void **state) {
    struct varve_backend *backend = open_store("");
    uint64_t size = 0;
    (void)state;
    open_pool();
    for (int when = 0; when < 3; when++) {
        is_behind = 1;
        struct varve_upload *upload = begin(backend, "a/slow");
        is_behind = 0;
        before.object = when == 1 ? "o/a/slow" : "u";
        before.count = 1;
        before.fn = when ? sweep : NULL;
        if (when == 0)
            sweep();
        assert_int_equal(vv_backend_upload_commit(upload), -EIO);
        assert_null(before.fn);
        assert_int_equal(vv_backend_stat(backend, "a/slow", &size), -ENOENT);
        assert_int_equal(list(backend, "a").count, 0);
        assert_int_equal(count_objects("p/") + make_old(), 0);
    }
    close_pool();
    vv_backend_close(backend);
}

/* A pool's quota is found when a piece ends. Nothing is left of such an upload. */
static void test_quota(void **state) {
    struct varve_backend *backend = open_store("");
    (void)state;
    open_pool();
    struct varve_upload *upload = begin(backend, "a/much");
    write_result = -EDQUOT;
    assert_int_equal(vv_backend_upload_commit(upload), -ENOSPC);
    assert_int_equal(count_objects("p/") + make_old(), 0);
    close_pool();
    vv_backend_close(backend);
}

/* What is full is a matter of three bounds, of which the next one must be higher. */
static void set_full(int is_full) {
    static const char bounds[] = "n=%s b=%s f=%s; exec >/dev/null 2>&1; ceph osd set-full-ratio 0.95; "
                                 "ceph osd set-nearfull-ratio $n && ceph osd set-backfillfull-ratio $b && "
                                 "ceph osd set-full-ratio $f && for i in $(seq 60); do "
                                 "%s ceph osd dump | grep -q \"'ckpt'.*,full\" && exit 0; sleep 0.5; done; exit 1";
    char command[512];
    snprintf(command, sizeof command, bounds, is_full ? "0.001" : "0.85", is_full ? "0.002" : "0.90",
             is_full ? "0.003" : "0.95", is_full ? "" : "!");
    assert_int_equal(system(command), 0);
}

/* A full cluster takes no data. What frees space there works: tombstones, and removals with all their pieces. */
static void test_full(void **state) {
    struct varve_backend *backend = open_store("");
    uint64_t size;
    (void)state;
    open_pool();
    assert_int_equal(put(backend, "a/large", LARGE), 0);
    vv_backend_close(backend);
    set_full(1);
    backend = open_store("?timeout=5s"); /* a new client knows it */
    assert_int_equal(put(backend, "a/more", LARGE), -ENOSPC);
    assert_int_equal(put(backend, "a/data", 1000), -ENOSPC); /* not announced as small */
    assert_int_equal(vv_backend_stat(backend, "a/data", &size), -ENOENT);
    assert_int_equal(vv_backend_put(backend, "b/c/tombstone", "x", 1), 0);
    assert_int_equal(vv_backend_replace(backend, "b/beat", "x", 1), 0);
    assert_int_equal(vv_backend_remove(backend, "a/large"), 0);
    assert_int_equal(vv_backend_remove(backend, "b/beat"), 0);
    set_full(0);
    assert_int_equal(list(backend, "b").count, 1);
    assert_int_equal(list(backend, "a").count, 0);
    assert_int_equal(count_objects("p/") + make_old(), 0);
    close_pool();
    vv_backend_close(backend);
}

/* ---- an OSD that is killed ---- */

static uint8_t memory[96 << 20];

static void fill(int step) {
    uint64_t state = (uint64_t)step;
    for (size_t i = 0; i < sizeof memory; i += 8) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        memcpy(memory + i, &state, 8);
    }
}

static struct varve_session *open_session(void) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {.text = ""};
    char address[128];
    snprintf(address, sizeof address, "rados://ckpt/%s?timeout=3s", space);
    options.settings = "codec=none,log=error";
    if (varve_open(address, "job", &options, &session, &error) != 0)
        fail_msg("open: %s", error.text);
    assert_int_equal(varve_protect(session, "memory", memory, sizeof memory), 0);
    return session;
}

static void *kill_osd(void *arg) {
    struct timespec pause = {.tv_nsec = 150000000};
    (void)arg;
    nanosleep(&pause, NULL);
    if (system("kill -9 $(cat $CEPH_DIR/run/osd.0.pid)") != 0)
        fail_msg("the OSD could not be killed");
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int save(struct varve_session *session, int version) {
    int rc = varve_checkpoint(session, version);
    return rc ? rc : varve_wait(session);
}

static void test_osd(void **state) {
    struct varve_session *session = open_session();
    pthread_t killer;
    int64_t version = 0;
    (void)state;
    fill(1);
    assert_int_equal(save(session, 1), 0);
    fill(2);
    pthread_create(&killer, NULL, kill_osd, NULL);
    double begun = now();
    int rc = save(session, 2);
    double took = now() - begun;
    pthread_join(killer, NULL);
    print_message("without its OSD a checkpoint ended after %.1f s with %d: %s\n", took, rc,
                  varve_session_error(session)->text);
    assert_true(rc < 0);
    assert_true(took < 40);
    if (system("ceph-osd -i 0 >/dev/null 2>&1") != 0)
        fail_msg("the OSD does not start again");
    for (int tries = 0; tries < 20 && (rc = save(session, 3 + tries)) != 0; tries++)
        sleep(1);
    if (rc != 0)
        fail_msg("it does not go on: %s", varve_session_error(session)->text);
    varve_close(session);
    memset(memory, 0, sizeof memory);
    session = open_session();
    if (varve_restart(session, VARVE_LATEST, &version) != 0)
        fail_msg("restart: %s", varve_session_error(session)->text);
    assert_true(version >= 3);
    uint8_t *restored = malloc(sizeof memory);
    memcpy(restored, memory, sizeof memory);
    fill(2);
    assert_memory_equal(restored, memory, sizeof memory);
    if (varve_restart(session, 1, NULL) != 0)
        fail_msg("restart from 1: %s", varve_session_error(session)->text);
    memcpy(restored, memory, sizeof memory);
    fill(1);
    assert_memory_equal(restored, memory, sizeof memory);
    free(restored);
    varve_close(session);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_addresses, setup),     cmocka_unit_test_setup(test_race, setup),
        cmocka_unit_test_setup(test_half_removed, setup),  cmocka_unit_test_setup(test_pieces, setup),
        cmocka_unit_test_setup(test_leftovers, setup),     cmocka_unit_test_setup(test_lost_folder, setup),
        cmocka_unit_test_setup(test_stale_entries, setup), cmocka_unit_test_setup(test_half_swept, setup),
        cmocka_unit_test_setup(test_clocks, setup),        cmocka_unit_test_setup(test_quota, setup),
        cmocka_unit_test_setup(test_two_removers, setup),  cmocka_unit_test_setup(test_full, setup),
    };
    const struct CMUnitTest osd[] = {cmocka_unit_test_setup(test_osd, setup)};
    return argc > 1 && strcmp(argv[1], "osd") == 0 ? cmocka_run_group_tests_name("rados_osd", osd, NULL, NULL)
                                                   : cmocka_run_group_tests_name("rados", tests, NULL, NULL);
}
