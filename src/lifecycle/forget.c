/* Forgetting: a record becomes a tombstone, unless it is pinned (pin.h). The data goes later, with a prune.
 *
 * That a live session's checkpoint is kept is a courtesy, not the safety: a session whose parent is forgotten all
 * the same finds that out when it commits, and stores everything anew. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"
#include "lifecycle/lifecycle.h"
#include "lifecycle/pin.h"

int vv_record_bury(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                   struct varve_error *error) {
    struct vv_tombstone tombstone = {.reason = VV_TOMBSTONE_FORGOTTEN, .time_ns = vv_clock_wall_ns()};
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_RECORD, 0, 0);
    char text[VV_KEY_CAPACITY];
    struct vv_buf buf;
    key.attempt = 0;
    vv_key_print(&key, text);
    int rc = VV_FAULT("store.forget.before_replace");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot forget %s", text);
    vv_buf_init(&buf);
    vv_tombstone_encode(&buf, &key, store->id, &tombstone);
    rc = buf.failed ? buf.failed : vv_backend_replace(store->backend, text, buf.data, buf.size);
    vv_buf_clear(&buf);
    if (rc == 0)
        rc = VV_FAULT("store.forget.after_replace");
    if (rc < 0)
        vv_error_sys(error, rc, "cannot forget %s", text);
    return vv_error_shortage(store, rc, error);
}

/* Does a session of generation `session` whose heartbeat names `refers` need this record? It needs the one it refers
 * to, and newer ones of that generation and of its own: it may have committed them and not yet named them. */
static int is_needed(uint32_t session, const struct vv_attempt *refers, uint32_t generation, uint64_t version) {
    if (refers->generation == generation)
        return version >= refers->version;
    return generation == session;
}

/* VARVE_BUSY if the session with the highest claim may be alive and needs it. */
static int check_needed(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                        struct varve_error *error) {
    uint32_t highest = 0;
    int life = VV_LIFE_MAYBE;
    struct vv_attempt refers = {0};
    int rc = vv_claims_highest(store, name, &highest, error);
    if (rc < 0 || highest == 0)
        return rc;
    if ((rc = vv_life_look(store, name, highest, 0, &life, &refers, error)) < 0)
        return rc;
    if (life == VV_LIFE_DEAD || !is_needed(highest, &refers, generation, version))
        return 0;
    return vv_error(error, VARVE_BUSY,
                    "generation %u, version %" PRIu64 " of %s is kept: the session of generation %u may be running and "
                    "refers to it or to an older one",
                    generation, version, name, highest);
}

/* A damaged record may be forgotten; one that a newer program wrote, or that cannot be read just now, may not. */
int vv_forget(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
              struct varve_error *error) {
    struct vv_attempt attempt = {.generation = generation, .version = version};
    struct vv_record record;
    int rc = vv_record_load(store, name, generation, version, &record, error);
    if (rc < 0 && rc != VARVE_CORRUPT)
        return rc;
    if (rc == 0)
        vv_record_clear(&record);
    if ((rc = check_needed(store, name, generation, version, error)) < 0)
        return rc;
    vv_error_clear(error);
    if ((rc = vv_pin_close(store, name, &attempt, error)) < 0 ||
        (rc = vv_record_bury(store, name, &attempt, error)) < 0)
        return rc;
    vv_pin_end(store, name, &attempt);
    vv_catalogue_bury(store, name, &attempt, 1);
    return 0;
}

/* ---- keep=N ----
 *
 * Counted are checkpoints that somebody may want to go back to. A restart that passed over newer ones, because they
 * were damaged or refused, has shown that they are none; the record after it names what it came back from as its
 * parent. */

struct vv_keeping {
    struct vv_store *store;
    const char *name;
    const struct vv_keep_options *options;
    struct vv_attempt *list; /* all keys below record/, newest first; attempt is 1 for those that took a place */
    size_t count;
    size_t capacity;
    /* Of generations below this one, what is newer than the origin was passed over. */
    uint32_t generation;
    struct vv_attempt origin;
    int is_due;                /* there are more than are kept */
    size_t chosen;             /* the first so many of the list are to be forgotten, newest first */
    struct vv_attempts pinned; /* what must stay here */
};

static int take_key(void *arg, uint32_t generation, uint64_t version) {
    struct vv_keeping *keeping = arg;
    if (VV_GROW(keeping->list, keeping->count, keeping->capacity) != 0)
        return -ENOMEM;
    keeping->list[keeping->count++] = (struct vv_attempt){.generation = generation, .version = version};
    return 0;
}

static int keeping_begin(struct vv_keeping *keeping, struct vv_store *store, const struct vv_lease *lease,
                         const char *name, const struct vv_keep_options *options, struct varve_error *error) {
    *keeping = (struct vv_keeping){.store = store,
                                   .name = name,
                                   .options = options,
                                   .generation = vv_lease_generation(lease),
                                   .origin = options->origin};
    return vv_records_list(store, name, take_key, keeping, error);
}

static uint32_t how_many(const struct vv_keeping *keeping) {
    return keeping->options->keep < 2 ? 2 : keeping->options->keep;
}

