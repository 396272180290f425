/* Addresses: mem://NAME, file:///PATH, s3://BUCKET/PREFIX, or a plain path; then parameters after '?'.
 *
 * With a scheme, %XX stands for a byte; a plain path is taken as it is, up to the '?'. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend_parts.h"
#include "base/error.h"

static int hex_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Copy size characters of text into out->path, decoding %XX if asked to. */
static int take_path(const char *text, size_t size, int decode, struct vv_uri *out, struct varve_error *error) {
    size_t length = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (decode && c == '%') {
            int high = i + 2 < size ? hex_value(text[i + 1]) : -1;
            int low = i + 2 < size ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return vv_error(error, VARVE_SETTING,
                                "in the store's address, '%%' must be followed by two hexadecimal digits");
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0')
            return vv_error(error, VARVE_SETTING, "the store's address contains %%00");
        if (length == VV_BACKEND_PATH_MAX)
            return vv_error(error, VARVE_SETTING, "the store's address is longer than %d characters",
                            VV_BACKEND_PATH_MAX);
        out->path[length++] = c;
    }
    out->path[length] = '\0';
    return 0;
}

/* A number and one of the units; 0 or -EINVAL. Units are given as "name", factor pairs ended by NULL. */
struct unit {
    const char *name;
    double factor;
};

static int parse_amount(const char *text, const struct unit *units, uint64_t *out) {
    size_t digits = strspn(text, "0123456789.");
    char *end = NULL;
    if (digits == 0 || digits > 18 || *text == '.')
        return -EINVAL;
    double value = strtod(text, &end);
    if (end != text + digits)
        return -EINVAL;
    for (; units->name; units++) {
        if (strcmp(units->name, text + digits) != 0)
            continue;
        value *= units->factor;
        if (!(value >= 1) || value > 1e18)
            return -EINVAL;
        *out = (uint64_t)value;
        return 0;
    }
    return -EINVAL;
}

static int parse_count(const char *text, unsigned max, unsigned *out) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 6 || text[digits])
        return -EINVAL;
    unsigned long value = strtoul(text, NULL, 10);
    if (value > max)
        return -EINVAL;
    *out = (unsigned)value;
    return 0;
}

static int set_limit(struct vv_uri *uri, const char *value) {
    static const struct unit rates[] = {{"", 1},     {"B", 1},    {"KB", 1e3}, {"kB", 1e3},
                                        {"MB", 1e6}, {"GB", 1e9}, {NULL, 0}};
    return parse_amount(value, rates, &uri->limit);
}

static int set_limit_file(struct vv_uri *uri, const char *value) {
    size_t size = strlen(value);
    if (*value != '/' || size >= sizeof(uri->limit_file))
        return -EINVAL;
    memcpy(uri->limit_file, value, size + 1);
    return 0;
}

static int set_latency(struct vv_uri *uri, const char *value) {
    static const struct unit times[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
    int result = parse_amount(value, times, &uri->latency_ns);
    return result == 0 && uri->latency_ns > 60000000000ull ? -EINVAL : result;
}

static int set_retry(struct vv_uri *uri, const char *value) {
    return parse_count(value, 1000, &uri->retry);
}

static int set_count(struct vv_uri *uri, const char *value) {
    unsigned count = 0;
    int result = parse_count(value, 1, &count);
    uri->count = (int)count;
    return result;
}

static int set_fault(struct vv_uri *uri, const char *value) {
    if (strlen(value) >= sizeof(uri->fault) || vv_fault_spec_check(value) < 0)
        return -EINVAL;
    strcpy(uri->fault, value);
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct vv_uri *uri, const char *value);
    const char *example;
} parameters[] = {
    {"limit", set_limit, "55MB (bytes per second)"},
    {"limit_file", set_limit_file, "/dev/shm/limit (an absolute path)"},
    {"latency", set_latency, "2ms"},
    {"retry", set_retry, "5"},
    {"fault", set_fault, "fail:3:EIO"},
    {"count", set_count, "1"},
};

/* A library that is loaded knows its own parameters, and refuses the others. */
static int keep_option(struct vv_uri *uri, const char *name, const char *value, struct varve_error *error) {
    size_t count = 0;
    while (uri->options[count].name)
        count++;
    if (count == VV_URI_OPTIONS)
        return vv_error(error, VARVE_SETTING, "the store's address has more than %d parameters", VV_URI_OPTIONS);
    uri->options[count] = (struct varve_backend_option){name, value};
    return 0;
}

