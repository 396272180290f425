/* Repair: what docs/format.md 12 says can be rebuilt, is.
 *
 * A key that is taken stays taken: a damaged record or writers list is replaced by the rebuilt bytes in one step.
 * Were it removed first, a prune in between would see data without a record, and end what is being saved.
 *
 * A record is made the way a session would make it: with a claim of its own, and by the steps of adoption, so that
 * everything that is safe beside adoption is safe beside a repair. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "check/repair_private.h"
#include "lifecycle/catalogue.h"

void vv_repair_report(struct vv_repair *repair, const char *key, const char *format, ...) {
    char text[512];
    va_list args;
    if (!repair->options->report)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    repair->options->report(repair->options->arg, key, text);
}

int vv_repair_go_on(struct vv_repair *repair) {
    int rc = vv_steps_did(repair->options->steps);
    return rc < 0 ? vv_error_sys(repair->error, rc, "stopped") : 0;
}

/* Put rebuilt bytes under key: in place of a damaged object, or where there is none. */
int vv_repair_put(struct vv_repair *repair, const struct vv_key *key, const struct vv_buf *bytes, int is_missing,
                  const char *from) {
    char text[VV_KEY_CAPACITY];
    int rc = bytes->failed;
    vv_key_print(key, text);
    if (rc == 0 && !repair->options->is_dry_run) {
        rc = VV_FAULT("store.repair.before_put");
        if (rc == 0)
            rc = is_missing ? vv_backend_put(repair->store->backend, text, bytes->data, bytes->size)
                            : vv_backend_replace(repair->store->backend, text, bytes->data, bytes->size);
        if (rc == 0)
            rc = VV_FAULT("store.repair.after_put");
    }
    if (rc < 0)
        return vv_error_sys(repair->error, rc, "cannot repair %s", text);
    repair->repairs++;
    vv_repair_report(repair, text, "%s; %srebuilt from %s", is_missing ? "missing" : "damaged",
                     repair->options->is_dry_run ? "can be " : "", from);
    return 0;
}

/* ---- store object ---- */

static int repair_store(struct vv_repair *repair) {
    struct vv_key key = {.kind = VV_KIND_STORE};
    struct vv_store_object object = {.settings = repair->store->settings};
    struct vv_buf buf;
    uint64_t size;
    if (!repair->store->is_patched)
        return 0;
    memcpy(object.store_id, repair->store->id, sizeof object.store_id);
    int rc = vv_backend_stat(repair->store->backend, "varve", &size);
    if (rc < 0 && rc != -ENOENT)
        return vv_error_sys(repair->error, rc, "cannot look at varve");
    vv_buf_init(&buf);
    vv_store_object_encode(&buf, &object);
    rc = vv_repair_put(repair, &key, &buf, rc == -ENOENT, "records and claims");
    vv_buf_clear(&buf);
    if (rc == 0 && !repair->options->is_dry_run)
        repair->store->is_patched = 0;
    return rc;
}

/* ---- mutable objects ---- */

static int remove_damaged(struct vv_repair *repair, const struct vv_key *key, const char *why) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    int rc = VV_FAULT("store.repair.before_remove");
    if (rc == 0 && !repair->options->is_dry_run)
        rc = vv_backend_remove(repair->store->backend, text);
    if (rc < 0 && rc != -ENOENT)
        return vv_error_sys(repair->error, rc, "cannot remove %s", text);
    repair->repairs++;
    vv_repair_report(repair, text, "%s; %sremoved", why, repair->options->is_dry_run ? "can be " : "");
    return 0;
}

static int repair_heartbeats(struct vv_repair *repair) {
    char prefix[VV_KEY_CAPACITY];
    struct vv_numbers heartbeats;
    vv_prefix_heartbeats(repair->name, prefix);
    int rc = vv_numbers_list(repair->store, prefix, 8, NULL, &heartbeats, repair->error);
    vv_steps_found(repair->options->steps, heartbeats.count);
    for (size_t i = 0; rc == 0 && i < heartbeats.count; i++) {
        struct vv_attempt attempt = {.generation = (uint32_t)heartbeats.list[i]};
        struct vv_key key = vv_attempt_key(repair->name, &attempt, VV_KIND_HEARTBEAT, 0, 0);
        struct varve_error why = {0};
        struct vv_heartbeat heartbeat;
        int found = attempt.generation
                        ? vv_heartbeat_load(repair->store, repair->name, attempt.generation, &heartbeat, &why)
                        : 0;
        if (found == VARVE_CORRUPT)
            rc = remove_damaged(repair, &key, why.text);
        else if (found == 0 && attempt.generation && vv_committed_by_heartbeat(&repair->committed, &heartbeat) < 0)
            rc = vv_error_sys(repair->error, -ENOMEM, "cannot repair %s", repair->name);
        rc = rc ? rc : vv_repair_go_on(repair);
    }
    vv_numbers_clear(&heartbeats);
    return rc;
}

