/* One checkpoint from its call to its end: versions, attempts, what a failure means, and who is told. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "format/attributes.h"
#include "session/session_private.h"

/* A version that was tried and failed may yet be adopted by a later session: going below it would put older memory
 * first. */
static int check_version(struct vv_session *session, int64_t given, struct varve_error *error) {
    uint64_t least = session->job.lineage.has_saved ? session->job.lineage.next_version : 0, version = (uint64_t)given;
    if (given < 0)
        return vv_error(error, -EINVAL, "version %" PRId64 " of %s is below 0: give 0 or more", given,
                        session->job.name);
    if (session->job.lineage.tries > 0 && session->job.lineage.tried_version > least)
        least = session->job.lineage.tried_version;
    if (version < least)
        return vv_error(error, -EINVAL,
                        "version %" PRIu64 " of %s is too low, %" PRIu64
                        " is the next: versions rise; restart from an older one to go back",
                        version, session->job.name, least);
    return 0;
}

static void begin_request(struct vv_session *session, uint64_t version) {
    struct vv_request *request = &session->request;
    memset(request, 0, sizeof *request);
    request->version = version;
    request->begun_ns = vv_clock_ns();
    vv_lineage_request(&session->job.lineage, version);
}

/* Is what our history refers to still a checkpoint? The commit checks it again; to know it now saves the attempt. An
 * error of the storage is no answer. */
static uint32_t is_parent_lost(struct vv_session *session) {
    const struct vv_attempt *parent = &session->job.lineage.parent;
    struct vv_record record;
    struct varve_error why = {0};
    if (parent->generation == 0)
        return 0;
    int rc = vv_record_load(session->job.store, session->job.name, parent->generation, parent->version, &record, &why);
    if (rc == 0)
        vv_record_clear(&record);
    return rc == VARVE_NO_CHECKPOINT || rc == VARVE_FORGOTTEN || rc == VARVE_CORRUPT;
}

static uint64_t protected_bytes(const struct vv_regions *regions) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < regions->count; i++)
        bytes += regions->list[i].name ? regions->list[i].size : 0;
    return bytes;
}

/* The generation may have changed since the last attempt; the leader knows. */
static int begin_attempt(struct vv_session *session, uint64_t version, struct vv_attempt *out, int *is_gathered,
                         struct varve_error *error) {
    struct {
        struct vv_attempt attempt;
        uint32_t is_anew;
        uint32_t is_gathered;
    } told = {{0, vv_lineage_try(&session->job.lineage), version}, 0, 0};
    if (session->job.lease)
        told.attempt.generation = vv_lease_generation(session->job.lease);
    if (vv_comm_is_root(session->job.comm)) {
        told.is_anew = is_parent_lost(session);
        told.is_gathered = (uint32_t)vv_team_wants(&session->outputs, protected_bytes(&session->memory.regions));
    }
    int rc = vv_comm_follow(session->job.comm, 0, &told, sizeof told, VV_COMM_ROOT, error);
    if (rc)
        return rc;
    *out = told.attempt;
    *is_gathered = (int)told.is_gathered;
    if (told.is_anew) /* a whole checkpoint needs nobody's record */
        vv_lineage_doubt(&session->job.lineage);
    if (!vv_is_local(&session->job))
        return 0;
    if (session->job.lease && vv_lease_generation(session->job.lease) != out->generation)
        rc = vv_error(error, VARVE_DISAGREED, "this node's store is in generation %u, rank 0's in %u: restart to go on",
                      vv_lease_generation(session->job.lease), out->generation);
    return vv_comm_agree(session->job.comm, rc, error);
}

/* What a person needs to know who meets this in the middle of the night. */
static void explain_full(const struct vv_session *session, uint64_t version, struct varve_error *error) {
    struct varve_error cause = *error;
    vv_error(error, cause.code,
             "version %" PRIu64 " of %s was not saved: %.380s; `varve forget` and `varve prune` free space", version,
             session->job.name, cause.text);
    error->rank = cause.rank;
}

/* ---- the end of an attempt ---- */

