/* What of a checkpoint cannot be read: a damaged block may hold bytes of many regions of many ranks, and all are named,
 * as far as a message has room. */
#include "base/error.h"
#include "check/verify_private.h"

#include <stdio.h>
#include <string.h>

void vv_unreadable_add(struct vv_unreadable *lost, const char *region, uint32_t rank, const struct varve_error *why) {
    char name[96];
    if (region)
        snprintf(name, sizeof name, "\"%.64s%s\" of rank %u", region, strlen(region) > 64 ? "..." : "", rank);
    else
        snprintf(name, sizeof name, "all of rank %u", rank);
    if (lost->count == 0)
        lost->first = *why;
    size_t used = strlen(lost->names), more = strlen(name) + 2;
    lost->count++;
    if (lost->named + 1 == lost->count && used + more < sizeof lost->names) {
        snprintf(lost->names + used, sizeof lost->names - used, "%s%s", used ? ", " : "", name);
        lost->named++;
    }
}

int vv_unreadable_error(const struct vv_unreadable *lost, struct varve_error *error) {
    char others[48] = "";
    if (lost->named < lost->count)
        snprintf(others, sizeof others, " and %llu others", (unsigned long long)(lost->count - lost->named));
    return vv_error(error, lost->first.code, "%.200s%s: %.200s", lost->names, others, lost->first.text);
}
