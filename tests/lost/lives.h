/* Lives of a job on several nodes, in a group of processes (tests/group): a node is a folder, which is its disk. A node
 * that is lost is one whose ranks were killed and whose folder is gone. Which nodes there are, and which ranks run
 * where, is said for every life. */
#ifndef VARVE_LOST_LIVES_H
#define VARVE_LOST_LIVES_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#define LIVES_RANKS 16

/* Sets of nodes are bits. */
struct life {
    uint32_t ranks;
    uint32_t node_of[LIVES_RANKS];
    int copies;
    int is_back;          /* restart from the latest first */
    int64_t first, last;  /* versions to save; first > last: none */
    unsigned killed;      /* nodes whose ranks are killed as soon as all that is saved; 0: all end well */
    unsigned cut_us;      /* instead, so long after they began to save the last version; 0: not */
    const char *settings; /* more of them, or NULL */
    int has_second;       /* two threads may communicate at the same time */
};

/* What became of it; all ranks were told the same. */
struct lived {
    int open_code, restart_code, save_code;
    int64_t version; /* restarted from */
    int64_t saved;   /* the last one that survives; -1: none */
    char text[1024]; /* why the first of them failed that did */
    char log[65536]; /* warnings and errors of all ranks */
};

/* A folder for the nodes of one test. */
int lives_setup(void **state);
int lives_teardown(void **state);
/* TEST_SCALE, in percent; 1 to 100. */
int lives_scale(void);
/* All nodes away. */
void lives_clean(void);

/* Fails the test when ranks die that should not, are told different things, or come back with other bytes. */
const struct lived *live(const struct life *life);

/* Rank r of `ranks` on the nodes of the set, as evenly as can be, in their order. */
void place_evenly(struct life *life, uint32_t ranks, unsigned nodes);
/* The ranks that this placement has on the nodes of the set, as bits. */
unsigned ranks_on(const struct life *life, unsigned nodes);

/* The disks of these nodes are lost; those that take their place are empty, or there are none. */
void lose(unsigned nodes, int is_replaced);
/* Objects whose path fits the pattern are gone, or have one bit turned. */
void lives_remove(const char *pattern);
void lives_damage(const char *pattern);
/* Bytes of those whose path does. */
uint64_t lives_bytes(const char *pattern);

#endif
