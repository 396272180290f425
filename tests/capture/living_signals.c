/* Its signals, its threads, its children. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "living.h"

#define SIZE (4 * MIB + 100)
#define ALT_STACK (64 * 1024)

/* ---- a program that uses SIGSEGV and SIGBUS itself ---- */

/* Of each thread that provokes signals. */
struct own_faults {
    uint8_t *locked; /* made accessible by the handler of SIGSEGV */
    uint8_t *past;   /* a mapping of a file that is too short; the handler of SIGBUS makes it longer */
    int file;
    uint8_t *stack;
    unsigned segv, bus;
};
static _Thread_local struct own_faults own;

static void die(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(3);
    _exit(1);
}

static void check_stack(void) {
    volatile uint8_t here = 0;
    if (own.stack && (&here < own.stack || &here >= own.stack + ALT_STACK))
        die("FAILED: the handler does not run on the program's alternate stack\n");
}

static void on_segv(int number, siginfo_t *info, void *context) {
    (void)context;
    check_stack();
    if (number != SIGSEGV || (uint8_t *)info->si_addr != own.locked + 5)
        die("FAILED: the program's SIGSEGV handler was called for something that is not its own\n");
    own.segv++;
    mprotect(own.locked, PAGE, PROT_READ | PROT_WRITE);
}

static void on_bus(int number, siginfo_t *info, void *context) {
    (void)context;
    check_stack();
    if (number != SIGBUS || (uint8_t *)info->si_addr != own.past + 7)
        die("FAILED: the program's SIGBUS handler was called for something that is not its own\n");
    own.bus++;
    if (ftruncate(own.file, (off_t)PAGE) != 0)
        die("FAILED: ftruncate\n");
}

static void install(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = on_segv;
    sigaction(SIGSEGV, &action, NULL);
    action.sa_sigaction = on_bus;
    sigaction(SIGBUS, &action, NULL);
}

static void prepare_faults(void) {
    own.locked = new_memory(PAGE);
    own.file = memfd_create("short", MFD_CLOEXEC);
    own.past = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, own.file, 0);
    own.stack = malloc(ALT_STACK);
    stack_t stack = {.ss_sp = own.stack, .ss_size = ALT_STACK};
    if (own.file < 0 || own.past == MAP_FAILED || !own.stack || sigaltstack(&stack, NULL) != 0)
        fail("no memory for signals");
}

static void provoke(unsigned times) {
    for (unsigned i = 1; i <= times; i++) {
        mprotect(own.locked, PAGE, PROT_NONE);
        *(volatile uint8_t *)(own.locked + 5) = 1;
        if (ftruncate(own.file, 0) != 0)
            fail("ftruncate");
        *(volatile uint8_t *)(own.past + 7) = 1;
        if (own.segv != i || own.bus != i)
            fail("%u and %u signals came instead of %u", own.segv, own.bus, i);
        usleep(500);
    }
}

static void *provoke_in_thread(void *arg) {
    prepare_faults();
    provoke(*(unsigned *)arg);
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    return NULL;
}

static void must_be_installed(const char *when) {
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    if (now.sa_sigaction != on_segv || !(now.sa_flags & SA_ONSTACK))
        fail("the program's SIGSEGV handler is not installed %s", when);
    sigaction(SIGBUS, NULL, &now);
    if (now.sa_sigaction != on_bus)
        fail("the program's SIGBUS handler is not installed %s", when);
}

static void use_handlers(int is_before) {
    struct flight flight;
    pthread_t thread;
    unsigned times = 40;
    prepare_faults();
    if (is_before)
        install();
    flight_open(&flight);
    flight_protect(&flight, "data", new_memory(SIZE), SIZE, 1);
    if (!is_before)
        install();
    flight_launch(&flight);
    flight_must_be_up(&flight);
    struct scribblers *scribblers = flight_scribble(&flight, NULL);
    pthread_create(&thread, NULL, provoke_in_thread, &times);
    provoke(times);
    pthread_join(thread, NULL);
    scribblers_stop(scribblers);
    flight_land(&flight);
    own.segv = own.bus = 0;
    provoke(3); /* nothing in flight */
    flight_close(&flight);
    if (!mode.is_mprotect) /* there the library's own stays, for threads that are on their way into it */
        must_be_installed("after the session");
    own.segv = own.bus = 0;
    provoke(3);
}

