/* One candidate becomes what the session goes on from: what restarting and continuing have in common. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/host.h"
#include "format/attributes.h"
#include "read/attributes_reader.h"
#include "restart/restart_private.h"
#include "store/read_costs.h"

static int open_peers(const struct vv_restart_context *context, struct vv_peers **out, struct varve_error *error) {
    const struct vv_peers_options options = {
        .comm = context->job->comm,
        .store = context->job->store,
        .name = context->job->name,
        .is_local = vv_is_local(context->job),
        .is_leader = context->job->is_leader,
        .threads = (unsigned)context->job->settings.threads,
        .window = context->job->settings.restart_window,
    };
    return vv_peers_open(&options, out, error);
}

int vv_can_read(struct vv_job *job, uint32_t generation, uint64_t version, struct varve_error *error) {
    struct vv_record record;
    int rc = vv_record_load(job->store, job->name, generation, version, &record, error);
    if (rc == 0)
        vv_record_clear(&record);
    return rc;
}

int vv_open_named(struct vv_job *job, struct vv_store *store, uint32_t generation, uint64_t version,
                  struct vv_view **out, struct varve_error *error) {
    int rc = VARVE_NO_CHECKPOINT;
    for (int look = 0; look < VV_LOOKS && rc == VARVE_NO_CHECKPOINT; look++) {
        vv_wait_before(look);
        vv_error_clear(error);
        rc = vv_view_open(store, job->name, generation, version, out, error);
    }
    if (rc != VARVE_NO_CHECKPOINT)
        return rc;
    return vv_error(error, -ESTALE,
                    "rank %u does not find the record of version %" PRIu64
                    " (generation %u) that rank 0 has read: try again",
                    job->comm->rank, version, generation);
}

static int name_checkpoint(struct vv_job *job, uint32_t generation, uint64_t version, uint64_t *ranks_out,
                           struct varve_error *error) {
    struct vv_record record;
    int rc = vv_record_load(job->store, job->name, generation, version, &record, error);
    if (rc)
        return rc;
    struct vv_attempt attempt = {generation, record.attempt, version};
    *ranks_out = record.ranks;
    vv_record_clear(&record);
    return job->lease ? vv_lease_refer(job->lease, &attempt, error) : 0;
}

int vv_candidate_name(struct vv_job *job, int rc, uint32_t generation, uint64_t version, struct vv_made_by *named,
                      struct varve_error *error) {
    uint64_t values[] = {UINT64_MAX, (uint64_t)named->may, !named->is_asking};
    if (rc == 0 && job->is_leader)
        rc = name_checkpoint(job, generation, version, &values[0], error);
    rc = vv_comm_agree_values(job->comm, rc, values, 3, error);
    if (rc == 0)
        *named = (struct vv_made_by){values[0], values[1] != 0, !values[2]};
    return rc;
}

int vv_candidate_open(struct vv_job *job, struct vv_store *store, uint32_t generation, uint64_t version,
                      struct vv_view **out, struct varve_error *error) {
    int rc = vv_open_named(job, store, generation, version, out, error);
    if (rc)
        return rc;
    vv_view_expect_owner(*out, job->comm->rank);
    uint32_t stored = vv_view_record(*out)->ranks, ours = job->comm->ranks;
    if (stored == ours)
        return 0;
    return vv_error(error, VARVE_MISMATCH,
                    "the checkpoint is of %u ranks, this job has %u: run it with %u, or use "
                    "varve_restart, which can spread it over others",
                    stored, ours, stored);
}

int vv_candidate_sources(struct vv_view *view, struct vv_history *history, struct varve_error *error) {
    const struct vv_record *record = vv_view_record(view);
    for (uint32_t i = 0; i <= record->dependency_count; i++) {
        const struct vv_attempt *attempt = vv_view_source(view, i);
        struct vv_source source = {.generation = attempt->generation,
                                   .attempt = attempt->attempt,
                                   .version = attempt->version,
                                   .writers_digest =
                                       i == 0 ? record->writers_digest : record->dependencies[i - 1].writers_digest};
        if (vv_history_source(history, &source) < 0)
            return vv_error(error, -ENOMEM, "no memory for what a checkpoint depends on");
    }
    return 0;
}

struct vv_origin vv_origin_of(const struct vv_run *run) {
    struct vv_origin origin = {.offset = run->offset, .length = run->length, .kind = VV_ORIGIN_ZERO};
    if (run->kind == VV_RUN_ZERO)
        return origin;
    /* Of several places one is enough to refer to; the view tries the others by itself. */
    origin.kind = run->kind == VV_RUN_REPEATED ? VV_ORIGIN_REPEATED : VV_ORIGIN_FROM;
    origin.piece = (uint32_t)run->piece;
    origin.source = run->places[0].dependency;
    origin.owner = run->places[0].owner;
    origin.address = run->places[0].address;
    return origin;
}

