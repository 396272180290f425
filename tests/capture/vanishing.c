/* Memory goes while a checkpoint is in flight, without a word to the library: a part by chance, of regions by chance,
 * in a way and after a time by chance. With capture=frozen and capture=sync it is the program's own as soon as
 * varve_checkpoint returns, and every checkpoint has the bytes at the call. Else the checkpoint may fail with -EFAULT
 * and the name of a region that went; wrong bytes it never has.
 *
 *     vanishing --settings "capture=..." [--must-hold] [--nobody] [--rounds 24] [--seed N] */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "details.h"
#include "flight.h"

#define REGIONS 3u
#define PAGES 500u        /* of a region, and up to as many more */
#define LATEST_US 150000u /* about as long as a flight takes */

struct victim {
    char name[24];
    uint8_t *at;
    size_t size; /* whole pages, if it is not of the heap */
    int is_heap, is_gone;
    size_t hole, hole_size; /* nothing of ours is there any more; somebody else's memory may be */
    uint8_t *moved;
    size_t moved_size;
};

struct tally {
    unsigned right, refused, held;
};

/* A region that was lost once is not held again: the next one has another name. */
static void be_born(struct victim *victim, unsigned number, unsigned refused, struct dice *dice) {
    *victim = (struct victim){.is_heap = roll_below(dice, 3) == 0};
    snprintf(victim->name, sizeof victim->name, "part%u-%u", number, refused);
    victim->size = (PAGES + roll_below(dice, PAGES)) * PAGE;
    victim->at = victim->is_heap ? malloc(victim->size) : new_memory(victim->size);
    if (!victim->at)
        fail("no memory");
    fill(victim->at, victim->size, roll(dice));
}

/* For the complaint: what went, and how. */
static void note(const struct victim *victim, const char *way) {
    size_t length = strlen(kit_where);
    snprintf(kit_where + length, sizeof kit_where - length, ", %s %s", victim->name, way);
}

/* The C library may hand the same memory out again. */
static void vanish_from_heap(struct victim *victim, struct dice *dice) {
    size_t size = victim->size;
    int is_freed = (int)roll_below(dice, 2);
    note(victim, is_freed ? "freed" : "reallocated");
    if (is_freed)
        free(victim->at);
    victim->at = is_freed ? malloc(size) : realloc(victim->at, size *= 8);
    if (!victim->at)
        fail("no memory");
    fill(victim->at, size, roll(dice));
}

static void make_hole(struct victim *victim, size_t from, size_t size) {
    victim->hole = from;
    victim->hole_size = size;
}

