/* A group whose ranks are all on one node talks through the memory that they share. No message passing library takes
 * part, so any one thread of a rank may do it: also the session's own, where MPI allows only the program's. */
#ifndef VV_COMM_NEAR_H
#define VV_COMM_NEAR_H

#include "comm/comm.h"

#define VV_NEAR_MOST 64u /* ranks: there is a ring from each to each */

/* The ranks of `group` once more. Collective, the same code everywhere: 0, or -ENOTSUP with the reason where there are
 * several nodes, too many ranks, or no memory to share, or another error. Whoever waits for a rank that has died, or
 * that cannot talk any more, is told so (-ECOMM) after a second or two. `group` stays the caller's, and is not used
 * afterwards. */
int vv_comm_near_open(struct varve_comm *group, struct varve_comm **out, struct varve_error *error);

#endif
