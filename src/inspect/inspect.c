/* Looking at a store: open it, list its checkpoints, find the one that is meant. The store does the work; here
 * arguments are checked and its structs become those of varve_inspect.h. */
#include "inspect/inspect_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lifecycle/catalogue.h"
#include "lifecycle/pin.h"

#define QUEUE_PER_THREAD 4

static int open_backend(struct varve_store *store, struct varve_backend **out, struct varve_error *error) {
    struct vv_backend_options options = {
        .direct = store->settings.direct,
        .mode = store->settings.mode,
        .owner = store->settings.owner,
        .purpose = VV_FOR_EITHER,
        .encrypt = store->settings.encrypt && !store->is_source,
        .key = store->settings.key,
        .log = &store->log,
    };
    return vv_backend_open(store->address, &options, out, error);
}

static int open_parts(struct varve_store *store, const char *uri, const char *settings, struct varve_error *error) {
    struct varve_backend *backend = NULL;

    store->log = (struct vv_log){.level = VV_LOG_WARN, .rank = -1};
    int rc = vv_settings_load(&store->settings, settings, &store->log, error);
    if (rc < 0)
        return rc;
    store->log.level = store->settings.log;
    store->address = vv_strdup(uri);
    if (!store->address)
        return vv_error_sys(error, -ENOMEM, "cannot open the store at %s", uri);
    rc = open_backend(store, &backend, error);
    if (rc < 0)
        return vv_error_store(error, rc, uri);
    rc = vv_store_open(backend, VV_STORE_READ, &store->log, &store->store, error);
    if (rc == VARVE_NO_STORE)
        return vv_error(error, rc, "there is no store at %.300s: it would have an object named varve", uri);
    if (rc < 0)
        return vv_error_store(error, rc, uri);
    unsigned threads = (unsigned)store->settings.threads;
    rc = vv_pool_create(threads, threads * QUEUE_PER_THREAD, NULL, &store->pool);
    return rc < 0 ? vv_error_sys(error, rc, "cannot start %u threads; set VARVE_THREADS lower", threads) : 0;
}

static int open_store(const char *uri, const char *settings, int is_source, struct varve_store **out,
                      struct varve_error *error) {
    vv_error_clear(error);
    if (out)
        *out = NULL;
    if (!uri || !*uri || !out)
        return vv_error(error, -EINVAL, "the address of the store is missing");
    struct varve_store *store = vv_calloc(1, sizeof *store);
    if (!store)
        return vv_error_sys(error, -ENOMEM, "cannot open the store at %s", uri);
    store->is_source = is_source;
    int rc = open_parts(store, uri, settings, error);
    if (rc < 0) {
        varve_store_close(store);
        return vv_error_default(error, rc, "cannot open the store at %s: %s", uri, varve_error_text(rc));
    }
    *out = store;
    return 0;
}

int varve_store_open(const char *uri, const char *settings, struct varve_store **out, struct varve_error *error) {
    return open_store(uri, settings, 0, out, error);
}

int varve_store_open_source(const char *uri, const char *settings, struct varve_store **out,
                            struct varve_error *error) {
    return open_store(uri, settings, 1, out, error);
}

void varve_store_close(struct varve_store *store) {
    if (store) {
        vv_inspect_ranged_clear(store);
        vv_pool_destroy(store->pool);
        vv_store_close(store->store);
        vv_free(store->address);
        vv_free(store);
    }
}

int vv_inspect_check_name(const char *name, struct varve_error *error) {
    if (name && vv_name_check(name) < 0) {
        return vv_error(error, -EINVAL, "\"%.100s\" is no name of checkpoints: it must have 1 to %d bytes", name,
                        VV_NAME_MAX);
    }
    return 0;
}

/* ---- names ---- */

static int add_name(void *arg, const char *name) {
    struct vv_names *names = arg;

    if (VV_GROW(names->list, names->count, names->capacity) != 0)
        return -ENOMEM;
    size_t size = strlen(name);
    if (size > VV_NAME_MAX)
        return -EINVAL;
    memcpy(names->list[names->count++], name, size + 1);
    return 0;
}

int vv_inspect_names(struct varve_store *store, const char *name, struct vv_names *out, struct varve_error *error) {
    struct vv_names names = {0};

    int rc = vv_inspect_check_name(name, error);
    if (rc < 0)
        return rc;
    rc = name ? add_name(&names, name) : vv_store_names(store->store, add_name, &names, error);
    if (rc < 0) {
        vv_inspect_names_clear(&names);
        return vv_error_default(error, rc, "cannot list the names in %s: %s", store->address, varve_error_text(rc));
    }
    *out = names;
    return 0;
}

