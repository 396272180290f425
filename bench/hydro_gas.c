/* One patch of gas: a time step, and what is seen in it. */
#include "hydro_private.h"

#include <math.h>
#include <string.h>

#define LEAST 1e-6 /* density and pressure never fall below */
#define COURANT 0.4

/* density, velocity in x and y, pressure */
struct primitive {
    double v[QUANTITIES];
};

static double minmod(double a, double b) {
    return a * b <= 0 ? 0 : fabs(a) < fabs(b) ? a : b;
}

double gas_pressure(const struct hydro *hydro, size_t at) {
    double density = hydro->gas[0][at], mx = hydro->gas[1][at], my = hydro->gas[2][at];
    double p = (GAMMA - 1) * (hydro->gas[3][at] - 0.5 * (mx * mx + my * my) / density);
    return p > LEAST ? p : LEAST;
}

static void read_patch(const struct hydro *hydro, int slot, struct primitive *out) {
    size_t first = (size_t)slot * AREA;
    for (size_t i = 0; i < AREA; i++) {
        double density = hydro->gas[0][first + i];
        density = density > LEAST ? density : LEAST;
        out[i] = (struct primitive){{density, hydro->gas[1][first + i] / density, hydro->gas[2][first + i] / density,
                                     gas_pressure(hydro, first + i)}};
    }
}

void gas_allowed(struct hydro *hydro, int slot) {
    double fastest = 1e-12;
    for (size_t i = 0; i < AREA; i++) {
        size_t at = (size_t)slot * AREA + i;
        double density = hydro->gas[0][at], p = gas_pressure(hydro, at);
        double speed = fmax(fabs(hydro->gas[1][at]), fabs(hydro->gas[2][at])) / density + sqrt(GAMMA * p / density);
        hydro->pressure[at] = p;
        fastest = speed > fastest ? speed : fastest;
    }
    hydro->allowed[slot] = COURANT * cell_size(hydro, slot) / fastest;
}

/* ---- a step ---- */

/* How the primitive quantities change in time where they have this slope along one axis (1: x, 2: y). */
static void change(const struct primitive *w, const struct primitive *slope, int axis, double *out) {
    double u = w->v[axis];
    out[0] -= u * slope->v[0] + w->v[0] * slope->v[axis];
    out[1] -= u * slope->v[1];
    out[2] -= u * slope->v[2];
    out[axis] -= slope->v[3] / w->v[0];
    out[3] -= u * slope->v[3] + GAMMA * w->v[3] * slope->v[axis];
}

struct slopes {
    struct primitive x[AREA], y[AREA], half[AREA]; /* half: in the middle of the step */
};

static void find_slopes(const struct primitive *w, double step_over_size, struct slopes *s) {
    for (int j = 1; j < SIDE - 1; j++)
        for (int i = 1; i < SIDE - 1; i++) {
            int at = j * SIDE + i;
            double rate[QUANTITIES] = {0};
            for (int q = 0; q < QUANTITIES; q++) {
                double here = w[at].v[q];
                s->x[at].v[q] = minmod(here - w[at - 1].v[q], w[at + 1].v[q] - here);
                s->y[at].v[q] = minmod(here - w[at - SIDE].v[q], w[at + SIDE].v[q] - here);
            }
            change(&w[at], &s->x[at], 1, rate);
            change(&w[at], &s->y[at], 2, rate);
            for (int q = 0; q < QUANTITIES; q++)
                s->half[at].v[q] = w[at].v[q] + 0.5 * step_over_size * rate[q];
        }
}

static struct primitive toward(const struct primitive *half, const struct primitive *slope, double side) {
    struct primitive out;
    for (int q = 0; q < QUANTITIES; q++)
        out.v[q] = half->v[q] + side * 0.5 * slope->v[q];
    out.v[0] = out.v[0] > LEAST ? out.v[0] : LEAST;
    out.v[3] = out.v[3] > LEAST ? out.v[3] : LEAST;
    return out;
}

static void conserved(const struct primitive *w, int axis, double *u, double *flux) {
    double energy = w->v[3] / (GAMMA - 1) + 0.5 * w->v[0] * (w->v[1] * w->v[1] + w->v[2] * w->v[2]);
    double speed = w->v[axis];
    u[0] = w->v[0], u[1] = w->v[0] * w->v[1], u[2] = w->v[0] * w->v[2], u[3] = energy;
    for (int q = 0; q < QUANTITIES; q++)
        flux[q] = u[q] * speed;
    flux[axis] += w->v[3];
    flux[3] += w->v[3] * speed;
}

