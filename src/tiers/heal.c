/* A restart has met a damaged checkpoint in the first store: a tier that has it whole gives it back, as a generation of
 * its own, and the damaged one is forgotten then. Nothing is written over anything.
 *
 * The session holds the claim, so the copy is made with that. It gets a generation to itself: the session may have made
 * the damaged version in its own, and may make lower ones later. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lifecycle/commit.h"
#include "lifecycle/lifecycle.h"
#include "store/listing.h"
#include "tiers/tiers_private.h"

struct healing {
    struct vv_tiers *tiers;
    struct vv_store *first;
    struct vv_lease *lease;
    const struct vv_attempt *damaged;
    uint64_t time_ns;      /* when it was saved; 0: its record cannot be read */
    uint64_t floor_ns;     /* when the last of the others was */
    struct vv_store *from; /* of the tier at hand */
    struct vv_attempt found;
    struct varve_error *error;
};

static int note_time(void *arg, uint32_t generation, uint64_t version) {
    struct healing *healing = arg;
    struct vv_record record;
    int is_damaged = generation == healing->damaged->generation && version == healing->damaged->version;
    int rc = vv_record_load(healing->first, healing->tiers->name, generation, version, &record, healing->error);
    if (rc < 0) {
        vv_error_clear(healing->error);
        return rc == -ENOMEM ? rc : 0;
    }
    if (is_damaged)
        healing->time_ns = record.time_ns;
    else if (record.time_ns > healing->floor_ns)
        healing->floor_ns = record.time_ns;
    vv_record_clear(&record);
    return 0;
}

/* Its record cannot tell when it was saved; its packs can. */
static void ask_packs(struct healing *healing) {
    const char *name = healing->tiers->name;
    struct vv_attempt attempt = *healing->damaged;
    struct vv_numbers attempts = {0};
    int rc = vv_data_list(healing->first, name, &attempt, 2, &attempts, healing->error);
    for (size_t i = attempts.count; rc == 0 && healing->time_ns == 0 && i-- > 0;) {
        struct vv_writers writers;
        struct vv_record record;
        attempt.attempt = (uint32_t)attempts.list[i];
        if (vv_votes_read(healing->first, name, &attempt, &writers, &record, healing->error) != 1)
            continue;
        healing->time_ns = record.time_ns;
        vv_writers_clear(&writers);
        vv_record_clear(&record);
    }
    vv_numbers_clear(&attempts);
    vv_error_clear(healing->error);
}

/* A job that went back made the same version twice: it must be this one. If nothing tells, what was saved after all
 * others is it. */
static int is_it(const struct healing *healing, uint64_t time_ns) {
    return healing->time_ns ? time_ns == healing->time_ns : time_ns > healing->floor_ns;
}

static int take_it(void *arg, uint32_t generation, uint64_t version) {
    struct healing *healing = arg;
    struct vv_record record;
    if (version != healing->damaged->version)
        return 0;
    int rc = vv_record_load(healing->from, healing->tiers->name, generation, version, &record, healing->error);
    if (rc < 0) {
        vv_error_clear(healing->error);
        return rc == -ENOMEM ? rc : 0;
    }
    int is_found = is_it(healing, record.time_ns);
    vv_record_clear(&record);
    if (is_found)
        healing->found = (struct vv_attempt){.generation = generation, .version = version};
    return is_found;
}

/* 1, and *out; 0: it is in the first store already, in another generation. */
static int copy_it(struct healing *healing, const struct vv_tier *tier, struct vv_attempt *out) {
    struct vv_tiers *all = healing->tiers;
    struct vv_pool *pool = NULL;
    struct vv_copy_result result = {.version = 0};
    struct vv_copy_source source = {healing->from, all->name, healing->found.generation, healing->found.version};
    int rc = vv_copy_check_keys(healing->from, tier->address, healing->first, all->address, healing->error);
    if (rc == 0)
        rc = vv_lease_advance(healing->lease, healing->error);
    if (rc == 0 && (rc = vv_pool_create(1, 2, NULL, &pool)) < 0)
        vv_error_sys(healing->error, rc, "cannot start a thread that reads");
    struct vv_copy_options options = {.settings = &all->settings,
                                      .pool = pool,
                                      .may_go_back = 1,
                                      .lease = healing->lease,
                                      .instead = healing->damaged};
    if (rc == 0)
        rc = vv_copy(&source, healing->first, all->name, &options, &result, healing->error);
    vv_pool_destroy(pool);
    *out = (struct vv_attempt){.generation = result.generation, .version = result.version};
    return rc < 0 ? rc : !result.is_there;
}

