/* From a tier to the first store, when that has lost what the tier has.
 *
 * Generations of two stores are not comparable, but copies keep the version and the time of what they are copies of. A
 * tier is ahead if the first store has nothing of the name, or if both are higher there. If only the time is, and the
 * first store does not have that checkpoint, the job went on elsewhere and began at a lower version: nobody but its
 * user knows which of the two lines shall stay. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lifecycle/commit.h"
#include "tiers/tiers_private.h"

#define ADVICE_ADDRESS 100 /* bytes: what is advised is part of an error, too */

/* ---- looking ---- */

/* The newest record that cannot be read; rc 0: there is none. */
struct unread {
    uint64_t version;
    int rc;
    struct varve_error why;
};

struct looking {
    struct vv_store *store;
    const char *name;
    struct vv_tier_newest *out;
    struct varve_error *error;
    struct unread *unread; /* or NULL */
};

static int is_unreadable(int rc) {
    return rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT;
}

static void note_unread(struct unread *unread, uint64_t version, int rc, const struct varve_error *why) {
    if (unread && unread->rc == 0 && (rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT))
        *unread = (struct unread){version, rc, *why};
}

static int take_readable(void *arg, uint32_t generation, uint64_t version) {
    struct looking *looking = arg;
    struct vv_record record;
    int rc = vv_record_load(looking->store, looking->name, generation, version, &record, looking->error);
    if (is_unreadable(rc)) {
        note_unread(looking->unread, version, rc, looking->error);
        vv_error_clear(looking->error);
        return 0;
    }
    if (rc < 0)
        return rc;
    *looking->out = (struct vv_tier_newest){{.generation = generation, .version = version}, record.time_ns};
    vv_record_clear(&record);
    return 1;
}

static int find_newest(struct vv_store *store, const char *name, struct vv_tier_newest *out, struct unread *unread,
                       struct varve_error *error) {
    struct looking looking = {store, name, out, error, unread};
    *out = (struct vv_tier_newest){.time_ns = 0};
    int rc = vv_records_list_whole(store, name, take_readable, &looking, error);
    return rc < 0 ? rc : 0;
}

int vv_tier_find_newest(struct vv_store *store, const char *name, struct vv_tier_newest *out,
                        struct varve_error *error) {
    return find_newest(store, name, out, NULL, error);
}

/* A tier that is not there may be a path that is not mounted. Only one that can be made is new, and has nothing. That
 * its store would not be encrypted is for the one who moves to tell. */
static int make_tier(struct vv_tier *tier, struct vv_store *first, struct varve_error *error) {
    struct vv_tiers *all = tier->all;
    struct vv_copy_place place = {.from = first,
                                  .from_address = all->address,
                                  .address = tier->address,
                                  .settings = &all->settings,
                                  .log = all->log};
    struct vv_store *store = NULL;
    vv_error_clear(error);
    int rc = vv_copy_open(&place, &store, error);
    vv_store_close(store);
    return rc == VARVE_KEY ? 0 : rc;
}

/* A tier of which no record can be read is not empty: it cannot tell what it has. If an older one can, that is what
 * may come back, and it is told. */
static int judge_unread(const struct vv_tier *tier, const struct vv_tier_newest *had, const struct unread *unread,
                        struct varve_error *error) {
    if (unread->rc == 0)
        return 0;
    if (tier->newest.attempt.generation == 0) {
        *error = unread->why;
        return unread->rc;
    }
    if (had->attempt.generation == 0 || unread->version > had->attempt.version)
        vv_log(tier->all->log, VV_LOG_WARN, "version %" PRIu64 " of %s in tier %u, %s, cannot be read: %s",
               unread->version, tier->all->name, tier->number, tier->address, unread->why.text);
    return 0;
}

