/* A frozen copy of the process: it has the bytes of its moment whatever becomes of the memory, and nobody notices
 * it. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "freezing.h"
#include "frozen/frozen.h"
#include "memory/inherited.h"
#include "memory/process.h"
#include "refuse.h"
#include "test.h"

#define PAGE ((size_t)4096)
#define MB ((size_t)1 << 20)
#define SIZE (8 * MB)
#define NOBODY 65534

static uint8_t *map(size_t size) {
    uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static uint8_t byte_of(size_t at, unsigned seed) {
    return (uint8_t)((at / 64 + seed) * 2654435761u >> 11);
}

static void fill(uint8_t *at, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        at[i] = byte_of(i, seed);
}

/* Reads it in pieces and looks at every byte. */
static int is_as_it_was(struct vv_frozen *frozen, const uint8_t *at, size_t size, unsigned seed) {
    for (size_t done = 0; done < size;) {
        size_t step = size - done < VV_FROZEN_BYTES ? size - done : VV_FROZEN_BYTES;
        struct vv_frozen_run run = {(uintptr_t)at + done, (uint32_t)step, 0};
        if (vv_frozen_read(frozen, &run, 1, VV_FROZEN_GIVE_BETWEEN) != 0)
            return 0;
        for (size_t i = 0; i < step; i++)
            if (vv_frozen_buffer(frozen)[i] != byte_of(done + i, seed))
                return 0;
        done += step;
    }
    return 1;
}

static struct vv_frozen *freeze(const uint8_t *at, size_t size) {
    struct vv_frozen *frozen = NULL;
    struct vv_frozen_range kept = {(uintptr_t)at, size};
    CHECK(vv_frozen_create(&frozen) == 0);
    CHECK(vv_frozen_begin(frozen, &kept, 1) == 0);
    return frozen;
}

/* ---- bytes ---- */

static void rewrite(uint8_t *at) {
    memset(at, 'x', SIZE);
}
static void drop(uint8_t *at) {
    CHECK(madvise(at, SIZE, MADV_DONTNEED) == 0);
}
static void unmap(uint8_t *at) {
    CHECK(munmap(at, SIZE) == 0);
}
static void move(uint8_t *at) {
    uint8_t *to = mremap(at, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
    CHECK(to != MAP_FAILED);
    memset(to, 'y', 2 * SIZE);
    CHECK(munmap(to, 2 * SIZE) == 0);
}
static void replace(uint8_t *at) {
    CHECK(mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
    memset(at, 'z', SIZE / 2);
}
static void close_off(uint8_t *at) {
    CHECK(mprotect(at, SIZE, PROT_NONE) == 0);
}

static void bytes_are_those_of_the_moment(void **state) {
    static void (*const ways[])(uint8_t *) = {rewrite, drop, unmap, move, replace, close_off};
    (void)state;
    if (!can_freeze())
        skip();
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        uint8_t *at = map(SIZE);
        fill(at, SIZE, i);
        struct vv_frozen *frozen = freeze(at, SIZE);
        ways[i](at);
        assert_true(is_as_it_was(frozen, at, SIZE, i));
        vv_frozen_destroy(frozen);
        munmap(at, SIZE);
    }
}

static void scattered_runs(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(SIZE);
    fill(at, SIZE, 3);
    struct vv_frozen *frozen = freeze(at, SIZE);
    memset(at, 0, SIZE);
    for (int gives_between = 0; gives_between < 2; gives_between++) {
        struct vv_frozen_run runs[VV_FROZEN_RUNS];
        size_t half = SIZE / 2 * (size_t)gives_between;
        for (uint32_t i = 0; i < VV_FROZEN_RUNS; i++)
            runs[i] = (struct vv_frozen_run){(uintptr_t)at + half + i * 4 * PAGE + i, 4000 + i % 97, i * 4096};
        assert_int_equal(
            vv_frozen_read(frozen, runs, VV_FROZEN_RUNS, gives_between ? VV_FROZEN_GIVE_BETWEEN : VV_FROZEN_GIVE), 0);
        for (uint32_t i = 0; i < VV_FROZEN_RUNS; i++)
            for (uint32_t k = 0; k < runs[i].length; k++)
                assert_int_equal(vv_frozen_buffer(frozen)[i * 4096 + k], byte_of(half + i * 4 * PAGE + i + k, 3));
    }
    vv_frozen_destroy(frozen);
    munmap(at, SIZE);
}

static void ranges_that_are_kept(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(SIZE);
    struct vv_frozen_range kept[VV_FROZEN_KEPT];
    struct vv_frozen *frozen = NULL;
    fill(at, SIZE, 8);
    for (size_t i = 0; i < VV_FROZEN_KEPT; i++)
        kept[i] = (struct vv_frozen_range){(uintptr_t)at + i * 4 * PAGE + 100, 5000};
    assert_int_equal(vv_frozen_create(&frozen), 0);
    assert_int_equal(vv_frozen_begin(frozen, kept, VV_FROZEN_KEPT), 0);
    assert_int_equal(vv_frozen_begin(frozen, kept, VV_FROZEN_KEPT), -EINVAL);
    memset(at, 1, SIZE);
    for (size_t i = 0; i < VV_FROZEN_KEPT; i++) {
        struct vv_frozen_run run = {kept[i].start, 5000, 16};
        assert_int_equal(vv_frozen_read(frozen, &run, 1, VV_FROZEN_GIVE), 0);
        for (size_t k = 0; k < 5000; k++)
            assert_int_equal(vv_frozen_buffer(frozen)[16 + k], byte_of(i * 4 * PAGE + 100 + k, 8));
    }
    vv_frozen_destroy(frozen);
    munmap(at, SIZE);
}

static atomic_int is_over;

static void *allocate_on(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    while (!atomic_load(&is_over)) {
        void *pieces[64];
        for (int i = 0; i < 64; i++) {
            pieces[i] = malloc(rand_r(&seed) % 200000u + 16);
            if (pieces[i])
                memset(pieces[i], i, 16);
        }
        for (int i = 0; i < 64; i++)
            free(pieces[i]);
    }
    return NULL;
}

static void beside_threads_that_allocate(void **state) {
    (void)state;
    pthread_t threads[4];
    if (!can_freeze())
        skip();
    atomic_store(&is_over, 0);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_on, (void *)(i + 1)), 0);
    uint8_t *at = map(MB);
    struct vv_frozen *frozen = NULL;
    struct vv_frozen_range kept = {(uintptr_t)at, MB};
    assert_int_equal(vv_frozen_create(&frozen), 0);
    for (unsigned i = 0; i < 40; i++) {
        fill(at, MB, i);
        assert_int_equal(vv_frozen_begin(frozen, &kept, 1), 0);
        memset(at, 'x', MB);
        assert_true(is_as_it_was(frozen, at, MB, i));
        vv_frozen_end(frozen);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    vv_frozen_destroy(frozen);
    munmap(at, MB);
}

