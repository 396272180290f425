/* Prune: removing what no record reaches, beside running sessions (docs/format.md 10).
 *
 * In this order, each step finished before the next begins:
 *   1. all records of the name are read: what they commit and depend on is reached. Then the heartbeats are looked at:
 * what they name must have been among them, or the listing was older than it looked (fresh.c);
 *   2. the data is listed, later than the records. An attempt that is not reached is waste, unless its session
 *      may still commit it; then what its packs depend on is reached too, because its parent may have been
 *      forgotten after the session looked;
 *   3. under the record's key of every waste attempt stands a tombstone (or the record of another attempt).
 *      Whoever slept before creating his record now fails. All of them before the first removal: what one
 *      attempt is may be what another depends on;
 *   4. the waste goes;
 *   5. tombstones go whose version has no data left, if neither its own session nor an adopter can still be
 *      about to commit it; and pins of checkpoints that are gone, and logs of old sessions.
 * A record that appears at step 3 begins everything again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/search.h"
#include "lifecycle/job_log.h"
#include "lifecycle/lifecycle.h"
#include "lifecycle/pin.h"
#include "store/pack_reader.h"

#define ROUNDS_MAX 100
#define AGAIN 1

/* What is under a key below record/. */
struct entry {
    uint32_t generation;
    int is_tombstone;
    uint64_t version;
};

struct prune {
    struct vv_store *store;
    const char *name;
    const struct vv_prune_options *options;
    struct vv_prune_result *result;
    struct varve_error *error;
    struct entry *entries; /* newest first */
    size_t entry_count;
    size_t entry_capacity;
    struct vv_attempts reached;
    struct vv_attempts waste;
    struct vv_attempts kept;
    struct vv_attempts committed; /* what records show to have been committed */
    struct vv_attempts closed;    /* versions with a tombstone; attempt is 0 */
    struct vv_attempt settled;    /* the newest that is, or was, a checkpoint */
    uint32_t highest;             /* claim */
    struct vv_attempt held;       /* what its heartbeat names, if its session may be alive */
    /* the generation looked at last */
    uint32_t live_generation;
    int is_live;
    struct vv_patience patience;
};

static int out_of_memory(struct prune *prune) {
    return vv_error_sys(prune->error, -ENOMEM, "cannot prune %s", prune->name);
}

/* After each step: may it go on? */
static int prune_step(struct prune *prune) {
    int rc = vv_steps_did(prune->options->steps);
    return rc < 0 ? vv_error_sys(prune->error, rc, "stopped") : 0;
}

static int fault(struct prune *prune, int rc) {
    return rc < 0 ? vv_error_sys(prune->error, rc, "cannot prune %s", prune->name) : 0;
}

/* ---- 1: records ---- */

static int take_entry(void *arg, uint32_t generation, uint64_t version) {
    struct prune *prune = arg;
    if (VV_GROW(prune->entries, prune->entry_count, prune->entry_capacity) != 0)
        return -ENOMEM;
    prune->entries[prune->entry_count++] = (struct entry){.generation = generation, .version = version};
    return 0;
}

static int reach(struct prune *prune, const struct vv_attempt *attempt, const struct vv_dependency *dependencies,
                 uint32_t count) {
    int rc = attempt ? vv_attempts_add(&prune->reached, attempt) : 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = vv_attempts_add(&prune->reached, &dependencies[i].attempt);
    return rc < 0 ? out_of_memory(prune) : 0;
}

static int note_closed(struct prune *prune, uint32_t generation, uint64_t version) {
    struct vv_attempt at = {.generation = generation, .version = version};
    return vv_attempts_add(&prune->closed, &at) < 0 ? out_of_memory(prune) : 0;
}

/* 0, or VARVE_NO_CHECKPOINT when it has gone since the listing (a tombstone that another prune removed). */
static int read_entry(struct prune *prune, struct entry *entry) {
    struct vv_record record;
    int rc = vv_record_load(prune->store, prune->name, entry->generation, entry->version, &record, prune->error);
    if (rc == VARVE_FORGOTTEN) {
        entry->is_tombstone = 1;
        return note_closed(prune, entry->generation, entry->version);
    }
    if (rc < 0)
        return rc;
    struct vv_attempt own = {.generation = entry->generation, .attempt = record.attempt, .version = entry->version};
    rc = reach(prune, &own, record.dependencies, record.dependency_count);
    if (rc == 0 && vv_committed_by_record(&prune->committed, &record) < 0)
        rc = out_of_memory(prune);
    vv_record_clear(&record);
    return rc;
}

