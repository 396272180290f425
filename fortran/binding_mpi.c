/* The C side of varve_open_mpi for Fortran: the only part that needs MPI. */
#include "binding_mpi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <varve/varve_mpi.h>

/* Both kinds of handle are what MPI_Comm_f2c takes. Anything else of that size is a mistake of the program. */
static int read_comm(const CFI_cdesc_t *comm, MPI_Comm *out) {
    CFI_type_t type = comm->type & CFI_type_mask;
    MPI_Fint handle;
    if (comm->rank != 0 || comm->elem_len != sizeof handle || type == CFI_type_Real || type == CFI_type_Logical ||
        type == CFI_type_Complex || type == CFI_type_Character)
        return -EINVAL;
    memcpy(&handle, comm->base_addr, sizeof handle);
    *out = MPI_Comm_f2c(handle);
    return 0;
}

int varve_fortran_open_mpi(const CFI_cdesc_t *comm, const char *store, const char *name, const char *settings,
                           struct fortran_session *self, struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    MPI_Comm mpi;
    if (read_comm(comm, &mpi) != 0) {
        *error = (struct varve_error){.code = -EINVAL, .rank = -1};
        snprintf(error->text, sizeof error->text, "varve_open_mpi: comm is neither an integer nor a type(MPI_Comm)");
        return -EINVAL;
    }
    options.settings = settings;
    int rc = varve_fortran_check_closed(self, error);
    return rc ? rc : varve_open_mpi(mpi, store, name, &options, &self->session, error);
}
