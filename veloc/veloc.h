/* VELOC's calls, done by Varve: a program that uses them is compiled again with this header and linked with
 * -lvarve_veloc -lvarve_mpi -lvarve (pkg-config varve-veloc). docs/from-veloc.md has the calls one by one, the keys of
 * the configuration file, and what differs.
 *
 * Calls return VELOC_SUCCESS or VELOC_FAILURE unless told otherwise, and print why they fail. After VELOC_Init all of
 * them are collective but those that say "local"; after VELOC_Init_single none is. */
#ifndef VARVE_VELOC_H
#define VARVE_VELOC_H

#include <string.h>
#include <varve/varve_mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)
#define VELOC_MAX_NAME (1024) /* room for what VELOC_Route_file returns */

/* Which regions VELOC_Checkpoint_selective and VELOC_Recover_selective mean: all, those of ids, all but those. */
#define VELOC_CKPT_ALL (0)
#define VELOC_CKPT_SOME (1)
#define VELOC_CKPT_REST (2)
#define VELOC_RECOVER_ALL (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)

/* What VELOC_Init calls: it tells which MPI the program is compiled with. */
VARVE_API int varve_veloc_init(const struct varve_mpi_kind *kind, const void *mpi, const char *cfg_file);
static inline int VELOC_Init(MPI_Comm comm, const char *cfg_file) {
    const struct varve_mpi_kind kind = VARVE_MPI_KIND;
    return varve_veloc_init(&kind, &comm, cfg_file);
}
VARVE_API int VELOC_Init_single(unsigned int id, const char *cfg_file); /* local: a process for itself */
VARVE_API int VELOC_Finalize(int drain); /* before MPI_Finalize; waits in any case until all is stored */

/* Local. Protecting an id again gives it a new place and size. A region with a name is for checkpoints of that name
 * only; if a name has such regions, its checkpoints hold no others. */
VARVE_API int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);
VARVE_API int VELOC_Mem_unprotect(int id);
VARVE_API int VELOC_Mem_clear(void);
VARVE_API int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name);
VARVE_API int VELOC_Region_unprotect(int id, const char *name);
VARVE_API int VELOC_Region_clear(const char *name);

/* Local. Between begin and end of a checkpoint or a restart: where this rank's file of it is written, or read. */
VARVE_API int VELOC_Route_file(const char *original, char *routed);
VARVE_API int VELOC_Cleanup(const char *name); /* local: files of this rank that crashed runs have left in scratch */

VARVE_API int VELOC_Checkpoint(const char *name, int version);
VARVE_API int VELOC_Checkpoint_begin(const char *name, int version);
VARVE_API int VELOC_Checkpoint_selective(int mode, int *ids, int id_count); /* local */
VARVE_API int VELOC_Checkpoint_mem(void);                                   /* local */
VARVE_API int VELOC_Checkpoint_end(int success);
VARVE_API int VELOC_Checkpoint_wait(void);
VARVE_API int VELOC_Checkpoint_finished(void); /* 1, or 0 while one is still being stored; VELOC_FAILURE if it failed */

/* The newest version that was read back and is whole on all ranks, or VELOC_FAILURE. Above 0, `version` is the highest
 * one that is wanted; if this run has restored it already, only older ones are. If it could not look, because the store
 * is away, busy or cannot be read, no checkpoint of this name is begun until a later call could. */
VARVE_API int VELOC_Restart_test(const char *name, int version);
VARVE_API int VELOC_Restart(const char *name, int version);
VARVE_API int VELOC_Restart_begin(const char *name, int version);
VARVE_API int VELOC_Recover_selective(int mode, int *ids, int id_count);
VARVE_API int VELOC_Recover_mem(void);
VARVE_API int VELOC_Recover_size(int id); /* local: bytes that are stored; -1 if there are none, or more than an int */
VARVE_API int VELOC_Restart_end(int success);

#ifdef __cplusplus
}
#endif
#endif
