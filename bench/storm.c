/* A storm in the air at rest. */
#include "storm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "ranks.h"

#define WIND_X 0.4 /* points per step; the storm moves with it */
#define WIND_Y 0.2
#define SPREAD 0.05 /* to each neighbour, per step */
#define SPREAD_UP 0.02
#define FADES 0.25      /* per step */
#define TOO_WEAK 0.01   /* of the source */
#define COVERED 0.02    /* of the columns */
#define MARGIN 2.0      /* points by which what is stirred up reaches beyond the source */
#define STATIC_FIELDS 5 /* whose base state does not drift: the first ones */
#define DRIFT 1e-4      /* per step, of the base state */

/* Bytes of a border. */
#define ALONG_X (sizeof(double) * STORM_FIELDS * STORM_Z * STORM_X)
#define ALONG_Y (sizeof(double) * STORM_FIELDS * STORM_Z * STORM_Y)

const char *const storm_names[STORM_FIELDS] = {"density", "pressure", "soil",    "ozone",     "aerosol", "theta",
                                               "wind_u",  "wind_v",   "wind_w",  "vapour",    "cloud",   "rain",
                                               "ice",     "snow",     "graupel", "turbulence"};

/* Columns just outside of this rank's part: all fields, z, then along the border. */
struct border {
    double *west, *east, *south, *north;
};

struct storm {
    unsigned step;
    unsigned parts_x, parts_y, at_x, at_y; /* of the domain; which one is ours */
    double *fields[STORM_FIELDS];
    double base[STORM_FIELDS][STORM_Z]; /* as of now */
    struct border in;
    double *out;    /* a border on its way */
    double *next;   /* a field as it will be */
    double *source; /* of the columns, by how much the storm stirs this one */
    double radius;
};

/* ---- the domain ---- */

static double base_of(size_t field, unsigned z, unsigned step) {
    double height = (z + 0.5) / STORM_Z, scale = 1 + (double)field;
    double base = scale * exp(-height * (0.5 + 0.1 * (double)field)) + 0.01 * height;
    double drift = field < STATIC_FIELDS ? 0 : DRIFT * step * (1 + height);
    return base * (1 - drift);
}

static void set_base(double base[STORM_FIELDS][STORM_Z], unsigned step) {
    for (size_t i = 0; i < STORM_FIELDS; i++)
        for (unsigned z = 0; z < STORM_Z; z++)
            base[i][z] = base_of(i, z, step);
}

/* As many parts in y as in x, or less: a part is longer in y. */
static void cut_domain(struct storm *storm) {
    unsigned parts = 1, ranks = ranks_all();
    for (unsigned i = 1; i * i <= ranks; i++)
        if (ranks % i == 0)
            parts = i;
    storm->parts_x = ranks / parts;
    storm->parts_y = parts;
    storm->at_x = ranks_own() % storm->parts_x;
    storm->at_y = ranks_own() / storm->parts_x;
    double columns = (double)STORM_X * STORM_Y * ranks;
    storm->radius = sqrt(COVERED * columns / M_PI) - MARGIN;
    storm->radius = storm->radius < 3 ? 3 : storm->radius;
}

static unsigned rank_at(const struct storm *storm, unsigned x, unsigned y) {
    return y % storm->parts_y * storm->parts_x + x % storm->parts_x;
}

struct storm *storm_create(void) {
    struct storm *storm = calloc(1, sizeof *storm);
    bench_check(storm != NULL, "memory");
    cut_domain(storm);
    set_base(storm->base, 0);
    for (size_t i = 0; i < STORM_FIELDS; i++) {
        storm->fields[i] = bench_pages(STORM_FIELD_BYTES);
        for (size_t j = 0; j < STORM_POINTS; j++)
            storm->fields[i][j] = storm->base[i][j / (STORM_X * STORM_Y)];
    }
    storm->in = (struct border){malloc(ALONG_Y), malloc(ALONG_Y), malloc(ALONG_X), malloc(ALONG_X)};
    storm->out = malloc(ALONG_X > ALONG_Y ? ALONG_X : ALONG_Y);
    storm->next = malloc(STORM_FIELD_BYTES);
    storm->source = malloc(sizeof(double) * STORM_X * STORM_Y);
    bench_check(storm->in.west && storm->in.east && storm->in.south && storm->in.north && storm->out && storm->next &&
                    storm->source,
                "memory");
    return storm;
}

void storm_destroy(struct storm *storm) {
    for (size_t i = 0; i < STORM_FIELDS; i++)
        munmap(storm->fields[i], STORM_FIELD_BYTES);
    free(storm->in.west);
    free(storm->in.east);
    free(storm->in.south);
    free(storm->in.north);
    free(storm->out);
    free(storm->next);
    free(storm->source);
    free(storm);
}

double *storm_field(struct storm *storm, size_t number) {
    return storm->fields[number];
}

/* ---- a step ---- */

/* Along y for west and east: x is which column. */
static void take_column(const struct storm *storm, unsigned x, double *out) {
    for (size_t i = 0; i < STORM_FIELDS; i++)
        for (size_t row = 0; row < STORM_Z * STORM_Y; row++)
            *out++ = storm->fields[i][row * STORM_X + x];
}

static void take_row(const struct storm *storm, unsigned y, double *out) {
    for (size_t i = 0; i < STORM_FIELDS; i++)
        for (size_t z = 0; z < STORM_Z; z++, out += STORM_X)
            memcpy(out, storm->fields[i] + (z * STORM_Y + y) * STORM_X, STORM_X * sizeof *out);
}

