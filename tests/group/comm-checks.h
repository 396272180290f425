/* What every struct varve_comm must do (varve_comm.h), checked by the ranks themselves: the forked group and MPI run
 * the same. */
#ifndef VARVE_COMM_CHECKS_H
#define VARVE_COMM_CHECKS_H

#include <varve/varve_comm.h>

/* Collective. Returns NULL, or what this rank found wrong; the string is constant. */
const char *comm_checks(struct varve_comm *comm);
/* Only some of them, for a second look. */
const char *comm_checks_again(struct varve_comm *comm);

#endif
