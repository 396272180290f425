/* What only the file backend promises: roots that vanish, full disks, leftovers, permissions, files changed by others.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"
#include "folder.h"
#include "storage/file_private.h"
#include "test.h"

#define MIB (1u << 20)

struct fixture {
    char folder[512];
    char root[600];
    struct varve_backend *backend;
};

static struct varve_backend *open_with(const char *root, struct vv_backend_options options) {
    struct varve_backend *backend = NULL;
    struct varve_error error = {0};
    int result = vv_backend_open(root, &options, &backend, &error);
    if (result < 0)
        print_error("%s\n", error.text);
    assert_int_equal(result, 0);
    return backend;
}

static int setup(void **state) {
    static struct fixture fixture;
    if (folder_make(".", "backend-test", fixture.folder, sizeof fixture.folder) < 0)
        return -1;
    snprintf(fixture.root, sizeof(fixture.root), "%s/store", fixture.folder);
    fixture.backend = open_with(fixture.root, (struct vv_backend_options){.may_create = 1});
    *state = &fixture;
    return 0;
}

static int teardown(void **state) {
    struct fixture *fixture = *state;
    vv_backend_close(fixture->backend);
    folder_remove(fixture->folder);
    return 0;
}

static int take_none(void *arg, const char *name, int is_prefix) {
    (void)name;
    (void)is_prefix;
    ++*(int *)arg;
    return 0;
}

static int count_names(struct varve_backend *backend, const char *prefix) {
    int count = 0;
    int result = vv_backend_list(backend, prefix, NULL, 0, take_none, &count);
    return result < 0 ? result : count;
}

static char *path_in(struct fixture *fixture, const char *name) {
    static char path[1200];
    snprintf(path, sizeof(path), "%s/%s", fixture->root, name);
    return path;
}

static int file_mode(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (int)(st.st_mode & 07777);
}

/* Every look at a store whose root is not there must be an error that is not "no such object". */
static void assert_root_lost(struct varve_backend *backend) {
    uint64_t size;
    char byte;
    struct varve_upload *upload = NULL;
    int results[] = {vv_backend_stat(backend, "k", &size),
                     (int)vv_backend_get(backend, "k", 0, &byte, 1),
                     count_names(backend, ""),
                     count_names(backend, "n"),
                     vv_backend_remove(backend, "k"),
                     vv_backend_sweep(backend),
                     vv_backend_replace(backend, "x/y", "", 0)};
    for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++) {
        assert_true(results[i] < 0);
        assert_int_not_equal(results[i], -ENOENT);
    }
    int result = vv_backend_create(backend, "x/y", 0, &upload);
    if (result == 0)
        result = vv_backend_upload_commit(upload);
    assert_true(result < 0 && result != -ENOENT && result != -EEXIST);
}

static void test_removed_root_is_an_error(void **state) {
    struct fixture *fixture = *state;
    assert_int_equal(count_names(fixture->backend, ""), 0);
    assert_int_equal(rmdir(fixture->root), 0);
    assert_root_lost(fixture->backend);
    /* Somebody makes an empty folder there: it is another store. */
    assert_int_equal(mkdir(fixture->root, 0700), 0);
    assert_root_lost(fixture->backend);
}

static void test_moved_root_is_no_empty_store(void **state) {
    struct fixture *fixture = *state;
    char moved[600];
    assert_int_equal(vv_backend_put(fixture->backend, "a/b", "1", 1), 0);
    snprintf(moved, sizeof(moved), "%s/moved", fixture->folder);
    assert_int_equal(rename(fixture->root, moved), 0);
    uint64_t size;
    assert_int_equal(vv_backend_stat(fixture->backend, "k", &size), -ESTALE);
    assert_int_equal(count_names(fixture->backend, "none"), -ESTALE);
    assert_int_equal(count_names(fixture->backend, ""), 1);
}

