/* Ranges in a balanced tree. Two ranges that overlap compare as equal: since none in the tree do, the order is sound,
 * and a search finds any one that overlaps with what is asked for. What lies left and right of it is asked for in turn.
 * */
#include "read/place_map.h"

#include <errno.h>
#include <search.h>

#include "base/alloc.h"

struct range {
    struct vv_spot_of from, to;
    uint64_t length;
};

static int compare_places(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    int order = vv_attempt_compare(&x->from.attempt, &y->from.attempt);
    if (order != 0)
        return order;
    if (x->from.owner != y->from.owner)
        return x->from.owner < y->from.owner ? -1 : 1;
    if (x->from.address + x->length <= y->from.address)
        return -1;
    return x->from.address >= y->from.address + y->length;
}

void vv_place_map_clear(struct vv_place_map *map) {
    tdestroy(map->root, vv_free);
    map->root = NULL;
}

int vv_place_map_add(struct vv_place_map *map, const struct vv_spot_of *from, uint64_t length,
                     const struct vv_spot_of *to) {
    struct range *range = vv_malloc(sizeof *range);
    if (!range)
        return -ENOMEM;
    *range = (struct range){.from = *from, .to = *to, .length = length};
    if (tsearch(range, &map->root, compare_places))
        return 0;
    vv_free(range);
    return -ENOMEM;
}

struct look {
    struct vv_place_map *map;
    struct vv_spot_of from;
    vv_place_piece_fn fn;
    void *arg;
};

/* As deep as the tree is high: each step asks for what lies below the range that was found, on one side of it. */
static int look_at_places(const struct look *look, uint64_t first, uint64_t end) {
    struct range wanted = {.from = look->from, .length = end - first};
    wanted.from.address += first;
    if (first == end)
        return 0;
    void *node = tfind(&wanted, &look->map->root, compare_places);
    if (!node)
        return look->fn(look->arg, first, end - first, NULL);
    const struct range *found = *(struct range **)node;
    uint64_t from = look->from.address, found_end = found->from.address + found->length;
    uint64_t low = found->from.address > from + first ? found->from.address - from : first;
    uint64_t high = found_end < from + end ? found_end - from : end;
    struct vv_spot_of to = found->to;
    to.address += from + low - found->from.address;
    int rc = look_at_places(look, first, low);
    if (rc == 0)
        rc = look->fn(look->arg, low, high - low, &to);
    return rc == 0 ? look_at_places(look, high, end) : rc;
}

int vv_place_map_look(struct vv_place_map *map, const struct vv_spot_of *from, uint64_t length, vv_place_piece_fn fn,
                      void *arg) {
    struct look look = {.map = map, .from = *from, .fn = fn, .arg = arg};
    return look_at_places(&look, 0, length);
}