/* What the catalogue lists was committed. */
static int note_catalogue(struct vv_repair *repair) {
    struct vv_catalogue catalogue;
    int rc = vv_catalogue_read(repair->store, repair->name, &catalogue, repair->error);
    if (rc == 0 && (rc = vv_committed_by_catalogue(&repair->committed, &catalogue)) < 0)
        vv_error_sys(repair->error, rc, "cannot repair %s", repair->name);
    vv_catalogue_clear(&catalogue);
    return rc == -ENOENT || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT ? 0 : rc;
}

static int repair_catalogue(struct vv_repair *repair) {
    struct vv_key key = vv_attempt_key(repair->name, &(struct vv_attempt){0}, VV_KIND_CATALOGUE, 0, 0);
    struct varve_error why = {0};
    struct vv_catalogue catalogue;
    int rc = vv_catalogue_read(repair->store, repair->name, &catalogue, &why);
    vv_catalogue_clear(&catalogue);
    if (rc != VARVE_CORRUPT)
        return 0;
    if ((rc = remove_damaged(repair, &key, why.text)) < 0 || repair->options->is_dry_run)
        return rc;
    rc = vv_catalogue_load(repair->store, repair->name, 1, NULL, NULL, &catalogue, repair->error);
    vv_catalogue_clear(&catalogue);
    return rc;
}

/* ---- writers lists ---- */

/* Rebuild the list of an attempt whose digest some record names. */
static int rebuild_writers(struct vv_repair *repair, const struct vv_dependency *dependency, int is_missing) {
    struct vv_key key = vv_attempt_key(repair->name, &dependency->attempt, VV_KIND_WRITERS, 0, 0);
    struct varve_error why = {0};
    struct vv_writers writers;
    struct vv_record record;
    struct vv_hash128 digest;
    struct vv_buf buf;
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    int rc = vv_votes_read(repair->store, repair->name, &dependency->attempt, &writers, &record, &why);
    if (rc < 1) {
        const char *reason = rc < 0 ? why.text
                             : repair->store->settings.layout == VV_LAYOUT_LOCAL
                                 ? "its packs are on several nodes; the job's next restart copies it from another one"
                                 : "a pack is missing";
        vv_repair_report(repair, text, "%s, and cannot be rebuilt: %s", is_missing ? "missing" : "damaged", reason);
        return rc == -ENOMEM ? vv_error_sys(repair->error, rc, "cannot repair %s", text) : 0;
    }
    vv_buf_init(&buf);
    vv_writers_encode(&buf, &key, repair->store->id, &writers, &digest);
    if (!vv_hash128_equal(digest, dependency->writers_digest))
        vv_repair_report(repair, text, "%s, and the packs that are there do not give the list that was committed",
                         is_missing ? "missing" : "damaged");
    else
        rc = vv_repair_put(repair, &key, &buf, is_missing, "the footers of its packs");
    vv_buf_clear(&buf);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return rc < 0 ? rc : 0;
}

/* A writers list that a record names: is it there and the one that was committed? */
static int repair_writers(struct vv_repair *repair, const struct vv_dependency *dependency) {
    struct vv_key key = vv_attempt_key(repair->name, &dependency->attempt, VV_KIND_WRITERS, 0, 0);
    struct varve_error why = {0};
    struct vv_writers writers = {0};
    char text[VV_KEY_CAPACITY];
    int rc = vv_repair_read_writers(repair, &key, &writers, &why);
    if (rc == 0 && !vv_hash128_equal(writers.digest, dependency->writers_digest))
        rc = VARVE_CORRUPT;
    vv_writers_clear(&writers);
    if (rc == -ENOENT || rc == VARVE_CORRUPT)
        return rebuild_writers(repair, dependency, rc == -ENOENT);
    if (rc < 0) {
        vv_key_print(&key, text);
        vv_repair_report(repair, text, "left alone: %s", why.text);
    }
    return rc == -ENOMEM ? vv_error_sys(repair->error, rc, "cannot repair %s", repair->name) : 0;
}

