/* All kinds of memory a program may have, and a program without privileges. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "details.h"
#include "living.h"
#include "uring.h"

#define SIZE (4 * MIB)
#define HUGE (2 * MIB)

static void fly(struct flight *flight) {
    flight_launch(flight);
    struct scribblers *scribblers = flight_scribble(flight, NULL);
    usleep(10000);
    flight_arrive(flight);
    scribblers_stop(scribblers);
    flight_again(flight);
    scribblers = flight_scribble(flight, NULL);
    flight_arrive(flight);
    scribblers_stop(scribblers);
}

static void one_region(void *ptr, size_t size) {
    struct flight flight;
    flight_open(&flight);
    flight_protect(&flight, "data", ptr, size, 1);
    fly(&flight);
    flight_close(&flight);
}

/* ---- huge pages ---- */

/* Number in a line of /proc/self/smaps, in KiB, of the mapping at this address. */
static size_t smaps_kib(const void *at, const char *word) {
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    size_t kib = 0;
    int is_inside = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            is_inside = (unsigned long)(uintptr_t)at >= from && (unsigned long)(uintptr_t)at < to;
        else if (is_inside && strncmp(line, word, strlen(word)) == 0)
            kib += strtoul(line + strlen(word), NULL, 10);
    }
    if (file)
        fclose(file);
    return kib;
}

