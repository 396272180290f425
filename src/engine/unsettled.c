/* Commits that failed half-way: some nodes have the record, others do not.
 *
 * Nobody was told of such a checkpoint. If the job dies now, the next one completes it. If it goes on, the record must go: it would count as one of
 * the newest where it is (keep=N) and push out an older one that was reported, while the other nodes remove its packs. */
#include <inttypes.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

static int is_same_version(const struct vv_attempt *a, const struct vv_attempt *b) {
    return a->generation == b->generation && a->version == b->version;
}

void vv_unsettled_add(struct vv_session *session, const struct vv_attempt *attempt) {
    if (!vv_is_local(session))
        return;
    for (size_t i = 0; i < session->unsettled_count; i++)
        if (is_same_version(&session->unsettled[i], attempt))
            return;
    size_t size = (session->unsettled_count + 1) * sizeof *session->unsettled;
    struct vv_attempt *list = vv_realloc(session->unsettled, size);
    if (!list)
        return; /* then there may be one to fall back to less */
    session->unsettled = list;
    list[session->unsettled_count++] = *attempt;
}

void vv_unsettled_drop(struct vv_session *session) {
    size_t left = 0;
    for (size_t i = 0; i < session->unsettled_count; i++)
        if (!is_same_version(&session->unsettled[i], &session->parent))
            session->unsettled[left++] = session->unsettled[i];
    session->unsettled_count = left;
}

void vv_unsettled_forget(struct vv_session *session) {
    size_t left = 0;
    vv_unsettled_drop(session);
    for (size_t i = 0; session->lease && i < session->unsettled_count; i++) {
        const struct vv_attempt at = session->unsettled[i];
        struct varve_error why = {0};
        int rc = vv_forget(session->store, session->name, at.generation, at.version, &why);
        if (rc == 0 || rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT)
            continue;
        session->unsettled[left++] = at;
        vv_log(&session->log, VV_LOG_WARN, "what is left of version %" PRIu64 ", which failed, could not be forgotten: %s",
               at.version, why.text);
    }
    session->unsettled_count = left;
}
