/* A table from names of content or places, which are hashes of 64 bits, to a value each. It takes 16 bytes a name and
 * has a bound: when that is reached, only every second name counts, then every fourth. As names are hashes that is a
 * fair sample of all that were ever seen, and each that counts stands for `names_weight` of them. */
#ifndef ANALYZE_NAMES_H
#define ANALYZE_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct names {
    struct name *list;
    size_t capacity; /* a power of two, or 0 */
    size_t count, most;
    unsigned shift; /* names with as many zeros at the top count */
};

static inline int names_counts(const struct names *names, uint64_t name) {
    return names->shift == 0 || name >> (64 - names->shift) == 0;
}
static inline double names_weight(const struct names *names) {
    return (double)(UINT64_C(1) << names->shift);
}
/* Set the value of a name that counts. 1: it was there, with *old; 0: it is new; or -ENOMEM. */
int names_put(struct names *names, uint64_t name, uint64_t value, uint64_t *old);
void names_clear(struct names *names);

#endif
