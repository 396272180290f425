/* Compacting a name: claim it, copy its checkpoints, forget the originals and what is not kept, prune.
 *
 * A copy is an ordinary checkpoint, of the generation that was claimed and with the version it had: it is made as
 * every other is, and nothing that stands is changed for it. The newest comes first, so whatever happens, the
 * newest checkpoint of the name is the newest one or a copy of it; older copies depend on newer ones. The originals
 * are forgotten when all copies are there. Until then both may be seen. One that fails removes its copies; after
 * one that was killed the next copies all that is kept once more, and forgets the rest.
 *
 * The heartbeat names the newest original until all copies are made. Were it the newest copy, others could conclude
 * that nothing older of that generation is still to come (docs/format.md 10, prune 6). A prune that runs beside may
 * take an older copy for given up, as there is a newer record in its generation: it closes that version first, so the
 * commit fails, and nothing was forgotten yet. */
#include "compact/compact.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "check/usage.h"
#include "compact/compact_private.h"
#include "lifecycle/lease.h"
#include "lifecycle/pin.h"
#include "read/region_reader.h"

#define HEARTBEAT_SECONDS 15
#define DEAD_SECONDS 60
#define WELL_PACKED 1.05 /* of what is live: less is not worth copying everything */
#define WINDOW (32u << 20)

int vv_compact_progress(struct vv_compact *compact, uint64_t bytes) {
    const struct vv_compact_options *options = compact->options;
    compact->progress += bytes;
    if (options->progress && options->progress(options->arg, compact->progress, compact->total))
        return vv_error_sys(compact->error, -EINTR, "stopped");
    return 0;
}

/* ---- which ---- */

static int append(struct vv_compact *compact, struct vv_attempts_list *to, const struct vv_attempt *at) {
    if (VV_GROW(to->list, to->count, to->capacity) != 0)
        return vv_error_sys(compact->error, -ENOMEM, "cannot compact %s", compact->name);
    to->list[to->count++] = *at;
    return 0;
}

/* Every byte of it, against the digests of its regions. */
static int read_owner(struct vv_compact *compact, struct vv_view *view, uint32_t owner) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    int rc = vv_recipe_open(view, owner, &recipe, compact->error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &region, compact->error)) == 1) {
        rc = vv_region_stream(view, recipe, &region, compact->store->settings.seed, WINDOW, compact->options->pool,
                              NULL, NULL, compact->error);
        if (rc == 0)
            rc = vv_compact_progress(compact, region.length);
    }
    vv_recipe_close(recipe);
    return rc;
}

static int read_view(struct vv_compact *compact, struct vv_view *view) {
    int rc = 0;
    for (uint32_t owner = 0; rc == 0 && owner < vv_view_record(view)->ranks; owner++)
        rc = read_owner(compact, view, owner);
    return rc;
}

/* The same regions with the same content, by their digests? 1, 0 or an error. */
static int compare_owner(struct vv_compact *compact, struct vv_view *one, struct vv_view *other, uint32_t owner) {
    struct vv_recipe *recipes[2] = {NULL, NULL};
    struct vv_recipe_region a, b;
    int is_same = 1, more = 1, rc = vv_recipe_open(one, owner, &recipes[0], compact->error);
    if (rc == 0)
        rc = vv_recipe_open(other, owner, &recipes[1], compact->error);
    while (rc == 0 && more && is_same) {
        more = vv_recipe_next_region(recipes[0], &a, compact->error);
        int too = more < 0 ? more : vv_recipe_next_region(recipes[1], &b, compact->error);
        rc = more < 0 ? more : too < 0 ? too : 0;
        is_same =
            rc == 0 && more == too &&
            (!more || (strcmp(a.name, b.name) == 0 && a.length == b.length && vv_hash128_equal(a.digest, b.digest)));
    }
    vv_recipe_close(recipes[0]);
    vv_recipe_close(recipes[1]);
    return rc < 0 ? rc : is_same;
}

