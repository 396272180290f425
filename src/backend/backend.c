/* The checked verbs: the one place where the members of a backend are called. */
#include "backend/backend_parts.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

static int is_key_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-' || c == '%' || c == '~';
}

static int component_check(const char *text, size_t size) {
    if (size < 1 || size > 255)
        return -EINVAL;
    if (text[0] == '.' && (size == 1 || (size == 2 && text[1] == '.')))
        return -EINVAL;
    for (size_t i = 0; i < size; i++)
        if (!is_key_char(text[i]))
            return -EINVAL;
    return 0;
}

int vv_backend_key_check(const char *key) {
    if (!key || strnlen(key, VV_BACKEND_KEY_MAX + 1) > VV_BACKEND_KEY_MAX)
        return -EINVAL;
    for (;;) {
        const char *end = strchrnul(key, '/');
        if (component_check(key, (size_t)(end - key)) < 0)
            return -EINVAL;
        if (!*end)
            return 0;
        key = end + 1;
    }
}

static int prefix_check(const char *prefix) {
    if (prefix && !*prefix)
        return 0;
    return vv_backend_key_check(prefix);
}

void vv_backend_close(struct varve_backend *backend) {
    if (backend)
        backend->ops->close(backend);
}

int vv_backend_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out) {
    if (vv_backend_key_check(key) < 0)
        return -EINVAL;
    return backend->ops->create(backend, key, size_hint, out);
}

int vv_backend_upload_write(struct varve_upload *upload, const void *data, size_t size) {
    return upload->backend->ops->upload_write(upload, data, size);
}

int vv_backend_upload_commit(struct varve_upload *upload) {
    return upload->backend->ops->upload_commit(upload);
}

void vv_backend_upload_abort(struct varve_upload *upload) {
    if (upload)
        upload->backend->ops->upload_abort(upload);
}

int vv_backend_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    if (vv_backend_key_check(key) < 0)
        return -EINVAL;
    return backend->ops->replace(backend, key, data, size);
}

int64_t vv_backend_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    if (vv_backend_key_check(key) < 0 || offset > INT64_MAX || size > INT64_MAX - offset)
        return -EINVAL;
    return backend->ops->get(backend, key, offset, data, size);
}

int vv_backend_stat(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    if (vv_backend_key_check(key) < 0)
        return -EINVAL;
    return backend->ops->stat(backend, key, size_out);
}

int vv_backend_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                    varve_list_fn fn, void *arg) {
    if (prefix_check(prefix) < 0)
        return -EINVAL;
    return backend->ops->list(backend, prefix, after, limit, fn, arg);
}

int vv_backend_remove(struct varve_backend *backend, const char *key) {
    if (vv_backend_key_check(key) < 0)
        return -EINVAL;
    return backend->ops->remove(backend, key);
}

int vv_backend_space(struct varve_backend *backend, uint64_t *bytes_out) {
    if (!VV_BACKEND_HAS(backend, space))
        return VARVE_UNSUPPORTED;
    return backend->ops->space(backend, bytes_out);
}

int vv_backend_sync(struct varve_backend *backend, const char *key) {
    if (vv_backend_key_check(key) < 0)
        return -EINVAL;
    return VV_BACKEND_HAS(backend, sync) ? backend->ops->sync(backend, key) : 0;
}

int vv_backend_sweep(struct varve_backend *backend) {
    if (!VV_BACKEND_HAS(backend, sweep))
        return VARVE_UNSUPPORTED;
    return backend->ops->sweep(backend);
}

int vv_backend_refresh(struct varve_backend *backend, const char *prefix, struct varve_error *error) {
    if (prefix_check(prefix) < 0)
        return -EINVAL;
    int result = VV_BACKEND_HAS(backend, refresh) ? backend->ops->refresh(backend, prefix) : 0;
    if (result == -ESTALE)
        return vv_error(
            error, result,
            "%.200s is listed as it was some time ago: what another host has made since is not seen, so nothing "
            "was concluded or removed; wait a minute, and see the mount options in docs/backends.md",
            prefix);
    return result < 0 ? vv_error_sys(error, result, "cannot look whether %.200s is listed as it is", prefix) : 0;
}

int vv_backend_probe(struct varve_backend *backend, struct varve_error *error) {
    char why[384] = "";
    int result = VV_BACKEND_HAS(backend, probe) ? backend->ops->probe(backend, why, sizeof(why)) : 0;
    if (result >= 0)
        return 0;
    if (result == VARVE_UNSUPPORTED)
        return vv_error(error, result, "the storage cannot hold a store: %s", why[0] ? why : varve_error_text(result));
    return vv_error(
        error, result,
        "the storage is not complete: %s; what lies there would look as if it did not exist, so nothing was "
        "done: bring it back, then try again",
        why[0] ? why : varve_error_text(result));
}

int vv_backend_put(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct varve_upload *upload = NULL;
    int result = vv_backend_create(backend, key, size, &upload);
    if (result < 0)
        return result;
    result = vv_backend_upload_write(upload, data, size);
    if (result < 0) {
        vv_backend_upload_abort(upload);
        return result;
    }
    return vv_backend_upload_commit(upload);
}

/* One get of one byte more than the size: a whole answer comes from one state of the object, and an object that has
 * grown meanwhile shows by the extra byte: 1 then. */
static int get_whole(struct varve_backend *backend, const char *key, uint64_t size, struct vv_buf *buf) {
    size_t before = buf->size;
    uint8_t *into = vv_buf_extend(buf, (size_t)size + 1);
    if (!into)
        return -ENOMEM;
    int64_t got = vv_backend_get(backend, key, 0, into, (size_t)size + 1);
    buf->size = before + (got > 0 && (uint64_t)got <= size ? (size_t)got : 0);
    if (got < 0)
        return (int)got;
    return (uint64_t)got > size;
}

int vv_backend_get_all(struct varve_backend *backend, const char *key, uint64_t max, struct vv_buf *buf) {
    uint64_t size = 0;
    if (max > SIZE_MAX / 2 - 1)
        max = SIZE_MAX / 2 - 1;
    int result = vv_backend_stat(backend, key, &size);
    if (result < 0)
        return result;
    if (size > max)
        return -EFBIG;
    while ((result = get_whole(backend, key, size, buf)) > 0) {
        if (size == max)
            return -EFBIG;
        size = size > (max - 4096) / 2 || max < 4096 ? max : 2 * size + 4096;
    }
    return result;
}
