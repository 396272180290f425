/* Memory that the ranks of a node share.
 *
 * The first rank of each node makes it (memfd) and tells the others where to find it; nothing has a name in a file
 * system, so nothing is left when a job is killed. */
#ifndef VV_NODE_MEMORY_H
#define VV_NODE_MEMORY_H

#include <stddef.h>

#include "comm/comm.h"

struct vv_node_memory;

/* Zeroed memory, page-aligned, only as far used as it is touched. Each node's ranks give the same size, not 0.
 * failed: why this rank cannot use it, with its error, or 0; then nobody gets any. Collective over the whole group; the
 * same code everywhere: 0, -ENOTSUP where ranks of a node cannot share memory (or the group cannot exchange messages,
 * or knows no nodes), or another error. On failure error tells why. */
int vv_node_memory_open(struct varve_comm *comm, int failed, size_t size, struct vv_node_memory **out,
                        struct varve_error *error);
/* The same, but whoever touches what the node does not have does not die by SIGBUS: the first `begin` bytes are there
 * from the beginning, the others after vv_node_memory_add. Where the node has less, it fails. */
int vv_node_memory_reserve(struct varve_comm *comm, int failed, size_t size, size_t begin, struct vv_node_memory **out,
                           struct varve_error *error);
/* Not collective. `size` bytes from `offset` on are there now: 0, or they are not. */
int vv_node_memory_add(const struct vv_node_memory *memory, size_t offset, size_t size);
void *vv_node_memory_at(const struct vv_node_memory *memory);
/* Does the process that runs number `local` of this node still live? Not to be able to tell counts as yes. Cheap
 * enough for once a second. */
int vv_node_memory_is_alive(const struct vv_node_memory *memory, uint32_t local);
/* Not collective: each rank for itself; accepts NULL. */
void vv_node_memory_close(struct vv_node_memory *memory);

#endif
