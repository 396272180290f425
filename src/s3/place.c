/* s3://bucket/prefix?endpoint=...: which server, how it is spoken to, and for how long. What the address leaves out
 * comes from the environment, under the names that other tools use. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3_private.h"

#define TIMEOUT_MS 30000
#define PATIENCE_MS 60000
#define PREFIX_MOST 512 /* the keys of a store have to fit behind it */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

static const char *from_environment(const char *first, const char *second) {
    const char *text = secure_getenv(first);
    if (!text || !*text)
        text = secure_getenv(second);
    return text && *text ? text : NULL;
}

static int read_bucket(const char *text, size_t size, struct vv_s3_place *out, struct varve_error *error) {
    if (size < 3 || size >= sizeof out->bucket || strspn(text, letters) < size || *text == '.' || *text == '-')
        return vv_s3_refuse(
            error, VARVE_SETTING,
            "an s3:// address is s3://bucket/prefix; a bucket's name has 3 to 63 letters, digits, . _ -");
    memcpy(out->bucket, text, size);
    out->bucket[size] = '\0';
    return 0;
}

static int read_prefix(const char *text, struct vv_s3_place *out, struct varve_error *error) {
    size_t used = 0;
    while (*text) {
        size_t size = strcspn(text, "/");
        int is_dots = size <= 2 && strspn(text, ".") >= size;
        if (size == 0 ? text[1] != '\0' : is_dots)
            return vv_s3_refuse(error, VARVE_SETTING,
                                "the prefix of an s3:// address has a part that is empty, . or ..");
        for (size_t i = 0; i < size; i++)
            if (text[i] <= ' ' || text[i] > '~')
                return vv_s3_refuse(error, VARVE_SETTING,
                                    "the prefix of an s3:// address has a character that is no plain ASCII");
        if (used + size + 1 > PREFIX_MOST)
            return vv_s3_refuse(error, VARVE_SETTING, "the prefix of an s3:// address is longer than %d characters",
                                PREFIX_MOST);
        memcpy(out->prefix + used, text, size);
        used += size;
        if (size)
            out->prefix[used++] = '/';
        text += size;
        text += *text == '/';
    }
    out->prefix[used] = '\0';
    return 0;
}

static int set_endpoint(struct vv_s3_place *out, const char *value) {
    size_t scheme = strncmp(value, "https://", 8) == 0 ? 8 : strncmp(value, "http://", 7) == 0 ? 7 : 0;
    const char *host = value + scheme, *port = scheme == 8 ? ":443" : ":80";
    size_t size = strcspn(host, "/");
    if (scheme == 0 || size == 0 || size > 200 || (host[size] && host[size + 1]))
        return -EINVAL;
    for (size_t i = 0; i < size; i++)
        if (!strchr(letters, host[i]) && !strchr(":[]", host[i]))
            return -EINVAL;
    snprintf(out->base, sizeof out->base, "%.*s", (int)scheme, value);
    if (size > strlen(port) && strncmp(host + size - strlen(port), port, strlen(port)) == 0)
        size -= strlen(port);
    snprintf(out->host, sizeof out->host, "%.*s", (int)size, host);
    return 0;
}

static int set_region(struct vv_s3_place *out, const char *value) {
    size_t size = strlen(value);
    if (size == 0 || size >= sizeof out->region || strspn(value, letters) < size)
        return -EINVAL;
    memcpy(out->region, value, size + 1);
    return 0;
}

static int set_style(struct vv_s3_place *out, const char *value) {
    out->is_virtual = strcmp(value, "virtual") == 0;
    return out->is_virtual || strcmp(value, "path") == 0 ? 0 : -EINVAL;
}

static int set_writers(struct vv_s3_place *out, const char *value) {
    out->is_alone = strcmp(value, "one") == 0;
    return out->is_alone || strcmp(value, "many") == 0 ? 0 : -EINVAL;
}

