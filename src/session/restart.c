/* Restarting, continuing, asking and rejecting, as the program calls them. */
#include <errno.h>
#include <inttypes.h>

#include "session/session_private.h"
#include "store/read_costs.h"

/* Only the newest is replaced: what is copied back becomes the newest. */
static int meet_damage(void *arg, const struct vv_attempt *damaged, int is_newest, struct vv_attempt *out,
                       struct varve_error *error) {
    struct vv_session *session = arg;
    struct vv_job *job = &session->job;
    struct vv_heal heal = {job->store, job->lease, damaged};
    if (is_newest && job->lease)
        return vv_tiers_heal(session->background.tiers, &heal, out, error);
    vv_tiers_look_for(session->background.tiers, damaged);
    return 0;
}

static struct vv_restart_context context_of(struct vv_session *session) {
    const struct vv_schedule *schedule = &session->schedule;
    int is_asking = (schedule->interval == VV_CHOOSE_INTERVAL_AUTO || schedule->has_end) && !schedule->has_made;
    session->restarted.told = (struct vv_told_costs){-1, -1};
    return (struct vv_restart_context){
        .job = &session->job,
        .memory = &session->memory,
        .replicas = session->outputs.replicas.count,
        .parity = session->outputs.lost_most,
        .has_begun = session->request.begun_ns != 0,
        .has_tiers = *session->job.settings.tiers && session->job.may != VV_MAY_READ,
        .damaged = session->background.tiers ? meet_damage : NULL,
        .damaged_arg = session,
        .told = is_asking && vv_comm_is_root(session->job.comm) ? &session->restarted.told : NULL};
}

/* A program that goes on after this error makes checkpoints of something else: see keep_options in job/maintenance.c.
 */
static int noted(struct vv_session *session, int rc) {
    vv_lineage_note_restart(&session->job.lineage, rc < 0 && rc != VARVE_NO_CHECKPOINT);
    return rc;
}

/* The job continues from a checkpoint: what was before it does not count any more. */
static int go_on(struct vv_session *session, int rc) {
    if (rc == 0) {
        vv_rank_dedup_forget(&session->rank_dedup); /* sources have other numbers now */
        session->request.is_told = 1;               /* whatever failed before is behind us */
        session->request.tells_earlier = 0;
        vv_schedule_resumed(&session->schedule, vv_clock_ns(), session->restarted.told.cost,
                            session->restarted.told.durable);
    }
    return noted(session, rc);
}

/* All that is left is damaged: if a tier has it, the error says how it comes back. Collective. */
static int advise(struct vv_session *session, int rc, struct varve_error *error) {
    struct vv_job *job = &session->job;
    struct varve_error ignored = {.rank = -1};
    char advice[VV_TIERS_ADVICE] = "";
    if (rc != VARVE_CORRUPT || !*job->settings.tiers)
        return rc;
    vv_tiers_advice(session->background.tiers, advice);
    if (vv_comm_follow(job->comm, 0, advice, sizeof advice, VV_COMM_ROOT, &ignored) == 0 && *advice) {
        struct varve_error why = *error;
        vv_error(error, rc, "%.100s; %s", why.text, advice);
        error->rank = why.rank;
    }
    return rc;
}

/* ---- what it costs ---- */

static struct vv_restarted counters(const struct vv_session *session) {
    struct vv_backend_counts counts = {.bytes_read = 0};
    vv_count_get(session->job.store->backend, &counts);
    return (struct vv_restarted){
        .reads = counts.calls[VV_VERB_GET], .bytes_read = counts.bytes_read, .reading_ns = counts.get_ns};
}

static void end_counting(struct vv_session *session, const struct vv_restarted *before, uint64_t begun_ns) {
    struct vv_restarted now = counters(session);
    session->restarted = (struct vv_restarted){.seconds = (double)(vv_clock_ns() - begun_ns) * 1e-9,
                                               .reads = now.reads - before->reads,
                                               .bytes_read = now.bytes_read - before->bytes_read,
                                               .reading_ns = now.reading_ns - before->reading_ns};
}

