/* A group of processes for tests, without mpirun.
 *
 * It stands in for MPI's message passing and for nothing else: every rank is a process of its own, kills are real
 * kills, and the store is a real store. Messages go through memory that the processes share, so that a group starts and
 * ends in a few milliseconds and thousands of crash points are cheap. As with MPI, who has sent its part goes on before
 * the others have received it. tests/mpi repeats a sample of all this under mpirun.
 *
 * When a rank ends badly (a signal, or an exit code that is not 0), the others are killed with SIGKILL a short moment
 * later, as mpirun does. More strict than MPI: ranks that make different calls, or give different sizes, are told so,
 * and end with 1. */
#ifndef VARVE_GROUP_H
#define VARVE_GROUP_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve_comm.h>

#define GROUP_RANKS_MAX 64

/* What a rank does. comm lives until it returns, which ends the process with 0; sessions take one from group_comm. */
typedef void (*group_fn)(struct varve_comm *comm, void *arg);

struct group_options {
    unsigned grace_ms;       /* how long the others live on after a rank has died */
    int is_noticed;          /* meanwhile their calls fail with -ECOMM; otherwise they wait for the dead one */
    unsigned seconds;        /* a rank that takes longer is killed by SIGALRM; 0: 120 */
    uint32_t ranks_per_node; /* the first so many ranks are on node 0, and so on; 0: all on one node */
    const uint32_t *node_of; /* instead, per rank: those with the same number share a node; it need not be the node's */
    int has_second;          /* comms have a second one, as MPI_THREAD_MULTIPLE gives it */
};

struct group_end {
    uint32_t ranks;
    int status[GROUP_RANKS_MAX]; /* as from waitpid */
    int first;                   /* the rank that ended badly before all others; -1 if all ended well */
};

/* Run fn in `ranks` children and wait for all of them. options may be NULL. Returns 0 when all ended with 0, else -1.
 */
int group_run(uint32_t ranks, group_fn fn, void *arg, const struct group_options *options, struct group_end *end);
/* "rank 2 was killed by signal 9, rank 0 ended with 1": only those that ended badly, the first one first. */
void group_describe(const struct group_end *end, char *text, size_t capacity);

/* The same in a test of cmocka, which fails unless all ended well. about, which may be NULL, says what was run. */
void group_must_run(uint32_t ranks, group_fn fn, const void *arg, const struct group_options *options,
                    const char *about);

/* In a rank: one more group of the same processes, as MPI_Comm_dup makes it, for varve_open_comm. Whoever closes it
 * frees it. */
struct varve_comm *group_comm(struct varve_comm *comm);
/* In a rank: say why and end with 1. */
void group_fail(const struct varve_comm *comm, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

/* Zeroed memory that the ranks of later groups share with each other and with us. */
void *group_memory(size_t size);
void group_memory_free(void *memory, size_t size);

#endif
