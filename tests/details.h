/* All that is counted of the last checkpoint as one struct, for tests and benches, by public calls only: it works with
 * the shared library, too. */
#ifndef TESTS_DETAILS_H
#define TESTS_DETAILS_H

#include "base/details.h"

#include <varve/varve.h>

#include <stdio.h>
#include <string.h>

#define VV_TAKE_WIDE(member) out->member = (uint64_t)stat->value
#define VV_TAKE_SHORT(member) out->member = (uint32_t)stat->value
#define VV_TAKE_REAL(member) out->member = stat->value
#define VV_TAKE_TEXT(member) snprintf(out->member, sizeof out->member, "%s", stat->text)
#define VV_TAKE(kind, member, unit_)                                                                                   \
    if (strcmp(stat->name, #member) == 0)                                                                              \
        VV_TAKE_##kind(member);

static inline void vv_details_take(void *arg, const struct varve_stat *stat) {
    struct vv_details *out = (struct vv_details *)arg;
    VV_DETAILS_TABLE(VV_TAKE)
}

#undef VV_TAKE

static inline int vv_details_get(struct varve_session *session, struct vv_details *out) {
    struct varve_stats stats = {.size = sizeof stats};
    memset(out, 0, sizeof *out);
    int rc = varve_stats_get(session, &stats);
    if (rc != 0)
        return rc;
    out->version = stats.version;
    out->result = stats.result;
    return varve_stats_each(session, vv_details_take, out);
}

#endif