void vv_restarted_tell(const struct vv_session *session, struct vv_details *out) {
    const struct vv_restarted *restarted = &session->restarted;
    const struct vv_read_costs *costs = session->job.store->costs;
    out->restart_seconds = restarted->seconds;
    out->restart_reads = restarted->reads;
    out->restart_bytes_read = restarted->bytes_read;
    out->restart_reading = (double)restarted->reading_ns * 1e-9;
    out->restart_blocks = costs->blocks;
    out->restart_bytes_decoded = costs->bytes_raw;
    out->restart_rounds = costs->rounds;
    out->restart_checking = (double)costs->checking_ns * 1e-9;
    out->restart_decoding = (double)costs->decoding_ns * 1e-9;
    out->restart_copying = (double)costs->copying_ns * 1e-9;
    out->restart_waiting = (double)costs->waiting_ns * 1e-9;
    out->restart_bytes_rebuilt = costs->bytes_rebuilt;
}

static int logged(struct vv_session *session, const char *what, int rc, const struct varve_error *error) {
    vv_session_log_restart(session->about.log, what, (int64_t)session->job.lineage.parent.version,
                           session->restarted.seconds, session->restarted.bytes_read, rc, error);
    return rc;
}

/* ---- the calls ---- */

/* Nothing is in flight, regions tell where they are, and all ranks want the same. */
static int enter(struct vv_session *session, const struct vv_restart_options *options, enum vv_call call, int rc,
                 struct varve_error *error) {
    if (rc == 0)
        rc = vv_restart_options_check(options, error);
    if (rc == 0 && !options->is_allocating)
        rc = vv_regions_ended(&session->memory.regions, error);
    if (rc == 0)
        rc = vv_ask_regions(session, error);
    rc = vv_comm_agree_call(session->job.comm, rc, call, (uint64_t)options->version, error);
    if (rc)
        return noted(session, rc);
    vv_regions_pack(&session->memory.regions);
    /* The program may let go of memory when it is asked; and a heap gets the size that is stored. */
    if (options->is_allocating || session->about.heap.fixed)
        vv_unwatch_regions(&session->memory);
    session->memory.is_overwritten = 0;
    *session->job.store->costs = (struct vv_read_costs){.blocks = 0};
    return 0;
}

int vv_session_restart(struct vv_session *session, const struct vv_restart_options *options, int64_t *version_out,
                       struct varve_error *error) {
    vv_background_land(session);
    int rc = enter(session, options, VV_CALL_RESTART, 0, error);
    if (rc)
        return rc;
    if (!options->regions)
        vv_heap_remember(session);
    struct vv_restart_context context = context_of(session);
    struct vv_restarted before = counters(session);
    uint64_t begun_ns = vv_clock_ns();
    rc = go_on(session, vv_try_candidates(&context, options->version, vv_try_restart, options, version_out, error));
    rc = advise(session, rc, error);
    end_counting(session, &before, begun_ns);
    if (rc == 0)
        vv_fine_refill(&session->job, &session->memory, 1);
    if (rc == 0) /* with a list only what was chosen has come back */
        rc = noted(session, vv_heap_came_back(session, !options->regions, error));
    return logged(session, "restarted", rc, error);
}

int vv_session_restart_begin(struct vv_session *session, const struct vv_restart_options *options, int64_t *version_out,
                             struct varve_error *error) {
    vv_background_land(session);
    struct vv_restart_context context = context_of(session);
    struct vv_begun *begun = vv_begun_create(&context, options);
    int rc = begun ? 0 : vv_error(error, -ENOMEM, "no memory to begin a restart");
    if (session->about.heap.each) /* the program may free or move them at any time */
        rc = vv_error(error, -ENOTSUP,
                      "varve_restart_begin: allocations without a name (setting heap) are filled inside a call: use "
                      "varve_restart");
    rc = enter(session, options, VV_CALL_RESTART_BEGIN, rc, error);
    if (rc) {
        vv_begun_destroy(begun);
        return rc;
    }
    session->under_way = (struct vv_under_way){.before = counters(session), .begun_ns = vv_clock_ns()};
    rc = noted(session, vv_try_candidates(&context, options->version, vv_try_begin, &begun, version_out, error));
    rc = advise(session, rc, error);
    if (rc == 0) {
        session->under_way.begun = begun;
        return 0;
    }
    vv_begun_destroy(begun);
    end_counting(session, &session->under_way.before, session->under_way.begun_ns);
    return logged(session, "restarted", rc, error);
}

