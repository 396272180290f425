/* Records, and how an attempt becomes one (docs/format.md 10).
 *
 * The order in vv_votes_commit is the safety. The packs are durable before the claims and the parent are looked at.
 * If the parent's record is forgotten after that look, a prune that does not find it lists the data later than that,
 * finds the packs, and either keeps all they depend on or takes the record's key with a tombstone before it removes
 * anything. The last step, creating the record, is the only one that decides; whoever sleeps before it finds the key
 * taken when he wakes too late. */
#include "lifecycle/commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/fault.h"
#include "base/search.h"
#include "base/thread.h"
#include "lifecycle/lifecycle.h"

/* ---- the checks ---- */

static const struct vv_hash128 *find_dependency(const struct vv_record *parent, const struct vv_attempt *attempt) {
    const struct vv_dependency *list = parent->dependencies;
    uint32_t at, count = parent->dependency_count;
    VV_SEARCH(at, 0, count, vv_attempt_compare(&list[at].attempt, attempt) < 0);
    return at < count && vv_attempt_compare(&list[at].attempt, attempt) == 0 ? &list[at].writers_digest : NULL;
}

/* The parent's record proves that what it depends on exists; it proves nothing about anything else. */
static int check_dependencies(const struct vv_record *record, const struct vv_record *parent,
                              struct varve_error *error) {
    for (uint32_t i = 0; i < record->dependency_count; i++) {
        const struct vv_dependency *dependency = &record->dependencies[i];
        int is_parent = parent && vv_attempt_compare(&dependency->attempt, &record->parent) == 0;
        const struct vv_hash128 *digest = is_parent ? &parent->writers_digest
                                          : parent  ? find_dependency(parent, &dependency->attempt)
                                                    : NULL;
        if (!digest || !vv_hash128_equal(*digest, dependency->writers_digest))
            return vv_error(error, VARVE_CORRUPT,
                            "the attempt depends on generation %u, version %" PRIu64
                            ", attempt %u, on which its parent does not depend in the same way",
                            dependency->attempt.generation, dependency->attempt.version, dependency->attempt.attempt);
    }
    return 0;
}

int vv_parent_check(struct vv_store *store, const char *name, const struct vv_record *record,
                    struct varve_error *error) {
    const struct vv_attempt *parent = &record->parent;
    struct vv_record found;
    if (parent->generation == 0)
        return check_dependencies(record, NULL, error);
    int rc = vv_record_load(store, name, parent->generation, parent->version, &found, error);
    if (rc == VARVE_NO_CHECKPOINT || rc == VARVE_FORGOTTEN)
        return vv_error(error, VARVE_FORGOTTEN,
                        "the checkpoint this one was made after was forgotten: generation %u, version %" PRIu64
                        " of %s",
                        parent->generation, parent->version, name);
    if (rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT) {
        /* It vouches for nothing any more. The session must go on without it, as if it were forgotten. */
        vv_log(store->log, VV_LOG_WARN, "the record of the parent cannot be used: %s", error ? error->text : "");
        return vv_error(error, VARVE_FORGOTTEN,
                        "the record of the parent, generation %u, version %" PRIu64 " of %s, is damaged",
                        parent->generation, parent->version, name);
    }
    if (rc < 0)
        return rc;
    if (found.attempt != parent->attempt)
        rc = vv_error(error, VARVE_CORRUPT,
                      "the parent, generation %u, version %" PRIu64 " of %s, was committed by attempt %u, not %u",
                      parent->generation, parent->version, name, found.attempt, parent->attempt);
    else
        rc = check_dependencies(record, &found, error);
    vv_record_clear(&found);
    return rc;
}

/* ---- the two objects ---- */

/* Another one (a former try, or an adopter) may have made the list. Then it has the same bytes; but perhaps he died
 * before it was durable, so it is made so now. */
static int confirm_writers(struct vv_store *store, const struct vv_key *key, const struct vv_buf *bytes,
                           struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    struct vv_tombstone given_up;
    struct vv_buf found;
    vv_key_print(key, text);
    vv_buf_init(&found);
    int rc = vv_object_read(store, key, &found, error);
    if (rc == 0 && vv_tombstone_parse(found.data, found.size, key, store->id, &given_up, NULL) == 0)
        rc = vv_error(error, VARVE_FORGOTTEN, "%s is a tombstone: its session has given the attempt up", text);
    if (rc == 0 && (found.size != bytes->size || memcmp(found.data, bytes->data, bytes->size) != 0))
        rc = vv_error(error, VARVE_CORRUPT, "%s exists, but is not what the footers of its packs give", text);
    if (rc == 0 && (rc = vv_backend_sync(store->backend, text)) < 0)
        vv_error_sys(error, rc, "cannot make %s durable", text);
    vv_buf_clear(&found);
    return rc;
}

