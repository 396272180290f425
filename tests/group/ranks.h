/* A small job of four ranks for tests of agreement: two regions whose bytes follow from rank and version. Every
 * collective call leaves its answer in memory that the test shares with the ranks, and the test compares what the ranks
 * were told. */
#ifndef VARVE_RANKS_H
#define VARVE_RANKS_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#include "group.h"

#define RANKS 4
#define ANSWERS_MAX 32
#define FIELD (10 * 4096 + 123)

/* What a call returned. */
struct answer {
    char call[32];
    int code;
    int64_t version; /* where the call has one, else -2 */
    struct varve_error error;
};

struct board {
    struct answer answers[RANKS][ANSWERS_MAX];
    size_t count[RANKS];
    char log[RANKS][8192]; /* warnings and errors */
};

struct ranks_job;
typedef void (*ranks_fn)(struct ranks_job *job);

/* What one run of the job does. */
struct plan {
    ranks_fn fn;
    const char *settings; /* "" unless told */
    int faulty_rank;           /* the rank that is different */
    const char *fault;    /* of the victim's storage, as in "?fault=", or NULL */
    uint32_t ranks;       /* 0: RANKS */
    int64_t value;        /* for fn */
};

/* In a rank. */
struct ranks_job {
    struct varve_comm *comm;
    const struct plan *plan;
    struct board *board;
    const char *folder;
    int rank;
    int is_faulty;
    struct varve_session *session;
    uint8_t field[FIELD];
    uint64_t step;
};

/* ---- in the test ---- */

/* A folder of its own for each test, made and removed by these, for cmocka. */
int ranks_setup(void **state);
int ranks_teardown(void **state);
const char *ranks_folder(void);
/* Tests of many moments try one in so many: 1 unless TEST_SCALE asks for less. */
int ranks_stride(void);

/* Which node each rank of the jobs started from now on is said to be on; must stay. NULL: all on the same. */
void ranks_place(const uint32_t *node_of);

/* Run it and check that all ranks ended well and were told the same: codes, versions, errors, texts. The board is that
 * of this run, until the next. */
const struct board *ranks_run(const struct plan *plan);
/* The same in pieces, on a board of one's own, which must be group_memory: run it, with group_run's answer, and
 * compare. */
int ranks_run_on(struct board *board, const struct plan *plan, struct group_end *end);
void ranks_compare(const struct board *board, const struct plan *plan);
/* The n-th call of this name; fails the test if there is none. */
const struct answer *ranks_answer(const struct board *board, const char *call, int n);
/* The code, and for errors the rank where it happened (-1: any) and a word of the text. */
void ranks_expect(const struct board *board, const char *call, int n, int code, int rank, const char *word);
/* The path of an object of a version below data/: pack of this writer, in the newest generation that has it. */
void ranks_pack_path(int64_t version, int writer, char *out, size_t capacity);

/* ---- in the ranks: each notes its answer and returns the code ---- */

int rank_open(struct ranks_job *job);
/* The same with another address, name or settings; NULL for the usual. */
int rank_open_as(struct ranks_job *job, const char *address, const char *name, const char *settings);
int rank_close(struct ranks_job *job);
void rank_protect(struct ranks_job *job);
/* The bytes of this version, or garbage; and is it there? */
void rank_set(struct ranks_job *job, int64_t version);
void rank_garbage(struct ranks_job *job);
void rank_check(struct ranks_job *job, int64_t version);
void rank_check_garbage(struct ranks_job *job);
int rank_checkpoint(struct ranks_job *job, int64_t version);
int rank_wait(struct ranks_job *job);
/* Garbage first; checks the bytes when it works. Returns the code. */
int rank_restart(struct ranks_job *job, int64_t version);
/* What another call returned. */
int rank_note(struct ranks_job *job, const char *call, int code, int64_t version);
/* open, protect, checkpoints 1 to value, close. */
void rank_make_store(struct ranks_job *job);

#endif
