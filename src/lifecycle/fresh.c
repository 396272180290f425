/* Is a listing of records as new as what is known by key?
 *
 * Where hosts remember listings, one may be some seconds old. Looks by key are not: so the heartbeats tell what must be
 * listed. A session names in its heartbeat what it has committed, or come back from. Records of a name are made one
 * after the other, by the session with the highest claim; a listing that has the one that was named last has all that
 * are older. What came after it and is not listed has it as parent, or as parent's parent, and depends on nothing but
 * what it depends on, and on what came after it. So a prune that has seen the record last named keeps all that an
 * unseen one needs.
 *
 * From the highest claim down, the first session that names a checkpoint of its own generation answers for all below.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/thread.h"
#include "lifecycle/lifecycle.h"

#define PATIENCE_NS UINT64_C(2000000000)
#define PATIENCE_MS 50u

/* What the session of this generation has named last; generation 0: nothing, or its heartbeat cannot be read. */
static int last_named(struct vv_store *store, const char *name, uint32_t generation, struct vv_attempt *out,
                      struct varve_error *error) {
    struct vv_heartbeat heartbeat;
    *out = (struct vv_attempt){0};
    int rc = vv_heartbeat_load(store, name, generation, &heartbeat, error);
    if (rc == 0)
        *out = heartbeat.refers;
    else if (rc == -ENOENT || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT)
        vv_error_clear(error);
    else
        return rc;
    return 0;
}

int vv_listing_lacks(struct vv_store *store, const char *name, vv_listed_fn is_listed, const void *arg,
                     struct vv_attempt *lacking_out, struct varve_error *error) {
    uint32_t generation = 0;
    int rc = vv_claims_highest(store, name, &generation, error);
    for (; rc == 0 && generation > 0; generation--) {
        struct vv_attempt named;
        if ((rc = last_named(store, name, generation, &named, error)) < 0 || named.generation == 0)
            continue;
        if (is_listed(arg, named.generation, named.version)) {
            if (named.generation == generation)
                return 0;
            continue;
        }
        struct vv_key key = vv_attempt_key(name, &named, VV_KIND_RECORD, 0, 0);
        rc = vv_object_exists(store, &key, error);
        if (rc == 1)
            *lacking_out = named;
    }
    return rc;
}

int vv_listing_wait(const char *name, struct vv_patience *patience, const struct vv_attempt *lacking,
                    struct varve_error *error) {
    uint64_t now = vv_clock_ns();
    int is_same = patience->lacking.generation == lacking->generation && patience->lacking.version == lacking->version;
    if (!is_same) {
        *patience = (struct vv_patience){*lacking, now};
        return 0;
    }
    if (now - patience->since_ns > PATIENCE_NS)
        return vv_error(error, -ESTALE,
                        "version %" PRIu64
                        " (generation %u) of %s exists, but its folder is listed without it, as it was some "
                        "time ago: nothing was concluded or removed; wait a minute, and see the mount options in "
                        "docs/backends.md",
                        lacking->version, lacking->generation, name);
    vv_sleep_ms(PATIENCE_MS);
    return 0;
}

/* ---- a whole listing ---- */

struct keys {
    struct vv_attempts set;
};

static int take_key(void *arg, uint32_t generation, uint64_t version) {
    struct keys *keys = arg;
    struct vv_attempt at = {.generation = generation, .version = version};
    return vv_attempts_add(&keys->set, &at);
}

static int has_key(const void *arg, uint32_t generation, uint64_t version) {
    const struct keys *keys = arg;
    struct vv_attempt at = {.generation = generation, .version = version};
    return vv_attempts_has(&keys->set, &at);
}

int vv_records_refresh(struct vv_store *store, const char *name, struct varve_error *error) {
    char prefix[VV_KEY_CAPACITY];
    vv_prefix_records(name, prefix);
    return vv_backend_refresh(store->backend, prefix, error);
}

static int list_whole(struct vv_store *store, const char *name, struct keys *keys, struct vv_attempt *lacking,
                      struct varve_error *error) {
    keys->set.count = keys->set.sorted = 0;
    int rc = vv_records_refresh(store, name, error);
    if (rc == 0)
        rc = vv_records_list(store, name, take_key, keys, error);
    if (rc < 0)
        return rc;
    vv_attempts_sort(&keys->set);
    return vv_listing_lacks(store, name, has_key, keys, lacking, error);
}

int vv_records_list_whole(struct vv_store *store, const char *name, vv_record_fn fn, void *arg,
                          struct varve_error *error) {
    struct keys keys = {0};
    struct vv_patience patience = {0};
    struct vv_attempt lacking = {0};
    int rc;
    while ((rc = list_whole(store, name, &keys, &lacking, error)) == 1)
        if ((rc = vv_listing_wait(name, &patience, &lacking, error)) < 0)
            break;
    for (size_t i = keys.set.count; rc == 0 && i > 0; i--)
        rc = fn(arg, keys.set.list[i - 1].generation, keys.set.list[i - 1].version);
    vv_attempts_clear(&keys.set);
    return rc < 0 ? rc : 0;
}
