/* A program that the kernel does not copy, since it would promise more memory than it wants to (vm.overcommit_memory):
 * what does not fit staging is held or drained, the checkpoint succeeds and tells why, and the program lives on. When
 * there is room again, memory is frozen again.
 *
 *     overcommit --settings "capture=..." [--must-hold] [--nobody]
 *
 * must-hold: with room something is held or frozen. Where the kernel counts by guess (0), no copy is made of a mapping
 * that is larger than the machine's memory; it came about from two that are not. Where it counts (2), the mapping is
 * more than half of what is left. Where it never refuses (1), this tests nothing and is skipped. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "details.h"
#include "flight.h"

#define SIZE (8 * MIB)
#define TRIES 10 /* checkpoints until a copy is tried again, and two more */

static int overcommit; /* the kernel's setting */

/* ---- memory that is promised and never touched ---- */

struct ballast {
    uint8_t *at;
    size_t size;
};

static size_t ballast_size(void) {
    struct sysinfo info;
    if (overcommit == 2)
        return (size_t)(number_in("/proc/meminfo", "CommitLimit:") - number_in("/proc/meminfo", "Committed_AS:")) / 3 *
               2 * 1024;
    if (sysinfo(&info) != 0)
        fail("sysinfo: %s", strerror(errno));
    return (size_t)(info.totalram + info.totalswap) * info.mem_unit / 4 * 5;
}

/* In two halves, of which the kernel makes one mapping. */
static struct ballast take_ballast(void) {
    size_t half = ballast_size() / 2 / PAGE * PAGE;
    struct ballast ballast = {mmap(NULL, 2 * half, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                              2 * half};
    if (ballast.at == MAP_FAILED)
        fail("no addresses");
    for (int i = 0; i < 2; i++)
        if (mmap(ballast.at + (size_t)i * half, half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                 -1, 0) == MAP_FAILED)
            fail("a mapping of %zu MiB: %s", half / MIB, strerror(errno));
    return ballast;
}

static void must_be_refused(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid < 0 && errno == ENOMEM)
        return;
    if (pid > 0)
        waitpid(pid, NULL, 0);
    fail("the kernel copies this process all the same: this tests nothing");
}

/* ---- the program ---- */

static struct vv_details save(struct flight *flight, const char *what) {
    struct vv_details stats;
    fill(flight->regions[0].ptr, SIZE, (uint64_t)flight->version + 2);
    flight_again(flight);
    fill(flight->regions[0].ptr, SIZE, 1000); /* the program runs on */
    flight_arrive(flight);
    kit_stats(flight->session, &stats);
    printf("%s: MiB staged %d, drained %d, held %d, frozen %d; %s\n", what, (int)(stats.bytes_staged >> 20),
           (int)(stats.bytes_drained >> 20), (int)(stats.bytes_held >> 20), (int)(stats.bytes_frozen >> 20),
           stats.capture_reason);
    fflush(stdout);
    return stats;
}

static void save_refused(struct flight *flight, const char *what) {
    struct vv_details stats = save(flight, what);
    if (stats.bytes_frozen != 0 || stats.bytes_staged + stats.bytes_held + stats.bytes_drained != SIZE)
        fail("%s: not all is staged, held or drained", what);
    if (!strstr(stats.capture_reason, "no memory for a copy of the process") &&
        !strstr(stats.capture_reason, "was held") && !strstr(stats.capture_reason, "cheaper than holding"))
        fail("%s: it is not told why: %s", what, stats.capture_reason);
}

static void live(struct flight *flight, int wants_frozen) {
    struct vv_details stats = save(flight, "with room");
    if (wants_frozen && stats.bytes_frozen == 0)
        fail("with room nothing is frozen: this tests nothing");
    struct ballast ballast = take_ballast();
    must_be_refused();
    save_refused(flight, "refused");
    save_refused(flight, "refused again");
    munmap(ballast.at, ballast.size);
    for (int i = 0; i < TRIES; i++)
        stats = save(flight, "with room again");
    if (wants_frozen && stats.bytes_frozen == 0)
        fail("with room again nothing is frozen after %d checkpoints", TRIES);
}

int main(int argc, char **argv) {
    struct flight flight;
    uint8_t *data = NULL;
    overcommit = (int)number_in("/proc/sys/vm/overcommit_memory", "");
    if (overcommit != 0 && overcommit != 2)
        skip("vm.overcommit_memory is %d: the kernel copies every process", overcommit);
    mode_parse(argc, argv);
    printf("vm.overcommit_memory is %d\n", overcommit);
    flight_open(&flight);
    data = new_memory(SIZE);
    flight_protect(&flight, "data", data, SIZE, 1);
    live(&flight, mode.must_hold);
    flight_close(&flight);
    return 0;
}
