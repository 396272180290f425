/* A program with some regions and a store, and what each of its checkpoints held. */
#ifndef VARVE_WORLD_H
#define VARVE_WORLD_H

#include <varve/varve.h>

#include "edits.h"

#define WORLD_REGIONS 3
#define WORLD_VERSIONS 48
#define WORLD_LARGEST (40 * 1024)

struct version {
    int is_saved;
    struct piece pieces[WORLD_REGIONS];
};

struct world {
    char address[128], settings[256];
    struct varve_session *session;
    struct piece pieces[WORLD_REGIONS];
    uint32_t chunks[WORLD_REGIONS]; /* by varve_fine; 0: nothing is said */
    struct version then[WORLD_VERSIONS];
    int64_t last;   /* that was saved; -1: none */
    uint8_t *spare; /* so many zeros more are protected: what is remembered is a share of all */
    size_t spare_size;
};

void world_make(struct world *world, const char *address, const char *settings, size_t spare_size);
void world_open(struct world *world);
/* Regions of random sizes with random bytes. */
void world_fill(struct world *world);
void world_protect(struct world *world);
/* Checkpoint and wait; if it worked it is remembered. Returns what the library said. */
int world_save(struct world *world, int64_t version);
/* Bring back a version and compare every byte; the program goes on from there. */
void world_restart(struct world *world, int64_t version);
void world_close(struct world *world);
/* Every version that was saved, with restarts in this session; then the store is verified, and gone. */
void world_check_all(struct world *world);
void world_end(struct world *world);

#endif