static int is_passed_over(const struct vv_keeping *keeping, const struct vv_attempt *at) {
    const uint64_t *rejected = keeping->options->rejected;
    for (size_t i = 0; i < keeping->options->rejected_count; i++)
        if (rejected[2 * i] == at->generation && rejected[2 * i + 1] == at->version)
            return 1;
    return keeping->origin.generation != 0 && at->generation < keeping->generation &&
           vv_attempt_is_newer(at, &keeping->origin);
}

/* 1 a whole record, and its parent; 0 a tombstone, a damaged one or nothing; or an error of the storage. */
static int is_readable(struct vv_keeping *keeping, const struct vv_attempt *at, struct vv_attempt *parent_out,
                       struct varve_error *error) {
    struct vv_record record;
    int rc = vv_record_load(keeping->store, keeping->name, at->generation, at->version, &record, error);
    if (rc == VARVE_NO_CHECKPOINT || rc == VARVE_FORGOTTEN || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT)
        return 0;
    if (rc < 0)
        return rc;
    *parent_out = record.parent;
    vv_record_clear(&record);
    return 1;
}

enum worth { WORTH_NOTHING, WORTH_NO_PLACE, WORTH_A_PLACE };

/* Beside a copy that compact has made, the original takes no place of its own; and a version saved again does not
 * either. */
static int has_place(const struct vv_keeping *keeping, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (keeping->list[i].attempt && keeping->list[i].version == keeping->list[index].version)
            return 1;
    return 0;
}

/* What the next key of the list is: a whole record that counts, a whole one that does not, or nothing (a tombstone, a
 * damaged one, gone); or an error of the storage. */
static int weigh(struct vv_keeping *keeping, size_t index, struct varve_error *error) {
    struct vv_attempt *at = &keeping->list[index];
    struct vv_attempt parent;
    int rc = is_readable(keeping, at, &parent, error);
    if (rc < 1)
        return rc < 0 ? rc : WORTH_NOTHING;
    if (is_passed_over(keeping, at) || has_place(keeping, index))
        return WORTH_NO_PLACE;
    at->attempt = 1;
    if (parent.generation != 0 && parent.generation < at->generation) {
        keeping->generation = at->generation;
        keeping->origin = parent;
    }
    return WORTH_A_PLACE;
}

int vv_keep_cut(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_keep_options *options,
                struct vv_attempt *cut_out, struct varve_error *error) {
    struct vv_keeping keeping;
    uint32_t kept = 0;
    int rc = keeping_begin(&keeping, store, lease, name, options, error);
    for (size_t i = 0; rc == 0 && i < keeping.count && kept < how_many(&keeping); i++) {
        *cut_out = keeping.list[i];
        int worth = weigh(&keeping, i, error);
        rc = worth < 0 ? worth : 0;
        kept += worth == WORTH_A_PLACE;
    }
    vv_free(keeping.list);
    return rc ? rc : kept == how_many(&keeping);
}

int vv_keep_count(struct vv_store *store, const char *name, uint32_t below, uint64_t *out, struct varve_error *error) {
    struct vv_keeping keeping = {.store = store, .name = name};
    struct vv_attempt parent;
    uint64_t count = 0;
    int rc = vv_pins_list(store, name, &keeping.pinned, error);
    if (rc == 0)
        rc = vv_records_list(store, name, take_key, &keeping, error);
    for (size_t i = 0; rc == 0 && i < keeping.count; i++) {
        const struct vv_attempt *at = &keeping.list[i];
        int counts = at->generation < below && !vv_attempts_has(&keeping.pinned, at);
        int found = counts ? is_readable(&keeping, at, &parent, error) : 0;
        rc = found < 0 ? found : 0;
        count += found == 1;
    }
    vv_free(keeping.list);
    vv_attempts_clear(&keeping.pinned);
    *out = count;
    return rc;
}

static int is_spared(const struct vv_keeping *keeping, const struct vv_attempt *at) {
    for (size_t i = 0; i < keeping->options->spared_count; i++)
        if (keeping->options->spared[i].generation == at->generation &&
            keeping->options->spared[i].version == at->version)
            return 1;
    return 0;
}

/* Those that go are moved to the front of the list; how many, or an error. */
static int64_t choose_forgotten(struct vv_keeping *keeping, struct vv_lease *lease, struct varve_error *error) {
    const struct vv_attempt *cut = keeping->options->cut;
    struct vv_attempt refers;
    size_t kept = 0, chosen = 0;
    vv_lease_refers(lease, &refers);
    for (size_t i = 0; i < keeping->count && keeping->list[i].generation >= keeping->options->from; i++) {
        struct vv_attempt at = keeping->list[i];
        int worth = weigh(keeping, i, error);
        if (worth < 0)
            return worth;
        int is_among_newest = kept < how_many(keeping);
        kept += worth == WORTH_A_PLACE;
        if (worth == WORTH_NOTHING || is_among_newest || (cut && !vv_attempt_is_newer(cut, &at)) ||
            is_spared(keeping, &at) || is_needed(vv_lease_generation(lease), &refers, at.generation, at.version))
            continue;
        at.attempt = 0;
        keeping->list[chosen++] = at;
    }
    return (int64_t)chosen;
}

