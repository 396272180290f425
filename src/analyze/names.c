#include "analyze/names.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST 1024u

struct name {
    uint64_t name; /* 0: free */
    uint64_t value;
};

static struct name *find(struct name *list, size_t capacity, uint64_t name) {
    size_t at = (size_t)name & (capacity - 1);

    while (list[at].name && list[at].name != name)
        at = (at + 1) & (capacity - 1);
    return &list[at];
}

/* Into a new table of this capacity, those that still count. */
static int move(struct names *names, size_t capacity) {
    struct name *list = calloc(capacity, sizeof *list);

    if (!list)
        return -ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < names->capacity; i++) {
        if (names->list[i].name && names_counts(names, names->list[i].name)) {
            *find(list, capacity, names->list[i].name) = names->list[i];
            count++;
        }
    }
    free(names->list);
    names->list = list;
    names->capacity = capacity;
    names->count = count;
    return 0;
}

/* Room for one more, in a table that is at most three quarters full. */
static int make_room(struct names *names) {
    int rc = 0;

    if (names->count < names->most && names->count >= names->capacity / 4 * 3)
        rc = move(names, names->capacity ? names->capacity * 2 : FIRST);
    while (rc == 0 && names->count >= names->most && names->shift < 63) {
        names->shift++;
        rc = move(names, names->capacity);
    }
    return rc;
}

int names_put(struct names *names, uint64_t name, uint64_t value, uint64_t *old) {
    name = name ? name : 1;
    struct name *slot = names->capacity ? find(names->list, names->capacity, name) : NULL;

    if (slot && slot->name) {
        *old = slot->value;
        slot->value = value;
        return 1;
    }
    int rc = make_room(names);
    if (rc < 0)
        return rc;
    if (names_counts(names, name)) {
        *find(names->list, names->capacity, name) = (struct name){name, value};
        names->count++;
    }
    return 0;
}

void names_clear(struct names *names) {
    free(names->list);
    *names = (struct names){.most = names->most};
}
