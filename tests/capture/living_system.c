/* A program that somebody traces: a debugger, or strace. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "living.h"

#define SIZE (4 * MIB + 100)
#define SIGNALS 50

static volatile sig_atomic_t told;

static void count_signal(int number) {
    (void)number;
    told++;
}

static void traced_program(int begin) {
    struct flight flight;
    char byte;
    signal(SIGUSR1, count_signal);
    if (read(begin, &byte, 1) != 1)
        _exit(2);
    flight_open(&flight);
    flight_protect(&flight, "data", new_memory(SIZE), SIZE, 1);
    flight_launch(&flight);
    flight_must_be_up(&flight);
    struct scribblers *scribblers = flight_scribble(&flight, NULL);
    for (int i = 1; i <= SIGNALS; i++) {
        raise(SIGUSR1);
        if (told != i)
            fail("%d signals came instead of %d", (int)told, i);
        usleep(500);
    }
    scribblers_stop(scribblers);
    flight_land(&flight);
    flight_close(&flight);
    _exit(0);
}

/* The process that a thread belongs to; 0 if it is gone. */
static int process_of(int thread) {
    char path[64], line[128];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/status", thread);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "Tgid:", 5) == 0)
            found = atoi(line + 5);
    if (file)
        fclose(file);
    return found;
}

/* A signal is passed on. After each of ours the thread is stopped once more, as a debugger does that was called. */
static void let_go_on(pid_t thread, int status) {
    int event = status >> 16, number = WSTOPSIG(status);
    ptrace(PTRACE_CONT, thread, NULL, (void *)(long)(event ? 0 : number));
    if (!event && number == SIGUSR1)
        ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
}

static int trace(pid_t program) {
    int status;
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0)
            fail("waitpid: %s", strerror(errno));
        if (thread == program && !WIFSTOPPED(status))
            return status;
        if (!WIFSTOPPED(status))
            continue;
        int process = process_of(thread);
        if (process != 0 && process != program) {
            kill(program, SIGKILL);
            fail("the tracer is shown another process of the program");
        }
        let_go_on(thread, status);
    }
}

/* Its signals come through, checkpoints go on, and the tracer is shown the program's own threads and nobody else. */
static void traced(void) {
    int begin[2];
    if (pipe(begin) != 0)
        fail("pipe");
    pid_t pid = fork();
    if (pid == 0)
        traced_program(begin[0]);
    if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)(long)(PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL)) !=
        0) {
        int error = errno;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        skip("a child cannot be traced: %s", strerror(error));
    }
    if (write(begin[1], "", 1) != 1)
        fail("write");
    int status = trace(pid);
    if (status != 0)
        fail("traced it ends with %s %d", WIFSIGNALED(status) ? "signal" : "exit code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

const struct living_case system_cases[] = {
    {"traced", traced},
    {NULL, NULL},
};
