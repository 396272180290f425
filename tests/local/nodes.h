/* Jobs whose ranks run on several nodes, each with a store of its own: a node is a folder. Built on
 * tests/group/ranks.h, which runs the ranks and compares what they were told. */
#ifndef VARVE_NODES_H
#define VARVE_NODES_H

#include "ranks.h"

#define NODES_MAX 4

/* Which node each rank runs on, in the jobs started from now on. */
void nodes_place(int a, int b, int c, int d);
int node_of(int rank);

/* In a rank: like rank_open, on the store of its node. settings (may be NULL) come on top of the plan's. */
int node_open(struct ranks_job *job, const char *settings);
/* open, checkpoints 1 to value, close. */
void node_make_store(struct ranks_job *job);
/* open, restart from the newest, one more checkpoint if that worked and value says so, close. */
void node_come_back(struct ranks_job *job);

/* ---- in the test ---- */

/* Run a job in which this rank is killed (-1: whichever), and the others with it; fails the test when nobody is. */
void nodes_run_dying(const struct plan *plan, int rank);
/* A job in the background: its process, and the end of it. */
int nodes_start(const struct plan *plan);
const struct board *nodes_end(int job, const struct plan *plan);

/* ---- what lies on a node ---- */

void node_folder(int node, char *out, size_t capacity);
void node_record_path(int node, uint32_t generation, int64_t version, char *out, size_t capacity);
void node_writers_path(int node, uint32_t generation, int64_t version, uint32_t attempt, char *out, size_t capacity);
void node_pack_path(int node, uint32_t generation, int64_t version, uint32_t attempt, int writer, char *out,
                    size_t capacity);
int is_there(const char *path);
/* Is there a record (and not a tombstone) of this version? */
int node_has_record(int node, uint32_t generation, int64_t version);
/* All fail the test when the file is not there. */
void remove_file(const char *path);
void flip_bit(const char *path, long at);
/* Everything on a node; or move it to another node. */
void node_lose(int node);
void node_move(int from, int to);
/* The same bytes in both files? */
int is_same_file(const char *a, const char *b);

#endif