static int see_name(void *arg, const char *name) {
    const char **wanted = arg;
    if (strcmp(name, *wanted) == 0)
        *wanted = NULL;
    return *wanted ? 0 : 1;
}

int vv_inspect_require_name(struct varve_store *store, const char *name, struct varve_error *error) {
    const char *wanted = name;
    int rc = vv_inspect_check_name(name, error);
    if (rc == 0 && name)
        rc = vv_store_names(store->store, see_name, &wanted, error);
    if (rc < 0 || !wanted)
        return rc < 0 ? rc : 0;
    return vv_error(error, VARVE_NO_CHECKPOINT,
                    "%s has nothing of the name \"%s\"; `varve ls` tells which names there are", store->address, name);
}

void vv_inspect_names_clear(struct vv_names *names) {
    vv_free(names->list);
    *names = (struct vv_names){0};
}

/* ---- list ---- */

struct damage {
    uint32_t generation;
    uint64_t version;
    struct varve_error why;
};
struct damages {
    struct damage *list;
    size_t count;
};

static void add_damage(void *arg, uint32_t generation, uint64_t version, const struct varve_error *why) {
    struct damages *damages = arg;
    struct damage *list = vv_realloc(damages->list, (damages->count + 1) * sizeof *list);

    if (!list)
        return; /* the entry is still known as damaged, without the reason */
    damages->list = list;
    list[damages->count++] = (struct damage){.generation = generation, .version = version, .why = *why};
}

static const struct damage *find_damage(const struct damages *damages, const struct vv_attempt *attempt) {
    for (size_t i = 0; i < damages->count; i++) {
        const struct damage *damage = &damages->list[i];
        if (damage->generation == attempt->generation && damage->version == attempt->version)
            return damage;
    }
    return NULL;
}

static void fill_info(const char *name, const struct vv_catalogue_entry *entry, const struct damages *damages,
                      const struct vv_attempts *pinned, struct varve_checkpoint_info *out) {
    const struct damage *damage = find_damage(damages, &entry->attempt);
    const struct vv_attempt version = {.generation = entry->attempt.generation, .version = entry->attempt.version};

    *out = (struct varve_checkpoint_info){
        .name = name,
        .generation = entry->attempt.generation,
        .version = (int64_t)entry->attempt.version,
        .time_ns = entry->time_ns,
        .ranks = entry->ranks,
        .regions = entry->regions,
        .bytes_protected = entry->protected_bytes,
        .bytes_stored = entry->stored_bytes,
        .bytes_metadata = entry->metadata_bytes,
        .is_damaged = damage != NULL || entry->time_ns == 0,
        .is_pinned = vv_attempts_has(pinned, &version),
        .reason = damage ? damage->why.text : "",
        .is_unreadable = damage && damage->why.code != VARVE_CORRUPT && damage->why.code != VARVE_UNKNOWN_FORMAT,
    };
}

static int list_name(struct varve_store *store, const char *name, varve_checkpoint_fn fn, void *arg,
                     struct varve_error *error) {
    struct damages damages = {0};
    struct vv_catalogue catalogue = {0};
    struct vv_attempts pinned = {0};

    int rc = vv_catalogue_load(store->store, name, 0, add_damage, &damages, &catalogue, error);
    if (rc == 0)
        rc = vv_pins_list(store->store, name, &pinned, error);
    for (uint64_t i = 0; rc == 0 && i < catalogue.count; i++) {
        struct varve_checkpoint_info info;
        fill_info(name, &catalogue.list[i], &damages, &pinned, &info);
        rc = fn(arg, &info);
    }
    vv_catalogue_clear(&catalogue);
    vv_attempts_clear(&pinned);
    vv_free(damages.list);
    return rc;
}

int varve_store_list(struct varve_store *store, const char *name, varve_checkpoint_fn fn, void *arg,
                     struct varve_error *error) {
    struct vv_names names;

    vv_error_clear(error);
    if (!store || !fn)
        return vv_error(error, -EINVAL, "varve_store_list needs a store and a function");
    int rc = vv_inspect_names(store, name, &names, error);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < names.count; i++)
        rc = list_name(store, names.list[i], fn, arg, error);
    vv_inspect_names_clear(&names);
    return rc < 0 ? vv_error_default(error, rc, "cannot list the checkpoints in %s: %s", store->address,
                                     varve_error_text(rc))
                  : 0;
}

/* ---- which one ---- */

