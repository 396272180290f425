/* After a commit: the beat names the new checkpoint, older ones go by keep=N, and the catalogue is renewed now and then. What goes
 * wrong here is said and tried again next time. */
#include <inttypes.h>
#include <string.h>

#include "engine/engine_private.h"
#include "store/catalogue.h"

#define CATALOGUE_EVERY 65   /* checkpoints; more than the catalogue itself thinks worth writing */
#define CATALOGUE_SPARE 1000

/* Keep listing fast: now and then what the records say goes into the catalogue. The more there is in it, the less often it
 * is written, but never so seldom that a listing has thousands of records to read. */
static void catalogue(struct vv_session *session) {
    struct vv_catalogue all = {0};
    struct varve_error error = {0};
    uint64_t spare = session->catalogued / 8 < CATALOGUE_SPARE ? session->catalogued / 8 : CATALOGUE_SPARE;
    if (++session->uncatalogued <= CATALOGUE_EVERY + spare)
        return;
    session->uncatalogued = 0;
    if (vv_catalogue_load(session->store, session->name, 1, NULL, NULL, &all, &error) == 0)
        session->catalogued = all.count;
    else
        vv_log(&session->log, VV_LOG_INFO, "the catalogue could not be renewed: %s", error.text);
    vv_catalogue_clear(&all);
}

/* After a restart that failed, what the session saves may be a beginning by mistake: it replaces nothing of earlier runs. */
static struct vv_keep_options keep_options(const struct vv_session *session) {
    return (struct vv_keep_options){.keep = (uint32_t)session->settings.keep,
                                    .from = session->has_failed_restart ? session->first_generation : session->keep_from,
                                    .origin = session->origin,
                                    .rejected = session->rejected,
                                    .rejected_count = session->rejected_count};
}

/* Up to which checkpoint all keepers keep: 1, 0 when one of them has not enough, or cannot tell. Collective. */
static int agree_on_cut(struct vv_session *session, struct vv_attempt *cut) {
    struct vv_keep_options options = keep_options(session);
    struct varve_error error = {0};
    uint64_t generation = UINT64_MAX, version = UINT64_MAX;
    if (session->lease) {
        int is_found = vv_keep_cut(session->store, session->lease, session->name, &options, cut, &error) == 1;
        generation = is_found ? cut->generation : 0;
        version = is_found ? cut->version : 0;
    }
    uint64_t oldest = generation;
    if (session->comm->ranks == 1) /* nobody calls MPI after varve_wait */
        return session->lease && generation > 0;
    if (session->comm->ops->least(session->comm, &oldest, 1) != 0)
        return 0;
    version = generation == oldest ? version : UINT64_MAX;
    if (session->comm->ops->least(session->comm, &version, 1) != 0)
        return 0;
    *cut = (struct vv_attempt){.generation = (uint32_t)oldest, .version = version};
    return oldest > 0;
}

/* How many checkpoints of earlier sessions the default may find and still forget. Under the default there are at most
 * `keep` of them, and one more for every session in a row that died between its commit and this place. */
static uint64_t most_by_default(const struct vv_session *session) {
    return 2 * (uint64_t)session->settings.keep;
}

/* Nobody has set keep, and there is more than the default would have left: somebody has kept those checkpoints on purpose,
 * or a library did that still kept everything. They stay. One answer for all keepers; none of them can count: they stay. */
static uint32_t find_keep_from(struct vv_session *session, uint64_t *older) {
    struct varve_error error = {0};
    uint64_t may_go = 1;
    if (!vv_setting_is_default(&session->settings, VV_SETTING_keep))
        return 0;
    if (session->lease)
        may_go = vv_keep_count(session->store, session->name, session->first_generation, older, &error) == 0 &&
                 *older <= most_by_default(session);
    if (vv_is_local(session) && session->comm->ranks > 1 && session->comm->ops->least(session->comm, &may_go, 1) != 0)
        may_go = 0;
    return may_go ? 0 : session->first_generation;
}

/* Deletions are announced, once, before the first one. Whoever has set keep knows, and reads it with log=info. */
static void tell_kept(const struct vv_session *session, uint64_t older) {
    int keep = session->settings.keep;
    if (!vv_setting_is_default(&session->settings, VV_SETTING_keep))
        vv_log(&session->log, VV_LOG_INFO, "keeping the newest %d checkpoints of %s in %s (keep=%d, from %s)", keep,
               session->name, session->address, keep, session->settings.origins[VV_SETTING_keep]);
    else if (session->keep_from && !session->has_failed_restart)
        vv_log_note(&session->log,
                    "keeping the newest %d checkpoints that this run makes of %s in %s (keep=%d), and the %" PRIu64
                    " of earlier runs; if keep=%d is set, those are forgotten, too; keep=all keeps every one",
                    keep, session->name, session->address, keep, older, keep);
    else
        vv_log_note(&session->log, "keeping the newest %d checkpoints of %s in %s (keep=%d); keep=all keeps every one",
                    keep, session->name, session->address, keep);
}

static void tell_failed_restart(const struct vv_session *session) {
    vv_log(&session->log, VV_LOG_WARN,
           "the restart of %s failed, and new checkpoints are made all the same: those of earlier runs are not forgotten",
           session->name);
}

static void begin_keeping(struct vv_session *session) {
    uint64_t older = 0;
    if (session->is_keep_told)
        return;
    session->is_keep_told = 1;
    session->keep_from = find_keep_from(session, &older);
    if (vv_comm_is_root(session->comm))
        tell_kept(session, older);
    if (vv_comm_is_root(session->comm) && session->has_failed_restart)
        tell_failed_restart(session);
}

static void keep_newest(struct vv_session *session) {
    struct varve_error error = {0};
    struct vv_attempt cut = {0};
    if (session->settings.keep == 0)
        return;
    begin_keeping(session);
    if ((vv_is_local(session) && !agree_on_cut(session, &cut)) || !session->lease)
        return;
    struct vv_keep_options options = keep_options(session);
    options.cut = vv_is_local(session) ? &cut : NULL;
    if (vv_keep(session->store, session->lease, session->name, &options, &error) < 0)
        vv_log(&session->log, VV_LOG_WARN, "older checkpoints could not be removed: %s", error.text);
}

void vv_upkeep(struct vv_session *session) {
    struct varve_error error = {0};
    if (session->lease && vv_lease_refer(session->lease, &session->parent, &error) != 0)
        vv_log(&session->log, VV_LOG_WARN, "the heartbeat could not be renewed: %s", error.text);
    vv_unsettled_forget(session);
    keep_newest(session);
    if (session->lease)
        catalogue(session);
}