static void test_unreadable_root_is_an_error(void **state) {
    struct fixture *fixture = *state;
    uint64_t size;
    uid_t before = geteuid();
    assert_int_equal(chmod(fixture->root, 0), 0);
    if (before == 0)
        assert_int_equal(seteuid(65534), 0); /* root may read everything */
    int found = vv_backend_stat(fixture->backend, "k", &size);
    int listed = count_names(fixture->backend, "");
    int below = count_names(fixture->backend, "n");
    assert_int_equal(seteuid(before), 0);
    assert_int_equal(chmod(fixture->root, 0700), 0);
    assert_int_equal(found, -EACCES);
    assert_int_equal(listed, -EACCES);
    assert_int_equal(below, -EACCES);
}

static void test_open_says_what_is_wrong(void **state) {
    struct fixture *fixture = *state;
    struct varve_backend *backend = NULL;
    struct varve_error error = {0};
    struct vv_backend_options create = {.may_create = 1};
    assert_int_equal(vv_backend_open(path_in(fixture, "none"), NULL, &backend, &error), VARVE_NO_STORE);
    assert_non_null(strstr(error.text, "there is no folder"));
    assert_int_equal(error.code, VARVE_NO_STORE);
    assert_int_equal(vv_backend_open(path_in(fixture, "none/deeper"), &create, &backend, &error), VARVE_NO_STORE);
    assert_non_null(strstr(error.text, "parent"));
    assert_int_equal(vv_backend_put(fixture->backend, "file", "", 0), 0);
    assert_int_equal(vv_backend_open(path_in(fixture, "file"), &create, &backend, &error), -ENOTDIR);
    assert_non_null(strstr(error.text, "not a folder"));
    assert_int_equal(vv_backend_open(path_in(fixture, "file/x"), &create, &backend, &error), -ENOTDIR);
    assert_null(backend);
}

static void test_private_group_umask(void **state) {
    struct fixture *fixture = *state;
    mode_t before = umask(027);
    assert_int_equal(vv_backend_put(fixture->backend, "p/private", "", 0), 0);
    assert_int_equal(vv_backend_replace(fixture->backend, "p/replaced", "", 0), 0);
    struct varve_backend *group = open_with(fixture->root, (struct vv_backend_options){.mode = VV_MODE_GROUP});
    assert_int_equal(vv_backend_put(group, "g/group", "", 0), 0);
    struct varve_backend *masked = open_with(fixture->root, (struct vv_backend_options){.mode = VV_MODE_UMASK});
    assert_int_equal(vv_backend_put(masked, "u/masked", "", 0), 0);
    umask(before);
    assert_int_equal(file_mode(fixture->root), 0700);
    assert_int_equal(file_mode(path_in(fixture, "p")), 0700);
    assert_int_equal(file_mode(path_in(fixture, "p/private")), 0600);
    assert_int_equal(file_mode(path_in(fixture, "p/replaced")), 0600);
    assert_int_equal(file_mode(path_in(fixture, "g")) & 0777, 0770);
    assert_int_equal(file_mode(path_in(fixture, "g/group")), 0660);
    assert_int_equal(file_mode(path_in(fixture, "u")) & 0777, 0750);
    assert_int_equal(file_mode(path_in(fixture, "u/masked")), 0640);
    vv_backend_close(group);
    vv_backend_close(masked);
}

/* Not everything in the folder is an object. What has the name of one is told all the same: its name is taken. */
static void test_strangers_are_no_objects(void **state) {
    struct fixture *fixture = *state;
    assert_int_equal(vv_backend_put(fixture->backend, "ours", "", 0), 0);
    assert_int_equal(vv_backend_put(fixture->backend, "n/tmp", "", 0), 0);
    assert_int_equal(mkdir(path_in(fixture, "lost + found"), 0700), 0);
    assert_int_equal(mkfifo(path_in(fixture, "fifo"), 0600), 0);
    assert_int_equal(vv_backend_replace(fixture->backend, "beat", "", 0), 0);
    /* Perhaps replace has made it. */
    assert_true(mkdir(path_in(fixture, "tmp"), 0700) == 0 || errno == EEXIST);
    assert_int_equal(count_names(fixture->backend, ""), 4);
    assert_int_equal(count_names(fixture->backend, "n"), 1);
    char byte;
    assert_int_equal(vv_backend_get(fixture->backend, "fifo", 0, &byte, 1), VARVE_CORRUPT);
}

