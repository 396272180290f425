/* The process is killed at every operation of the storage, before and after it, and at every occurrence of every named
 * fault point. Whatever varve_wait had promised must be there, byte for byte, and the store must be sound. */
#include "steps.h"

static void add_operations(struct campaign *campaign, struct points *points, int handle) {
    uint64_t count = count_operations(campaign, handle);
    for (uint64_t k = 1; k <= count; k++) {
        struct point before = {.kind = "kill", .handle = handle, .k = k};
        struct point after = {.kind = "kill-after", .handle = handle, .k = k};
        after.threads = k % 4 == 0 ? 2 : 0; /* then k is another operation each time */
        points_add(points, &before);
        points_add(points, &after);
    }
}

int main(int argc, char **argv) {
    struct campaign campaign;
    struct points points = {0};
    campaign_begin(&campaign, "crash-steps", argc, argv);
    if (!campaign.replay) {
        for (int handle = 0; handle < SCENARIO_HANDLES; handle++)
            add_operations(&campaign, &points, handle);
        add_named_points(&campaign, &points, 0);
    }
    points_run(&campaign, &points, 0);
    points_clear(&points);
    return campaign_end(&campaign);
}