/* A leader: 1 if it is certain that the attempt is none and never will be a checkpoint; then it may be tried again. */
static uint64_t drop_attempt(struct vv_session *session, const struct vv_attempt *attempt) {
    struct varve_error why = {0};
    int rc = vv_attempt_drop(session->job.store, session->job.name, attempt, session->job.comm->ranks, &why);
    if (rc < 0)
        vv_log(&session->job.log, VV_LOG_INFO,
               "what the failed attempt at version %" PRIu64 " left could not be removed: %s", attempt->version,
               why.text);
    return rc == 0;
}

/* Everybody has sealed or given up its pack by now. 1 if the attempt may be tried again. */
static int drop_save(struct vv_session *session) {
    uint64_t is_dropped = 1;
    vv_save_drop(session->save);
    if (session->job.lease)
        is_dropped = drop_attempt(session, &session->save->plan.attempt);
    return session->job.comm->ops->reduce_min(session->job.comm, &is_dropped, 1) == 0 && is_dropped;
}

/* The attempt has failed on all ranks, with this code. 1 if it may be tried again. */
static int give_up_attempt(struct vv_session *session, int code, struct varve_error *error) {
    const struct vv_attempt attempt = session->save->plan.attempt;
    int may_retry = drop_save(session) && code != VARVE_FENCED && code != -ENOMEM && code != -EINVAL;
    vv_in_doubt_add(&session->job, &attempt);
    if (code == VARVE_FORGOTTEN)
        vv_lineage_doubt(&session->job.lineage);
    if (code == -ENOSPC || code == -EDQUOT)
        explain_full(session, attempt.version, error);
    vv_error_default(error, code, "the checkpoint failed: %s", varve_error_text(code));
    return may_retry;
}

static void end_save(struct vv_session *session) {
    if (session->save)
        vv_output_destroy(session->save->output);
    vv_free(session->save);
    session->save = NULL;
}

static uint32_t shared_writer_of(void *arg, uint32_t node, uint32_t local) {
    return vv_team_writer_of(arg, node, local);
}

/* What this rank has done. */
static struct vv_tally tally_of(const struct vv_save *save) {
    const struct vv_details *stats = &save->outcome.stats;
    uint32_t rank = save->job->comm->rank;
    struct vv_tally tally = {.sums = {[VV_TALLY_PROTECTED] = stats->bytes_protected,
                                      [VV_TALLY_CHANGED] = stats->bytes_changed,
                                      [VV_TALLY_ZERO] = stats->bytes_zero,
                                      [VV_TALLY_KNOWN] = stats->bytes_known,
                                      [VV_TALLY_ELSEWHERE] = stats->bytes_elsewhere,
                                      [VV_TALLY_NEW] = stats->bytes_new,
                                      [VV_TALLY_REWRITTEN] = stats->bytes_rewritten,
                                      [VV_TALLY_STORED] = stats->bytes_stored,
                                      [VV_TALLY_METADATA] = stats->bytes_metadata}};
    tally.changed = vv_spread_of(stats->bytes_changed, rank);
    tally.took = vv_spread_of(save->outcome.sealed_ns - save->plan.begun_ns, rank);
    return tally;
}

/* All ranks have written, or failed to: the record, or the end of the attempt. */
static int commit(struct vv_session *session, int *may_retry, struct varve_error *error) {
    struct vv_save *save = session->save;
    struct vv_hash128 writers_digest;
    struct vv_writers_map map = {.writers = save->output->writers, .arg = &session->outputs};
    if (save->output->plan.is_gathered)
        map.writer_of = shared_writer_of;
    *error = save->outcome.error;
    int rc = vv_comm_agree(session->job.comm, save->outcome.result, error);
    if (rc == 0)
        rc = vv_team_learn(&session->outputs, save->output->plan.is_gathered,
                           save->outcome.sealed_ns - save->plan.begun_ns, save->sums.fresh + save->sums.rewritten,
                           error);
    session->request.tally = tally_of(save);
    if (rc == 0) /* all ranks have said yes */
        rc = vv_leaders_commit(&session->job, &save->plan.attempt, &map, &session->request.tally, &writers_digest,
                               error);
    if (rc == 0)
        vv_save_accept(save, writers_digest);
    else
        *may_retry = give_up_attempt(session, rc, error);
    return rc;
}

