#include "format/attributes.h"

#include <errno.h>

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