/* It is not the child of the thread that made it. */
static void *freeze_and_end(void *arg) {
    return freeze(arg, MB);
}

static void the_thread_that_made_it_may_end(void **state) {
    (void)state;
    pthread_t thread;
    void *frozen = NULL;
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    fill(at, MB, 4);
    assert_int_equal(pthread_create(&thread, NULL, freeze_and_end, at), 0);
    pthread_join(thread, &frozen);
    memset(at, 0, MB);
    vv_sleep_ms(1200); /* longer than it takes the child to look for its parent */
    assert_true(is_as_it_was(frozen, at, MB, 4));
    vv_frozen_destroy(frozen);
    munmap(at, MB);
}

/* ---- nobody notices ---- */

static volatile sig_atomic_t signals_seen;
static void count_signal(int number) {
    (void)number;
    signals_seen++;
}

static void no_signal_and_nothing_to_wait_for(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    fill(at, MB, 1);
    void (*before)(int) = signal(SIGCHLD, count_signal);
    signals_seen = 0;
    for (int way = 0; way < 3; way++) {
        if (way == 2)
            signal(SIGCHLD, SIG_IGN);
        struct vv_frozen *frozen = freeze(at, MB);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
        if (way == 1)
            kill(vv_frozen_pid(frozen), SIGKILL);
        vv_sleep_ms(20);
        assert_int_equal(waitpid(-1, NULL, 0), -1);
        assert_int_equal(errno, ECHILD);
        vv_frozen_end(frozen);
        assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1); /* nothing is left behind */
        vv_frozen_destroy(frozen);
    }
    assert_int_equal(signals_seen, 0);
    signal(SIGCHLD, before);
    munmap(at, MB);
}