static void handlers_before_open(void) {
    use_handlers(1);
}

static void handlers_after_open(void) {
    use_handlers(0);
}

/* A program that does not know of a handler dies of its own mistakes, as it would without us. */
static void crash(int is_ignored) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct flight flight;
        alarm(20);
        if (is_ignored)
            signal(SIGSEGV, SIG_IGN); /* the kernel kills all the same */
        flight_open(&flight);
        flight_protect(&flight, "data", new_memory(SIZE), SIZE, 1);
        flight_launch(&flight);
        struct scribblers *scribblers = flight_scribble(&flight, NULL);
        usleep(3000);
        uint8_t *locked = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        kit_folder_remove(flight.folder);
        *(volatile uint8_t *)locked = 1;
        scribblers_stop(scribblers);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV)
        fail("a program that writes where it may not ends with %s %d instead of SIGSEGV",
             WIFSIGNALED(status) ? "signal" : "exit code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void crashes(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip("a sanitizer has a handler of its own");
#endif
    crash(0);
    crash(1);
}

/* ---- threads ---- */

static void *write_once(void *arg) {
    scribble_once(arg, 3, (uint64_t)(uintptr_t)&arg);
    return NULL;
}

static void threads_come_and_go(void) {
    struct flight flight;
    struct scribble_target target = {new_memory(SIZE), SIZE};
    flight_open(&flight);
    flight_protect(&flight, "data", target.ptr, target.size, 1);
    flight_launch(&flight);
    flight_must_be_up(&flight);
    for (int i = 0; i < 16; i++) {
        pthread_t threads[4];
        for (int j = 0; j < 4; j++)
            pthread_create(&threads[j], NULL, write_once, &target);
        for (int j = 0; j < 4; j++)
            pthread_join(threads[j], NULL);
    }
    flight_land(&flight);
    flight_close(&flight);
}

static void *write_with_signals_blocked(void *arg) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    scribble_once(arg, 1, 7);
    return NULL;
}

static void signals_blocked(void) {
    struct flight flight;
    pthread_t thread;
    struct scribble_target target = {new_memory(SIZE), SIZE};
    if (mode.is_mprotect)
        skip("the kernel kills who blocks SIGSEGV and gets one; regions held by mprotect cannot be written so");
    flight_open(&flight);
    flight_protect(&flight, "data", target.ptr, target.size, 1);
    flight_launch(&flight);
    pthread_create(&thread, NULL, write_with_signals_blocked, &target);
    pthread_join(thread, NULL);
    flight_land(&flight);
    flight_close(&flight);
}

/* ---- children ---- */

static int forked_writer(struct scribble_target *target) {
    pid_t pid = fork();
    if (pid == 0) {
        for (uint64_t i = 0; i < 3; i++)
            scribble_once(target, 1, i);
        _exit(0);
    }
    return pid;
}

static void forks(void) {
    struct flight flight;
    struct scribble_target target = {new_memory(SIZE), SIZE};
    flight_open(&flight);
    flight_protect(&flight, "data", target.ptr, target.size, 1);
    flight_launch(&flight);
    flight_must_be_up(&flight);
    int first = forked_writer(&target);
    struct scribblers *scribblers = flight_scribble(&flight, NULL);
    int second = forked_writer(&target);
    child_must_end_well(first, "a child that writes what is held");
    child_must_end_well(second, "a child that writes what is held, of a parent that does the same");
    scribblers_stop(scribblers);
    flight_land(&flight);
    /* One that lives through a whole checkpoint of its parent. */
    int pipe_ends[2];
    char byte = 0;
    if (pipe(pipe_ends) != 0)
        fail("pipe");
    pid_t third = fork();
    if (third == 0) {
        if (read(pipe_ends[0], &byte, 1) != 1)
            _exit(2);
        scribble_once(&target, 1, 3);
        _exit(0);
    }
    scribble_once(&target, 1, 4);
    flight_again(&flight);
    scribble_once(&target, 1, 5);
    if (write(pipe_ends[1], &byte, 1) != 1)
        fail("write");
    child_must_end_well(third, "a child from before the checkpoint");
    flight_arrive(&flight);
    flight_close(&flight);
}

