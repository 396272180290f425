/* What bench-merkle counts: orbits against counting every set of vertices by itself, values that are known, and what
 * the graphs look like. */
#include <stdlib.h>
#include <string.h>

#include "../../bench/bench.h"
#include "../../bench/graphlets.h"
#include "test.h"

/* ---- an oracle: every set of up to five vertices is looked at ---- */

/* Graphlets by the number of their vertices and edges and by their weights, ascending: a vertex's weight is how many
 * edges it and its neighbours have, all together. The orbits of a graphlet are numbered in the order of the weights. */
static const struct known {
    unsigned vertices, edges, first_orbit;
    const uint8_t weights[5];
} table[30] = {
    {2, 1, 0, {2, 2}},
    {3, 2, 1, {3, 3, 4}},
    {3, 3, 3, {6, 6, 6}},
    {4, 3, 4, {3, 3, 5, 5}},
    {4, 3, 6, {4, 4, 4, 6}},
    {4, 4, 8, {6, 6, 6, 6}},
    {4, 4, 9, {4, 7, 7, 8}},
    {4, 5, 12, {8, 8, 10, 10}},
    {4, 6, 14, {12, 12, 12, 12}},
    {5, 4, 15, {3, 3, 5, 5, 6}},
    {5, 4, 18, {3, 4, 4, 6, 7}},
    {5, 4, 22, {5, 5, 5, 5, 8}},
    {5, 5, 24, {4, 4, 8, 9, 9}},
    {5, 5, 27, {3, 6, 7, 7, 9}},
    {5, 5, 31, {5, 5, 8, 8, 10}},
    {5, 5, 34, {6, 6, 6, 6, 6}},
    {5, 5, 35, {4, 6, 7, 7, 8}},
    {5, 6, 39, {5, 9, 9, 11, 12}},
    {5, 6, 43, {8, 8, 8, 8, 12}},
    {5, 6, 45, {4, 8, 10, 11, 11}},
    {5, 6, 49, {8, 8, 8, 9, 9}},
    {5, 6, 51, {7, 7, 8, 10, 10}},
    {5, 7, 54, {10, 10, 10, 14, 14}},
    {5, 7, 56, {5, 13, 13, 13, 14}},
    {5, 7, 59, {9, 9, 12, 12, 14}},
    {5, 7, 62, {8, 11, 11, 12, 12}},
    {5, 8, 65, {10, 14, 14, 16, 16}},
    {5, 8, 68, {13, 13, 13, 13, 16}},
    {5, 9, 70, {15, 15, 18, 18, 18}},
    {5, 10, 72, {20, 20, 20, 20, 20}},
};

static int is_edge(const struct graph *graph, uint32_t a, uint32_t b) {
    for (uint64_t i = graph->starts[a]; i < graph->starts[a + 1]; i++)
        if (graph->ends[i] == b)
            return 1;
    return 0;
}

static int compare_weights(const void *a, const void *b) {
    return *(const uint8_t *)a - *(const uint8_t *)b;
}

/* Is there a way between all of them? near[i]: the neighbours of the i-th, as bits. */
static int is_connected(const unsigned *near, unsigned count) {
    unsigned reached = 1, before = 0;
    while (reached != before) {
        before = reached;
        for (unsigned i = 0; i < count; i++)
            if (reached >> i & 1)
                reached |= near[i];
    }
    return reached == (1u << count) - 1;
}