static int read_time(const char *value, unsigned *out) {
    size_t digits = strspn(value, "0123456789");
    if (digits == 0 || digits > 6)
        return -EINVAL;
    unsigned factor = strcmp(value + digits, "s") == 0 ? 1000 : strcmp(value + digits, "ms") == 0 ? 1 : 0;
    unsigned long number = strtoul(value, NULL, 10);
    if (number == 0 || factor == 0 || number > 3600000 / factor)
        return -EINVAL;
    *out = (unsigned)number * factor;
    return 0;
}

static int set_timeout(struct vv_s3_place *out, const char *value) {
    return read_time(value, &out->timeout_ms);
}

static int set_patience(struct vv_s3_place *out, const char *value) {
    return read_time(value, &out->patience_ms);
}

static const struct {
    const char *name;
    int (*set)(struct vv_s3_place *out, const char *value);
    const char *example;
} known[] = {
    {"endpoint", set_endpoint, "https://host:port"},
    {"region", set_region, "us-east-1"},
    {"style", set_style, "path, or virtual"},
    {"writers", set_writers, "many, or one"},
    {"timeout", set_timeout, "30s"},
    {"patience", set_patience, "60s"},
};

static int set_option(struct vv_s3_place *out, const char *name, const char *value, int *seen,
                      struct varve_error *error) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0)
            continue;
        *seen |= 1 << i;
        if (value && known[i].set(out, value) == 0)
            return 0;
        return vv_s3_refuse(error, VARVE_SETTING, "parameter \"%s\" of an s3:// address must look like %s=%s", name,
                            name, known[i].example);
    }
    return vv_s3_refuse(error, VARVE_SETTING,
                        "an s3:// address has an unknown parameter \"%.60s\"; known are endpoint, region, style, "
                        "writers, timeout, patience, and those of wrappers",
                        name);
}

/* What neither the address nor the environment says. A server of one's own mostly has no name per bucket. */
static int fill_in(struct vv_s3_place *out, int seen, struct varve_error *error) {
    const char *endpoint = from_environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    const char *region = from_environment("AWS_REGION", "AWS_DEFAULT_REGION");
    if (!(seen & 2) && set_region(out, region ? region : "us-east-1") < 0)
        return vv_s3_refuse(error, VARVE_SETTING, "AWS_REGION is no name of a region");
    if (!(seen & 1) && endpoint && set_endpoint(out, endpoint) < 0)
        return vv_s3_refuse(error, VARVE_SETTING, "AWS_ENDPOINT_URL must look like https://host:port");
    int is_own = *out->base != '\0';
    if (!is_own) {
        snprintf(out->base, sizeof out->base, "https://");
        snprintf(out->host, sizeof out->host, "s3.%s.amazonaws.com", out->region);
    }
    if (!(seen & 4)) /* a certificate for *.host has no place for a name with dots */
        out->is_virtual = !is_own && !strchr(out->bucket, '.');
    if (out->is_virtual) {
        char host[sizeof out->host];
        memcpy(host, out->host, sizeof host);
        snprintf(out->host, sizeof out->host, "%s.%.220s", out->bucket, host);
    }
    size_t used = strlen(out->base);
    snprintf(out->base + used, sizeof out->base - used, "%.280s", out->host);
    return 0;
}

int vv_s3_place_read(const char *place, const struct varve_backend_option *options, struct vv_s3_place *out,
                     struct varve_error *error) {
    size_t size = strcspn(place, "/");
    int seen = 0;
    *out = (struct vv_s3_place){.timeout_ms = TIMEOUT_MS, .patience_ms = PATIENCE_MS};
    int rc = read_bucket(place, size, out, error);
    if (rc == 0)
        rc = read_prefix(place[size] ? place + size + 1 : "", out, error);
    for (; rc == 0 && options->name; options++)
        rc = set_option(out, options->name, options->value, &seen, error);
    return rc < 0 ? rc : fill_in(out, seen, error);
}
