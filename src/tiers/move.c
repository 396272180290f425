/* One checkpoint to one tier: the stores are opened when the first one comes, and again after they could not be. */
#include <errno.h>

#include "storage/storage.h"
#include "tiers/tiers_private.h"

/* With encrypt=on a tier that is not encrypted is refused also for reading: whoever can write to its storage could have
 * made it, and what it gave back would count as the job's own. */
int vv_tier_open_store(struct vv_tiers *tiers, const char *address, struct vv_store **out, struct varve_error *error) {
    struct varve_backend *backend = NULL;
    struct vv_backend_options options = {
        .direct = tiers->settings.direct,
        .mode = tiers->settings.mode,
        .owner = tiers->settings.owner,
        .purpose = VV_FOR_READING,
        .encrypt = tiers->settings.encrypt,
        .key = tiers->settings.key,
        .log = tiers->log,
    };
    int rc = vv_backend_open(address, &options, &backend, error);
    if (rc == 0)
        rc = vv_store_open(backend, VV_STORE_READ, tiers->log, out, error);
    return vv_error_store(error, rc, address);
}

static void close_stores(struct vv_tier *tier) {
    vv_store_close(tier->from);
    vv_store_close(tier->to);
    tier->from = tier->to = NULL;
}

/* What is read and written here is apart from what the session has open. */
static int open_stores(struct vv_tier *tier, struct varve_error *error) {
    struct vv_tiers *all = tier->all;
    int rc = tier->pool ? 0 : vv_pool_create(1, 2, &all->where, &tier->pool);
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot start a thread that reads");
    if (!tier->from)
        rc = vv_tier_open_store(all, all->address, &tier->from, error);
    if (rc == 0 && !tier->to) {
        struct vv_copy_place place = {.from = tier->from,
                                      .from_address = all->address,
                                      .address = tier->address,
                                      .settings = &all->settings,
                                      .log = all->log};
        rc = vv_copy_open(&place, &tier->to, error);
    }
    return rc;
}

static int shall_stop(void *arg, uint64_t done, uint64_t total) {
    struct vv_tiers *tiers = arg;
    (void)done, (void)total;
    pthread_mutex_lock(&tiers->lock);
    int is_ended = tiers->is_ended;
    pthread_mutex_unlock(&tiers->lock);
    return is_ended;
}

/* Without its keys nobody could read what an encrypted tier has, and without the store object a repair is due. */
static int keep_whole(struct vv_tier *tier, struct varve_error *error) {
    const struct vv_tiers *all = tier->all;
    int rc = vv_store_restore(tier->to, all->settings.key, error);
    if (rc == 1)
        vv_log(all->log, VV_LOG_WARN, "tier %u, %s, was emptied while it was open: what makes it a store was made anew",
               tier->number, tier->address);
    return rc < 0 ? vv_error_store(error, rc, tier->address) : 0;
}

int vv_tier_move(struct vv_tier *tier, const struct vv_attempt *attempt, struct vv_copy_result *result,
                 struct varve_error *error) {
    struct vv_tiers *all = tier->all;
    *result = (struct vv_copy_result){.version = attempt->version};
    int rc = open_stores(tier, error);
    if (rc == 0)
        rc = keep_whole(tier, error);
    if (rc < 0) {
        close_stores(tier);
        return rc;
    }
    struct vv_copy_source from = {tier->from, all->name, attempt->generation, attempt->version};
    struct vv_copy_options options = {
        .settings = &all->settings,
        .pool = tier->pool,
        .may_go_back = 1,
        .takeover_seconds = (uint32_t)all->settings.takeover_seconds,
        .keep = (uint32_t)tier->keep,
        .progress = shall_stop,
        .arg = all,
    };
    rc = vv_copy(&from, tier->to, all->name, &options, result, error);
    if (rc == 0)
        rc = keep_whole(tier, error);
    if (rc == -ESTALE || rc == -ENOTCONN || rc == VARVE_MISMATCH) /* what is another now is found only by its address */
        close_stores(tier);
    return rc;
}

void vv_tier_clear(struct vv_tier *tier) {
    close_stores(tier);
    vv_pool_destroy(tier->pool);
    tier->pool = NULL;
}
