/* What claims and heartbeats say about the sessions of a name, without waiting. */
#include <errno.h>
#include <string.h>

#include "lifecycle/lifecycle.h"

struct vv_key vv_generation_key(const char *name, uint32_t generation, int kind) {
    struct vv_attempt attempt = {.generation = generation};
    return vv_attempt_key(name, &attempt, kind, 0, 0);
}

int vv_claim_load(struct vv_store *store, const char *name, uint32_t generation, struct vv_claim *out,
                  struct varve_error *error) {
    struct vv_key key = vv_generation_key(name, generation, VV_KIND_CLAIM);
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &key, &buf, error);
    if (rc == 0)
        rc = vv_claim_parse(buf.data, buf.size, &key, store->id, out, error);
    vv_buf_clear(&buf);
    return rc;
}

int vv_heartbeat_load(struct vv_store *store, const char *name, uint32_t generation, struct vv_heartbeat *out,
                      struct varve_error *error) {
    struct vv_key key = vv_generation_key(name, generation, VV_KIND_HEARTBEAT);
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &key, &buf, error);
    if (rc == 0)
        rc = vv_heartbeat_parse(buf.data, buf.size, &key, store->id, out, error);
    vv_buf_clear(&buf);
    return rc;
}

/* A listing may be some seconds old where folders are remembered; a look by key is not. Generations follow one another,
 * so what a listing lacks is found above the highest that it has. */
static int add_unlisted(struct vv_store *store, const char *name, uint32_t highest, struct vv_numbers *claims,
                        struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    uint64_t size;
    int rc = 0;
    while (rc == 0 && highest < UINT32_MAX) {
        struct vv_key key = vv_generation_key(name, ++highest, VV_KIND_CLAIM);
        vv_key_print(&key, text);
        rc = vv_backend_stat(store->backend, text, &size);
        if (rc == 0)
            rc = vv_numbers_add(claims, highest);
    }
    return rc == 0 || rc == -ENOENT ? 0 : vv_error_sys(error, rc, "cannot look at %s", text);
}

int vv_claims_list(struct vv_store *store, const char *name, uint32_t after, struct vv_numbers *out,
                   struct varve_error *error) {
    char prefix[VV_KEY_CAPACITY];
    uint64_t above = after;
    vv_prefix_claims(name, prefix);
    int rc = vv_numbers_list(store, prefix, 8, after ? &above : NULL, out, error);
    if (rc < 0)
        return rc;
    uint32_t highest = out->count ? (uint32_t)out->list[out->count - 1] : after;
    return add_unlisted(store, name, highest, out, error);
}

int vv_claims_highest(struct vv_store *store, const char *name, uint32_t *out, struct varve_error *error) {
    struct vv_numbers claims;
    int rc = vv_claims_list(store, name, 0, &claims, error);
    if (rc == 0)
        *out = claims.count ? (uint32_t)claims.list[claims.count - 1] : 0;
    vv_numbers_clear(&claims);
    return rc;
}

int vv_says_nothing(int rc) {
    return rc == -ENOENT || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT;
}

static int life_of_process(const struct vv_claim *claim) {
    int process = vv_process_look(claim);
    return process == VV_PROCESS_GONE ? VV_LIFE_DEAD : process == VV_PROCESS_UNKNOWN ? VV_LIFE_UNKNOWN : VV_LIFE_MAYBE;
}

/* Whoever failed to claim the generation may have written the heartbeat nevertheless: it says nothing about the session
 * that has the claim. */
int vv_life_look(struct vv_store *store, const char *name, uint32_t generation, int is_superseded, int *life_out,
                 struct vv_attempt *refers_out, struct varve_error *error) {
    struct vv_heartbeat heartbeat = {0};
    struct vv_claim claim;
    int life = is_superseded ? VV_LIFE_DEAD : VV_LIFE_MAYBE;
    int rc = vv_heartbeat_load(store, name, generation, &heartbeat, error);
    if (rc < 0 && !vv_says_nothing(rc))
        return rc;
    int claimed = vv_claim_load(store, name, generation, &claim, error);
    if (claimed < 0 && !vv_says_nothing(claimed))
        return claimed;
    if (rc == 0 && claimed == 0 && memcmp(heartbeat.session_id, claim.session_id, sizeof heartbeat.session_id) != 0)
        heartbeat = (struct vv_heartbeat){0};
    if (heartbeat.state == VV_HEARTBEAT_ENDED || (claimed == 0 && vv_lease_is_given_up_here(claim.session_id)))
        life = VV_LIFE_DEAD;
    if (life != VV_LIFE_DEAD && claimed == 0)
        life = life_of_process(&claim);
    vv_error_clear(error);
    *life_out = life;
    if (refers_out)
        *refers_out = heartbeat.refers;
    return 0;
}
