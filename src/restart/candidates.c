/* Which checkpoint: walk the candidates, newest first, until one is whole on all ranks; ask about them; refuse one.
 *
 * The leaders list their records; the newest of all is the next candidate. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "restart/restart_private.h"

struct candidates {
    struct vv_restart_context *context;
    int64_t version;
    struct vv_attempt *list; /* a leader's */
    size_t count, capacity, next;
    uint64_t rejected;
    int failed; /* they could not be listed: the ranks agree on that when they choose the first */
};

static int add_candidate(void *arg, uint32_t generation, uint64_t version) {
    struct candidates *candidates = arg;
    if (candidates->version >= 0 && version != (uint64_t)candidates->version)
        return 0;
    if (candidates->version < 0 && vv_lineage_is_rejected(&candidates->context->job->lineage, generation, version)) {
        candidates->rejected++;
        return 0;
    }
    if (VV_GROW(candidates->list, candidates->count, candidates->capacity) != 0)
        return -ENOMEM;
    candidates->list[candidates->count++] = (struct vv_attempt){generation, 0, version};
    return 0;
}

static void find_candidates(struct vv_restart_context *context, int64_t version, struct candidates *out,
                            struct varve_error *error) {
    int rc = 0;
    memset(out, 0, sizeof *out);
    out->context = context;
    out->version = version;
    if (context->job->is_leader)
        rc = vv_records_list_whole(context->job->store, context->job->name, add_candidate, out, error);
    if (rc < 0)
        vv_error_default(error, rc, "the checkpoints of %s could not be listed: %s", context->job->name,
                         varve_error_text(rc));
    out->failed = rc < 0 ? rc : 0;
}

/* 1 and the next candidate, 0 when there is none left, or an error, the same on all ranks. Leaders may have different
 * lists: a node may have missed a commit. The highest version counts among those of the highest generation only, so it
 * is asked for again unless all leaders have that generation next. */
static int next_candidate(struct candidates *candidates, struct vv_attempt *out, struct varve_error *error) {
    struct varve_comm *comm = candidates->context->job->comm;
    const struct vv_attempt none = {0};
    const struct vv_attempt *own = candidates->next < candidates->count ? &candidates->list[candidates->next] : &none;
    int is_leader = candidates->context->job->is_leader;
    uint64_t least[] = {~(uint64_t)own->generation, ~own->version, is_leader ? own->generation : UINT64_MAX};
    int rc = vv_comm_agree_values(comm, candidates->failed, least, 3, error);
    if (rc)
        return rc;
    uint64_t generation = ~least[0], version = ~least[1];
    if (least[2] != generation) {
        version = own->generation == generation ? own->version : 0;
        rc = vv_comm_most(comm, &version);
    }
    if (rc)
        return vv_comm_broken(comm, rc, error);
    if (own->generation == generation && own->version == version)
        candidates->next++;
    *out = (struct vv_attempt){(uint32_t)generation, 0, version};
    return generation != 0;
}

/* Damage makes us try an older one; what is merely gone is passed over; everything else is the caller's to know. */
static int may_go_on(struct vv_restart_context *context, const struct vv_attempt *candidate, int rc,
                     const struct varve_error *why) {
    if (rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT) {
        if (vv_comm_is_root(context->job->comm))
            vv_log(&context->job->log, VV_LOG_INFO, "passed over checkpoint %s@%" PRIu64 " (generation %u): %s",
                   context->job->name, candidate->version, candidate->generation, why->text);
        return 1;
    }
    if (rc != VARVE_CORRUPT)
        return 0;
    if (vv_comm_is_root(context->job->comm))
        vv_log(&context->job->log, VV_LOG_WARN,
               "skipped checkpoint %s@%" PRIu64 " (generation %u), damaged on rank %d: %s", context->job->name,
               candidate->version, candidate->generation, why->rank, why->text);
    return 1;
}

static int try_one(struct vv_restart_context *context, vv_try_fn try, const void *arg,
                   const struct vv_attempt *candidate, struct varve_error *why) {
    vv_error_clear(why);
    int result = try(context, arg, candidate->generation, candidate->version, why);
    return result < 0 ? vv_see_forgotten(context, candidate, result, why) : result;
}

/* A further tier may have it whole: then that is the candidate. 1, 0, or an error, the same on all ranks. */
static int find_instead(struct vv_restart_context *context, const struct candidates *candidates,
                        struct vv_attempt *candidate, struct varve_error *error) {
    struct vv_attempt found = {0};
    int rc = 0, is_newest = candidates->version < 0 && candidates->rejected == 0;
    if (!context->has_tiers)
        return 0;
    if (vv_comm_is_root(context->job->comm) && context->damaged)
        rc = context->damaged(context->damaged_arg, candidate, is_newest, &found, error);
    rc = vv_comm_follow(context->job->comm, rc < 0 ? rc : 0, &found, sizeof found, VV_COMM_ROOT, error);
    if (rc == 0 && found.generation)
        *candidate = found;
    return rc < 0 ? rc : found.generation != 0;
}

