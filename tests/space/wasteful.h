/* A program whose checkpoints keep much more alive than they need: pages change at random, two checkpoints are kept,
 * and old attempts are not emptied (space=0). */
#ifndef WASTEFUL_H
#define WASTEFUL_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define WASTEFUL_CHUNK 4096u
#define WASTEFUL_CHUNKS 256u
#define WASTEFUL_SIZE (WASTEFUL_CHUNKS * WASTEFUL_CHUNK)
#define WASTEFUL_CHANGED 13     /* chunks of each half: a tenth */
#define WASTEFUL_CHECKPOINTS 60 /* unless told */

struct wasteful {
    uint32_t ranks;
    const char *settings;    /* besides */
    int checkpoints;         /* 0: 60 */
    uint32_t ranks_per_node; /* 0: all on one */
};

/* The first half is the same on all ranks and changes alike, the second is each rank's own. */
struct wasteful_memory {
    uint8_t bytes[WASTEFUL_SIZE];
    uint64_t common, own;
};

static inline uint64_t wasteful_draw(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *state >> 33;
}

static inline void wasteful_fill(uint8_t *chunk, uint64_t *state) {
    for (size_t i = 0; i < WASTEFUL_CHUNK; i += 8) {
        uint64_t word = wasteful_draw(state) << 32 ^ wasteful_draw(state);
        memcpy(chunk + i, &word, 8);
    }
}

static inline void wasteful_begin(struct wasteful_memory *memory, uint32_t rank) {
    memory->common = 1;
    memory->own = 2 + rank;
    for (uint32_t i = 0; i < WASTEFUL_CHUNKS; i++)
        wasteful_fill(memory->bytes + (size_t)i * WASTEFUL_CHUNK,
                      i < WASTEFUL_CHUNKS / 2 ? &memory->common : &memory->own);
}

static inline void wasteful_change(struct wasteful_memory *memory) {
    uint8_t *half = memory->bytes + WASTEFUL_SIZE / 2;
    for (uint32_t i = 0; i < WASTEFUL_CHANGED; i++) {
        uint64_t common = wasteful_draw(&memory->common) % (WASTEFUL_CHUNKS / 2);
        uint64_t own = wasteful_draw(&memory->own) % (WASTEFUL_CHUNKS / 2);
        wasteful_fill(memory->bytes + common * WASTEFUL_CHUNK, &memory->common);
        wasteful_fill(half + own * WASTEFUL_CHUNK, &memory->own);
    }
}

static inline struct varve_session *wasteful_open(struct varve_comm *comm, const struct wasteful *way,
                                                  const char *store, struct wasteful_memory *memory) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    char settings[256];
    snprintf(settings, sizeof settings, "keep=2,space=0,codec=none,log=error%s%s", *way->settings ? "," : "",
             way->settings);
    options.settings = settings;
    if (varve_open_comm(group_comm(comm), store, "job", &options, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    if (varve_protect(session, "memory", memory->bytes, WASTEFUL_SIZE) != 0)
        group_fail(comm, "protect: %s", varve_session_error(session)->text);
    return session;
}

struct wasteful_job {
    const struct wasteful *way;
    const char *store;
};

static inline void wasteful_rank(struct varve_comm *comm, void *arg) {
    const struct wasteful_job *job = arg;
    static struct wasteful_memory memory;
    wasteful_begin(&memory, comm->rank);
    struct varve_session *session = wasteful_open(comm, job->way, job->store, &memory);
    int count = job->way->checkpoints ? job->way->checkpoints : WASTEFUL_CHECKPOINTS;
    for (int i = 0; i < count; i++) {
        wasteful_change(&memory);
        if (varve_checkpoint(session, i) != 0 || varve_wait(session) != 0)
            group_fail(comm, "checkpoint %d: %s", i, varve_session_error(session)->text);
    }
    varve_close(session);
}

/* Versions from 0 on of "job"; the last two are left. */
static inline void make_wasteful(const struct wasteful *way, const char *store) {
    struct wasteful_job job = {way, store};
    struct group_options options = {.ranks_per_node = way->ranks_per_node};
    group_must_run(way->ranks, wasteful_rank, &job, &options, way->settings);
}

/* Bytes of data that the two checkpoints have between them, about: chunks are drawn twice now and then. */
static inline double wasteful_needs(const struct wasteful *way) {
    double halves = 1 + way->ranks;
    return halves * (WASTEFUL_SIZE / 2.0 + (double)WASTEFUL_CHANGED * WASTEFUL_CHUNK);
}

static inline struct varve_store *open_tool(const char *store) {
    struct varve_store *tool = NULL;
    struct varve_error error;
    if (varve_store_open(store, NULL, &tool, &error) != 0)
        fail_msg("cannot open %s: %s", store, error.text);
    return tool;
}

static inline int make_folder(char folder[64], char store[80]) {
    if (folder_make(NULL, "test-space", folder, 64) != 0)
        return -1;
    snprintf(store, 80, "%s/store", folder);
    return 0;
}

#endif
