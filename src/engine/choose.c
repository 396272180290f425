/* Which checkpoint: walk the candidates, newest first, until one is whole on all ranks; ask about them; refuse one.
 *
 * The keepers list their records; the newest of all is the next candidate. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_private.h"
#include "peers/peers.h"

int vv_open_peers(struct vv_session *session, struct vv_peers **out, struct varve_error *error) {
    const struct vv_peers_options options = {
        .comm = session->comm,
        .store = session->store,
        .name = session->name,
        .is_local = vv_is_local(session),
        .is_keeper = session->is_keeper,
        .threads = (unsigned)session->settings.threads,
        .window = session->settings.restart_window,
    };
    return vv_peers_open(&options, out, error);
}

struct candidates {
    struct vv_session *session;
    int64_t version;
    struct vv_attempt *list; /* a keeper's */
    size_t count, room, next;
};

static int is_rejected(const struct vv_session *session, uint32_t generation, uint64_t version) {
    for (size_t i = 0; i < session->rejected_count; i++)
        if (session->rejected[2 * i] == generation && session->rejected[2 * i + 1] == version)
            return 1;
    return 0;
}

static int add_candidate(void *arg, uint32_t generation, uint64_t version) {
    struct candidates *candidates = arg;
    if (candidates->version >= 0 ? version != (uint64_t)candidates->version
                                 : is_rejected(candidates->session, generation, version))
        return 0;
    if (candidates->count == candidates->room) {
        size_t room = candidates->room ? candidates->room * 2 : 64;
        struct vv_attempt *list = vv_realloc(candidates->list, room * sizeof *list);
        if (!list)
            return -ENOMEM;
        candidates->list = list;
        candidates->room = room;
    }
    candidates->list[candidates->count++] = (struct vv_attempt){generation, 0, version};
    return 0;
}

static int find_candidates(struct vv_session *session, int64_t version, struct candidates *out,
                           struct varve_error *error) {
    int rc = 0;
    memset(out, 0, sizeof *out);
    out->session = session;
    out->version = version;
    if (session->is_keeper)
        rc = vv_records_list_whole(session->store, session->name, add_candidate, out, error);
    if (rc < 0)
        vv_error_default(error, rc, "the checkpoints of %s could not be listed: %s", session->name,
                         varve_error_text(rc));
    return vv_comm_agree(session->comm, rc < 0 ? rc : 0, error);
}

/* 1 and the next candidate, 0 when there is none left, or an error of the group. Keepers may have different lists: a
 * node may have missed a commit. */
static int next_candidate(struct candidates *candidates, struct vv_attempt *out, struct varve_error *error) {
    struct varve_comm *comm = candidates->session->comm;
    const struct vv_attempt none = {0};
    const struct vv_attempt *own = candidates->next < candidates->count ? &candidates->list[candidates->next] : &none;
    uint64_t generation = own->generation;
    int rc = vv_comm_most(comm, &generation);
    uint64_t version = own->generation == generation ? own->version : 0;
    if (rc == 0)
        rc = vv_comm_most(comm, &version);
    if (rc)
        return vv_error(error, rc, "the ranks could not agree on a candidate: %s", varve_error_text(rc));
    if (own->generation == generation && own->version == version)
        candidates->next++;
    *out = (struct vv_attempt){(uint32_t)generation, 0, version};
    return generation != 0;
}

/* Damage makes us try an older one; what is merely gone is passed over; everything else is the caller's to know. */
static int may_go_on(struct vv_session *session, const struct vv_attempt *candidate, int rc,
                     const struct varve_error *why) {
    if (rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT) {
        if (vv_comm_is_root(session->comm))
            vv_log(&session->log, VV_LOG_INFO, "passed over checkpoint %s@%" PRIu64 " (generation %u): %s", session->name,
                   candidate->version, candidate->generation, why->text);
        return 1;
    }
    if (rc != VARVE_CORRUPT)
        return 0;
    if (vv_comm_is_root(session->comm))
        vv_log(&session->log, VV_LOG_WARN, "skipped checkpoint %s@%" PRIu64 " (generation %u), damaged on rank %d: %s",
               session->name, candidate->version, candidate->generation, why->rank, why->text);
    return 1;
}

/* The result of a walk that ended without success. Two results promise that nothing was written: not after this walk, or one
 * before it in the same call, has begun to. */