static void count_set(const struct graph *graph, const uint32_t *set, unsigned count, uint32_t *vectors) {
    unsigned near[5] = {0}, edges = 0, orbit = 0;
    uint8_t weights[5] = {0}, sorted[5] = {0};
    const struct known *known = table;
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < count; j++)
            if (i != j && is_edge(graph, set[i], set[j]))
                near[i] |= 1u << j, edges++;
    if (!is_connected(near, count))
        return;
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < count; j++)
            if (i == j || near[i] >> j & 1)
                weights[i] += (uint8_t)__builtin_popcount(near[j]);
    memcpy(sorted, weights, sizeof sorted);
    qsort(sorted, count, 1, compare_weights);
    while (known < table + 30 && (known->vertices != count || 2 * known->edges != edges ||
                                  memcmp(known->weights, sorted, sizeof sorted) != 0))
        known++;
    assert_true(known < table + 30);
    for (unsigned k = 0; k < count; k++) {
        orbit += k > 0 && sorted[k] != sorted[k - 1];
        for (unsigned i = 0; i < count && (k == 0 || sorted[k] != sorted[k - 1]); i++)
            if (weights[i] == sorted[k])
                vectors[set[i] * ORBITS + known->first_orbit + orbit]++;
    }
}

static void count_sets(const struct graph *graph, uint32_t *set, unsigned count, uint32_t next, uint32_t *vectors) {
    if (count >= 2)
        count_set(graph, set, count, vectors);
    for (uint32_t v = next; v < graph->vertices && count < 5; v++) {
        set[count] = v;
        count_sets(graph, set, count + 1, v + 1, vectors);
    }
}

/* ---- tests ---- */

#define MOST_VERTICES 16u

static void count_all(const struct graph *graph, unsigned most, uint32_t *vectors) {
    struct graphlets run;
    memset(vectors, 0, (size_t)graph->vertices * graphlets_orbits(most) * sizeof *vectors);
    graphlets_init(&run, graph, most, BY_VERTEX, vectors);
    graphlets_count(&run, 0, graph->vertices);
    graphlets_clear(&run);
}

static struct graph *random_graph(uint32_t vertices, unsigned percent, uint64_t *random) {
    struct edges edges = {0};
    for (uint32_t a = 0; a < vertices; a++)
        for (uint32_t b = a + 1; b < vertices; b++)
            if (bench_random(random) % 100 < percent)
                edges_add(&edges, b, a);
    return graph_build(vertices, &edges);
}

static void test_random(void **state) {
    uint32_t counted[MOST_VERTICES * ORBITS], wanted[MOST_VERTICES * ORBITS], set[5];
    uint64_t random = 5;
    uint8_t is_seen[ORBITS] = {0};
    (void)state;
    for (unsigned i = 0; i < 120; i++) {
        struct graph *graph = random_graph(5 + i % 10, 10 + i * 17 % 90, &random);
        memset(wanted, 0, sizeof wanted);
        count_sets(graph, set, 0, 0, wanted);
        count_all(graph, 5, counted);
        assert_memory_equal(counted, wanted, (size_t)graph->vertices * ORBITS * sizeof *counted);
        for (size_t j = 0; j < (size_t)graph->vertices * ORBITS; j++)
            is_seen[j % ORBITS] |= wanted[j] != 0;
        graph_free(graph);
    }
    for (unsigned i = 0; i < ORBITS; i++)
        assert_true(is_seen[i]);
}

/* Fewer vertices: the same counters, and no others. */
static void test_fewer(void **state) {
    uint32_t all[MOST_VERTICES * ORBITS], few[MOST_VERTICES * ORBITS];
    uint64_t random = 6;
    (void)state;
    struct graph *graph = random_graph(MOST_VERTICES, 40, &random);
    count_all(graph, 5, all);
    for (unsigned most = 2; most < 5; most++) {
        unsigned orbits = graphlets_orbits(most);
        count_all(graph, most, few);
        for (uint32_t v = 0; v < graph->vertices; v++)
            assert_memory_equal(few + v * orbits, all + v * ORBITS, orbits * sizeof *few);
    }
    assert_int_equal(graphlets_orbits(4), ORBITS_OF_4);
    graph_free(graph);
}

/* In parts, as a program that stops for its checkpoints. */
static void test_parts(void **state) {
    uint32_t whole[MOST_VERTICES * ORBITS], parts[MOST_VERTICES * ORBITS] = {0};
    uint64_t random = 7;
    struct graphlets run;
    (void)state;
    struct graph *graph = random_graph(MOST_VERTICES, 30, &random);
    count_all(graph, 5, whole);
    graphlets_init(&run, graph, 5, BY_VERTEX, parts);
    for (uint32_t from = 0; from < MOST_VERTICES; from += 5)
        graphlets_count(&run, from, from + 5); /* beyond the last is nothing */
    graphlets_clear(&run);
    assert_memory_equal(parts, whole, sizeof whole);
    graph_free(graph);
}

