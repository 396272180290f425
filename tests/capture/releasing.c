/* After varve_release the program's memory is its own although a checkpoint of it is in flight: it frees, unmaps,
 * moves, replaces, drops and overwrites it, also by system calls and through other mappings, and every checkpoint has
 * the bytes at the call.
 *
 *     releasing --settings "capture=held,..." [--must-hold] [--flags no-kernel] [--rounds 12] [CASE...]
 *
 * Case `untold` leaves varve_release out: where memory is held, a checkpoint must then fail, or the other cases would
 * prove nothing; and no second one may fail for the same region. Two regions go. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "details.h"
#include "flight.h"

#define SIZE (3 * MIB)
#define SHARED_SIZE (256 * PAGE)

enum { UNMAP, MOVE, REPLACE, DROP, CLOSE, SHARE, WAYS };

static unsigned failed; /* checkpoints of the case `untold` */

/* One of many ways to lose it; what is left is filled with something else. 1: there is memory at the same place. */
static int vanish(uint8_t *at, int way) {
    int kind = way == SHARE ? MAP_SHARED : MAP_PRIVATE;
    uint8_t *there = at;
    if (way == UNMAP)
        munmap(at, SIZE);
    else if (way == MOVE)
        there = mremap(at, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
    else if (way == REPLACE || way == SHARE)
        there = mmap(at, SIZE, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    else if (way == DROP)
        madvise(at, SIZE, MADV_DONTNEED);
    else
        mprotect(at, SIZE, PROT_NONE);
    if (there == MAP_FAILED)
        fail("way %d: %s", way, strerror(errno));
    if (way != UNMAP && way != CLOSE)
        fill(there, SIZE, 1234);
    return way == REPLACE || way == SHARE || way == DROP;
}

/* A write that mprotect would refuse. */
static void overwrite_by_kernel(uint8_t *at, size_t size) {
    int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, at, size) != (ssize_t)size)
        fail("the kernel could not write memory that was released: %s", strerror(errno));
    close(file);
}

/* ---- what is protected ---- */

struct scene {
    uint8_t *mapped, *heap, *shared, *other; /* the last two are the same memory */
};

static void make_shared(struct scene *scene) {
    int file = memfd_create("releasing", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)SHARED_SIZE) != 0)
        fail("no file in memory: %s", strerror(errno));
    scene->shared = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    scene->other = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (scene->shared == MAP_FAILED || scene->other == MAP_FAILED)
        fail("no memory");
}

static void scene_make(struct scene *scene, int round) {
    scene->mapped = new_memory(SIZE);
    scene->heap = malloc(SIZE + 77);
    make_shared(scene);
    if (!scene->heap)
        fail("no memory");
    fill(scene->mapped, SIZE, (uint64_t)round + 7000);
    fill(scene->heap, SIZE + 77, (uint64_t)round);
    fill(scene->shared, SHARED_SIZE, (uint64_t)round + 9000);
}

static void scene_protect(struct scene *scene, struct flight *flight) {
    flight->count = 0;
    flight_protect(flight, "mapped", scene->mapped, SIZE, 1);
    flight_protect(flight, "heap", scene->heap + 5, SIZE + 72, 1);
    flight_protect(flight, "shared", scene->shared, SHARED_SIZE, 0);
}

/* 1: mapped memory is where it was. */
static int scene_vanish(struct scene *scene, int round) {
    overwrite_by_kernel(scene->mapped, SIZE / 2);
    overwrite_by_kernel(scene->heap, SIZE + 77);
    fill(scene->other, SHARED_SIZE, 4321);
    free(scene->heap);
    scene->heap = malloc(round % 2 ? SIZE + 77 : 8 * SIZE);
    if (!scene->heap)
        fail("no memory");
    memset(scene->heap, round, SIZE + 77);
    return vanish(scene->mapped, round % WAYS);
}

static void scene_end(struct scene *scene) {
    free(scene->heap);
    munmap(scene->shared, SHARED_SIZE);
    munmap(scene->other, SHARED_SIZE);
}

static void unprotect_all(struct flight *flight) {
    static const char *const names[] = {"mapped", "heap", "shared"};
    for (int i = 0; i < 3; i++)
        if (varve_unprotect(flight->session, names[i]) != 0)
            fail("unprotect %s: %s", names[i], varve_session_error(flight->session)->text);
}

/* ---- released ---- */

static void release(struct flight *flight) {
    int rc = varve_release(flight->session);
    if (rc != 0)
        fail("varve_release returned %d", rc);
}

/* Same place, other memory: the next checkpoint has what is there now. */
static void save_in_place(struct flight *flight, struct scene *scene) {
    flight->count = 1;
    if (varve_unprotect(flight->session, "heap") != 0 || varve_unprotect(flight->session, "shared") != 0)
        fail("unprotect: %s", varve_session_error(flight->session)->text);
    flight_again(flight);
    flight_arrive(flight);
    if (varve_unprotect(flight->session, "mapped") != 0)
        fail("unprotect: %s", varve_session_error(flight->session)->text);
    munmap(scene->mapped, SIZE);
}

/* Told while it is in flight, told when it has landed, or never: protected elsewhere by the next round. */
static void one_round(struct flight *flight, int round, unsigned *up) {
    struct scene scene;
    snprintf(kit_where, sizeof kit_where, "%s, round %d", mode.settings, round);
    scene_make(&scene, round);
    scene_protect(&scene, flight);
    flight_again(flight);
    release(flight);
    int is_there = scene_vanish(&scene, round);
    *up += varve_test(flight->session) == 0;
    if (round % 4 == 1)
        unprotect_all(flight);
    flight_arrive(flight);
    struct vv_details stats;
    kit_stats(flight->session, &stats);
    *mode.held += stats.bytes_held > 0 || stats.bytes_frozen > 0;
    if (round % 4 == 2)
        unprotect_all(flight);
    if (round % 4 == 3 && is_there)
        save_in_place(flight, &scene);
    scene_end(&scene);
}