static int explain(const struct vv_session *session, int64_t version, int result, const struct varve_error *why,
                   const struct varve_error *damage, struct varve_error *error) {
    int is_promise = result == VARVE_MISMATCH || result == VARVE_NO_CHECKPOINT;
    if (session->is_overwritten && is_promise && !damage->code)
        return vv_comm_all_say(error, VARVE_CORRUPT, "a checkpoint was forgotten while it was read, and no other can be: %s",
                               why->code ? why->text : "there is none");
    if (session->is_overwritten && is_promise)
        result = VARVE_CORRUPT;
    if (result == VARVE_NO_CHECKPOINT && version >= 0) /* asked for by number: not to be taken for a first run */
        return vv_comm_all_say(error, -ENOENT,
                               "%s has no checkpoint with version %" PRId64 "; `varve ls` tells which there are",
                               session->name, version);
    if (result == VARVE_NO_CHECKPOINT)
        return vv_comm_all_say(error, result, "there is no checkpoint of %s in this store", session->name);
    *error = result == VARVE_CORRUPT ? *damage : *why;
    return result;
}

int vv_open_named(struct vv_session *session, struct vv_store *store, uint32_t generation, uint64_t version,
                  struct vv_view **out, struct varve_error *error) {
    int rc = VARVE_NO_CHECKPOINT;
    for (int look = 0; look < VV_LOOKS && rc == VARVE_NO_CHECKPOINT; look++) {
        vv_wait_before(look);
        vv_error_clear(error);
        rc = vv_view_open(store, session->name, generation, version, out, error);
    }
    if (rc != VARVE_NO_CHECKPOINT)
        return rc;
    return vv_error(error, -ESTALE,
                    "rank %u does not find the record of version %" PRIu64 " (generation %u) that rank 0 has read: try again",
                    session->comm->rank, version, generation);
}

/* Tries one candidate on all ranks; the same answer on all of them. */
typedef int (*try_fn)(struct vv_session *session, const void *arg, uint32_t generation, uint64_t version,
                      struct varve_error *error);

/* A keeper: is there a record? */
static int can_read(struct vv_session *session, uint32_t generation, uint64_t version, struct varve_error *error) {
    struct vv_record record;
    int rc = vv_record_load(session->store, session->name, generation, version, &record, error);
    if (rc == 0)
        vv_record_clear(&record);
    return rc;
}

/* Nobody knows that we read it, without a claim: was it forgotten meanwhile? Then that is the reason, and no damage. Collective. */
static int see_forgotten(struct vv_session *session, const struct vv_attempt *candidate, int result,
                         struct varve_error *why) {
    struct varve_error ignored = {0};
    uint32_t is_gone = 0;
    if (result == VARVE_MISMATCH || session->may == VV_MAY_WRITE)
        return result;
    if (vv_comm_is_root(session->comm)) {
        int rc = can_read(session, candidate->generation, candidate->version, &ignored);
        is_gone = rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT;
    }
    int rc = vv_comm_follow(session->comm, 0, &is_gone, sizeof is_gone, VV_COMM_ROOT, why);
    if (rc || !is_gone)
        return rc ? rc : result;
    return vv_comm_all_say(why, VARVE_FORGOTTEN, "it was forgotten while it was read");
}

static int try_listed(struct vv_session *session, int64_t version, try_fn try, const void *arg,
                          int64_t *version_out, struct varve_error *error) {
    struct candidates candidates = {0};
    struct vv_attempt candidate = {0};
    struct varve_error why = {0}, damage = {0};
    vv_access_look(session);
    int rc = find_candidates(session, version, &candidates, error);
    int result = VARVE_NO_CHECKPOINT;
    while (rc == 0 && (rc = next_candidate(&candidates, &candidate, error)) > 0) {
        rc = 0;
        vv_error_clear(&why);
        result = try(session, arg, candidate.generation, candidate.version, &why);
        if (result < 0)
            result = see_forgotten(session, &candidate, result, &why);
        if (result == 0 && version_out)
            *version_out = (int64_t)candidate.version;
        if (result == 0 || !may_go_on(session, &candidate, result, &why))
            break;
        if (damage.code == 0 && (result == VARVE_CORRUPT || session->is_overwritten))
            damage = why;
        result = damage.code ? VARVE_CORRUPT : VARVE_NO_CHECKPOINT;
    }
    vv_free(candidates.list);
    if (rc < 0 || result == 0)
        return rc < 0 ? rc : 0;
    rc = explain(session, version, result, &why, &damage, error);
    if (rc == VARVE_NO_CHECKPOINT)
        vv_tell_first_run(session);
    return rc;
}

/* Is there a newer record than this one? Then it becomes that. Collective; 1, or 0, also when the group cannot talk any more. */
static int has_newer(struct vv_session *session, struct vv_attempt *newest) {
    struct vv_attempt found = {0};
    struct varve_error ignored = {0};
    uint32_t is_newer = 0;
    if (vv_comm_is_root(session->comm) && vv_newest_record(session, &found, &ignored) == 0)
        is_newer = vv_attempt_is_newer(&found, newest) != 0;
    if (is_newer)
        *newest = found;
    int rc = vv_comm_follow(session->comm, 0, &is_newer, sizeof is_newer, VV_COMM_ROOT, &ignored);
    return rc == 0 && is_newer;
}