static void signals_do_not_reach_it(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    fill(at, MB, 2);
    void (*before)(int) = signal(SIGUSR1, count_signal);
    signals_seen = 0;
    struct vv_frozen *frozen = freeze(at, MB);
    kill(vv_frozen_pid(frozen), SIGUSR1);
    kill(vv_frozen_pid(frozen), SIGTERM);
    assert_true(is_as_it_was(frozen, at, MB, 2));
    assert_int_equal(signals_seen, 0);
    raise(SIGUSR1); /* nothing stays blocked here */
    assert_int_equal(signals_seen, 1);
    vv_frozen_destroy(frozen);
    signal(SIGUSR1, before);
    munmap(at, MB);
}

static void descriptors_are_not_kept(void **state) {
    (void)state;
    int ends[2];
    char byte;
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    assert_int_equal(pipe(ends), 0);
    int far = fcntl(ends[1], F_DUPFD, 900);
    assert_true(far >= 900);
    struct vv_frozen *frozen = freeze(at, MB);
    close(ends[1]);
    close(far);
    alarm(20);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    alarm(0);
    close(ends[0]);
    vv_frozen_destroy(frozen);
    munmap(at, MB);
}

static void descriptors_on_older_kernels(void) {
    refuse(436, 0, ENOSYS); /* close_range */
    int ends[2];
    char byte;
    uint8_t *at = map(MB);
    CHECK(pipe(ends) == 0);
    struct vv_frozen *frozen = freeze(at, MB);
    close(ends[1]);
    alarm(20);
    CHECK(read(ends[0], &byte, 1) == 0);
    vv_frozen_destroy(frozen);
}

/* ---- it ends ---- */

static int is_there(int pid) {
    return kill(pid, 0) == 0;
}

static int goes_within(int pid, unsigned milliseconds) {
    for (unsigned i = 0; i < milliseconds / 10 && is_there(pid); i++)
        vv_sleep_ms(10);
    return !is_there(pid);
}

static int is_zombie(int pid) {
    char path[48], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 1;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return got > 0 && strstr(text, ") Z ") != NULL;
}

/* A process that freezes itself, tells its copy's number and waits to be ended, or becomes another program. Is its copy
 * gone in time? With a child of its own that has all its descriptors. */
static void copy_ends_with(int is_exec, int has_child, unsigned milliseconds) {
    int ends[2], copy = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t parent = fork();
    if (parent == 0) {
        uint8_t *at = map(MB);
        struct vv_frozen *frozen = freeze(at, MB);
        if (has_child && fork() == 0) {
            vv_sleep_ms(8000);
            _exit(0);
        }
        copy = vv_frozen_pid(frozen);
        CHECK(write(ends[1], &copy, sizeof copy) == sizeof copy);
        if (is_exec)
            execlp("sleep", "sleep", "8", (char *)NULL);
        vv_sleep_ms(8000);
        _exit(0);
    }
    assert_int_equal(read(ends[0], &copy, sizeof copy), sizeof copy);
    assert_true(is_there(copy) || is_exec);
    if (!is_exec)
        kill(parent, SIGKILL);
    /* Its zombie, where nobody takes it (a parent that is another program now), counts as gone. */
    int is_gone = goes_within(copy, milliseconds);
    if (!is_gone)
        is_gone = is_zombie(copy);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    assert_true(is_gone);
}

static void it_ends_with_its_parent(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    copy_ends_with(0, 0, 2000);
    copy_ends_with(0, 1, 2000);
    copy_ends_with(1, 0, 2000);
}

static void a_killed_copy_is_an_error(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    fill(at, MB, 1);
    struct vv_frozen *frozen = freeze(at, MB);
    struct vv_frozen_run run = {(uintptr_t)at, (uint32_t)MB, 0};
    kill(vv_frozen_pid(frozen), SIGKILL);
    assert_int_equal(vv_frozen_read(frozen, &run, 1, VV_FROZEN_GIVE), -ECHILD);
    assert_non_null(strstr(vv_frozen_why_gone(frozen), "signal 9"));
    assert_false(vv_frozen_met_a_hole(frozen));
    assert_int_equal(vv_frozen_read(frozen, &run, 1, VV_FROZEN_GIVE), -ECHILD);
    vv_frozen_end(frozen);
    assert_int_equal(vv_frozen_read(frozen, &run, 1, VV_FROZEN_GIVE), -ECHILD);
    struct vv_frozen_range kept = {(uintptr_t)at, MB}; /* the next one does not hear of the old requests */
    assert_int_equal(vv_frozen_begin(frozen, &kept, 1), 0);
    assert_true(is_as_it_was(frozen, at, MB, 1));
    vv_frozen_destroy(frozen);
    munmap(at, MB);
}