static int read_records(struct prune *prune) {
    size_t left = 0;
    int rc = prune->options->is_dry_run ? 0 : vv_records_refresh(prune->store, prune->name, prune->error);
    if (rc == 0)
        rc = vv_records_list(prune->store, prune->name, take_entry, prune, prune->error);
    vv_steps_found(prune->options->steps, prune->entry_count);
    for (size_t i = 0; rc == 0 && i < prune->entry_count; i++) {
        struct entry entry = prune->entries[i];
        rc = read_entry(prune, &entry);
        if (rc == 0)
            prune->entries[left++] = entry;
        else if (rc == VARVE_NO_CHECKPOINT)
            rc = 0;
        rc = rc ? rc : prune_step(prune);
    }
    if (rc < 0)
        return rc;
    prune->entry_count = left;
    vv_attempts_sort(&prune->reached);
    vv_attempts_sort(&prune->committed);
    return vv_settled_newest(prune->store, prune->name, &prune->settled, prune->error);
}

/* The first entry that is not newer than this version of this generation. */
static size_t find_from(const struct prune *prune, uint32_t generation, uint64_t version) {
    const struct entry *list = prune->entries;
    size_t at;
    VV_SEARCH(at, 0, prune->entry_count,
              list[at].generation != generation ? list[at].generation > generation : list[at].version > version);
    return at;
}

static const struct entry *find_entry(const struct prune *prune, uint32_t generation, uint64_t version) {
    size_t at = find_from(prune, generation, version);
    if (at == prune->entry_count)
        return NULL;
    const struct entry *entry = &prune->entries[at];
    return entry->generation == generation && entry->version == version ? entry : NULL;
}

static int is_listed(const void *arg, uint32_t generation, uint64_t version) {
    return find_entry(arg, generation, version) != NULL;
}

/* Later than the records were read: a session that has gone on since, and forgotten what they depended on, has named a
 * newer one. AGAIN if there is one that was not listed. */
static int check_listing(struct prune *prune) {
    struct vv_attempt lacking;
    int rc = vv_listing_lacks(prune->store, prune->name, is_listed, prune, &lacking, prune->error);
    if (rc != 1)
        return rc;
    rc = vv_listing_wait(prune->name, &prune->patience, &lacking, prune->error);
    return rc < 0 ? rc : AGAIN;
}

static int has_newer_record(const struct prune *prune, uint32_t generation, uint64_t version) {
    size_t end = find_from(prune, generation, version);
    for (size_t i = find_from(prune, generation, UINT64_MAX); i < end; i++)
        if (!prune->entries[i].is_tombstone)
            return 1;
    return 0;
}

/* ---- 2: data ---- */

static int look_at_life(struct prune *prune, uint32_t generation) {
    int life = VV_LIFE_MAYBE;
    if (prune->live_generation == generation)
        return 0;
    int rc =
        vv_life_look(prune->store, prune->name, generation, generation < prune->highest, &life, NULL, prune->error);
    if (rc < 0)
        return rc;
    prune->live_generation = generation;
    prune->is_live = life != VV_LIFE_DEAD;
    return 0;
}

/* May its session still commit this attempt? A tombstone or a record under its key says no. */
static int may_be_committed(struct prune *prune, const struct vv_attempt *attempt) {
    if (find_entry(prune, attempt->generation, attempt->version))
        return 0;
    int rc = look_at_life(prune, attempt->generation);
    if (rc < 0)
        return rc;
    return prune->is_live && !has_newer_record(prune, attempt->generation, attempt->version);
}

/* Nobody can use these objects now, but a person would miss them: a full vote that the next session adopts, or one
 * whose record was lost, which repair can rebuild. 1, 0, or an error. */
static int is_worth_keeping(struct prune *prune, const struct vv_attempt *attempt) {
    struct vv_writers writers;
    struct vv_record record;
    struct varve_error why = {0};
    if (find_entry(prune, attempt->generation, attempt->version) ||
        (!vv_is_adoptable(&prune->settled, attempt) && !vv_attempts_has(&prune->committed, attempt)))
        return 0;
    int rc = vv_attempt_is_closed(prune->store, prune->name, attempt, prune->error);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = vv_votes_read(prune->store, prune->name, attempt, &writers, &record, &why);
    if (rc == 0 && prune->store->settings.layout == VV_LAYOUT_LOCAL) {
        vv_log(prune->store->log, VV_LOG_WARN,
               "version %" PRIu64 " of %s (generation %u) has no record on this node, but other nodes may have the "
               "rest of it: kept until the next"
               " session of that name has looked at all nodes",
               attempt->version, prune->name, attempt->generation);
        return 1;
    }
    if (rc != 1) /* incomplete or damaged: there is nothing to rebuild; but an error of the storage says nothing */
        return rc == 0 || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT
                   ? 0
                   : vv_error(prune->error, rc, "cannot prune %s: %.400s", prune->name, why.text);
    vv_writers_clear(&writers);
    rc = vv_attempts_has(&prune->committed, attempt) ? 0 : vv_parent_check(prune->store, prune->name, &record, &why);
    vv_record_clear(&record);
    if (rc < 0)
        return vv_adopt_is_unfit(rc) ? 0 : vv_error(prune->error, rc, "cannot prune %s: %.400s", prune->name, why.text);
    vv_log(prune->store->log, VV_LOG_WARN,
           "version %" PRIu64
           " of %s (generation %u) is complete but has no record: kept; the next session of that name adopts it, "
           "or `varve repair` rebuilds it",
           attempt->version, prune->name, attempt->generation);
    return 1;
}

