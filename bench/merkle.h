/* The parts of bench-merkle: the program whose state is saved, the ways to save it, and what comes out. */
#ifndef MERKLE_H
#define MERKLE_H

#include "graphlets.h"
#include "labels.h"

#define CHECKPOINTS_MAX 64u

/* A page, as it was at a checkpoint that has changed it. */
struct page {
    size_t offset;
    size_t bytes; /* the last one may be short */
    uint8_t *data;
};

/* Graphlets are counted from the first vertex to the last. The first checkpoint is taken before, of zeros; the others
 * after equal shares of the vertices, the last one at the end. It is run once and what it writes is kept: every method
 * then sees the same pages written, without the time that counting takes. */
struct program {
    const char *kind;
    struct graph *graph;
    enum graphlets_layout layout;
    unsigned most; /* vertices of a graphlet */
    uint32_t *vectors;
    size_t bytes;
    unsigned checkpoints;
    struct page *pages; /* in the order of checkpoints */
    size_t page_count, page_capacity;
    size_t ends[CHECKPOINTS_MAX]; /* per checkpoint: its pages end here */
};

void program_record(struct program *program);
void program_forget(struct program *program); /* what was recorded */

typedef void (*program_save_fn)(void *arg, unsigned checkpoint);
/* From zeros to the end, as recorded, with a call for each checkpoint. */
void program_run(const struct program *program, program_save_fn save, void *arg);

/* Sums over the checkpoints but for the first. */
struct outcome {
    double stored, metadata; /* bytes; metadata is a part of stored */
    double base;             /* of metadata: manifests that were written as a whole again */
    double over_memcpy;      /* speed, of protected bytes, over that of memcpy; 0: not measured */
    double runs;             /* of the manifests; 0: it has none */
    double first, shifted;   /* chunks, as the library counts them */
    char tracker[16];
};

/* With the library, in a store in memory. method: fine_method of the settings. `settings` are added. What comes back
 * must be what was saved. */
void save_with_varve(const struct program *program, const char *method, const char *codec, unsigned chunk,
                     const char *settings, struct outcome *out);
/* Every checkpoint compressed by itself, level 3. */
void save_with_zstd(const struct program *program, struct outcome *out);

/* What can be said without saving anything. */
struct oracle {
    struct label_counts counts;
    double basic_bytes, list_bytes, paper_bytes;
    double paper_roots;
};
void ask_oracle(const struct program *program, unsigned chunk, struct oracle *out);

#endif
