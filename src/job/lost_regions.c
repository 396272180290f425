#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job/job.h"

void vv_lost_add(struct vv_lost *lost, const char *region) {
    size_t used = strlen(lost->names), more = strlen(region);
    lost->count++;
    if (used + more + 3 < sizeof lost->names) /* a name that does not fit is counted only */
        snprintf(lost->names + used, sizeof lost->names - used, "%s%s", used ? ", " : "", region);
}

static size_t listed(const struct vv_lost *lost) {
    size_t count = lost->names[0] != 0;
    for (const char *at = lost->names; (at = strstr(at, ", ")); at += 2)
        count++;
    return count < lost->count ? count : lost->count;
}

int vv_lost_report(const struct vv_job *job, const struct vv_lost *lost, uint32_t owner, uint64_t version,
                   struct varve_error *error) {
    char what[320], more[32] = "";
    size_t hidden = lost->count - listed(lost);
    if (hidden)
        snprintf(more, sizeof more, " and %zu more", hidden);
    if (lost->count == 0)
        snprintf(what, sizeof what, "all regions");
    else
        snprintf(what, sizeof what, "%s %s%s", lost->count == 1 ? "region" : "regions", lost->names, more);
    int rc = vv_error(error, VARVE_CORRUPT,
                      "version %" PRIu64
                      ": %s of rank %u %s lost: the node that stored this is not part of the job any more, or"
                      " its disk was lost or is not mounted, and no other node has a copy",
                      version, what, owner, lost->count == 1 ? "is" : "are");
    vv_log(&job->log, VV_LOG_WARN, "%s", error->text);
    return rc;
}