/* All ranks say the same: nodes with stores of their own have other addresses. What follows a ? may be secret. */
static int say_first_run(const struct vv_job *job, struct varve_error *error) {
    const char *store = vv_is_local(job) ? "this store" : job->address;
    size_t size = strcspn(store, "?");
    return vv_comm_all_say(error, VARVE_NO_CHECKPOINT,
                           "there is no checkpoint of %s in %.*s: a first run begins from the start", job->name,
                           (int)(size < 200 ? size : 200), store);
}

/* The result of a walk that ended without success. Two results promise that nothing was written: not after this walk,
 * or one before it in the same call, has begun to. */
static int explain(const struct vv_restart_context *context, int64_t version, int result, const struct varve_error *why,
                   const struct varve_error *damage, struct varve_error *error) {
    int is_refused = result == VARVE_MISMATCH, is_promise = is_refused || result == VARVE_NO_CHECKPOINT;
    if (context->memory->is_overwritten && is_promise && !damage->code)
        return vv_comm_all_say(error, VARVE_CORRUPT,
                               "a checkpoint was forgotten while it was read, and no other can be: %s",
                               why->code ? why->text : "there is none");
    if (context->memory->is_overwritten && is_promise)
        result = VARVE_CORRUPT;
    if (result == VARVE_NO_CHECKPOINT && version >= 0) /* asked for by number: not to be taken for a first run */
        return vv_comm_all_say(error, -ENOENT,
                               "%s has no checkpoint with version %" PRId64 "; `varve ls` tells which there are",
                               context->job->name, version);
    if (result == VARVE_NO_CHECKPOINT)
        return say_first_run(context->job, error);
    *error = result == VARVE_CORRUPT ? *damage : *why;
    size_t used = strlen(error->text);
    if (is_refused && result == VARVE_CORRUPT)
        snprintf(error->text + used, sizeof error->text - used, "; an older checkpoint does not fit: %s", why->text);
    else if (result == VARVE_CORRUPT)
        snprintf(error->text + used, sizeof error->text - used, "; `varve verify` names all that is damaged");
    return result;
}

int vv_see_forgotten(struct vv_restart_context *context, const struct vv_attempt *candidate, int result,
                     struct varve_error *why) {
    struct varve_error ignored = {0};
    uint32_t is_gone = 0;
    if (result == VARVE_MISMATCH || context->job->may == VV_MAY_WRITE)
        return result;
    if (vv_comm_is_root(context->job->comm)) {
        int rc = vv_can_read(context->job, candidate->generation, candidate->version, &ignored);
        is_gone = rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT;
    }
    int rc = vv_comm_follow(context->job->comm, 0, &is_gone, sizeof is_gone, VV_COMM_ROOT, why);
    if (rc || !is_gone)
        return rc ? rc : result;
    return vv_comm_all_say(why, VARVE_FORGOTTEN, "it was forgotten while it was read");
}

/* There is none, or none that the program has not rejected: that is no first run. 0 if nothing was rejected.
 * Collective.
 */
static int see_rejected(struct vv_restart_context *context, uint64_t rejected, struct varve_error *error) {
    int rc = vv_comm_most(context->job->comm, &rejected);
    if (rc)
        return vv_comm_broken(context->job->comm, rc, error);
    if (rejected == 0)
        return 0;
    return vv_comm_all_say(error, -ENOENT,
                           "all checkpoints of %s that are left, %" PRIu64
                           ", were rejected in this session: nothing was restored; a version that is asked for by its "
                           "number still comes back",
                           context->job->name, rejected);
}