static void test_layouts(void **state) {
    uint32_t by_vertex[MOST_VERTICES * ORBITS], by_orbit[MOST_VERTICES * ORBITS] = {0};
    uint64_t random = 8;
    struct graphlets run;
    (void)state;
    struct graph *graph = random_graph(MOST_VERTICES, 30, &random);
    count_all(graph, 5, by_vertex);
    graphlets_init(&run, graph, 5, BY_ORBIT, by_orbit);
    graphlets_count(&run, 0, MOST_VERTICES);
    graphlets_clear(&run);
    for (unsigned v = 0; v < MOST_VERTICES; v++)
        for (unsigned orbit = 0; orbit < ORBITS; orbit++)
            assert_int_equal(by_orbit[orbit * MOST_VERTICES + v], by_vertex[v * ORBITS + orbit]);
    graph_free(graph);
}

static uint32_t one(const uint32_t *vectors, uint32_t vertex, unsigned orbit) {
    return vectors[vertex * ORBITS + orbit];
}

static uint32_t sum(const uint32_t *vectors, uint32_t vertex) {
    uint32_t all = 0;
    for (unsigned i = 0; i < ORBITS; i++)
        all += one(vectors, vertex, i);
    return all;
}

static void test_complete(void **state) {
    uint32_t vectors[MOST_VERTICES * ORBITS];
    uint64_t random = 1;
    (void)state;
    struct graph *graph = random_graph(5, 100, &random);
    count_all(graph, 5, vectors);
    for (uint32_t v = 0; v < 5; v++) {
        assert_int_equal(one(vectors, v, 0), 4);
        assert_int_equal(one(vectors, v, 3), 6);
        assert_int_equal(one(vectors, v, 14), 4);
        assert_int_equal(one(vectors, v, 72), 1);
        assert_int_equal(sum(vectors, v), 15);
    }
    graph_free(graph);
}

/* vertices in a row; a ring if closed. */
static struct graph *row(uint32_t vertices, int is_closed) {
    struct edges edges = {0};
    for (uint32_t v = 0; v + 1 < vertices; v++)
        edges_add(&edges, v, v + 1);
    if (is_closed)
        edges_add(&edges, vertices - 1, 0);
    return graph_build(vertices, &edges);
}

static void test_rings(void **state) {
    static const unsigned paths[4][3] = {{0, 0, 0}, {1, 2, 1}, {4, 5, 0}, {15, 16, 17}};
    uint32_t vectors[MOST_VERTICES * ORBITS];
    (void)state;
    struct graph *ring = row(9, 1), *four = row(4, 1), *five = row(5, 1);
    count_all(ring, 5, vectors);
    for (uint32_t v = 0; v < 9; v++) {
        assert_int_equal(one(vectors, v, paths[0][0]), 2);
        assert_int_equal(one(vectors, v, paths[1][0]), 2);
        assert_int_equal(one(vectors, v, paths[1][1]), 1);
        assert_int_equal(one(vectors, v, paths[2][0]), 2);
        assert_int_equal(one(vectors, v, paths[2][1]), 2);
        assert_int_equal(one(vectors, v, paths[3][0]), 2);
        assert_int_equal(one(vectors, v, paths[3][1]), 2);
        assert_int_equal(one(vectors, v, paths[3][2]), 1);
        assert_int_equal(sum(vectors, v), 14);
    }
    count_all(four, 5, vectors);
    assert_int_equal(one(vectors, 0, 8), 1);
    assert_int_equal(sum(vectors, 0), 2 + 3 + 1);
    count_all(five, 5, vectors);
    assert_int_equal(one(vectors, 4, 34), 1);
    assert_int_equal(sum(vectors, 4), 2 + 3 + 4 + 1);
    graph_free(ring);
    graph_free(four);
    graph_free(five);
}

