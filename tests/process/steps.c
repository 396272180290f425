/* steps FILE PROCESS NUMBER VICTIM PID... -- COMMAND...: runs a command and kills somebody at one of its steps.
 *
 * A step is a system call that others can see: one that writes, sends, receives, closes, starts or signals. PROCESS
 * says of whom: "tool", the command with all its threads, or "child", what it forks and does not exec. Before its step
 * NUMBER is done, VICTIM dies: "tool"; "child", those that the tool forked, without those that became programs;
 * "program", those that did; or "machine", all of these and every PID. Nothing is killed when NUMBER is 0. FILE gets
 * the number of steps: "tool N" and "child N", and "killed" when somebody was.
 *
 * Ends as the command ends, with 128 and the signal where it was killed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACEES_MOST 256
#define FILES_MOST 4096

enum kind { KIND_TOOL, KIND_CHILD, KIND_PROGRAM, KIND_GONE };

struct tracee {
    pid_t pid; /* or a thread's */
    enum kind kind;
    int is_opening;           /* a file that is only read */
    unsigned char *only_read; /* of each descriptor, of all threads of the process */
};

struct tracing {
    struct tracee list[TRACEES_MOST];
    size_t count;
    uint64_t steps[2], wanted;
    enum kind of, victim; /* KIND_GONE: the machine */
    int is_over;          /* somebody was killed */
    pid_t tool;
    char **pids;
    int pid_count;
};

static void die(const char *what) {
    fprintf(stderr, "steps: cannot %s: %s\n", what, strerror(errno));
    exit(99);
}

static struct tracee *find(struct tracing *tracing, pid_t pid) {
    for (size_t i = 0; i < tracing->count; i++)
        if (tracing->list[i].pid == pid)
            return &tracing->list[i];
    return NULL;
}

static struct tracee *add(struct tracing *tracing, pid_t pid, enum kind kind, unsigned char *only_read) {
    struct tracee *tracee = find(tracing, pid);
    if (!tracee) {
        if (tracing->count == TRACEES_MOST) {
            errno = ENOSPC;
            die("follow so many threads");
        }
        tracee = &tracing->list[tracing->count++];
    }
    *tracee = (struct tracee){.pid = pid, .kind = kind, .only_read = only_read};
    return tracee;
}

/* ---- what a step is ---- */

/* Calls whose effect is in the memory of the caller alone, or that only ask. */
static int is_private(uint64_t call) {
    static const uint64_t calls[] = {
        SYS_read,
        SYS_pread64,
        SYS_readv,
        SYS_preadv,
        SYS_lseek,
        SYS_fstat,
        SYS_newfstatat,
        SYS_statx,
        SYS_getdents64,
        SYS_mmap,
        SYS_munmap,
        SYS_mprotect,
        SYS_mremap,
        SYS_madvise,
        SYS_brk,
        SYS_futex,
        SYS_rt_sigaction,
        SYS_rt_sigprocmask,
        SYS_rt_sigreturn,
        SYS_sched_yield,
        SYS_nanosleep,
        SYS_clock_gettime,
        SYS_getpid,
        SYS_clock_nanosleep,
        SYS_gettid,
        SYS_getrandom,
        SYS_set_robust_list,
        SYS_rseq,
        SYS_prlimit64,
        SYS_set_tid_address,
        SYS_ppoll,
        SYS_readlinkat,
        SYS_faccessat,
        SYS_getuid,
        SYS_geteuid,
        SYS_getgid,
        SYS_getegid,
        SYS_uname,
        SYS_sysinfo,
        SYS_fcntl,
        SYS_prctl,
        SYS_sched_getaffinity,
        SYS_sigaltstack,
        SYS_restart_syscall,
#ifdef SYS_poll
        SYS_poll,
        SYS_stat,
        SYS_lstat,
        SYS_access,
        SYS_readlink,
        SYS_arch_prctl,
#endif
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == call)
            return 1;
    return 0;
}

static int is_step(struct tracee *tracee, const struct __ptrace_syscall_info *info) {
    uint64_t call = info->entry.nr, fd = info->entry.args[0];

    if (call == SYS_openat && !(info->entry.args[2] & (O_WRONLY | O_RDWR | O_CREAT))) {
        tracee->is_opening = 1;
        return 0;
    }
    if (call == SYS_close && fd < FILES_MOST && tracee->only_read[fd]) {
        tracee->only_read[fd] = 0;
        return 0;
    }
    return !is_private(call);
}

/* ---- somebody dies ---- */

static void kill_all(struct tracing *tracing) {
    int is_machine = tracing->victim == KIND_GONE;

    for (int i = 0; is_machine && i < tracing->pid_count; i++)
        kill((pid_t)atoi(tracing->pids[i]), SIGKILL);
    for (size_t i = 0; i < tracing->count; i++)
        if (tracing->list[i].kind != KIND_GONE && (is_machine || tracing->list[i].kind == tracing->victim))
            kill(tracing->list[i].pid, SIGKILL);
    tracing->is_over = 1;
}