static int set_parameter(struct vv_uri *uri, const char *name, const char *value, struct varve_error *error) {
    for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); i++) {
        if (strcmp(parameters[i].name, name) != 0)
            continue;
        if (value && parameters[i].set(uri, value) == 0)
            return 0;
        return vv_error(error, VARVE_SETTING, "parameter \"%s\" of the store's address must look like %s=%s", name,
                        name, parameters[i].example);
    }
    if (uri->kind == VV_URI_LOADED)
        return keep_option(uri, name, value, error);
    return vv_error(error, VARVE_SETTING,
                    "the store's address has an unknown parameter \"%s\"; known are limit, limit_file, latency, retry, "
                    "fault, count",
                    name);
}

static int check_limit(const struct vv_uri *uri, struct varve_error *error) {
    if (*uri->limit_file && uri->limit == 0)
        return vv_error(error, VARVE_SETTING, "parameter \"limit_file\" of the store's address needs limit=55MB, too");
    return 0;
}

static int parse_query(const char *query, struct vv_uri *uri, struct varve_error *error) {
    char *rest = uri->query;
    int result = 0;
    if (strlen(query) >= sizeof(uri->query))
        return vv_error(error, VARVE_SETTING, "the parameters of the store's address are too long");
    strcpy(uri->query, query);
    while (result == 0 && rest && *rest) {
        char *name = strsep(&rest, "&"), *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        result = set_parameter(uri, name, value, error);
    }
    return result < 0 ? result : check_limit(uri, error);
}

static int check_mem(const struct vv_uri *uri, struct varve_error *error) {
    if (*uri->path && (vv_backend_key_check(uri->path) < 0 || strchr(uri->path, '/')))
        return vv_error(error, VARVE_SETTING, "the name of a memory store has only letters, digits and . _ - %% ~");
    return 0;
}

static int parse_file_rest(const char *rest, size_t size, struct vv_uri *uri, struct varve_error *error) {
    if (size >= 10 && strncmp(rest, "localhost/", 10) == 0) {
        rest += 9;
        size -= 9;
    }
    if (size == 0 || *rest != '/')
        return vv_error(error, VARVE_SETTING, "a file:// address needs an absolute path: file:///folder");
    return take_path(rest, size, 1, uri, error);
}

static int parse_loaded(const char *text, size_t scheme, size_t size, struct vv_uri *uri, struct varve_error *error) {
    static const char *const known[] = {"s3", "rados"};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (strlen(known[i]) != scheme || strncmp(text, known[i], scheme) != 0)
            continue;
        uri->kind = VV_URI_LOADED;
        snprintf(uri->scheme, sizeof(uri->scheme), "%s", known[i]);
        return take_path(text + scheme + 3, size - scheme - 3, 1, uri, error);
    }
    return vv_error(error, VARVE_UNSUPPORTED,
                    "there is no backend for %.*s:// addresses; there are file, mem, s3 and rados",
                    (int)(scheme > 32 ? 32 : scheme), text);
}

int vv_uri_parse(const char *text, struct vv_uri *out, struct varve_error *error) {
    *out = (struct vv_uri){0};
    if (!text || !*text)
        return vv_error(error, VARVE_SETTING, "the store's address is empty");
    const char *query = strchrnul(text, '?');
    size_t size = (size_t)(query - text);
    const char *scheme = memmem(text, size, "://", 3);
    int result;
    if (!scheme) {
        out->kind = VV_URI_FILE;
        if (size == 0)
            return vv_error(error, VARVE_SETTING, "the store's address has no path");
        if (strncmp(text, "file:", 5) == 0 || strncmp(text, "mem:", 4) == 0)
            return vv_error(error, VARVE_SETTING,
                            "the store's address needs \"//\" after the colon: file:///folder, mem://name");
        result = take_path(text, size, 0, out, error);
    } else if (scheme - text == 4 && strncmp(text, "file", 4) == 0) {
        out->kind = VV_URI_FILE;
        result = parse_file_rest(text + 7, size - 7, out, error);
    } else if (scheme - text == 3 && strncmp(text, "mem", 3) == 0) {
        out->kind = VV_URI_MEM;
        result = take_path(text + 6, size - 6, 1, out, error);
        if (result == 0)
            result = check_mem(out, error);
    } else if (memchr(text, '/', (size_t)(scheme - text))) {
        out->kind = VV_URI_FILE;
        result = take_path(text, size, 0, out, error);
    } else {
        result = parse_loaded(text, (size_t)(scheme - text), size, out, error);
    }
    return result < 0 || !*query ? result : parse_query(query + 1, out, error);
}
