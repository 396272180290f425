/* The workload of bench-field. */
#include "field.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define DOUBLES (FIELD_PAGE / sizeof(double))
#define RUN_PAGES 64u
#define STENCIL (1u << 19)

static void noise_page(uint64_t state, uint8_t *out) {
    uint64_t words[FIELD_PAGE / 8];
    for (size_t i = 0; i < FIELD_PAGE / 8; i++)
        words[i] = bench_random(&state);
    memcpy(out, words, FIELD_PAGE);
}

/* sin(phase + i * step) by turning a pair; a page is too short for the error to matter. */
static void wave_page(uint64_t state, uint8_t *out) {
    double phase = (double)(bench_random(&state) >> 11) * 0x1p-53 * 6.28;
    double step = 0.001 + (double)(bench_random(&state) >> 11) * 0x1p-53 * 0.01;
    double s = sin(phase), c = cos(phase), turn_s = sin(step), turn_c = cos(step);
    double values[DOUBLES];
    for (size_t i = 0; i < DOUBLES; i++) {
        values[i] = s;
        double next = s * turn_c + c * turn_s;
        c = c * turn_c - s * turn_s;
        s = next;
    }
    memcpy(out, values, FIELD_PAGE);
}

static int is_alike(const struct field *field, size_t page) {
    return page % 2 < (field->is_unique ? field->alike : 1);
}

static void fill_page(const struct field *field, size_t page, uint8_t *out) {
    uint64_t state = (uint64_t)page << 32 ^ (uint64_t)field->age[page] << 8;
    if (field->is_unique)
        noise_page(state ^ (is_alike(field, page) ? 0 : (uint64_t)field->rank << 56), out);
    else
        wave_page(state ^ (is_alike(field, page) ? 0 : field->rank + 1), out);
}

void field_init(struct field *field, int has_memory) {
    field->pages = field->size / FIELD_PAGE;
    field->memory = NULL;
    field->age = calloc(field->pages, sizeof *field->age);
    bench_check(field->age != NULL, "memory");
    if (!has_memory)
        return;
    field->memory = bench_pages(field->size);
    for (size_t i = 0; i < field->pages; i++)
        fill_page(field, i, field->memory + i * FIELD_PAGE);
}

void field_clear(struct field *field) {
    free(field->age);
    if (field->memory)
        munmap(field->memory, field->size);
}

static int is_rewritten(const struct field *field, size_t page, unsigned checkpoint) {
    uint64_t state = (field->is_scattered ? page : page / RUN_PAGES) << 16 ^ checkpoint;
    return field->is_unique || bench_random(&state) % 10 == 0;
}

uint64_t field_advance_part(struct field *field, unsigned checkpoint, unsigned part, unsigned parts) {
    uint64_t changed = 0;
    for (size_t i = field->pages * part / parts; i < field->pages * (part + 1) / parts; i++) {
        if (!is_rewritten(field, i, checkpoint))
            continue;
        field->age[i] = checkpoint;
        if (field->memory)
            fill_page(field, i, field->memory + i * FIELD_PAGE);
        changed += FIELD_PAGE;
    }
    return changed;
}

uint64_t field_advance(struct field *field, unsigned checkpoint) {
    return field_advance_part(field, checkpoint, 0, 1);
}

uint64_t field_floor(const struct field *field, unsigned checkpoint) {
    uint64_t floor = 0;
    for (size_t i = 0; i < field->size / FIELD_PAGE; i++)
        if ((checkpoint == 0 || is_rewritten(field, i, checkpoint)) && (!is_alike(field, i) || field->rank == 0))
            floor += FIELD_PAGE;
    return floor;
}

int field_compare(const struct field *like, unsigned checkpoints, const uint8_t *memory) {
    struct field field = *like;
    uint8_t page[FIELD_PAGE];
    int is_same = 1;
    field_init(&field, 0);
    for (unsigned i = 1; i < checkpoints; i++)
        field_advance(&field, i);
    for (size_t i = 0; i < field.pages && is_same; i++) {
        fill_page(&field, i, page);
        is_same = memcmp(page, memory + i * FIELD_PAGE, FIELD_PAGE) == 0;
        if (!is_same)
            fprintf(stderr, "rank %u: page %zu is not what was saved\n", field.rank, i);
    }
    field_clear(&field);
    return is_same;
}

double field_compute(void) {
    static double *grid, *next;
    if (!grid) {
        grid = calloc(STENCIL, sizeof *grid);
        next = calloc(STENCIL, sizeof *next);
        bench_check(grid && next, "memory");
        grid[STENCIL / 2] = 1;
    }
    for (int sweep = 0; sweep < 8; sweep++) {
        for (size_t i = 1; i + 1 < STENCIL; i++)
            next[i] = 0.25 * grid[i - 1] + 0.5 * grid[i] + 0.25 * grid[i + 1];
        double *swap = grid;
        grid = next;
        next = swap;
    }
    return grid[STENCIL / 2];
}
