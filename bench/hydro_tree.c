/* The tree of patches: who is beside whom, ghost cells, and where it is refined. */
#include "hydro_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REFINE_ABOVE 0.02 /* steepness */
#define JOIN_BELOW 0.01

static const int around[8][2] = {{-1, -1}, {0, -1}, {1, -1}, {-1, 0}, {1, 0}, {-1, 1}, {0, 1}, {1, 1}};

unsigned tree_tile(const struct hydro *hydro, int slot) {
    int level = hydro->level[slot];
    unsigned x = (unsigned)hydro->place[slot * 2] >> level, y = (unsigned)hydro->place[slot * 2 + 1] >> level;
    return y * hydro->tiles + x;
}

/* What follows from where a patch lies. */
static void describe(struct hydro *hydro, int slot) {
    double size = cell_size(hydro, slot);
    int64_t across = (int64_t)hydro->tiles * CELLS << hydro->level[slot];
    int at_x = hydro->place[slot * 2], at_y = hydro->place[slot * 2 + 1];
    size_t first = (size_t)slot * CELLS * CELLS;
    for (int j = 0; j < CELLS; j++)
        for (int i = 0; i < CELLS; i++) {
            size_t at = first + (size_t)(j * CELLS + i);
            hydro->x[at] = (at_x * CELLS + i + 0.5) * size;
            hydro->y[at] = (at_y * CELLS + j + 0.5) * size;
            hydro->cell[at] = ((int64_t)hydro->level[slot] << 56) + (at_y * CELLS + j) * across + at_x * CELLS + i;
            hydro->shocked[at] = 0;
        }
    double box[4] = {at_x * CELLS * size, at_y * CELLS * size, (at_x + 1) * CELLS * size, (at_y + 1) * CELLS * size};
    memcpy(hydro->box + slot * 4, box, sizeof box);
}

int tree_take(struct hydro *hydro, int level, int parent, int at_x, int at_y) {
    int slot = 0;
    while (slot < hydro->slots && hydro->level[slot] >= 0)
        slot++;
    if (slot == hydro->slots)
        return -1;
    hydro->level[slot] = level;
    hydro->parent[slot] = parent;
    hydro->place[slot * 2] = at_x;
    hydro->place[slot * 2 + 1] = at_y;
    for (int i = 0; i < 4; i++)
        hydro->child[slot * 4 + i] = -1;
    describe(hydro, slot);
    hydro->owner[slot] = (int32_t)(tree_tile(hydro, slot) % 8);
    hydro->count[2]++;
    return slot;
}

void tree_map(struct hydro *hydro) {
    for (int level = 0; level < LEVELS; level++) {
        int across = (int)hydro->tiles << level;
        for (int i = 0; i < across * across; i++)
            hydro->map[level][i] = -1;
    }
    for (int slot = 0; slot < hydro->slots; slot++)
        if (hydro->level[slot] >= 0)
            hydro->map[hydro->level[slot]][hydro->place[slot * 2 + 1] * ((int)hydro->tiles << hydro->level[slot]) +
                                           hydro->place[slot * 2]] = slot;
    for (int slot = 0; slot < hydro->slots; slot++)
        for (int i = 0; i < 8 && hydro->level[slot] >= 0; i++) {
            int across = (int)hydro->tiles << hydro->level[slot];
            int x = (hydro->place[slot * 2] + around[i][0] + across) % across;
            int y = (hydro->place[slot * 2 + 1] + around[i][1] + across) % across;
            hydro->beside[slot * 8 + i] = hydro->map[hydro->level[slot]][y * across + x];
        }
}

/* ---- between levels ---- */

static void average_one(struct hydro *hydro, int slot) {
    for (int part = 0; part < 4; part++) {
        int from = hydro->child[slot * 4 + part];
        int x = part % 2 * CELLS / 2 + GHOSTS, y = part / 2 * CELLS / 2 + GHOSTS;
        for (int q = 0; q < QUANTITIES; q++) {
            const double *fine = hydro->gas[q] + (size_t)from * AREA;
            double *coarse = hydro->gas[q] + (size_t)slot * AREA;
            for (int j = 0; j < CELLS / 2; j++)
                for (int i = 0; i < CELLS / 2; i++) {
                    const double *four = fine + (2 * j + GHOSTS) * SIDE + 2 * i + GHOSTS;
                    coarse[(y + j) * SIDE + x + i] = 0.25 * (four[0] + four[1] + four[SIDE] + four[SIDE + 1]);
                }
        }
    }
}

void tree_average(struct hydro *hydro) {
    for (int level = LEVELS - 2; level >= 0; level--)
        for (int slot = 0; slot < hydro->slots; slot++)
            if (hydro->level[slot] == level && !is_leaf(hydro, slot))
                average_one(hydro, slot);
}

static double limited(double left, double here, double right) {
    double a = here - left, b = right - here;
    return a * b <= 0 ? 0 : fabs(a) < fabs(b) ? a : b;
}