/* Files in a folder that are no objects. */
static int count_temporaries(const char *folder) {
    DIR *dir = opendir(folder);
    int count = 0;
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += vv_file_is_temporary(entry->d_name);
    closedir(dir);
    return count;
}

static void test_nothing_is_left(void **state) {
    struct fixture *fixture = *state;
    struct vv_file_tuning tuning = {.named_temporaries = 1};
    struct varve_backend *named = open_with(fixture->root, (struct vv_backend_options){.tuning = &tuning});
    struct varve_upload *upload = NULL;
    assert_int_equal(vv_backend_put(named, "f/a", "1", 1), 0);
    assert_int_equal(vv_backend_put(named, "f/a", "2", 1), -EEXIST);
    assert_int_equal(vv_backend_replace(named, "f/a", "3", 1), 0);
    assert_int_equal(vv_backend_create(named, "f/b", 0, &upload), 0);
    assert_int_equal(count_temporaries(path_in(fixture, "f")), 1);
    assert_int_equal(count_names(named, "f"), 1);
    vv_backend_upload_abort(upload);
    assert_int_equal(count_temporaries(path_in(fixture, "f")), 0);
    assert_int_equal(vv_backend_create(named, "g/h/b", 0, &upload), 0);
    vv_backend_upload_abort(upload);
    assert_int_equal(access(path_in(fixture, "g"), F_OK), -1);
    assert_int_equal(access(path_in(fixture, "tmp"), F_OK), -1);
    vv_backend_close(named);
}

