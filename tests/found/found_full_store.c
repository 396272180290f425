/* A store whose file system has no free byte, or no free inode, could not be made smaller: forget could not write its
 * tombstone, so prune removed nothing, and a restart could not write its claim. Now forget, prune, restart and another
 * checkpoint work, in this order, and nothing that was reported is lost.
 *
 * found_full_store [--rounds N] [--seed S] [--kind tmpfs-inodes|tmpfs|ext4|ext4-root]: rounds at random fill, on all
 * kinds unless told. Without arguments one round of each. Needs root: everything is mounted in a namespace of our own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <varve/varve.h>
#include <varve/varve_inspect.h>

#define VERSIONS_MAX 400
#define SETTINGS "keep=0,codec=none,fine=1"

struct kind {
    const char *name;
    const char *make; /* a command; $D is the folder, $I an image */
    unsigned rounds;  /* until it is made anew: claims stay, and take inodes */
};
static const struct kind kinds[] = {
    {"tmpfs-inodes", "mount -t tmpfs -o nr_inodes=100,size=64m none \"$D\"", 2},
    {"tmpfs", "mount -t tmpfs -o size=24m none \"$D\"", 5},
    {"ext4", "truncate -s 24M \"$I\" && mkfs.ext4 -q -F -m 0 -N 512 \"$I\" && mount -o loop \"$I\" \"$D\"", 5},
    {"ext4-root", "truncate -s 24M \"$I\" && mkfs.ext4 -q -F -m 10 -N 512 \"$I\" && mount -o loop \"$I\" \"$D\"", 5},
};

static char folder[256], image[256], store[300];
static uint64_t state = 1;
static unsigned long round_number;
static const char *kind_name = "";
static pid_t parent;

static uint32_t chance(uint32_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static void clean_up(void) {
    umount2(folder, MNT_DETACH);
    rmdir(folder);
    unlink(image);
}

static void fail(const char *what, int rc, const char *text) {
    fprintf(stderr, "%s, round %lu: %s: %d %s\n", kind_name, round_number, what, rc, text ? text : "");
    if (getpid() == parent)
        clean_up();
    _exit(1);
}

static void require(int is_true, const char *what) {
    if (!is_true)
        fail(what, 0, NULL);
}

/* ---- what the program holds ---- */

struct job {
    uint8_t *data;
    size_t size;
    char settings[128];
};

/* Each version changes one half: it depends on the one before. */
static void compute(const struct job *job, int64_t version) {
    uint64_t x = (uint64_t)version * UINT64_C(0x9e3779b97f4a7c15) + 1;
    size_t half = job->size / 2, from = version % 2 ? half : 0;
    for (size_t i = from; i < from + half; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(job->data + i, &x, 8);
    }
}

static void check_state(struct job *job, int64_t version) {
    struct job want = *job;
    want.data = calloc(1, job->size);
    for (int64_t v = version > 2 ? version - 2 : 0; v <= version; v++)
        compute(&want, v);
    int is_same = memcmp(want.data, job->data, job->size) == 0;
    free(want.data);
    require(is_same, "other bytes came back");
}

static struct varve_session *open_job(struct job *job) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    options.settings = job->settings;
    int rc = varve_open(store, "job", &options, &session, &error);
    if (rc)
        fail("open", rc, error.text);
    if ((rc = varve_protect(session, "data", job->data, job->size)) != 0)
        fail("protect", rc, varve_session_error(session)->text);
    return session;
}

