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

/* Up to which checkpoint all keepers keep: 1, 0 when one of them has not enough, or cannot tell. Collective. */
static int agree_on_cut(struct vv_session *session, struct vv_attempt *cut) {
    uint32_t keep = (uint32_t)session->settings.keep;
    struct varve_error error = {0};
    uint64_t generation = UINT64_MAX, version = UINT64_MAX;
    if (session->lease) {
        int is_found = vv_keep_cut(session->store, session->name, keep, cut, &error) == 1;
        generation = is_found ? cut->generation : 0;
        version = is_found ? cut->version : 0;
    }
    uint64_t oldest = generation;
    if (session->comm->ops->least(session->comm, &oldest, 1) != 0)
        return 0;
    version = generation == oldest ? version : UINT64_MAX;
    if (session->comm->ops->least(session->comm, &version, 1) != 0)
        return 0;
    *cut = (struct vv_attempt){.generation = (uint32_t)oldest, .version = version};
    return oldest > 0;
}

static void keep_newest(struct vv_session *session) {
    struct varve_error error = {0};
    struct vv_attempt cut = {0};
    if (session->settings.keep == 0 || (vv_is_local(session) && !agree_on_cut(session, &cut)) || !session->lease)
        return;
    if (vv_keep(session->store, session->lease, session->name, (uint32_t)session->settings.keep,
                vv_is_local(session) ? &cut : NULL, &error) < 0)
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
