/* From an address to a backend with its wrappers, innermost first: limit, fault, retry, count, encryption. So retry
 * sees what fault does, fault meets a storage as slow as it was asked to be, and count sees what the library asked for.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "storage/file_private.h"
#include "storage/keys_private.h"
#include "storage/loaded_private.h"

/* Replaces *backend by the wrapper, or leaves it alone. */
static int wrap_all(const struct vv_uri *uri, const struct vv_log *log, struct varve_backend **backend,
                    struct varve_error *error) {
    const char *file = *uri->limit_file ? uri->limit_file : NULL;
    int result = 0;
    if (uri->limit || uri->latency_ns)
        result = vv_limit_backend_wrap(*backend, uri->limit, uri->latency_ns, file, backend);
    if (result < 0 && file)
        return vv_error_sys(error, result, "cannot share the limit of the store %s through %s", uri->path, file);
    if (result == 0 && uri->fault[0])
        result = vv_fault_backend_wrap(*backend, uri->fault, backend);
    if (result == 0 && uri->retry)
        result = vv_retry_backend_wrap(*backend, uri->retry, log, backend);
    if (result == 0 && uri->count)
        result = vv_count_backend_wrap(*backend, backend);
    return result < 0 ? vv_error_sys(error, result, "cannot open the store %s", uri->path) : 0;
}

static int open_parsed(const struct vv_uri *uri, const struct vv_backend_options *options, struct varve_backend **out,
                       struct varve_error *error) {
    struct varve_backend *backend = NULL;
    int result = uri->kind == VV_URI_MEM      ? vv_mem_open(uri->path, options->may_create, &backend, error)
                 : uri->kind == VV_URI_LOADED ? vv_loaded_open(uri, options, &backend, error)
                                              : vv_file_open(uri->path, options, &backend, error);
    if (result < 0)
        return result;
    result = wrap_all(uri, options->log, &backend, error);
    if (result == 0)
        result = vv_keys_open(&backend, options, uri->path, error);
    if (result < 0) {
        vv_backend_close(backend);
        return result;
    }
    *out = backend;
    return 0;
}

int vv_backend_open(const char *uri, const struct vv_backend_options *options, struct varve_backend **out,
                    struct varve_error *error) {
    static const struct vv_backend_options defaults;
    struct vv_uri *parsed = vv_malloc(sizeof(*parsed));
    if (!parsed)
        return vv_error_sys(error, -ENOMEM, "cannot open the store");
    int result = vv_uri_parse(uri, parsed, error);
    if (result == 0)
        result = open_parsed(parsed, options ? options : &defaults, out, error);
    vv_free(parsed);
    return result;
}

char *vv_address_absolute(const char *address, size_t size) {
    const char *end = memchr(address, '?', size);
    int is_absolute = size == 0 || *address == '/' || memmem(address, end ? (size_t)(end - address) : size, "://", 3);
    size_t room = is_absolute ? 0 : VV_BACKEND_PATH_MAX + 1;
    char *out = vv_calloc(1, room + size + 2);
    if (!out || is_absolute)
        return out ? memcpy(out, address, size) : NULL;
    if (!getcwd(out, room)) {
        vv_free(out);
        return NULL;
    }
    strcat(out, "/");
    return strncat(out, address, size);
}
