/* Every allocation of the scenario fails once. No crash, a text that says why, and nothing lost. */
#include "steps.h"

int main(int argc, char **argv) {
    struct campaign campaign;
    struct points points = {0};
    uint64_t allocations, steps;
    campaign_begin(&campaign, "alloc-steps", argc, argv);
    count_plain(&campaign, &allocations, &steps);
    for (uint64_t k = 1; k <= allocations; k++) {
        struct point point = {.kind = "alloc", .handle = -1, .k = k, .threads = k % 8 == 0 ? 2 : 0};
        points_add(&points, &point);
    }
    points_run(&campaign, &points, 1);
    points_clear(&points);
    return campaign_end(&campaign);
}
