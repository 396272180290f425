/* What shows that an attempt was committed although it has no record.
 *
 * All packs alone show nothing once its session has made a newer checkpoint: the commit may have failed, and then it
 * was given up without a trace. But a session names only what was committed: as the parent of the next checkpoint,
 * in its dependencies, in a heartbeat; and the catalogue is made from records. */
#include "lifecycle/lifecycle.h"

int vv_committed_by_record(struct vv_attempts *set, const struct vv_record *record) {
    int rc = record->parent.generation ? vv_attempts_add(set, &record->parent) : 0;
    for (uint32_t i = 0; rc == 0 && i < record->dependency_count; i++)
        rc = vv_attempts_add(set, &record->dependencies[i].attempt);
    return rc;
}

int vv_committed_by_heartbeat(struct vv_attempts *set, const struct vv_heartbeat *heartbeat) {
    return heartbeat->refers.generation ? vv_attempts_add(set, &heartbeat->refers) : 0;
}

int vv_committed_by_catalogue(struct vv_attempts *set, const struct vv_catalogue *catalogue) {
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < catalogue->count; i++)
        if (!catalogue->list[i].is_tombstone)
            rc = vv_attempts_add(set, &catalogue->list[i].attempt);
    return rc;
}