/* The copy may have been adopted without having been read back: it is read before its original goes. */
static int is_copy(struct vv_compact *compact, const struct vv_attempt *copy, const struct vv_attempt *original) {
    struct vv_view *views[2] = {NULL, NULL};
    int rc = vv_view_open(compact->store, compact->name, copy->generation, copy->version, &views[0], compact->error);
    if (rc == 0)
        rc = vv_view_open(compact->store, compact->name, original->generation, original->version, &views[1],
                          compact->error);
    const struct vv_record *one = rc == 0 ? vv_view_record(views[0]) : NULL;
    const struct vv_record *other = rc == 0 ? vv_view_record(views[1]) : NULL;
    int is_same = rc == 0 && one->ranks == other->ranks;
    for (uint32_t owner = 0; rc == 0 && is_same && owner < one->ranks; owner++) {
        is_same = compare_owner(compact, views[0], views[1], owner);
        rc = is_same < 0 ? is_same : 0;
    }
    if (rc == 0 && is_same)
        rc = read_view(compact, views[0]);
    vv_view_close(views[0]);
    vv_view_close(views[1]);
    return rc < 0 ? rc : is_same;
}

/* Was it copied already, by a compaction that was killed? 1, 0 or an error. */
static int has_copy(struct vv_compact *compact, const struct vv_attempt *at) {
    for (size_t i = 0; i < compact->kept.count; i++) {
        int rc = compact->kept.list[i].version == at->version ? is_copy(compact, &compact->kept.list[i], at) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

/* Newest first. A record that is damaged stops everything: what it depends on is not known. */
static int take_record(void *arg, uint32_t generation, uint64_t version) {
    struct vv_compact *compact = arg;
    struct vv_attempt at = {.generation = generation, .version = version};
    struct vv_record record;
    int rc = vv_record_load(compact->store, compact->name, generation, version, &record, compact->error);
    if (rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT) {
        vv_error_clear(compact->error);
        return 0;
    }
    if (rc < 0)
        return rc;
    at.attempt = record.attempt;
    uint64_t bytes = record.protected_bytes;
    vv_record_clear(&record);
    rc = has_copy(compact, &at);
    if (rc)
        return rc < 0 ? rc : append(compact, &compact->moved, &at);
    if (compact->options->keep && compact->counted == compact->options->keep) {
        rc = vv_pin_look(compact->store, compact->name, &at, NULL, compact->error);
        if (rc != VV_PIN_HELD)
            return rc < 0 ? rc : append(compact, &compact->dropped, &at);
    } else {
        compact->counted++;
    }
    compact->total += 2 * bytes; /* copied, and read back */
    return append(compact, &compact->kept, &at);
}

/* Copies of a pack on other nodes are not made here, and should not be lost unasked. */
static int check_copies(struct vv_compact *compact, struct vv_view *view) {
    const struct vv_record *record = vv_view_record(view);
    uint32_t partners = 0;
    int rc = 0;
    for (uint32_t source = 0; source <= record->dependency_count && rc >= 0; source++)
        for (uint32_t owner = 0; (rc = vv_view_partners(view, source, owner, &partners, compact->error)) > 0; owner++)
            if (partners)
                return vv_error(compact->error, VARVE_UNSUPPORTED,
                                "%s is stored with copies (setting copies), which compact cannot make", compact->name);
    return rc < 0 ? rc : 0;
}

/* ---- one checkpoint ---- */

/* Every byte from the storage, against the digests of the regions, which were those of the old one. */
static int read_back(struct vv_compact *compact, const struct vv_attempt *attempt, const struct vv_record *record) {
    struct vv_view *view = NULL;
    int rc = vv_view_open_record(compact->store, compact->name, attempt, record, &view, compact->error);
    if (rc == 0)
        rc = read_view(compact, view);
    vv_view_close(view);
    return rc;
}

/* The older ones come before it. */
static void note_done(struct vv_compact *compact, const struct vv_attempt *attempt, const struct vv_record *record) {
    memmove(compact->done + 1, compact->done, compact->done_count * sizeof *compact->done);
    compact->done[0] = (struct vv_compacted){.dependency = {*attempt, record->writers_digest}};
    compact->done_count++;
}

/* As every checkpoint is committed, but that it is read back before it is one. The old record said what is
 * protected, and so must the new one. */
static int commit(struct vv_compact *compact, const struct vv_record *old, const struct vv_attempt *attempt) {
    struct vv_store *store = compact->store;
    struct vv_writers writers;
    struct vv_record record;
    int rc = vv_votes_read(store, compact->name, attempt, &writers, &record, compact->error);
    if (rc != 1)
        return rc < 0 ? rc
                      : vv_error(compact->error, -EIO, "the pack of version %" PRIu64 " is gone", attempt->version);
    record.time_ns = old->time_ns;
    if (record.ranks != old->ranks || record.regions != old->regions || record.protected_bytes != old->protected_bytes)
        rc = vv_error(compact->error, -EPROTO, "version %" PRIu64 " did not come out as it was", attempt->version);
    else
        rc = vv_commit_list(store, compact->name, attempt, &writers, compact->error);
    if (rc == 0)
        rc = read_back(compact, attempt, &record);
    if (rc == 0)
        rc = vv_commit_check(store, compact->lease, compact->name, attempt, &record, compact->error);
    if (rc == 0)
        rc = vv_commit_record(store, compact->name, attempt, &record, compact->error);
    if (rc == 0)
        note_done(compact, attempt, &record);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return rc;
}

/* What did not come out well, or was stopped, must not be adopted later. */
static void give_up_attempt(struct vv_compact *compact, const struct vv_attempt *attempt) {
    struct varve_error ignored = {0};
    compact->given_up = *attempt;
    if (vv_commit_refuse(compact->store, compact->name, attempt, &ignored) < 0)
        vv_log(compact->store->log, VV_LOG_WARN, "a copy that was given up may still be adopted: %s", ignored.text);
}

static int copy(struct vv_compact *compact, const struct vv_attempt *at) {
    const struct vv_compact_options *options = compact->options;
    struct vv_attempt attempt = {.generation = vv_lease_generation(compact->lease), .version = at->version};
    struct vv_view *view = NULL;
    if (options->report)
        options->report(options->arg, 0, at->generation, at->version);
    int rc = vv_lease_check(compact->lease, compact->error);
    if (rc == 0)
        rc = vv_view_open(compact->store, compact->name, at->generation, at->version, &view, compact->error);
    if (rc == 0)
        rc = vv_compact_write(compact, view, &attempt);
    if (rc == 0)
        rc = commit(compact, vv_view_record(view), &attempt);
    if (rc < 0 && rc != VARVE_FENCED) /* then it belongs to somebody else */
        give_up_attempt(compact, &attempt);
    vv_view_close(view);
    compact->result->moved += rc == 0;
    return rc == 0 ? append(compact, &compact->moved, at) : rc;
}

/* Do all copies stand? Nothing is forgotten before that is known. */
static int check_copied(struct vv_compact *compact) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < compact->done_count; i++) {
        const struct vv_attempt *at = &compact->done[i].dependency.attempt;
        struct vv_view *view = NULL;
        rc = vv_view_open(compact->store, compact->name, at->generation, at->version, &view, compact->error);
        vv_view_close(view);
    }
    return rc;
}