static void sort_dependencies(struct vv_repair *repair) {
    size_t left = 0;
    if (repair->dependency_count)
        qsort(repair->dependencies, repair->dependency_count, sizeof *repair->dependencies, vv_dependency_compare);
    for (size_t i = 0; i < repair->dependency_count; i++)
        if (left == 0 || vv_dependency_compare(&repair->dependencies[left - 1], &repair->dependencies[i]) != 0)
            repair->dependencies[left++] = repair->dependencies[i];
    repair->dependency_count = left;
}

static int add_dependency(struct vv_repair *repair, const struct vv_dependency *dependency) {
    if (repair->dependency_count == repair->dependency_capacity) {
        sort_dependencies(repair);
        size_t capacity = repair->dependency_capacity == 0                             ? 64
                          : repair->dependency_count > repair->dependency_capacity / 2 ? repair->dependency_capacity * 2
                                                                                       : repair->dependency_capacity;
        struct vv_dependency *dependencies = vv_realloc(repair->dependencies, capacity * sizeof *dependencies);
        if (!dependencies)
            return vv_error_sys(repair->error, -ENOMEM, "cannot repair %s", repair->name);
        repair->dependencies = dependencies;
        repair->dependency_capacity = capacity;
    }
    repair->dependencies[repair->dependency_count++] = *dependency;
    return 0;
}

int vv_repair_reach(struct vv_repair *repair, const struct vv_attempt *own, const struct vv_record *record) {
    struct vv_dependency self = {.attempt = *own, .writers_digest = record->writers_digest};
    int rc = add_dependency(repair, &self);
    for (uint32_t i = 0; rc == 0 && i < record->dependency_count; i++)
        rc = add_dependency(repair, &record->dependencies[i]);
    if (rc == 0 && (rc = vv_committed_by_record(&repair->committed, record)) < 0)
        vv_error_sys(repair->error, rc, "cannot repair %s", repair->name);
    return rc;
}

static int repair_all_writers(struct vv_repair *repair) {
    int rc = 0;
    sort_dependencies(repair);
    vv_steps_found(repair->options->steps, repair->dependency_count);
    for (size_t i = 0; rc == 0 && i < repair->dependency_count; i++) {
        rc = repair_writers(repair, &repair->dependencies[i]);
        rc = rc ? rc : vv_repair_go_on(repair);
    }
    return rc;
}

/* ---- all ---- */

/* Records before writers lists, which they vouch for; the catalogue when the records are right. */
static int repair_name(void *arg, const char *name) {
    struct vv_repair *repair = arg;
    repair->name = name;
    repair->dependency_count = 0;
    repair->committed.count = repair->committed.sorted = 0;
    int rc = repair_heartbeats(repair);
    if (rc == 0)
        rc = vv_repair_records(repair);
    if (rc == 0)
        rc = repair_all_writers(repair);
    if (rc == 0)
        rc = note_catalogue(repair);
    if (rc == 0)
        rc = vv_repair_lost(repair);
    vv_lease_release(repair->lease);
    repair->lease = NULL;
    if (repair->options->steps)
        repair->options->steps->parts_done++;
    return rc == 0 ? repair_catalogue(repair) : rc;
}

static int count_name(void *arg, const char *name) {
    (void)name;
    (*(size_t *)arg)++;
    return 0;
}

/* One listing more, for those who want to know how far it is. */
static int count_names(struct vv_repair *repair) {
    struct vv_steps *steps = repair->options->steps;
    return steps ? vv_store_names(repair->store, count_name, &steps->parts, repair->error) : 0;
}

int vv_repair(struct vv_store *store, const struct vv_repair_options *options, struct varve_error *error) {
    struct varve_error own = {0};
    struct vv_repair repair = {.store = store, .options = options, .error = error ? error : &own};
    int rc = repair_store(&repair);
    if (rc == 0)
        rc = count_names(&repair);
    if (rc == 0)
        rc = vv_store_names(store, repair_name, &repair, repair.error);
    vv_free(repair.dependencies);
    vv_attempts_clear(&repair.committed);
    if (rc < 0)
        return rc;
    vv_error_clear(error);
    return repair.repairs;
}
