/* Two tiers that are one store: a checkpoint would be there once, and count as twice. */
#include <string.h>

#include "base/error.h"
#include "storage/storage.h"
#include "tiers/tiers_private.h"

static const char *address_of(const struct vv_tiers *tiers, unsigned number) {
    return number == 1 ? tiers->address : tiers->tiers[number - 2].address;
}

static int refuse_twice(const struct vv_tiers *tiers, unsigned first, unsigned second, struct varve_error *error) {
    return vv_error(error, VARVE_SETTING,
                    "tier %u, %.200s, is the same store as tier %u, %.200s: nothing would be in two places; name "
                    "another one in tiers",
                    second, address_of(tiers, second), first, address_of(tiers, first));
}

int vv_tiers_check_places(const struct vv_tiers *tiers, struct varve_error *error) {
    for (unsigned second = 2; second <= tiers->tier_count + 1; second++)
        for (unsigned first = 1; first < second; first++)
            if (vv_address_compare(address_of(tiers, first), address_of(tiers, second)) == VV_PLACES_SAME)
                return refuse_twice(tiers, first, second, error);
    return 0;
}

static int have_same_id(const struct vv_tier *a, const struct vv_tier *b) {
    return a->is_seen && b->is_seen && memcmp(a->id, b->id, sizeof a->id) == 0;
}

/* A folder that was copied has the id of the other one, too. Only in the store itself is the claim made just now. */
static int has_claim(struct vv_tier *tier, struct vv_lease *lease) {
    struct vv_store *store = NULL;
    struct varve_error ignored = {.rank = -1};
    int rc = vv_tier_open_store(tier->all, tier->address, &store, &ignored);
    if (rc == 0)
        rc = vv_claim_is_of(store, tier->all->name, vv_lease_generation(lease), vv_lease_session(lease), &ignored);
    vv_store_close(store);
    return rc == 1;
}

int vv_tiers_check_stores(struct vv_tiers *tiers, const struct vv_store *first, struct vv_lease *lease,
                          struct varve_error *error) {
    for (unsigned i = 0; i < tiers->tier_count; i++) {
        struct vv_tier *tier = &tiers->tiers[i];
        if (lease && tier->is_seen && memcmp(tier->id, first->id, sizeof tier->id) == 0 && has_claim(tier, lease))
            return refuse_twice(tiers, 1, tier->number, error);
        for (unsigned j = 0; j < i; j++)
            if (have_same_id(tier, &tiers->tiers[j]) &&
                vv_address_compare(tier->address, tiers->tiers[j].address) != VV_PLACES_DIFFER)
                return refuse_twice(tiers, tiers->tiers[j].number, tier->number, error);
    }
    return 0;
}