/* Where the first store has something, a tier that is not there is one that did not get it yet. */
static int look_at(struct vv_tier *tier, struct vv_store *first, const struct vv_tier_newest *had,
                   struct varve_error *error) {
    struct vv_store *store = NULL;
    struct unread unread = {.rc = 0};
    int rc = vv_tier_open_store(tier->all, tier->address, &store, error);
    if (rc == VARVE_NO_STORE || rc == -ENOENT)
        return had->attempt.generation ? 0 : make_tier(tier, first, error);
    if (rc == 0) {
        memcpy(tier->id, store->id, sizeof tier->id);
        tier->is_seen = 1;
    }
    if (rc == 0)
        rc = find_newest(store, tier->all->name, &tier->newest, &unread, error);
    if (rc == 0)
        rc = judge_unread(tier, had, &unread, error);
    vv_store_close(store);
    return rc;
}

static int is_ahead(const struct vv_tier_newest *there, const struct vv_tier_newest *first) {
    if (there->attempt.generation == 0)
        return 0;
    return first->attempt.generation == 0 ||
           (there->time_ns > first->time_ns && there->attempt.version > first->attempt.version);
}

/* Two lines of the same job: whatever were done, one of them would be lost. */
static int refuse_two_lines(const struct vv_tier *tier, struct vv_store *first, const struct vv_tier_newest *had,
                            struct varve_error *error) {
    const struct vv_tiers *all = tier->all;
    uint64_t version = tier->newest.attempt.version;
    if (tier->newest.attempt.generation == 0 || is_ahead(&tier->newest, had) || tier->newest.time_ns <= had->time_ns)
        return 0;
    int rc = vv_copy_is_here(first, all->name, version, tier->newest.time_ns, error);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return vv_error(error, VARVE_MISMATCH,
                    "tier %u, %.150s, has %s@%" PRIu64 ", saved later than @%" PRIu64
                    " of %.150s and not there: the job went on elsewhere. `varve forget` the line that shall not go on",
                    tier->number, tier->address, all->name, version, had->attempt.version, all->address);
}

/* The tier with the checkpoint that was saved last, and has not been tried; NULL: none is ahead. */
static struct vv_tier *best_tier(struct vv_tiers *tiers, const struct vv_tier_newest *first, uint32_t tried) {
    struct vv_tier *best = NULL;
    for (unsigned i = 0; i < tiers->tier_count; i++) {
        struct vv_tier *tier = &tiers->tiers[i];
        if (!(tried >> i & 1) && is_ahead(&tier->newest, first) &&
            (!best || tier->newest.time_ns > best->newest.time_ns))
            best = tier;
    }
    return best;
}

/* ---- copying ---- */

struct list {
    struct vv_attempt *list;
    size_t count, capacity;
};

static int list_attempt(void *arg, uint32_t generation, uint64_t version) {
    struct list *list = arg;
    if (VV_GROW(list->list, list->count, list->capacity) != 0)
        return -ENOMEM;
    list->list[list->count++] = (struct vv_attempt){.generation = generation, .version = version};
    return 0;
}

static int copy_back(struct vv_tier *tier, struct vv_store *from, const struct vv_attempt *attempt,
                     struct vv_store *first, struct varve_error *error) {
    struct vv_tiers *all = tier->all;
    struct vv_pool *pool = NULL;
    struct vv_copy_result result;
    struct vv_copy_source source = {from, all->name, attempt->generation, attempt->version};
    vv_log_note(all->log, "tier %u, %s, has version %" PRIu64 " of %s, which %s has not: it is copied back",
                tier->number, tier->address, attempt->version, all->name, all->address);
    int rc = vv_copy_check_keys(from, tier->address, first, all->address, error);
    if (rc == 0 && (rc = vv_pool_create(1, 2, NULL, &pool)) < 0)
        vv_error_sys(error, rc, "cannot start a thread that reads");
    struct vv_copy_options options = {.settings = &all->settings,
                                      .pool = pool,
                                      .may_go_back = 1,
                                      .takeover_seconds = (uint32_t)all->settings.takeover_seconds};
    if (rc == 0)
        rc = vv_copy(&source, first, all->name, &options, &result, error);
    vv_pool_destroy(pool);
    return rc;
}