static int try_listed(struct vv_restart_context *context, int64_t version, vv_try_fn try, const void *arg,
                      int64_t *version_out, struct varve_error *error) {
    struct candidates candidates = {0};
    struct vv_attempt candidate = {0};
    struct varve_error why = {0}, damage = {0};
    vv_access_look(context->job);
    find_candidates(context, version, &candidates, error);
    int rc = 0, result = VARVE_NO_CHECKPOINT;
    while (rc == 0 && (rc = next_candidate(&candidates, &candidate, error)) > 0) {
        rc = 0;
        result = try_one(context, try, arg, &candidate, &why);
        int is_left = result != 0 && may_go_on(context, &candidate, result, &why);
        if (is_left && result == VARVE_CORRUPT && (rc = find_instead(context, &candidates, &candidate, error)) == 1) {
            rc = 0;
            result = try_one(context, try, arg, &candidate, &why);
            is_left = result != 0 && may_go_on(context, &candidate, result, &why);
        }
        if (result == 0 && version_out)
            *version_out = (int64_t)candidate.version;
        if (rc < 0 || result == 0 || !is_left)
            break;
        if (damage.code == 0 && (result == VARVE_CORRUPT || context->memory->is_overwritten))
            damage = why;
        result = damage.code ? VARVE_CORRUPT : VARVE_NO_CHECKPOINT;
    }
    vv_free(candidates.list);
    if (rc < 0 || result == 0)
        return rc < 0 ? rc : 0;
    if (result == VARVE_NO_CHECKPOINT && !context->memory->is_overwritten) {
        rc = see_rejected(context, candidates.rejected, error);
        if (rc)
            return rc;
    }
    rc = explain(context, version, result, &why, &damage, error);
    if (rc == VARVE_NO_CHECKPOINT)
        vv_tell_first_run(context->job);
    return rc;
}

/* Is there a newer record than this one? Then it becomes that. Collective; 1, or 0, also when the group cannot talk any
 * more. */
static int has_newer(struct vv_restart_context *context, struct vv_attempt *newest) {
    struct vv_attempt found = {0};
    struct varve_error ignored = {0};
    uint32_t is_newer = 0;
    if (vv_comm_is_root(context->job->comm) && vv_newest_record(context->job, &found, &ignored) == 0)
        is_newer = vv_attempt_is_newer(&found, newest) != 0;
    if (is_newer)
        *newest = found;
    int rc = vv_comm_follow(context->job->comm, 0, &is_newer, sizeof is_newer, VV_COMM_ROOT, &ignored);
    return rc == 0 && is_newer;
}

/* Beside a job with keep=N, all that we listed may be forgotten before we come to read it. Then there are newer ones.
 */
int vv_try_candidates(struct vv_restart_context *context, int64_t version, vv_try_fn try, const void *arg,
                      int64_t *version_out, struct varve_error *error) {
    struct vv_attempt newest = {0};
    int rc = vv_access_choose(context->job, context->has_begun, error);
    if (rc)
        return rc;
    if (context->job->may == VV_MAY_WRITE || version >= 0)
        return try_listed(context, version, try, arg, version_out, error);
    (void)has_newer(context, &newest);
    do {
        vv_error_clear(error);
        rc = try_listed(context, version, try, arg, version_out, error);
    } while ((rc == VARVE_NO_CHECKPOINT || rc == VARVE_CORRUPT || rc == -ENOENT) && has_newer(context, &newest));
    return rc;
}

int vv_restart_options_check(const struct vv_restart_options *options, struct varve_error *error) {
    if (options->version < VARVE_LATEST)
        return vv_error(error, -EINVAL, "version %" PRId64 ": give 0 or more, or VARVE_LATEST", options->version);
    if (options->flags & ~(VARVE_RESTART_RESIZE | VARVE_RESTART_MISSING))
        return vv_error(error, -EINVAL, "flags %#x are not known", options->flags);
    const struct varve_allocator *allocator = options->allocator;
    if (options->is_allocating && (!allocator || allocator->size < offsetof(struct varve_allocator, choose) ||
                                   !allocator->alloc || !allocator->release))
        return vv_error(error, -EINVAL, "varve_restart_alloc needs both functions of an allocator, and its size");
    return 0;
}

/* The one that was offered: what we restarted from, or else the newest of this version not rejected yet. 0 when all
 * are rejected. */
int vv_find_offered(struct vv_restart_context *context, int64_t version, uint32_t *generation_out,
                    struct varve_error *error) {
    struct candidates candidates = {0};
    struct vv_attempt candidate = {0};
    const struct vv_attempt *parent = &context->job->lineage.parent;
    size_t count = 0;
    int rc = 0;
    find_candidates(context, version, &candidates, error);
    *generation_out = 0;
    if (parent->generation && parent->version == (uint64_t)version &&
        !vv_lineage_is_rejected(&context->job->lineage, parent->generation, parent->version))
        *generation_out = parent->generation;
    while (rc == 0 && (rc = next_candidate(&candidates, &candidate, error)) > 0) {
        rc = 0;
        count++;
        if (*generation_out == 0 &&
            !vv_lineage_is_rejected(&context->job->lineage, candidate.generation, candidate.version))
            *generation_out = candidate.generation;
    }
    vv_free(candidates.list);
    if (rc == 0 && count == 0)
        rc = vv_comm_all_say(error, -ENOENT, "%s has no checkpoint with version %" PRId64 " to reject",
                             context->job->name, version);
    return rc;
}
