/* Graphs of things that have a place: roads and meshes. */
#include <math.h>
#include <stdlib.h>

#include "bench.h"
#include "delaunay.h"
#include "graph_kinds.h"

static double chance(uint64_t *random) {
    return (double)(bench_random(random) >> 11) * 0x1p-53;
}

/* ---- roads ---- */

/* In the roads of Asia (OpenStreetMap, SuiteSparse's asia_osm) there are 1.0637 edges per vertex. With 1.35 roads per
 * junction that makes 5.5 vertices per junction, and so 3.3 bends per road. */
#define ROADS_PER_JUNCTION 1.35
#define VERTICES_PER_JUNCTION 5.5

struct site_edge {
    uint64_t key; /* by chance */
    uint32_t a, b;
};

static int compare_site_edges(const void *a, const void *b) {
    uint64_t x = ((const struct site_edge *)a)->key, y = ((const struct site_edge *)b)->key;
    return x < y ? -1 : x > y;
}

static uint32_t root_of(uint32_t *parent, uint32_t site) {
    while (parent[site] != site)
        site = parent[site] = parent[parent[site]];
    return site;
}

/* A road of n bends, n as likely as n + 1 times a constant (geometric). Returns how many vertices there are now. */
static uint32_t add_road(struct edges *out, uint32_t a, uint32_t b, uint32_t vertices, uint64_t *random) {
    const double mean = (VERTICES_PER_JUNCTION - 1) / ROADS_PER_JUNCTION;
    uint32_t bends = (uint32_t)(log(1 - chance(random)) / log(mean / (mean + 1)));
    for (uint32_t i = 0; i < bends; i++) {
        edges_add(out, a, vertices);
        a = vertices++;
    }
    edges_add(out, a, b);
    return vertices;
}

/* Junctions on a lattice. Neighbours are joined in an order left to chance: where there is no way between them yet,
 * so that all can be reached, and beyond that as often as makes up the number of roads. */
uint32_t make_road(uint32_t vertices, uint64_t seed, struct edges *out) {
    uint32_t side = (uint32_t)sqrt(vertices / VERTICES_PER_JUNCTION), sites = side * side, count = 0;
    uint32_t *parent = malloc(sites * sizeof *parent);
    struct site_edge *list = malloc(2 * (size_t)sites * sizeof *list);
    bench_check(parent && list, "memory");
    for (uint32_t row = 0, i = 0; row < side; row++)
        for (uint32_t column = 0; column < side; column++, i++) {
            parent[i] = i;
            if (column + 1 < side)
                list[count++] = (struct site_edge){bench_random(&seed), i, i + 1};
            if (row + 1 < side)
                list[count++] = (struct site_edge){bench_random(&seed), i, i + side};
        }
    qsort(list, count, sizeof *list, compare_site_edges);
    const double again = (ROADS_PER_JUNCTION - 1) * sites / (count - (sites - 1));
    uint32_t total = sites;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t a = root_of(parent, list[i].a), b = root_of(parent, list[i].b);
        parent[a] = b;
        if (a != b || chance(&seed) < again)
            total = add_road(out, list[i].a, list[i].b, total, &seed);
    }
    free(parent);
    free(list);
    return total;
}

/* ---- triangles of points ---- */

static struct point *new_points(size_t count) {
    struct point *points = malloc((count + 3) * sizeof *points);
    bench_check(points != NULL, "memory");
    return points;
}

uint32_t make_delaunay(uint32_t vertices, uint64_t seed, struct edges *out) {
    struct point *points = new_points(vertices);
    for (uint32_t i = 0; i < vertices; i++) {
        points[i].x = (int32_t)(bench_random(&seed) % DELAUNAY_SIDE);
        points[i].y = (int32_t)(bench_random(&seed) % DELAUNAY_SIDE);
    }
    struct triangles triangles = delaunay(points, vertices);
    for (uint32_t i = 0; i < triangles.count; i++)
        for (unsigned j = 0; j < 3; j++) {
            uint32_t a = triangles.list[i].corner[j], b = triangles.list[i].corner[(j + 1) % 3];
            if (a < vertices && b < vertices && a < b)
                edges_add(out, a, b);
        }
    /* On the rim an edge may have only the triangle that sees it from high to low: graph_build drops what is there
     * twice. */
    for (uint32_t i = 0; i < triangles.count; i++)
        for (unsigned j = 0; j < 3; j++) {
            const struct triangle *t = &triangles.list[i];
            if (t->corner[j] >= vertices && t->corner[(j + 1) % 3] < vertices && t->corner[(j + 2) % 3] < vertices)
                edges_add(out, t->corner[(j + 1) % 3], t->corner[(j + 2) % 3]);
        }
    free(triangles.list);
    free(points);
    return vertices;
}