/* The newest that is whole, if it is ahead: 1; 0 if none is; or an error that is not of that checkpoint alone. */
static int copy_newest_whole(struct vv_tier *tier, struct vv_store *from, struct vv_store *first,
                             const struct vv_tier_newest *had, struct varve_error *error) {
    struct list list = {.list = NULL};
    int rc = vv_records_list(from, tier->all->name, list_attempt, &list, error);
    int is_done = 0;
    for (size_t i = 0; rc == 0 && !is_done && i < list.count; i++) {
        struct vv_tier_newest one = {.time_ns = 0};
        struct looking looking = {from, tier->all->name, &one, error, NULL};
        rc = take_readable(&looking, list.list[i].generation, list.list[i].version);
        if (rc != 1 || !is_ahead(&one, had)) {
            rc = rc < 0 ? rc : 0;
            continue;
        }
        rc = copy_back(tier, from, &one.attempt, first, error);
        is_done = rc == 0;
        if (rc == 0 || (!is_unreadable(rc) && rc != -ENOENT))
            continue;
        vv_log(tier->all->log, VV_LOG_WARN, "version %" PRIu64 " of %s could not be copied back from tier %u, %s: %s",
               one.attempt.version, tier->all->name, tier->number, tier->address, error->text);
        rc = 0;
    }
    vv_free(list.list);
    return rc < 0 ? rc : is_done;
}

/* 1 if it is back; 0 if what is ahead there is damaged: then error says so. */
static int bring_from(struct vv_tier *tier, struct vv_store *first, const struct vv_tier_newest *had,
                      struct varve_error *error) {
    struct vv_store *from = NULL;
    int rc = vv_tier_open_store(tier->all, tier->address, &from, error);
    if (rc == 0)
        rc = copy_newest_whole(tier, from, first, had, error);
    vv_store_close(from);
    if (rc == 0)
        vv_error_default(error, VARVE_CORRUPT, "what tier %u, %s, has of %s is damaged", tier->number, tier->address,
                         tier->all->name);
    return rc;
}

/* What must not be taken for a first run is an error; otherwise the job goes on from what the first store has. */
static int end_with(struct vv_tier *tier, const struct vv_tier_newest *had, int rc, struct varve_error *error) {
    struct vv_tiers *all = tier->all;
    struct varve_error why = *error;
    if (!*why.text)
        snprintf(why.text, sizeof why.text, "%s", varve_error_text(rc));
    if (had->attempt.generation == 0)
        return vv_error(error, rc ? rc : VARVE_CORRUPT,
                        "%.150s has no checkpoint of %s, and tier %u, %.150s, cannot give one back: %.180s",
                        all->address, all->name, tier->number, tier->address, why.text);
    vv_log(all->log, VV_LOG_WARN, "tier %u, %s, gives nothing back; the job goes on with version %" PRIu64 " of %s: %s",
           tier->number, tier->address, had->attempt.version, all->name, why.text);
    vv_error_clear(error);
    return 0;
}

/* What a dead session had fully written in the first store is adopted before the copy: that may be newer. */
static int has_caught_up(const struct vv_tier *tier, struct vv_store *first) {
    struct vv_tier_newest now;
    struct varve_error ignored = {.rank = -1};
    return vv_tier_find_newest(first, tier->all->name, &now, &ignored) == 0 && !is_ahead(&tier->newest, &now);
}

/* What another tier gives back instead may be older. */
static void tell_passed_by(const struct vv_tier *tier, int rc, const struct varve_error *error) {
    const struct vv_tiers *all = tier->all;
    vv_log(all->log, VV_LOG_WARN, "tier %u, %s, could not give back version %" PRIu64 " of %s: %s", tier->number,
           tier->address, tier->newest.attempt.version, all->name, *error->text ? error->text : varve_error_text(rc));
}

static int bring_best(struct vv_tiers *tiers, struct vv_store *first, const struct vv_tier_newest *had,
                      struct varve_error *error) {
    uint32_t tried = 0;
    struct vv_tier *tier, *last = NULL;
    int rc = 0;
    while ((tier = best_tier(tiers, had, tried))) {
        if (last)
            tell_passed_by(last, rc, error);
        vv_error_clear(error);
        rc = bring_from(tier, first, had, error);
        tiers->counts.back += rc == 1;
        if (rc == 1 || (rc == VARVE_MISMATCH && has_caught_up(tier, first)))
            return 0;
        tried |= 1u << (tier - tiers->tiers);
        last = tier;
    }
    return last ? end_with(last, had, rc, error) : 0;
}