static int take_attempt(struct prune *prune, const struct vv_attempt *attempt) {
    if (vv_attempts_has(&prune->reached, attempt))
        return 0;
    int rc = vv_attempt_compare(&prune->held, attempt) == 0 ? 1 : may_be_committed(prune, attempt);
    if (rc == 0)
        rc = is_worth_keeping(prune, attempt);
    if (rc < 0)
        return rc;
    rc = vv_attempts_add(rc ? &prune->kept : &prune->waste, attempt);
    return rc < 0 ? out_of_memory(prune) : 0;
}

static int walk_version(struct prune *prune, struct vv_attempt at) {
    struct vv_numbers attempts;
    int rc = vv_data_list(prune->store, prune->name, &at, 2, &attempts, prune->error);
    for (size_t i = 0; rc == 0 && i < attempts.count; i++) {
        at.attempt = (uint32_t)attempts.list[i];
        rc = take_attempt(prune, &at);
    }
    vv_numbers_clear(&attempts);
    return rc;
}

static int walk_generation(struct prune *prune, struct vv_attempt at) {
    struct vv_numbers versions;
    int rc = vv_data_list(prune->store, prune->name, &at, 1, &versions, prune->error);
    vv_steps_found(prune->options->steps, versions.count);
    for (size_t i = 0; rc == 0 && i < versions.count; i++) {
        at.version = versions.list[i];
        if (at.version >> 63 == 0)
            rc = walk_version(prune, at);
        rc = rc ? rc : prune_step(prune);
    }
    vv_numbers_clear(&versions);
    return rc;
}

/* What a session that may be alive has named stays, though it was forgotten: repair may be about to write its record
 * again. Later than the records. */
static int look_at_held(struct prune *prune) {
    int life = VV_LIFE_DEAD;
    prune->held = (struct vv_attempt){0};
    int rc = vv_claims_highest(prune->store, prune->name, &prune->highest, prune->error);
    if (rc == 0 && prune->highest)
        rc = vv_life_look(prune->store, prune->name, prune->highest, 0, &life, &prune->held, prune->error);
    if (life == VV_LIFE_DEAD)
        prune->held = (struct vv_attempt){0};
    return rc;
}

/* Claims are listed after the generations: each generation that has data had its claim before. */
static int walk_data(struct prune *prune) {
    struct vv_attempt at = {0};
    struct vv_numbers generations;
    int rc = vv_data_list(prune->store, prune->name, &at, 0, &generations, prune->error);
    if (rc == 0)
        rc = look_at_held(prune);
    for (size_t i = 0; rc == 0 && i < generations.count; i++) {
        at.generation = (uint32_t)generations.list[i];
        if (at.generation != 0)
            rc = walk_generation(prune, at);
    }
    vv_numbers_clear(&generations);
    return rc;
}

/* A pack that is not there, or a tombstone, depends on nothing: 0. One that cannot be read may depend on anything:
 * stop. Otherwise 1, and how many writers it was written for. */
static int reach_from_pack(struct prune *prune, const struct vv_attempt *attempt, uint32_t writer,
                           uint32_t *writers_out) {
    struct vv_footer footer;
    struct vv_pack_id id = {.store = prune->store, .name = prune->name, .attempt = *attempt, .writer = writer};
    int rc = vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, NULL, prune->error);
    if (rc == -ENOENT || rc == VARVE_FORGOTTEN)
        return 0;
    if (rc < 0)
        return rc;
    *writers_out = footer.writers;
    rc = reach(prune, NULL, footer.dependencies, footer.dependency_count);
    vv_footer_clear(&footer);
    return rc < 0 ? rc : 1;
}

struct pack_listing {
    struct prune *prune;
    const struct vv_attempt *attempt;
};