/* ---- all of them ---- */

static int make_tools(struct vv_compact *compact) {
    compact->done = vv_calloc(compact->kept.count + 1, sizeof *compact->done);
    if (!compact->done)
        return vv_error_sys(compact->error, -ENOMEM, "cannot compact %s", compact->name);
    return vv_offline_init(&compact->offline, compact->options->settings, compact->error);
}

/* Where the checkpoint with this version is now. */
static const struct vv_attempt *find_copy(const struct vv_compact *compact, uint64_t version) {
    for (size_t i = 0; i < compact->done_count; i++)
        if (compact->done[i].dependency.attempt.version == version)
            return &compact->done[i].dependency.attempt;
    for (size_t i = 0; i < compact->kept.count; i++)
        if (compact->kept.list[i].version == version)
            return &compact->kept.list[i];
    return NULL;
}

/* The copy stands for the original, and is pinned as that was. */
static int move_pin(struct vv_compact *compact, const struct vv_attempt *at) {
    const struct vv_attempt *copy = find_copy(compact, at->version);
    return copy ? vv_pin_move(compact->store, compact->name, at, copy, compact->error) : 0;
}

/* Oldest first: what is left after a kill has no hole in it. */
static int forget(struct vv_compact *compact, const struct vv_attempts_list *these, int is_told) {
    const struct vv_compact_options *options = compact->options;
    int rc = 0;
    for (size_t i = these->count; rc == 0 && i-- > 0;) {
        const struct vv_attempt *at = &these->list[i];
        if (options->report && is_told)
            options->report(options->arg, 1, at->generation, at->version);
        rc = vv_lease_check(compact->lease, compact->error);
        if (rc == 0 && !is_told)
            rc = move_pin(compact, at);
        if (rc == 0)
            rc = vv_forget(compact->store, compact->name, at->generation, at->version, compact->error);
        if (rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT)
            rc = 0;
        compact->result->forgotten += rc == 0 && is_told;
    }
    return rc;
}