/* ---- damage that a restart meets ---- */

struct search {
    struct looking looking;
    uint64_t version;
};

static int take_version(void *arg, uint32_t generation, uint64_t version) {
    struct search *search = arg;
    return version == search->version ? take_readable(&search->looking, generation, version) : 0;
}

/* Its record, that is: whether all of it is whole is seen when it is copied. */
static int has_version(struct vv_tier *tier, uint64_t version) {
    struct vv_store *store = NULL;
    struct vv_tier_newest found = {.time_ns = 0};
    struct varve_error ignored = {.rank = -1};
    struct search search = {{NULL, tier->all->name, &found, &ignored, NULL}, version};
    int rc = vv_tier_open_store(tier->all, tier->address, &store, &ignored);
    search.looking.store = store;
    if (rc == 0)
        vv_records_list_whole(store, tier->all->name, take_version, &search, &ignored);
    vv_store_close(store);
    return found.attempt.generation != 0;
}

/* As it stands in a command: one that is cut would name something else. */
static const char *command_address(const struct vv_tiers *tiers) {
    return strlen(tiers->address) <= ADVICE_ADDRESS && !strchr(tiers->address, '\'') ? tiers->address : "STORE";
}

void vv_tiers_look_for(struct vv_tiers *tiers, const struct vv_attempt *damaged) {
    for (unsigned i = 0; i < tiers->tier_count; i++) {
        struct vv_tier *tier = &tiers->tiers[i];
        if (*tiers->advice || !has_version(tier, damaged->version))
            continue;
        snprintf(tiers->advice, sizeof tiers->advice,
                 "tier %u, %.40s, has version %" PRIu64 ": end the job, give `varve forget '%s' '%.80s@%" PRIu64
                 ":%u'`, and start it again: it comes back from there",
                 tier->number, tier->address, damaged->version, command_address(tiers), tiers->name, damaged->version,
                 damaged->generation);
        vv_log(tiers->log, VV_LOG_WARN, "%s", tiers->advice);
    }
}

void vv_tiers_advice(const struct vv_tiers *tiers, char out[VV_TIERS_ADVICE]) {
    memcpy(out, tiers ? tiers->advice : "", tiers ? VV_TIERS_ADVICE : 1);
}

/* ---- the whole ---- */

/* A tier that cannot tell what it has. */
struct blind {
    struct vv_tier *tier;
    int rc;
    struct varve_error why;
};

/* What another tier gave back may be older than what this one has. */
static int end_blind(const struct blind *blind, const struct vv_tier_newest *had, struct varve_error *error) {
    struct vv_tiers *all = blind->tier->all;
    if (all->counts.back == 0) {
        *error = blind->why;
        return end_with(blind->tier, had, blind->rc, error);
    }
    vv_log(all->log, VV_LOG_WARN, "tier %u, %s, could not be read, and may have newer checkpoints of %s: %s",
           blind->tier->number, blind->tier->address, all->name, blind->why.text);
    return 0;
}

int vv_tiers_bring_back(struct vv_tiers *tiers, struct vv_store *first, struct varve_error *error) {
    struct vv_tier_newest had;
    struct blind blind[VV_TIERS_MOST];
    size_t blind_count = 0;
    if (!tiers)
        return 0;
    int rc = vv_tier_find_newest(first, tiers->name, &had, error);
    for (unsigned i = 0; rc == 0 && i < tiers->tier_count; i++) {
        struct blind *one = &blind[blind_count];
        *one = (struct blind){.tier = &tiers->tiers[i], .why.rank = -1};
        one->rc = look_at(one->tier, first, &had, &one->why);
        blind_count += one->rc < 0;
        if (one->rc == 0)
            rc = refuse_two_lines(one->tier, first, &had, error);
    }
    if (rc == 0)
        rc = bring_best(tiers, first, &had, error);
    for (size_t i = 0; rc == 0 && i < blind_count; i++)
        rc = end_blind(&blind[i], &had, error);
    return rc;
}
