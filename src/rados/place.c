/* rados://pool/namespace?conf=...: what the address says. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rados_private.h"

#define TIMEOUT_S 30

int vv_rados_refuse(struct varve_error *error, int code, const char *format, ...) {
    va_list args;
    if (!error)
        return code;
    memset(error, 0, sizeof *error);
    error->code = code;
    error->rank = -1;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

static int take_text(const char *value, char *out, size_t room) {
    size_t size = strlen(value);
    if (size == 0 || size >= room)
        return -EINVAL;
    memcpy(out, value, size + 1);
    return 0;
}

static int take_seconds(const char *value, unsigned *out) {
    size_t digits = strspn(value, "0123456789");
    unsigned long number = digits && digits < 5 ? strtoul(value, NULL, 10) : 0;
    if (number < 3 || number > 3600 || /* see set_timeouts */ strcmp(value + digits, "s") != 0)
        return -EINVAL;
    *out = (unsigned)number;
    return 0;
}

static int set_option(struct vv_rados_place *out, const char *name, const char *value, struct varve_error *error) {
    static const struct {
        const char *name, *example;
    } known[] = {{"conf", "/etc/ceph/ceph.conf"}, {"user", "varve"}, {"timeout", "30s"}};
    int rc = -EINVAL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0)
            continue;
        if (value)
            rc = i == 0   ? take_text(value, out->conf, sizeof out->conf)
                 : i == 1 ? take_text(value, out->user, sizeof out->user)
                          : take_seconds(value, &out->timeout_s);
        return rc == 0 ? 0
                       : vv_rados_refuse(error, VARVE_SETTING,
                                         "parameter \"%s\" of a rados:// address must look like %s=%s", name, name,
                                         known[i].example);
    }
    return vv_rados_refuse(error, VARVE_SETTING,
                           "a rados:// address has an unknown parameter \"%.60s\"; known are conf, user, timeout, and "
                           "those of wrappers",
                           name);
}

int vv_rados_place_read(const char *place, const struct varve_backend_option *options, struct vv_rados_place *out,
                        struct varve_error *error) {
    size_t size = strcspn(place, "/");
    const char *rest = place[size] ? place + size + 1 : "";
    *out = (struct vv_rados_place){.timeout_s = TIMEOUT_S};
    if (size == 0 || size >= sizeof out->pool || strlen(rest) >= sizeof out->namespace_)
        return vv_rados_refuse(error, VARVE_SETTING,
                               "a rados:// address is rados://pool/namespace; a pool's name has 1 to 127 characters");
    memcpy(out->pool, place, size);
    out->pool[size] = '\0';
    snprintf(out->namespace_, sizeof out->namespace_, "%s", rest);
    size = strlen(out->namespace_);
    while (size > 0 && out->namespace_[size - 1] == '/') /* as with a folder */
        out->namespace_[--size] = '\0';
    int rc = 0;
    for (; rc == 0 && options->name; options++)
        rc = set_option(out, options->name, options->value, error);
    return rc;
}
