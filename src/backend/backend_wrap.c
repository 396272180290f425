/* The passing-on half of all wrappers. */
#include "backend/backend_wrap_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct wrap_upload {
    struct varve_upload base;
    struct varve_upload *inner;
};

static int enter(struct wrap *wrap, struct wrap_op *op) {
    return wrap->hooks->enter ? wrap->hooks->enter(wrap, op) : 0;
}

static int64_t leave(struct wrap *wrap, struct wrap_op *op, int64_t result) {
    return wrap->hooks->leave ? wrap->hooks->leave(wrap, op, result) : result;
}

static struct wrap *wrap_of(struct varve_backend *backend) {
    return (struct wrap *)backend;
}

static int wrap_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_CREATE, .key = key};
    struct wrap_upload *upload = vv_calloc(1, sizeof(*upload));
    if (!upload)
        return -ENOMEM;
    upload->base.backend = backend;
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_create(wrap->inner, key, size_hint, &upload->inner);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    if (result < 0) {
        vv_backend_upload_abort(upload->inner);
        vv_free(upload);
        return (int)result;
    }
    *out = &upload->base;
    return 0;
}

static int wrap_upload_write(struct varve_upload *base, const void *data, size_t size) {
    struct wrap *wrap = wrap_of(base->backend);
    struct wrap_op op = {.verb = VV_VERB_WRITE, .data_in = data, .size = size};
    int64_t result = enter(wrap, &op);
    if (result == 0)
        result = vv_backend_upload_write(((struct wrap_upload *)base)->inner, op.data_in, op.size);
    return (int)leave(wrap, &op, result);
}

static int wrap_upload_commit(struct varve_upload *base) {
    struct wrap *wrap = wrap_of(base->backend);
    struct wrap_op op = {.verb = VV_VERB_COMMIT};
    int64_t result = enter(wrap, &op);
    if (result == 0)
        result = vv_backend_upload_commit(((struct wrap_upload *)base)->inner);
    else
        vv_backend_upload_abort(((struct wrap_upload *)base)->inner);
    result = leave(wrap, &op, result);
    vv_free(base);
    return (int)result;
}

static void wrap_upload_abort(struct varve_upload *base) {
    struct wrap *wrap = wrap_of(base->backend);
    struct wrap_op op = {.verb = VV_VERB_ABORT};
    (void)enter(wrap, &op);
    vv_backend_upload_abort(((struct wrap_upload *)base)->inner);
    (void)leave(wrap, &op, 0);
    vv_free(base);
}

static int wrap_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_REPLACE, .key = key};
    int64_t result;
    do {
        op.data_in = data;
        op.size = size;
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_replace(wrap->inner, key, op.data_in, op.size);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return (int)result;
}

static int64_t wrap_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_GET, .key = key, .data_out = data};
    int64_t result;
    do {
        op.size = size;
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_get(wrap->inner, key, offset, data, op.size);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return result;
}

static int wrap_stat(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_STAT, .key = key};
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_stat(wrap->inner, key, size_out);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return (int)result;
}

/* Remembers how far a list got. */
struct listing {
    varve_list_fn fn;
    void *arg;
    size_t given;
    int stopped; /* what fn returned last */
    char last[256];
};

static int listing_take(void *arg, const char *name, int is_prefix) {
    struct listing *listing = arg;
    snprintf(listing->last, sizeof(listing->last), "%s", name);
    listing->given++;
    listing->stopped = listing->fn(listing->arg, name, is_prefix);
    return listing->stopped;
}

static int wrap_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                     varve_list_fn fn, void *arg) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_LIST, .key = prefix};
    struct listing listing = {.fn = fn, .arg = arg};
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_list(wrap->inner, prefix, listing.given ? listing.last : after,
                                     limit ? limit - listing.given : 0, listing_take, &listing);
        /* That the caller's function stopped it is no failure of the storage. */
        result = leave(wrap, &op, listing.stopped ? 0 : result);
    } while (result == WRAP_AGAIN && (limit == 0 || listing.given < limit));
    if (result == 0 && listing.stopped < 0)
        return listing.stopped;
    return result == WRAP_AGAIN ? 0 : (int)result;
}

