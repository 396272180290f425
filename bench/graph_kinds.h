/* The edges of each kind of graph (graphs.h says what they are models of). All of them append to a list of edges and
 * return how many vertices there are, near the number that was asked for. */
#ifndef GRAPH_KINDS_H
#define GRAPH_KINDS_H

#include "graphs.h"

uint32_t make_message_race(uint32_t vertices, uint64_t seed, struct edges *out);
uint32_t make_unstructured_mesh(uint32_t vertices, uint64_t seed, struct edges *out);
uint32_t make_road(uint32_t vertices, uint64_t seed, struct edges *out);
uint32_t make_bubbles(uint32_t vertices, uint64_t seed, struct edges *out);
uint32_t make_delaunay(uint32_t vertices, uint64_t seed, struct edges *out);

#endif