/* ---- ids ---- */

/* Chunks of large regions are known from the table alone, so they count twice. */
size_t vv_candidate_capacity(const struct vv_restart_context *context, uint64_t bytes) {
    return vv_table_capacity(context->job->settings.table_share,
                             bytes + vv_regions_large_bytes(&context->memory->regions));
}

/* As many as a session that protects these regions may remember, and one for the short end of each: without it many
 * small regions would be forgotten. */
static int count_ids(const struct vv_restart_context *context, struct vv_view *view, size_t *out,
                     struct varve_error *error) {
    struct vv_recipe *recipe;
    struct vv_recipe_region stored;
    uint64_t bytes = 0, regions = 0;
    int rc = vv_recipe_open(view, context->job->comm->rank, &recipe, error);
    if (rc)
        return rc;
    while ((rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        bytes += stored.length;
        regions++;
    }
    vv_recipe_close(recipe);
    regions += regions / 4; /* a full table forgets */
    *out = context->job->settings.table_share > 0 ? vv_candidate_capacity(context, bytes) + regions : 0;
    return rc;
}

struct learning {
    struct vv_history *history;
    vv_was_read_fn was_read;
    void *arg;
};

static void put_ids(void *arg, const struct vv_stored_granules *granules) {
    const struct learning *learning = arg;
    struct vv_history *history = learning->history;
    for (uint32_t i = 0; i < granules->count; i++) {
        uint64_t behind = (uint64_t)i * VV_GRANULE;
        struct vv_known known = {granules->ids[i], granules->place.dependency, granules->place.owner,
                                 granules->place.address + behind};
        if (!learning->was_read || learning->was_read(learning->arg, granules->region, granules->offset + behind))
            vv_table_put(&history->table, &known, history->is_alive);
    }
}

int vv_candidate_learn_of(struct vv_view *view, uint32_t owner, vv_was_read_fn was_read, void *arg,
                          struct vv_history *history, struct varve_error *error) {
    struct learning learning = {history, was_read, arg};
    return vv_view_ids(view, owner, put_ids, &learning, error);
}

int vv_candidate_learn(const struct vv_restart_context *context, struct vv_view *view, vv_was_read_fn was_read,
                       void *arg, struct vv_history *history, struct varve_error *error) {
    size_t entries = 0;
    int rc = count_ids(context, view, &entries, error);
    if (rc)
        return rc;
    vv_table_resize(&history->table, entries); /* may fail: then it finds less */
    return vv_candidate_learn_of(view, context->job->comm->rank, was_read, arg, history, error);
}

/* ---- copies ---- */

/* Is anything kept on fewer nodes than this session would? The owners are shared out between the ranks: to each its
 * own, where there are as many. */
static int is_kept_less(const struct vv_restart_context *context, struct vv_view *view, struct varve_error *error) {
    const struct varve_comm *comm = context->job->comm;
    uint32_t least = context->replicas, partners = 0;
    int rc = 0;
    for (uint32_t i = 0; i <= vv_view_record(view)->dependency_count && rc >= 0 && least > 0; i++)
        for (uint32_t owner = comm->rank; (rc = vv_view_partners(view, i, owner, &partners, error)) > 0;
             owner += comm->ranks)
            if (partners < least)
                return 1;
    return rc < 0 ? rc : 0;
}

/* Some rank has found that parts are missing (2), or kept less often than wanted (1). */
static void note_doubt(struct vv_restart_context *context, struct vv_view *view, uint64_t why) {
    vv_lineage_doubt(&context->job->lineage);
    if (vv_comm_is_root(context->job->comm))
        vv_log(&context->job->log, why == 2 ? VV_LOG_WARN : VV_LOG_INFO,
               "parts of %s@%" PRIu64 " %s: the next checkpoint stores everything again", context->job->name,
               vv_view_attempt(view)->version,
               why == 2 ? "were read from copies or rebuilt from parity, since the originals are missing or damaged"
                        : "are kept on fewer nodes than wanted");
}

/* ---- going on ---- */

/* The heartbeats name it, in this generation. */
static int refer(struct vv_job *job, struct vv_view *view, uint64_t generation, struct varve_error *error) {
    int rc = 0;
    while (rc == 0 && job->lease && vv_lease_generation(job->lease) < generation)
        rc = vv_lease_advance(job->lease, error);
    if (rc == 0 && job->lease)
        rc = vv_lease_refer(job->lease, vv_view_attempt(view), error);
    return vv_comm_agree(job->comm, rc, error);
}

/* Versions above this one may exist in our generation: then we go on in a new one, the same on all nodes. */
int vv_candidate_begin(struct vv_restart_context *context, int rc, struct vv_view *view, int is_under_replicated,
                       struct varve_error *error) {
    const struct vv_job *job = context->job;
    int is_less = rc ? rc : is_kept_less(context, view, error);
    int is_lost = !rc && (vv_view_used_copies(view) || job->store->costs->bytes_rebuilt > 0);
    uint64_t why = rc ? 0 : is_lost ? 2 : is_less > 0 || is_under_replicated;
    uint64_t next = job->lease ? vv_lease_generation(job->lease) + (job->lineage.tries > 0) : 0;
    uint64_t least[] = {~why, ~next};
    rc = vv_comm_agree_values(job->comm, is_less < 0 ? is_less : 0, least, 2, error);
    if (rc)
        return rc;
    if (~least[0])
        note_doubt(context, view, ~least[0]);
    return refer(context->job, view, ~least[1], error);
}

static int take_told(void *arg, const char *name, const char *value) {
    struct vv_told_costs *told = arg;
    if (strcmp(name, VV_ATTRIBUTE_COST) == 0)
        told->cost = vv_attribute_seconds(value);
    if (strcmp(name, VV_ATTRIBUTE_DURABLE) == 0)
        told->durable = vv_attribute_seconds(value);
    return 0;
}

/* Nothing depends on it: where rank 0 alone cannot read it, the first checkpoint tells. */
static void ask_costs(const struct vv_restart_context *context, struct vv_view *view) {
    struct varve_error ignored = {0};
    if (context->told)
        (void)vv_attributes_read(view, context->job->store->settings.seed, NULL, take_told, context->told, &ignored);
}

void vv_candidate_take(struct vv_restart_context *context, struct vv_view *view, struct vv_history *history,
                       const struct vv_recipe_layers *layers) {
    struct vv_job *job = context->job;
    ask_costs(context, view);
    vv_lineage_replace(&job->lineage, view, history, layers);
    vv_in_doubt_drop(job);
}

void vv_candidate_leave(struct vv_job *job) {
    struct varve_error ignored = {0};
    if (job->lease)
        vv_lease_refer(job->lease, &job->lineage.parent, &ignored);
}

static struct vv_lost all_regions(const struct vv_restart_context *context) {
    const struct vv_regions *regions = &context->memory->regions;
    struct vv_lost lost = {0};
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].name)
            vv_lost_add(&lost, regions->list[i].name);
    return lost;
}

int vv_candidate_peers(struct vv_restart_context *context, uint32_t generation, uint64_t version, struct vv_peers **out,
                       int *is_under_replicated_out, struct varve_error *error) {
    const struct vv_lost all = all_regions(context);
    const struct vv_completeness wanted = {context->replicas, context->parity, &all};
    int rc = open_peers(context, out, error);
    *is_under_replicated_out = 0;
    if (!vv_is_local(context->job))
        return rc;
    rc = vv_comm_agree(context->job->comm, rc, error);
    return rc ? rc
              : vv_leaders_complete(context->job, *out, &wanted, generation, version, is_under_replicated_out, error);
}
