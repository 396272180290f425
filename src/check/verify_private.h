/* Inside verify: what its files share. */
#ifndef VV_VERIFY_PRIVATE_H
#define VV_VERIFY_PRIVATE_H

#include "check/verify.h"
#include "lifecycle/lifecycle.h"
#include "read/view_parts.h"

enum vv_seen_state { VV_SEEN_RECORD, VV_SEEN_TOMBSTONE, VV_SEEN_DAMAGED };
struct vv_seen_record {
    struct vv_attempt attempt; /* attempt number only of records */
    int state;
};
struct vv_bad_pack {
    struct vv_attempt attempt;
    uint32_t writer;
};

struct vv_verifier {
    struct vv_store *store;
    const struct vv_verify_options *options;
    struct vv_verify_result result;
    uint64_t done; /* bytes, for progress */
    uint64_t total;
    /* of the name at hand */
    char name[VV_NAME_MAX + 1];
    struct vv_pack_cache *cache;
    struct vv_buf records;        /* struct vv_seen_record, newest first */
    struct vv_buf bad_packs;      /* struct vv_bad_pack */
    struct vv_attempts attempts;  /* that have data */
    struct vv_attempts inspected; /* whose writers and packs were looked for */
    struct vv_attempts committed; /* that something else than their record shows to have been committed */
    struct vv_residents *residents;
    uint64_t elsewhere; /* packs on other nodes */
};

void vv_verify_finding(struct vv_verifier *verifier, int level, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* One node's store? */
int vv_verify_is_local(const struct vv_verifier *verifier);
/* Something about an object failed with rc: damage, something newer, or gone meanwhile. 0 to go on, or the error
 * with which verify must end (no memory). */
int vv_verify_evaluate(struct vv_verifier *verifier, const char *key, int rc, const struct varve_error *why);
/* bytes more are done. -EINTR when the caller wants no more. */
int vv_verify_progress(struct vv_verifier *verifier, uint64_t bytes);

/* Everything in a pack and its parts; a tombstone in its place; a copy; parity. 0 or the error with which verify must
 * end. */
int vv_verify_pack(struct vv_verifier *verifier, const struct vv_key *key);
int vv_verify_copy(struct vv_verifier *verifier, const struct vv_key *key);
int vv_verify_parity(struct vv_verifier *verifier, const struct vv_key *key);

/* One checkpoint: its objects are there, runs resolve, digests are right. */
int vv_verify_checkpoint(struct vv_verifier *verifier, const struct vv_attempt *attempt);
/* Of a checkpoint that can be read: arrays of which elements are missing, or stored twice and not alike, are noted. */
int vv_verify_arrays(struct vv_verifier *verifier, struct vv_view *view, const char *key);
/* Attempts with data that no record commits. */
int vv_verify_unrecorded(struct vv_verifier *verifier);

/* What of a checkpoint cannot be read (verify_lost.c). */
struct vv_unreadable {
    uint64_t count;
    uint64_t named; /* of them, in names */
    char names[200];
    struct varve_error first;
};
/* region: NULL for all of the rank. */
void vv_unreadable_add(struct vv_unreadable *lost, const char *region, uint32_t rank, const struct varve_error *why);
/* Who, and why the first of them; returns the code of that. */
int vv_unreadable_error(const struct vv_unreadable *lost, struct varve_error *error);

#endif