/* HLL: two waves, as fast as the fastest on either side. */
static void face(const struct primitive *left, const struct primitive *right, int axis, double *out) {
    double ul[QUANTITIES], ur[QUANTITIES], fl[QUANTITIES], fr[QUANTITIES];
    double cl = sqrt(GAMMA * left->v[3] / left->v[0]), cr = sqrt(GAMMA * right->v[3] / right->v[0]);
    double low = fmin(left->v[axis] - cl, right->v[axis] - cr), high = fmax(left->v[axis] + cl, right->v[axis] + cr);
    conserved(left, axis, ul, fl);
    conserved(right, axis, ur, fr);
    low = low < 0 ? low : 0;
    high = high > 0 ? high : 0;
    for (int q = 0; q < QUANTITIES; q++)
        out[q] = (high * fl[q] - low * fr[q] + low * high * (ur[q] - ul[q])) / (high - low);
}

static void find_fluxes(struct hydro *hydro, int slot, const struct slopes *s) {
    size_t first = (size_t)slot * CELLS * (CELLS + 1);
    double out[QUANTITIES];
    for (int j = 0; j < CELLS; j++)
        for (int i = 0; i <= CELLS; i++) {
            int right = (j + GHOSTS) * SIDE + i + GHOSTS, above = (i + GHOSTS) * SIDE + j + GHOSTS;
            struct primitive l = toward(&s->half[right - 1], &s->x[right - 1], 1);
            struct primitive r = toward(&s->half[right], &s->x[right], -1);
            face(&l, &r, 1, out);
            for (int q = 0; q < QUANTITIES; q++)
                hydro->flux_x[q][first + (size_t)(j * (CELLS + 1) + i)] = out[q];
            l = toward(&s->half[above - SIDE], &s->y[above - SIDE], 1);
            r = toward(&s->half[above], &s->y[above], -1);
            face(&l, &r, 2, out);
            for (int q = 0; q < QUANTITIES; q++)
                hydro->flux_y[q][first + (size_t)(i * CELLS + j)] = out[q];
        }
}

void gas_advance(struct hydro *hydro, int slot, double step) {
    struct primitive w[AREA];
    struct slopes slopes;
    double ratio = step / cell_size(hydro, slot);
    read_patch(hydro, slot, w);
    find_slopes(w, ratio, &slopes);
    find_fluxes(hydro, slot, &slopes);
    for (int q = 0; q < QUANTITIES; q++) {
        const double *fx = hydro->flux_x[q] + (size_t)slot * CELLS * (CELLS + 1);
        const double *fy = hydro->flux_y[q] + (size_t)slot * CELLS * (CELLS + 1);
        double *u = hydro->gas[q] + (size_t)slot * AREA + GHOSTS * SIDE + GHOSTS;
        for (int j = 0; j < CELLS; j++)
            for (int i = 0; i < CELLS; i++)
                u[j * SIDE + i] -= ratio * (fx[j * (CELLS + 1) + i + 1] - fx[j * (CELLS + 1) + i] +
                                            fy[(j + 1) * CELLS + i] - fy[j * CELLS + i]);
    }
}

/* ---- what is seen ---- */

static uint8_t flags_of(const struct primitive *w, int at, double steep, double turn) {
    double spread = w[at + 1].v[1] - w[at - 1].v[1] + w[at + SIDE].v[2] - w[at - SIDE].v[2];
    double sound = sqrt(GAMMA * w[at].v[3] / w[at].v[0]);
    int column = at % SIDE - GHOSTS, row = at / SIDE - GHOSTS;
    int is_edge = column == 0 || row == 0 || column == CELLS - 1 || row == CELLS - 1;
    return (uint8_t)((spread < -0.1 * sound ? FLAG_SHOCK : 0) | (steep > 0.1 ? FLAG_STEEP : 0) |
                     (is_edge ? FLAG_EDGE : 0) | (fabs(turn) > 0.2 * sound ? FLAG_ROTATES : 0));
}

void gas_look(struct hydro *hydro, int slot) {
    struct primitive w[AREA];
    double steepest = 0, size = cell_size(hydro, slot);
    read_patch(hydro, slot, w);
    for (int j = 0; j < CELLS; j++)
        for (int i = 0; i < CELLS; i++) {
            int at = (j + GHOSTS) * SIDE + i + GHOSTS;
            size_t out = (size_t)slot * CELLS * CELLS + (size_t)(j * CELLS + i);
            double steep = 0;
            for (int q = 0; q < QUANTITIES; q += 3) {
                double across = fabs(w[at + 1].v[q] - w[at - 1].v[q]) + fabs(w[at + SIDE].v[q] - w[at - SIDE].v[q]);
                steep = fmax(steep, across / w[at].v[q]);
            }
            double turn = w[at + 1].v[2] - w[at - 1].v[2] - w[at + SIDE].v[1] + w[at - SIDE].v[1];
            double speed = sqrt(w[at].v[1] * w[at].v[1] + w[at].v[2] * w[at].v[2]);
            hydro->flags[out] = flags_of(w, at, steep, turn);
            hydro->shocked[out] += hydro->flags[out] & FLAG_SHOCK;
            hydro->mach[out] = (float)(speed / sqrt(GAMMA * w[at].v[3] / w[at].v[0]));
            hydro->vorticity[out] = (float)(turn / (2 * size));
            steepest = fmax(steepest, steep);
        }
    hydro->steepness[slot] = steepest;
}
