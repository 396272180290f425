/* What a checkpoint holds of this rank, before anything is restored. */
#include "format/attributes.h"
#include "restart/restart_private.h"

/* Asking for one candidate. */
struct asked {
    struct vv_restart_context *context;
    const struct vv_stored_asking *asking;
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

/* All regions of this rank: none, if the checkpoint is of fewer ranks. */
static int walk_regions(struct asked *asked, int is_told, struct varve_error *error) {
    const struct varve_comm *comm = asked->context->job->comm;
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region stored;
    if (comm->rank >= vv_view_record(asked->view)->ranks)
        return 0;
    int rc = vv_recipe_open(asked->view, comm->rank, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        vv_array_of(&stored.shape, &asked->array);
        asked->info = (struct varve_region_info){stored.name, stored.length, &asked->array};
        rc = 0;
        if (is_told && !vv_is_about(stored.name) && vv_peers_call(asked->peers, tell_region, asked) != 0)
            break;
    }
    vv_recipe_close(recipe);
    return rc;
}

static int look_at_regions(void *arg, struct vv_store *store, struct varve_error *error) {
    struct asked *asked = arg;
    int rc = vv_open_named(asked->context->job, store, asked->generation, asked->version, &asked->view, error);
    return rc ? rc : walk_regions(asked, 0, error);
}

static int tell_regions(void *arg, struct vv_store *store, struct varve_error *error) {
    struct asked *asked = arg;
    (void)store;
    return asked->asking->fn ? walk_regions(asked, 1, error) : 0;
}

/* Nobody's fn is called before all ranks can read theirs. */
int vv_try_stored(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                  struct varve_error *error) {
    struct asked asked = {.context = context, .asking = arg, .generation = generation, .version = version};
    int is_under_replicated;
    int rc = vv_open_peers(context, &asked.peers, error);
    if (rc)
        return rc;
    rc = vv_candidate_complete(context, asked.peers, generation, version, &is_under_replicated, error);
    if (rc == 0) {
        rc = context->job->is_leader ? vv_can_read(context->job, generation, version, error) : 0;
        rc = vv_comm_agree(context->job->comm, rc, error);
    }
    if (rc == 0)
        rc = vv_peers_run(asked.peers, look_at_regions, &asked, error);
    if (rc == 0)
        rc = vv_peers_run(asked.peers, tell_regions, &asked, error);
    vv_view_close(asked.view);
    vv_peers_close(asked.peers);
    return rc;
}