static void test_path_and_star(void **state) {
    uint32_t vectors[MOST_VERTICES * ORBITS];
    struct edges edges = {0};
    (void)state;
    struct graph *path = row(5, 0);
    count_all(path, 5, vectors);
    assert_int_equal(one(vectors, 0, 15), 1);
    assert_int_equal(one(vectors, 1, 16), 1);
    assert_int_equal(one(vectors, 2, 17), 1);
    assert_int_equal(one(vectors, 2, 5), 2);
    assert_int_equal(sum(vectors, 0), 4);
    for (uint32_t v = 1; v < 8; v++)
        edges_add(&edges, 0, v);
    struct graph *star = graph_build(8, &edges);
    count_all(star, 5, vectors);
    assert_int_equal(one(vectors, 0, 0), 7);
    assert_int_equal(one(vectors, 0, 2), 21);
    assert_int_equal(one(vectors, 0, 7), 35);
    assert_int_equal(one(vectors, 0, 23), 35);
    assert_int_equal(sum(vectors, 0), 7 + 21 + 35 + 35);
    assert_int_equal(one(vectors, 3, 22), 20);
    assert_int_equal(sum(vectors, 3), 1 + 6 + 15 + 20);
    graph_free(path);
    graph_free(star);
}

/* Nobody is alone, edges lead both ways, and neighbours have numbers near each other. */
static void check_graph(const struct graph *graph, double edges_per_vertex) {
    uint64_t apart = 0, ends = graph->starts[graph->vertices];
    for (uint32_t v = 0; v < graph->vertices; v++) {
        assert_true(graph->starts[v] < graph->starts[v + 1]);
        for (uint64_t i = graph->starts[v]; i < graph->starts[v + 1]; i++) {
            uint32_t other = graph->ends[i];
            assert_true(other < graph->vertices && other != v && is_edge(graph, other, v));
            assert_true(i == graph->starts[v] || graph->ends[i - 1] < other);
            apart += other > v ? other - v : v - other;
        }
    }
    assert_float_equal((double)ends / 2 / graph->vertices, edges_per_vertex, 0.05 * edges_per_vertex);
    assert_true((double)apart / (double)ends < 0.1 * graph->vertices);
}

static void test_kinds(void **state) {
    static const double edges_per_vertex[5] = {1.5, 1.5, 1.0637, 1.5, 3};
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct graph *graph = graph_make(graph_kinds[i], 20000, 3), *again = graph_make(graph_kinds[i], 20000, 3);
        assert_non_null(graph);
        assert_in_range(graph->vertices, 18000, 22000);
        check_graph(graph, edges_per_vertex[i]);
        assert_int_equal(again->vertices, graph->vertices);
        assert_memory_equal(again->ends, graph->ends, graph->starts[graph->vertices] * sizeof *graph->ends);
        graph_free(graph);
        graph_free(again);
    }
    assert_null(graph_make("triangle", 20000, 3));
}

/* Two graphs with the same edges under other numbers. */
static void test_order(void **state) {
    uint32_t before[MOST_VERTICES * ORBITS], after[MOST_VERTICES * ORBITS];
    uint64_t random = 9, sums[2][ORBITS] = {{0}};
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct graph *graph = random_graph(MOST_VERTICES, 5 + i, &random);
        count_all(graph, 5, before);
        graph = graph_order(graph);
        count_all(graph, 5, after);
        for (size_t j = 0; j < (size_t)MOST_VERTICES * ORBITS; j++)
            sums[0][j % ORBITS] += before[j], sums[1][j % ORBITS] += after[j];
        graph_free(graph);
    }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),        cmocka_unit_test(test_fewer),    cmocka_unit_test(test_parts),
        cmocka_unit_test(test_layouts),       cmocka_unit_test(test_complete), cmocka_unit_test(test_rings),
        cmocka_unit_test(test_path_and_star), cmocka_unit_test(test_kinds),    cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
