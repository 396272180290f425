/* Power cuts: what varve_wait promised must be there when the file system comes back.
 *
 *     power-cut --fs ext4|xfs [--moments N] [--first N] [--seed S] [--ranks N] [FOLDER]
 *
 * A file system on a loop device. A child, or the ranks of a job (tests/group), save checkpoints as fast as they can
 * and tell through a pipe which of them varve_wait called durable. At some moment the file system is shut down in the
 * hardest way it has (its log is not flushed: everything that was not synced is gone, and all further calls fail), the
 * child is killed, and the file system is mounted again, which replays its log. Then: the store opens, verify finds no
 * damage, what was reported has its record, the newest reported checkpoint or a newer one is restored bit by bit, and
 * where nothing is forgotten (every other moment), every reported one; with ranks, the same one on all of them.
 *
 * Mounts live in a mount namespace of our own and loop devices are detached with them: whatever happens to this
 * process, nothing stays behind but the image file, which the next run removes. Needs root; exit code 77 when something
 * of this is not to be had. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "group.h"

#define SHUTDOWN _IOR('X', 125, uint32_t) /* FS_IOC_SHUTDOWN */
#define NO_LOG_FLUSH 2u
#define PAGE 4096u
#define PAGES 512u
#define REPORTS_MAX 4096u
#define SKIP 77

static const char *kind = "ext4";
static char folder[1000] = ".";
static char image[1100], mountpoint[1100], store[1200];
static uint64_t seed = 1;
static unsigned moments = 2, first_moment;
static uint32_t ranks = 1;
static uint64_t salt; /* the rank: each has other data */

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

__attribute__((noreturn)) static void die(const char *what, const char *why) {
    fprintf(stderr, "power-cut: %s: %s\n", what, why);
    exit(1);
}

/* ---- the program that is cut off ---- */

struct state {
    uint8_t field[PAGES * PAGE];
    uint64_t step;
};

static int is_written(size_t page, int64_t version) {
    return version == 0 || mix((uint64_t)page << 20 ^ (uint64_t)version) % 4 == 0;
}

static void write_page(struct state *state, size_t page, int64_t version) {
    uint64_t words[PAGE / 8];
    size_t first = 0, count = PAGE / 8;
    if (page % 3 == 1) { /* only a few words change, and those of the version before are again as they were at first */
        for (size_t i = 0; i < PAGE / 8; i++)
            words[i] = mix(salt << 56 ^ (uint64_t)page << 40 ^ i);
        first = (size_t)version * 37 % (PAGE / 8 - 4);
        count = 4;
    }
    for (size_t i = first; i < first + count; i++)
        words[i] = mix(salt << 56 ^ (uint64_t)page << 40 ^ (uint64_t)version << 12 ^ i);
    memcpy(state->field + page * PAGE, words, PAGE);
}

/* From version - 1 to version. */
static void advance(struct state *state, int64_t version) {
    for (size_t i = 0; i < PAGES; i++)
        if (is_written(i, version))
            write_page(state, i, version);
    state->step = (uint64_t)version;
}

static struct state *state_at(int64_t version) {
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        die("memory", strerror(errno));
    for (size_t i = 0; i < PAGES; i++) {
        int64_t last = version;
        while (!is_written(i, last))
            last--;
        write_page(state, i, last);
    }
    state->step = (uint64_t)version;
    return state;
}

static void protect(struct varve_session *session, struct state *state) {
    if (varve_protect(session, "field", state->field, sizeof state->field) ||
        varve_protect(session, "step", &state->step, sizeof state->step))
        die("protect", varve_session_error(session)->text);
}

/* comm is NULL in a program without ranks. */
static int open_session(struct varve_comm *comm, const char *settings, struct varve_session **session,
                        struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    options.settings = settings;
    salt = comm ? comm->rank : 0;
    return comm ? varve_open_comm(group_comm(comm), store, "power", &options, session, error)
                : varve_open(store, "power", &options, session, error);
}

struct job {
    int report; /* end of a pipe */
    int keep;
};

static void run_rank(struct varve_comm *comm, void *arg) {
    const struct job *job = arg;
    struct varve_session *session = NULL;
    struct varve_error error;
    struct state *state = calloc(1, sizeof *state);
    if (!state || open_session(comm, job->keep ? "keep=2,log=error" : "keep=all,log=error", &session, &error) != 0)
        _exit(1);
    protect(session, state);
    for (int64_t version = 0;; version++) {
        advance(state, version);
        if (varve_checkpoint(session, version) != 0 || varve_wait(session) != 0)
            break;
        if (write(job->report, &version, sizeof version) != sizeof version)
            break;
    }
    _exit(0); /* the file system is gone: no orderly end */
}

/* When this process is killed, its ranks die, too. */
static void run_child(int report, int keep) {
    struct job job = {report, keep};
    if (ranks == 1)
        run_rank(NULL, &job);
    group_run(ranks, run_rank, &job, NULL, NULL);
    _exit(0);
}

