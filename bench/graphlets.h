/* Graphlet degree vectors: how often each vertex of a graph is where in a small connected subgraph. What bench-merkle
 * protects.
 *
 * There are 30 connected graphs of 2 to 5 vertices, and a vertex of one of them can be in one of 73 places that differ
 * (orbits; numbered as Przulj does, Bioinformatics 23, 2007). The vector of a vertex counts, per orbit, the induced
 * subgraphs in which it is there. Few of the 73 are common in sparse graphs, so most counters of a vector stay zero. */
#ifndef GRAPHLETS_H
#define GRAPHLETS_H

#include "graphs.h"

#define ORBITS 73u
#define ORBITS_OF_4 15u /* of graphlets of up to four vertices: the first of them */

struct graphlets {
    const struct graph *graph;
    unsigned most;                  /* vertices of a subgraph, 2 to 5 */
    unsigned orbits;                /* counters per vertex */
    uint32_t *vectors;              /* the caller's, zero at first: vertices * orbits */
    size_t vertex_step, orbit_step; /* from a counter to that of the next vertex, and of the next orbit */
    uint8_t *touches;               /* per vertex: which of the subgraph's it is a neighbour of */
    uint64_t found;                 /* subgraphs so far */
};

/* Counters lie vertex by vertex, as a C program has them, or orbit by orbit, as on a GPU, where threads next to each
 * other take vertices next to each other. */
enum graphlets_layout { BY_VERTEX, BY_ORBIT };

unsigned graphlets_orbits(unsigned most);
void graphlets_init(struct graphlets *run, const struct graph *graph, unsigned most, enum graphlets_layout layout,
                    uint32_t *vectors);
/* Find every connected subgraph whose least vertex is one of these, and count it in the vectors of all its vertices.
 * When every vertex was given once, in any order, every subgraph was counted once. */
void graphlets_count(struct graphlets *run, uint32_t from, uint32_t to);
void graphlets_clear(struct graphlets *run); /* the vectors stay */

#endif