/* Beside a job with keep=N, all that we listed may be forgotten before we come to read it. Then there are newer ones. */
static int try_candidates(struct vv_session *session, int64_t version, try_fn try, const void *arg,
                          int64_t *version_out, struct varve_error *error) {
    struct vv_attempt newest = {0};
    int rc = vv_access_choose(session, error);
    if (rc)
        return rc;
    if (session->may == VV_MAY_WRITE || version >= 0)
        return try_listed(session, version, try, arg, version_out, error);
    (void)has_newer(session, &newest);
    do {
        vv_error_clear(error);
        rc = try_listed(session, version, try, arg, version_out, error);
    } while ((rc == VARVE_NO_CHECKPOINT || rc == VARVE_CORRUPT) && has_newer(session, &newest));
    return rc;
}

static int check_options(const struct vv_restart_options *options, struct varve_error *error) {
    if (options->version < VARVE_LATEST)
        return vv_error(error, -EINVAL, "version %" PRId64 ": give 0 or more, or VARVE_LATEST", options->version);
    if (options->flags & ~(VARVE_RESTART_RESIZE | VARVE_RESTART_MISSING))
        return vv_error(error, -EINVAL, "flags %#x are not known", options->flags);
    const struct varve_allocator *allocator = options->allocator;
    if (options->is_allocating &&
        (!allocator || allocator->size < sizeof *allocator || !allocator->alloc || !allocator->release))
        return vv_error(error, -EINVAL, "varve_restart_alloc needs both functions of an allocator, and its size");
    return 0;
}

/* A program that goes on after this error makes checkpoints of something else: see keep_options in upkeep.c. */
static int noted(struct vv_session *session, int rc) {
    session->has_failed_restart = rc < 0 && rc != VARVE_NO_CHECKPOINT;
    return rc;
}

int vv_session_restart(struct vv_session *session, const struct vv_restart_options *options, int64_t *version_out,
                       struct varve_error *error) {
    vv_flight_land(session);
    int rc = check_options(options, error);
    if (rc == 0)
        rc = vv_ask_regions(session, error);
    rc = vv_comm_agree_call(session->comm, rc, VV_CALL_RESTART, (uint64_t)options->version, error);
    if (rc)
        return noted(session, rc);
    vv_regions_pack(&session->regions);
    if (options->is_allocating) /* the program may let go of memory when it is asked */
        vv_unwatch_regions(session);
    session->is_overwritten = 0;
    return noted(session, try_candidates(session, options->version, vv_try_restart, options, version_out, error));
}

/* The history of a session that has one would be lost. */
static int check_continue(const struct vv_session *session, int64_t version, struct varve_error *error) {
    struct vv_restart_options options = {.version = version};
    if (session->request.begun_ns != 0)
        return vv_error(error, -EINVAL, "varve_continue comes before the first checkpoint of a session");
    if (session->parent.generation != 0)
        return vv_error(error, -EINVAL, "this session goes on from version %" PRIu64 " already: varve_continue comes first",
                        session->parent.version);
    return check_options(&options, error);
}

int vv_session_continue(struct vv_session *session, int64_t version, int64_t *version_out, struct varve_error *error) {
    vv_flight_land(session);
    int rc = check_continue(session, version, error);
    rc = vv_comm_agree_call(session->comm, rc, VV_CALL_CONTINUE, (uint64_t)version, error);
    if (rc)
        return noted(session, rc);
    session->is_overwritten = 0;
    return noted(session, try_candidates(session, version, vv_try_continue, NULL, version_out, error));
}

/* ---- asking ---- */

struct asking {
    varve_region_fn fn;
    void *arg;
};

/* Asking for one candidate. */
struct asked {
    struct vv_session *session;
    const struct asking *asking;
    struct vv_peers *peers;
    struct vv_view *view;
    uint32_t generation;
    uint64_t version;
    struct varve_region_info info; /* of the region that the program is told of */
    struct varve_array array;
};

static int tell_region(void *arg) {
    struct asked *asked = arg;
    return asked->asking->fn(asked->asking->arg, &asked->info);
}

/* All regions of this rank. */
static int walk_regions(struct asked *asked, int is_told, struct varve_error *error) {
    const struct varve_comm *comm = asked->session->comm;
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region stored;
    uint32_t ranks = vv_view_record(asked->view)->ranks;
    if (comm->rank >= ranks)
        return vv_error(error, VARVE_MISMATCH, "the checkpoint is of %u ranks, this job has %u", ranks, comm->ranks);
    int rc = vv_recipe_open(asked->view, comm->rank, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        vv_array_of(&stored.shape, &asked->array);
        asked->info = (struct varve_region_info){stored.name, stored.length, &asked->array};
        rc = 0;
        if (is_told && vv_peers_call(asked->peers, tell_region, asked) != 0)
            break;
    }
    vv_recipe_close(recipe);
    return rc;
}