/* In a process of its own: checkpoints until nothing fits, each told by its number. */
static void fill_by_job(struct job *job, int out, int64_t first, int is_killed) {
    struct varve_session *session = open_job(job);
    int64_t restored;
    int rc = first > 0 ? varve_restart_regions(session, VARVE_LATEST, NULL, 0, VARVE_RESTART_RESIZE, &restored) : 0;
    if (rc)
        fail("restart of the job that fills", rc, varve_session_error(session)->text);
    for (int64_t version = first; version < first + VERSIONS_MAX; version++) {
        compute(job, version);
        rc = varve_checkpoint(session, version);
        rc = rc ? rc : varve_wait(session);
        if (rc == -ENOSPC) {
            const char *text = varve_session_error(session)->text;
            require(strstr(text, "are short in") && strstr(text, folder) && strstr(text, "varve prune"), text);
            break;
        }
        if (rc)
            fail("checkpoint", rc, varve_session_error(session)->text);
        require(write(out, &version, sizeof version) == sizeof version, "tell");
    }
    require(rc == -ENOSPC, "the job did not fill its file system");
    if (!is_killed)
        varve_close(session);
    _exit(0);
}

static int64_t run_job(struct job *job, int64_t first, int64_t versions[VERSIONS_MAX], int *count) {
    int ends[2], status, is_killed = (int)chance(2);
    require(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    if (child == 0)
        fill_by_job(job, ends[1], first, is_killed);
    close(ends[1]);
    *count = 0;
    while (*count < VERSIONS_MAX && read(ends[0], &versions[*count], sizeof *versions) == sizeof *versions)
        ++*count;
    close(ends[0]);
    require(waitpid(child, &status, 0) == child && status == 0, "the job that fills");
    require(*count >= 5, "the job stored less than five checkpoints");
    return versions[*count - 1];
}

/* ---- somebody else's files ---- */

static void fill_bytes(const char *path) {
    static char bytes[1 << 20];
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (size_t size = sizeof bytes; fd >= 0 && size > 0;)
        if (write(fd, bytes, size) <= 0 || (size == 1 && fsync(fd) < 0))
            size /= 4;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* Not one more file with a byte in it. */
static int is_full(void) {
    char path[320];
    snprintf(path, sizeof path, "%s/one-more", folder);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    int fits = fd >= 0 && write(fd, "x", 1) == 1 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    unlink(path);
    return !fits;
}

static void fill_by_others(int number) {
    char path[320];
    snprintf(path, sizeof path, "%s/foreign", folder);
    mkdir(path, 0700);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/foreign/bytes-%d", folder, number);
        fill_bytes(path);
    }
    for (int i = 0; i < 2000; i++) {
        snprintf(path, sizeof path, "%s/foreign/inode-%d-%d", folder, number, i);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    require(is_full(), "it is not full");
}

static void remove_foreign(void) {
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s/foreign'", folder);
    require(system(command) == 0, command);
}

/* ---- thinning out ---- */

static struct varve_store *open_tool(void) {
    struct varve_store *tool = NULL;
    struct varve_error error;
    int rc = varve_store_open(store, NULL, &tool, &error);
    if (rc)
        fail("open the store", rc, error.text);
    return tool;
}

static void forget(const int64_t *versions, int count) {
    struct varve_store *tool = open_tool();
    struct varve_error error;
    for (int i = 0; i < count; i++) {
        struct varve_which which = {.name = "job", .version = versions[i]};
        int rc = varve_store_forget(tool, &which, &error);
        if (rc)
            fail("forget", rc, error.text);
    }
    varve_store_close(tool);
}

static void prune(uint64_t least) {
    struct varve_store *tool = open_tool();
    struct varve_prune_result result = {0};
    struct varve_error error;
    int rc = varve_store_prune(tool, NULL, 0, NULL, NULL, &result, &error);
    if (rc)
        fail("prune", rc, error.text);
    require(result.objects >= least, "prune removed nothing");
    varve_store_close(tool);
}

static void verify(void) {
    struct varve_store *tool = open_tool();
    struct varve_verify_options options = {.size = sizeof options};
    struct varve_verify_result result = {0};
    struct varve_error error;
    int rc = varve_store_verify(tool, &options, &result, &error);
    if (rc)
        fail("verify", rc, error.text);
    require(result.damaged_objects == 0 && result.lost_checkpoints == 0, "something is damaged");
    varve_store_close(tool);
}

/* ---- a round ---- */

static void restart_at(struct job *job, struct varve_session *session, int64_t version, int64_t expected) {
    int64_t restored = -1;
    memset(job->data, 0xee, job->size);
    int rc = varve_restart(session, version, &restored);
    if (rc)
        fail("restart", rc, varve_session_error(session)->text);
    require(restored == expected, "another version came back");
    check_state(job, restored);
}

static int64_t run_round(struct job *job, int64_t first) {
    int64_t versions[VERSIONS_MAX];
    int count;
    int64_t last = run_job(job, first, versions, &count);
    fill_by_others(0);
    forget(versions, count - 2);
    if (chance(2))
        fill_by_others(1); /* what the tombstones left is gone, too */
    prune(1);
    snprintf(job->settings, sizeof job->settings, "%s,min_free=0", SETTINGS); /* others have all but what was pruned */
    struct varve_session *session = open_job(job);
    restart_at(job, session, VARVE_LATEST, last);
    compute(job, last + 1);
    int rc = varve_checkpoint(session, last + 1);
    rc = rc ? rc : varve_wait(session);
    if (rc)
        fail("checkpoint after the prune", rc, varve_session_error(session)->text);
    require(varve_close(session) == 0, "close");
    remove_foreign();
    session = open_job(job);
    restart_at(job, session, last - 1, last - 1);
    restart_at(job, session, VARVE_LATEST, last + 1);
    require(varve_close(session) == 0, "close");
    verify();
    forget(&(int64_t){last - 1}, 1); /* room for the next round */
    forget(&last, 1);
    prune(0);
    return last + 2;
}

static void mount_kind(const struct kind *kind) {
    char command[800];
    snprintf(command, sizeof command, "D='%s'; I='%s'; %s", folder, image, kind->make);
    if (system(command) != 0)
        fail("this file system cannot be made", 0, command);
}

static void run_kind(const struct kind *kind, unsigned long rounds) {
    int64_t next = 0, versions = 0;
    kind_name = kind->name;
    for (round_number = 0; round_number < rounds; round_number++) {
        if (round_number % kind->rounds == 0) {
            mount_kind(kind);
            next = 0;
        }
        struct job job = {.size = 4096u * (32 + 2 * chance(100))};
        job.data = calloc(1, job.size);
        snprintf(job.settings, sizeof job.settings, "%s,min_free=%s", SETTINGS, chance(2) ? "0" : "1M");
        versions -= next;
        next = run_round(&job, next);
        versions += next;
        free(job.data);
        if (round_number % kind->rounds == kind->rounds - 1 || round_number + 1 == rounds)
            require(umount2(folder, MNT_DETACH) == 0, "umount");
    }
    printf("%s: %lu points, %" PRId64 " versions\n", kind->name, rounds, versions);
}

static int is_kind(const char *name) {
    int is_found = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        is_found |= strcmp(name, kinds[i].name) == 0;
    return is_found;
}

/* Ends the program: what is mistyped must not pass without a round. */
static void refuse(const char *word) {
    fprintf(stderr, "found_full_store: %s is no option, no kind of file system, or has no value\n", word);
    exit(1);
}

int main(int argc, char **argv) {
    unsigned long rounds = 1;
    const char *only = NULL;
    for (int i = 1; i < argc; i += 2)
        if (i + 1 == argc)
            refuse(argv[i]);
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            state = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--kind") == 0)
            only = argv[i + 1];
        else
            refuse(argv[i]);
    if (only && !is_kind(only))
        refuse(only);
    if (rounds == 0)
        refuse("--rounds 0");
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        printf("only root can mount file systems here\n");
        return 77;
    }
    char *here = realpath(".", NULL);
    snprintf(folder, sizeof folder, "%.180s/full-store-%d", here, (int)getpid());
    snprintf(image, sizeof image, "%.180s/full-store-%d.image", here, (int)getpid());
    snprintf(store, sizeof store, "%s/ck", folder);
    free(here);
    parent = getpid();
    mkdir(folder, 0700);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!only || strcmp(only, kinds[i].name) == 0)
            run_kind(&kinds[i], rounds);
    clean_up();
    return 0;
}
