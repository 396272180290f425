/* A map of places: which bytes of which attempts were met before, and where they are now. It holds one entry of about
 * 100 bytes for each range, whatever its length. Ranges never overlap: the first word about a byte counts. One thread
 * at a time. */
#ifndef VV_PLACE_MAP_H
#define VV_PLACE_MAP_H

#include "format/object.h"

/* Where the bytes of an attempt's owner are. */
struct vv_spot_of {
    struct vv_attempt attempt;
    uint32_t owner;
    uint64_t address;
};

struct vv_place_map {
    void *root; /* of a tree as tsearch(3) makes it */
};

/* Begins as zeros. */
void vv_place_map_clear(struct vv_place_map *map);
/* None of the range may be in the map. 0 or -ENOMEM. */
int vv_place_map_add(struct vv_place_map *map, const struct vv_spot_of *from, uint64_t length,
                     const struct vv_spot_of *to);
/* Tell the range piece by piece, ascending. to: where the piece is now, NULL if it is not in the map; then fn may add
 * it. Ends with what fn returns if that is not 0. */
typedef int (*vv_place_piece_fn)(void *arg, uint64_t offset, uint64_t length, const struct vv_spot_of *to);
int vv_place_map_look(struct vv_place_map *map, const struct vv_spot_of *from, uint64_t length, vv_place_piece_fn fn,
                      void *arg);

#endif
