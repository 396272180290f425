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

/* What a verb is given and gives besides what the hooks see. */
struct wrap_call {
    struct wrap_op op;
    uint64_t offset;     /* of a get */
    uint64_t *value_out; /* of stat and space */
    char *why;           /* of a probe */
    size_t capacity;
};

static int64_t do_inside(struct varve_backend *inner, const struct wrap_call *call) {
    const struct wrap_op *op = &call->op;
    switch (op->verb) {
    case VV_VERB_REPLACE:
        return vv_backend_replace(inner, op->key, op->data_in, op->size);
    case VV_VERB_GET:
        return vv_backend_get(inner, op->key, call->offset, op->data_out, op->size);
    case VV_VERB_STAT:
        return vv_backend_stat(inner, op->key, call->value_out);
    case VV_VERB_REMOVE:
        return vv_backend_remove(inner, op->key);
    case VV_VERB_SPACE:
        return vv_backend_space(inner, call->value_out);
    case VV_VERB_SYNC:
        return vv_backend_sync(inner, op->key);
    case VV_VERB_SWEEP:
        return vv_backend_sweep(inner);
    case VV_VERB_PROBE:
        return VV_BACKEND_HAS(inner, probe) ? inner->ops->probe(inner, call->why, call->capacity) : 0;
    case VV_VERB_REFRESH:
        return VV_BACKEND_HAS(inner, refresh) ? inner->ops->refresh(inner, op->key) : 0;
    default: /* lists and uploads have their own ways */
        return -EINVAL;
    }
}

static int64_t pass_on(struct varve_backend *backend, struct wrap_call call) {
    struct wrap *wrap = wrap_of(backend);
    const void *data = call.op.data_in;
    size_t size = call.op.size;
    int64_t result;
    do {
        call.op.data_in = data;
        call.op.size = size;
        result = enter(wrap, &call.op);
        if (result == 0)
            result = do_inside(wrap->inner, &call);
        result = leave(wrap, &call.op, result);
    } while (result == WRAP_AGAIN);
    return result;
}

static int wrap_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct wrap_op op = {.verb = VV_VERB_REPLACE, .key = key, .data_in = data, .size = size};
    return (int)pass_on(backend, (struct wrap_call){.op = op});
}

static int64_t wrap_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    struct wrap_op op = {.verb = VV_VERB_GET, .key = key, .data_out = data, .size = size};
    return pass_on(backend, (struct wrap_call){.op = op, .offset = offset});
}

static int wrap_stat(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    return (int)pass_on(backend, (struct wrap_call){.op = {.verb = VV_VERB_STAT, .key = key}, .value_out = size_out});
}

static int wrap_remove(struct varve_backend *backend, const char *key) {
    return (int)pass_on(backend, (struct wrap_call){.op = {.verb = VV_VERB_REMOVE, .key = key}});
}

static int wrap_space(struct varve_backend *backend, uint64_t *bytes_out) {
    return (int)pass_on(backend, (struct wrap_call){.op = {.verb = VV_VERB_SPACE}, .value_out = bytes_out});
}

static int wrap_sync(struct varve_backend *backend, const char *key) {
    return (int)pass_on(backend, (struct wrap_call){.op = {.verb = VV_VERB_SYNC, .key = key}});
}

static int wrap_sweep(struct varve_backend *backend) {
    return (int)pass_on(backend, (struct wrap_call){.op = {.verb = VV_VERB_SWEEP}});
}

static int wrap_probe(struct varve_backend *backend, char *why, size_t capacity) {
    return (int)pass_on(backend, (struct wrap_call){.op = {.verb = VV_VERB_PROBE}, .why = why, .capacity = capacity});
}

static int wrap_refresh(struct varve_backend *backend, const char *prefix) {
    return (int)pass_on(backend, (struct wrap_call){.op = {.verb = VV_VERB_REFRESH, .key = prefix}});
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
const struct varve_backend_ops vv_wrap_ops = {
    .size = sizeof(vv_wrap_ops),
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
    wrap->base.ops = &vv_wrap_ops;
    wrap->inner = inner;
    wrap->hooks = hooks;
}

static int is_wrapper(const struct varve_backend *backend) {
    return backend->ops->close == wrap_close;
}

struct wrap *vv_wrap_find(struct varve_backend *backend, const struct wrap_hooks *hooks) {
    while (is_wrapper(backend)) {
        struct wrap *wrap = wrap_of(backend);
        if (wrap->hooks == hooks)
            return wrap;
        backend = wrap->inner;
    }
    return NULL;
}

struct varve_backend *vv_backend_innermost(struct varve_backend *backend) {
    while (is_wrapper(backend))
        backend = wrap_of(backend)->inner;
    return backend;
}

const char *vv_backend_name(const struct varve_backend *backend) {
    while (is_wrapper(backend))
        backend = ((const struct wrap *)backend)->inner;
    return backend->ops->name;
}
