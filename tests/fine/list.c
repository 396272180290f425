#include "list.h"

#include <stdlib.h>
#include <string.h>

#include "known.h"

#define OBJECTS 64u
#define ZERO UINT32_MAX /* instead of a checkpoint: this chunk is zero */

struct shifted {
    uint32_t index;
    uint32_t checkpoint; /* that has it as a new one */
    uint32_t place;      /* its index there */
};

/* What a checkpoint would write: a length, two lists, and data. */
struct object {
    uint64_t length;
    uint32_t first_count, shifted_count;
    uint32_t *first; /* ascending */
    struct shifted *shifted;
    uint8_t *data; /* of the new ones; only the last may be short */
};

struct list {
    uint32_t chunk, count;
    struct object objects[OBJECTS];
    struct known *seen;
    uint64_t *last; /* per chunk what the last checkpoint said, as known() gives it */
    size_t last_size;
};

static void *must(void *memory) {
    if (!memory)
        abort();
    return memory;
}

struct list *list_create(uint32_t chunk) {
    struct list *list = must(calloc(1, sizeof *list));
    list->chunk = chunk;
    list->seen = known_create();
    return list;
}

void list_destroy(struct list *list) {
    for (uint32_t i = 0; i < list->count; i++) {
        free(list->objects[i].first);
        free(list->objects[i].shifted);
        free(list->objects[i].data);
    }
    known_destroy(list->seen);
    free(list->last);
    free(list);
}

static uint32_t chunks_of(const struct list *list, size_t size) {
    return (uint32_t)((size + list->chunk - 1) / list->chunk);
}

static size_t size_of(const struct list *list, size_t size, uint32_t index) {
    size_t at = (size_t)index * list->chunk;
    return size - at < list->chunk ? size - at : list->chunk;
}

static int is_zero(const uint8_t *data, size_t size) {
    while (size > 0 && data[size - 1] == 0)
        size--;
    return size == 0;
}

/* Does the last checkpoint say the same of this chunk? It must have had the same length then. */
static int is_fixed(const struct list *list, size_t size, uint32_t index, uint64_t place) {
    if (list->count == 0 || index >= chunks_of(list, list->last_size))
        return 0;
    return size_of(list, list->last_size, index) == size_of(list, size, index) && list->last[index] == place;
}

static size_t add_first(struct object *object, uint32_t index, size_t used, const uint8_t *data, size_t size) {
    object->first[object->first_count++] = index;
    memcpy(object->data + used, data, size);
    return used + size;
}

size_t list_save(struct list *list, const uint8_t *data, size_t size) {
    uint32_t count = chunks_of(list, size), number = list->count;
    struct object *object = &list->objects[number];
    uint64_t *places = must(calloc(count + 1, sizeof *places));
    size_t used = 0;
    if (number == OBJECTS)
        abort();
    *object = (struct object){.length = size,
                              .first = must(malloc((count + 1) * sizeof *object->first)),
                              .shifted = must(malloc((count + 1) * sizeof *object->shifted)),
                              .data = must(malloc(size + 1))};
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *chunk = data + (size_t)i * list->chunk;
        size_t length = size_of(list, size, i);
        uint64_t *known = is_zero(chunk, length) ? NULL : known_find(list->seen, chunk, length);
        if (is_zero(chunk, length))
            places[i] = (uint64_t)ZERO << 32;
        else
            places[i] = known ? *known : (uint64_t)number << 32 | i;
        if (!known && places[i] >> 32 == number) {
            known_put(list->seen, chunk, length, places[i]);
            used = add_first(object, i, used, chunk, length);
        } else if (!is_fixed(list, size, i, places[i]))
            object->shifted[object->shifted_count++] =
                (struct shifted){i, (uint32_t)(places[i] >> 32), (uint32_t)places[i]};
    }
    free(list->last);
    list->last = places;
    list->last_size = size;
    list->count++;
    return used;
}

/* The new chunk `index` of an object. */
static const uint8_t *data_of(const struct list *list, const struct object *object, uint32_t index) {
    for (uint32_t i = 0; i < object->first_count; i++)
        if (object->first[i] == index)
            return object->data + (size_t)i * list->chunk;
    abort();
}

size_t list_restore(const struct list *list, uint32_t number, uint8_t *out, size_t capacity) {
    memset(out, 0xa5, capacity);
    for (uint32_t n = 0; n <= number; n++) { /* each one is laid over those before */
        const struct object *object = &list->objects[n];
        if (object->length > capacity)
            abort();
        for (uint32_t i = 0; i < object->first_count; i++)
            memcpy(out + (size_t)object->first[i] * list->chunk, object->data + (size_t)i * list->chunk,
                   size_of(list, object->length, object->first[i]));
        for (uint32_t i = 0; i < object->shifted_count; i++) {
            const struct shifted *entry = &object->shifted[i];
            uint8_t *to = out + (size_t)entry->index * list->chunk;
            size_t size = size_of(list, object->length, entry->index);
            if (entry->checkpoint == ZERO)
                memset(to, 0, size);
            else
                memcpy(to, data_of(list, &list->objects[entry->checkpoint], entry->place), size);
        }
    }
    return list->objects[number].length;
}
