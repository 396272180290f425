/* Counting graphlets.
 *
 * Subgraphs grow vertex by vertex from their least one. `touches` says of every vertex near the subgraph which of its
 * vertices it is a neighbour of, so one look says whether a vertex is new to it, and which edges it brings. A vertex
 * that was passed over is not taken later in the same branch: that is why each subgraph is found once. The edges, as
 * bits, lead to the orbits through a table. */
#include "graphlets.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define MOST 5u
#define GRAPHLETS 30u

/* Edges as pairs of digits. Orbits are numbered graphlet by graphlet, and within one by how many edges a vertex and its
 * neighbours have, all together: this tells any two orbits of a graphlet of up to five vertices apart. */
static const char *const graphlets[GRAPHLETS] = {
    "01",                   /* edge */
    "0112",                 /* path */
    "011220",               /* triangle */
    "011223",               /* path */
    "010203",               /* star */
    "01122330",             /* cycle */
    "01122023",             /* triangle and a tail */
    "0112203123",           /* two triangles at an edge */
    "010203121323",         /* complete */
    "01122334",             /* path */
    "01122324",             /* path that forks at the end */
    "01020304",             /* star */
    "0112200314",           /* triangle, tails at two vertices */
    "0112202334",           /* triangle and a long tail */
    "0112202324",           /* triangle, two tails at one vertex */
    "0112233440",           /* cycle */
    "0112233004",           /* cycle of four and a tail */
    "011220312314",         /* two triangles at an edge, tail where they meet */
    "011220033440",         /* two triangles at a vertex */
    "011220312304",         /* two triangles at an edge, tail where they do not meet */
    "021203130414",         /* two against three */
    "011223304014",         /* cycle of four, triangle on a side */
    "01020304121314",       /* three triangles at an edge */
    "01020312132304",       /* complete of four and a tail */
    "01020304122334",       /* fan */
    "01122330041424",       /* wheel without a spoke */
    "0102031213230414",     /* complete of four, triangle on a side */
    "0112233004142434",     /* wheel */
    "010203041213142324",   /* complete but for an edge */
    "01020304121314232434", /* complete */
};

static uint8_t orbit_of[MOST + 1][1024][MOST]; /* vertices, edges as bits, vertex */
static pthread_once_t is_ready = PTHREAD_ONCE_INIT;

/* The bit of an edge between the vertices that came as low-th and high-th. */
static unsigned edge_bit(unsigned low, unsigned high) {
    return high * (high - 1) / 2 + low;
}

struct small {
    unsigned vertices;
    uint8_t near[MOST]; /* per vertex: its neighbours, as bits */
    uint8_t orbit[MOST];
};

static unsigned weight(const struct small *small, unsigned vertex) {
    unsigned sum = (unsigned)__builtin_popcount(small->near[vertex]);
    for (unsigned i = 0; i < small->vertices; i++)
        if (small->near[vertex] >> i & 1)
            sum += (unsigned)__builtin_popcount(small->near[i]);
    return sum;
}

/* Returns how many orbits it has; they are numbered from first on. */
static unsigned read_small(const char *edges, unsigned first, struct small *out) {
    unsigned orbits = 0;
    memset(out, 0, sizeof *out);
    for (const char *at = edges; *at; at += 2) {
        unsigned a = (unsigned)(at[0] - '0'), b = (unsigned)(at[1] - '0');
        out->near[a] |= (uint8_t)(1u << b);
        out->near[b] |= (uint8_t)(1u << a);
        unsigned high = a > b ? a : b;
        out->vertices = out->vertices > high ? out->vertices : high + 1;
    }
    for (unsigned w = 0; w <= MOST * (MOST - 1); w++) {
        int is_there = 0;
        for (unsigned i = 0; i < out->vertices; i++)
            if (weight(out, i) == w)
                out->orbit[i] = (uint8_t)(first + orbits), is_there = 1;
        orbits += (unsigned)is_there;
    }
    return orbits;
}

/* Its vertices came in this order. */
static void note_order(const struct small *small, const unsigned *order) {
    unsigned bits = 0, count = small->vertices < MOST ? small->vertices : MOST;
    for (unsigned high = 1; high < count; high++)
        for (unsigned low = 0; low < high; low++)
            if (small->near[order[high]] >> order[low] & 1)
                bits |= 1u << edge_bit(low, high);
    for (unsigned i = 0; i < count; i++)
        orbit_of[count][bits][i] = small->orbit[order[i]];
}

/* All orders that go on from this one. */
static void note_orders(const struct small *small, unsigned *order, unsigned count) {
    if (count == small->vertices || count == MOST) {
        note_order(small, order);
        return;
    }
    for (unsigned next = 0; next < small->vertices; next++) {
        unsigned i = 0;
        while (i < count && order[i] != next)
            i++;
        order[count] = next;
        if (i == count)
            note_orders(small, order, count + 1);
    }
}

