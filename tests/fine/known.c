#include "known.h"

#include <stdlib.h>
#include <string.h>

#define LISTS 65536u

struct entry {
    struct entry *next;
    uint64_t place;
    size_t size;
    uint8_t data[];
};

struct known {
    struct entry *lists[LISTS];
};

struct known *known_create(void) {
    struct known *known = calloc(1, sizeof *known);
    if (!known)
        abort();
    return known;
}

void known_destroy(struct known *known) {
    for (uint32_t i = 0; i < LISTS; i++)
        for (struct entry *entry = known->lists[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry);
        }
    free(known);
}

/* Only to find the right list: what is equal is decided by the bytes. */
static uint32_t list_of(const uint8_t *data, size_t size) {
    uint64_t sum = size * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ data[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(sum >> 40) % LISTS;
}

uint64_t *known_find(const struct known *known, const uint8_t *data, size_t size) {
    for (struct entry *entry = known->lists[list_of(data, size)]; entry; entry = entry->next)
        if (entry->size == size && memcmp(entry->data, data, size) == 0)
            return &entry->place;
    return NULL;
}

void known_put(struct known *known, const uint8_t *data, size_t size, uint64_t place) {
    uint64_t *found = known_find(known, data, size);
    if (found) {
        *found = place;
        return;
    }
    struct entry **list = &known->lists[list_of(data, size)], *entry = malloc(sizeof *entry + size);
    if (!entry)
        abort();
    entry->next = *list;
    entry->place = place;
    entry->size = size;
    memcpy(entry->data, data, size);
    *list = entry;
}