/* A child begins an object under a temporary name and dies. */
static void leave_temporary(const char *root, const char *key) {
    struct vv_file_tuning tuning = {.named_temporaries = 1};
    pid_t child = fork();
    if (child == 0) {
        struct vv_backend_options options = {.tuning = &tuning};
        struct varve_backend *backend = NULL;
        struct varve_upload *upload = NULL;
        if (vv_backend_open(root, &options, &backend, NULL) == 0 && vv_backend_create(backend, key, 0, &upload) == 0)
            (void)vv_backend_upload_write(upload, "abc", 3);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void make_file(const char *path) {
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void make_old(const char *path) {
    struct utimbuf old = {.actime = 0, .modtime = time(NULL) - 8 * 24 * 3600};
    assert_int_equal(utime(path, &old), 0);
}

/* A process that is gone leaves waste; one that lives, or may live on another host, does not. */
static void test_leftovers_are_swept(void **state) {
    struct fixture *fixture = *state;
    struct vv_file_tuning tuning = {.named_temporaries = 1};
    struct varve_backend *named = open_with(fixture->root, (struct vv_backend_options){.tuning = &tuning});
    struct varve_upload *alive = NULL;
    assert_int_equal(vv_backend_create(named, "f/alive", 0, &alive), 0);
    leave_temporary(fixture->root, "f/x");
    leave_temporary(fixture->root, "f/x");
    leave_temporary(fixture->root, "g/y");
    make_file(path_in(fixture, "f/.x.,0123456789abcdef-1-1-0123456789abcdef")); /* of another host */
    make_file(path_in(fixture, "f/.x.stranger"));
    assert_int_equal(count_names(fixture->backend, "f"), 1); /* the stranger; and f is noted */
    assert_int_equal(count_names(fixture->backend, "g"), 0);
    assert_int_equal(vv_backend_sweep(fixture->backend), 3);
    assert_int_equal(access(path_in(fixture, "g"), F_OK), -1);
    assert_int_equal(count_temporaries(path_in(fixture, "f")), 2);
    assert_int_equal(vv_backend_upload_commit(alive), 0);
    make_old(path_in(fixture, "f/.x.,0123456789abcdef-1-1-0123456789abcdef"));
    make_old(path_in(fixture, "f/.x.stranger"));
    assert_int_equal(count_names(fixture->backend, "f"), 2);
    assert_int_equal(vv_backend_sweep(fixture->backend), 1);
    assert_int_equal(count_names(fixture->backend, "f"), 2);
    assert_int_equal(vv_backend_sweep(fixture->backend), 0);
    vv_backend_close(named);
}

/* Also in tmp only what is called as we call our files goes. */
static void test_leftovers_in_tmp(void **state) {
    struct fixture *fixture = *state;
    const char *names[] = {"tmp/0123456789abcdef-1-1-0123456789abcdef", "tmp/stranger"};
    assert_int_equal(vv_backend_sweep(fixture->backend), 0);
    assert_int_equal(mkdir(path_in(fixture, "tmp"), 0700), 0);
    for (int i = 0; i < 2; i++)
        make_file(path_in(fixture, names[i]));
    assert_int_equal(vv_backend_sweep(fixture->backend), 0);
    for (int i = 0; i < 2; i++)
        make_old(path_in(fixture, names[i]));
    assert_int_equal(vv_backend_sweep(fixture->backend), 1);
    assert_int_equal(access(path_in(fixture, "tmp/stranger"), F_OK), 0);
    assert_int_equal(vv_backend_sweep(fixture->backend), 0);
}

/* Folders that are only written to, as that of the heartbeats: the next process that writes there cleans up. */
static void test_leftovers_of_replace(void **state) {
    struct fixture *fixture = *state;
    struct vv_file_tuning tuning = {.named_temporaries = 1};
    leave_temporary(fixture->root, "beat/1");
    struct varve_backend *named = open_with(fixture->root, (struct vv_backend_options){.tuning = &tuning});
    assert_int_equal(vv_backend_sweep(named), 0);
    assert_int_equal(vv_backend_replace(named, "beat/2", "", 0), 0);
    assert_int_equal(vv_backend_sweep(named), 1);
    assert_int_equal(count_temporaries(path_in(fixture, "beat")), 0);
    vv_backend_close(named);
}

/* A name of 255 characters has no room for more beside it. */
static void test_long_names(void **state) {
    struct fixture *fixture = *state;
    struct vv_file_tuning tuning = {.named_temporaries = 1};
    struct varve_backend *named = open_with(fixture->root, (struct vv_backend_options){.tuning = &tuning});
    char key[300] = "f/";
    memset(key + 2, 'x', 255);
    assert_int_equal(vv_backend_put(named, key, "1", 1), 0);
    assert_int_equal(vv_backend_replace(named, key, "2", 1), 0);
    assert_int_equal(count_names(named, "f"), 1);
    vv_backend_close(named);
}

/* ---- the probe ---- */

static void test_probe_leaves_nothing(void **state) {
    struct fixture *fixture = *state;
    struct varve_error error = {0};
    assert_int_equal(vv_backend_probe(fixture->backend, &error), 0);
    assert_int_equal(access(path_in(fixture, "tmp"), F_OK), -1);
    assert_int_equal(mkdir(path_in(fixture, "tmp"), 0700), 0);
    make_file(path_in(fixture, "tmp/in-use"));
    assert_int_equal(vv_backend_probe(fixture->backend, &error), 0);
    assert_int_equal(access(path_in(fixture, "tmp/in-use"), F_OK), 0);
    assert_int_equal(count_names(fixture->backend, ""), 1); /* a tmp with something of somebody else in it */
}

static void test_probe_of_a_lost_root(void **state) {
    struct fixture *fixture = *state;
    struct varve_error error = {0};
    assert_int_equal(rmdir(fixture->root), 0);
    assert_true(vv_backend_probe(fixture->backend, &error) < 0);
    assert_non_null(strstr(error.text, "not complete"));
    assert_non_null(strstr(error.text, fixture->root + 2)); /* without "./" */
}

/* Who may not write learns that from what it does next. */
static void test_probe_without_rights(void **state) {
    struct fixture *fixture = *state;
    uid_t before = geteuid();
    assert_int_equal(chmod(fixture->folder, 0755), 0);
    assert_int_equal(chmod(fixture->root, 0555), 0);
    if (before == 0)
        assert_int_equal(seteuid(65534), 0);
    int result = vv_backend_probe(fixture->backend, NULL);
    assert_int_equal(seteuid(before), 0);
    assert_int_equal(chmod(fixture->root, 0700), 0);
    assert_int_equal(result, 0);
}

/* Many may probe, and write, at the same time. */
static void *probe_and_replace(void *arg) {
    struct varve_backend *backend = arg;
    intptr_t wrong = 0;
    for (int i = 0; i < 40; i++) {
        wrong += vv_backend_probe(backend, NULL) != 0;
        wrong += vv_backend_replace(backend, "f/beat", "1", 1) != 0;
    }
    return (void *)wrong;
}

static void test_probes_at_once(void **state) {
    struct fixture *fixture = *state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, probe_and_replace, fixture->backend), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

/* Somebody else removes a folder just as a file without a name is made in it: ext4 then says EPERM. */
struct folder_flicker {
    char path[640];
    atomic_int is_over;
    atomic_int pause_us;
};

static void *flicker(void *arg) {
    struct folder_flicker *folder = arg;
    while (!atomic_load(&folder->is_over)) {
        (void)mkdir(folder->path, 0777);
        (void)rmdir(folder->path);
        if (atomic_load(&folder->pause_us))
            usleep((useconds_t)atomic_load(&folder->pause_us));
    }
    return NULL;
}

static void test_upload_while_its_folder_goes(void **state) {
    struct fixture *fixture = *state;
    struct folder_flicker folder = {0};
    pthread_t thread;
    int result = 0, round = 0;
    if (!vv_file_has_nameless((struct file_backend *)fixture->backend))
        skip();
    snprintf(folder.path, sizeof(folder.path), "%s/here", fixture->root);
    assert_int_equal(pthread_create(&thread, NULL, flicker, &folder), 0);
    for (; round < 2000 && result == 0; round++) {
        struct varve_upload *upload = NULL;
        result = vv_backend_create(fixture->backend, "here/object", 0, &upload);
        if (result == 0)
            vv_backend_upload_abort(upload);
    }
    atomic_store(&folder.pause_us, 100); /* who does nothing else lets nobody in */
    for (; round < 2020 && result == 0; round++) {
        result = vv_backend_put(fixture->backend, "here/object", "x", 1);
        if (result == 0)
            result = vv_backend_remove(fixture->backend, "here/object");
    }
    atomic_store(&folder.is_over, 1);
    pthread_join(thread, NULL);
    if (result < 0)
        print_error("round %d: %s\n", round, varve_error_text(result));
    assert_int_equal(result, 0);
}

/* The same error is not passed over where it means what it says. */
static void test_folder_that_may_not_change(void **state) {
    struct fixture *fixture = *state;
    struct varve_upload *upload = NULL;
    int flags = 0, changed;
    assert_int_equal(vv_backend_put(fixture->backend, "fixed/old", "x", 1), 0);
    int fd = open(path_in(fixture, "fixed"), O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ||
        (changed = flags | FS_IMMUTABLE_FL, ioctl(fd, FS_IOC_SETFLAGS, &changed) < 0)) {
        close(fd);
        skip();
    }
    int result = vv_backend_create(fixture->backend, "fixed/new", 0, &upload);
    if (result == 0)
        result = vv_backend_upload_commit(upload);
    changed = ioctl(fd, FS_IOC_SETFLAGS, &flags);
    close(fd);
    assert_int_equal(changed, 0);
    assert_int_equal(result, -EPERM);
    assert_int_equal(count_names(fixture->backend, "fixed"), 1);
}

/* Nobody waits for a folder when it is the file that is gone. */
static void test_removed_before_its_commit(void **state) {
    struct fixture *fixture = *state;
    const struct vv_file_tuning tuning = {.named_temporaries = 1};
    struct varve_backend *backend = open_with(fixture->root, (struct vv_backend_options){.tuning = &tuning});
    struct varve_upload *upload = NULL;
    assert_int_equal(vv_backend_create(backend, "lost", 0, &upload), 0);
    assert_int_equal(unlink(path_in(fixture, ((struct file_upload *)upload)->temporary)), 0);
    uint64_t begin = vv_clock_ns();
    assert_int_equal(vv_backend_upload_commit(upload), -ESTALE);
    assert_true(vv_clock_ns() - begin < 4000000000ull);
    assert_int_equal(count_names(backend, ""), 0);
    vv_backend_close(backend);
}

/* Another process (here: another backend) removes and makes again what this one keeps open. */
static void test_changed_by_another_process(void **state) {
    struct fixture *fixture = *state;
    struct varve_backend *other = open_with(fixture->root, (struct vv_backend_options){0});
    uint8_t *data = calloc(2, MIB), *back = malloc(2 * MIB);
    assert_int_equal(vv_backend_put(fixture->backend, "k", data, 2 * MIB), 0);
    assert_int_equal(vv_backend_get(fixture->backend, "k", 0, back, 2 * MIB), 2 * MIB);
    assert_int_equal(vv_backend_remove(other, "k"), 0);
    assert_int_equal(vv_backend_get(fixture->backend, "k", 0, back, 1), -ENOENT);
    memset(data, 1, 2 * MIB);
    assert_int_equal(vv_backend_put(other, "k", data, 2 * MIB), 0);
    assert_int_equal(vv_backend_get(fixture->backend, "k", 0, back, 2 * MIB), 2 * MIB);
    assert_memory_equal(back, data, 2 * MIB);
    memset(data, 2, 2 * MIB);
    assert_int_equal(vv_backend_replace(other, "k", data, 2 * MIB), 0);
    assert_int_equal(vv_backend_get(fixture->backend, "k", 7, back, 2 * MIB), 2 * MIB - 7);
    assert_memory_equal(back, data, 2 * MIB - 7);
    free(data);
    free(back);
    vv_backend_close(other);
}

static int open_files(void) {
    int count = 0;
    for (int fd = 0; fd < 1000; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void test_open_files_are_bounded(void **state) {
    struct fixture *fixture = *state;
    uint8_t *data = calloc(1, MIB);
    char key[32];
    int before = open_files();
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k/%d", i);
        assert_int_equal(vv_backend_put(fixture->backend, key, data, MIB), 0);
        assert_int_equal(vv_backend_get(fixture->backend, key, MIB - 1, data, 10), 1);
    }
    assert_true(open_files() - before <= 2 * 64);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "k/%d", i);
        assert_int_equal(vv_backend_remove(fixture->backend, key), 0);
    }
    assert_int_equal(open_files(), before);
    free(data);
}

static void test_capacity_is_checked_first(void **state) {
    struct fixture *fixture = *state;
    struct varve_upload *upload = NULL;
    uint64_t capacity = 0;
    assert_int_equal(vv_backend_space(fixture->backend, &capacity), 0);
    assert_int_equal(vv_backend_create(fixture->backend, "k", capacity * 2, &upload), -ENOSPC);
    assert_int_equal(vv_backend_create(fixture->backend, "k", UINT64_MAX, &upload), -ENOSPC);
    struct varve_backend *careful = open_with(fixture->root, (struct vv_backend_options){.min_free = UINT64_MAX / 2});
    assert_int_equal(vv_backend_create(careful, "k", 0, &upload), -ENOSPC);
    assert_int_equal(vv_backend_space(careful, &capacity), 0);
    assert_int_equal(capacity, 0);
    vv_backend_close(careful);
}

/* A file system of 16 MiB, in a mount namespace of our own. */
static int mount_small(const char *path) {
    static int is_private;
    if (geteuid() != 0)
        return -1;
    if (!is_private && (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
        return -1;
    is_private = 1;
    return mount("none", path, "tmpfs", 0, "size=16m");
}

static void fill_up(struct varve_backend *backend) {
    struct varve_upload *upload = NULL;
    uint8_t *data = calloc(1, MIB);
    int result = 0, written = 0;
    assert_int_equal(vv_backend_create(backend, "too/big", 0, &upload), 0);
    for (; written < 64 && result == 0; written++)
        result = vv_backend_upload_write(upload, data, MIB);
    assert_int_equal(result, -ENOSPC);           /* of the write itself, or of one before */
    assert_true(written >= 15 && written <= 32); /* some were in flight */
    assert_int_equal(vv_backend_upload_commit(upload), -ENOSPC);
    uint64_t size;
    assert_int_equal(vv_backend_stat(backend, "too/big", &size), -ENOENT);
    assert_int_equal(vv_backend_put(backend, "fits", data, MIB), 0);
    assert_int_equal(vv_backend_remove(backend, "fits"), 0);
    free(data);
}

static void test_full_disk(void **state) {
    struct fixture *fixture = *state;
    char small[600];
    snprintf(small, sizeof(small), "%s/small", fixture->folder);
    assert_int_equal(mkdir(small, 0700), 0);
    if (mount_small(small) < 0) {
        print_message("skipped: cannot mount a small file system\n");
        skip();
    }
    struct varve_upload *upload = NULL;
    for (int direct = VV_DIRECT_AUTO; direct <= VV_DIRECT_OFF; direct += VV_DIRECT_OFF) {
        struct varve_backend *backend = open_with(small, (struct vv_backend_options){.direct = direct});
        assert_int_equal(vv_backend_create(backend, "k", 17 * MIB, &upload), -ENOSPC);
        fill_up(backend);
        vv_backend_close(backend);
    }
    assert_int_equal(umount2(small, MNT_DETACH), 0);
}

/* The root's file system goes away under an open backend: what is seen then is the empty folder below. */
static void test_unmounted_root_is_an_error(void **state) {
    struct fixture *fixture = *state;
    if (mount_small(fixture->root) < 0) {
        print_message("skipped: cannot mount a small file system\n");
        skip();
    }
    struct varve_backend *backend = open_with(fixture->root, (struct vv_backend_options){0});
    assert_int_equal(umount2(fixture->root, MNT_DETACH), 0);
    uint64_t size;
    assert_int_equal(vv_backend_stat(backend, "k", &size), -ESTALE);
    assert_int_equal(count_names(backend, ""), -ESTALE);
    assert_int_equal(count_names(backend, "n"), -ESTALE);
    vv_backend_close(backend);
}

/* Death around the moment at which an object gets its name: it is there whole, or not at all, and never in tmp. */
static void test_death_at_the_link(void **state) {
#ifdef VARVE_FAULTS
    struct fixture *fixture = *state;
    for (int after = 0; after < 2; after++) {
        pid_t child = fork();
        if (child == 0) {
            struct varve_backend *backend = NULL;
            vv_fault_set(after ? "backend.file.after_link=kill" : "backend.file.before_link=kill");
            if (vv_backend_open(fixture->root, NULL, &backend, NULL) == 0)
                (void)vv_backend_put(backend, "n/x/claim/1", "abc", 3);
            _exit(1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        uint64_t size = 0;
        assert_int_equal(vv_backend_stat(fixture->backend, "n/x/claim/1", &size), after ? 0 : -ENOENT);
        assert_int_equal(size, after ? 3 : 0);
    }
    assert_int_equal(access(path_in(fixture, "tmp"), F_OK), -1);
#else
    (void)state;
    skip();
#endif
}

#ifdef VARVE_FAULTS
/* 0 or the first error; whatever fails, nothing leaks and nothing half-made becomes visible. */
static int use_everything(const char *uri, const uint8_t *data, uint8_t *back) {
    struct vv_backend_options options = {.may_create = 1};
    struct varve_backend *backend = NULL;
    struct varve_error error = {0};
    int names = 0;
    int result = vv_backend_open(uri, &options, &backend, &error);
    if (result < 0) {
        assert_int_equal(error.code, result);
        return result;
    }
    int results[] = {vv_backend_put(backend, "a/big", data, 2 * MIB + 1),
                     vv_backend_put(backend, "a/small", data, 10),
                     vv_backend_replace(backend, "a/beat", data, 10),
                     (int)vv_backend_get(backend, "a/big", 1, back, 2 * MIB),
                     vv_backend_list(backend, "a", NULL, 0, take_none, &names),
                     vv_backend_remove(backend, "a/big"),
                     vv_backend_remove(backend, "a/small"),
                     vv_backend_remove(backend, "a/beat")};
    vv_backend_close(backend);
    for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++)
        if (results[i] == -ENOMEM)
            return -ENOMEM;
    for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++)
        assert_true(results[i] >= 0);
    return 0;
}
#endif

static void test_failing_allocations(void **state) {
#ifdef VARVE_FAULTS
    struct fixture *fixture = *state;
    char uris[2][700];
    uint8_t *data = calloc(3, MIB), *back = malloc(3 * MIB);
    snprintf(uris[0], sizeof(uris[0]), "%s?retry=1&count=1&fault=none&limit=100GB", fixture->root);
    snprintf(uris[1], sizeof(uris[1]), "mem://?retry=1&count=1&fault=none&limit=100GB");
    for (int i = 0; i < 2; i++) {
        int failures = 0;
        for (uint64_t k = 1; k < 1000; k++) {
            vv_alloc_fail_at(k);
            int result = use_everything(uris[i], data, back);
            uint64_t count = vv_alloc_count();
            vv_alloc_fail_at(0);
            if (count < k)
                break;
            failures += result == -ENOMEM;
        }
        assert_true(failures >= 10);
    }
    assert_int_equal(count_names(fixture->backend, ""), 0);
    free(data);
    free(back);
#else
    (void)state;
    skip();
#endif
}

static void test_relative_root_survives_chdir(void **state) {
    struct fixture *fixture = *state;
    char here[4096];
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir("/"), 0);
    uint64_t size;
    int result = vv_backend_stat(fixture->backend, "k", &size);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(result, -ENOENT);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_removed_root_is_an_error),
        CASE(test_moved_root_is_no_empty_store),
        CASE(test_unreadable_root_is_an_error),
        CASE(test_open_says_what_is_wrong),
        CASE(test_private_group_umask),
        CASE(test_strangers_are_no_objects),
        CASE(test_nothing_is_left),
        CASE(test_leftovers_are_swept),
        CASE(test_leftovers_in_tmp),
        CASE(test_leftovers_of_replace),
        CASE(test_long_names),
        CASE(test_probe_leaves_nothing),
        CASE(test_probe_of_a_lost_root),
        CASE(test_probe_without_rights),
        CASE(test_probes_at_once),
        CASE(test_upload_while_its_folder_goes),
        CASE(test_folder_that_may_not_change),
        CASE(test_removed_before_its_commit),
        CASE(test_changed_by_another_process),
        CASE(test_open_files_are_bounded),
        CASE(test_capacity_is_checked_first),
        CASE(test_full_disk),
        CASE(test_unmounted_root_is_an_error),
        CASE(test_death_at_the_link),
        CASE(test_relative_root_survives_chdir),
        CASE(test_failing_allocations),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL) != 0;
}
