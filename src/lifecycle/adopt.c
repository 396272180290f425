/* Adoption: finishing what a dead session had fully written but not recorded (docs/format.md 10).
 *
 * The session with the higher claim takes the same steps as the committer would have, the look at the parent's
 * record included. It must do so before its own heartbeat names a checkpoint: prune lets tombstones go once no session
 * is left that might be adopting (prune.c). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/fault.h"
#include "lifecycle/lifecycle.h"

struct adoption {
    struct vv_store *store;
    struct vv_lease *lease;
    const char *name;
    vv_finish_fn finish;
    void *arg;
    struct varve_error *error;
};

int vv_adopt_is_unfit(int rc) {
    return rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT || rc == VARVE_FORGOTTEN || rc == -EEXIST;
}

/* All votes are in this store. */
static int finish_here(void *arg, const struct vv_attempt *attempt, struct varve_error *error) {
    struct adoption *adoption = arg;
    struct vv_writers writers;
    struct vv_record record;
    int rc = vv_votes_read(adoption->store, adoption->name, attempt, &writers, &record, error);
    if (rc != 1)
        return rc;
    rc = VV_FAULT("store.adopt.before_commit");
    if (rc == 0)
        rc = vv_votes_commit(adoption->store, adoption->lease, adoption->name, attempt, &writers, &record, error);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return rc < 0 ? rc : 1;
}

/* 1 adopted, 0 not a full vote or unfit, or an error. */
static int try_attempt(struct adoption *adoption, const struct vv_attempt *attempt) {
    int rc = adoption->finish(adoption->arg, attempt, adoption->error);
    if (rc < 0 && vv_adopt_is_unfit(rc)) {
        vv_log(adoption->store->log, VV_LOG_WARN,
               "generation %u, version %" PRIu64 ", attempt %u of %s is not adopted: %s", attempt->generation,
               attempt->version, attempt->attempt, adoption->name,
               adoption->error ? adoption->error->text : varve_error_text(rc));
        vv_error_clear(adoption->error);
        return 0;
    }
    if (rc == 1)
        vv_log(adoption->store->log, VV_LOG_INFO,
               "adopted generation %u, version %" PRIu64 " of %s, which its session had written", attempt->generation,
               attempt->version, adoption->name);
    return rc < 0 ? vv_error_default(adoption->error, rc, "cannot adopt: %s", varve_error_text(rc)) : rc;
}

static int try_version(struct adoption *adoption, uint32_t generation, uint64_t version) {
    struct vv_attempt attempt = {.generation = generation, .version = version};
    struct vv_numbers attempts;
    int rc = vv_data_list(adoption->store, adoption->name, &attempt, 2, &attempts, adoption->error);
    for (size_t i = attempts.count; rc == 0 && i > 0; i--) {
        attempt.attempt = (uint32_t)attempts.list[i - 1];
        rc = try_attempt(adoption, &attempt);
    }
    vv_numbers_clear(&attempts);
    return rc;
}

/* ---- what comes into question ---- */

struct settling {
    struct vv_store *store;
    const char *name;
    struct vv_attempt newest;
    struct varve_error *error;
};

/* Does what stands under a record's key show that this version was a checkpoint, or may have been? Only the tombstone
 * that a prune puts in the way of sleepers shows nothing. 1, 0, or an error of the storage. */
static int was_checkpoint(struct settling *settling, const struct vv_attempt *at) {
    struct vv_key key = vv_attempt_key(settling->name, at, VV_KIND_RECORD, 0, 0);
    struct vv_tombstone tombstone = {0};
    struct vv_buf buf;
    key.attempt = 0;
    vv_buf_init(&buf);
    int rc = vv_object_read(settling->store, &key, &buf, settling->error);
    int is_pruned = rc == 0 &&
                    vv_tombstone_parse(buf.data, buf.size, &key, settling->store->id, &tombstone, NULL) == 0 &&
                    tombstone.reason == VV_TOMBSTONE_PRUNED;
    vv_buf_clear(&buf);
    if (rc < 0 && rc != -ENOENT && rc != VARVE_CORRUPT)
        return rc;
    vv_error_clear(settling->error);
    return rc != -ENOENT && !is_pruned;
}

static int take_settled(void *arg, uint32_t generation, uint64_t version) {
    struct settling *settling = arg;
    struct vv_attempt at = {.generation = generation, .version = version};
    int rc = was_checkpoint(settling, &at);
    if (rc == 1)
        settling->newest = at;
    return rc;
}

int vv_settled_newest(struct vv_store *store, const char *name, struct vv_attempt *out, struct varve_error *error) {
    struct settling settling = {.store = store, .name = name, .error = error};
    int rc = vv_records_list(store, name, take_settled, &settling, error);
    *out = settling.newest;
    return rc;
}

int vv_is_adoptable(const struct vv_attempt *settled, const struct vv_attempt *attempt) {
    return settled->generation == 0 || vv_attempt_is_newer(attempt, settled);
}

/* ---- looking for it ---- */

static int try_generation(struct adoption *adoption, uint32_t generation, const struct vv_attempt *settled) {
    struct vv_attempt attempt = {.generation = generation};
    struct vv_numbers versions = {0};
    int rc = vv_data_list(adoption->store, adoption->name, &attempt, 1, &versions, adoption->error);
    for (size_t i = versions.count; rc == 0 && i > 0; i--) {
        attempt.version = versions.list[i - 1];
        if (!vv_is_adoptable(settled, &attempt))
            break;
        rc = try_version(adoption, generation, attempt.version);
    }
    vv_numbers_clear(&versions);
    return rc;
}

/* Generations downwards, as far as they may hold something. */
static int try_generations(struct adoption *adoption) {
    struct vv_numbers generations = {0};
    struct vv_attempt settled;
    int rc = vv_settled_newest(adoption->store, adoption->name, &settled, adoption->error);
    if (rc == 0)
        rc = vv_data_list(adoption->store, adoption->name, &settled, 0, &generations, adoption->error);
    for (size_t i = generations.count; rc == 0 && i > 0 && generations.list[i - 1] >= settled.generation; i--) {
        uint32_t generation = (uint32_t)generations.list[i - 1];
        if (generation != 0 && generation < vv_lease_generation(adoption->lease))
            rc = try_generation(adoption, generation, &settled);
    }
    vv_numbers_clear(&generations);
    return rc;
}

int vv_adopt(struct vv_store *store, struct vv_lease *lease, const char *name, struct varve_error *error) {
    struct varve_error own = {0};
    struct adoption adoption = {
        .store = store, .lease = lease, .name = name, .finish = finish_here, .error = error ? error : &own};
    adoption.arg = &adoption;
    return try_generations(&adoption);
}

int vv_adopt_with(struct vv_store *store, struct vv_lease *lease, const char *name, vv_finish_fn finish, void *arg,
                  struct varve_error *error) {
    struct varve_error own = {0};
    struct adoption adoption = {
        .store = store, .lease = lease, .name = name, .finish = finish, .arg = arg, .error = error ? error : &own};
    return try_generations(&adoption);
}
