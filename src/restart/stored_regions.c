/* What a checkpoint holds of this rank, or of all when they were others, before anything is restored. */
#include "format/attributes.h"
#include "restart/stored_names.h"

/* Asking for one candidate. */
struct asked {
    struct vv_restart_context *context;
    const struct vv_stored_asking *asking;
    struct vv_peers *peers;
    struct vv_view *view;
    uint32_t generation;
    uint64_t version;
    struct vv_stored_names names;  /* other ranks have stored it than are here now */
    struct varve_region_info info; /* of the region that the program is told of */
    struct varve_array array;
};

static int tell_region(void *arg) {
    struct asked *asked = arg;
    return asked->asking->fn(asked->asking->arg, &asked->info);
}

/* All regions of this rank. */
static int walk_regions(struct asked *asked, int is_told, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region stored;
    int rc = vv_recipe_open(asked->view, asked->context->job->comm->rank, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        vv_array_of(&stored.shape, &asked->array);
        asked->info = (struct varve_region_info){stored.name, stored.length, &asked->array,
                                                 (enum varve_distribution)stored.shape.distribution};
        rc = 0;
        if (is_told && !vv_is_about(stored.name) && vv_peers_call(asked->peers, tell_region, asked) != 0)
            break;
    }
    vv_recipe_close(recipe);
    return rc;
}

/* What all ranks have together, and what the rank of this number has for itself. */
static void tell_names(struct asked *asked) {
    for (size_t i = 0; i < asked->names.all.count; i++) {
        const struct vv_stored_name *entry = &asked->names.all.list[i];
        vv_names_tell(entry, &asked->array, &asked->info);
        int is_own = asked->info.how == VARVE_BY_RANK || asked->info.how == VARVE_DROPPED ||
                     (asked->info.how == VARVE_BY_DIMS && asked->array.dims == 0);
        if (is_own)
            entry = vv_names_own(&asked->names, entry->name);
        if (entry && is_own)
            vv_names_tell(entry, &asked->array, &asked->info);
        if (entry && tell_region(asked) != 0)
            break;
    }
}

static int is_of_others(const struct asked *asked) {
    return vv_view_record(asked->view)->ranks != asked->context->job->comm->ranks;
}

static int look_at_regions(void *arg, struct vv_store *store, struct varve_error *error) {
    struct asked *asked = arg;
    int rc = vv_open_named(asked->context->job, store, asked->generation, asked->version, &asked->view, error);
    if (rc)
        return rc;
    return is_of_others(asked) ? vv_names_read(&asked->names, asked->view, asked->context->job->comm, error)
                               : walk_regions(asked, 0, error);
}

static int tell_regions(void *arg, struct vv_store *store, struct varve_error *error) {
    struct asked *asked = arg;
    (void)store;
    return asked->asking->fn ? walk_regions(asked, 1, error) : 0;
}

/* All ranks can read theirs: tell the program. Collective. */
static int tell_program(struct asked *asked, struct varve_error *error) {
    if (!is_of_others(asked))
        return vv_peers_run(asked->peers, tell_regions, asked, error);
    int rc = vv_names_merge(&asked->names, asked->context->job->comm, error);
    if (rc == 0 && asked->asking->fn)
        tell_names(asked);
    return rc;
}

/* Nobody's fn is called before all ranks can read theirs. */
int vv_try_stored(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                  struct varve_error *error) {
    struct asked asked = {.context = context, .asking = arg, .generation = generation, .version = version};
    int is_under_replicated;
    int rc = vv_candidate_peers(context, generation, version, &asked.peers, &is_under_replicated, error);
    if (rc == 0 && context->job->is_leader)
        rc = vv_can_read(context->job, generation, version, error);
    rc = vv_comm_agree(context->job->comm, rc, error);
    if (rc == 0)
        rc = vv_peers_run(asked.peers, look_at_regions, &asked, error);
    if (rc == 0)
        rc = tell_program(&asked, error);
    vv_names_clear(&asked.names);
    vv_view_close(asked.view);
    vv_peers_close(asked.peers);
    return rc;
}