static int take_pack(void *arg, const char *component, int is_prefix) {
    struct pack_listing *listing = arg;
    uint64_t writer;
    uint32_t writers;
    if (is_prefix || vv_hex_parse(component, 8, &writer) < 0)
        return 0;
    int rc = reach_from_pack(listing->prune, listing->attempt, (uint32_t)writer, &writers);
    return rc < 0 ? rc : 0;
}

/* By key, since a listing may lack a pack. A session looks at its parent's record after its last pack was written: one
 * whose first pack is not there yet will see for itself what was forgotten. On one of several nodes the first may be
 * elsewhere. */
static int reach_from_attempt(struct prune *prune, const struct vv_attempt *attempt) {
    struct pack_listing listing = {.prune = prune, .attempt = attempt};
    struct vv_key key = vv_attempt_key(prune->name, attempt, VV_KIND_WRITERS, 0, 0);
    char prefix[VV_KEY_CAPACITY];
    uint32_t writers = 0, ignored;
    vv_error_clear(prune->error);
    int rc = reach_from_pack(prune, attempt, 0, &writers);
    for (uint32_t writer = 1; rc >= 0 && writer < writers; writer++)
        rc = reach_from_pack(prune, attempt, writer, &ignored);
    if (rc < 0 || writers > 0)
        return rc < 0 ? rc : 0;
    vv_prefix_data(&key, 3, prefix);
    vv_error_clear(prune->error);
    rc = vv_backend_list(prune->store->backend, prefix, NULL, 0, take_pack, &listing);
    return rc < 0 ? vv_error_default(prune->error, rc, "cannot list %s: %s", prefix, varve_error_text(rc)) : 0;
}

static int reach_from_kept(struct prune *prune) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < prune->kept.count; i++)
        rc = reach_from_attempt(prune, &prune->kept.list[i]);
    if (rc < 0)
        return rc;
    vv_attempts_sort(&prune->reached);
    size_t left = 0;
    for (size_t i = 0; i < prune->waste.count; i++)
        if (!vv_attempts_has(&prune->reached, &prune->waste.list[i]))
            prune->waste.list[left++] = prune->waste.list[i];
    prune->waste.count = left;
    return 0;
}

/* ---- 3: tombstones ---- */

/* Somebody else made what stands there, and may have died before it was durable. */
static int make_durable(struct prune *prune, const struct vv_key *key) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    int rc = vv_backend_sync(prune->store->backend, text);
    return rc < 0 && rc != -ENOENT ? vv_error_sys(prune->error, rc, "cannot make %s durable", text) : rc;
}

static int is_buried_by_caller(const struct prune *prune, const struct vv_attempt *attempt) {
    for (size_t i = 0; i < prune->options->buried_count; i++)
        if (prune->options->buried[i].generation == attempt->generation &&
            prune->options->buried[i].version == attempt->version)
            return 1;
    return 0;
}

/* 0 a tombstone, or the record of another attempt, stands there durably; AGAIN if a record appeared or the tombstone
 * went, or an error. */
static int close_version(struct prune *prune, const struct vv_attempt *attempt) {
    struct vv_key key = vv_attempt_key(prune->name, attempt, VV_KIND_RECORD, 0, 0);
    struct vv_record record;
    key.attempt = 0;
    if (find_entry(prune, attempt->generation, attempt->version)) {
        if (is_buried_by_caller(prune, attempt))
            return 0;
        int synced = make_durable(prune, &key);
        return synced == -ENOENT ? AGAIN : synced;
    }
    int rc = fault(prune, VV_FAULT("store.prune.before_tombstone"));
    if (rc == 0)
        rc = vv_tombstone_create(prune->store, &key, VV_TOMBSTONE_PRUNED, prune->error);
    if (rc == 0)
        return note_closed(prune, attempt->generation, attempt->version);
    if (rc != -EEXIST)
        return rc;
    rc = vv_record_load(prune->store, prune->name, attempt->generation, attempt->version, &record, prune->error);
    if (rc == 0)
        vv_record_clear(&record);
    /* Also for a tombstone that was not there at step 1: it may stand for a checkpoint that came since, was depended
     * on, and was forgotten. */
    return rc == 0 || rc == VARVE_NO_CHECKPOINT || rc == VARVE_FORGOTTEN ? AGAIN : rc;
}

static int close_versions(struct prune *prune) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < prune->waste.count; i++) {
        const struct vv_attempt *at = &prune->waste.list[i], *before = i ? at - 1 : NULL;
        if (!before || before->generation != at->generation || before->version != at->version)
            rc = close_version(prune, at);
    }
    return rc;
}

