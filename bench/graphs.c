/* Graphs: lists of edges become graphs, and get an order in which neighbours are near each other. */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "graph_kinds.h"

const char *const graph_kinds[5] = {"message-race", "unstructured-mesh", "road", "bubbles", "delaunay"};

static const struct {
    const char *name;
    uint32_t (*make)(uint32_t vertices, uint64_t seed, struct edges *out); /* returns how many vertices there are */
} makers[] = {{"message-race", make_message_race},
              {"unstructured-mesh", make_unstructured_mesh},
              {"road", make_road},
              {"bubbles", make_bubbles},
              {"delaunay", make_delaunay}};

struct graph *graph_make(const char *kind, uint32_t vertices, uint64_t seed) {
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        if (strcmp(kind, makers[i].name) == 0) {
            struct edges edges = {0};
            uint32_t count = makers[i].make(vertices < 1000 ? 1000 : vertices, seed, &edges);
            return graph_order(graph_build(count, &edges));
        }
    return NULL;
}

void graph_free(struct graph *graph) {
    if (graph) {
        free(graph->starts);
        free(graph->ends);
    }
    free(graph);
}

/* ---- from edges ---- */

void edges_add(struct edges *edges, uint32_t a, uint32_t b) {
    if (edges->count == edges->capacity) {
        edges->capacity = edges->capacity ? 2 * edges->capacity : 4096;
        edges->list = realloc(edges->list, edges->capacity * sizeof *edges->list);
        bench_check(edges->list != NULL, "memory");
    }
    edges->list[edges->count][0] = a;
    edges->list[edges->count][1] = b;
    edges->count++;
}

static struct graph *new_graph(uint32_t vertices, uint64_t ends) {
    struct graph *graph = calloc(1, sizeof *graph);
    bench_check(graph != NULL, "memory");
    graph->vertices = vertices;
    graph->starts = calloc((size_t)vertices + 2, sizeof *graph->starts);
    graph->ends = malloc((ends + 1) * sizeof *graph->ends);
    bench_check(graph->starts && graph->ends, "memory");
    return graph;
}

static int compare_ends(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Sort the neighbours of each vertex, and leave out those that are there twice. */
static void tidy(struct graph *graph) {
    uint64_t kept = 0, from = 0;
    for (uint32_t v = 0; v < graph->vertices; v++) {
        uint64_t to = graph->starts[v + 1], first = kept;
        qsort(graph->ends + from, to - from, sizeof *graph->ends, compare_ends);
        for (uint64_t i = from; i < to; i++)
            if (kept == first || graph->ends[kept - 1] != graph->ends[i])
                graph->ends[kept++] = graph->ends[i];
        graph->starts[v + 1] = kept;
        from = to;
    }
}

struct graph *graph_build(uint32_t vertices, struct edges *edges) {
    struct graph *graph = new_graph(vertices, 2 * (uint64_t)edges->count);
    uint64_t *next = graph->starts + 1; /* begins as the count, ends as the start of the vertex after */
    for (size_t i = 0; i < edges->count; i++)
        if (edges->list[i][0] != edges->list[i][1])
            next[edges->list[i][0] + 1]++, next[edges->list[i][1] + 1]++;
    for (uint32_t v = 0; v < vertices; v++)
        next[v + 1] += next[v];
    for (size_t i = 0; i < edges->count; i++) {
        uint32_t a = edges->list[i][0], b = edges->list[i][1];
        if (a != b)
            graph->ends[next[a]++] = b, graph->ends[next[b]++] = a;
    }
    tidy(graph);
    free(edges->list);
    *edges = (struct edges){0};
    return graph;
}

/* ---- order ---- */

static uint64_t degree(const struct graph *graph, uint32_t v) {
    return graph->starts[v + 1] - graph->starts[v];
}

/* From `start` on, neighbour by neighbour, those with few edges first; appended to order, place says which is where
 * (plus 1; 0: not yet). Returns how many there are now. */
static uint32_t walk(const struct graph *graph, uint32_t start, uint32_t *order, uint32_t count, uint32_t *place) {
    uint32_t at = count;
    order[count] = start;
    place[start] = ++count;
    while (at < count) {
        uint32_t v = order[at++], first = count;
        for (uint64_t i = graph->starts[v]; i < graph->starts[v + 1]; i++) {
            uint32_t other = graph->ends[i], j = count;
            if (place[other])
                continue;
            place[other] = 1;
            while (j > first && degree(graph, order[j - 1]) > degree(graph, other))
                order[j] = order[j - 1], j--;
            order[j] = other;
            count++;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        place[order[i]] = i + 1;
    return count;
}

/* A vertex at an edge of its part of the graph: the last one reached from the last one reached. */
static uint32_t far_end(const struct graph *graph, uint32_t start, uint32_t *order, uint32_t count, uint32_t *place) {
    for (unsigned i = 0; i < 2; i++) {
        uint32_t end = walk(graph, start, order, count, place);
        start = order[end - 1];
        for (uint32_t j = count; j < end; j++)
            place[order[j]] = 0;
    }
    return start;
}

struct graph *graph_order(struct graph *graph) {
    uint32_t *order = calloc((size_t)graph->vertices + 1, sizeof *order);
    uint32_t *place = calloc((size_t)graph->vertices + 1, sizeof *place);
    uint32_t count = 0, last = graph->vertices;
    bench_check(order && place, "memory");
    for (uint32_t v = 0; v < graph->vertices; v++)
        if (place[v] == 0)
            count = walk(graph, far_end(graph, v, order, count, place), order, count, place);
    struct graph *out = new_graph(graph->vertices, graph->starts[graph->vertices]);
    for (uint32_t v = 0; v < last; v++) {
        uint32_t old = order[last - 1 - v];
        uint64_t to = out->starts[v];
        for (uint64_t i = graph->starts[old]; i < graph->starts[old + 1]; i++)
            out->ends[to++] = last - place[graph->ends[i]];
        out->starts[v + 1] = to;
    }
    tidy(out);
    free(order);
    free(place);
    graph_free(graph);
    return out;
}