/* ---- bubbles ---- */

#define BUBBLES 48u
#define FINER 3u       /* times that a cell at a wall is cut in four */
#define STRAY 0.25     /* of a cell's side: how far a point may be from where a regular mesh has it */
#define WALL_REACH 1.5 /* a cell within so many of its sides of a wall is cut */

struct bubbles {
    double x[BUBBLES], y[BUBBLES], radius[BUBBLES];
    struct point *points; /* NULL: only count */
    uint32_t count;
    uint64_t random;
};

static int is_at_wall(const struct bubbles *bubbles, double x, double y, double reach) {
    for (unsigned i = 0; i < BUBBLES; i++) {
        double far = hypot(x - bubbles->x[i], y - bubbles->y[i]) - bubbles->radius[i];
        if (far < reach && far > -reach)
            return 1;
    }
    return 0;
}

static int32_t on_square(double x) {
    double at = x * DELAUNAY_SIDE;
    return at < 0 ? 0 : at >= DELAUNAY_SIDE ? DELAUNAY_SIDE - 1 : (int32_t)at;
}

/* The cell (column, row) of a lattice with this side. Every other row is shifted by half a cell, so that a regular
 * mesh is one of triangles with six at each corner. */
static void add_cell(struct bubbles *bubbles, uint32_t column, uint32_t row, double side, unsigned finer) {
    double x = (column + 0.5) * side, y = (row + 0.5) * side;
    if (finer > 0 && is_at_wall(bubbles, x, y, WALL_REACH * side)) {
        for (unsigned i = 0; i < 4; i++)
            add_cell(bubbles, 2 * column + i % 2, 2 * row + i / 2, side / 2, finer - 1);
        return;
    }
    if (bubbles->points) {
        x += side * ((row % 2 ? 0.25 : -0.25) + STRAY * (2 * chance(&bubbles->random) - 1));
        y += side * STRAY * (2 * chance(&bubbles->random) - 1);
        bubbles->points[bubbles->count] = (struct point){on_square(x), on_square(y)};
    }
    bubbles->count++;
}

static uint32_t add_cells(struct bubbles *bubbles, uint32_t across) {
    bubbles->count = 0;
    for (uint32_t row = 0; row < across; row++)
        for (uint32_t column = 0; column < across; column++)
            add_cell(bubbles, column, row, 1.0 / across, FINER);
    return bubbles->count;
}

/* The lattice for about so many points. */
static uint32_t choose_across(struct bubbles *bubbles, uint32_t points) {
    uint32_t across = (uint32_t)(sqrt(points) / 2) + 1;
    for (unsigned i = 0; i < 6; i++)
        across = (uint32_t)lround(across * sqrt((double)points / add_cells(bubbles, across))) + (across == 0);
    return across < 2 ? 2 : across;
}

/* Vertices are the triangles of a mesh; there are two for each point. */
uint32_t make_bubbles(uint32_t vertices, uint64_t seed, struct edges *out) {
    struct bubbles bubbles = {.random = seed};
    for (unsigned i = 0; i < BUBBLES; i++) {
        bubbles.x[i] = chance(&bubbles.random);
        bubbles.y[i] = chance(&bubbles.random);
        bubbles.radius[i] = 0.02 + 0.1 * chance(&bubbles.random);
    }
    uint32_t across = choose_across(&bubbles, vertices / 2), count = add_cells(&bubbles, across), kept = 0;
    bubbles.points = new_points(count);
    add_cells(&bubbles, across);
    struct triangles triangles = delaunay(bubbles.points, count);
    uint32_t *number = malloc((size_t)triangles.count * sizeof *number);
    bench_check(number != NULL, "memory");
    for (uint32_t i = 0; i < triangles.count; i++) {
        const uint32_t *corner = triangles.list[i].corner;
        number[i] = corner[0] < count && corner[1] < count && corner[2] < count ? kept++ : NO_TRIANGLE;
    }
    for (uint32_t i = 0; i < triangles.count; i++)
        for (unsigned j = 0; j < 3; j++) {
            uint32_t other = triangles.list[i].beside[j];
            if (other != NO_TRIANGLE && i < other && number[i] != NO_TRIANGLE && number[other] != NO_TRIANGLE)
                edges_add(out, number[i], number[other]);
        }
    free(number);
    free(triangles.list);
    free(bubbles.points);
    return kept;
}