static volatile sig_atomic_t children_told;

static void count_child(int number) {
    (void)number;
    children_told++;
}

/* A program that waits for any child meets its own and no other. */
static void waits(void) {
    struct flight flight;
    struct scribble_target target = {new_memory(SIZE), SIZE};
    signal(SIGCHLD, count_child);
    flight_open(&flight);
    flight_protect(&flight, "data", target.ptr, target.size, 1);
    flight_launch(&flight);
    flight_must_be_up(&flight);
    struct scribblers *scribblers = flight_scribble(&flight, NULL);
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        fail("the program has a child it did not make");
    int child = forked_writer(&target);
    if (waitpid(-1, NULL, 0) != child || waitpid(-1, NULL, 0) != -1 || errno != ECHILD)
        fail("the program's own child is not the only one");
    scribblers_stop(scribblers);
    flight_land(&flight);
    flight_close(&flight);
    if (children_told != 1)
        fail("%d times the program was told that a child has ended", (int)children_told);
    if (waitpid(-1, NULL, WNOHANG | __WALL) != -1)
        fail("a child of the library's is left behind");
}

/* The copy that keeps what is frozen; 0 if there is none. */
static int find_copy(void) {
    char path[300], text[512];
    int found = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && !found && (entry = readdir(all)) != NULL;) {
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (!file)
            continue;
        const char *at = fgets(text, sizeof text, file) ? strstr(text, "(varve-frozen) ") : NULL;
        if (at && sscanf(at, "(varve-frozen) %*c %d", &parent) == 1 && parent == getpid())
            found = atoi(entry->d_name);
        fclose(file);
    }
    if (all)
        closedir(all);
    return found;
}

/* Somebody ends it, a system short of memory perhaps: that checkpoint fails, and the next has everything. */
static void killed_copy(void) {
    struct flight flight;
    struct scribble_target target = {new_memory(SIZE), SIZE};
    if (!strstr(mode.settings, "capture=frozen"))
        skip("there is no copy to lose");
    flight_open(&flight);
    flight_protect(&flight, "data", target.ptr, target.size, 1);
    flight_launch(&flight);
    int copy = find_copy();
    if (copy <= 0 || kill(copy, SIGKILL) != 0)
        fail("no copy of the process was found");
    scribble_once(&target, 1, 7);
    int rc = varve_wait(flight.session);
    const char *text = varve_session_error(flight.session)->text;
    if (rc != -ECHILD || !strstr(text, "data") || !strstr(text, "signal 9"))
        fail("with its copy killed the checkpoint gives %d: %s", rc, text);
    if (is_stored(flight.store, flight.version))
        fail("a checkpoint that lost its copy is stored");
    flight_again(&flight);
    flight_arrive(&flight);
    flight_close(&flight);
}

static void spawns(void) {
    extern char **environ;
    struct flight flight;
    struct scribble_target target = {new_memory(SIZE), SIZE};
    char *arguments[] = {"true", NULL};
    pid_t pid;
    flight_open(&flight);
    flight_protect(&flight, "data", target.ptr, target.size, 1);
    flight_launch(&flight);
    struct scribblers *scribblers = flight_scribble(&flight, NULL);
    for (int i = 0; i < 3; i++) {
        if (posix_spawnp(&pid, "true", NULL, NULL, arguments, environ) != 0)
            fail("posix_spawn: %s", strerror(errno));
        child_must_end_well(pid, "a spawned program");
    }
    if (system("exit 0") != 0)
        fail("system");
    scribblers_stop(scribblers);
    flight_land(&flight);
    flight_close(&flight);
}

const struct living_case signal_cases[] = {
    {"handlers-before-open", handlers_before_open},
    {"handlers-after-open", handlers_after_open},
    {"crashes", crashes},
    {"threads", threads_come_and_go},
    {"signals-blocked", signals_blocked},
    {"forks", forks},
    {"waits", waits},
    {"killed-copy", killed_copy},
    {"spawns", spawns},
    {NULL, NULL},
};
