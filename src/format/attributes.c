#include "format/attributes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define SECOND INT64_C(1000000000)
#define SECONDS_MOST 1e9

void vv_attribute_put(struct vv_buf *buf, const char *name, const char *value) {
    vv_buf_append(buf, name, strlen(name) + 1);
    vv_buf_append(buf, value, strlen(value) + 1);
}

static const char *take_text(struct vv_attribute_reader *reader) {
    const char *text = reader->at, *end = memchr(text, '\0', reader->left);
    if (!end)
        return NULL;
    reader->left -= (size_t)(end - text) + 1;
    reader->at = end + 1;
    return text;
}

int vv_attribute_next(struct vv_attribute_reader *reader, struct vv_attribute *out) {
    if (reader->left == 0)
        return 0;
    out->name = take_text(reader);
    out->value = out->name && reader->left > 0 ? take_text(reader) : NULL;
    return out->value && out->name[0] != '\0' ? 1 : -EBADMSG;
}

void vv_attribute_of_seconds(double seconds, char text[VV_SECONDS_TEXT]) {
    int64_t ns = seconds > 0 && seconds < SECONDS_MOST ? (int64_t)(seconds * 1e9 + 0.5) : 0;
    snprintf(text, VV_SECONDS_TEXT, "%" PRId64 ".%09" PRId64, ns / SECOND, ns % SECOND); /* no comma, ever */
}

double vv_attribute_seconds(const char *text) {
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits);
    uint64_t ns = 0;
    if (whole == 0 || whole > 9 || text[whole] != '.' || strspn(text + whole + 1, digits) != 9 || text[whole + 10])
        return -1;
    for (const char *at = text; *at; at++)
        ns = *at == '.' ? ns : 10 * ns + (uint64_t)(*at - '0');
    return (double)ns * 1e-9;
}
