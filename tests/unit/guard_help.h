/* A guard over some pages, with a callback that does as it is told, and threads that write. */
#ifndef GUARD_HELP_H
#define GUARD_HELP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/guard.h"
#include "test.h"

#define PAGE 4096ul

struct kind {
    const char *name;
    int (*open)(vv_guard_fn fn, void *arg, struct vv_guard **out, char *why, size_t capacity);
};

struct world {
    struct vv_guard *guard;
    uint8_t *memory;
    size_t pages;
    atomic_int verdict; /* what the callback says */
    atomic_int calls;
    _Atomic(uintptr_t) last_page;
};

static inline int do_as_told(void *arg, uintptr_t page) {
    struct world *world = arg;
    atomic_store(&world->last_page, page);
    atomic_fetch_add(&world->calls, 1);
    return atomic_load(&world->verdict);
}

static inline uint8_t *map_pages(size_t pages) {
    uint8_t *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

/* Every page present, its first byte 1. */
static inline void open_world(const struct kind *kind, struct world *world, size_t pages) {
    char why[200] = "";
    memset(world, 0, sizeof *world);
    int rc = kind->open(do_as_told, world, &world->guard, why, sizeof why);
    if (rc != 0) {
        print_message("skipped: %s\n", why);
        skip();
    }
    world->pages = pages;
    world->memory = map_pages(pages);
    for (size_t i = 0; i < pages; i++)
        world->memory[i * PAGE] = 1;
    assert_int_equal(world->guard->ops->attach(world->guard, (uintptr_t)world->memory, pages * PAGE), 0);
}

static inline void close_world(struct world *world) {
    world->guard->ops->close(world->guard);
    munmap(world->memory, world->pages * PAGE);
}

static inline int arm(struct world *world, size_t first, size_t count) {
    return world->guard->ops->arm(world->guard, (uintptr_t)world->memory + first * PAGE, count * PAGE);
}

static inline int disarm(struct world *world, size_t first, size_t count) {
    return world->guard->ops->disarm(world->guard, (uintptr_t)world->memory + first * PAGE, count * PAGE);
}

/* A thread that does something and says when it is done. */
struct writer {
    pthread_t thread;
    void (*fn)(void *arg);
    void *arg;
    atomic_int is_done;
};

static inline void *run_writer(void *arg) {
    struct writer *writer = arg;
    writer->fn(writer->arg);
    atomic_store(&writer->is_done, 1);
    return NULL;
}

static inline void start_writer(struct writer *writer, void (*fn)(void *arg), void *arg) {
    *writer = (struct writer){.fn = fn, .arg = arg};
    assert_int_equal(pthread_create(&writer->thread, NULL, run_writer, writer), 0);
}

static inline void join_writer(struct writer *writer) {
    for (int i = 0; i < 10000 && !atomic_load(&writer->is_done); i++)
        usleep(1000);
    assert_true(atomic_load(&writer->is_done)); /* nobody hangs */
    pthread_join(writer->thread, NULL);
}

/* Whoever is stopped by a guard is in order with those who look meanwhile; only tools that watch for races cannot know
 * (and have locks of their own, which their atomic operations hold while the handler runs). */
#define UNWATCHED __attribute__((no_sanitize("thread"), noinline, unused))

UNWATCHED static void write_two(void *arg) {
    *(volatile uint8_t *)arg = 2;
}

UNWATCHED static void add_one(uint8_t *at) {
    ++*(volatile uint8_t *)at;
}

UNWATCHED static int look(const uint8_t *at) {
    return *(const volatile uint8_t *)at;
}

static inline void wait_for_calls(struct world *world, int calls) {
    for (int i = 0; i < 10000 && atomic_load(&world->calls) < calls; i++)
        usleep(1000);
    assert_true(atomic_load(&world->calls) >= calls);
}

/* TEST_PATIENCE: how many times slower than others this machine may be; an emulated one says 5. */
static inline unsigned patience(void) {
    const char *times = getenv("TEST_PATIENCE");
    return times && atoi(times) > 0 ? (unsigned)atoi(times) : 1;
}

/* Run in a child, which must end within seconds; its wait status. */
static inline int in_child(void (*fn)(void *arg), void *arg) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(30 * patience());
        fn(arg);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* In a child, where cmocka's asserts are of no use. */
#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                                         \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

#endif
