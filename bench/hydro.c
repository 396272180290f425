/* The solver: its state, its start, its steps. */
#include "hydro.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "hydro_private.h"

#define RIPPLES 12
#define TILES_LEAST 4u

static const char *const quantity_names[QUANTITIES] = {"density", "momentum_x", "momentum_y", "energy"};

/* ---- the state ---- */

static void *add(struct hydro *hydro, int type, uint64_t rows, uint64_t columns, const char *name) {
    uint64_t dim[ARRAY_DIMS] = {(uint64_t)hydro->slots, rows, columns};
    return arrays_add(&hydro->arrays, type, dim, "%s", name);
}

static void add_cells(struct hydro *hydro) {
    char name[32];
    for (int q = 0; q < QUANTITIES; q++)
        hydro->gas[q] = add(hydro, VARVE_F64, SIDE, SIDE, quantity_names[q]);
    hydro->pressure = add(hydro, VARVE_F64, SIDE, SIDE, "pressure");
    for (int q = 0; q < QUANTITIES; q++) {
        snprintf(name, sizeof name, "flux_x_%s", quantity_names[q]);
        hydro->flux_x[q] = add(hydro, VARVE_F64, CELLS, CELLS + 1, name);
        snprintf(name, sizeof name, "flux_y_%s", quantity_names[q]);
        hydro->flux_y[q] = add(hydro, VARVE_F64, CELLS + 1, CELLS, name);
    }
    hydro->x = add(hydro, VARVE_F64, CELLS, CELLS, "x");
    hydro->y = add(hydro, VARVE_F64, CELLS, CELLS, "y");
    hydro->cell = add(hydro, VARVE_I64, CELLS, CELLS, "cell");
    hydro->flags = add(hydro, VARVE_U8, CELLS, CELLS, "flags");
    hydro->shocked = add(hydro, VARVE_I32, CELLS, CELLS, "shocked");
    hydro->mach = add(hydro, VARVE_F32, CELLS, CELLS, "mach");
    hydro->vorticity = add(hydro, VARVE_F32, CELLS, CELLS, "vorticity");
}

static void add_tree(struct hydro *hydro) {
    hydro->level = add(hydro, VARVE_I32, 0, 0, "level");
    hydro->parent = add(hydro, VARVE_I32, 0, 0, "parent");
    hydro->owner = add(hydro, VARVE_I32, 0, 0, "owner");
    hydro->child = add(hydro, VARVE_I32, 4, 0, "child");
    hydro->beside = add(hydro, VARVE_I32, 8, 0, "beside");
    hydro->place = add(hydro, VARVE_I32, 2, 0, "place");
    hydro->box = add(hydro, VARVE_F64, 4, 0, "box");
    hydro->allowed = add(hydro, VARVE_F64, 0, 0, "allowed");
    hydro->steepness = add(hydro, VARVE_F64, 0, 0, "steepness");
    for (int slot = 0; slot < hydro->slots; slot++)
        hydro->level[slot] = -1;
}

static void add_tile(struct hydro *hydro, unsigned number) {
    struct arrays *arrays = &hydro->arrays;
    struct tile *tile = &hydro->tile[number];
    unsigned column = number % hydro->tiles, row = number / hydro->tiles;
    double size = 1.0 / hydro->tiles, x = column * size, y = row * size;
    tile->box = arrays_add(arrays, VARVE_F64, ARRAY_OF(4), "tile/%u/box", number);
    tile->history = arrays_add(arrays, VARVE_F64, ARRAY_OF(HISTORY), "tile/%u/history", number);
    tile->extremes = arrays_add(arrays, VARVE_F64, ARRAY_OF(QUANTITIES, 3), "tile/%u/extremes", number);
    tile->counts = arrays_add(arrays, VARVE_I64, ARRAY_OF(8), "tile/%u/counts", number);
    tile->label = arrays_add(arrays, VARVE_U8, ARRAY_OF(32), "tile/%u/label", number);
    memcpy(tile->box, ((double[]){x, y, x + size, y + size}), 4 * sizeof(double));
    snprintf((char *)tile->label, 32, "tile %u at %.3f %.3f", number, x, y);
}

/* ---- the start ---- */

struct ripple {
    double size, phase, waves_x, waves_y;
};

static double ripples(const struct ripple *list, double x, double y) {
    double sum = 0;
    for (int i = 0; i < RIPPLES; i++)
        sum += list[i].size * sin(2 * M_PI * (list[i].waves_x * x + list[i].waves_y * y) + list[i].phase);
    return sum;
}

