#include "base/tier_address.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* -1: it is no number, or not between these. */
static int read_number(const char *text, size_t size, int least, int most) {
    long number = 0;
    if (size == 0 || size > 7 || strspn(text, "0123456789") < size)
        return -1;
    for (size_t i = 0; i < size; i++)
        number = number * 10 + (text[i] - '0');
    return number < least || number > most ? -1 : (int)number;
}

static int set_keep(struct vv_tier_address *out, const char *value, size_t size) {
    int is_all = size == 3 && strncmp(value, "all", 3) == 0;
    out->keep = is_all ? 0 : read_number(value, size, 0, 1000000);
    if (out->keep == 1) /* as with tiers_keep */
        out->keep = 2;
    return out->keep;
}

static int set_waiting(struct vv_tier_address *out, const char *value, size_t size) {
    return out->waiting = read_number(value, size, 1, 32);
}

static const struct {
    const char *name;
    int (*set)(struct vv_tier_address *out, const char *value, size_t size);
    const char *example;
} known[] = {{"keep=", set_keep, "keep=3, or keep=all"}, {"waiting=", set_waiting, "waiting=2, at most 32"}};

/* A parameter of the storage is left where it is. */
static int take_parameter(struct vv_tier_address *out, const char *text, size_t size, int *has_query,
                          struct varve_error *error) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t length = strlen(known[i].name);
        if (size < length || strncmp(text, known[i].name, length) != 0)
            continue;
        if (known[i].set(out, text + length, size - length) >= 0)
            return 0;
        return vv_error(error, VARVE_SETTING, "\"%.*s\" of an address in tiers must look like %s",
                        (int)(size < 60 ? size : 60), text, known[i].example);
    }
    strcat(out->text, *has_query ? "&" : "?");
    strncat(out->text, text, size);
    *has_query = 1;
    return 0;
}

int vv_tier_address_next(const char **at, struct vv_tier_address *out, struct varve_error *error) {
    const char *text = *at, *end = strchrnul(text, ';');
    size_t size = strcspn(text, ";?");
    int rc = 0, has_query = 0;
    *out = (struct vv_tier_address){.keep = -1};
    if (!*text)
        return 0;
    *at = end + (*end == ';');
    if ((size_t)(end - text) >= sizeof out->text)
        return vv_error(error, VARVE_SETTING, "an address in tiers is longer than %zu bytes", sizeof out->text - 1);
    memcpy(out->text, text, size);
    for (text += size; rc == 0 && text < end; text += size) {
        text++; /* ? or & */
        size = strcspn(text, ";&");
        rc = take_parameter(out, text, size, &has_query, error);
    }
    return rc < 0 ? rc : 1;
}