static void transparent_huge(void) {
    uint8_t *map = mmap(NULL, SIZE + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *at = (uint8_t *)(((uintptr_t)map + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    if (map == MAP_FAILED || madvise(at, SIZE, MADV_HUGEPAGE) != 0)
        skip("no transparent huge pages: %s", strerror(errno));
    fill(at, SIZE, 5);
    if (smaps_kib(at, "AnonHugePages:") == 0)
        skip("the kernel gave no transparent huge pages");
    one_region(at, SIZE);
    madvise(at, SIZE, MADV_HUGEPAGE);
    one_region(at + 16, SIZE - 100);
}

#define HUGE_COUNT "/proc/sys/vm/nr_hugepages"

static long huge_pages(long set) {
    char text[32] = "";
    int fd = open(HUGE_COUNT, (set >= 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    int length = set >= 0 ? snprintf(text, sizeof text, "%ld", set) : (int)sizeof text - 1;
    ssize_t done = fd < 0 ? -1 : set >= 0 ? write(fd, text, (size_t)length) : read(fd, text, (size_t)length);
    if (fd >= 0)
        close(fd);
    return done < 0 ? -1 : atol(text);
}

/* The mapping must be gone before the number of huge pages goes back: a child does the work. */
static void explicit_huge(void) {
    long before = huge_pages(-1);
    int status = 0;
    if (before < 0 || huge_pages(before + (long)(SIZE / HUGE) + 4) < 0)
        skip("huge pages cannot be reserved here");
    pid_t pid = fork();
    if (pid == 0) {
        alarm(40);
        uint8_t *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        if (at == MAP_FAILED)
            skip("no huge pages: %s", strerror(errno));
        fill(at, SIZE, 6);
        one_region(at, SIZE);
        one_region(at + 16, SIZE - 100);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    huge_pages(before);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip("no huge pages");
    if (status != 0)
        fail("with explicit huge pages the program ends with %s %d", WIFSIGNALED(status) ? "signal" : "exit code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* ---- memory that does not come from mmap ---- */

static uint8_t initialised[MIB + 77] = {1, 2, 3};
static uint8_t zeroed[MIB + 77];

static void globals(void) {
    struct flight flight;
    static int64_t step = 7;
    fill(initialised, sizeof initialised, 8);
    fill(zeroed, sizeof zeroed, 9);
    flight_open(&flight);
    flight_protect(&flight, "initialised", initialised, sizeof initialised, 1);
    flight_protect(&flight, "zeroed", zeroed, sizeof zeroed, 1);
    flight_protect(&flight, "step", &step, sizeof step, 1);
    fly(&flight);
    flight_close(&flight);
}

static void *use_stack(void *unused) {
    (void)unused;
    uint8_t here[2 * MIB + 33];
    fill(here, sizeof here, 10);
    one_region(here, sizeof here);
    return NULL;
}

static void stacks(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 * MIB);
    if (pthread_create(&thread, &attributes, use_stack, NULL) != 0)
        fail("no thread");
    pthread_join(thread, NULL);
    use_stack(NULL);
}

static void heap(void) {
    struct flight flight;
    flight_open(&flight);
    for (int i = 0; i < 6; i++) { /* small ones share pages with the C library's own data */
        char name[16];
        size_t size = (size_t)100 << (2 * i);
        uint8_t *at = malloc(size);
        if (!at)
            fail("no memory");
        fill(at, size, (uint64_t)i);
        snprintf(name, sizeof name, "heap%d", i);
        flight_protect(&flight, name, at, size, 1);
    }
    flight_launch(&flight);
    struct scribblers *scribblers = flight_scribble(&flight, NULL);
    void *blocks[200];
    for (size_t i = 0; i < 200; i++) /* the allocator writes its own data in the same pages */
        blocks[i] = malloc(100 + i * 37);
    for (size_t i = 0; i < 200; i++)
        free(blocks[i]);
    flight_arrive(&flight);
    scribblers_stop(scribblers);
    flight_again(&flight);
    flight_arrive(&flight);
    flight_close(&flight);
}

/* As "r--p" in /proc/self/maps. */
static void permissions(const void *at, char *out) {
    FILE *file = fopen("/proc/self/maps", "re");
    char line[512];
    strcpy(out, "?");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx %4s", &from, &to, out) == 3 && (unsigned long)(uintptr_t)at >= from &&
            (unsigned long)(uintptr_t)at < to)
            break;
    }
    if (file)
        fclose(file);
}

static void read_only(void) {
    struct flight flight;
    uint8_t *table = new_memory(SIZE), *data = new_memory(SIZE);
    char now[8];
    mprotect(table, SIZE, PROT_READ);
    flight_open(&flight);
    flight_protect(&flight, "table", table, SIZE, 1);
    flight.regions[0].is_constant = 1;
    flight_protect(&flight, "data", data, SIZE, 1);
    fly(&flight);
    permissions(table + MIB, now);
    if (strcmp(now, "r--p") != 0)
        fail("read-only memory has become %s", now);
    permissions(data + MIB, now);
    if (strcmp(now, "rw-p") != 0)
        fail("memory has become %s", now);
    flight_close(&flight);
    permissions(data + MIB, now);
    if (strcmp(now, "rw-p") != 0)
        fail("after the session memory is %s", now);
}

static void file_mapping(int how) {
    struct flight flight;
    flight_open(&flight);
    char path[256];
    snprintf(path, sizeof path, "%s/mapped", flight.folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, SIZE) != 0)
        fail("no file");
    uint8_t *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, how, fd, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    fill(at, SIZE / 2, 11);
    flight_protect(&flight, "mapped", at, SIZE, 1);
    fly(&flight);
    flight_close(&flight);
}

static void private_file(void) {
    file_mapping(MAP_PRIVATE);
}

static void shared_file(void) {
    file_mapping(MAP_SHARED);
}

/* ---- memory that others write ---- */

/* Tells the child to write, and waits until it has. */
static void ask(const int *to, const int *from) {
    char byte = 0;
    if (write(to[1], &byte, 1) != 1 || read(from[0], &byte, 1) != 1)
        fail("the other process is gone");
}

static void writing_child(uint8_t *memory, size_t size, const int *asked, const int *done) {
    struct scribble_target target = {memory, size};
    char byte;
    close(asked[1]);
    for (uint64_t i = 0; read(asked[0], &byte, 1) == 1; i++) {
        scribble_once(&target, i % 3 == 0 ? 1 : 30, i);
        if (write(done[1], &byte, 1) != 1)
            _exit(2);
    }
    _exit(0);
}

static void shared_memory(void) {
    struct flight flight;
    int asked[2], done[2];
    uint8_t *shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pipe(asked) != 0 || pipe(done) != 0)
        fail("no shared memory");
    fill(shared, SIZE, 12);
    pid_t pid = fork();
    if (pid == 0)
        writing_child(shared, SIZE, asked, done);
    flight_open(&flight);
    flight_protect(&flight, "shared", shared, SIZE, 1);
    flight_protect(&flight, "own", new_memory(MIB), MIB, 1);
    for (int i = 0; i < 8; i++) {
        if (i)
            ask(asked, done);
        flight_again(&flight);
        if (i % 2)
            ask(asked, done); /* the other process knows nothing of a checkpoint in flight */
        flight_arrive(&flight);
    }
    flight_close(&flight);
    close(asked[1]);
    child_must_end_well(pid, "the other process");
}

/* The same memory at another address. */
static void shared_twice(void) {
    struct flight flight;
    int fd = memfd_create("twice", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, SIZE) != 0)
        fail("memfd");
    uint8_t *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct scribble_target other = {mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), SIZE};
    flight_open(&flight);
    flight_protect(&flight, "shared", at, SIZE, 1);
    for (uint64_t i = 0; i < 6; i++) {
        scribble_once(&other, i % 2 ? 30 : 1, i);
        flight_again(&flight);
        scribble_once(&other, 3, i);
        flight_arrive(&flight);
    }
    flight_close(&flight);
}

/* Reads into a buffer that is pinned: nobody can see or stop these writes, and the program says so. */
static void device(void) {
    struct flight flight;
    struct uring uring;
    uint8_t *at = new_memory(SIZE), *source = new_memory(SIZE);
    char path[256];
    if (uring_open(&uring) != 0 || uring_register(&uring, at, SIZE) != 0)
        skip("no pinned buffers here: %s", strerror(errno));
    flight_open(&flight);
    snprintf(path, sizeof path, "%s/source", flight.folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    flight_protect_flags(&flight, "device", at, SIZE, VARVE_DEVICE_WRITES);
    for (uint64_t i = 0; i < 6; i++) {
        size_t size = i % 2 ? PAGE * 3 : SIZE, place = i % 2 ? i * 100 * PAGE : 0;
        fill(source, size, i);
        if (pwrite(fd, source, size, 0) != (ssize_t)size ||
            uring_read(&uring, fd, at + place, size, 0, 0) != (ssize_t)size)
            fail("a read into a pinned buffer: %s", strerror(errno));
        flight_again(&flight);
        fill(source, SIZE, 50 + i);
        if (pwrite(fd, source, SIZE, 0) != (ssize_t)SIZE || uring_read(&uring, fd, at, SIZE, 0, 0) != (ssize_t)SIZE)
            fail("a read into a pinned buffer while a checkpoint is in flight: %s", strerror(errno));
        flight_arrive(&flight);
        struct vv_details stats;
        kit_stats(flight.session, &stats);
        if (stats.bytes_held || stats.bytes_frozen)
            fail("%llu bytes of a region that devices write were held or frozen",
                 (unsigned long long)(stats.bytes_held + stats.bytes_frozen));
    }
    uring_close(&uring);
    flight_close(&flight);
}

/* ---- nobody ---- */

#define NOBODY 65534

static void as_nobody(const char *folder) {
    struct flight flight;
    struct vv_details stats;
    struct varve_error error = {0};
    struct varve_session *session = NULL;
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        fail("setuid: %s", strerror(errno));
    prctl(PR_SET_DUMPABLE, 1); /* as a program is that was started by its user */
    setenv("TMPDIR", folder, 1);
    setenv("HOME", folder, 1);
    if (strstr(mode.settings, "trap-uffd")) {
        char store[320];
        snprintf(store, sizeof store, "file://%s/store", folder);
        int rc = kit_try_open(store, mode.settings, &session, &error);
        if (rc != -ENOTSUP || !error.text[0])
            fail("a tracker that cannot work here gives %d: %s", rc, error.text);
        return;
    }
    flight_open(&flight);
    flight_protect(&flight, "data", new_memory(SIZE), SIZE, 0);
    fly(&flight);
    kit_stats(flight.session, &stats);
    if (stats.bytes_held)
        fail("%llu bytes were held although that is not transparent here", (unsigned long long)stats.bytes_held);
    if (!strstr(mode.settings, "sync") && !stats.capture_reason[0])
        fail("the statistics do not say why nothing is held");
    printf("        %s\n", stats.capture_reason);
    fflush(stdout);
    flight_close(&flight);
}

static void unprivileged(void) {
    char folder[128];
    if (getuid() != 0)
        skip("only root can become nobody");
    kit_folder(folder, sizeof folder, "nobody");
    if (chown(folder, NOBODY, NOBODY) != 0)
        fail("chown");
    pid_t pid = fork();
    if (pid == 0) {
        alarm(40);
        as_nobody(folder);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    kit_folder_remove(folder);
    if (status != 0)
        fail("as nobody it ends with %s %d", WIFSIGNALED(status) ? "signal" : "exit code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

const struct living_case kinds_cases[] = {
    {"transparent-huge-pages", transparent_huge},
    {"explicit-huge-pages", explicit_huge},
    {"globals", globals},
    {"stacks", stacks},
    {"heap", heap},
    {"read-only", read_only},
    {"private-file", private_file},
    {"shared-file", shared_file},
    {"shared-memory", shared_memory},
    {"shared-twice", shared_twice},
    {"device-writes", device},
    {"unprivileged", unprivileged},
    {NULL, NULL},
};