static void choose_ripples(struct ripple *list, uint64_t seed) {
    for (int i = 0; i < RIPPLES; i++) {
        list[i].size = (1 + (double)(bench_random(&seed) % 1000)) * 2e-5;
        list[i].phase = (double)(bench_random(&seed) % 1000) * 2e-3 * M_PI;
        list[i].waves_x = 1 + (double)(bench_random(&seed) % 9);
        list[i].waves_y = (double)(bench_random(&seed) % 9);
    }
}

static void start_cell(struct hydro *hydro, size_t cell, size_t at, const struct ripple list[3][RIPPLES]) {
    double x = hydro->x[cell], y = hydro->y[cell];
    double layer = 0.5 * (tanh((y - 0.25) / 0.02) - tanh((y - 0.75) / 0.02));
    double distance = sqrt((x - 0.3) * (x - 0.3) + (y - 0.4) * (y - 0.4));
    double density = 1 + layer + ripples(list[0], x, y);
    double u = layer - 0.5 + ripples(list[1], x, y), v = ripples(list[2], x, y);
    double p = 2.5 + 60 * 0.5 * (1 - tanh((distance - 0.09) / 0.008));
    hydro->gas[0][at] = density;
    hydro->gas[1][at] = density * u;
    hydro->gas[2][at] = density * v;
    hydro->gas[3][at] = p / (GAMMA - 1) + 0.5 * density * (u * u + v * v);
}

static void start_patches(struct hydro *hydro) {
    struct ripple list[3][RIPPLES];
    for (uint64_t i = 0; i < 3; i++)
        choose_ripples(list[i], 11 + i);
    for (int slot = 0; slot < hydro->slots; slot++)
        for (int j = 0; j < CELLS && hydro->level[slot] >= 0; j++)
            for (int i = 0; i < CELLS; i++)
                start_cell(hydro, ((size_t)slot * CELLS + (size_t)j) * CELLS + (size_t)i,
                           (size_t)slot * AREA + (size_t)((j + GHOSTS) * SIDE + i + GHOSTS), list);
    tree_average(hydro);
    tree_ghosts(hydro);
}

static double mass_of(const struct hydro *hydro) {
    double sum = 0;
    for (int slot = 0; slot < hydro->slots; slot++) {
        double size = is_leaf(hydro, slot) ? cell_size(hydro, slot) : 0, part = 0;
        for (int j = 0; j < CELLS && size > 0; j++)
            for (int i = 0; i < CELLS; i++)
                part += hydro->gas[0][(size_t)slot * AREA + (size_t)((j + GHOSTS) * SIDE + i + GHOSTS)];
        sum += part * size * size;
    }
    return sum;
}

/* The start is exact on every level: refined as often as there are levels, and set again. */
static void start(struct hydro *hydro) {
    for (int i = 0; i < (int)(hydro->tiles * hydro->tiles); i++)
        tree_take(hydro, 0, -1, i % (int)hydro->tiles, i / (int)hydro->tiles);
    tree_map(hydro);
    start_patches(hydro);
    for (int level = 1; level < LEVELS; level++) {
        for (int slot = 0; slot < hydro->slots; slot++)
            if (is_leaf(hydro, slot))
                gas_look(hydro, slot);
        tree_regrid(hydro);
        start_patches(hydro);
    }
    hydro->now[2] = hydro->now[3] = mass_of(hydro);
}

/* Bytes that a slot takes in the arrays of add_cells and add_tree. */
#define SLOT_BYTES                                                                                                     \
    (sizeof(double) * (5 * AREA + 8 * CELLS * (CELLS + 1) + 2 * CELLS * CELLS + 6) +                                   \
     CELLS * CELLS * (sizeof(int64_t) + 1 + sizeof(int32_t) + 2 * sizeof(float)) + 17 * sizeof(int32_t))