static void take_call(struct tracing *tracing, struct tracee *tracee) {
    struct __ptrace_syscall_info info;

    if (ptrace(PTRACE_GET_SYSCALL_INFO, tracee->pid, sizeof info, &info) < 0)
        return; /* killed meanwhile */
    if (info.op == PTRACE_SYSCALL_INFO_EXIT && tracee->is_opening) {
        tracee->is_opening = 0;
        if (info.exit.rval >= 0 && info.exit.rval < FILES_MOST)
            tracee->only_read[info.exit.rval] = 1;
    }
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || tracee->kind > KIND_CHILD || !is_step(tracee, &info))
        return;
    if (++tracing->steps[tracee->kind] == tracing->wanted && tracee->kind == tracing->of)
        kill_all(tracing);
}

/* ---- following ---- */

/* A thread shares the files of its process; what was forked has its own. It may have stopped before we are told. */
static void take_new(struct tracing *tracing, const struct tracee *parent, int event) {
    unsigned long pid = 0;

    if (ptrace(PTRACE_GETEVENTMSG, parent->pid, 0, &pid) < 0)
        return;
    int is_thread = event == PTRACE_EVENT_CLONE;
    unsigned char *files = is_thread ? parent->only_read : calloc(1, FILES_MOST);
    if (!files)
        die("have memory");
    add(tracing, (pid_t)pid, is_thread ? parent->kind : KIND_CHILD, files);
}

/* A program that was started runs alone: its threads are not ours to count. */
static int take_stop(struct tracing *tracing, pid_t pid, int status) {
    struct tracee *tracee = find(tracing, pid);
    int event = status >> 16, number = WSTOPSIG(status);

    if (!tracee)
        return 0; /* its parent tells of it first; it waits */
    if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
        take_new(tracing, tracee, event);
    else if (event == PTRACE_EVENT_EXEC && pid != tracing->tool) {
        tracee->kind = KIND_PROGRAM;
        ptrace(PTRACE_DETACH, pid, 0, 0);
        return 0;
    } else if (number == (SIGTRAP | 0x80))
        take_call(tracing, tracee);
    int is_ours = event || number == (SIGTRAP | 0x80) || number == SIGSTOP || number == SIGTRAP;
    ptrace(PTRACE_SYSCALL, pid, 0, is_ours ? 0 : number);
    return 0;
}

/* Until the tool has ended; its exit code. Whoever is left after that goes on alone. */
static int follow(struct tracing *tracing) {
    pid_t early[TRACEES_MOST];
    size_t early_count = 0;
    int status;

    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            die("wait");
        struct tracee *tracee = find(tracing, pid);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (tracee)
                tracee->kind = KIND_GONE;
            if (pid == tracing->tool)
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        if (!tracee) {
            early[early_count++] = pid;
            continue;
        }
        take_stop(tracing, pid, status);
        for (size_t i = 0; i < early_count; i++)
            if (find(tracing, early[i])) {
                ptrace(PTRACE_SYSCALL, early[i], 0, 0);
                early[i--] = early[--early_count];
            }
    }
}

static pid_t start(char **command) {
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(command[0], command);
        _exit(127);
    }
    int status;
    long options =
        PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || ptrace(PTRACE_SETOPTIONS, pid, 0, options) < 0 ||
        ptrace(PTRACE_SYSCALL, pid, 0, 0) < 0)
        die("trace the command");
    return pid;
}

static enum kind kind_of(const char *word) {
    static const char *const words[] = {"tool", "child", "program", "machine"};
    for (int i = 0; i < 4; i++)
        if (strcmp(word, words[i]) == 0)
            return (enum kind)i;
    errno = EINVAL;
    die(word);
    return KIND_GONE;
}

int main(int argc, char **argv) {
    int dashes = 5;
    while (dashes < argc && strcmp(argv[dashes], "--") != 0)
        dashes++;
    if (dashes + 1 >= argc) {
        fprintf(stderr, "usage: steps FILE PROCESS NUMBER VICTIM PID... -- COMMAND...\n");
        return 99;
    }
    static struct tracing tracing;
    tracing.of = kind_of(argv[2]);
    tracing.wanted = strtoull(argv[3], NULL, 10);
    tracing.victim = kind_of(argv[4]);
    tracing.pids = argv + 5;
    tracing.pid_count = dashes - 5;
    tracing.tool = start(argv + dashes + 1);
    add(&tracing, tracing.tool, KIND_TOOL, calloc(1, FILES_MOST));
    int code = follow(&tracing);
    FILE *file = fopen(argv[1], "w");
    if (!file || fprintf(file, "tool %llu\nchild %llu\n%s", (unsigned long long)tracing.steps[0],
                         (unsigned long long)tracing.steps[1], tracing.is_over ? "killed\n" : "") < 0)
        die("write the count");
    fclose(file);
    return code;
}
