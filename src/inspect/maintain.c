/* Looking after a store: count, verify, forget, prune, repair. */
#include "inspect/inspect_private.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "check/verify.h"
#include "lifecycle/lease.h"

/* ---- totals ---- */

struct walk {
    struct varve_backend *backend;
    struct varve_store_totals *totals;
    char prefix[VV_KEY_CAPACITY];
};

static int walk_prefix(struct walk *walk);

static int walk_item(void *arg, const char *name, int is_prefix) {
    struct walk *walk = arg;
    size_t used = strlen(walk->prefix);
    uint64_t size;
    int rc;

    if (used == 0 && !strcmp(name, "tmp"))
        return 0;
    int length = snprintf(walk->prefix + used, sizeof walk->prefix - used, "%s%s", used ? "/" : "", name);
    if (length < 0 || (size_t)length >= sizeof walk->prefix - used) {
        walk->prefix[used] = '\0';
        return 0; /* longer than any key of ours */
    }
    if (is_prefix) {
        rc = walk_prefix(walk);
    } else {
        rc = vv_backend_stat(walk->backend, walk->prefix, &size);
        if (rc == 0) {
            walk->totals->objects++;
            walk->totals->bytes += size;
        } else if (rc == -ENOENT) {
            rc = 0; /* removed since it was listed */
        }
    }
    walk->prefix[used] = '\0';
    return rc;
}

static int walk_prefix(struct walk *walk) {
    return vv_backend_list(walk->backend, walk->prefix, NULL, 0, walk_item, walk);
}

static int add_checkpoint(void *arg, const struct varve_checkpoint_info *checkpoint) {
    struct varve_store_totals *totals = arg;

    totals->checkpoints++;
    totals->bytes_protected += checkpoint->bytes_protected;
    totals->bytes_stored += checkpoint->bytes_stored;
    totals->bytes_metadata += checkpoint->bytes_metadata;
    return 0;
}

int varve_store_stats(struct varve_store *store, const char *name, struct varve_store_totals *out,
                      struct varve_error *error) {
    struct varve_store_totals totals = {0};
    struct vv_names names;

    vv_error_clear(error);
    if (!store || !out)
        return vv_error(error, -EINVAL, "varve_store_stats needs a store and a place for the result");
    int rc = varve_store_list(store, name, add_checkpoint, &totals, error);
    if (rc == 0)
        rc = vv_inspect_names(store, name, &names, error);
    if (rc < 0)
        return rc;
    totals.names = name ? totals.checkpoints > 0 : names.count;
    struct walk walk = {.backend = store->store->backend, .totals = &totals};
    if (name) {
        char component[VV_NAME_MAX * 3 + 1];
        vv_name_encode(name, component);
        snprintf(walk.prefix, sizeof walk.prefix, "n/%s", component);
    }
    rc = walk_prefix(&walk);
    vv_inspect_names_clear(&names);
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot count the objects in %s", store->address);
    if (store->store->settings.layout == VV_LAYOUT_LOCAL) {
        vv_log(&store->log, VV_LOG_WARN,
               "this is the store of one node: objects and bytes on storage are counted here only, what the "
               "checkpoints hold and brought on "
               "all nodes");
    }
    if (vv_backend_space(walk.backend, &totals.storage_free) < 0)
        totals.storage_free = UINT64_MAX;
    totals.min_free = store->settings.min_free;
    *out = totals;
    return 0;
}

/* ---- verify ---- */

/* The store is open, so one copy of its key is good. */
static int verify_keys(struct varve_store *store, const struct varve_verify_options *given,
                       struct varve_verify_result *out, struct varve_error *error) {
    struct varve_error why = {.text = ""};
    const char *bad = NULL;
    int rc = vv_keys_check(store->store->backend, store->settings.key, &bad, &why);
    if (rc >= 0)
        return 0;
    if (!bad || (rc != VARVE_CORRUPT && rc != VARVE_KEY && rc != -ENOENT))
        return vv_error(error, rc, "%s", why.text);
    if (given->finding)
        given->finding(given->arg, 0, bad, why.text);
    out->damaged_objects++;
    return 0;
}

