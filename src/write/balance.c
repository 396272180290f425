/* Who has more than the mean gives what is above it to those with less, in order: the first who has too much fills up
 * the first who has too little, and so on. So everybody gives or takes, never both, and has few partners. */
#include "write/team.h"

#define WORTH 32 /* a surplus below 1/32 of the mean stays where it is */

/* Two rows of intervals on one line, of what is given and of what is taken: partners overlap. */
static uint64_t overlap(uint64_t from, uint64_t length, uint64_t other_from, uint64_t other_length) {
    uint64_t begin = from > other_from ? from : other_from;
    uint64_t end = from + length < other_from + other_length ? from + length : other_from + other_length;
    return end > begin ? end - begin : 0;
}

void vv_balance(const uint64_t *loads, uint32_t count, uint32_t own, uint64_t *gives, uint64_t *takes) {
    uint64_t sum = 0, given_before = 0, taken_before = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += loads[i];
    uint64_t mean = count ? sum / count : 0, most = mean + mean / WORTH;
    for (uint32_t i = 0; i < own; i++) {
        given_before += loads[i] > most ? loads[i] - mean : 0;
        taken_before += loads[i] < mean ? mean - loads[i] : 0;
    }
    uint64_t to_give = loads[own] > most ? loads[own] - mean : 0, to_take = loads[own] < mean ? mean - loads[own] : 0;
    uint64_t given = 0, taken = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t surplus = loads[i] > most ? loads[i] - mean : 0, deficit = loads[i] < mean ? mean - loads[i] : 0;
        gives[i] = overlap(given_before, to_give, taken, deficit);
        takes[i] = overlap(taken_before, to_take, given, surplus);
        given += surplus;
        taken += deficit;
    }
}

uint32_t vv_balance_target(const struct vv_share *shares, uint32_t count, uint64_t seen, uint64_t expected) {
    double done = seen < expected ? (double)seen / (double)expected : 1, most = VV_BALANCE_STRETCH / 2.0;
    uint32_t target = count;
    for (uint32_t i = 0; i < count; i++) {
        double missing = (double)shares[i].share * done + VV_BALANCE_STRETCH - (double)shares[i].sent;
        if (shares[i].sent + VV_BALANCE_STRETCH <= shares[i].share && missing > most) {
            most = missing;
            target = i;
        }
    }
    return target;
}