/* Whoever waits for every kind of child takes ours, too. */
static void a_copy_that_others_waited_for(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    fill(at, MB, 1);
    struct vv_frozen *frozen = freeze(at, MB);
    struct vv_frozen_run run = {(uintptr_t)at, (uint32_t)MB, 0};
    int pid = vv_frozen_pid(frozen);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(-1, NULL, __WALL), pid);
    assert_int_equal(vv_frozen_read(frozen, &run, 1, VV_FROZEN_GIVE), -ECHILD);
    assert_non_null(strstr(vv_frozen_why_gone(frozen), "somebody else"));
    vv_frozen_destroy(frozen);
    munmap(at, MB);
}

/* As a whole group of processes is. */
static void a_stopped_copy_goes_on(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    fill(at, MB, 1);
    struct vv_frozen *frozen = freeze(at, MB);
    kill(vv_frozen_pid(frozen), SIGSTOP);
    alarm(20);
    assert_true(is_as_it_was(frozen, at, MB, 1));
    kill(vv_frozen_pid(frozen), SIGSTOP);
    assert_int_equal(vv_frozen_end(frozen), 0);
    alarm(0);
    vv_frozen_destroy(frozen);
    munmap(at, MB);
}

static void memory_that_is_not_there_is_an_error(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(2 * MB);
    fill(at, 2 * MB, 1);
    assert_int_equal(madvise(at + MB, MB, MADV_DONTFORK), 0);
    struct vv_frozen *frozen = freeze(at, 2 * MB);
    struct vv_frozen_run runs[] = {{(uintptr_t)at, 4096, 0}, {(uintptr_t)at + 2 * MB - 5000, 4096, 4096}};
    assert_int_equal(vv_frozen_read(frozen, runs, 2, VV_FROZEN_GIVE), -ECHILD);
    assert_int_equal(vv_frozen_fatal_run(frozen), 1);
    assert_true(vv_frozen_met_a_hole(frozen));
    vv_frozen_destroy(frozen);
    munmap(at, 2 * MB);
}

static void a_child_of_fork_leaves_it_alone(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    fill(at, MB, 6);
    struct vv_frozen *frozen = freeze(at, MB);
    struct vv_frozen_run run = {(uintptr_t)at, (uint32_t)MB, 0};
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        CHECK(vv_frozen_read(frozen, &run, 1, VV_FROZEN_GIVE) == -ECHILD);
        vv_frozen_destroy(frozen);
        _exit(0);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    memset(at, 0, MB);
    assert_true(is_as_it_was(frozen, at, MB, 6));
    vv_frozen_destroy(frozen);
    munmap(at, MB);
}

/* ---- what memory is in it ---- */

static int has(const void *at, size_t size) {
    struct vv_inherited inherited;
    assert_int_equal(vv_inherited_open(&inherited), 0);
    int answer = vv_inherited_has(&inherited, at, size);
    vv_inherited_close(&inherited);
    return answer;
}

static void memory_that_a_child_has(void **state) {
    (void)state;
    uint8_t *at = map(16 * PAGE);
    uint8_t *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int local = 0;
    assert_true(has(at, 16 * PAGE) && has(at + 100, 3 * PAGE) && has(&local, sizeof local));
    assert_false(has(shared, PAGE));
    assert_false(has((const void *)(uintptr_t)can_freeze, 16)); /* of a file */
    assert_false(has(NULL, 1) || has((void *)UINTPTR_MAX, 2));
    assert_int_equal(madvise(at + 4 * PAGE, PAGE, MADV_DONTFORK), 0);
    assert_int_equal(madvise(at + 8 * PAGE, PAGE, MADV_WIPEONFORK), 0);
    assert_int_equal(mprotect(at + 12 * PAGE, PAGE, PROT_NONE), 0);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(has(at + i * PAGE, PAGE), i != 4 && i != 8 && i != 12);
    assert_false(has(at, 16 * PAGE));
    assert_true(has(at + 5 * PAGE, 3 * PAGE));
    assert_int_equal(madvise(at, 16 * PAGE, MADV_DOFORK), 0);
    assert_true(has(at, 8 * PAGE));
    struct vv_inherited inherited; /* several questions, in one walk */
    assert_int_equal(vv_inherited_open(&inherited), 0);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(vv_inherited_has(&inherited, at + i * PAGE + 5, 100), i != 8 && i != 12);
    vv_inherited_close(&inherited);
    munmap(at, 16 * PAGE);
    munmap(shared, PAGE);
}

/* ---- memory, and who may ---- */

