/* Graphs made by rule and by chance: what bench-merkle counts graphlets in. Five kinds, each a model of one of the
 * graphs that Tan et al. use (ICPP 2023):
 *
 * message-race       what a message-passing program did: 128 processes, one of which gets a message from every other in
 *                    every iteration, in an order that is left to chance. Vertices are events (start, send, receive,
 *                    end); edges lead from event to event of a process, and from a send to its receive.
 * unstructured-mesh  the same, but every process exchanges with its neighbours in every iteration: it sends to all of
 *                    them, always in the same order, and receives as it comes. Neighbours are those next to it among
 *                    128 places in a square, drawn by chance.
 * road               junctions of 2.7 roads on average, dead ends among them, and roads bent by a number of points that
 *                    is left to chance: as many edges per vertex as the roads of Asia have in OpenStreetMap.
 * bubbles            which triangles are neighbours, in a mesh that is finer along the walls of bubbles: every vertex
 *                    has three edges, and they make rings of about six.
 * delaunay           the Delaunay triangulation of points drawn by chance: six edges each on average.
 *
 * Vertices are in the order of reverse Cuthill-McKee, so that neighbours have numbers near each other. Everything
 * follows from the seed. A program that runs out of memory here ends with a message. */
#ifndef GRAPHS_H
#define GRAPHS_H

#include <stddef.h>
#include <stdint.h>

/* Without loops and parallel edges. The neighbours of v are ends[starts[v]] to ends[starts[v + 1] - 1], ascending. */
struct graph {
    uint32_t vertices;
    uint64_t *starts;
    uint32_t *ends;
};

struct edges {
    uint32_t (*list)[2];
    size_t count, capacity;
};

extern const char *const graph_kinds[5];

/* About so many vertices, 1000 at least. NULL if there is no such kind. */
struct graph *graph_make(const char *kind, uint32_t vertices, uint64_t seed);
void graph_free(struct graph *graph);

/* ---- parts, for those who make graphs of their own ---- */

void edges_add(struct edges *edges, uint32_t a, uint32_t b);
/* The list is emptied; loops and edges that were there already are left out. */
struct graph *graph_build(uint32_t vertices, struct edges *edges);
/* The same graph, its vertices in the order of reverse Cuthill-McKee; the old one is gone. */
struct graph *graph_order(struct graph *graph);

#endif
