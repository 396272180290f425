/* Open addressing, at most half full. */
#include "known.h"

#include <stdlib.h>

#include "bench.h"

static struct known_entry *slot_of(const struct known *known, XXH128_hash_t hash) {
    size_t at = hash.low64 & (known->capacity - 1);
    while (known->slots[at].value && !XXH128_isEqual(known->slots[at].hash, hash))
        at = (at + 1) & (known->capacity - 1);
    return &known->slots[at];
}

static void grow(struct known *known) {
    struct known old = *known;
    known->capacity = old.capacity ? 2 * old.capacity : 1024;
    known->slots = calloc(known->capacity, sizeof *known->slots);
    bench_check(known->slots != NULL, "memory");
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i].value)
            *slot_of(known, old.slots[i].hash) = old.slots[i];
    free(old.slots);
}

uint64_t known_put(struct known *known, XXH128_hash_t hash, uint64_t value) {
    if (2 * known->count >= known->capacity)
        grow(known);
    struct known_entry *slot = slot_of(known, hash);
    if (slot->value == 0) {
        *slot = (struct known_entry){hash, value + 1};
        known->count++;
    }
    return slot->value - 1;
}

int known_has(const struct known *known, XXH128_hash_t hash) {
    return known->capacity && slot_of(known, hash)->value != 0;
}

void known_clear(struct known *known) {
    free(known->slots);
    *known = (struct known){0};
}