int varve_store_verify(struct varve_store *store, const struct varve_verify_options *options,
                       struct varve_verify_result *out, struct varve_error *error) {
    struct varve_verify_options given = {0};
    struct vv_verify_result result = {0};
    struct varve_verify_result totals;

    vv_error_clear(error);
    if (!store || (options && options->size > sizeof given))
        return vv_error(error, -EINVAL, "%s", store ? "the options are those of a newer library" : "no store given");
    if (options)
        memcpy(&given, options, options->size);
    int rc = vv_inspect_require_name(store, given.name, error);
    if (rc < 0)
        return rc;
    struct vv_verify_options inner = {
        .name = given.name,
        .is_quick = given.is_quick,
        .pool = store->pool,
        .finding = given.finding,
        .progress = given.progress,
        .arg = given.arg,
    };
    rc = vv_verify(store->store, &inner, &result, error);
    totals = (struct varve_verify_result){
        .objects = result.objects,
        .bytes = result.bytes,
        .checkpoints = result.checkpoints,
        .damaged_objects = result.damaged_objects,
        .lost_checkpoints = result.lost_checkpoints,
    };
    if (rc >= 0 && !given.name)
        rc = verify_keys(store, &given, &totals, error);
    if (out)
        *out = totals;
    return rc < 0 ? vv_error_default(error, rc, "cannot verify %s: %s", store->address, varve_error_text(rc)) : 0;
}

/* ---- forget, prune, repair ---- */

int varve_store_forget(struct varve_store *store, const struct varve_which *which, struct varve_error *error) {
    vv_error_clear(error);
    if (!store || !which || !which->name || which->version < 0)
        return vv_error(error, -EINVAL, "to forget a checkpoint its name and version must be given");
    struct varve_which found = *which;
    int rc = varve_store_resolve(store, &found, error);
    if (rc < 0)
        return rc;
    vv_inspect_ranged_clear(store);
    rc = vv_forget(store->store, found.name, found.generation, (uint64_t)found.version, error);
    return rc < 0 ? vv_error_default(error, rc, "cannot forget %s@%" PRId64 " of generation %" PRIu32 ": %s",
                                     found.name, found.version, found.generation, varve_error_text(rc))
                  : 0;
}

void varve_store_progress(struct varve_store *store, varve_progress_fn fn, void *arg) {
    if (!store)
        return;
    store->progress = fn;
    store->progress_arg = arg;
}

/* NULL if nobody asks how far it is. */
static struct vv_steps *begin_steps(const struct varve_store *store, size_t parts, struct vv_steps *steps) {
    *steps = (struct vv_steps){.fn = store->progress, .arg = store->progress_arg, .parts = parts};
    return store->progress ? steps : NULL;
}

struct reporter {
    varve_action_fn fn;
    void *arg;
};

static void report_removal(void *arg, const char *key, uint64_t size) {
    const struct reporter *reporter = arg;
    if (reporter->fn)
        reporter->fn(reporter->arg, key, size, "no checkpoint needs it");
}

static int prune_name(struct varve_store *store, const char *name, const struct vv_prune_options *options,
                      struct varve_prune_result *totals, struct varve_error *error) {
    struct vv_prune_result result = {0};

    int rc = vv_prune(store->store, name, options, &result, error);
    totals->objects += result.objects;
    totals->bytes += result.bytes;
    totals->kept_attempts += result.kept_attempts;
    return rc < 0 ? vv_error_default(error, rc, "cannot prune \"%s\": %s", name, varve_error_text(rc)) : 0;
}

