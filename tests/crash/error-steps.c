/* The storage fails once, or from some moment on, at every operation; and every named fault point fails in every step.
 * The program goes on: what failed says why, what comes later holds everything, and nothing that was promised is lost.
 */
#include <stdio.h>
#include <string.h>

#include "steps.h"

static const char *const policies[] = {"fail", "warn", "retry:2"};

static const struct {
    const char *kind;
    const char *what;
} faults[] = {
    {"fail", "EIO"},          {"fail", "ENOSPC"},      {"fail", "EDQUOT"}, {"fail-after", "EIO"},
    {"fail-after", "ENOSPC"}, {"fail-from", "ENOSPC"}, {"short", ""},
};

static void add_point(struct points *points, const char *kind, const char *what, int handle, uint64_t k, int policy) {
    struct point point = {.handle = handle, .k = k, .threads = k % 5 == 0 ? 2 : 0};
    snprintf(point.kind, sizeof point.kind, "%s", kind);
    snprintf(point.what, sizeof point.what, "%s", what);
    snprintf(point.on_error, sizeof point.on_error, "%s", policies[policy]);
    points_add(points, &point);
}

static void add_operations(struct campaign *campaign, struct points *points, int handle) {
    uint64_t count = count_operations(campaign, handle);
    int is_session = handle == 0 || handle == 2;
    for (uint64_t k = 1; k <= count; k++)
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
            for (int policy = 0; policy < (is_session ? 3 : 1); policy++)
                add_point(points, faults[i].kind, faults[i].what, handle, k, policy);
}

/* Every name in every step; most are not met in most steps, and cost little. */
static void add_named(struct campaign *campaign, struct points *points) {
    struct points named = {0};
    uint64_t allocations, steps;
    count_plain(campaign, &allocations, &steps);
    add_named_points(campaign, &named, 1);
    for (size_t i = 0; i < named.count; i++)
        for (uint64_t step = 1; step <= steps; step++)
            add_point(points, "point-error", named.list[i].what, -1, step, (int)(step % 3));
    points_clear(&named);
}

int main(int argc, char **argv) {
    struct campaign campaign;
    struct points points = {0};
    campaign_begin(&campaign, "error-steps", argc, argv);
    if (!campaign.replay) {
        for (int handle = 0; handle < SCENARIO_HANDLES; handle++)
            add_operations(&campaign, &points, handle);
        add_named(&campaign, &points);
    }
    points_run(&campaign, &points, 1);
    points_clear(&points);
    return campaign_end(&campaign);
}
