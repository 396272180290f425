#include "placed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 400
#define COLUMNS 750
#define CYCLIC 30000
#define WIDTH 3 /* words of an element of the list */
#define COMMON 700
#define OWN 2500
#define GARBAGE 0xa5

static const char *const names[PLACED_REGIONS] = {"field", "cyclic", "list", "common", "own", "scratch"};

int placed_is_wanted(void) {
    return getenv("JOB_MOVED") != NULL;
}

/* ---- what a rank has ---- */

static uint64_t list_length(const struct placed *placed, int64_t version) {
    return 1500 + (uint64_t)(placed->is_fixed ? 3 : version % 10) * 170;
}

/* Where the part of this rank begins, of `size`: rank 1 has half of it. */
static uint64_t first_of(uint64_t size, uint32_t rank, uint32_t ranks) {
    uint64_t shares = rank < 2 ? rank : rank + ranks - 2;
    return rank == 0 ? 0 : rank == ranks ? size : size * shares / (2 * (uint64_t)ranks - 2);
}

static void block_of(uint64_t size, uint32_t rank, uint32_t ranks, struct varve_dim *out) {
    out->global = size;
    out->first = first_of(size, rank, ranks);
    out->local = first_of(size, rank + 1, ranks) - out->first;
}

static void deal(const struct placed *placed, struct varve_array *out) {
    uint64_t block = 96 + placed->ranks, every = block * placed->ranks, before = block * placed->rank;
    uint64_t rest = CYCLIC % every, more = rest <= before ? 0 : rest - before < block ? rest - before : block;
    out->dim[0] = (struct varve_dim){CYCLIC / every * block + more, before, CYCLIC};
    out->stride[0] = (struct varve_stride){block, every};
}

/* Of the list, `first` is where the part of this rank begins, which is nothing the library is told. */
static void shape_of(const struct placed *placed, int region, int64_t version, struct varve_array *out) {
    uint32_t rank = placed->rank, ranks = placed->ranks;
    *out = (struct varve_array){.size = sizeof *out, .type = VARVE_U64, .dims = 1};
    switch (region) {
    case PLACED_FIELD:
        out->type = VARVE_F64;
        out->dims = 2;
        out->dim[0] = (struct varve_dim){ROWS, 0, ROWS};
        out->dim[1] = (struct varve_dim){COLUMNS, 0, COLUMNS};
        block_of(out->dim[ranks % 2].global, rank, ranks, &out->dim[ranks % 2]);
        break;
    case PLACED_CYCLIC:
        out->type = VARVE_I32;
        deal(placed, out);
        break;
    case PLACED_LIST:
        out->dims = 2;
        out->dim[1] = (struct varve_dim){WIDTH, 0, WIDTH};
        if (ranks == 1)
            out->dim[0].local = list_length(placed, version);
        else if (rank > 0)
            block_of(list_length(placed, version), rank - 1, ranks - 1, &out->dim[0]);
        break;
    default:
        out->dim[0].local = region == PLACED_COMMON ? COMMON : OWN;
    }
}

static uint64_t elements_of(const struct varve_array *array) {
    return array->dim[0].local * (array->dims > 1 ? array->dim[1].local : 1);
}

/* Of the element with this number of a rank's part. */
static uint64_t place_of(const struct varve_array *array, uint64_t element) {
    const struct varve_dim *last = &array->dim[array->dims - 1], *rows = &array->dim[0];
    const struct varve_stride *stride = &array->stride[0];
    if (array->dims > 1)
        return (rows->first + element / last->local) * last->global + last->first + element % last->local;
    return rows->first + (stride->block ? element / stride->block * stride->every + element % stride->block : element);
}

/* ---- what it must be ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* About a tenth of each array changes from version to version. `who`: the rank that has saved it, where that matters.
 */
static uint64_t value_of(const struct placed *placed, int region, uint64_t place, int64_t version, uint64_t who) {
    uint64_t piece = place / (region == PLACED_FIELD ? COLUMNS : 100), salt = placed->salt * 31 + (uint64_t)region;
    uint64_t value =
        mix(mix(salt * 1000003 + who) + place * UINT64_C(0x9e3779b97f4a7c15) + ((uint64_t)version + piece) / 10);
    double number = 300 + (double)(place % COLUMNS) * 0.125 + (double)(value % 4096) * 1e-9;
    if (region == PLACED_CYCLIC)
        return (uint32_t)value;
    if (region == PLACED_FIELD && piece % 3)
        memcpy(&value, &number, sizeof value);
    return value;
}

static size_t width_of(int region) {
    return region == PLACED_CYCLIC ? 4 : 8;
}

static uint64_t stored_at(const void *data, int region, uint64_t element) {
    size_t width = width_of(region);
    uint32_t narrow = 0;
    uint64_t value = 0;
    memcpy(width == 4 ? (void *)&narrow : (void *)&value, (const uint8_t *)data + element * width, width);
    return width == 4 ? narrow : value;
}