int vv_session_restart_wait(struct vv_session *session, const char *name, struct varve_error *error) {
    if (!session->under_way.begun)
        return vv_error(error, -EINVAL, "region %s: no restart is under way, call varve_restart_begin first", name);
    return vv_begun_wait(session->under_way.begun, name, error);
}

int vv_session_restart_end(struct vv_session *session, struct varve_error *error) {
    struct vv_begun *begun = session->under_way.begun;
    if (!begun)
        return vv_error(error, -EINVAL, "no restart is under way: call varve_restart_begin first");
    session->under_way.begun = NULL;
    int rc = go_on(session, vv_begun_end(begun, error));
    end_counting(session, &session->under_way.before, session->under_way.begun_ns);
    if (rc == 0)
        vv_fine_refill(&session->job, &session->memory, 0);
    return logged(session, "restarted", rc, error);
}

void vv_session_restart_abandon(struct vv_session *session) {
    vv_begun_abandon(session->under_way.begun);
    session->under_way.begun = NULL;
}

/* The history of a session that has one would be lost. */
static int check_continue(const struct vv_session *session, int64_t version, struct varve_error *error) {
    struct vv_restart_options options = {.version = version};
    const struct vv_attempt *parent = &session->job.lineage.parent;
    if (session->request.begun_ns != 0)
        return vv_error(error, -EINVAL, "varve_continue comes before the first checkpoint of a session");
    if (parent->generation != 0)
        return vv_error(error, -EINVAL,
                        "this session goes on from version %" PRIu64 " already: varve_continue comes first",
                        parent->version);
    return vv_restart_options_check(&options, error);
}

int vv_session_continue(struct vv_session *session, int64_t version, int64_t *version_out, struct varve_error *error) {
    vv_background_land(session);
    int rc = check_continue(session, version, error);
    rc = vv_comm_agree_call(session->job.comm, rc, VV_CALL_CONTINUE, (uint64_t)version, error);
    if (rc)
        return noted(session, rc);
    session->memory.is_overwritten = 0;
    struct vv_restart_context context = context_of(session);
    rc = go_on(session, vv_try_candidates(&context, version, vv_try_continue, NULL, version_out, error));
    return logged(session, "continued", rc, error);
}

int vv_session_stored(struct vv_session *session, int64_t version, varve_region_fn fn, void *arg, int64_t *version_out,
                      struct varve_error *error) {
    struct vv_restart_options options = {.version = version};
    struct vv_stored_asking asking = {fn, arg};
    vv_background_land(session);
    int rc = vv_restart_options_check(&options, error);
    rc = vv_comm_agree_call(session->job.comm, rc, VV_CALL_STORED, (uint64_t)version, error);
    if (rc)
        return rc;
    session->memory.is_overwritten = 0; /* no restart is under way */
    struct vv_restart_context context = context_of(session);
    rc = vv_try_candidates(&context, version, vv_try_stored, &asking, version_out, error);
    if (rc && rc != VARVE_NO_CHECKPOINT && rc != -ENOENT) /* a program that allocates by it gets no further, either */
        vv_lineage_note_restart(&session->job.lineage, 1);
    return rc;
}

int vv_session_reject(struct vv_session *session, int64_t version, struct varve_error *error) {
    uint32_t generation = 0;
    vv_background_land(session);
    int rc = version < 0 ? vv_error(error, -EINVAL, "version %" PRId64 " of %s is below 0: give 0 or more", version,
                                    session->job.name)
                         : 0;
    rc = vv_comm_agree_call(session->job.comm, rc, VV_CALL_REJECT, (uint64_t)version, error);
    struct vv_restart_context context = context_of(session);
    if (rc == 0)
        rc = vv_find_offered(&context, version, &generation, error);
    if (rc || generation == 0)
        return rc;
    if (vv_lineage_reserve_rejected(&session->job.lineage) != 0)
        rc = vv_error(error, -ENOMEM, "no memory to reject a checkpoint");
    rc = vv_comm_agree(session->job.comm, rc, error);
    if (rc == 0)
        vv_lineage_reject(&session->job.lineage, generation, (uint64_t)version);
    return rc;
}
