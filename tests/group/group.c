#include "group.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "group_private.h"

#define SECONDS 120 /* far more than any test needs, sanitizers included */

void *group_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return memory;
}

void group_memory_free(void *memory, size_t size) {
    munmap(memory, size);
}

void group_fail(const struct varve_comm *comm, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "rank %u: %s\n", comm->rank, text); /* at once, so that ranks do not mix their lines */
    _exit(1);
}

static void sleep_ms(unsigned ms) {
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* ---- the ranks ---- */

int __lsan_do_recoverable_leak_check(void) __attribute__((weak)); /* only in builds with a sanitizer that has it */

struct launch {
    struct mailboxes *boxes;
    group_fn fn;
    void *arg;
    uint32_t ranks;
    unsigned seconds;
    pid_t parent;
};

static void run_rank(const struct launch *launch, uint32_t rank) __attribute__((noreturn));
static void run_rank(const struct launch *launch, uint32_t rank) {
    static const int ends[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM, SIGTERM};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launch->parent)
        _exit(1);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) /* a handler of the test's would go on with the test */
        signal(ends[i], SIG_DFL);
    alarm(launch->seconds);
    struct varve_comm *comm = mailboxes_comm(launch->boxes, rank, launch->ranks);
    launch->fn(comm, launch->arg);
    comm->ops->close(comm);
    mailboxes_leave(launch->boxes, rank);
    fflush(stdout);
    fflush(stderr);
    _exit(__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check() ? 1 : 0);
}

/* All ranks are in a process group of their own, so that we wait for them and for nobody else. */
static void start(const struct launch *launch, pid_t *pids) {
    fflush(stdout);
    fflush(stderr);
    for (uint32_t rank = 0; rank < launch->ranks; rank++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            exit(2); /* the others go with us */
        }
        if (pid == 0) {
            setpgid(0, rank == 0 ? 0 : pids[0]);
            run_rank(launch, rank);
        }
        setpgid(pid, rank == 0 ? pid : pids[0]);
        pids[rank] = pid;
    }
}

/* ---- the parent ---- */

static uint32_t wait_for_one(const pid_t *pids, uint32_t ranks, int *status) {
    pid_t pid;
    while ((pid = waitpid(-pids[0], status, 0)) < 0)
        if (errno != EINTR) {
            perror("waitpid");
            exit(2);
        }
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (pids[rank] == pid)
            return rank;
    fprintf(stderr, "a process ended that is not of the group\n");
    exit(2);
}

static void kill_others(struct launch *launch, const pid_t *pids, const int *is_over,
                        const struct group_options *options) {
    if (options && options->is_noticed)
        mailboxes_break(launch->boxes);
    if (options && options->grace_ms)
        sleep_ms(options->grace_ms);
    for (uint32_t rank = 0; rank < launch->ranks; rank++)
        if (!is_over[rank])
            kill(pids[rank], SIGKILL);
}

int group_run(uint32_t ranks, group_fn fn, void *arg, const struct group_options *options, struct group_end *end) {
    struct group_end unused;
    struct launch launch = {mailboxes_create(ranks, options), fn, arg, ranks, SECONDS, getpid()};
    pid_t pids[GROUP_RANKS_MAX];
    int is_over[GROUP_RANKS_MAX] = {0};
    if (!end)
        end = &unused;
    *end = (struct group_end){.ranks = ranks, .first = -1};
    if (options && options->seconds)
        launch.seconds = options->seconds;
    start(&launch, pids);
    for (uint32_t i = 0; i < ranks; i++) {
        int status;
        uint32_t rank = wait_for_one(pids, ranks, &status);
        end->status[rank] = status;
        is_over[rank] = 1;
        if (status == 0 || end->first >= 0)
            continue;
        end->first = (int)rank;
        kill_others(&launch, pids, is_over, options);
    }
    mailboxes_destroy(launch.boxes);
    return end->first >= 0 ? -1 : 0;
}

static void describe_one(const struct group_end *end, uint32_t rank, char *text, size_t capacity) {
    size_t used = strlen(text);
    int status = end->status[rank];
    snprintf(text + used, capacity - used, "%srank %u %s %d", used ? ", " : "", rank,
             WIFSIGNALED(status) ? "was killed by signal" : "ended with",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

void group_describe(const struct group_end *end, char *text, size_t capacity) {
    text[0] = '\0';
    if (end->first >= 0)
        describe_one(end, (uint32_t)end->first, text, capacity);
    for (uint32_t rank = 0; rank < end->ranks; rank++)
        if (end->status[rank] != 0 && (int)rank != end->first)
            describe_one(end, rank, text, capacity);
}
