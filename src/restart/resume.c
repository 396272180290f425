/* Going on from a checkpoint whose bytes stay where they are: only the tables that tell what it holds are read.
 *
 * The history that comes of it knows attempts and ids, but no regions. The first checkpoint therefore looks at
 * everything, stores what the table does not know, and writes a manifest of its own; its parent is the checkpoint we go
 * on from, and it depends on nothing else than that and what that depends on. */
#include "restart/restart_private.h"
#include "restart/shared_packs.h"

struct resumption {
    struct vv_restart_context *context;
    uint32_t generation;
    uint64_t version;
    struct vv_peers *peers;
    int is_shared; /* its tables are in packs that several ranks need */
    struct vv_view *view;
    struct vv_history history;
};

static int open_view(void *arg, struct vv_store *store, struct varve_error *error) {
    struct resumption *resumption = arg;
    struct vv_job *job = resumption->context->job;
    int rc = vv_candidate_open(job, store, resumption->generation, resumption->version, &resumption->view, error);
    if (rc == 0)
        rc = vv_candidate_sources(resumption->view, &resumption->history, error);
    if (rc == 0 && !vv_is_local(job))
        rc = vv_find_shared_packs(resumption->view, resumption->peers, job->comm->rank, &resumption->is_shared, error);
    return rc ? vv_error_default(error, rc, "%s", varve_error_text(rc)) : 0;
}

static int read_tables(void *arg, struct vv_store *store, struct varve_error *error) {
    struct resumption *resumption = arg;
    (void)store;
    int rc = vv_candidate_learn(resumption->context, resumption->view, NULL, NULL, &resumption->history, error);
    return rc ? vv_error_default(error, rc, "%s", varve_error_text(rc)) : 0;
}

static int try_together(struct resumption *resumption, struct varve_error *error) {
    struct vv_restart_context *context = resumption->context;
    struct vv_made_by named = {0};
    int is_under_replicated;
    int rc = vv_candidate_peers(context, resumption->generation, resumption->version, &resumption->peers,
                                &is_under_replicated, error);
    rc = vv_candidate_name(context->job, rc, resumption->generation, resumption->version, &named, error);
    if (rc)
        return rc;
    rc = vv_peers_work(resumption->peers, open_view, resumption, error);
    const struct vv_peers_needs needs = {.is_needed = resumption->is_shared};
    rc = vv_peers_need(resumption->peers, rc, &needs, error);
    if (rc)
        return rc;
    rc = vv_peers_work(resumption->peers, read_tables, resumption, error);
    rc = vv_candidate_begin(context, rc, resumption->view, is_under_replicated, error);
    if (rc == 0)
        vv_candidate_take(context, resumption->view, &resumption->history, NULL);
    return rc;
}

int vv_try_continue(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                    struct varve_error *error) {
    struct resumption resumption = {.context = context, .generation = generation, .version = version};
    (void)arg;
    int rc = try_together(&resumption, error);
    vv_history_clear(&resumption.history);
    vv_view_close(resumption.view);
    vv_peers_close(resumption.peers);
    if (rc)
        vv_candidate_leave(context->job);
    return rc;
}
