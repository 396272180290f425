/* The Delaunay triangulation of points in a square: no point lies within the circle through the corners of a
 * triangle. */
#ifndef DELAUNAY_H
#define DELAUNAY_H

#include <stddef.h>
#include <stdint.h>

#define DELAUNAY_SIDE (1 << 24) /* coordinates are 0 to this, without it */

struct point {
    int32_t x, y;
};

struct triangle {
    uint32_t corner[3]; /* anticlockwise; points from `count` on are the three far away that hold all others */
    uint32_t beside[3]; /* the triangle on the other side of what lies opposite to this corner */
};

#define NO_TRIANGLE UINT32_MAX

struct triangles {
    struct triangle *list;
    uint32_t count;
};

/* Of points that are put in an order of their own first; one that is there twice is in no triangle the second time.
 * There must be room for three more points. The list is the caller's to free. */
struct triangles delaunay(struct point *points, uint32_t count);

#endif
