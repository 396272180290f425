/* Between repair.c and repair_record.c. */
#ifndef VV_REPAIR_PRIVATE_H
#define VV_REPAIR_PRIVATE_H

#include "check/verify.h"
#include "lifecycle/lifecycle.h"

struct vv_repair {
    struct vv_store *store;
    const struct vv_repair_options *options;
    const char *name;
    struct varve_error *error; /* never NULL */
    int repairs;
    struct vv_dependency
        *dependencies; /* every attempt a record of the name reaches, with the digest of its writers list */
    size_t dependency_count;
    size_t dependency_capacity;
    struct vv_attempts committed; /* what something else than their records shows to have been committed */
    struct vv_lease *lease;       /* of the name; taken for the first record that must be made */
};

void vv_repair_report(struct vv_repair *repair, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* After each step: may it go on? */
int vv_repair_go_on(struct vv_repair *repair);
/* Put rebuilt bytes under key: in place of a damaged object, or where there is none. Counts and reports. */
int vv_repair_put(struct vv_repair *repair, const struct vv_key *key, const struct vv_buf *bytes, int is_missing,
                  const char *from);
/* The record reaches its own attempt and what it depends on. */
int vv_repair_reach(struct vv_repair *repair, const struct vv_attempt *own, const struct vv_record *record);

int vv_repair_read_writers(struct vv_repair *repair, const struct vv_key *key, struct vv_writers *out,
                           struct varve_error *why);
/* Damaged records; fills dependencies and committed. */
int vv_repair_records(struct vv_repair *repair);
/* Records that are missing although everything of the checkpoint is there. */
int vv_repair_lost(struct vv_repair *repair);

#endif
