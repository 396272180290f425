/* Do two addresses name one place? A folder is what it is, however it is spelled, linked or mounted. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "storage/storage.h"

/* A folder; or one that is missing, as a name in the folder above it. */
struct place {
    struct stat st;
    const char *name; /* "": it is there */
};

static int look_at(char *path, struct place *out) {
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        path[--size] = '\0';
    out->name = "";
    if (stat(path, &out->st) == 0)
        return 1;
    char *slash = strrchr(path, '/');
    out->name = slash ? slash + 1 : path;
    if (slash)
        *slash = '\0';
    return stat(!slash ? "." : *path ? path : "/", &out->st) == 0;
}

static enum vv_sameness compare_folders(char *a, char *b) {
    struct place one, other;
    if (!look_at(a, &one) || !look_at(b, &other) || one.st.st_dev != other.st.st_dev ||
        one.st.st_ino != other.st.st_ino || strcmp(one.name, other.name) != 0)
        return VV_PLACES_DIFFER;
    return VV_PLACES_SAME;
}

static const char *option_of(const struct vv_uri *uri, const char *name) {
    for (const struct varve_backend_option *option = uri->options; option->name; option++)
        if (strcmp(option->name, name) == 0 && option->value)
            return option->value;
    return "";
}

static size_t trimmed(const char *path) {
    size_t size = strlen(path);
    while (size > 0 && path[size - 1] == '/')
        size--;
    return size;
}

static enum vv_sameness compare_names(const struct vv_uri *a, const struct vv_uri *b) {
    size_t size = trimmed(a->path);
    if (strcmp(a->scheme, b->scheme) != 0 || size == 0 || size != trimmed(b->path) ||
        strncmp(a->path, b->path, size) != 0)
        return VV_PLACES_DIFFER;
    int is_one_server = strcmp(option_of(a, "endpoint"), option_of(b, "endpoint")) == 0 &&
                        strcmp(option_of(a, "conf"), option_of(b, "conf")) == 0;
    return is_one_server ? VV_PLACES_SAME : VV_PLACES_ALIKE;
}

enum vv_sameness vv_address_compare(const char *a, const char *b) {
    enum vv_sameness same = VV_PLACES_DIFFER;
    struct vv_uri *one = vv_malloc(sizeof *one), *other = vv_malloc(sizeof *other);
    if (one && other && vv_uri_parse(a, one, NULL) == 0 && vv_uri_parse(b, other, NULL) == 0 &&
        one->kind == other->kind)
        same = one->kind == VV_URI_FILE ? compare_folders(one->path, other->path) : compare_names(one, other);
    vv_free(one);
    vv_free(other);
    return same;
}
