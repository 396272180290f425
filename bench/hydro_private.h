/* What the parts of the solver share. */
#ifndef HYDRO_PRIVATE_H
#define HYDRO_PRIVATE_H

#include "hydro.h"

#define CELLS 16 /* of a patch, along each side */
#define GHOSTS 2 /* around it */
#define SIDE (CELLS + 2 * GHOSTS)
#define AREA (SIDE * SIDE)
#define LEVELS 3
#define QUANTITIES 4 /* density, momentum in x and y, energy */
#define GAMMA 1.4
#define HISTORY 64 /* steps that a tile remembers */
#define REGRID_STEPS 10

enum flag { FLAG_SHOCK = 1, FLAG_STEEP = 2, FLAG_EDGE = 4, FLAG_ROTATES = 8 };

struct tile {
    double *box;      /* 4 */
    double *history;  /* HISTORY time steps that it would have allowed */
    double *extremes; /* least, greatest and mean of each quantity */
    int64_t *counts;  /* leaves per level, cells flagged, regrids, last step */
    uint8_t *label;   /* 32 */
};

struct hydro {
    struct arrays arrays;
    unsigned tiles;             /* along each side */
    int slots;                  /* places for patches */
    double *gas[QUANTITIES];    /* [slots][SIDE][SIDE] */
    double *pressure;           /* the same */
    double *flux_x[QUANTITIES]; /* [slots][CELLS][CELLS + 1] */
    double *flux_y[QUANTITIES]; /* [slots][CELLS + 1][CELLS] */
    double *x, *y;              /* [slots][CELLS][CELLS] */
    int64_t *cell;              /* number of each cell */
    uint8_t *flags;
    int32_t *shocked; /* steps during which a cell was in a shock */
    float *mach, *vorticity;
    int32_t *level, *parent, *owner; /* of each slot; level -1: nobody is there */
    int32_t *child;                  /* [slots][4]; -1: not divided */
    int32_t *beside;                 /* [slots][8]: the same level's neighbours, or -1 */
    int32_t *place;                  /* [slots][2]: x and y in units of its level */
    double *box, *allowed;           /* [slots][4]; the time step it would allow */
    double *steepness;
    struct tile *tile;
    double *now;          /* time, time step, mass at the start, mass */
    int64_t *count;       /* steps, regrids, born, died */
    int32_t *map[LEVELS]; /* which slot lies where; not part of the state */
};

static inline double cell_size(const struct hydro *hydro, int slot) {
    return 1.0 / (hydro->tiles * (double)(1 << hydro->level[slot]) * CELLS);
}

static inline int is_leaf(const struct hydro *hydro, int slot) {
    return hydro->level[slot] >= 0 && hydro->child[slot * 4] < 0;
}

/* ---- hydro_tree.c ---- */
int tree_take(struct hydro *hydro, int level, int parent, int at_x, int at_y); /* a free slot, or -1 */
void tree_map(struct hydro *hydro);                                            /* neighbours, after any change */
void tree_average(struct hydro *hydro);                                        /* divided patches from their parts */
void tree_ghosts(struct hydro *hydro);
void tree_regrid(struct hydro *hydro);
unsigned tree_tile(const struct hydro *hydro, int slot); /* that it lies in */

/* ---- hydro_gas.c ---- */
double gas_pressure(const struct hydro *hydro, size_t at);
void gas_allowed(struct hydro *hydro, int slot); /* pressure, and the time step */
void gas_advance(struct hydro *hydro, int slot, double step);
void gas_look(struct hydro *hydro, int slot); /* flags, counters, pictures, steepness */

#endif
