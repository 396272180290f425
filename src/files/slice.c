#include "files/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "files/error.h"

static int refuse(struct varve_error *error, const char *item, size_t length, unsigned dim, uint64_t size) {
    return files_error(error, -EINVAL,
                       "\"%.*s\" is no part of dimension %u, which has %" PRIu64
                       " elements: give one index, or FIRST:END, of which both may be left out",
                       (int)length, item, dim, size);
}

/* Digits up to end; what is left out is `otherwise`. 1 if it is a number, or nothing. */
static int take_index(const char *from, const char *end, uint64_t otherwise, uint64_t *out) {
    char *stop;
    *out = otherwise;
    if (from == end)
        return 1;
    if (*from < '0' || *from > '9')
        return 0;
    errno = 0;
    *out = strtoull(from, &stop, 10);
    return errno == 0 && stop == end;
}

/* One item: is it a single index? -1 if it makes no sense. */
static int take_item(const char *item, size_t length, uint64_t size, uint64_t *first, uint64_t *count) {
    const char *end = item + length, *colon = memchr(item, ':', length);
    uint64_t last;
    if (!colon) {
        *count = 1;
        return length > 0 && take_index(item, end, 0, first) && *first < size ? 1 : -1;
    }
    if (!take_index(item, colon, 0, first) || !take_index(colon + 1, end, size, &last) || last > size || *first > last)
        return -1;
    *count = last - *first;
    return 0;
}

int files_slice_parse(const char *text, const struct varve_array *whole, struct varve_slice *out,
                      struct varve_array *shape, struct varve_error *error) {
    const char *at = text;
    *shape = *whole;
    shape->dims = 0;
    for (unsigned i = 0; i < whole->dims; i++) {
        uint64_t size = whole->dim[i].global;
        const char *item = at ? at : ":";
        size_t length = strcspn(item, ",");
        int is_index = take_item(item, length, size, &out->first[i], &out->count[i]);
        if (is_index < 0)
            return refuse(error, item, length, i, size);
        if (!is_index)
            shape->dim[shape->dims++] = (struct varve_dim){.local = out->count[i], .global = out->count[i]};
        at = at && item[length] ? item + length + 1 : NULL;
        if (text && !at && i + 1 < whole->dims)
            return files_error(error, -EINVAL, "\"%s\" speaks of %u dimensions, but there are %u", text, i + 1,
                               whole->dims);
    }
    if (at)
        return files_error(error, -EINVAL, "\"%s\" speaks of more than the %u dimensions there are", text, whole->dims);
    return 0;
}
