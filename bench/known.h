/* A record of hashes that only grows, and what goes with each. */
#ifndef KNOWN_H
#define KNOWN_H

#include <stddef.h>
#include <stdint.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

struct known_entry {
    XXH128_hash_t hash;
    uint64_t value; /* plus 1; 0: empty */
};

struct known {
    struct known_entry *slots;
    size_t count, capacity; /* room: a power of two, or 0 */
};

/* The value of a hash, which gets this one if it has none yet. */
uint64_t known_put(struct known *known, XXH128_hash_t hash, uint64_t value);
int known_has(const struct known *known, XXH128_hash_t hash);
void known_clear(struct known *known);

#endif
