/* With capture=frozen the program's memory is its own as soon as varve_checkpoint returns: it frees, unmaps, moves,
 * replaces, drops and closes it without a word, and every checkpoint has the bytes at the call.
 *
 *     vanishing --settings "capture=frozen,..." [--nobody] [--rounds 24] */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "details.h"
#include "flight.h"

#define SIZE (3 * MIB)

/* One of many ways to lose it; what is left is filled with something else. */
static void vanish(uint8_t *at, int way) {
    uint8_t *there;
    switch (way) {
    case 0:
        munmap(at, SIZE);
        return;
    case 1:
        there = mremap(at, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
        break;
    case 2:
        there = mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
    case 3:
        madvise(at, SIZE, MADV_DONTNEED);
        there = at;
        break;
    case 4:
        mprotect(at, SIZE, PROT_NONE);
        return;
    default:
        there = mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    if (there == MAP_FAILED)
        fail("way %d: %s", way, strerror(errno));
    fill(there, SIZE, 1234);
}

static void one_round(struct flight *flight, int round) {
    uint8_t *mapped = new_memory(SIZE), *heap = malloc(SIZE + 77);
    if (!heap)
        fail("no memory");
    fill(heap, SIZE + 77, (uint64_t)round);
    snprintf(kit_where, sizeof kit_where, "%s, round %d", mode.settings, round);
    flight->count = 0;
    flight_protect(flight, "mapped", mapped, SIZE, 0);
    flight_protect(flight, "heap", heap + 5, SIZE + 72, 0);
    flight_again(flight);
    if (round % 2) { /* the C library hands the same memory out again */
        free(heap);
        heap = malloc(SIZE + 77);
        if (heap)
            memset(heap, round, SIZE + 77);
    } else {
        heap = realloc(heap, 8 * SIZE);
        if (heap)
            memset(heap, round, 8 * SIZE);
    }
    vanish(mapped, round % 6);
    flight_arrive(flight);
    struct vv_details stats;
    kit_stats(flight->session, &stats);
    *mode.held += stats.bytes_frozen > 0;
    free(heap);
}

int main(int argc, char **argv) {
    struct flight flight;
    mode.rounds = 24;
    mode_parse(argc, argv);
    flight_open(&flight);
    for (unsigned round = 0; round < mode.rounds; round++)
        one_round(&flight, (int)round);
    if (*mode.held < mode.rounds)
        fail("in %u of %u checkpoints something was frozen: this tested too little", *mode.held, mode.rounds);
    if (varve_unprotect(flight.session, "mapped") != 0 || varve_unprotect(flight.session, "heap") != 0)
        fail("unprotect: %s", varve_session_error(flight.session)->text);
    flight_close(&flight);
    printf("%s: %u checkpoints of memory that vanished\n", mode.settings, mode.rounds);
    return 0;
}
