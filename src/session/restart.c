/* Restarting, continuing, asking and rejecting, as the program calls them. */
#include <errno.h>
#include <inttypes.h>

#include "session/session_private.h"

static struct vv_restart_context context_of(struct vv_session *session) {
    return (struct vv_restart_context){.job = &session->job,
                                       .memory = &session->memory,
                                       .replicas = session->outputs.replicas.count,
                                       .has_begun = session->request.begun_ns != 0};
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
    }
    return noted(session, rc);
}

int vv_session_restart(struct vv_session *session, const struct vv_restart_options *options, int64_t *version_out,
                       struct varve_error *error) {
    vv_background_land(session);
    int rc = vv_restart_options_check(options, error);
    if (rc == 0)
        rc = vv_ask_regions(session, error);
    rc = vv_comm_agree_call(session->job.comm, rc, VV_CALL_RESTART, (uint64_t)options->version, error);
    if (rc)
        return noted(session, rc);
    vv_regions_pack(&session->memory.regions);
    if (options->is_allocating) /* the program may let go of memory when it is asked */
        vv_unwatch_regions(&session->memory);
    session->memory.is_overwritten = 0;
    struct vv_restart_context context = context_of(session);
    rc = go_on(session, vv_try_candidates(&context, options->version, vv_try_restart, options, version_out, error));
    if (rc == 0)
        vv_fine_refill(&session->job, &session->memory);
    return rc;
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
    return go_on(session, vv_try_candidates(&context, version, vv_try_continue, NULL, version_out, error));
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
    int rc = version < 0 ? vv_error(error, -EINVAL, "version %" PRId64 " is below 0", version) : 0;
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