static void make_ready(void) {
    unsigned first = 0, order[MOST];
    for (unsigned i = 0; i < GRAPHLETS; i++) {
        struct small small;
        first += read_small(graphlets[i], first, &small);
        note_orders(&small, order, 0);
    }
    bench_check(first == ORBITS, "orbits");
}

unsigned graphlets_orbits(unsigned most) {
    static const uint8_t orbits[MOST + 1] = {0, 0, 1, 4, ORBITS_OF_4, ORBITS};
    return most <= MOST ? orbits[most] : 0;
}

void graphlets_init(struct graphlets *run, const struct graph *graph, unsigned most, enum graphlets_layout layout,
                    uint32_t *vectors) {
    bench_check(most >= 2 && most <= MOST, "vertices of a graphlet");
    pthread_once(&is_ready, make_ready);
    *run = (struct graphlets){.graph = graph, .most = most, .orbits = graphlets_orbits(most), .vectors = vectors};
    run->vertex_step = layout == BY_VERTEX ? run->orbits : 1;
    run->orbit_step = layout == BY_VERTEX ? 1 : graph->vertices;
    run->touches = calloc((size_t)graph->vertices + 1, 1);
    bench_check(run->touches != NULL, "memory");
}

void graphlets_clear(struct graphlets *run) {
    free(run->touches);
    run->touches = NULL;
}

/* ---- growing ---- */

/* Vertices that may come next, in a list that all levels of a branch share. */
struct branch {
    struct graphlets *run;
    uint32_t vertex[MOST]; /* of the subgraph, in the order they came */
    uint32_t *list;
    size_t capacity;
};

static inline void count_one(struct branch *branch, unsigned vertices, unsigned bits) {
    const uint8_t *orbit = orbit_of[vertices][bits];
    struct graphlets *run = branch->run;
    run->found++;
    for (unsigned i = 0; i < vertices; i++)
        run->vectors[branch->vertex[i] * run->vertex_step + orbit[i] * run->orbit_step]++;
}

static void put(struct branch *branch, size_t at, uint32_t vertex) {
    if (at == branch->capacity) {
        branch->capacity = branch->capacity ? 2 * branch->capacity : 1024;
        branch->list = realloc(branch->list, branch->capacity * sizeof *branch->list);
        bench_check(branch->list != NULL, "memory");
    }
    branch->list[at] = vertex;
}

/* The neighbours of the subgraph's newest vertex; those new to it, and above the least, go to the end of the list.
 * Returns the end. */
static size_t reach(struct branch *branch, unsigned newest, size_t end) {
    const struct graph *graph = branch->run->graph;
    uint8_t *touches = branch->run->touches;
    uint32_t vertex = branch->vertex[newest];
    for (uint64_t i = graph->starts[vertex]; i < graph->starts[vertex + 1]; i++) {
        uint32_t other = graph->ends[i];
        if (touches[other] == 0 && other > branch->vertex[0])
            put(branch, end++, other);
        touches[other] |= (uint8_t)(1u << newest);
    }
    return end;
}

static void leave(const struct branch *branch, unsigned newest) {
    const struct graph *graph = branch->run->graph;
    uint32_t vertex = branch->vertex[newest];
    for (uint64_t i = graph->starts[vertex]; i < graph->starts[vertex + 1]; i++)
        branch->run->touches[graph->ends[i]] &= (uint8_t) ~(1u << newest);
}

/* The subgraph has so many vertices, with these edges; list[from .. end) may come next. */
static void grow(struct branch *branch, unsigned vertices, unsigned bits, size_t from, size_t end) {
    const uint8_t *touches = branch->run->touches;
    for (size_t i = from; i < end; i++) {
        uint32_t next = branch->list[i];
        unsigned all = bits | (unsigned)touches[next] << edge_bit(0, vertices);
        branch->vertex[vertices] = next;
        count_one(branch, vertices + 1, all);
        if (vertices + 1 < branch->run->most && vertices + 1 < MOST) {
            /* What was passed over stays touched, so it cannot come in again; what is left to take comes first. */
            size_t copied = end;
            for (size_t j = i + 1; j < end; j++)
                put(branch, copied++, branch->list[j]);
            size_t last = reach(branch, vertices, copied);
            grow(branch, vertices + 1, all, end, last);
            leave(branch, vertices);
        }
    }
}

void graphlets_count(struct graphlets *run, uint32_t from, uint32_t to) {
    struct branch branch = {.run = run};
    for (uint32_t vertex = from; vertex < to && vertex < run->graph->vertices; vertex++) {
        branch.vertex[0] = vertex;
        size_t end = reach(&branch, 0, 0);
        grow(&branch, 1, 0, 0, end);
        leave(&branch, 0);
    }
    free(branch.list);
}
