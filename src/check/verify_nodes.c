/* One node's share of node-local stores (docs/format.md 10). Records and writers lists are on every node, a pack only
 * where its writer ran.
 *
 * A writer stays on its node for a whole generation. So a pack that is not here is on another node, as far as can be
 * told from here, unless another pack of the same writer and generation is here: then it should be here, too, and is
 * missing. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "check/verify.h"
#include "lifecycle/lifecycle.h"
#include "read/view_parts.h"

/* Two sets of pairs, kept as attempts: generations that were looked at, and in `version` the writers found there. */
struct vv_residents {
    struct vv_store *store;
    char name[VV_NAME_MAX + 1];
    struct vv_attempts seen;
    struct vv_attempts writers;
};

int vv_residents_create(struct vv_store *store, const char *name, struct vv_residents **out) {
    struct vv_residents *residents = vv_calloc(1, sizeof *residents);
    if (!residents)
        return -ENOMEM;
    residents->store = store;
    snprintf(residents->name, sizeof residents->name, "%s", name);
    *out = residents;
    return 0;
}

void vv_residents_destroy(struct vv_residents *residents) {
    if (residents) {
        vv_attempts_clear(&residents->seen);
        vv_attempts_clear(&residents->writers);
        vv_free(residents);
    }
}

struct pack_listing {
    struct vv_residents *residents;
    uint32_t generation;
};

static int take_pack(void *arg, const char *component, int is_prefix) {
    struct pack_listing *listing = arg;
    struct vv_attempt pair = {.generation = listing->generation};
    if (is_prefix || vv_hex_parse(component, 8, &pair.version) < 0)
        return 0;
    return vv_attempts_add(&listing->residents->writers, &pair);
}

static int look_at_version(struct vv_residents *residents, struct vv_attempt attempt, struct varve_error *error) {
    struct vv_key key = vv_attempt_key(residents->name, &attempt, VV_KIND_WRITERS, 0, 0);
    struct pack_listing listing = {.residents = residents, .generation = attempt.generation};
    char prefix[VV_KEY_CAPACITY];
    struct vv_numbers attempts;
    int rc = vv_data_list(residents->store, residents->name, &attempt, 2, &attempts, error);
    for (size_t i = 0; rc == 0 && i < attempts.count; i++) {
        key.attempt = (uint32_t)attempts.list[i];
        vv_prefix_data(&key, 3, prefix);
        rc = vv_backend_list(residents->store->backend, prefix, NULL, 0, take_pack, &listing);
        if (rc < 0)
            vv_error_sys(error, rc, "cannot list %s", prefix);
    }
    vv_numbers_clear(&attempts);
    return rc;
}

static int look_at_generation(struct vv_residents *residents, uint32_t generation, struct varve_error *error) {
    struct vv_attempt at = {.generation = generation};
    struct vv_numbers versions;
    int rc = vv_data_list(residents->store, residents->name, &at, 1, &versions, error);
    for (size_t i = 0; rc == 0 && i < versions.count; i++) {
        at.version = versions.list[i];
        rc = look_at_version(residents, at, error);
    }
    vv_numbers_clear(&versions);
    at.version = 0;
    if (rc == 0 && (rc = vv_attempts_add(&residents->seen, &at)) < 0)
        vv_error_sys(error, rc, "cannot list the data of %s", residents->name);
    vv_attempts_sort(&residents->seen);
    vv_attempts_sort(&residents->writers);
    return rc;
}

int vv_pack_is_elsewhere(struct vv_residents *residents, const struct vv_attempt *attempt, uint32_t writer,
                         struct varve_error *error) {
    struct vv_pack_id id = {.store = residents->store, .name = residents->name, .attempt = *attempt, .writer = writer};
    struct vv_attempt generation = {.generation = attempt->generation};
    struct vv_attempt pair = {.generation = attempt->generation, .version = writer};
    char key[VV_KEY_CAPACITY];
    uint64_t size;
    if (residents->store->settings.layout != VV_LAYOUT_LOCAL)
        return 0;
    vv_pack_key(&id, VV_KIND_PACK, 0, key);
    int rc = vv_backend_stat(residents->store->backend, key, &size);
    if (rc != -ENOENT)
        return rc < 0 ? vv_error_sys(error, rc, "cannot look at %s", key) : 0;
    rc = vv_attempts_has(&residents->seen, &generation) ? 0 : look_at_generation(residents, attempt->generation, error);
    return rc < 0 ? rc : !vv_attempts_has(&residents->writers, &pair);
}

int vv_owner_is_elsewhere(struct vv_residents *residents, struct vv_view *view, uint32_t owner,
                          struct varve_error *error) {
    uint32_t home = 0;
    if (residents->store->settings.layout != VV_LAYOUT_LOCAL)
        return 0;
    int rc = vv_view_home(view, 0, owner, &home, error);
    return rc <= 0 ? rc : vv_pack_is_elsewhere(residents, vv_view_attempt(view), home, error);
}

/* Are bytes of the region the recipe stands before in packs on other nodes? 1, 0, or an error. */
static int region_needs_others(struct vv_residents *residents, struct vv_seeker *seeker, struct vv_recipe *recipe,
                               struct varve_error *error) {
    struct vv_run run;
    int rc;
    while ((rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
        for (uint32_t i = 0; i < run.place_count; i++) {
            uint32_t home = 0;
            rc = vv_seek_home(seeker, &run.places[i], &home, error);
            if (rc == 0)
                rc = vv_pack_is_elsewhere(residents, vv_view_source(seeker->view, run.places[i].dependency), home,
                                          error);
            if (rc != 0)
                return rc;
        }
    }
    return rc;
}

int vv_owner_needs_others(struct vv_residents *residents, struct vv_view *view, uint32_t owner,
                          struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    struct vv_seeker seeker;
    if (residents->store->settings.layout != VV_LAYOUT_LOCAL)
        return 0;
    vv_seeker_init(&seeker, view);
    int rc = 0;
    for (uint32_t source = 0; source <= vv_view_record(view)->dependency_count && rc == 0;
         source++) { /* layers of its manifest */
        struct vv_place place = {.dependency = source, .owner = owner};
        uint32_t home = 0;
        rc = vv_seek_home(&seeker, &place, &home, error);
        if (rc == 0)
            rc = vv_pack_is_elsewhere(residents, vv_view_source(view, source), home, error);
    }
    if (rc == 0)
        rc = vv_recipe_open(view, owner, &recipe, error);
    while (recipe && rc == 0 && (rc = vv_recipe_next_region(recipe, &region, error)) > 0)
        rc = region_needs_others(residents, &seeker, recipe, error);
    vv_recipe_close(recipe);
    vv_seeker_clear(&seeker);
    return rc;
}
