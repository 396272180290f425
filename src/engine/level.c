/* Writers with more than the mean give what is above it to those with less, in order: the first who has too much fills up the first who has too little,
 * and so on. So a writer gives or takes, never both, and has few partners. */
#include "engine/team.h"

#define WORTH 32 /* a surplus below 1/32 of the mean stays where it is */

void vv_level(const uint64_t *loads, uint32_t count, uint32_t own, uint64_t *out) {
    uint64_t sum = 0, given = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += loads[i];
    uint64_t mean = sum / count;
    for (uint32_t i = 0; i < count; i++)
        out[i] = 0;
    if (loads[own] <= mean + mean / WORTH)
        return;
    for (uint32_t i = 0; i < own; i++)
        if (loads[i] > mean + mean / WORTH)
            given += loads[i] - mean; /* by those before us */
    uint64_t from = given, to = given + loads[own] - mean, at = 0;
    for (uint32_t i = 0; i < count && at < to; i++) {
        uint64_t room = loads[i] < mean ? mean - loads[i] : 0;
        uint64_t begin = at > from ? at : from, end = at + room < to ? at + room : to;
        if (begin < end)
            out[i] = end - begin;
        at += room;
    }
}
