/* What all ranks have stored, by name: for those that know no more than the store when they come. */
#ifndef VV_STORED_NAMES_H
#define VV_STORED_NAMES_H

#include "base/array.h"
#include "restart/restart_private.h"

struct vv_stored_name {
    char *name;
    enum varve_distribution how; /* as it was said when it was stored */
    int is_mixed;                /* the ranks have said different things: nobody knows what it is */
    struct vv_array *array;      /* all of an array, or of a list; else as the lowest rank has it; or NULL */
    uint64_t bytes;              /* of a list: of all ranks; else of the lowest rank */
    uint64_t total;              /* of all ranks, whatever it is */
    uint32_t owner;              /* the lowest rank that has it */
};
struct vv_stored_list {
    struct vv_stored_name *list; /* ascending names */
    size_t count, capacity;
};
/* Begins as zeros. */
struct vv_stored_names {
    struct vv_stored_list all; /* the same on all ranks, once they are merged */
    struct vv_stored_list own; /* what the rank of this number has stored */
};

/* The descriptions of this rank's share of the ranks that have stored it, its own among them. */
int vv_names_read(struct vv_stored_names *names, struct vv_view *view, const struct varve_comm *comm,
                  struct varve_error *error);
/* Those of all ranks. Collective. */
int vv_names_merge(struct vv_stored_names *names, struct varve_comm *comm, struct varve_error *error);
/* NULL: that rank has none of this name. */
const struct vv_stored_name *vv_names_own(const struct vv_stored_names *names, const char *name);
/* array is filled, and part of the answer. */
void vv_names_tell(const struct vv_stored_name *entry, struct varve_array *array, struct varve_region_info *out);
void vv_names_clear(struct vv_stored_names *names);

#endif