static void log_request(struct vv_session *session) {
    const struct vv_request *request = &session->request;
    struct vv_logged logged = {.version = request->version,
                               .result = request->result,
                               .error = &request->error,
                               .durable_ns = request->durable_ns - request->begun_ns,
                               .idle_ns = request->idle_ns,
                               .stats = &request->stats,
                               .tally = &session->request.tally};
    vv_session_log_checkpoint(session->about.log, &logged);
}

/* The request is over: whoever asks will be told from now on. */
static void end_request(struct vv_session *session, int result, const struct varve_error *error) {
    struct vv_request *request = &session->request;
    if (result == 0) /* before anybody may ask for it, or forget it */
        vv_tiers_add(session->background.tiers, &session->save->plan.attempt);
    vv_background_lock(session);
    if (session->save)
        request->stats = session->save->outcome.stats;
    strncpy(request->stats.dedup, session->rank_dedup.name, sizeof request->stats.dedup - 1);
    strncpy(request->stats.dedup_reason, session->rank_dedup.reason, sizeof request->stats.dedup_reason - 1);
    memcpy(request->stats.aggregate_reason, session->outputs.team.reason, sizeof request->stats.aggregate_reason);
    request->result = result;
    if (result)
        request->error = *error;
    request->durable_ns = vv_clock_ns();
    request->is_done = 1;
    log_request(session);
    end_save(session);
    vv_background_tell(session);
    vv_background_unlock(session);
}

void vv_request_finish(struct vv_session *session) {
    struct varve_error error = {0};
    int may_retry = 0; /* the program has gone on: what was to be saved is not there any more */
    int rc = commit(session, &may_retry, &error);
    end_request(session, rc, &error);
    if (rc == 0)
        vv_maintain(&session->job);
    else if (vv_comm_is_root(session->job.comm))
        vv_log(&session->job.log, VV_LOG_WARN,
               "checkpoint %" PRIu64 " failed after its call had returned, on rank %d: %s", session->request.version,
               error.rank, error.text);
}

/* ---- its beginning ---- */

/* What all ranks must have before they begin. */
static int make_save(struct vv_session *session, const struct vv_output_plan *plan) {
    struct vv_save *save = vv_calloc(1, sizeof *save);
    if (!save)
        return -ENOMEM;
    session->save = save;
    save->job = &session->job;
    save->memory = &session->memory;
    save->outputs = &session->outputs;
    save->measured = &session->measured;
    save->rank_dedup = &session->rank_dedup;
    save->audit = &session->audit;
    save->plan.attempt = plan->attempt;
    save->plan.source = UINT32_MAX;
    save->output = vv_output_create(&session->outputs, plan);
    return save->output ? 0 : -ENOMEM;
}

static int begin_save(struct vv_session *session, struct varve_error *error) {
    struct vv_output_plan plan = {.may_talk = session->job.caller_comm || !vv_is_in_background(&session->memory)};
    int rc = begin_attempt(session, session->request.version, &plan.attempt, &plan.is_gathered, error);
    if (rc)
        return rc;
    if (make_save(session, &plan) != 0)
        rc = vv_error(error, -ENOMEM, "no memory to begin a checkpoint");
    rc = vv_comm_agree(session->job.comm, rc, error);
    if (rc)
        end_save(session);
    return rc;
}

/* Capture, and leave the rest to the background. */
static int launch(struct vv_session *session, struct varve_error *error) {
    int rc = begin_save(session, error);
    if (rc)
        return rc;
    rc = vv_comm_agree(session->job.comm, vv_save_prepare(session->save, error), error);
    if (rc)
        give_up_attempt(session, rc, error);
    else
        vv_background_start(session);
    return rc;
}

/* Everything inside the call: one or more attempts. */
static int run_attempts(struct vv_session *session, struct varve_error *error) {
    unsigned retries = 0;
    int is_anew = 0, rc = 0;
    vv_settings_on_error(&session->job.settings, &retries);
    for (unsigned i = 0; i <= retries; i++) {
        int may_retry = 0;
        vv_error_clear(error);
        end_save(session);
        rc = begin_save(session, error);
        if (rc)
            return rc;
        struct vv_save *save = session->save;
        save->outcome.result =
            vv_comm_agree(session->job.comm, vv_save_prepare(save, &save->outcome.error), &save->outcome.error);
        if (save->outcome.result == 0)
            vv_save_write(save);
        rc = commit(session, &may_retry, error);
        session->save->outcome.stats.attempts = i + 1;
        if (rc == 0 || !may_retry)
            return rc;
        if (rc == VARVE_FORGOTTEN && !is_anew) { /* a whole checkpoint needs nobody's record */
            is_anew = 1;
            retries++;
        }
        if (i < retries && vv_comm_is_root(session->job.comm))
            vv_log(&session->job.log, VV_LOG_WARN, "checkpoint %" PRIu64 ", attempt %u failed: %s",
                   session->request.version, i + 1, error->text);
    }
    return rc;
}