static void store_at(void *data, int region, uint64_t element, uint64_t value) {
    uint32_t narrow = (uint32_t)value;
    size_t width = width_of(region);
    memcpy((uint8_t *)data + element * width, width == 4 ? (void *)&narrow : (void *)&value, width);
}

static uint64_t who_of(const struct placed *placed, int region) {
    return region == PLACED_OWN || region == PLACED_SCRATCH ? placed->rank + 1 : 0;
}

static void fill(struct placed *placed, int region, int64_t version) {
    struct varve_array array;
    shape_of(placed, region, version, &array);
    for (uint64_t i = 0; i < elements_of(&array); i++)
        store_at(placed->data[region], region, i,
                 value_of(placed, region, place_of(&array, i), version, who_of(placed, region)));
    if (region == PLACED_COMMON)
        store_at(placed->data[region], region, 0, placed->ranks);
}

static int compare(const struct placed *placed, int region, int64_t version, char *text, size_t capacity) {
    struct varve_array array;
    shape_of(placed, region, version, &array);
    uint64_t count = elements_of(&array);
    for (uint64_t i = region == PLACED_COMMON; i < count && placed->data[region]; i++) {
        uint64_t wanted = value_of(placed, region, place_of(&array, i), version, who_of(placed, region));
        uint64_t found = stored_at(placed->data[region], region, i);
        if (found == wanted)
            continue;
        snprintf(text, capacity,
                 "version %" PRId64 ", region %s: element %" PRIu64 " of %" PRIu64 " is %016" PRIx64
                 ", not %016" PRIx64,
                 version, names[region], i, count, found, wanted);
        return -1;
    }
    if (placed->data[region] && placed->size[region] == count * width_of(region))
        return 0;
    snprintf(text, capacity, "version %" PRId64 ", region %s has %" PRIu64 " bytes, not %" PRIu64, version,
             names[region], placed->size[region], count * width_of(region));
    return -1;
}

/* What was private and has no rank now, or has none yet, is not there; and what is dropped may be anything. */
int placed_compare(const struct placed *placed, int64_t version, char *text, size_t capacity) {
    for (int region = 0; region < PLACED_OWN; region++)
        if (compare(placed, region, version, text, capacity) < 0)
            return -1;
    uint64_t saved_by = stored_at(placed->data[PLACED_COMMON], PLACED_COMMON, 0);
    if (saved_by == 0 || saved_by > 64) {
        snprintf(text, capacity, "version %" PRId64 ", region common: it was saved by %" PRIu64 " ranks", version,
                 saved_by);
        return -1;
    }
    return placed->rank < saved_by ? compare(placed, PLACED_OWN, version, text, capacity) : 0;
}

/* ---- the memory ---- */

static int protect(const struct placed *placed, struct varve_session *session, int region, int64_t version,
                   void *data) {
    static const enum varve_distribution hows[PLACED_REGIONS] = {VARVE_BY_DIMS,    VARVE_BY_DIMS, VARVE_JOINED,
                                                                 VARVE_REPLICATED, VARVE_BY_RANK, VARVE_DROPPED};
    struct varve_array array;
    shape_of(placed, region, version, &array);
    if (region >= PLACED_LIST)
        for (unsigned i = 0; i < array.dims; i++)
            array.dim[i] = (struct varve_dim){array.dim[i].local, 0, array.dim[i].local};
    int rc = varve_protect_array(session, names[region], data, &array);
    return rc < 0 ? rc : varve_distribute(session, names[region], hows[region]);
}

/* The list gets other memory when its length changes; the old one is freed when the library no longer knows it. */
static int place(struct placed *placed, struct varve_session *session, int region, int64_t version) {
    struct varve_array array;
    shape_of(placed, region, version, &array);
    uint64_t size = elements_of(&array) * width_of(region);
    if (placed->data[region] && placed->size[region] == size)
        return 0;
    void *data = malloc(size + 1);
    if (!data)
        abort();
    int rc = protect(placed, session, region, version, data);
    if (rc < 0) { /* it may be known, or not: try again with the same memory */
        varve_unprotect(session, names[region]);
        free(data);
        free(placed->data[region]);
        placed->data[region] = NULL;
        return rc;
    }
    free(placed->data[region]);
    placed->data[region] = data;
    placed->size[region] = size;
    return 0;
}

int placed_set(struct placed *placed, struct varve_session *session, int64_t version, int is_garbage) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, version);
    int rc = varve_attribute(session, "version", text);
    for (int region = 0; region < PLACED_REGIONS && rc >= 0; region++) {
        rc = place(placed, session, region, version);
        if (rc < 0)
            break;
        if (is_garbage)
            memset(placed->data[region], GARBAGE, placed->size[region]);
        else
            fill(placed, region, version);
    }
    return rc;
}

void placed_clear(struct placed *placed) {
    for (int region = 0; region < PLACED_REGIONS; region++) {
        free(placed->data[region]);
        placed->data[region] = NULL;
        placed->size[region] = 0;
    }
}