/* The value of a fine cell from the patch that was divided; i, j: from the first inner cell on, ghosts are below 0. */
static double from_parent(const struct hydro *hydro, int slot, int q, int i, int j) {
    const double *coarse = hydro->gas[q] + (size_t)hydro->parent[slot] * AREA;
    int x = hydro->place[slot * 2] % 2 * CELLS + i + 2 * GHOSTS,
        y = hydro->place[slot * 2 + 1] % 2 * CELLS + j + 2 * GHOSTS;
    const double *at = coarse + y / 2 * SIDE + x / 2;
    double along_x = limited(at[-1], at[0], at[1]), along_y = limited(at[-SIDE], at[0], at[SIDE]);
    return at[0] + (x % 2 ? 0.25 : -0.25) * along_x + (y % 2 ? 0.25 : -0.25) * along_y;
}

/* Which of the eight neighbours has the cell (i, j); -1: the patch itself. */
static int neighbour_of(int i, int j) {
    int x = i < 0 ? 0 : i < CELLS ? 1 : 2, y = j < 0 ? 0 : j < CELLS ? 1 : 2;
    int at = y * 3 + x;
    return at == 4 ? -1 : at < 4 ? at : at - 1;
}

static void ghosts_of(struct hydro *hydro, int slot) {
    for (int j = -GHOSTS; j < CELLS + GHOSTS; j++)
        for (int i = -GHOSTS; i < CELLS + GHOSTS; i++) {
            int which = neighbour_of(i, j);
            if (which < 0) {
                i = CELLS - 1;
                continue;
            }
            int from = hydro->beside[slot * 8 + which];
            size_t to = (size_t)slot * AREA + (size_t)((j + GHOSTS) * SIDE + i + GHOSTS);
            size_t at = (size_t)(((j + CELLS) % CELLS + GHOSTS) * SIDE + (i + CELLS) % CELLS + GHOSTS);
            for (int q = 0; q < QUANTITIES; q++)
                hydro->gas[q][to] =
                    from >= 0 ? hydro->gas[q][(size_t)from * AREA + at] : from_parent(hydro, slot, q, i, j);
        }
}

/* Coarse ones first: their ghosts are what finer ones take theirs from. */
void tree_ghosts(struct hydro *hydro) {
    for (int level = 0; level < LEVELS; level++)
        for (int slot = 0; slot < hydro->slots; slot++)
            if (hydro->level[slot] == level)
                ghosts_of(hydro, slot);
}

/* ---- where it is refined ---- */

static void divide(struct hydro *hydro, int slot) {
    for (int part = 0; part < 4; part++) {
        int x = hydro->place[slot * 2] * 2 + part % 2, y = hydro->place[slot * 2 + 1] * 2 + part / 2;
        int born = tree_take(hydro, hydro->level[slot] + 1, slot, x, y);
        hydro->child[slot * 4 + part] = born;
        for (int j = -GHOSTS; j < CELLS + GHOSTS; j++)
            for (int i = -GHOSTS; i < CELLS + GHOSTS; i++)
                for (int q = 0; q < QUANTITIES; q++)
                    hydro->gas[q][(size_t)born * AREA + (size_t)((j + GHOSTS) * SIDE + i + GHOSTS)] =
                        from_parent(hydro, born, q, i, j);
    }
}

static void join_parts(struct hydro *hydro, int slot) {
    for (int part = 0; part < 4; part++) {
        hydro->level[hydro->child[slot * 4 + part]] = -1;
        hydro->child[slot * 4 + part] = -1;
        hydro->count[3]++;
    }
}

static int may_join(const struct hydro *hydro, int slot) {
    for (int part = 0; part < 4; part++) {
        int child = hydro->child[slot * 4 + part];
        if (child < 0 || !is_leaf(hydro, child) || hydro->steepness[child] > JOIN_BELOW)
            return 0;
    }
    return 1;
}

struct candidate {
    double steepness;
    int slot;
};

static int compare_candidates(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return x->steepness != y->steepness ? (x->steepness < y->steepness ? 1 : -1) : x->slot - y->slot;
}

/* The steepest first, as long as there is room. */
static void divide_some(struct hydro *hydro) {
    struct candidate *list = calloc((unsigned)hydro->slots, sizeof *list);
    size_t count = 0;
    int used = 0;
    for (int slot = 0; list && slot < hydro->slots; slot++) {
        used += hydro->level[slot] >= 0;
        if (is_leaf(hydro, slot) && hydro->level[slot] < LEVELS - 1 && hydro->steepness[slot] > REFINE_ABOVE)
            list[count++] = (struct candidate){hydro->steepness[slot], slot};
    }
    if (list)
        qsort(list, count, sizeof *list, compare_candidates);
    for (size_t i = 0; i < count && used + 4 <= hydro->slots; i++, used += 4)
        divide(hydro, list[i].slot);
    free(list);
}

void tree_regrid(struct hydro *hydro) {
    tree_average(hydro);
    tree_ghosts(hydro);
    for (int slot = 0; slot < hydro->slots; slot++)
        if (hydro->level[slot] >= 0 && !is_leaf(hydro, slot) && may_join(hydro, slot))
            join_parts(hydro, slot);
    divide_some(hydro);
    tree_map(hydro);
    hydro->count[1]++;
}
