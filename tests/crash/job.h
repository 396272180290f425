/* The life of a job of several ranks, in which something goes wrong on one of them at a chosen moment; and what must be
 * true afterwards.
 *
 * How the ranks find each other is the caller's business (struct job_way): tests/crash/job-steps.c forks them,
 * tests/mpi/job-kill.c runs under mpirun. Every rank has a world of its own (world.h), salted by its rank but for what
 * all have in common, and writes every answer it gets into a board, a file that survives it. Only the public API is
 * used.
 *
 * The sessions, "handles", in whose storage something may go wrong: 0 saves versions 1 to 3, goes back to 2 and saves
 * on to 4; 1, with keep=3, restarts, goes on, goes back, rejects, and goes on again; 2 opens a store whose last job
 * died between its last pack and its record, so that there is something to adopt, restarts and goes on.
 *
 * With JOB_MOVED the data is the job's (placed.h), and each of these sessions is a job of its own: 0 of four ranks, the
 * others of three. Who looks afterwards has another number of ranks again. */
#ifndef VARVE_CRASH_JOB_H
#define VARVE_CRASH_JOB_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#define JOB_RANKS 4
#define JOB_RANKS_MOVED 3 /* after that, with JOB_MOVED */
#define JOB_RANKS_MAX 6
#define JOB_HANDLES 3
#define JOB_FIRST_SAVED 4 /* the newest version of handle 0 */
#define JOB_ANSWERS_MAX 200
#define JOB_FOLDER 600

/* ---- the board ---- */

enum job_call {
    JOB_NOTHING,
    JOB_OPEN,
    JOB_CHECKPOINT,
    JOB_WAIT,
    JOB_STORED,
    JOB_RESTART,
    JOB_REJECT,
    JOB_CLOSE,
    JOB_SAVED,  /* varve_wait returned 0 for this version */
    JOB_KEEPING /* from now on only the newest records must stay */
};

struct job_answer {
    int32_t call;
    int32_t code;
    int64_t version; /* where the call has one, else -2 */
    int32_t rank;    /* of the error */
    uint32_t text;   /* its hash */
};

struct job_board {
    struct {
        uint64_t count;
        struct job_answer list[JOB_ANSWERS_MAX];
    } ranks[JOB_RANKS_MAX];
    uint64_t allocations[JOB_RANKS_MAX]; /* that each has made, if somebody counts them */
};

/* A board in a new file, or in one that is there; exits when that fails. */
struct job_board *job_board_create(const char *path);
struct job_board *job_board_open(const char *path);
void job_board_close(struct job_board *board);
/* As far as they got, all ranks were told the same: 0, or -1 and the difference in text. */
int job_board_compare(const struct job_board *board, char *text, size_t capacity);

/* ---- the life ---- */

struct job_way {
    int (*open)(void *arg, const char *store, const char *name, const struct varve_options *options,
                struct varve_session **out, struct varve_error *error);
    void (*arm)(const char *point); /* a named fault point; NULL disarms. May itself be NULL. */
    void (*step)(int number);       /* told before each step; may be NULL */
    void *arg;
    int rank, ranks;
    int ends_alone; /* nobody kills the others when a rank has died: they end by themselves */
};

enum job_start { JOB_FRESH, JOB_ADOPTING, JOB_DYING, JOB_FIRST, JOB_SECOND };

struct job_plan {
    char folder[JOB_FOLDER]; /* of the store */
    int nodes;               /* 0: one store for all ranks; else each node has its own, in a folder below */
    int has_lost;            /* as below */
    enum job_start start;    /* handles 0 and 1; handle 2; what comes before handle 2; handle 0, or 1, alone */
    int faulty_rank;         /* the rank on which it goes wrong; -1: none */
    int handle;              /* the session whose storage has the fault */
    char fault[64];          /* for its address, as "kill:3"; "" for none */
    char point[160];         /* for way->arm, as "name=kill:3"; "" for none */
    int step;                /* the point is armed in this step only; 0: always */
    char on_error[16];
    int threads;
    int is_tolerant;     /* calls may fail, the job goes on; otherwise a call that fails is a failure of the test */
    int may_lie;         /* storage gives short answers: damage may be reported that is not there */
    int is_coming_again; /* after a checkpoint that failed the job restarts and saves the same version again */
    int is_lasting;      /* the fault does not go away by itself */
};

/* In every rank. Ends the process with 1 when something is not as it should be. */
void job_run(const struct job_way *way, const struct job_plan *plan, struct job_board *board);

/* ---- afterwards ---- */

struct job_after {
    char folder[JOB_FOLDER];
    int nodes;
    int has_lost;                  /* nodes have lost their disks: not all have the records that others have */
    int64_t must[JOB_ANSWERS_MAX]; /* versions that must be there */
    size_t count;
    int64_t newest; /* one at least as new as this must come back; -1: none */
};
/* What any rank was promised. */
void job_after_from(const struct job_board *board, const struct job_plan *plan, struct job_after *out);
/* In every rank of another job. */
void job_after_check(const struct job_way *way, const struct job_after *after, struct job_board *board);

#endif
