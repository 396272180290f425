#include "files/look.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files/hdf5.h"
#include "files/netcdf.h"

#define MEMORY_MOST (UINT64_C(384) << 20) /* address space of the child */
#define CPU_SECONDS 30
#define WALL_SECONDS 90
#define ANSWER_MOST (UINT64_C(64) << 20)

/* Memory checkers reserve more address space than any limit allows. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_WATCHED 1
#endif
#endif
#ifndef IS_WATCHED
#define IS_WATCHED 0
#endif

static const char *kind_name(enum files_kind kind) {
    static const char *const names[] = {[FILES_HDF5] = "HDF5",
                                        [FILES_NETCDF] = "netCDF",
                                        [FILES_TAR] = "tar",
                                        [FILES_DMTCP] = "DMTCP",
                                        [FILES_CRIU] = "criu"};
    return names[kind];
}

enum files_kind files_kind_of(int fd, uint64_t size) {
    uint8_t start[4];
    if (pread(fd, start, sizeof start, 0) == sizeof start && files_is_netcdf(start, sizeof start))
        return FILES_NETCDF;
    return files_hdf5_signature(fd, size) >= 0 ? FILES_HDF5 : FILES_PLAIN;
}

/* ---- the child ---- */

/* What the child came to, as its exit code. */
enum ending { ENDED_WELL, ENDED_DAMAGED, ENDED_TOO_MUCH, ENDED_NO_MEMORY, ENDED_OTHERWISE };

static void limit(int what, uint64_t most) {
    struct rlimit limits = {most, most};
    setrlimit(what, &limits);
}

static void be_careful(void) {
    int nothing = open("/dev/null", O_RDWR);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 0; fd < 3 && nothing >= 0; fd++)
        dup2(nothing, fd);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, CPU_SECONDS);
    limit(RLIMIT_FSIZE, 0);
    if (!IS_WATCHED)
        limit(RLIMIT_AS, MEMORY_MOST);
}

static int read_at(void *arg, uint64_t offset, void *buffer, size_t size) {
    return pread(*(int *)arg, buffer, size, (off_t)offset) == (ssize_t)size ? 0 : -EIO;
}

static enum ending ending_of(int rc) {
    switch (rc) {
    case 0:
        return ENDED_WELL;
    case -EBADMSG:
        return ENDED_DAMAGED;
    case -E2BIG:
        return ENDED_TOO_MUCH;
    case -ENOMEM:
        return ENDED_NO_MEMORY;
    default:
        return ENDED_OTHERWISE;
    }
}

struct looking {
    int fd;
    uint64_t size;
    enum files_kind kind;
};

static int look_inside(void *arg, int answer) {
    struct looking *looking = arg;
    struct files_found found = {.count = 0};
    int rc = looking->kind == FILES_HDF5 ? files_hdf5(looking->fd, &found)
                                         : files_netcdf(read_at, &looking->fd, looking->size, &found);
    return files_found_write(&found, answer) ? -EIO : rc;
}

/* ---- the parent ---- */

struct answer {
    char *data;
    size_t size, capacity;
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int reserve_answer(struct answer *answer) {
    if (answer->size < answer->capacity)
        return 0;
    size_t capacity = answer->capacity ? answer->capacity * 2 : 65536;
    char *grown = capacity <= ANSWER_MOST ? realloc(answer->data, capacity) : NULL;
    if (!grown)
        return -E2BIG;
    answer->data = grown;
    answer->capacity = capacity;
    return 0;
}

/* Until the child closes its end; -ETIMEDOUT when that takes too long. */
static int listen_to(int fd, int seconds, struct answer *answer) {
    int64_t deadline = now_ms() + (int64_t)seconds * 1000;
    for (;;) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - now_ms();
        if (left <= 0)
            return -ETIMEDOUT;
        if (poll(&poller, 1, (int)left) <= 0)
            continue;
        int rc = reserve_answer(answer);
        if (rc < 0)
            return rc;
        ssize_t got = read(fd, answer->data + answer->size, answer->capacity - answer->size);
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return -errno;
        answer->size += got > 0 ? (size_t)got : 0;
    }
}

static void note_ending(int listened, int status, enum files_kind kind, char note[FILES_NOTE_CAPACITY]) {
    static const char *const reasons[] = {
        [ENDED_DAMAGED] = "is damaged, or of a kind that is not known",
        [ENDED_TOO_MUCH] = "has too many pieces",
        [ENDED_NO_MEMORY] = "needs too much memory to look into",
        [ENDED_OTHERWISE] = "could not be looked into",
    };
    int code = WIFEXITED(status) && WEXITSTATUS(status) <= ENDED_OTHERWISE ? WEXITSTATUS(status) : ENDED_OTHERWISE;
    if (listened < 0) /* then it was us who ended it */
        code = listened == -E2BIG ? ENDED_TOO_MUCH : ENDED_OTHERWISE;
    note[0] = '\0';
    if (listened == -ETIMEDOUT || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
        snprintf(note, FILES_NOTE_CAPACITY, "takes too long to look into as %s", kind_name(kind));
    else if (listened == 0 && WIFSIGNALED(status))
        snprintf(note, FILES_NOTE_CAPACITY, "looking into it as %s crashed (signal %d)", kind_name(kind),
                 WTERMSIG(status));
    else if (code != ENDED_WELL)
        snprintf(note, FILES_NOTE_CAPACITY, "as %s file %s", kind_name(kind), reasons[code]);
}

/* What it told before it failed is as good as the rest: everything is checked. */
static void believe(struct answer *answer, uint64_t size, struct files_found *found, char note[FILES_NOTE_CAPACITY]) {
    if (files_found_read(found, answer->data, answer->size) < 0) {
        if (!note[0])
            snprintf(note, FILES_NOTE_CAPACITY, "looking into it gave nothing that makes sense");
        return;
    }
    size_t dropped = files_found_check(found, size);
    if (dropped && !note[0])
        snprintf(note, FILES_NOTE_CAPACITY, "the places of %zu variable%s make no sense", dropped,
                 dropped == 1 ? "" : "s");
}

int files_look_by(files_look_fn fn, void *arg, uint64_t size, enum files_kind kind, int seconds,
                  struct files_found *found, char note[FILES_NOTE_CAPACITY]) {
    struct answer answer = {.data = NULL};
    int ends[2], status = 0;
    note[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        be_careful();
        _exit(ending_of(fn(arg, ends[1])));
    }
    int rc = child < 0 ? -errno : 0;
    close(ends[1]);
    if (child > 0) {
        int listened = listen_to(ends[0], seconds, &answer);
        if (listened < 0)
            kill(child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        note_ending(listened, status, kind, note);
        believe(&answer, size, found, note);
    }
    close(ends[0]);
    free(answer.data);
    return rc;
}

int files_look(int fd, uint64_t size, enum files_kind kind, struct files_found *found, char note[FILES_NOTE_CAPACITY]) {
    struct looking looking = {.fd = fd, .size = size, .kind = kind};
    note[0] = '\0';
    if (kind == FILES_PLAIN)
        return 0;
    if (kind == FILES_HDF5 && !files_has_hdf5()) {
        snprintf(note, FILES_NOTE_CAPACITY, "this program was built without HDF5");
        return 0;
    }
    return files_look_by(look_inside, &looking, size, kind, WALL_SECONDS, found, note);
}