/* ---- a failure that nobody was told of yet ---- */

/* With on_error=warn there was a warning, which is all that the user wants. */
static int is_untold(const struct vv_session *session) {
    const struct vv_request *request = &session->request;
    unsigned retries;
    return request->result != 0 && !request->is_told &&
           vv_settings_on_error(&session->job.settings, &retries) != VV_ON_ERROR_WARN;
}

/* A session that was fenced can do nothing any more: there the failure is all there is to tell. */
static int refuse_fenced(struct vv_session *session, int64_t version, struct varve_error *error) {
    struct vv_request *request = &session->request;
    if (!is_untold(session) || request->result != VARVE_FENCED)
        return 0;
    request->is_told = 1;
    vv_error(error, VARVE_FENCED,
             "version %" PRIu64 " failed after its call had returned, and version %" PRId64 " was not begun: %.300s",
             request->version, version, request->error.text);
    error->rank = request->error.rank;
    return VARVE_FENCED;
}

/* Why it failed; a full storage says again which version it was. */
static const char *without_version(const struct vv_request *earlier) {
    static const char mark[] = " was not saved: ";
    const char *text = earlier->error.text, *at = strstr(text, mark);
    return strncmp(text, "version ", 8) == 0 && at ? at + sizeof mark - 1 : text;
}

/* This call has begun its own checkpoint, or (rc) failed to; it also tells of the one before. */
static int tell_earlier(const struct vv_request *earlier, int64_t version, int rc, struct varve_error *error) {
    struct varve_error own = *error;
    if (rc) {
        vv_error(error, rc, "%.290s (version %" PRIu64 " had failed before, after its call had returned: %.100s)",
                 own.text, earlier->version, earlier->error.text);
        error->rank = own.rank;
        return rc;
    }
    vv_error(error, earlier->result, "version %" PRId64 " was begun whole; version %" PRIu64 " had failed: %.390s",
             version, earlier->version, without_version(earlier));
    error->rank = earlier->error.rank;
    return VARVE_EARLIER_FAILED;
}

/* A program that takes VARVE_EARLIER_FAILED for a failure of this version asks for it once more: it is there. */
static int is_there_already(const struct vv_session *session, int64_t version) {
    const struct vv_request *request = &session->request;
    return request->tells_earlier && request->result == 0 && version >= 0 && request->version == (uint64_t)version;
}

/* A claim that cannot be had fails the checkpoint, like everything else that the storage refuses: whoever asks is told.
 */
static int run_request(struct vv_session *session, struct varve_error *error) {
    int rc = vv_access_write(&session->job, error);
    if (rc || vv_is_in_background(&session->memory)) {
        rc = rc ? rc : launch(session, error);
        if (rc)
            end_request(session, rc, error);
        return rc;
    }
    rc = run_attempts(session, error);
    end_request(session, rc, error);
    if (rc == 0)
        vv_maintain(&session->job);
    return rc;
}

/* Some rank has other arrays than when the index was made. A checkpoint can do without one. */
static void renew_index(struct vv_session *session) {
    struct vv_about *about = &session->about;
    struct varve_error why = {0};
    struct vv_buf made;
    vv_buf_init(&made);
    int rc = vv_index_gather(session, &made, &why);
    if (rc == 0 && vv_comm_is_root(session->job.comm))
        rc = vv_keep_index(session, &made, &why);
    vv_buf_clear(&made);
    rc = vv_comm_agree(session->job.comm, rc, &why);
    about->told = vv_digest(about->said.data, about->said.size); /* not again until somebody says something else */
    if (rc == 0)
        return;
    (void)vv_session_unprotect(session, VV_INDEX); /* an old one would only lead astray */
    vv_log(&session->job.log, VV_LOG_INFO, "there is no index of arrays, a restart on other ranks takes longer: %s",
           why.text);
}

