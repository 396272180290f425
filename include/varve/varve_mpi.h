/* Varve for MPI programs. The only header that needs MPI; link with -lvarve_mpi -lvarve (pkg-config varve-mpi).
 *
 *     struct varve_session *s;
 *     struct varve_error error;
 *     int64_t step = -1;
 *     if (varve_open_mpi(MPI_COMM_WORLD, "file:///scratch/ck", "heat2d", NULL, &s, &error) != 0)
 *         die(error.text);                                   // all ranks, or none
 *     varve_protect(s, "temperature", t, n * sizeof *t);     // each rank its own part; varve_protect_array also says
 *                                                            // which, so that it can come back on other ranks
 *     int rc = varve_restart(s, VARVE_LATEST, &step);        // the same checkpoint, and the same code, on all ranks
 *     ...
 *     varve_close(s);                                        // before MPI_Finalize
 *
 * The session works on a duplicate of the communicator and calls MPI only inside its collective calls, in the calling
 * thread: MPI_THREAD_FUNNELED will do, or MPI_THREAD_MULTIPLE where sessions are used in several threads at the same
 * time. Where all ranks have MPI_THREAD_MULTIPLE, a thread of the session calls MPI as well, on a second duplicate, and
 * deduplicates and commits in the background; ranks of one node do so through memory they share. MPI errors are
 * returned on the duplicate, not fatal; after one the session is of no use on this rank. MPI must be initialised by
 * MPI_Init or MPI_Init_thread. */
#ifndef VARVE_MPI_H
#define VARVE_MPI_H

#include <mpi.h>
#include <varve/varve.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The MPI that this file is compiled with. Handles of one family mean nothing to another. */
#define VARVE_MPI_WORD(value) #value
#define VARVE_MPI_NUMBER(value) VARVE_MPI_WORD(value)
#if defined(OMPI_MAJOR_VERSION)
#define VARVE_MPI_FAMILY "Open MPI"
#define VARVE_MPI_VERSION VARVE_MPI_NUMBER(OMPI_MAJOR_VERSION) "." VARVE_MPI_NUMBER(OMPI_MINOR_VERSION)
#elif defined(I_MPI_VERSION)
#define VARVE_MPI_FAMILY "MPICH"
#define VARVE_MPI_VERSION "as in Intel MPI"
#elif defined(MPICH_VERSION)
#define VARVE_MPI_FAMILY "MPICH"
#define VARVE_MPI_VERSION MPICH_VERSION
#else
#define VARVE_MPI_FAMILY "other MPI"
#define VARVE_MPI_VERSION "of standard " VARVE_MPI_NUMBER(MPI_VERSION) "." VARVE_MPI_NUMBER(MPI_SUBVERSION)
#endif
#define VARVE_MPI_KIND                                                                                                 \
    { sizeof(MPI_Comm), VARVE_MPI_FAMILY, VARVE_MPI_VERSION }

struct varve_mpi_kind {
    size_t comm_size;    /* bytes of an MPI_Comm */
    const char *family;  /* MPIs of a family have the same mpi.h, as far as programs notice */
    const char *version; /* for people */
};

/* What varve_open_mpi calls; for those who load the library at run time, or call it from another language. mpi points
 * to an MPI_Comm, and kind says whose. */
VARVE_API int varve_open_mpi_of(const struct varve_mpi_kind *kind, const void *mpi, const char *store, const char *name,
                                const struct varve_options *options, struct varve_session **out,
                                struct varve_error *error);

/* varve_open for all ranks of a communicator: collective, and the same result on all of them. Rank 0's settings hold
 * for the job. If the program is compiled with another MPI than libvarve_mpi, VARVE_UNSUPPORTED, and the text names
 * both. */
static inline int varve_open_mpi(MPI_Comm mpi, const char *store, const char *name, const struct varve_options *options,
                                 struct varve_session **out, struct varve_error *error) {
    const struct varve_mpi_kind kind = VARVE_MPI_KIND;
    return varve_open_mpi_of(&kind, &mpi, store, name, options, out, error);
}

#ifdef __cplusplus
}
#endif
#ifdef VARVE_HPP /* included before this one: open_mpi is still to come */
#include <varve/varve.hpp>
#endif
#endif