/* ---- the file system ---- */

/* Runs a command, its output thrown away unless it fails. */
static int run(const char *command) {
    char line[8192];
    snprintf(line, sizeof line, "(%s) >'%s/log' 2>&1", command, folder);
    return system(line) == 0 ? 0 : -1;
}

static int make_image(void) {
    char command[5000];
    /* mkfs.xfs wants 300 MB. */
    snprintf(command, sizeof command, "rm -f '%s' && truncate -s %s '%s' && mkfs.%s -q '%s'", image,
             strcmp(kind, "xfs") == 0 ? "320M" : "160M", image, kind, image);
    return run(command);
}

static int attach(void) {
    char command[5000];
    snprintf(command, sizeof command, "mount -o loop -t %s '%s' '%s'", kind, image, mountpoint);
    return run(command);
}

static void detach(void) {
    for (int i = 0; i < 100; i++) {
        if (umount2(mountpoint, 0) == 0)
            return;
        usleep(20000); /* a dying process may still hold it */
    }
    die("umount", strerror(errno));
}

static void cut(void) {
    uint32_t flags = NO_LOG_FLUSH;
    int fd = open(mountpoint, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, SHUTDOWN, &flags) != 0)
        die("shutdown", strerror(errno));
    close(fd);
}

/* Root, a namespace of our own, and a file system that can be shut down: or there is nothing to test. */
static const char *prepare(void) {
    if (geteuid() != 0)
        return "only root can mount";
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return "no mount namespace is to be had";
    mkdir(folder, 0700);
    mkdir(mountpoint, 0700);
    if (make_image() != 0)
        return "the file system cannot be made";
    if (attach() != 0)
        return "the file system cannot be mounted";
    cut();
    detach();
    return make_image() != 0 || attach() != 0 ? "the file system cannot be made again" : NULL;
}

/* ---- one moment ---- */

struct moment {
    unsigned number;
    int keep;
    uint64_t delay_us;
    int is_early; /* counted from the start of the child, not from its first checkpoint */
    int64_t reports[REPORTS_MAX];
    size_t count;
};

/* Until all who may report are dead. Each version once, although each rank reports it. */
static void take_reports(int pipe_end, struct moment *moment) {
    int64_t version;
    while (moment->count < REPORTS_MAX && read(pipe_end, &version, sizeof version) == sizeof version)
        if (moment->count == 0 || version > moment->reports[moment->count - 1])
            moment->reports[moment->count++] = version;
}