/* Before anything is begun, and the same on all ranks. 1: there is nothing to begin. */
static int may_begin(struct vv_session *session, int64_t version, struct varve_error *error) {
    int is_there = is_there_already(session, version);
    uint64_t is_told = 1;
    int rc = is_there ? 0 : check_version(session, version, error);
    if (rc == 0 && !is_there)
        rc = vv_regions_ended(&session->memory.regions, error);
    if (rc == 0 && !is_there)
        rc = vv_ask_regions(session, error);
    if (rc == 0)
        vv_tell_protected(session);
    if (rc == 0 && !is_there)
        vv_heap_tell_others(session);
    if (rc == 0 && !is_there)
        rc = vv_heap_search(session, error);
    if (rc == 0 && !is_there)
        is_told = (uint64_t)vv_index_is_told(session);
    rc = vv_comm_agree_least(session->job.comm, rc, VV_CALL_CHECKPOINT, (uint64_t)version, &is_told, error);
    if (rc == 0)
        rc = vv_access_refuse(&session->job, error);
    if (rc == 0)
        rc = refuse_fenced(session, version, error);
    if (rc == 0 && is_there)
        session->request.tells_earlier = 0; /* once */
    if (rc == 0 && !is_told)
        renew_index(session);
    return rc ? rc : is_there;
}

static const char *const capture_names[] = {"auto", "sync", "trap", "frozen", "held"};

static void log_call(struct vv_session *session) {
    const struct vv_request *request = &session->request;
    vv_background_lock(session); /* a sample may be freeing regions */
    const char *tracker = vv_capture_tracker(session->memory.capture);
    vv_background_unlock(session);
    struct vv_logged_call call = {request->version, request->blocked_ns, request->waited_ns,
                                  capture_names[session->memory.capturing], tracker};
    vv_session_log_call(session->about.log, &call);
}

/* The one before has landed, perhaps just now: what varve_need saw of it was the time so far. */
static void note_durable(struct vv_session *session) {
    const struct vv_request *last = &session->request;
    if (last->begun_ns && last->is_done && last->result == 0)
        vv_schedule_durable(&session->schedule, vv_request_seconds(last));
}

int vv_session_checkpoint(struct vv_session *session, int64_t version, struct varve_error *error) {
    struct varve_error why = {0};
    struct vv_request earlier = {0};
    uint64_t begin = vv_clock_ns();
    vv_background_land(session);
    uint64_t landed = vv_clock_ns();
    note_durable(session);
    int rc = may_begin(session, version, &why);
    if (rc) { /* it was not begun: wait, close and the statistics speak of the last one that was */
        if (rc < 0)
            *error = why;
        else
            vv_asked_begun(&session->asked); /* it is durable already */
        return rc < 0 ? rc : 0;
    }
    if (is_untold(session))
        earlier = session->request;
    begin_request(session, (uint64_t)version);
    vv_background_occupy(session);
    rc = run_request(session, &why);
    if (!session->background.is_flying)
        vv_background_rest(session);
    vv_background_lock(session);
    session->request.is_told = rc != 0;
    session->request.tells_earlier = earlier.result != 0 && rc == 0;
    session->request.blocked_ns = vv_clock_ns() - begin;
    session->request.waited_ns = landed - begin;
    vv_background_unlock(session);
    log_call(session);
    vv_schedule_made(&session->schedule, begin, vv_clock_ns(), landed - begin);
    if (rc == 0)
        vv_asked_begun(&session->asked);
    if (earlier.result)
        rc = tell_earlier(&earlier, version, rc, &why);
    if (rc)
        *error = why;
    return rc;
}

/* ---- asking ---- */

/* Is there a tier to ask? The same on all ranks. */
static int is_unsettled(const struct vv_session *session) {
    const struct vv_request *request = &session->request;
    return session->job.settings.durable > 1 && request->begun_ns != 0 && request->result == 0 && !request->is_settled;
}

