/* The objects of one attempt: removing them, and giving an attempt up. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "lifecycle/lifecycle.h"

/* ---- removal ---- */

struct attempt_objects {
    struct vv_store *store;
    char prefix[VV_KEY_CAPACITY];
    struct vv_key *list;
    size_t count;
    size_t capacity;
};

static int take_object(void *arg, const char *component, int is_prefix) {
    struct attempt_objects *objects = arg;
    char text[VV_KEY_CAPACITY + 256];
    struct vv_key key;
    snprintf(text, sizeof text, "%s/%s", objects->prefix, component);
    if (is_prefix || strlen(text) >= VV_KEY_CAPACITY || vv_key_parse(text, &key) < 0) {
        vv_log(objects->store->log, VV_LOG_WARN, "%s cannot be interpreted; left alone", text);
        return 0;
    }
    if (VV_GROW(objects->list, objects->count, objects->capacity) != 0)
        return -ENOMEM;
    objects->list[objects->count++] = key;
    return 0;
}

/* Packs first: from then on nobody takes what is left for a full vote. The writers list last. */
static int removal_rank(const struct vv_key *key) {
    int is_spare = key->kind == VV_KIND_COPY || key->kind == VV_KIND_PARITY;
    return key->kind == VV_KIND_PACK ? 0 : is_spare ? 1 : key->kind == VV_KIND_PART ? 2 : 3;
}

static int compare_removal(const void *a, const void *b) {
    const struct vv_key *x = a, *y = b;
    int order = removal_rank(x) - removal_rank(y);
    if (order)
        return order;
    if (x->writer != y->writer)
        return x->writer < y->writer ? -1 : 1;
    return x->part < y->part ? -1 : x->part > y->part;
}

int vv_prune_object(struct vv_store *store, const char *key, const struct vv_prune_options *options,
                    struct vv_prune_result *result, struct varve_error *error) {
    uint64_t size = 0;
    int rc = vv_backend_stat(store->backend, key, &size);
    if (rc == -ENOENT)
        return 0;
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot look at %s", key);
    if (options && options->report)
        options->report(options->arg, key, size);
    if (!options || !options->is_dry_run) {
        rc = vv_backend_remove(store->backend, key);
        if (rc < 0 && rc != -ENOENT)
            return vv_error_sys(error, rc, "cannot remove %s", key);
    }
    if (result) {
        result->objects++;
        result->bytes += size;
    }
    return 0;
}

static int remove_object(struct vv_store *store, const struct vv_key *key, const struct vv_prune_options *options,
                         struct vv_prune_result *result, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    int rc = options && options->is_dry_run ? 0 : VV_FAULT("store.attempt.before_remove");
    return rc < 0 ? vv_error_sys(error, rc, "cannot remove %s", text)
                  : vv_prune_object(store, text, options, result, error);
}

int vv_attempt_remove(struct vv_store *store, const char *name, const struct vv_attempt *attempt, int is_writers_kept,
                      const struct vv_prune_options *options, struct vv_prune_result *result,
                      struct varve_error *error) {
    struct attempt_objects objects = {.store = store};
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_steps *steps = options ? options->steps : NULL;
    vv_prefix_data(&key, 3, objects.prefix);
    int rc = vv_backend_list(store->backend, objects.prefix, NULL, 0, take_object, &objects);
    if (rc < 0)
        vv_error_sys(error, rc, "cannot list %s", objects.prefix);
    else if (objects.count > 1)
        qsort(objects.list, objects.count, sizeof *objects.list, compare_removal);
    vv_steps_left(steps, objects.count);
    for (size_t i = 0; rc == 0 && i < objects.count; i++) {
        if (!is_writers_kept || objects.list[i].kind != VV_KIND_WRITERS)
            rc = remove_object(store, &objects.list[i], options, result, error);
        if (rc == 0 && (rc = vv_steps_did(steps)) < 0)
            vv_error_sys(error, rc, "stopped");
    }
    vv_free(objects.list);
    return rc;
}

/* ---- giving up ---- */

/* Is it settled by the record's key that this attempt will never be a checkpoint? 1 yes, 0 no; -EEXIST when it is
 * one. */
static int is_settled_by_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                                struct varve_error *error) {
    struct vv_record found;
    int rc = vv_record_load(store, name, attempt->generation, attempt->version, &found, error);
    /* A tombstone settles nothing: the attempt may have been adopted, depended on, and forgotten since. The list
     * tells. */
    if (rc == VARVE_NO_CHECKPOINT || rc == VARVE_FORGOTTEN)
        return 0;
    if (rc < 0)
        return rc;
    rc = found.attempt != attempt->attempt;
    vv_record_clear(&found);
    if (rc == 1)
        return 1;
    return vv_error(error, -EEXIST, "generation %u, version %" PRIu64 ", attempt %u of %s is a checkpoint",
                    attempt->generation, attempt->version, attempt->attempt, name);
}

/* Nobody can create the record before the writers list: a tombstone in the list's place ends the attempt, and this
 * attempt only. 1 if one stands there; 0 if the list does, because somebody has begun to commit. */
static int close_attempt(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                         struct varve_error *error) {
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_WRITERS, 0, 0);
    int rc = VV_FAULT("store.drop.before_tombstone");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot give the attempt up");
    rc = vv_tombstone_create(store, &key, VV_TOMBSTONE_GIVEN_UP, error);
    if (rc == 0)
        return 1;
    return rc == -EEXIST ? vv_attempt_is_closed(store, name, attempt, error) : rc;
}

int vv_attempt_is_closed(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                         struct varve_error *error) {
    struct vv_key key = vv_attempt_key(name, attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_tombstone tombstone;
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &key, &buf, error);
    if (rc == 0)
        rc = vv_tombstone_parse(buf.data, buf.size, &key, store->id, &tombstone, NULL) == 0;
    vv_buf_clear(&buf);
    return rc == -ENOENT ? 0 : rc;
}

/* Nothing is removed before it is certain that nobody can commit the attempt any more. All packs may be there, and a
 * session with a higher claim may have counted the votes already; taking a pack away under its hands would leave a
 * record without data. That session creates the writers list before the record, and there it meets the tombstone.
 * Under the record's key a tombstone would do the same, but also stop a further attempt at this version. It stays
 * until a prune removes it: a sleeping adopter may come late. */
int vv_attempt_drop(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writers,
                    struct varve_error *error) {
    (void)writers; /* one tombstone does for all of them */
    int rc = is_settled_by_record(store, name, attempt, error);
    if (rc == 0)
        rc = close_attempt(store, name, attempt, error);
    if (rc < 0)
        return rc;
    vv_error_clear(error);
    if (rc == 0)
        return 1;
    if ((rc = VV_FAULT("store.drop.before_remove")) < 0)
        return vv_error_sys(error, rc, "cannot give the attempt up");
    return vv_attempt_remove(store, name, attempt, 1, NULL, NULL, error);
}
