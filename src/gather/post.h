/* The post of a node: a ring from every rank to the writer that it shares with others (its *team*), one back, and one
 * between each two writers.
 *
 * Whoever waits for a process that has died is told so (-ECOMM) after a second or two. */
#ifndef VV_POST_H
#define VV_POST_H

#include "gather/node_memory.h"
#include "gather/ring.h"

struct vv_post;

/* Collective over the whole group, the same code everywhere. Ranks number 0, 1, ... of each node are in `teams` teams.
 */
int vv_post_open(struct varve_comm *comm, uint32_t teams, struct vv_post **out, struct varve_error *error);
void vv_post_close(struct vv_post *post); /* each rank for itself; accepts NULL */

/* One way: who sends through it wakes `bell`, and cares whether number `receiver` of the node is alive. */
struct vv_channel {
    struct vv_post *post;
    struct vv_ring *ring;
    struct vv_doorbell *bell;
    uint32_t receiver;
};
/* From a rank (its number on the node) to its team's writer, who runs in the process of rank `first`; and back. */
struct vv_channel vv_post_up(struct vv_post *post, uint32_t local, uint32_t team, uint32_t first);
struct vv_channel vv_post_down(struct vv_post *post, uint32_t local);
/* From the writer of one team to that of another, who runs in the process of rank `first`. */
struct vv_channel vv_post_across(struct vv_post *post, uint32_t from, uint32_t to, uint32_t first);

/* Send head and data (may be empty) as one message; waits for room. -ECOMM: the receiver has died. -EMSGSIZE: longer
 * than vv_post_longest. */
int vv_post_send(const struct vv_channel *way, const void *head, size_t head_size, const void *data, size_t size);
size_t vv_post_longest(const struct vv_post *post); /* on all ways */
int vv_post_is_alive(const struct vv_post *post, uint32_t local);

/* How much each team has to store: what the writers of a node tell each other. number: of the attempt. */
void vv_post_tell_load(struct vv_post *post, uint32_t team, uint64_t number, uint64_t bytes);
/* 1 and the bytes if it was told for this number, else 0. */
int vv_post_ask_load(const struct vv_post *post, uint32_t team, uint64_t number, uint64_t *bytes_out);
/* The same of each rank, by its number on the node. */
void vv_post_tell_amount(struct vv_post *post, uint32_t local, uint64_t number, uint64_t bytes);
int vv_post_ask_amount(const struct vv_post *post, uint32_t local, uint64_t number, uint64_t *bytes_out);
/* Wake the writers of all teams: a load was told. */
void vv_post_ring_all(struct vv_post *post);

#endif