static int64_t number_in(const char *path) {
    char text[64] = "";
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    return strtoll(text, NULL, 10);
}

static void it_goes_before_the_program(void **state) {
    (void)state;
    char path[64];
    if (!can_freeze())
        skip();
    uint8_t *at = map(MB);
    int64_t own = number_in("/proc/self/oom_score_adj");
    struct vv_frozen *frozen = freeze(at, MB);
    assert_true(vv_frozen_memory(frozen) >= 0); /* it has come so far */
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", vv_frozen_pid(frozen));
    assert_int_equal(number_in(path), 1000);
    assert_int_equal(number_in("/proc/self/oom_score_adj"), own);
    vv_frozen_destroy(frozen);
    munmap(at, MB);
}

static void memory_that_is_left(void **state) {
    (void)state;
    int64_t left = vv_process_memory_left();
    print_message("%lld MiB are left\n", (long long)left >> 20);
    assert_true(left > 0 && left <= (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
}

static void check_urgent_caller(void) {
    struct sched_param first = {1};
    uint8_t *at = map(MB);
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0)
        return; /* a privilege */
    struct vv_frozen *frozen = freeze(at, MB);
    CHECK(vv_frozen_memory(frozen) >= 0);
    CHECK(sched_getscheduler(vv_frozen_pid(frozen)) == SCHED_OTHER && sched_getscheduler(0) == SCHED_FIFO);
    vv_frozen_destroy(frozen);
}

/* Everything is rewritten while it is frozen: the copy keeps as much, until it has been asked for it. What nobody
 * will ask for it lets go at once. */
static void memory_is_given_back(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    uint8_t *at = map(SIZE), *other = map(2 * SIZE);
    fill(at, SIZE, 1);
    fill(other, 2 * SIZE, 1);
    struct vv_frozen *frozen = freeze(at, SIZE);
    struct vv_frozen_run first = {(uintptr_t)at, 1, 0};
    assert_int_equal(vv_frozen_read(frozen, &first, 1, VV_FROZEN_GIVE), 0); /* it has let go of the rest */
    memset(at, 2, SIZE);
    memset(other, 2, 2 * SIZE);
    int64_t before = vv_frozen_memory(frozen);
    assert_true(is_as_it_was(frozen, at, SIZE, 1));
    assert_int_equal(vv_frozen_read(frozen, &first, 1, VV_FROZEN_GIVE), 0); /* the last has been given back by now */
    int64_t after = vv_frozen_memory(frozen);
    print_message("%lld KiB in the copy, %lld after it was read\n", (long long)before / 1024, (long long)after / 1024);
    assert_true(before >= (int64_t)SIZE && before < (int64_t)(SIZE + SIZE / 2));
    assert_true(after >= 0 && after < (int64_t)MB);
    vv_frozen_destroy(frozen);
    munmap(at, SIZE);
    munmap(other, 2 * SIZE);
}

static void check_as_nobody(void) {
    char why[160] = "";
    if (getuid() == 0)
        CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    if (vv_frozen_works(why, sizeof why) != 0)
        fprintf(stderr, "%s\n", why);
    CHECK(vv_frozen_works(why, sizeof why) == 0);
    uint8_t *at = map(MB);
    fill(at, MB, 9);
    struct vv_frozen *frozen = freeze(at, MB);
    memset(at, 0, MB);
    CHECK(vv_frozen_memory(frozen) >= (int64_t)MB); /* told by itself: after setuid nobody else may look */
    CHECK(is_as_it_was(frozen, at, MB, 9));
    vv_frozen_destroy(frozen);
}

static void check_refused(void) {
    char why[160] = "";
    refuse(SYS_clone, 0, EPERM);
    CHECK(vv_frozen_works(why, sizeof why) == -EPERM);
    CHECK(strstr(why, "Operation not permitted"));
}

/* A box that kills who gives memory back: nobody may find out only when a copy is relied on. */
static void check_killed(void) {
    uint8_t *at = map(PAGE);
    struct vv_frozen_range kept = {(uintptr_t)at, PAGE};
    struct vv_frozen *frozen = NULL;
    CHECK(vv_frozen_create(&frozen) == 0);
    filter_call(SYS_madvise, (unsigned)PAGE, SECCOMP_RET_KILL);
    CHECK(vv_frozen_begin(frozen, &kept, 1) == -ECHILD);
    CHECK(strstr(vv_frozen_why_gone(frozen), "killed by signal"));
    vv_frozen_destroy(frozen);
}

/* Who has become another user may not kill what was made before. */
static void check_another_user(void) {
    uint8_t *at = map(MB);
    fill(at, MB, 9);
    struct vv_frozen *frozen = freeze(at, MB);
    if (getuid() == 0)
        CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    alarm(20);
    CHECK(is_as_it_was(frozen, at, MB, 9));
    CHECK(vv_frozen_end(frozen) == 0);
    CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1);
    vv_frozen_destroy(frozen);
}

