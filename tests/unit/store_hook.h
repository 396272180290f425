/* For the tests of what happens between two steps: a backend that calls the test before each verb, and after each get.
 * The test may use the same objects through another store meanwhile, or make the verb fail. */
#ifndef VARVE_TEST_STORE_HOOK_H
#define VARVE_TEST_STORE_HOOK_H

#include "storage/storage.h"
#include "store_life.h"

/* is_after: the verb is done. Returns 0, or the error with which the verb shall fail. */
typedef int (*hook_fn)(int verb, const char *key, uint64_t offset, int is_after);

struct hooked {
    struct varve_backend base;
    struct varve_backend *inner;
};
static _Thread_local hook_fn hook; /* NULL: nothing happens; heartbeats have none */

static inline struct varve_backend *hook_inner(struct varve_backend *backend) {
    return ((struct hooked *)backend)->inner;
}

/* Inside the hook there is none. */
static inline int call_hook(int verb, const char *key, uint64_t offset, int is_after) {
    hook_fn fn = hook;
    if (!fn)
        return 0;
    hook = NULL;
    int rc = fn(verb, key, offset, is_after);
    hook = hook ? hook : fn;
    return rc;
}

static inline int hooked_create(struct varve_backend *backend, const char *key, uint64_t hint,
                                struct varve_upload **out) {
    int rc = call_hook(VV_VERB_CREATE, key, 0, 0);
    return rc < 0 ? rc : vv_backend_create(hook_inner(backend), key, hint, out);
}
static inline int hooked_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    int rc = call_hook(VV_VERB_REPLACE, key, 0, 0);
    return rc < 0 ? rc : vv_backend_replace(hook_inner(backend), key, data, size);
}
static inline int64_t hooked_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data,
                                 size_t size) {
    int rc = call_hook(VV_VERB_GET, key, offset, 0);
    if (rc < 0)
        return rc;
    int64_t got = vv_backend_get(hook_inner(backend), key, offset, data, size);
    rc = call_hook(VV_VERB_GET, key, offset, 1);
    return rc < 0 ? rc : got;
}
static inline int hooked_stat(struct varve_backend *backend, const char *key, uint64_t *size) {
    int rc = call_hook(VV_VERB_STAT, key, 0, 0);
    return rc < 0 ? rc : vv_backend_stat(hook_inner(backend), key, size);
}
static inline int hooked_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                              varve_list_fn fn, void *arg) {
    return vv_backend_list(hook_inner(backend), prefix, after, limit, fn, arg);
}
static inline int hooked_remove(struct varve_backend *backend, const char *key) {
    int rc = call_hook(VV_VERB_REMOVE, key, 0, 0);
    return rc < 0 ? rc : vv_backend_remove(hook_inner(backend), key);
}
static inline int hooked_sync(struct varve_backend *backend, const char *key) {
    int rc = call_hook(VV_VERB_SYNC, key, 0, 0);
    return rc < 0 ? rc : vv_backend_sync(hook_inner(backend), key);
}
static inline void hooked_close(struct varve_backend *backend) {
    vv_backend_close(hook_inner(backend));
    free(backend);
}

static const struct varve_backend_ops hooked_ops = {.size = sizeof hooked_ops,
                                                    .name = "hooked",
                                                    .create = hooked_create,
                                                    .replace = hooked_replace,
                                                    .get = hooked_get,
                                                    .stat = hooked_stat,
                                                    .list = hooked_list,
                                                    .remove = hooked_remove,
                                                    .sync = hooked_sync,
                                                    .close = hooked_close};

static inline struct vv_store *open_hooked(const char *uri) {
    struct vv_backend_options options = {.may_create = 1};
    struct hooked *hooked = calloc(1, sizeof *hooked);
    struct vv_store *opened = NULL;
    assert_non_null(hooked);
    hooked->base.ops = &hooked_ops;
    ok(vv_backend_open(uri, &options, &hooked->inner, &error));
    ok(vv_store_open(&hooked->base, VV_STORE_WRITE, &quiet, &opened, &error));
    return opened;
}

/* Is this the key of that object? */
static inline int is_key(const char *key, struct vv_attempt attempt, int kind) {
    char text[VV_KEY_CAPACITY];
    key_text(attempt, kind, 0, 0, text);
    return strcmp(text, key) == 0;
}

#endif