static int is_meant(const struct varve_which *which, const struct vv_attempt *attempt) {
    return (which->generation == 0 || which->generation == attempt->generation) &&
           (which->version < 0 || (uint64_t)which->version == attempt->version);
}

static int none_there(struct varve_store *store, const struct varve_which *which, struct varve_error *error) {
    char version[64] = "";
    char generation[32] = "";

    if (which->version >= 0)
        snprintf(version, sizeof version, " with version %" PRId64, which->version);
    if (which->generation)
        snprintf(generation, sizeof generation, " in generation %" PRIu32, which->generation);
    return vv_error(error, VARVE_NO_CHECKPOINT, "%s has no checkpoint of \"%s\"%s%s; `varve ls` tells what there is",
                    store->address, which->name, version, generation);
}

/* The newest that opens. Only damage, and being forgotten meanwhile, lead on to an older one: an error of the
 * storage says nothing about the checkpoint, and one of a newer program may well be whole. */
static int open_newest(struct varve_store *store, struct varve_which *which, const struct vv_catalogue *catalogue,
                       struct vv_view **out, struct varve_error *error) {
    struct varve_error why;
    uint64_t damaged = 0;

    for (uint64_t i = 0; i < catalogue->count; i++) {
        const struct vv_attempt *attempt = &catalogue->list[i].attempt;
        if (!is_meant(which, attempt))
            continue;
        vv_error_clear(&why);
        int rc = vv_view_open(store->store, which->name, attempt->generation, attempt->version, out, &why);
        if (rc == 0) {
            which->generation = attempt->generation;
            which->version = (int64_t)attempt->version;
            return 0;
        }
        if (rc != VARVE_CORRUPT && rc != VARVE_FORGOTTEN && rc != VARVE_NO_CHECKPOINT)
            return vv_error(error, rc, "%s", why.text);
        if (rc == VARVE_CORRUPT) {
            damaged++;
            vv_log(&store->log, VV_LOG_WARN, "%s@%" PRIu64 " of generation %" PRIu32 " is not whole: %s", which->name,
                   attempt->version, attempt->generation, why.text);
        }
    }
    if (damaged) {
        return vv_error(error, VARVE_CORRUPT,
                        "none of the %" PRIu64 " checkpoints of \"%s\" in %s is whole; `varve verify` tells what is "
                        "damaged, `varve repair` what can be rebuilt",
                        damaged, which->name, store->address);
    }
    return none_there(store, which, error);
}

/* With a version: the highest generation that has it, whole or not. */
static int find_version(struct varve_store *store, struct varve_which *which, const struct vv_catalogue *catalogue,
                        struct varve_error *error) {
    for (uint64_t i = 0; i < catalogue->count; i++) {
        if (is_meant(which, &catalogue->list[i].attempt)) {
            which->generation = catalogue->list[i].attempt.generation;
            return 0;
        }
    }
    return none_there(store, which, error);
}

static int check_which(struct varve_store *store, const struct varve_which *which, struct varve_error *error) {
    if (!store || !which || !which->name)
        return vv_error(error, -EINVAL, "a store and the name of a checkpoint are needed");
    if (which->version < -1) {
        return vv_error(error, -EINVAL, "%" PRId64 " is no version: it must be 0 or more, or -1 for the newest",
                        which->version);
    }
    return vv_inspect_check_name(which->name, error);
}

/* Fills in which->generation and version; if that took opening the view, the view comes back too, else NULL. */
static int find_once(struct varve_store *store, struct varve_which *which, struct vv_view **view_out,
                     struct varve_error *error) {
    struct vv_catalogue catalogue = {0};

    vv_error_clear(error);
    int rc = check_which(store, which, error);
    if (rc < 0)
        return rc;
    *view_out = NULL;
    rc = vv_catalogue_load(store->store, which->name, 0, NULL, NULL, &catalogue, error);
    if (rc == 0) {
        rc = which->version < 0 ? open_newest(store, which, &catalogue, view_out, error)
                                : find_version(store, which, &catalogue, error);
    }
    vv_catalogue_clear(&catalogue);
    return rc < 0 ? vv_error_default(error, rc, "cannot look for a checkpoint of \"%s\" in %s: %s", which->name,
                                     store->address, varve_error_text(rc))
                  : 0;
}

static int take_newest(void *arg, uint32_t generation, uint64_t version) {
    *(struct vv_attempt *)arg = (struct vv_attempt){.generation = generation, .version = version};
    return 1;
}

