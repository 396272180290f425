/* What the benchmarks of many ranks that hold the same data share: sessions that end the program when something goes
 * wrong, checkpoints with what they took, and a count of the duplicates that the library has no part in. Everything
 * here but what is about names of chunks is collective. */
#ifndef TOGETHER_H
#define TOGETHER_H

#include "details.h"
#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#define CHUNK 4096u

/* ---- sessions ---- */

void together_check(const struct varve_session *session, int rc, const char *what);
/* A new, empty folder for a store, made by rank 0; and gone again. */
void together_make_folder(const char *path);
void together_remove_folder(const char *path);
/* Bytes of all its files. While nobody writes. */
double together_folder_bytes(const char *path);
/* Drop all its files from the page cache: of this machine, which all ranks are on. */
void together_cool(const char *path);
/* Two benchmarks in one folder would remove each other's files. Held until the program ends. */
void together_lock(const char *folder);
struct varve_session *together_open(const char *store, const char *name, const char *settings);

/* What one checkpoint took and stored, the same on every rank. */
struct saved {
    double blocked, durable;     /* seconds; the slowest rank's */
    double cpu;                  /* seconds of processor time, of all threads and ranks */
    double growth;               /* of the folder */
    double changed, fresh, data; /* bytes: changed, new, and as they were stored; sums over the ranks */
    double metadata, elsewhere;
    double own;              /* written by this rank: the only number here that differs */
    double written_most;     /* by the rank that wrote most */
    double writers;          /* ranks that wrote: all, or one for each group */
    double over_mean;        /* written_most over the mean of the writers; 1 if nothing was written */
    double named, exchange;  /* seconds; the slowest rank's */
    double messages, bytes;  /* to find duplicates; the rank that sent most */
    struct vv_details stats; /* this rank's */
};
/* folder: that of the store, where its files are counted. */
struct saved together_save(struct varve_session *session, const char *folder, int64_t version);

/* How many ranks have written a checkpoint. */
double together_writers(const struct vv_details *stats);

/* ---- chunks, named by a hash of our own ---- */

struct chunk_name {
    uint64_t a, b; /* both 0: all zeros */
};
/* Names of all chunks of memory, of which the last may be shorter: (size + CHUNK - 1) / CHUNK of them. */
size_t chunks_in(size_t size);
void chunks_name(const void *memory, size_t size, struct chunk_name *out);

/* A heap of names that rank 0 counts. */
struct chunks {
    struct chunk_name *names;
    size_t count, capacity;
};
void chunks_add(struct chunks *chunks, const struct chunk_name *names, size_t count);
void chunks_clear(struct chunks *chunks);
/* How many there are over all ranks, zeros apart; and how many different ones. The same on every rank. */
struct chunk_sums {
    double total, unique;
};
struct chunk_sums chunks_sum(const struct chunks *own);

#endif