/* Of those that were chosen, the pinned ones stay; the others cannot be pinned any more. */
static int close_chosen(struct vv_keeping *keeping, struct varve_error *error) {
    size_t left = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < keeping->chosen; i++) {
        rc = vv_pin_close(keeping->store, keeping->name, &keeping->list[i], error);
        if (rc == 0)
            keeping->list[left++] = keeping->list[i];
        else if (rc == VARVE_BUSY)
            rc = vv_attempts_add(&keeping->pinned, &keeping->list[i]);
    }
    keeping->chosen = rc == 0 ? left : 0;
    return rc;
}

/* With several stores of one job what is pinned in one stays in all of them, also where this one has no whole record of
 * it, and so has not chosen it. */
static int find_pinned(struct vv_keeping *keeping, struct varve_error *error) {
    struct vv_attempts all = {0};
    int rc = keeping->options->cut ? vv_pins_list(keeping->store, keeping->name, &all, error) : 0;
    for (size_t i = 0; rc == 0 && i < all.count; i++)
        if (vv_attempt_is_newer(keeping->options->cut, &all.list[i]))
            rc = vv_attempts_add(&keeping->pinned, &all.list[i]);
    vv_attempts_clear(&all);
    vv_attempts_sort(&keeping->pinned);
    return rc;
}

int vv_keep_begin(struct vv_store *store, struct vv_lease *lease, const char *name,
                  const struct vv_keep_options *options, struct vv_keeping **out, struct varve_error *error) {
    struct vv_keeping *keeping = vv_calloc(1, sizeof *keeping);
    *out = NULL;
    if (!keeping)
        return vv_error_sys(error, -ENOMEM, "cannot forget checkpoints of %s", name);
    int rc = vv_lease_check(lease, error);
    if (rc == 0)
        rc = keeping_begin(keeping, store, lease, name, options, error);
    if (rc == 0 && keeping->count > how_many(keeping)) {
        int64_t chosen = choose_forgotten(keeping, lease, error);
        keeping->chosen = chosen < 0 ? 0 : (size_t)chosen;
        keeping->is_due = 1;
        rc = chosen < 0 ? (int)chosen : close_chosen(keeping, error);
    }
    if (rc == 0)
        rc = find_pinned(keeping, error);
    if (rc < 0)
        vv_keep_end(keeping);
    else
        *out = keeping;
    return rc;
}

int vv_keep_next_pinned(const struct vv_keeping *keeping, const struct vv_attempt *after, struct vv_attempt *out) {
    for (size_t i = 0; i < keeping->pinned.count; i++) {
        if (vv_attempt_is_newer(&keeping->pinned.list[i], after)) {
            *out = keeping->pinned.list[i];
            return 1;
        }
    }
    return 0;
}

void vv_keep_spare(struct vv_keeping *keeping, const struct vv_attempt *at) {
    size_t left = 0;
    for (size_t i = 0; i < keeping->chosen; i++)
        if (keeping->list[i].generation != at->generation || keeping->list[i].version != at->version)
            keeping->list[left++] = keeping->list[i];
    keeping->chosen = left;
}

/* Oldest first: if it ends half-way, what is left is still the newest. */
static int forget_chosen(struct vv_keeping *keeping, struct varve_error *error) {
    int rc = 0;
    size_t first = keeping->chosen;
    while (first > 0 && (rc = vv_record_bury(keeping->store, keeping->name, &keeping->list[first - 1], error)) == 0)
        vv_pin_end(keeping->store, keeping->name, &keeping->list[--first]);
    if (first < keeping->chosen)
        vv_catalogue_bury(keeping->store, keeping->name, keeping->list + first, keeping->chosen - first);
    return rc;
}

int vv_keep_forget(struct vv_keeping *keeping, struct varve_error *error) {
    struct vv_prune_options pruning = {.buried = keeping->list, .buried_count = keeping->chosen};
    struct vv_prune_result result;
    if (!keeping->is_due)
        return 0;
    int rc = forget_chosen(keeping, error);
    if (rc == 0)
        rc = vv_prune(keeping->store, keeping->name, &pruning, &result, error);
    if (rc == 0 && keeping->options->freed) {
        keeping->options->freed->objects += result.objects;
        keeping->options->freed->bytes += result.bytes;
    }
    if (rc == 0)
        vv_error_clear(error);
    return rc;
}

void vv_keep_end(struct vv_keeping *keeping) {
    if (!keeping)
        return;
    vv_free(keeping->list);
    vv_attempts_clear(&keeping->pinned);
    vv_free(keeping);
}

int vv_keep(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_keep_options *options,
            struct varve_error *error) {
    struct vv_keeping *keeping;
    if (options->keep == 0)
        return 0;
    int rc = vv_keep_begin(store, lease, name, options, &keeping, error);
    if (rc == 0)
        rc = vv_keep_forget(keeping, error);
    if (rc == 0)
        vv_error_clear(error);
    vv_keep_end(keeping);
    return rc;
}
