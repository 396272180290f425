/* One candidate becomes what the session goes on from: what restarting and continuing have in common. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

static int name_checkpoint(struct vv_session *session, uint32_t generation, uint64_t version,
                           struct varve_error *error) {
    struct vv_record record;
    int rc = vv_record_load(session->store, session->name, generation, version, &record, error);
    if (rc)
        return rc;
    struct vv_attempt attempt = {generation, record.attempt, version};
    vv_record_clear(&record);
    return session->lease ? vv_lease_refer(session->lease, &attempt, error) : 0;
}

int vv_candidate_name(struct vv_session *session, uint32_t generation, uint64_t version, struct varve_error *error) {
    int rc = session->is_keeper ? name_checkpoint(session, generation, version, error) : 0;
    return vv_comm_agree(session->comm, rc, error);
}

int vv_candidate_open(struct vv_session *session, struct vv_store *store, uint32_t generation, uint64_t version,
                      struct vv_view **out, struct varve_error *error) {
    int rc = vv_open_named(session, store, generation, version, out, error);
    if (rc)
        return rc;
    vv_view_expect_owner(*out, session->comm->rank);
    uint32_t stored = vv_view_record(*out)->ranks, ours = session->comm->ranks;
    if (stored == ours)
        return 0;
    return vv_error(error, VARVE_MISMATCH, "the checkpoint is of %u ranks, this job has %u: run it with %u", stored,
                    ours, stored);
}

int vv_candidate_sources(struct vv_view *view, struct vv_history *history, struct varve_error *error) {
    const struct vv_record *record = vv_view_record(view);
    for (uint32_t i = 0; i <= record->lean_count; i++) {
        const struct vv_attempt *attempt = vv_view_source(view, i);
        struct vv_source source = {.generation = attempt->generation,
                                   .attempt = attempt->attempt,
                                   .version = attempt->version,
                                   .writers_digest = i == 0 ? record->writers_digest
                                                            : record->leans[i - 1].writers_digest};
        if (vv_history_source(history, &source) < 0)
            return vv_error(error, -ENOMEM, "no memory for what a checkpoint leans on");
    }
    return 0;
}

/* ---- ids ---- */

/* As many as a session that protects these regions may remember, and one for the short end of each: without it many
 * small regions would be forgotten. */
static int count_ids(const struct vv_session *session, struct vv_view *view, size_t *out, struct varve_error *error) {
    struct vv_recipe *recipe;
    struct vv_recipe_region stored;
    uint64_t bytes = 0, regions = 0;
    int rc = vv_recipe_open(view, session->comm->rank, &recipe, error);
    if (rc)
        return rc;
    while ((rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        bytes += stored.length;
        regions++;
    }
    vv_recipe_close(recipe);
    regions += regions / 4; /* a full table forgets */
    *out = session->settings.table_share > 0 ? vv_ids_room(session, bytes) + regions : 0;
    return rc;
}

static void put_ids(void *arg, const struct vv_place *place, const struct vv_hash128 *ids, uint32_t count) {
    struct vv_history *history = arg;
    for (uint32_t i = 0; i < count; i++) {
        struct vv_known known = {ids[i], place->lean, place->owner, place->address + (uint64_t)i * VV_CHUNK};
        vv_table_put(&history->table, &known, history->is_alive);
    }
}

int vv_candidate_learn(const struct vv_session *session, struct vv_view *view, struct vv_history *history,
                       struct varve_error *error) {
    size_t entries = 0;
    int rc = count_ids(session, view, &entries, error);
    if (rc)
        return rc;
    vv_table_resize(&history->table, entries); /* may fail: then it finds less */
    return vv_view_ids(view, session->comm->rank, put_ids, history, error);
}

/* ---- copies ---- */

/* Of what was stored for it, is anything kept on fewer nodes than this session would? */
static int is_kept_less(const struct vv_session *session, struct vv_view *view, struct varve_error *error) {
    uint32_t least = session->copies.count, partners = 0;
    int rc = 0;
    for (uint32_t i = 0; i <= vv_view_record(view)->lean_count && rc == 0 && least > 0; i++) {
        rc = vv_view_partners(view, i, session->comm->rank, &partners, error);
        if (rc == 0 && partners < least)
            return 1;
    }
    return rc;
}

int vv_candidate_judge(struct vv_session *session, struct vv_view *view, int is_thin, struct varve_error *error) {
    int is_less = is_kept_less(session, view, error);
    int rc = vv_comm_agree(session->comm, is_less < 0 ? is_less : 0, error);
    uint64_t why = vv_view_used_copies(view) ? 2 : is_less > 0 || is_thin;
    if (rc)
        return rc;
    rc = vv_comm_most(session->comm, &why);
    if (rc)
        return vv_error(error, rc, "the ranks could not compare what they have read: %s", varve_error_text(rc));
    session->must_begin_anew |= why != 0;
    if (why && vv_comm_is_root(session->comm))
        vv_log(&session->log, why == 2 ? VV_LOG_WARN : VV_LOG_INFO,
               "parts of %s@%" PRIu64 " %s: the next checkpoint stores everything again", session->name,
               vv_view_attempt(view)->version,
               why == 2 ? "were read from copies, since the originals are missing or damaged"
                        : "are kept on fewer nodes than wanted");
    return 0;
}

/* ---- going on ---- */

/* Versions above this one may exist in our generation: then we go on in a new one, the same on all nodes. */
int vv_candidate_begin(struct vv_session *session, struct vv_view *view, struct varve_error *error) {
    uint64_t next = session->lease ? vv_lease_generation(session->lease) + (session->tries > 0) : 0;
    int rc = vv_comm_most(session->comm, &next);
    while (rc == 0 && session->lease && vv_lease_generation(session->lease) < next)
        rc = vv_lease_advance(session->lease, error);
    if (rc == 0 && session->lease)
        rc = vv_lease_refer(session->lease, vv_view_attempt(view), error);
    return vv_comm_agree(session->comm, rc, error);
}

void vv_candidate_take(struct vv_session *session, struct vv_view *view, struct vv_history *history) {
    vv_history_clear(&session->history);
    vv_sharing_forget(session); /* sources have other numbers now */
    session->history = *history;
    memset(history, 0, sizeof *history);
    memset(&session->layers, 0, sizeof session->layers);
    session->parent = session->origin = *vv_view_attempt(view);
    session->parent_writers = vv_view_record(view)->writers_digest;
    session->has_saved = session->is_continued = 0;
    session->tries = 0;
    session->request.is_told = 1; /* whatever failed before is behind us */
    session->request.tells_earlier = 0;
    vv_unsettled_drop(session);
}

void vv_candidate_leave(struct vv_session *session) {
    struct varve_error ignored = {0};
    if (session->lease)
        vv_lease_refer(session->lease, &session->parent, &ignored);
}
