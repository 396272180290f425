/* Varve for jobs without MPI whose ranks find each other by the environment, as torchrun sets it: RANK, WORLD_SIZE,
 * MASTER_ADDR and MASTER_PORT. Link with -lvarve_env -lvarve (pkg-config varve-env).
 *
 *     struct varve_session *s;
 *     struct varve_error error;
 *     if (varve_open_env("/scratch/ck", "train", NULL, &s, &error) != 0)
 *         die(error.text);                                   // all ranks, or none
 *     varve_protect(s, "weights", w, n * sizeof *w);         // and all the rest as in varve_mpi.h
 *
 * The ranks talk over TCP. Rank 0 listens at VARVE_PORT, or else at MASTER_PORT + VARVE_ENV_PORT_OFFSET, until all
 * ranks have come. Without a secret (VARVE_SECRET, or a file named by VARVE_SECRET_FILE) everybody that reaches the
 * port meanwhile may join the job. Nothing is encrypted. See varve_env(3).
 *
 * A job of one rank (WORLD_SIZE=1) uses no network. */
#ifndef VARVE_ENV_H
#define VARVE_ENV_H

#include <varve/varve.h>
#include <varve/varve_comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* MASTER_PORT itself is taken, by torch's store. Below 65536: where the sum is not, this is subtracted. */
#define VARVE_ENV_PORT_OFFSET 1000

/* varve_open for all ranks of the job: collective. Rank 0's settings hold for the job. A job may have several sessions,
 * opened in the same order on all ranks. */
VARVE_API int varve_open_env(const char *store, const char *name, const struct varve_options *options,
                             struct varve_session **out, struct varve_error *error);

/* Who this process is, for programs that have another way to tell all ranks so: a process group of torch, for example,
 * whose rank 0 sends the others a free port and a secret. */
struct varve_env {
    size_t size; /* sizeof(struct varve_env) */
    uint32_t rank, ranks;
    const char *host;   /* of rank 0; may be NULL for a job of one */
    uint16_t port;      /* where rank 0 listens until all ranks have come */
    const char *secret; /* at least 16 bytes; NULL: none */
};
/* varve_open_env, told by the program: RANK, WORLD_SIZE, MASTER_ADDR, the ports and the secret of the environment do
 * not count. */
VARVE_API int varve_open_env_as(const struct varve_env *self, const char *store, const char *name,
                                const struct varve_options *options, struct varve_session **out,
                                struct varve_error *error);

/* The group alone, without a session: collective. The caller ends it with its ops->close, or gives it to
 * varve_open_comm. For programs that have no other way to talk. error may be NULL. On failure *out is NULL. */
VARVE_API int varve_comm_env(struct varve_comm **out, struct varve_error *error);

#ifdef __cplusplus
}
#endif
#ifdef VARVE_HPP /* included before this one: open_env is still to come */
#include <varve/varve.hpp>
#endif
#endif