static void run_moment(struct moment *moment) {
    int pipes[2];
    if (pipe(pipes) != 0)
        die("pipe", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        die("fork", strerror(errno));
    if (pid == 0) {
        close(pipes[0]);
        run_child(pipes[1], moment->keep);
    }
    close(pipes[1]);
    int64_t first;
    if (!moment->is_early && read(pipes[0], &first, sizeof first) == sizeof first)
        moment->reports[moment->count++] = first;
    usleep((useconds_t)moment->delay_us);
    cut();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    take_reports(pipes[0], moment);
    close(pipes[0]);
    detach();
    if (attach() != 0)
        die("mount", "the file system does not come back");
}

/* ---- what must be there ---- */

struct findings {
    const struct moment *moment;
    int is_settled;
    unsigned bad;
};

/* The version in the key of a record, which is stored as its complement; -1 for another key. */
static int64_t version_of(const char *key) {
    const char *last = strrchr(key, '/');
    return last && strstr(key, "/record/") && strlen(last) == 25 ? (int64_t)~strtoull(last + 9, NULL, 16) : -1;
}

/* Before a session came by, the attempt that was cut off may lie there complete and without a record: it was not
 * reported, and the session adopts it. */
static void note_finding(void *arg, int level, const char *key, const char *text) {
    struct findings *findings = arg;
    const struct moment *moment = findings->moment;
    int64_t newest = moment->count ? moment->reports[moment->count - 1] : -1;
    if (level > 1 || (level == 1 && !findings->is_settled && version_of(key) > newest))
        return;
    fprintf(stderr, "power-cut: %s: %s\n", key, text);
    findings->bad++;
}

/* A reported one has its record before any session came by: that the next one would adopt it is not enough. */
static void check_records(struct varve_store *opened, const struct moment *moment) {
    struct varve_error error;
    for (size_t i = moment->keep && moment->count ? moment->count - 1 : 0; i < moment->count; i++) {
        struct varve_which which = {.name = "power", .version = moment->reports[i]};
        if (varve_store_resolve(opened, &which, &error) != 0)
            die("a reported checkpoint has no record", error.text);
    }
}

static void check_verify(const struct moment *moment, int is_settled) {
    struct varve_error error;
    struct varve_store *opened;
    struct findings findings = {.moment = moment, .is_settled = is_settled};
    struct varve_verify_options options = {.size = sizeof options, .finding = note_finding, .arg = &findings};
    struct varve_verify_result result;
    int rc = varve_store_open(store, NULL, &opened, &error);
    if (rc == VARVE_NO_STORE && moment->count == 0 && !is_settled)
        return;
    if (rc != 0)
        die("open the store", error.text);
    if (varve_store_verify(opened, &options, &result, &error) < 0)
        die("verify", error.text);
    if (findings.bad > 0 || result.damaged_objects > 0)
        die("verify", "there is damage");
    check_records(opened, moment);
    varve_store_close(opened);
}

static int64_t check_version(struct varve_session *session, struct state *state, int64_t wanted, int64_t at_least) {
    int64_t version = -1;
    memset(state, 0xEE, sizeof *state);
    int rc = varve_restart(session, wanted, &version);
    if (rc == VARVE_NO_CHECKPOINT && at_least < 0)
        return -1;
    if (rc != 0)
        die("restart", varve_session_error(session)->text);
    if (version < at_least)
        die("restart", "it is older than one that was reported");
    struct state *expected = state_at(version);
    if (memcmp(expected->field, state->field, sizeof state->field) != 0 || expected->step != state->step)
        die("restart", "the bytes are not those that were saved");
    free(expected);
    return version;
}

/* What came back, for each rank; shared with the ranks. */
static int64_t *came_back;

static void check_session(struct varve_comm *comm, void *arg) {
    const struct moment *moment = arg;
    struct varve_session *session = NULL;
    struct varve_error error;
    struct state *state = calloc(1, sizeof *state);
    if (!state || open_session(comm, "keep=all,log=error", &session, &error) != 0)
        die("open", error.text);
    protect(session, state);
    int64_t newest = moment->count ? moment->reports[moment->count - 1] : -1;
    for (size_t i = 0; i < moment->count && !moment->keep; i++)
        check_version(session, state, moment->reports[i], moment->reports[i]);
    came_back[salt] = check_version(session, state, VARVE_LATEST, newest);
    if (varve_checkpoint(session, 1000000) != 0 || varve_close(session) != 0)
        die("go on", "the next checkpoint fails");
    free(state);
}

static void check_sessions(struct moment *moment) {
    char text[512];
    struct group_end end;
    if (ranks == 1) {
        check_session(NULL, moment);
        return;
    }
    if (group_run(ranks, check_session, moment, NULL, &end) != 0) {
        group_describe(&end, text, sizeof text);
        die("the next job", text);
    }
    for (uint32_t rank = 1; rank < ranks; rank++)
        if (came_back[rank] != came_back[0])
            die("restart", "the ranks got different versions");
}

static void empty_store(void) {
    char command[5000];
    snprintf(command, sizeof command, "rm -rf '%s'", store);
    if (run(command) != 0)
        die("remove the store", strerror(errno));
    sync();
}

static size_t one_moment(unsigned number) {
    static struct moment moment;
    uint64_t random = mix(seed << 32 ^ number);
    moment = (struct moment){.number = number, .keep = number % 2, .is_early = random % 5 == 0};
    moment.delay_us = (random >> 8) % (moment.is_early ? 40000 : 250000);
    run_moment(&moment);
    check_verify(&moment, 0);
    check_sessions(&moment);
    check_verify(&moment, 1);
    empty_store();
    return moment.count;
}

static int parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--fs") == 0)
            kind = value, i++;
        else if (strcmp(argv[i], "--moments") == 0)
            moments = (unsigned)strtoul(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--first") == 0)
            first_moment = (unsigned)strtoul(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--ranks") == 0)
            ranks = (uint32_t)strtoul(value, NULL, 10), i++;
        else if (argv[i][0] != '-' && strlen(argv[i]) < sizeof folder - 100)
            strcpy(folder, argv[i]);
        else
            return -1;
    }
    if (ranks < 1 || ranks > GROUP_RANKS_MAX)
        return -1;
    return strcmp(kind, "ext4") == 0 || strcmp(kind, "xfs") == 0 ? 0 : -1;
}

int main(int argc, char **argv) {
    size_t reported = 0;
    if (parse(argc, argv) != 0) {
        fprintf(stderr, "usage: power-cut --fs ext4|xfs [--moments N] [--first N] [--seed S] [--ranks N] [FOLDER]\n");
        return 2;
    }
    snprintf(image, sizeof image, "%s/%s.image", folder, kind);
    snprintf(mountpoint, sizeof mountpoint, "%s/%s", folder, kind);
    snprintf(store, sizeof store, "%s/store", mountpoint);
    const char *missing = prepare();
    if (missing) {
        printf("skipped: %s\n", missing);
        return SKIP;
    }
    came_back = group_memory(GROUP_RANKS_MAX * sizeof *came_back);
    for (unsigned i = 0; i < moments; i++)
        reported += one_moment(first_moment + i);
    detach();
    unlink(image);
    rmdir(mountpoint);
    printf(
        "power-cut: %u points, the first is %u, %s, %u ranks, seed %llu, %zu checkpoints reported durable, all of them "
        "whole\n",
        moments, first_moment, kind, ranks, (unsigned long long)seed, reported);
    return 0;
}
