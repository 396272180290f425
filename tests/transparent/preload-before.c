/* Prints what a program sees of signals, system calls and its process; the same with and without `varve run`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((size_t)1 << 20)

extern char **environ;
static volatile sig_atomic_t caught, faults;
static volatile char *volatile page; /* a handler sees it */

static void on_signal(int number) {
    caught += number;
}

/* A program's own handler for faults still gets them. */
static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    faults += (char *)info->si_addr == page + 100;
    mprotect((void *)(uintptr_t)page, SIZE, PROT_READ | PROT_WRITE);
}

static void show_inherited(void) {
    struct sigaction action;
    struct rlimit limit;
    sigset_t mask;
    int fds = 0, ours = 0;
    for (int i = 1; i < 32; i++)
        if (sigaction(i, NULL, &action) == 0)
            printf("signal %d: %d, flags %x\n", i, action.sa_handler != SIG_DFL, (unsigned)action.sa_flags);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int i = 1; i < 64; i++)
        ours += sigismember(&mask, i) == 1;
    printf("blocked: %d\n", ours);
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        fds++;
    closedir(folder);
    printf("descriptors: %d\n", fds);
    for (int i = 0; i < RLIMIT_NLIMITS; i++)
        if (getrlimit((unsigned)i, &limit) == 0)
            printf("limit %d: %llx %llx\n", i, (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    printf("personality: %x\n", (unsigned)personality(0xffffffff));
    printf("LD_PRELOAD: %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none");
    for (char **entry = environ; *entry; entry++)
        if (strncmp(*entry, "VARVE_PRELOAD_", strlen("VARVE_PRELOAD_")) == 0)
            printf("%s\n", *entry);
    printf("timer: %d\n", getitimer(ITIMER_REAL, &(struct itimerval){0}));
}

/* A read is interrupted, or goes on, as the handler says. */
static void show_interrupts(int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    struct itimerval soon = {.it_value = {0, 20000}};
    int ends[2];
    char byte = 0;
    sigaction(SIGALRM, &action, NULL);
    if (pipe(ends) != 0)
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        usleep(200000);
        _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
    }
    setitimer(ITIMER_REAL, &soon, NULL);
    errno = 0;
    ssize_t got = read(ends[0], &byte, 1);
    printf("flags %x: read %zd errno %d caught %d\n", (unsigned)flags, got, got < 0 ? errno : 0, (int)caught);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

/* The kernel writes into, moves and unmaps large blocks, and errno is left alone. */
static void show_calls(void) {
    char *block = malloc(SIZE), *aligned = NULL;
    int zero = open("/dev/zero", O_RDONLY);
    if (!block || zero < 0)
        exit(2);
    memset(block, 1, SIZE);
    printf("read: %zd", read(zero, block, SIZE));
    printf(" %d\n", block[SIZE - 1]);
    errno = 77;
    block = realloc(block, 3 * SIZE);
    free(malloc(SIZE));
    free(block);
    printf("errno: %d\n", errno);
    errno = 0;
    volatile size_t huge = SIZE_MAX / 2;
    block = malloc(huge);
    printf("too much: %d errno %d\n", block != NULL, errno);
    free(block);
    printf("aligned: %d", posix_memalign((void **)&aligned, 1 << 16, SIZE));
    printf(" %d %d\n", (int)((uintptr_t)aligned % (1 << 16)), malloc_usable_size(aligned) >= SIZE);
    free(aligned);
    printf("odd alignment: %d\n", posix_memalign((void **)&aligned, 3, SIZE));
    void *none = malloc(0);
    printf("nothing: %d\n", none != NULL);
    free(none);
    close(zero);
}

static void show_faults(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    page = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[100] = 1;
    printf("faults: %d\n", (int)faults);
}

int main(void) {
    show_inherited();
    show_interrupts(0);
    show_interrupts(SA_RESTART);
    show_calls();
    show_faults();
    return 0;
}
