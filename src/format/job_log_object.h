/* The log of a session (docs/format.md 5): encode and parse, as object.h does with the other small objects. */
#ifndef VV_JOB_LOG_OBJECT_H
#define VV_JOB_LOG_OBJECT_H

#include "format/object.h"

/* What a session has to tell of its checkpoints: lines of JSON. */
#define VV_JOB_LOG_MAX (256u << 10) /* bytes of them */
void vv_job_log_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16], const char *text,
                       size_t size);
/* The text lies in data, and has no NUL at its end. */
int vv_job_log_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                     const char **text_out, size_t *size_out, struct varve_error *error);

#endif