static int wrap_remove(struct varve_backend *backend, const char *key) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_REMOVE, .key = key};
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_remove(wrap->inner, key);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return (int)result;
}

static int wrap_space(struct varve_backend *backend, uint64_t *bytes_out) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_SPACE};
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_space(wrap->inner, bytes_out);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return (int)result;
}

static int wrap_sync(struct varve_backend *backend, const char *key) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_SYNC, .key = key};
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_sync(wrap->inner, key);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return (int)result;
}

static int wrap_sweep(struct varve_backend *backend) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_SWEEP};
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0)
            result = vv_backend_sweep(wrap->inner);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return (int)result;
}

static int wrap_probe(struct varve_backend *backend, char *why, size_t capacity) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_PROBE};
    const struct varve_backend_ops *ops = wrap->inner->ops;
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0 && ops->size >= offsetof(struct varve_backend_ops, probe) + sizeof(ops->probe) && ops->probe)
            result = ops->probe(wrap->inner, why, capacity);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return (int)result;
}

static int wrap_refresh(struct varve_backend *backend, const char *prefix) {
    struct wrap *wrap = wrap_of(backend);
    struct wrap_op op = {.verb = VV_VERB_REFRESH, .key = prefix};
    const struct varve_backend_ops *ops = wrap->inner->ops;
    int64_t result;
    do {
        result = enter(wrap, &op);
        if (result == 0 && ops->size >= offsetof(struct varve_backend_ops, refresh) + sizeof(ops->refresh) &&
            ops->refresh)
            result = ops->refresh(wrap->inner, prefix);
        result = leave(wrap, &op, result);
    } while (result == WRAP_AGAIN);
    return (int)result;
}

static void wrap_close(struct varve_backend *backend) {
    struct wrap *wrap = wrap_of(backend);
    if (!wrap)
        return;
    vv_backend_close(wrap->inner);
    if (wrap->hooks->destroy)
        wrap->hooks->destroy(wrap);
    vv_free(wrap);
}

/* Messages name the wrapped backend: wrappers are of no interest to a reader of errors. */
static const struct varve_backend_ops wrap_ops = {
    .size = sizeof(wrap_ops),
    .name = "wrapper",
    .create = wrap_create,
    .upload_write = wrap_upload_write,
    .upload_commit = wrap_upload_commit,
    .upload_abort = wrap_upload_abort,
    .replace = wrap_replace,
    .get = wrap_get,
    .stat = wrap_stat,
    .list = wrap_list,
    .remove = wrap_remove,
    .space = wrap_space,
    .sync = wrap_sync,
    .sweep = wrap_sweep,
    .close = wrap_close,
    .probe = wrap_probe,
    .refresh = wrap_refresh,
};

void vv_wrap_init(struct wrap *wrap, const struct wrap_hooks *hooks, struct varve_backend *inner) {
    wrap->base.ops = &wrap_ops;
    wrap->inner = inner;
    wrap->hooks = hooks;
}

struct wrap *vv_wrap_find(struct varve_backend *backend, const struct wrap_hooks *hooks) {
    while (backend->ops == &wrap_ops) {
        struct wrap *wrap = wrap_of(backend);
        if (wrap->hooks == hooks)
            return wrap;
        backend = wrap->inner;
    }
    return NULL;
}

struct varve_backend *vv_backend_innermost(struct varve_backend *backend) {
    while (backend->ops == &wrap_ops)
        backend = wrap_of(backend)->inner;
    return backend;
}

const char *vv_backend_name(const struct varve_backend *backend) {
    while (backend->ops == &wrap_ops)
        backend = ((const struct wrap *)backend)->inner;
    return backend->ops->name;
}