/* A name that cannot be pruned does not keep the others from it; its error is the one that is returned. */
int varve_store_prune(struct varve_store *store, const char *name, int is_dry_run, varve_action_fn fn, void *arg,
                      struct varve_prune_result *out, struct varve_error *error) {
    struct reporter reporter = {.fn = fn, .arg = arg};
    struct varve_prune_result totals = {0};
    struct vv_prune_options options = {.is_dry_run = is_dry_run, .report = report_removal, .arg = &reporter};
    struct varve_error own;
    struct vv_names names;
    struct vv_steps steps;
    int first = 0;

    vv_error_clear(error);
    if (!store)
        return vv_error(error, -EINVAL, "no store given");
    int rc = vv_inspect_require_name(store, name, error);
    if (rc == 0)
        rc = vv_inspect_names(store, name, &names, error);
    if (rc < 0)
        return rc;
    vv_inspect_ranged_clear(store);
    options.steps = begin_steps(store, names.count, &steps);
    for (size_t i = 0; i < names.count && rc != -EINTR; i++) {
        vv_error_clear(&own);
        steps.parts_done = i;
        rc = prune_name(store, names.list[i], &options, &totals, &own);
        if (rc < 0 && first == 0)
            first = vv_error(error, rc, "%s", own.text);
    }
    vv_inspect_names_clear(&names);
    if (out)
        *out = totals;
    return rc == -EINTR ? vv_error(error, rc, "%s", own.text) : first;
}

static void report_repair(void *arg, const char *key, const char *text) {
    const struct reporter *reporter = arg;
    if (reporter->fn)
        reporter->fn(reporter->arg, key, 0, text);
}

int varve_store_repair(struct varve_store *store, int is_dry_run, varve_action_fn fn, void *arg,
                       struct varve_error *error) {
    struct reporter reporter = {.fn = fn, .arg = arg};
    struct vv_repair_options options = {.is_dry_run = is_dry_run, .report = report_repair, .arg = &reporter};
    struct vv_steps steps;

    vv_error_clear(error);
    if (!store)
        return vv_error(error, -EINVAL, "no store given");
    vv_inspect_ranged_clear(store);
    options.steps = begin_steps(store, 0, &steps);
    int rc = vv_repair(store->store, &options, error);
    return rc < 0 ? vv_error_default(error, rc, "cannot repair %s: %s", store->address, varve_error_text(rc)) : rc;
}

/* ---- who holds a name ---- */

static void give_holder(const struct vv_holder *from, struct varve_holder *out) {
    struct varve_holder holder = {
        .size = out->size,
        .holding = from->holding,
        .generation = from->generation,
        .pid = from->pid,
        .ranks = from->ranks,
        .beat_seconds = from->beat_seconds,
        .dead_seconds = from->dead_seconds,
        .claimed_ns = from->claimed_ns,
        .beat_ns = from->beat_ns,
    };
    snprintf(holder.host, sizeof holder.host, "%s", from->host);
    snprintf(holder.program, sizeof holder.program, "%s", from->program);
    snprintf(holder.evidence, sizeof holder.evidence, "%s", from->evidence);
    memcpy(out, &holder, out->size);
}

static int check_holder(struct varve_store *store, const char *name, const struct varve_holder *out,
                        struct varve_error *error) {
    if (!store || !name)
        return vv_error(error, -EINVAL, "a store and a name must be given");
    if (out && (out->size > sizeof *out || out->size < sizeof out->size))
        return vv_error(error, -EINVAL, "the size of struct varve_holder must be set, to what this library knows");
    return vv_inspect_require_name(store, name, error);
}

int varve_store_holder(struct varve_store *store, const char *name, struct varve_holder *out,
                       struct varve_error *error) {
    struct vv_holder holder;

    vv_error_clear(error);
    int rc = out ? check_holder(store, name, out, error) : vv_error(error, -EINVAL, "no place for the result");
    rc = rc ? rc : vv_holder_look(store->store, name, &holder, error);
    if (rc == 0)
        give_holder(&holder, out);
    return rc < 0 ? vv_error_default(error, rc, "cannot find out who holds \"%s\": %s", name, varve_error_text(rc)) : 0;
}

int varve_store_unlock(struct varve_store *store, const char *name, int is_dead, varve_progress_fn progress, void *arg,
                       struct varve_holder *out, struct varve_error *error) {
    struct vv_holder holder = {0};

    vv_error_clear(error);
    int rc = check_holder(store, name, out, error);
    if (rc < 0)
        return rc;
    rc = vv_unlock(store->store, name, is_dead, progress, arg, &holder, error);
    if (out)
        give_holder(&holder, out);
    return rc < 0 ? vv_error_default(error, rc, "cannot unlock \"%s\": %s", name, varve_error_text(rc)) : 0;
}