int vv_request_settle(struct vv_session *session, struct varve_error *error) {
    struct vv_request *request = &session->request;
    struct varve_error why = {.rank = -1};
    if (session->background.is_closing)
        vv_tiers_limit(session->background.tiers);
    if (is_unsettled(session)) {
        int rc = vv_tiers_wait(session->background.tiers, (unsigned)session->job.settings.durable, &why);
        request->tier_result = vv_comm_agree(vv_comm_of_caller(session), rc, &why);
        request->tier_error = why;
        request->is_settled = 1;
    }
    if (request->tier_result)
        *error = request->tier_error;
    return request->tier_result;
}

int vv_session_wait(struct vv_session *session, struct varve_error *error) {
    struct vv_request *request = &session->request;
    vv_background_wait(session);
    if (request->result) {
        request->is_told = 1;
        *error = request->error;
    }
    return request->result ? request->result : vv_request_settle(session, error);
}

/* 1, 0, or an error of the group. Rank 0 knows. */
static int test_tier(struct vv_session *session) {
    struct varve_comm *comm = vv_comm_of_caller(session);
    uint64_t is_there =
        (uint64_t)vv_tiers_is_settled(session->background.tiers, (unsigned)session->job.settings.durable);
    if (!is_unsettled(session))
        return 1;
    int rc = comm->ops->reduce_min(comm, &is_there, 1);
    return rc ? rc : (int)is_there;
}

int vv_session_test(struct vv_session *session, struct varve_error *error) {
    int rc = vv_background_test(session);
    if (rc == 1 && session->job.settings.durable > 1) {
        vv_background_wait(session);
        rc = test_tier(session);
    }
    if (rc < 0)
        return vv_error(error, rc, "the processes of the job cannot talk to each other any more: %s",
                        varve_error_text(rc));
    if (rc == 0)
        return 0;
    rc = vv_session_wait(session, error);
    return rc ? rc : 1;
}

static void note_capture(const struct vv_session *session, struct vv_details *stats) {
    struct vv_capture_sums sums;
    vv_capture_sums(session->memory.capture, &sums);
    stats->bytes_staged = sums.bytes_staged;
    stats->bytes_drained = sums.bytes_drained;
    stats->bytes_held = sums.bytes_held;
    stats->bytes_frozen = sums.bytes_frozen;
    stats->bytes_frozen_most = sums.frozen_memory;
    stats->pages_wait = sums.wait_pages;
    stats->pages_cow = sums.cow_pages;
    stats->pages_avoided = sums.avoided_pages;
    stats->pages_ahead = sums.ahead_pages;
    stats->pages_trapped = sums.trapped_pages;
    stats->bytes_memory = vv_memory_most();
    strncpy(stats->capture, capture_names[session->memory.capturing], sizeof stats->capture - 1);
    strncpy(stats->capture_reason, sums.reason ? sums.reason : "", sizeof stats->capture_reason - 1);
    strncpy(stats->tracker, vv_capture_tracker(session->memory.capture), sizeof stats->tracker - 1);
    strncpy(stats->tracker_reason, vv_capture_reason(session->memory.capture), sizeof stats->tracker_reason - 1);
}

static void note_tiers(struct vv_session *session, struct vv_details *stats) {
    struct vv_tiers_counts counts;
    vv_tiers_count(session->background.tiers, &counts);
    stats->tiers_moved = counts.moved;
    stats->tiers_passed = counts.passed;
    stats->tiers_failed = counts.failed;
    stats->tiers_bytes = counts.bytes;
    stats->tiers_seconds = (double)counts.moving_ns * 1e-9;
    stats->tiers_back = counts.back;
    stats->tiers_healed = counts.healed;
}

void vv_session_stats(struct vv_session *session, struct vv_details *out) {
    vv_background_lock(session);
    const struct vv_request *request = &session->request;
    *out = request->stats;
    out->version = request->begun_ns ? (int64_t)request->version : -1;
    out->result = request->is_done ? request->result : -EINPROGRESS;
    out->seconds_blocked = (double)request->blocked_ns * 1e-9;
    out->seconds_waited = (double)request->waited_ns * 1e-9;
    if (request->is_done && request->begun_ns)
        out->seconds_durable = (double)(request->durable_ns - request->begun_ns) * 1e-9;
    note_capture(session, out); /* a sample may be freeing regions */
    vv_background_unlock(session);
    note_tiers(session, out);
    vv_restarted_tell(session, out);
}