struct hydro *hydro_create(size_t bytes) {
    struct hydro *hydro = calloc(1, sizeof *hydro);
    bench_check(hydro != NULL, "memory");
    hydro->tiles = (unsigned)sqrt((double)bytes / SLOT_BYTES / 12);
    hydro->tiles = hydro->tiles < TILES_LEAST ? TILES_LEAST : hydro->tiles;
    hydro->slots = (int)(bytes / SLOT_BYTES);
    if (hydro->slots < (int)(3 * hydro->tiles * hydro->tiles))
        hydro->slots = (int)(3 * hydro->tiles * hydro->tiles);
    add_cells(hydro);
    add_tree(hydro);
    hydro->now = arrays_add(&hydro->arrays, VARVE_F64, ARRAY_OF(4), "now");
    hydro->count = arrays_add(&hydro->arrays, VARVE_I64, ARRAY_OF(4), "count");
    hydro->tile = calloc((size_t)hydro->tiles * hydro->tiles, sizeof *hydro->tile);
    bench_check(hydro->tile != NULL, "memory");
    for (unsigned i = 0; i < hydro->tiles * hydro->tiles; i++)
        add_tile(hydro, i);
    for (int level = 0; level < LEVELS; level++) {
        hydro->map[level] = calloc((size_t)(hydro->tiles * hydro->tiles) << (2 * level), sizeof(int32_t));
        bench_check(hydro->map[level] != NULL, "memory");
    }
    start(hydro);
    return hydro;
}

void hydro_destroy(struct hydro *hydro) {
    for (int level = 0; level < LEVELS; level++)
        free(hydro->map[level]);
    free(hydro->tile);
    arrays_clear(&hydro->arrays);
    free(hydro);
}

/* ---- a step ---- */

static void note_patch(const struct hydro *hydro, int slot, struct tile *tile) {
    int cells = 0;
    for (int i = 0; i < CELLS * CELLS; i++)
        cells += (hydro->flags[(size_t)slot * CELLS * CELLS + (size_t)i] & FLAG_SHOCK) != 0;
    tile->counts[hydro->level[slot]]++;
    tile->counts[3] += cells;
    for (int q = 0; q < QUANTITIES; q++) {
        const double *gas = hydro->gas[q] + (size_t)slot * AREA;
        double *extremes = tile->extremes + q * 3L;
        for (int i = GHOSTS * SIDE; i < AREA - GHOSTS * SIDE; i++) {
            extremes[0] = gas[i] < extremes[0] ? gas[i] : extremes[0];
            extremes[1] = gas[i] > extremes[1] ? gas[i] : extremes[1];
        }
        extremes[2] = 0.5 * (extremes[0] + extremes[1]);
    }
    double *allowed = &tile->history[hydro->count[0] % HISTORY];
    *allowed = hydro->allowed[slot] < *allowed ? hydro->allowed[slot] : *allowed;
}

static void note_tiles(struct hydro *hydro) {
    for (unsigned i = 0; i < hydro->tiles * hydro->tiles; i++) {
        struct tile *tile = &hydro->tile[i];
        memset(tile->counts, 0, 4 * sizeof *tile->counts);
        tile->counts[4] = hydro->count[1];
        tile->counts[5] = hydro->count[0];
        tile->history[hydro->count[0] % HISTORY] = INFINITY;
        for (int q = 0; q < QUANTITIES; q++)
            tile->extremes[q * 3] = INFINITY, tile->extremes[q * 3 + 1] = -INFINITY;
    }
    for (int slot = 0; slot < hydro->slots; slot++)
        if (is_leaf(hydro, slot))
            note_patch(hydro, slot, &hydro->tile[tree_tile(hydro, slot)]);
}

void hydro_step(struct hydro *hydro) {
    double step = INFINITY;
    tree_average(hydro);
    tree_ghosts(hydro);
    for (int slot = 0; slot < hydro->slots; slot++)
        if (hydro->level[slot] >= 0) {
            gas_allowed(hydro, slot);
            step = fmin(step, hydro->allowed[slot]);
        }
    for (int slot = 0; slot < hydro->slots; slot++)
        if (is_leaf(hydro, slot))
            gas_advance(hydro, slot, step);
    hydro->now[0] += step;
    hydro->now[1] = step;
    hydro->count[0]++;
    for (int slot = 0; slot < hydro->slots; slot++)
        if (is_leaf(hydro, slot))
            gas_look(hydro, slot);
    if (hydro->count[0] % REGRID_STEPS == 0)
        tree_regrid(hydro);
    hydro->now[3] = mass_of(hydro);
    note_tiles(hydro);
}

const struct arrays *hydro_arrays(const struct hydro *hydro) {
    return &hydro->arrays;
}

double hydro_drift(const struct hydro *hydro) {
    return hydro->now[3] / hydro->now[2] - 1;
}

unsigned hydro_leaves(const struct hydro *hydro, unsigned level) {
    unsigned count = 0;
    for (int slot = 0; slot < hydro->slots; slot++)
        count += is_leaf(hydro, slot) && hydro->level[slot] == (int)level;
    return count;
}