/* What other checkpoints depend on stays. */
static void forget_damaged(const struct healing *healing) {
    const struct vv_attempt *damaged = healing->damaged;
    const struct vv_tiers *all = healing->tiers;
    struct vv_prune_options pruning = {.buried = damaged, .buried_count = 1};
    struct vv_prune_result result;
    struct varve_error why = {.rank = -1};
    int rc = vv_forget(healing->first, all->name, damaged->generation, damaged->version, &why);
    if (rc == 0)
        rc = vv_prune(healing->first, all->name, &pruning, &result, &why);
    if (rc < 0 && rc != VARVE_FORGOTTEN && rc != VARVE_NO_CHECKPOINT)
        vv_log(all->log, VV_LOG_WARN, "the damaged version %" PRIu64 " of generation %u of %s stays in %s: %s",
               damaged->version, damaged->generation, all->name, all->address, why.text);
}

/* What the session saves from now on is of a later generation than the copy. An error of that is the restart's. */
static int finish_healing(struct healing *healing, const struct vv_tier *tier, const struct vv_attempt *healed) {
    struct vv_tiers *all = healing->tiers;
    int rc = vv_lease_advance(healing->lease, healing->error);
    if (rc < 0)
        return rc;
    forget_damaged(healing);
    pthread_mutex_lock(&all->lock);
    all->counts.healed++;
    pthread_mutex_unlock(&all->lock);
    vv_log_note(all->log, "version %" PRIu64 " of %s, damaged in %s, was copied back from tier %u, %s (generation %u)",
                healed->version, all->name, all->address, tier->number, tier->address, healed->generation);
    return 1;
}

/* 1 healed, 0 this tier cannot, or an error of the restart. */
static int heal_from(struct healing *healing, struct vv_tier *tier, struct vv_attempt *out) {
    const struct vv_tiers *all = healing->tiers;
    healing->found = (struct vv_attempt){0};
    int rc = vv_tier_open_store(healing->tiers, tier->address, &healing->from, healing->error);
    if (rc == 0)
        rc = vv_records_list_whole(healing->from, all->name, take_it, healing, healing->error);
    int is_there = rc == 0 && healing->found.generation;
    rc = is_there ? copy_it(healing, tier, out) : rc;
    vv_store_close(healing->from);
    healing->from = NULL;
    if (rc == 1)
        return finish_healing(healing, tier, out);
    if (rc < 0)
        vv_log(all->log, VV_LOG_WARN, "tier %u, %s, could not give version %" PRIu64 " of %s back: %s", tier->number,
               tier->address, healing->damaged->version, all->name, healing->error->text);
    vv_error_clear(healing->error);
    return rc == VARVE_FENCED ? rc : 0;
}

int vv_tiers_heal(struct vv_tiers *tiers, const struct vv_heal *heal, struct vv_attempt *out,
                  struct varve_error *error) {
    struct healing healing = {
        .tiers = tiers, .first = heal->first, .lease = heal->lease, .damaged = heal->damaged, .error = error};
    struct vv_attempt refers;
    uint32_t before = vv_lease_generation(heal->lease);
    *out = (struct vv_attempt){0};
    vv_lease_refers(heal->lease, &refers);
    int rc = vv_records_list(heal->first, tiers->name, note_time, &healing, error);
    if (rc == 0 && healing.time_ns == 0)
        ask_packs(&healing);
    for (unsigned i = 0; rc == 0 && i < tiers->tier_count; i++)
        rc = heal_from(&healing, &tiers->tiers[i], out);
    if (rc == 0) { /* a try may have named another */
        struct varve_error ignored = {.rank = -1};
        vv_lease_refer(heal->lease, &refers, &ignored);
        *out = (struct vv_attempt){0};
    }
    if (rc == 0 && vv_lease_generation(heal->lease) != before) /* and has left packs, or a tombstone, of this version */
        rc = vv_lease_advance(heal->lease, error);
    return rc;
}
