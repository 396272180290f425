/* Small values that a program attaches to its checkpoints. They are a region of rank 0 with a name of its own, so they
 * are stored, copied, checked and kept as every region is. A restart leaves them alone: see restart/. */
#include <errno.h>
#include <string.h>

#include "format/attributes.h"
#include "session/session_private.h"

static int tell_place(void *arg, struct varve_memory *out) {
    struct vv_buf *texts = arg;
    out->ptr = texts->data;
    out->bytes = texts->size;
    return 0;
}

/* The others, and then this one. */
static int set(struct vv_buf *texts, const char *name, const char *value, struct varve_error *error) {
    struct vv_attribute_reader reader = {(const char *)texts->data, texts->size};
    struct vv_attribute attribute;
    struct vv_buf made;
    vv_buf_init(&made);
    while (vv_attribute_next(&reader, &attribute) > 0)
        if (strcmp(attribute.name, name) != 0)
            vv_attribute_put(&made, attribute.name, attribute.value);
    if (value)
        vv_attribute_put(&made, name, value);
    if (!made.failed && made.size <= VV_ATTRIBUTES_MOST) {
        vv_buf_clear(texts);
        *texts = made;
        return 0;
    }
    int rc = made.failed ? vv_error(error, -ENOMEM, "no memory for attribute %s", name)
                         : vv_error(error, -E2BIG,
                                    "attribute %s: all of them together have at most %d bytes; nothing was changed",
                                    name, VV_ATTRIBUTES_MOST);
    vv_buf_clear(&made);
    return rc;
}

int vv_session_attribute(struct vv_session *session, const char *name, const char *value, struct varve_error *error) {
    struct vv_buf *texts = &session->about.attributes;
    if (!name || name[0] == '\0' || strlen(name) > VV_ATTRIBUTE_NAME_MAX)
        return vv_error(error, -EINVAL, "attribute %.40s: its name must have 1 to %d bytes", name ? name : "NULL",
                        VV_ATTRIBUTE_NAME_MAX);
    if (!vv_comm_is_root(session->job.comm))
        return 0;
    int rc = set(texts, name, value, error);
    if (rc)
        return rc;
    if (texts->size == 0) {
        (void)vv_session_unprotect(session, VV_ATTRIBUTES); /* perhaps there were none */
        return 0;
    }
    if (vv_regions_find(&session->memory.regions, VV_ATTRIBUTES))
        return 0;
    rc = vv_session_protect_moving(session, VV_ATTRIBUTES, tell_place, texts);
    if (rc == 0)
        rc = vv_session_distribute(session, VV_ATTRIBUTES, VARVE_DROPPED);
    return rc ? vv_error(error, rc, "no memory for attribute %s", name) : 0;
}
