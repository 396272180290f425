/* The last step of a prune: tombstones under record keys that no longer stop anybody.
 *
 * A tombstone stops two kinds of sleepers that may be one step before creating the record: the session of its
 * generation, and a session with a higher claim that counted the votes before the data went and is adopting.
 * Sessions adopt before their heartbeat names a checkpoint, so a higher session is out of question when its heartbeat
 * names one, has ended, or its process is gone. One that claims later finds no data to adopt; therefore the data is
 * looked at first, the claims after that. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "lifecycle/lifecycle.h"

struct session {
    uint32_t generation;
    int is_over; /* ended, or its process is gone; not merely superseded */
    struct vv_attempt refers;
};

struct graves {
    struct vv_store *store;
    const char *name;
    const struct vv_prune_options *options;
    struct vv_prune_result *result;
    struct varve_error *error;
    struct vv_attempts list;  /* versions with a tombstone and no data */
    struct session *sessions; /* ascending */
    size_t session_count;
    uint32_t adopters_from; /* the highest generation that may be adopting; 0: none */
};

/* 1 a tombstone without data, 0 anything else. */
static int is_grave(struct graves *graves, const struct vv_attempt *at) {
    struct vv_key key = vv_attempt_key(graves->name, at, VV_KIND_WRITERS, 0, 0);
    char prefix[VV_KEY_CAPACITY];
    struct vv_record record;
    int rc = vv_record_load(graves->store, graves->name, at->generation, at->version, &record, graves->error);
    if (rc == 0)
        vv_record_clear(&record);
    if (rc == 0 || rc == VARVE_NO_CHECKPOINT)
        return 0;
    if (rc != VARVE_FORGOTTEN)
        return rc;
    vv_prefix_data(&key, 2, prefix);
    rc = vv_prefix_is_used(graves->store, prefix, graves->error);
    return rc < 0 ? rc : !rc;
}

static int find_graves(struct graves *graves, const struct vv_attempts *closed) {
    int rc = 0;
    vv_steps_found(graves->options->steps, closed->count);
    for (size_t i = 0; rc >= 0 && i < closed->count; i++) {
        rc = is_grave(graves, &closed->list[i]);
        if (rc > 0 && (rc = vv_attempts_add(&graves->list, &closed->list[i])) < 0)
            vv_error_sys(graves->error, rc, "cannot prune %s", graves->name);
        if (rc >= 0 && (rc = vv_steps_did(graves->options->steps)) < 0)
            vv_error_sys(graves->error, rc, "stopped");
    }
    vv_attempts_sort(&graves->list);
    return rc < 0 ? rc : 0;
}

/* Only generations from the lowest grave upwards matter. */
static int look_at_sessions(struct graves *graves, uint32_t lowest) {
    struct vv_numbers claims;
    int rc = vv_claims_list(graves->store, graves->name, lowest - 1, &claims, graves->error);
    if (rc == 0 && claims.count && !(graves->sessions = vv_calloc(claims.count, sizeof *graves->sessions)))
        rc = vv_error_sys(graves->error, -ENOMEM, "cannot prune %s", graves->name);
    for (size_t i = 0; rc == 0 && i < claims.count; i++) {
        struct session *session = &graves->sessions[graves->session_count++];
        int life = VV_LIFE_MAYBE;
        session->generation = (uint32_t)claims.list[i];
        rc = vv_life_look(graves->store, graves->name, session->generation, 0, &life, &session->refers, graves->error);
        session->is_over = life == VV_LIFE_DEAD;
        if (!session->is_over && session->refers.generation == 0)
            graves->adopters_from = session->generation;
    }
    vv_numbers_clear(&claims);
    return rc;
}

static int is_over_for(const struct graves *graves, const struct vv_attempt *at) {
    if (graves->adopters_from > at->generation)
        return 0;
    for (size_t i = 0; i < graves->session_count; i++) {
        const struct session *session = &graves->sessions[i];
        if (session->generation == at->generation)
            return session->is_over ||
                   (session->refers.generation == at->generation && session->refers.version > at->version);
    }
    return 0; /* its claim is lost: nothing is known */
}

static int remove_grave(struct graves *graves, const struct vv_attempt *at) {
    struct vv_key key = vv_attempt_key(graves->name, at, VV_KIND_RECORD, 0, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    int rc = VV_FAULT("store.prune.before_tombstone_remove");
    return rc < 0 ? vv_error_sys(graves->error, rc, "cannot remove %s", text)
                  : vv_prune_object(graves->store, text, graves->options, graves->result, graves->error);
}

int vv_tombstones_prune(struct vv_store *store, const char *name, const struct vv_attempts *closed,
                        const struct vv_prune_options *options, struct vv_prune_result *result,
                        struct varve_error *error) {
    struct graves graves = {.store = store, .name = name, .options = options, .result = result, .error = error};
    int rc = find_graves(&graves, closed);
    if (rc == 0 && graves.list.count)
        rc = look_at_sessions(&graves, graves.list.list[0].generation);
    for (size_t i = 0; rc == 0 && i < graves.list.count; i++)
        if (is_over_for(&graves, &graves.list.list[i]))
            rc = remove_grave(&graves, &graves.list.list[i]);
    vv_attempts_clear(&graves.list);
    vv_free(graves.sessions);
    return rc;
}