/* ---- 4: removal ---- */

/* Each object is a step. The attempts to come are taken to have as many as those before. */
static void expect_waste(struct prune *prune, size_t removed, uint64_t began) {
    struct vv_steps *steps = prune->options->steps;
    if (steps)
        vv_steps_left(steps, (removed ? (steps->done - began) / removed : 1) * (prune->waste.count - removed));
}

static int remove_waste(struct prune *prune) {
    uint64_t began = prune->options->steps ? prune->options->steps->done : 0;
    int rc = fault(prune, VV_FAULT("store.prune.before_remove"));
    for (size_t i = 0; rc == 0 && i < prune->waste.count; i++) {
        expect_waste(prune, i, began);
        rc = vv_attempt_remove(prune->store, prune->name, &prune->waste.list[i], 0, prune->options, prune->result,
                               prune->error);
    }
    return rc;
}

static void start_round(struct prune *prune) {
    prune->entry_count = 0;
    prune->reached.count = prune->reached.sorted = 0;
    prune->waste.count = prune->waste.sorted = 0;
    prune->kept.count = prune->kept.sorted = 0;
    prune->closed.count = prune->closed.sorted = 0;
    prune->committed.count = prune->committed.sorted = 0;
    prune->live_generation = 0;
    vv_error_clear(prune->error);
}

static int one_round(struct prune *prune) {
    start_round(prune);
    int rc = fault(prune, VV_FAULT("store.prune.before_records"));
    if (rc == 0)
        rc = read_records(prune);
    if (rc == 0)
        rc = check_listing(prune);
    if (rc == 0)
        rc = fault(prune, VV_FAULT("store.prune.before_data"));
    if (rc == 0)
        rc = walk_data(prune);
    if (rc == 0)
        rc = reach_from_kept(prune);
    if (rc == 0 && !prune->options->is_dry_run)
        rc = close_versions(prune);
    return rc;
}

/* Logs of old sessions, or, when nothing else is left of a name that no session may have open, all of them. Not after
 * each checkpoint: a session looks at them itself, once. */
static int prune_logs(struct prune *prune) {
    size_t kept = VV_JOB_LOGS_KEPT;
    int has_more = prune->kept.count > 0;
    if (prune->options->buried)
        return 0;
    for (size_t i = 0; i < prune->entry_count && !has_more; i++)
        has_more = !prune->entries[i].is_tombstone;
    if (!has_more) {
        int rc = prune->highest ? look_at_life(prune, prune->highest) : 0;
        if (rc < 0)
            return rc;
        kept = prune->highest && prune->is_live ? kept : 0;
    }
    return vv_job_logs_thin(prune->store, prune->name, kept, prune->options, prune->result, prune->error);
}

int vv_prune(struct vv_store *store, const char *name, const struct vv_prune_options *options,
             struct vv_prune_result *out, struct varve_error *error) {
    struct vv_prune_result result = {0};
    struct varve_error own = {0};
    struct prune prune = {
        .store = store, .name = name, .options = options, .result = &result, .error = error ? error : &own};
    int rc = AGAIN;
    for (int round = 0; rc == AGAIN && round < ROUNDS_MAX; round++)
        rc = one_round(&prune);
    if (rc == AGAIN)
        rc = vv_error(prune.error, -EAGAIN, "records of %s appear faster than prune can follow; try again later", name);
    if (rc == 0 && !options->is_dry_run) /* a record that is not seen must not make its packs look like waste */
        rc = vv_backend_probe(store->backend, prune.error);
    if (rc == 0)
        rc = remove_waste(&prune);
    if (rc == 0 && !options->is_dry_run)
        rc = vv_tombstones_prune(store, name, &prune.closed, options, &result, prune.error);
    if (rc == 0)
        rc = vv_pins_prune(store, name, options, &result, prune.error);
    if (rc == 0)
        rc = prune_logs(&prune);
    result.kept_attempts = prune.kept.count;
    vv_free(prune.entries);
    vv_attempts_clear(&prune.reached);
    vv_attempts_clear(&prune.waste);
    vv_attempts_clear(&prune.kept);
    vv_attempts_clear(&prune.closed);
    vv_attempts_clear(&prune.committed);
    if (rc == 0 && !options->is_dry_run) {
        int swept = vv_backend_sweep(store->backend);
        if (swept < 0 && swept != VARVE_UNSUPPORTED)
            vv_log(store->log, VV_LOG_WARN, "leftovers of dead writers could not be removed: %s",
                   varve_error_text(swept));
    }
    if (rc < 0)
        return rc;
    vv_error_clear(error);
    if (out)
        *out = result;
    return 0;
}
