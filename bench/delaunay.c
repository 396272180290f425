/* A triangulation that grows point by point: the triangle that holds the new point is cut in three, and edges are
 * turned until no circle holds a point. Coordinates are whole numbers, so every comparison is exact. The points come
 * along a curve that fills the square, so the next one is never far from the last. */
#include "delaunay.h"

#include <stdlib.h>

#include "bench.h"

#define FAR (1 << 26)

struct growing {
    const struct point *points;
    struct triangles all;
    uint32_t *stack; /* triangles whose first corner is the new point, to look at */
    size_t depth, capacity;
};

/* ---- order ---- */

struct keyed {
    uint64_t key;
    struct point point;
};

/* Place on Hilbert's curve. */
static uint64_t along(struct point p) {
    uint64_t key = 0;
    uint32_t x = (uint32_t)p.x, y = (uint32_t)p.y;
    for (uint32_t s = DELAUNAY_SIDE / 2; s > 0; s /= 2) {
        uint32_t right = (x & s) != 0, up = (y & s) != 0;
        key = key << 2 | ((3 * right) ^ up);
        if (!up) {
            if (right)
                x = ~x, y = ~y;
            uint32_t kept = x;
            x = y;
            y = kept;
        }
    }
    return key;
}

static int compare_keys(const void *a, const void *b) {
    uint64_t x = ((const struct keyed *)a)->key, y = ((const struct keyed *)b)->key;
    return x < y ? -1 : x > y;
}

static void sort_points(struct point *points, uint32_t count) {
    struct keyed *list = malloc(((size_t)count + 1) * sizeof *list);
    bench_check(list != NULL, "memory");
    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct keyed){along(points[i]), points[i]};
    qsort(list, count, sizeof *list, compare_keys);
    for (uint32_t i = 0; i < count; i++)
        points[i] = list[i].point;
    free(list);
}

/* ---- where points lie ---- */

/* Above 0 if c lies to the left of the way from a to b. */
static int64_t side(struct point a, struct point b, struct point c) {
    return (int64_t)(b.x - a.x) * (c.y - a.y) - (int64_t)(b.y - a.y) * (c.x - a.x);
}

static int is_in_circle(struct point a, struct point b, struct point c, struct point d) {
    int64_t ax = a.x - d.x, ay = a.y - d.y, bx = b.x - d.x, by = b.y - d.y, cx = c.x - d.x, cy = c.y - d.y;
    __int128 sum = (__int128)(ax * ax + ay * ay) * (bx * cy - cx * by);
    sum -= (__int128)(bx * bx + by * by) * (ax * cy - cx * ay);
    sum += (__int128)(cx * cx + cy * cy) * (ax * by - bx * ay);
    return sum > 0;
}

/* The triangle that holds p; one of two when p lies on an edge. */
static uint32_t find(const struct growing *growing, uint32_t from, struct point p) {
    for (;;) {
        const struct triangle *t = &growing->all.list[from];
        unsigned i = 0;
        while (i < 3 && side(growing->points[t->corner[(i + 1) % 3]], growing->points[t->corner[(i + 2) % 3]], p) >= 0)
            i++;
        if (i == 3)
            return from;
        from = t->beside[i];
    }
}

/* ---- growing ---- */

static void push(struct growing *growing, uint32_t triangle) {
    if (growing->depth == growing->capacity) {
        growing->capacity = growing->capacity ? 2 * growing->capacity : 256;
        growing->stack = realloc(growing->stack, growing->capacity * sizeof *growing->stack);
        bench_check(growing->stack != NULL, "memory");
    }
    growing->stack[growing->depth++] = triangle;
}

/* What was beside `old` is beside `now`. */
static void rejoin(struct growing *growing, uint32_t triangle, uint32_t old, uint32_t now) {
    if (triangle != NO_TRIANGLE)
        for (unsigned i = 0; i < 3; i++)
            if (growing->all.list[triangle].beside[i] == old)
                growing->all.list[triangle].beside[i] = now;
}

/* Triangle (p, a, b) and the one beyond a-b, (d, b, a), become (p, a, d) and (p, d, b) if p lies in the circle of the
 * second. */
static void settle(struct growing *growing) {
    while (growing->depth > 0) {
        uint32_t here = growing->stack[--growing->depth];
        struct triangle *list = growing->all.list, *t = &list[here];
        uint32_t there = t->beside[0];
        if (there == NO_TRIANGLE)
            continue;
        struct triangle *u = &list[there];
        unsigned d = u->beside[0] == here ? 0 : u->beside[1] == here ? 1 : 2;
        const struct point *points = growing->points;
        if (!is_in_circle(points[u->corner[0]], points[u->corner[1]], points[u->corner[2]], points[t->corner[0]]))
            continue;
        uint32_t p = t->corner[0], a = t->corner[1], b = t->corner[2], far = u->corner[d];
        /* u is (far, b, a) from corner d on: what lies opposite to b is beyond far-a, opposite to a beyond far-b. */
        uint32_t beyond_a = u->beside[(d + 1) % 3], beyond_b = u->beside[(d + 2) % 3], before_b = t->beside[1];
        *u = (struct triangle){{p, far, b}, {beyond_b, before_b, here}};
        *t = (struct triangle){{p, a, far}, {beyond_a, there, t->beside[2]}};
        rejoin(growing, beyond_a, there, here);
        rejoin(growing, before_b, here, there);
        push(growing, here);
        push(growing, there);
    }
}

static uint32_t insert(struct growing *growing, uint32_t from, uint32_t point) {
    struct point p = growing->points[point];
    uint32_t at = find(growing, from, p), second = growing->all.count, third = second + 1;
    struct triangle *list = growing->all.list, old = list[at];
    for (unsigned i = 0; i < 3; i++)
        if (growing->points[old.corner[i]].x == p.x && growing->points[old.corner[i]].y == p.y)
            return at;
    growing->all.count += 2;
    list[at] = (struct triangle){{point, old.corner[0], old.corner[1]}, {old.beside[2], second, third}};
    list[second] = (struct triangle){{point, old.corner[1], old.corner[2]}, {old.beside[0], third, at}};
    list[third] = (struct triangle){{point, old.corner[2], old.corner[0]}, {old.beside[1], at, second}};
    rejoin(growing, old.beside[0], at, second);
    rejoin(growing, old.beside[1], at, third);
    push(growing, at);
    push(growing, second);
    push(growing, third);
    settle(growing);
    return at;
}

struct triangles delaunay(struct point *points, uint32_t count) {
    struct growing growing = {.points = points};
    uint32_t last = 0;
    sort_points(points, count);
    points[count] = (struct point){-FAR, -FAR};
    points[count + 1] = (struct point){2 * FAR, -FAR};
    points[count + 2] = (struct point){-FAR, 2 * FAR};
    growing.all.list = malloc((2 * (size_t)count + 1) * sizeof *growing.all.list);
    bench_check(growing.all.list != NULL, "memory");
    growing.all.list[growing.all.count++] =
        (struct triangle){{count, count + 1, count + 2}, {NO_TRIANGLE, NO_TRIANGLE, NO_TRIANGLE}};
    for (uint32_t i = 0; i < count; i++)
        last = insert(&growing, last, i);
    free(growing.stack);
    return growing.all;
}