/* A session with keep=N may have forgotten all that we listed before we came to read it. Then there are newer ones. */
static int find_which(struct varve_store *store, struct varve_which *which, struct vv_view **view_out,
                      struct varve_error *error) {
    struct vv_attempt seen = {0};
    for (;;) {
        struct vv_attempt newest = {0};
        int rc = find_once(store, which, view_out, error);
        if (rc != VARVE_NO_CHECKPOINT || which->version >= 0)
            return rc;
        if (vv_records_list(store->store, which->name, take_newest, &newest, NULL) < 0 ||
            vv_attempt_compare(&newest, &seen) == 0)
            return rc;
        seen = newest;
    }
}

int varve_store_resolve(struct varve_store *store, struct varve_which *which, struct varve_error *error) {
    struct vv_view *view = NULL;
    int rc = find_which(store, which, &view, error);
    vv_view_close(view);
    return rc;
}

int vv_inspect_open_view(struct varve_store *store, struct varve_which *which, struct vv_view **out,
                         struct varve_error *error) {
    if (!store || !which->name)
        return vv_error(error, -EINVAL, "a store and the name of a checkpoint are needed");
    int rc = find_which(store, which, out, error);
    if (rc == 0 && !*out)
        rc = vv_view_open(store->store, which->name, which->generation, (uint64_t)which->version, out, error);
    return rc < 0 ? vv_error_default(error, rc, "cannot open %s@%" PRId64 " in %s: %s", which->name, which->version,
                                     store->address, varve_error_text(rc))
                  : 0;
}

/* ---- what is on other nodes ---- */

int vv_inspect_is_elsewhere(struct varve_store *store, const struct varve_which *which, struct vv_view *view,
                            uint32_t rank, struct vv_residents **residents, struct varve_error *error) {
    int rc = *residents ? 0 : vv_residents_create(store->store, which->name, residents);
    return rc < 0 ? vv_error_sys(error, rc, "cannot look for rank %" PRIu32, rank)
                  : vv_owner_is_elsewhere(*residents, view, rank, error);
}

static void end_run(struct vv_left_out *ranks) {
    size_t used = strlen(ranks->text), capacity = sizeof ranks->text - used;
    if (capacity < 30)
        snprintf(ranks->text + used, capacity, "%s", strstr(ranks->text, "...") ? "" : ", ...");
    else if (ranks->first == ranks->last)
        snprintf(ranks->text + used, capacity, "%s%" PRIu32, used ? ", " : "", ranks->first);
    else
        snprintf(ranks->text + used, capacity, "%s%" PRIu32 " to %" PRIu32, used ? ", " : "", ranks->first,
                 ranks->last);
}

void vv_inspect_leave_out(struct vv_left_out *ranks, uint32_t rank) {
    if (ranks->count && ranks->last + 1 != rank)
        end_run(ranks);
    if (ranks->count == 0 || ranks->last + 1 != rank)
        ranks->first = rank;
    ranks->last = rank;
    ranks->count++;
}

void vv_inspect_tell_left_out(struct varve_store *store, const struct varve_which *which, struct vv_left_out *ranks) {
    if (ranks->count) {
        end_run(ranks);
        vv_log(&store->log, VV_LOG_WARN,
               "%s@%" PRId64
               ": left out rank%s %s, not on this node: kept on other nodes, or missing; this cannot be told from here",
               which->name, which->version, ranks->count > 1 ? "s" : "", ranks->text);
    }
}

/* ---- settings ---- */

int varve_settings_list(const char *settings, varve_setting_fn fn, void *arg, struct varve_error *error) {
    struct vv_settings values;
    const struct vv_setting *setting;

    vv_error_clear(error);
    if (!fn)
        return vv_error(error, -EINVAL, "varve_settings_list needs a function");
    int rc = vv_settings_load(&values, settings, NULL, error);
    for (size_t i = 0; rc == 0 && (setting = vv_setting_at(i)) != NULL; i++) {
        char bounds[256];
        char value[VV_SETTING_TEXT_BYTES];
        vv_setting_allowed_text(setting, bounds, sizeof bounds);
        vv_setting_value_text(&values, setting, value, sizeof value);
        struct varve_setting_info info = {
            .name = setting->name,
            .type = vv_setting_type_text(setting),
            .bounds = bounds,
            .initial = setting->standard,
            .value = value,
            .origin = vv_setting_origin(&values, setting),
            .help = setting->help,
            .tier = vv_setting_tier_text(setting),
        };
        rc = fn(arg, &info);
    }
    return rc < 0 ? vv_error_default(error, rc, "cannot list the settings: %s", varve_error_text(rc)) : 0;
}
