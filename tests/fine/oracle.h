/* What a checkpoint must store, found without hashes and without lists of runs: contents are compared byte by byte,
 * and every byte of every region has its own note of where it is stored. Slow, and easy to see that it is right; the
 * rules are those of docs/design.md, "Fine chunks", and nothing is shared with src/dedup.
 *
 * It follows one session from its begin, with failures; after a restart it can go on if told. */
#ifndef VARVE_ORACLE_H
#define VARVE_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#define ORACLE_REGIONS 4

enum oracle_method { ORACLE_TREE, ORACLE_BASIC, ORACLE_FULL };

struct oracle;

/* What it expects of a checkpoint. */
struct oracle_sums {
    uint64_t bytes_new;
    uint64_t first, fixed, shifted, zero; /* fine chunks */
};

struct oracle *oracle_create(enum oracle_method method);
void oracle_destroy(struct oracle *oracle);
/* A checkpoint begins: all regions get their places in the order in which they were protected, each with its chunk
 * size (1: none); then each is looked at, in the order in which the library looks at them. */
void oracle_begin(struct oracle *oracle);
void oracle_place(struct oracle *oracle, unsigned region, size_t size, uint32_t chunk);
void oracle_region(struct oracle *oracle, unsigned region, const uint8_t *data);
/* It is over. With is_committed 0 nothing of it may be referred to. */
struct oracle_sums oracle_end(struct oracle *oracle, int is_committed);
/* Keep what is known now as this version; and go back to it as a restart does: only what the version holds is known
 * then, and in chunks of this size. */
void oracle_keep(struct oracle *oracle, unsigned version);
void oracle_restart(struct oracle *oracle, unsigned version, uint32_t chunk);

#endif