static void released(void) {
    struct flight flight;
    unsigned up = 0;
    flight_open(&flight);
    release(&flight); /* nothing is in flight */
    *mode.held = 0;
    /* With capture=trap memory is needed until the last page is stored. On a busy machine a few rounds may miss it. */
    int is_expected = !strstr(mode.settings, "capture=sync") && !strstr(mode.settings, "capture=trap");
    for (unsigned round = 0; round < mode.rounds || (is_expected && up == 0 && round < mode.rounds * 20); round++)
        one_round(&flight, (int)round, &up);
    if (mode.must_hold && *mode.held == 0)
        fail("nothing was held or frozen: this tested too little");
    if (is_expected && up == 0)
        fail("no checkpoint was in flight when its memory had gone: varve_release waits for too much");
    struct scene scene;
    scene_make(&scene, 99);
    scene_protect(&scene, &flight);
    unprotect_all(&flight);
    flight_close(&flight);
    scene_end(&scene);
    printf("%s: %u checkpoints of memory that was released, %u in flight\n", mode.settings, mode.rounds, up);
}

/* ---- beside another thread ---- */

static void *test_on(void *arg) {
    struct flight *flight = arg;
    while (varve_test(flight->session) == 0)
        usleep(100);
    return NULL;
}

static void *wait_on(void *arg) {
    struct flight *flight = arg;
    varve_wait(flight->session);
    return NULL;
}

static void beside(void) {
    struct flight flight;
    flight_open(&flight);
    for (int round = 0; round < 4; round++) {
        struct scene scene;
        pthread_t thread;
        snprintf(kit_where, sizeof kit_where, "%s, round %d beside another thread", mode.settings, round);
        scene_make(&scene, round);
        scene_protect(&scene, &flight);
        flight_again(&flight);
        if (pthread_create(&thread, NULL, round % 2 ? test_on : wait_on, &flight) != 0)
            fail("no thread");
        release(&flight);
        scene_vanish(&scene, round);
        pthread_join(thread, NULL);
        flight_arrive(&flight);
        unprotect_all(&flight);
        scene_end(&scene);
    }
    flight_close(&flight);
}

/* ---- a checkpoint that fails ---- */

static void broken(void) {
    struct flight flight;
    flight_open(&flight);
    struct scene scene;
    scene_make(&scene, 1);
    scene_protect(&scene, &flight);
    flight_launch(&flight);
    storage_break(0);
    release(&flight);
    scene_vanish(&scene, UNMAP);
    int is_inside = strstr(mode.settings, "capture=sync") != NULL;
    if (varve_wait(flight.session) == 0 && !is_inside)
        fail("a checkpoint without storage is said to survive");
    storage_heal();
    unprotect_all(&flight);
    scene_end(&scene);
    scene_make(&scene, 2);
    scene_protect(&scene, &flight);
    flight_again(&flight);
    flight_arrive(&flight);
    flight_close(&flight);
    scene_end(&scene);
}

/* ---- without a word ---- */

/* Two regions go while they are in flight. */
static void lose(struct flight *flight, struct scene *scene, int round) {
    scene_make(scene, round);
    scene_protect(scene, flight);
    uint8_t *last = new_memory(SIZE);
    flight_protect(flight, "last", last, SIZE, 1);
    flight_again(flight);
    vanish(scene->mapped, round % 2 ? UNMAP : REPLACE);
    munmap(last, SIZE);
    int rc = varve_wait(flight->session);
    if (rc != 0 && rc != -EFAULT)
        fail("checkpoint %lld: %s", (long long)flight->version, varve_session_error(flight->session)->text);
    const char *text = varve_session_error(flight->session)->text;
    if (rc != 0 && !strstr(text, "region mapped") && !strstr(text, "region last"))
        fail("another region is blamed: %s", text);
    failed += rc != 0;
    if (rc == 0)
        images_check(&flight->at_call, flight->store);
}

static void untold(void) {
    struct flight flight;
    struct vv_details stats;
    unsigned held = 0;
    flight_open(&flight);
    for (int round = 0; round < 6; round++) {
        struct scene scene;
        snprintf(kit_where, sizeof kit_where, "%s, round %d without a word", mode.settings, round);
        lose(&flight, &scene, round);
        kit_stats(flight.session, &stats);
        held += stats.bytes_held > 0;
        if (round == 2) /* a region's name is known again when it comes back */
            unprotect_all(&flight);
        scene_end(&scene);
    }
    if (failed > 2)
        fail("%u checkpoints failed for two regions", failed);
    if (held > 0 && failed == 0)
        fail("memory was held and taken away, and no checkpoint failed");
    if (mode.must_hold && !strstr(mode.settings, "capture=frozen") && held == 0)
        fail("nothing was held: this tested too little; the library says: %s", stats.capture_reason);
    struct scene scene;
    scene_make(&scene, 99);
    scene_protect(&scene, &flight);
    unprotect_all(&flight);
    if (varve_unprotect(flight.session, "last") != 0)
        fail("unprotect: %s", varve_session_error(flight.session)->text);
    flight_close(&flight);
    scene_end(&scene);
    printf("%s: %u checkpoints of memory that went without a word failed, %u held something\n", mode.settings, failed,
           held);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*fn)(void);
    } cases[] = {{"released", released}, {"beside", beside}, {"broken", broken}, {"untold", untold}};
    mode.rounds = 12; /* each way to lose it with each way to tell it */
    mode_parse(argc, argv);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (is_asked_for(cases[i].name))
            cases[i].fn();
    return 0;
}
