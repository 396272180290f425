/* Events of message-passing programs, and what connects them: each process is a chain of its events in the order they
 * happened, and a message is an edge from its send to its receive. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "graph_kinds.h"

#define PROCESSES 128u
#define NEAREST 4u /* the neighbours that a process has at least */

struct events {
    struct edges *edges;
    uint32_t count;
    uint32_t last[PROCESSES]; /* event of each process */
    uint64_t random;
};

static uint32_t below(struct events *events, uint32_t bound) {
    return (uint32_t)(bench_random(&events->random) % bound);
}

static void shuffle(struct events *events, uint32_t *list, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = below(events, i), kept = list[i - 1];
        list[i - 1] = list[j];
        list[j] = kept;
    }
}

static uint32_t next_event(struct events *events, uint32_t process) {
    uint32_t event = events->count++;
    edges_add(events->edges, events->last[process], event);
    events->last[process] = event;
    return event;
}

static void begin_all(struct events *events, uint64_t seed, struct edges *out) {
    *events = (struct events){.edges = out, .random = seed};
    for (uint32_t p = 0; p < PROCESSES; p++)
        events->last[p] = events->count++;
}

static uint32_t end_all(struct events *events) {
    for (uint32_t p = 0; p < PROCESSES; p++)
        next_event(events, p);
    return events->count;
}

/* ---- all to one ---- */

uint32_t make_message_race(uint32_t vertices, uint64_t seed, struct edges *out) {
    struct events events;
    uint32_t sends[PROCESSES], senders = PROCESSES - 1;
    uint32_t iterations = vertices > 2 * PROCESSES ? (vertices - 2 * PROCESSES) / (2 * senders) : 1;
    begin_all(&events, seed, out);
    for (uint32_t k = 0; k < iterations; k++) {
        for (uint32_t p = 0; p < senders; p++)
            sends[p] = next_event(&events, p + 1);
        shuffle(&events, sends, senders);
        for (uint32_t i = 0; i < senders; i++)
            edges_add(out, sends[i], next_event(&events, 0));
    }
    return end_all(&events);
}

/* ---- each with its neighbours ---- */

struct mesh {
    uint8_t is_near[PROCESSES][PROCESSES];
    uint32_t sends[PROCESSES][PROCESSES]; /* of this iteration, from the first to the second */
    uint32_t pairs;                       /* neighbours of all processes, together */
};

/* The NEAREST places, and those who have this one among theirs. */
static void find_neighbours(struct events *events, struct mesh *mesh) {
    double at[PROCESSES][2];
    for (uint32_t p = 0; p < PROCESSES; p++)
        for (unsigned i = 0; i < 2; i++)
            at[p][i] = (double)(bench_random(&events->random) >> 11) * 0x1p-53;
    for (uint32_t p = 0; p < PROCESSES; p++)
        for (unsigned found = 0; found < NEAREST; found++) {
            uint32_t best = p;
            double least = 4;
            for (uint32_t q = 0; q < PROCESSES; q++) {
                double x = at[p][0] - at[q][0], y = at[p][1] - at[q][1], far = x * x + y * y;
                if (q != p && mesh->is_near[p][q] != 2 && far < least)
                    best = q, least = far;
            }
            mesh->is_near[p][best] = 2; /* found by p itself */
            if (mesh->is_near[best][p] == 0)
                mesh->is_near[best][p] = 1;
        }
    for (uint32_t p = 0; p < PROCESSES; p++)
        for (uint32_t q = 0; q < PROCESSES; q++)
            mesh->pairs += mesh->is_near[p][q] != 0;
}

static void exchange(struct events *events, struct mesh *mesh) {
    uint32_t from[PROCESSES];
    for (uint32_t p = 0; p < PROCESSES; p++)
        for (uint32_t q = 0; q < PROCESSES; q++)
            if (mesh->is_near[p][q])
                mesh->sends[p][q] = next_event(events, p);
    for (uint32_t p = 0; p < PROCESSES; p++) {
        uint32_t count = 0;
        for (uint32_t q = 0; q < PROCESSES; q++)
            if (mesh->is_near[p][q])
                from[count++] = q;
        shuffle(events, from, count);
        for (uint32_t i = 0; i < count; i++)
            edges_add(events->edges, mesh->sends[from[i]][p], next_event(events, p));
    }
}

uint32_t make_unstructured_mesh(uint32_t vertices, uint64_t seed, struct edges *out) {
    struct events events;
    struct mesh *mesh = calloc(1, sizeof *mesh);
    bench_check(mesh != NULL, "memory");
    begin_all(&events, seed, out);
    find_neighbours(&events, mesh);
    uint32_t iterations = vertices > 2 * PROCESSES ? (vertices - 2 * PROCESSES) / (2 * mesh->pairs) : 1;
    for (uint32_t k = 0; k < iterations || k == 0; k++)
        exchange(&events, mesh);
    free(mesh);
    return end_all(&events);
}