static int measure_usage(struct vv_compact *compact, uint64_t newest, struct vv_usage *usage) {
    struct vv_usage_options options = {.newest = newest};
    return vv_usage_count(compact->store, compact->name, &options, usage, compact->error);
}

/* The copies are of one generation, in which a version is there once. */
static int check_versions(struct vv_compact *compact) {
    const struct vv_attempts_list *kept = &compact->kept;
    for (size_t i = 1; i < kept->count; i++)
        if (kept->list[i].version >= kept->list[i - 1].version)
            return vv_error(compact->error, VARVE_UNSUPPORTED,
                            "%s went back to an older version in generation %u, and both lives are kept: forget version"
                            " %" PRIu64 " of generation %u first (%s@%" PRIu64 ":%u), if nobody needs it",
                            compact->name, kept->list[i - 1].generation, kept->list[i].version,
                            kept->list[i].generation, compact->name, kept->list[i].version, kept->list[i].generation);
    return 0;
}

typedef int (*view_fn)(struct vv_compact *compact, struct vv_view *view);

static int for_each_kept(struct vv_compact *compact, view_fn fn) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < compact->kept.count; i++) {
        const struct vv_attempt *at = &compact->kept.list[i];
        struct vv_view *view = NULL;
        rc = vv_view_open(compact->store, compact->name, at->generation, at->version, &view, compact->error);
        if (rc == 0)
            rc = fn(compact, view);
        vv_view_close(view);
    }
    return rc;
}

static int copy_all(struct vv_compact *compact) {
    const struct vv_attempts_list *kept = &compact->kept;
    int rc = check_versions(compact); /* what can be said before anything is written */
    if (rc == 0)
        rc = for_each_kept(compact, check_copies);
    if (rc == 0)
        rc = make_tools(compact);
    if (rc == 0)
        rc = vv_lease_refer(compact->lease, &kept->list[0], compact->error);
    for (size_t i = 0; rc == 0 && i < kept->count; i++)
        rc = copy(compact, &kept->list[i]);
    return rc == 0 ? check_copied(compact) : rc;
}

static int finish_compacting(struct vv_compact *compact) {
    static const struct vv_prune_options prune = {0};
    const struct vv_attempt *named = compact->done_count   ? &compact->done[0].dependency.attempt /* made last */
                                     : compact->kept.count ? &compact->kept.list[0]
                                                           : NULL;
    struct vv_usage usage = {0};
    int rc = named ? vv_lease_refer(compact->lease, named, compact->error) : 0;
    if (rc == 0 && compact->done_count == 0 && compact->dropped.count) /* others go because these are there */
        rc = for_each_kept(compact, read_view);
    compact->is_forgetting = rc == 0;
    if (rc == 0)
        rc = forget(compact, &compact->dropped, 1);
    if (rc == 0)
        rc = forget(compact, &compact->moved, 0);
    if (rc == 0)
        rc = vv_prune(compact->store, compact->name, &prune, NULL, compact->error);
    if (rc == 0)
        rc = measure_usage(compact, 0, &usage);
    compact->result->after = usage.kept_bytes + usage.free.bytes;
    compact->result->live = usage.live_bytes;
    return rc;
}

