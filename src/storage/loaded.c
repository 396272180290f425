/* A backend that needs other libraries lies in one of its own, and so does the cipher; each is loaded when an address
 * asks for it: programs that keep their stores elsewhere do not carry what it needs. It is looked for beside the
 * library this code is in, then where the system looks. A library that was loaded stays: threads of its own libraries
 * may run. */
#include "storage/loaded_private.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_version.h>

#include "base/error.h"
#include "base/log.h"
#include "storage/keys_private.h"

static void pass_line(void *arg, int level, const char *line) {
    vv_log(arg, level, "%s", line);
}

/* The folder of this library, with / at its end; "" if that is not known. */
static void find_folder(char *out, size_t room) {
    Dl_info info;
    const char *slash =
        dladdr((const void *)find_folder, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    size_t size = slash ? (size_t)(slash + 1 - info.dli_fname) : 0;
    if (size >= room)
        size = 0;
    if (size)
        memcpy(out, info.dli_fname, size);
    out[size] = '\0';
}

static void *load(const char *name) {
    char path[VV_BACKEND_PATH_MAX];
    find_folder(path, sizeof(path) - strlen(name));
    int is_known = *path != '\0';
    strcat(path, name);
    int is_beside = is_known && access(path, F_OK) == 0; /* then why it does not load must be told */
    return dlopen(is_beside ? path : name, RTLD_NOW | RTLD_LOCAL);
}

static int find_open(const struct vv_uri *uri, varve_backend_open_fn *out, struct varve_error *error) {
    char name[64];
    snprintf(name, sizeof(name), "libvarve_%s.so.%d", uri->scheme, VARVE_VERSION_MAJOR);
    void *library = load(name);
    if (!library)
        return vv_error(error, VARVE_UNSUPPORTED,
                        "%s:// addresses need %s, which is not installed here or does not load: %.300s", uri->scheme,
                        name, dlerror());
    snprintf(name, sizeof(name), "varve_backend_open%d_%s", VARVE_BACKEND_REQUEST, uri->scheme);
    void *symbol = dlsym(library, name);
    if (!symbol)
        return vv_error(error, VARVE_UNSUPPORTED, "libvarve_%s.so has no function %s: it is of another version",
                        uri->scheme, name);
    memcpy(out, &symbol, sizeof(*out));
    return 0;
}

int vv_cipher_load(const struct varve_cipher_ops **out, struct varve_error *error) {
    char name[64];
    varve_cipher_get_fn get = NULL;
    snprintf(name, sizeof(name), "libvarve_cipher.so.%d", VARVE_VERSION_MAJOR);
    void *library = load(name);
    if (!library)
        return vv_error(error, VARVE_UNSUPPORTED,
                        "encrypted stores need %s, which is not installed here or does not load: %.300s", name,
                        dlerror());
    void *symbol = dlsym(library, "varve_cipher_get");
    memcpy(&get, &symbol, sizeof(get));
    const struct varve_cipher_ops *ops = get ? get() : NULL;
    if (!ops || ops->size < sizeof(*ops))
        return vv_error(error, VARVE_UNSUPPORTED, "%s is of another version", name);
    *out = ops;
    return 0;
}

int vv_loaded_open(const struct vv_uri *uri, const struct vv_backend_options *options, struct varve_backend **out,
                   struct varve_error *error) {
    struct varve_backend_request request = {.size = sizeof(request),
                                            .place = uri->path,
                                            .options = uri->options,
                                            .may_create = options->may_create,
                                            .is_reading = options->purpose == VV_FOR_READING,
                                            .log = pass_line,
                                            .log_arg = options->log};
    varve_backend_open_fn open_it = NULL;
    int result = find_open(uri, &open_it, error);
    return result < 0 ? result : open_it(&request, out, error);
}
