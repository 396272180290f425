/* A region on a device and on its twin, that is edited, compared, committed, lost and brought back at random; both
 * must say the same in every bit, and what they say must be enough to have the bytes back. */
#ifndef VARVE_WORLD_H
#define VARVE_WORLD_H

#include "opencl_private.h"
#include "twin.h"

/* The first device of the first platform; exits with 77 where there is none. */
struct gpu {
    cl_context context;
    cl_command_queue queue;
    struct cl_shared *shared; /* kept, so that the program is built once */
};
void gpu_open(struct gpu *gpu);
void gpu_close(struct gpu *gpu);

struct plan {
    uint64_t seed; /* of the random numbers */
    uint64_t bytes;
    uint64_t base; /* in the buffer */
    uint32_t chunk;
    uint64_t most;
    uint32_t steps;
};

#define SOURCES 256u

struct world {
    struct plan plan;
    struct gpu *gpu;
    cl_mem buffer;
    struct cl_region *region;
    struct twin twin;
    uint8_t *now;             /* what the program has: the twin looks at it */
    uint8_t *model;           /* the last checkpoint, made of nothing but answers */
    uint8_t *older;           /* some state of long ago */
    uint8_t *stored[SOURCES]; /* what each checkpoint has stored, from address[] on */
    uint64_t address[SOURCES];
    uint8_t is_usable[SOURCES];
    uint32_t source; /* the next one */
    uint64_t random;
    uint64_t counts[VARVE_SHIFTED + 1]; /* chunks met, so that the test can tell that it has met all kinds */
};

void world_init(struct world *world, struct gpu *gpu, const struct plan *plan);
void world_clear(struct world *world);
uint64_t world_random(struct world *world, uint64_t below);
void world_send(struct world *world); /* the device gets `now` */
/* Change the region at random, here and on the device. */
void world_edit(struct world *world);
/* Compare all of it in parts of random sizes, check the answers, and settle. */
void world_attempt(struct world *world, int is_committed, int is_whole);
/* All bytes are lost and come back; chunks have another size from now on. */
void world_restart(struct world *world, uint32_t chunk);
void world_run(struct world *world); /* plan.steps of all of it */

#endif