/* One of many ways to lose pages; what is left is filled with something else. */
static void vanish_from_mapping(struct victim *victim, struct dice *dice) {
    static const char *const ways[] = {"unmapped", "moved", "replaced", "dropped", "closed", "shared"};
    size_t pages = victim->size / PAGE, first = roll_below(dice, 2) * roll_below(dice, pages);
    size_t size = (1 + roll_below(dice, pages - first)) * PAGE;
    uint8_t *at = victim->at + first * PAGE, *there = at;
    int way = (int)roll_below(dice, 6);
    note(victim, ways[way]);
    switch (way) {
    case 0:
        munmap(at, size);
        make_hole(victim, first * PAGE, size);
        return;
    case 1: /* to another place: it is larger there */
        there = new_memory(2 * size);
        there = mremap(at, size, 2 * size, MREMAP_MAYMOVE | MREMAP_FIXED, there);
        make_hole(victim, first * PAGE, size);
        victim->moved = there;
        victim->moved_size = 2 * size;
        break;
    case 2:
        there = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
    case 3:
        madvise(at, size, MADV_DONTNEED);
        break;
    case 4:
        mprotect(at, size, PROT_NONE);
        return;
    default:
        there = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    if (there == MAP_FAILED)
        fail("%s", strerror(errno));
    fill(there, size, roll(dice));
}

static void vanish(struct victim *victim, struct dice *dice) {
    victim->is_gone = 1;
    if (victim->is_heap)
        vanish_from_heap(victim, dice);
    else
        vanish_from_mapping(victim, dice);
}

static void unmap(uint8_t *from, const uint8_t *to) {
    if (from < to && munmap(from, (size_t)(to - from)) != 0)
        fail("munmap: %s", strerror(errno));
}

static void bury(struct victim *victim) {
    if (victim->is_heap) {
        free(victim->at);
        return;
    }
    unmap(victim->at, victim->at + (victim->hole_size ? victim->hole : victim->size));
    if (victim->hole_size)
        unmap(victim->at + victim->hole + victim->hole_size, victim->at + victim->size);
    if (victim->moved)
        unmap(victim->moved, victim->moved + victim->moved_size);
}

/* -EFAULT is for who cannot keep what goes, and names what went. */
static void must_be_refused(const struct flight *flight, const struct victim *victims, int rc) {
    const char *text = varve_session_error(flight->session)->text;
    if (rc != -EFAULT || strstr(mode.settings, "capture=frozen") || strstr(mode.settings, "capture=sync"))
        fail("varve_wait gives %d: %s", rc, text);
    if (is_stored(flight->store, flight->version))
        fail("a failed checkpoint is stored");
    for (unsigned i = 0; i < REGIONS; i++)
        if (victims[i].is_gone && strstr(text, victims[i].name))
            return;
    fail("the error names no region that went: %s", text);
}

static void unprotect_all(struct flight *flight) {
    for (size_t i = 0; i < flight->count; i++)
        if (varve_unprotect(flight->session, flight->regions[i].name) != 0)
            fail("unprotect: %s", varve_session_error(flight->session)->text);
    flight->count = 0;
}

static void one_round(struct flight *flight, unsigned round, struct tally *tally) {
    struct dice dice = {mix(mode.seed * 1000003 + round)};
    struct victim victims[REGIONS];
    struct vv_details stats;
    snprintf(kit_where, sizeof kit_where, "vanishing --settings %s --seed %llu, round %u", mode.settings,
             (unsigned long long)mode.seed, round);
    flight->count = 0;
    for (unsigned i = 0; i < REGIONS; i++) {
        be_born(&victims[i], i, tally->refused, &dice);
        flight_protect(flight, victims[i].name, victims[i].at, victims[i].size, 1);
    }
    flight_again(flight);
    if (roll_below(&dice, 2))
        usleep((unsigned)roll_below(&dice, LATEST_US));
    unsigned first = (unsigned)roll_below(&dice, REGIONS);
    for (unsigned i = 0; i < REGIONS; i++)
        if (i == 0 || roll_below(&dice, 2))
            vanish(&victims[(first + i) % REGIONS], &dice);
    int rc = varve_wait(flight->session);
    if (rc == 0) {
        images_check(&flight->at_call, flight->store);
    } else {
        must_be_refused(flight, victims, rc);
        unprotect_all(flight);
    }
    kit_stats(flight->session, &stats);
    tally->right += rc == 0;
    tally->refused += rc != 0;
    tally->held += stats.bytes_held + stats.bytes_frozen > 0;
    for (unsigned i = 0; i < REGIONS; i++)
        bury(&victims[i]);
}

int main(int argc, char **argv) {
    struct flight flight;
    struct tally tally = {0};
    mode.rounds = 24;
    mode.seed = (uint64_t)(kit_seconds() * 1e6) ^ (uint64_t)getpid();
    mode_parse(argc, argv);
    printf("%s: seed %llu\n", mode.settings, (unsigned long long)mode.seed);
    fflush(stdout);
    flight_open(&flight);
    for (unsigned round = 0; round < mode.rounds; round++)
        one_round(&flight, round, &tally);
    printf("%s: %u checkpoints of memory that vanished: %u right, %u refused; in %u something was held or frozen\n",
           mode.settings, mode.rounds, tally.right, tally.refused, tally.held);
    unsigned least = strstr(mode.settings, "capture=frozen") ? mode.rounds : (mode.rounds + 3) / 4;
    if (mode.must_hold && tally.held < least)
        fail("in %u of %u checkpoints something was held or frozen: this tested too little", tally.held, mode.rounds);
    unprotect_all(&flight);
    flight_protect(&flight, "last", new_memory(MIB), MIB, 1);
    flight_again(&flight);
    flight_arrive(&flight);
    flight_close(&flight);
    return 0;
}
