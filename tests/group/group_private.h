/* Mailboxes in shared memory, one for each pair of ranks, and the ops of struct varve_comm on top of them. */
#ifndef VARVE_GROUP_PRIVATE_H
#define VARVE_GROUP_PRIVATE_H

#include <varve/varve_comm.h>

struct mailboxes;
struct group_options;

struct mailboxes *mailboxes_create(uint32_t ranks, const struct group_options *options); /* options may be NULL */
void mailboxes_destroy(struct mailboxes *boxes);

/* A comm of this rank; frees itself when closed. */
struct varve_comm *mailboxes_comm(struct mailboxes *boxes, uint32_t rank, uint32_t ranks);
/* The rank sends nothing any more: who waits for it is told that the ranks differ in what they do. */
void mailboxes_leave(struct mailboxes *boxes, uint32_t rank);
/* Somebody has died: calls fail from now on. */
void mailboxes_break(struct mailboxes *boxes);

#endif