static int look_at_regions(void *arg, struct vv_store *store, struct varve_error *error) {
    struct asked *asked = arg;
    int rc = vv_open_named(asked->session, store, asked->generation, asked->version, &asked->view, error);
    return rc ? rc : walk_regions(asked, 0, error);
}

static int tell_regions(void *arg, struct vv_store *store, struct varve_error *error) {
    struct asked *asked = arg;
    (void)store;
    return asked->asking->fn ? walk_regions(asked, 1, error) : 0;
}

/* Nobody's fn is called before all ranks can read theirs. */
static int try_stored(struct vv_session *session, const void *arg, uint32_t generation, uint64_t version,
                      struct varve_error *error) {
    struct asked asked = {.session = session, .asking = arg, .generation = generation, .version = version};
    int is_thin;
    int rc = vv_open_peers(session, &asked.peers, error);
    if (rc)
        return rc;
    rc = vv_keepers_complete(session, asked.peers, generation, version, &is_thin, error);
    if (rc == 0) {
        rc = session->is_keeper ? can_read(session, generation, version, error) : 0;
        rc = vv_comm_agree(session->comm, rc, error);
    }
    if (rc == 0)
        rc = vv_peers_run(asked.peers, look_at_regions, &asked, error);
    if (rc == 0)
        rc = vv_peers_run(asked.peers, tell_regions, &asked, error);
    vv_view_close(asked.view);
    vv_peers_close(asked.peers);
    return rc;
}

int vv_session_stored(struct vv_session *session, int64_t version, varve_region_fn fn, void *arg, int64_t *version_out,
                      struct varve_error *error) {
    struct vv_restart_options options = {.version = version};
    struct asking asking = {fn, arg};
    vv_flight_land(session);
    int rc = check_options(&options, error);
    rc = vv_comm_agree_call(session->comm, rc, VV_CALL_STORED, (uint64_t)version, error);
    if (rc)
        return rc;
    session->is_overwritten = 0; /* no restart is under way */
    rc = try_candidates(session, version, try_stored, &asking, version_out, error);
    if (rc && rc != VARVE_NO_CHECKPOINT && rc != -ENOENT) /* a program that allocates by it gets no further, either */
        session->has_failed_restart = 1;
    return rc;
}

/* ---- refusing ---- */

static int add_rejected(struct vv_session *session, uint32_t generation, uint64_t version, struct varve_error *error) {
    size_t size = (session->rejected_count + 1) * 2 * sizeof *session->rejected;
    uint64_t *rejected = vv_realloc(session->rejected, size);
    if (!rejected)
        return vv_error(error, -ENOMEM, "no memory to reject a checkpoint");
    rejected[2 * session->rejected_count] = generation;
    rejected[2 * session->rejected_count + 1] = version;
    session->rejected = rejected;
    return 0;
}

/* The one that was offered: what we restarted from, or else the newest of this version not rejected yet. 0 when all
 * are rejected. */
static int find_offered(struct vv_session *session, int64_t version, uint32_t *generation_out,
                        struct varve_error *error) {
    struct candidates candidates = {0};
    struct vv_attempt candidate = {0};
    const struct vv_attempt *parent = &session->parent;
    size_t count = 0;
    int rc = find_candidates(session, version, &candidates, error);
    *generation_out = 0;
    if (parent->generation && parent->version == (uint64_t)version &&
        !is_rejected(session, parent->generation, parent->version))
        *generation_out = parent->generation;
    while (rc == 0 && (rc = next_candidate(&candidates, &candidate, error)) > 0) {
        rc = 0;
        count++;
        if (*generation_out == 0 && !is_rejected(session, candidate.generation, candidate.version))
            *generation_out = candidate.generation;
    }
    vv_free(candidates.list);
    if (rc == 0 && count == 0)
        rc = vv_comm_all_say(error, -ENOENT, "%s has no checkpoint with version %" PRId64 " to reject", session->name,
                             version);
    return rc;
}

int vv_session_reject(struct vv_session *session, int64_t version, struct varve_error *error) {
    uint32_t generation = 0;
    vv_flight_land(session);
    int rc = version < 0 ? vv_error(error, -EINVAL, "version %" PRId64 " is below 0", version) : 0;
    rc = vv_comm_agree_call(session->comm, rc, VV_CALL_REJECT, (uint64_t)version, error);
    if (rc == 0)
        rc = find_offered(session, version, &generation, error);
    if (rc || generation == 0)
        return rc;
    rc = vv_comm_agree(session->comm, add_rejected(session, generation, (uint64_t)version, error), error);
    session->rejected_count += rc == 0;
    return rc;
}