static void exchange_borders(struct storm *storm) {
    unsigned x = storm->at_x, y = storm->at_y;
    unsigned east = rank_at(storm, x + 1, y), west = rank_at(storm, x + storm->parts_x - 1, y);
    unsigned north = rank_at(storm, x, y + 1), south = rank_at(storm, x, y + storm->parts_y - 1);
    take_column(storm, STORM_X - 1, storm->out);
    ranks_swap(east, storm->out, west, storm->in.west, ALONG_Y);
    take_column(storm, 0, storm->out);
    ranks_swap(west, storm->out, east, storm->in.east, ALONG_Y);
    take_row(storm, STORM_Y - 1, storm->out);
    ranks_swap(north, storm->out, south, storm->in.south, ALONG_X);
    take_row(storm, 0, storm->out);
    ranks_swap(south, storm->out, north, storm->in.north, ALONG_X);
}

/* The shorter way around. */
static double apart(double a, double b, double length) {
    double distance = fmod(fabs(a - b), length);
    return distance < length - distance ? distance : length - distance;
}

static void place_source(struct storm *storm) {
    double all_x = (double)STORM_X * storm->parts_x, all_y = (double)STORM_Y * storm->parts_y;
    double centre_x = all_x * 0.4 + WIND_X * storm->step, centre_y = all_y * 0.45 + WIND_Y * storm->step;
    for (unsigned y = 0; y < STORM_Y; y++)
        for (unsigned x = 0; x < STORM_X; x++) {
            double dx = apart(x + (double)STORM_X * storm->at_x, fmod(centre_x, all_x), all_x);
            double dy = apart(y + (double)STORM_Y * storm->at_y, fmod(centre_y, all_y), all_y);
            double share = 1 - (dx * dx + dy * dy) / (storm->radius * storm->radius);
            storm->source[y * STORM_X + x] = share > 0 ? share : 0;
        }
}

/* A row and those around it. */
struct rows {
    double here[STORM_X + 2];                    /* with what lies beyond its ends */
    const double *south, *north, *below, *above; /* below and above: this one where there is none */
    double base, base_below, base_above;
};

/* How far a row is from rest after a step. At rest every difference is exactly 0, and so is what comes out. */
static void step_row(const struct rows *rows, const double *source, double heat, double *restrict out) {
    double weak = TOO_WEAK * heat;
    for (unsigned x = 0; x < STORM_X; x++) {
        double here = rows->here[x + 1];
        double west = rows->here[x] - here, east = rows->here[x + 2] - here;
        double south = rows->south[x] - here, north = rows->north[x] - here;
        double stirred = here - rows->base;
        double up = (rows->below[x] - rows->base_below - stirred) + (rows->above[x] - rows->base_above - stirred);
        double change = WIND_X * west + WIND_Y * south + SPREAD * (west + east + south + north) + SPREAD_UP * up;
        double value = stirred * (1 - FADES) + change + heat * source[x];
        out[x] = fabs(value) < weak ? 0 : value;
    }
}

static void find_rows(const struct storm *storm, size_t field, unsigned z, unsigned y, struct rows *rows) {
    const double *base = storm->base[field];
    size_t plane = field * STORM_Z + z, level = (size_t)STORM_X * STORM_Y;
    const double *here = storm->fields[field] + ((size_t)z * STORM_Y + y) * STORM_X;
    int is_lowest = z == 0, is_highest = z + 1 == STORM_Z;
    memcpy(rows->here + 1, here, STORM_X * sizeof *here);
    rows->here[0] = storm->in.west[plane * STORM_Y + y];
    rows->here[STORM_X + 1] = storm->in.east[plane * STORM_Y + y];
    rows->south = y > 0 ? here - STORM_X : storm->in.south + plane * STORM_X;
    rows->north = y + 1 < STORM_Y ? here + STORM_X : storm->in.north + plane * STORM_X;
    rows->below = is_lowest ? here : here - level;
    rows->above = is_highest ? here : here + level;
    rows->base = base[z];
    rows->base_below = base[is_lowest ? z : z - 1];
    rows->base_above = base[is_highest ? z : z + 1];
}

static void step_field(struct storm *storm, size_t field, const double *next_base) {
    struct rows rows;
    for (unsigned z = 0; z < STORM_Z; z++) {
        double heat = 0.01 * storm->base[field][z] * sin(M_PI * (z + 0.5) / STORM_Z);
        for (unsigned y = 0; y < STORM_Y; y++) {
            double *out = storm->next + ((size_t)z * STORM_Y + y) * STORM_X;
            find_rows(storm, field, z, y, &rows);
            step_row(&rows, storm->source + y * STORM_X, heat, out);
            for (unsigned x = 0; x < STORM_X; x++)
                out[x] += next_base[z];
        }
    }
    memcpy(storm->fields[field], storm->next, STORM_FIELD_BYTES);
}

void storm_step(struct storm *storm) {
    double next_base[STORM_FIELDS][STORM_Z];
    exchange_borders(storm);
    place_source(storm);
    storm->step++;
    set_base(next_base, storm->step);
    for (size_t i = 0; i < STORM_FIELDS; i++)
        step_field(storm, i, next_base[i]);
    memcpy(storm->base, next_base, sizeof next_base);
}

size_t storm_disturbed(const struct storm *storm) {
    size_t columns = 0;
    for (size_t column = 0; column < (size_t)STORM_X * STORM_Y; column++) {
        int is_stirred = 0;
        for (size_t i = 0; i < STORM_FIELDS && !is_stirred; i++)
            for (unsigned z = 0; z < STORM_Z && !is_stirred; z++)
                is_stirred = storm->fields[i][(size_t)z * STORM_X * STORM_Y + column] != storm->base[i][z];
        columns += (size_t)is_stirred;
    }
    return columns;
}