static int *left_behind; /* shared with children */

/* One that can neither be told nor killed is left behind, and the next one hears nothing of it. */
static void check_left_behind(void) {
    uint8_t *at = map(MB);
    struct vv_frozen_range kept = {(uintptr_t)at, MB};
    fill(at, MB, 9);
    struct vv_frozen *frozen = freeze(at, MB);
    *left_behind = vv_frozen_pid(frozen);
    CHECK(is_as_it_was(frozen, at, MB, 9));
    CHECK(kill(*left_behind, SIGSTOP) == 0);
    refuse(SYS_kill, 0, EPERM);
    refuse(424, 0, EPERM); /* pidfd_send_signal */
    alarm(20);
    CHECK(vv_frozen_end(frozen) == -ETIMEDOUT);
    CHECK(vv_frozen_pid(frozen) == 0 && vv_frozen_end(frozen) == 0);
    fill(at, MB, 8);
    CHECK(vv_frozen_begin(frozen, &kept, 1) == 0);
    memset(at, 0, MB);
    CHECK(is_as_it_was(frozen, at, MB, 8));
    vv_frozen_destroy(frozen);
}

static void copies_that_cannot_be_killed(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    assert_true(in_child(check_another_user));
    left_behind = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(left_behind != MAP_FAILED);
    int is_well = in_child(check_left_behind);
    if (*left_behind)
        kill(*left_behind, SIGKILL);
    munmap(left_behind, PAGE);
    assert_true(is_well);
}

/* Short of memory at first, which is nothing to remember. */
static void check_refused_for_a_while(void) {
    char why[160] = "";
    struct rlimit limit, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(vv_frozen_works(why, sizeof why) == -EMFILE && why[0]);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(vv_frozen_works(why, sizeof why) == 0 && !why[0]);
}

/* After the answer is known: the first child would be the first process of the other namespace. */
static void check_another_namespace(void) {
    char why[160] = "";
    uint8_t *at = map(MB);
    struct vv_frozen_range kept = {(uintptr_t)at, MB};
    struct vv_frozen *frozen = NULL;
    CHECK(vv_frozen_works(why, sizeof why) == 0);
    if (unshare(CLONE_NEWPID) != 0)
        return; /* a privilege */
    CHECK(vv_frozen_create(&frozen) == 0);
    CHECK(vv_frozen_begin(frozen, &kept, 1) == -ENOTSUP);
    CHECK(strstr(vv_frozen_why_gone(frozen), "namespace"));
    vv_frozen_destroy(frozen);
}

static void in_other_processes(void **state) {
    (void)state;
    assert_true(in_child(check_refused)); /* before the answer is known here */
    assert_true(in_child(check_as_nobody));
    assert_true(in_child(check_refused_for_a_while));
    if (!can_freeze())
        skip();
    assert_true(in_child(check_killed));
    assert_true(in_child(descriptors_on_older_kernels));
    assert_true(in_child(check_urgent_caller));
    assert_true(in_child(check_another_namespace));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_other_processes),
        cmocka_unit_test(copies_that_cannot_be_killed),
        cmocka_unit_test(bytes_are_those_of_the_moment),
        cmocka_unit_test(scattered_runs),
        cmocka_unit_test(ranges_that_are_kept),
        cmocka_unit_test(beside_threads_that_allocate),
        cmocka_unit_test(the_thread_that_made_it_may_end),
        cmocka_unit_test(no_signal_and_nothing_to_wait_for),
        cmocka_unit_test(signals_do_not_reach_it),
        cmocka_unit_test(descriptors_are_not_kept),
        cmocka_unit_test(it_ends_with_its_parent),
        cmocka_unit_test(a_killed_copy_is_an_error),
        cmocka_unit_test(a_copy_that_others_waited_for),
        cmocka_unit_test(a_stopped_copy_goes_on),
        cmocka_unit_test(memory_that_is_not_there_is_an_error),
        cmocka_unit_test(a_child_of_fork_leaves_it_alone),
        cmocka_unit_test(memory_that_a_child_has),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(it_goes_before_the_program),
        cmocka_unit_test(memory_that_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