static int run_compaction(struct vv_compact *compact) {
    struct vv_usage usage = {0};
    int rc = vv_adopt(compact->store, compact->lease, compact->name, compact->error);
    rc = rc < 0 ? rc : vv_records_list_whole(compact->store, compact->name, take_record, compact, compact->error);
    if (rc == 0)
        rc = measure_usage(compact, 0, &usage);
    compact->result->before = compact->result->after = usage.kept_bytes + usage.free.bytes;
    compact->result->live = usage.live_bytes;
    if (rc == 0)
        rc = measure_usage(compact, compact->options->keep, &usage);
    if (rc < 0)
        return rc;
    int is_wasteful = (double)usage.kept_bytes > WELL_PACKED * (double)usage.live_bytes;
    /* What a compaction that was killed has copied is there twice, and all of it counts as needed. */
    if (compact->kept.count && (is_wasteful || compact->moved.count))
        rc = copy_all(compact);
    return rc == 0 ? finish_compacting(compact) : rc;
}

/* The originals are all there: then the copies go, so that nothing is there twice; the one that failed first, since its
 * record may stand all the same. The claim is given up already,
 * since it protects what it has made; whoever has claimed since, and goes on from a copy, keeps it. */
static void undo(struct vv_compact *compact) {
    static const struct vv_prune_options prune = {0};
    struct varve_error why = {0};
    const struct vv_attempt *last = &compact->given_up;
    int rc = last->generation ? vv_forget(compact->store, compact->name, last->generation, last->version, &why) : 0;
    if (rc == VARVE_NO_CHECKPOINT || rc == VARVE_FORGOTTEN)
        rc = 0;
    for (size_t i = 0; i < compact->done_count && rc == 0; i++) {
        const struct vv_attempt *at = &compact->done[i].dependency.attempt;
        rc = vv_forget(compact->store, compact->name, at->generation, at->version, &why);
    }
    if (rc == 0)
        rc = vv_prune(compact->store, compact->name, &prune, NULL, &why);
    if (rc < 0)
        vv_log(compact->store->log, VV_LOG_WARN, "copies of checkpoints of %s are left, until it is compacted: %s",
               compact->name, why.text);
}

static void clear(struct vv_compact *compact) {
    vv_place_map_clear(&compact->map);
    vv_offline_clear(&compact->offline);
    vv_free(compact->done);
    vv_free(compact->kept.list);
    vv_free(compact->dropped.list);
    vv_free(compact->moved.list);
}

int vv_compact(struct vv_store *store, const char *name, const struct vv_compact_options *options,
               struct vv_compact_result *out, struct varve_error *error) {
    struct vv_lease_options lease = {
        .ranks = 1, .beat_seconds = HEARTBEAT_SECONDS, .dead_seconds = DEAD_SECONDS, .program = "varve compact"};
    struct vv_compact compact = {.store = store, .name = name, .options = options, .result = out, .error = error};
    *out = (struct vv_compact_result){0};
    if (store->settings.layout == VV_LAYOUT_LOCAL)
        return vv_error(error, VARVE_UNSUPPORTED,
                        "this is the store of one node of a job: what its checkpoints need is on other nodes, too");
    int rc = vv_lease_take(store, name, &lease, &compact.lease, error);
    if (rc == 0)
        rc = run_compaction(&compact);
    vv_lease_release(compact.lease);
    if (rc < 0 && rc != VARVE_FENCED && !compact.is_forgetting && (compact.done_count || compact.given_up.generation))
        undo(&compact);
    clear(&compact);
    return rc < 0 ? rc : 0;
}
