/* What the leaders of a job do together (job/leaders.c), by one process: it reads all votes, and commits. */
#ifndef COMMIT_VOTES_H
#define COMMIT_VOTES_H

#include "lifecycle/lifecycle.h"

static inline int commit_votes(struct vv_store *store, struct vv_lease *lease, const char *name,
                               const struct vv_attempt *attempt, struct vv_record *record_out,
                               struct varve_error *error) {
    struct vv_writers writers;
    struct vv_record record;
    int rc = vv_votes_read(store, name, attempt, &writers, &record, error);
    if (rc != 1)
        return rc < 0 ? rc : VARVE_DISAGREED;
    rc = vv_votes_commit(store, lease, name, attempt, &writers, &record, error);
    vv_writers_clear(&writers);
    if (rc == 0 && record_out)
        *record_out = record;
    else
        vv_record_clear(&record);
    return rc;
}

#endif
