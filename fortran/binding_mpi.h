/* What varve_mpi.f90 calls. */
#ifndef VARVE_FORTRAN_BINDING_MPI_H
#define VARVE_FORTRAN_BINDING_MPI_H

#include "binding.h"

/* comm: an integer of the module mpi, or a type(MPI_Comm) of mpi_f08, which holds such an integer. */
VARVE_API int varve_fortran_open_mpi(const CFI_cdesc_t *comm, const char *store, const char *name, const char *settings,
                                     struct fortran_session *self, struct varve_error *error);

#endif