int vv_commit_list(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                   const struct vv_writers *writers, struct varve_error *error) {
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_buf buf;
    int rc = VV_FAULT("store.writers.before_create");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot create the writers list");
    vv_buf_init(&buf);
    vv_writers_encode(&buf, &key, store->id, writers, NULL);
    rc = vv_object_create(store, &key, &buf, error);
    if (rc == -EEXIST)
        rc = confirm_writers(store, &key, &buf, error);
    vv_buf_clear(&buf);
    if (rc == 0 && (rc = VV_FAULT("store.writers.after_create")) < 0)
        vv_error_sys(error, rc, "cannot create the writers list");
    return rc;
}

/* An adopter made the record, and may have died before it was durable. */
static int sync_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                       struct varve_error *error) {
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_RECORD, 0, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    vv_error_clear(error);
    int rc = vv_backend_sync(store->backend, text);
    return rc < 0 ? vv_error_sys(error, rc, "cannot make %s durable", text) : 0;
}

/* May the record of this attempt be made? 0; 1 when it is there; -EEXIST when another attempt has it, VARVE_FORGOTTEN
 * for a tombstone. */
static int look_at_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                          struct varve_error *error) {
    struct vv_record found;
    int rc = vv_record_load(store, name, attempt->generation, attempt->version, &found, error);
    if (rc == VARVE_NO_CHECKPOINT) {
        vv_error_clear(error);
        return 0;
    }
    if (rc < 0)
        return rc;
    rc = found.attempt == attempt->attempt
             ? 1
             : vv_error(error, -EEXIST, "generation %u, version %" PRIu64 " of %s was committed by attempt %u already",
                        attempt->generation, attempt->version, name, found.attempt);
    vv_record_clear(&found);
    return rc;
}

/* The key is taken: by a record of this attempt, and then the commit has succeeded, or by something else. */
static int explain_taken(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                         struct varve_error *error) {
    int rc = look_at_record(store, name, attempt, error);
    if (rc == 0)
        return vv_error(error, -EAGAIN, "the record's key was taken and is free again; try again");
    return rc < 0 ? rc : sync_record(store, name, attempt, error);
}

/* An error here other than -EEXIST leaves it open whether the record exists. To find it there would not help: it may be
 * visible and yet not durable, so it is never reported as success. */
int vv_commit_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                     const struct vv_record *record, struct varve_error *error) {
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_RECORD, 0, 0);
    struct vv_buf buf;
    int rc = VV_FAULT("store.record.before_create");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot create the record");
    vv_buf_init(&buf);
    vv_record_encode(&buf, &key, store->id, record);
    rc = vv_object_create(store, &key, &buf, error);
    vv_buf_clear(&buf);
    if (rc == -EEXIST)
        rc = explain_taken(store, name, attempt, error);
    if (rc == 0 && (rc = VV_FAULT("store.record.after_create")) < 0)
        vv_error_sys(error, rc, "cannot create the record");
    return rc;
}

int vv_votes_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                    const struct vv_writers *writers, struct vv_record *record, struct varve_error *error) {
    int rc = vv_commit_list(store, name, attempt, writers, error);
    return rc < 0 ? rc : vv_commit_record(store, name, attempt, record, error);
}

static int check_to_commit(struct vv_store *store, struct vv_lease *lease, const char *name,
                           const struct vv_record *record, struct varve_error *error) {
    int rc = VV_FAULT("store.commit.before_claims");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot commit");
    if ((rc = vv_lease_check(lease, error)) < 0)
        return rc;
    if ((rc = VV_FAULT("store.commit.before_parent")) < 0)
        return vv_error_sys(error, rc, "cannot commit");
    return vv_parent_check(store, name, record, error);
}

int vv_commit_check(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_attempt *attempt,
                    const struct vv_record *record, struct varve_error *error) {
    int rc = check_to_commit(store, lease, name, record, error);
    if (rc == 0)
        rc = look_at_record(store, name, attempt, error);
    return rc < 0 ? rc : 0;
}

int vv_commit_refuse(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                     struct varve_error *error) {
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_RECORD, 0, 0);
    int rc = vv_tombstone_create(store, &key, VV_TOMBSTONE_PRUNED, error);
    return rc == -EEXIST ? 0 : rc < 0 ? rc : 1;
}

int vv_votes_commit(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_attempt *attempt,
                    const struct vv_writers *writers, struct vv_record *record, struct varve_error *error) {
    int rc = check_to_commit(store, lease, name, record, error);
    return rc < 0 ? rc : vv_votes_record(store, name, attempt, writers, record, error);
}
