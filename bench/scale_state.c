#include "scale_state.h"

#include <mpi.h>
#include <stdlib.h>

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t *zeros(size_t bytes) {
    uint64_t *words = calloc(bytes ? bytes : 1, 1);
    if (!words)
        abort();
    return words;
}

/* ---- making it ---- */

void scale_state_regions(struct scale_state *state, uint32_t number, size_t size) {
    *state = (struct scale_state){.number = number, .half = size / 2, .same = zeros(size / 2), .own = zeros(size / 2)};
}

static struct varve_dim share(uint64_t all, uint64_t part, uint64_t parts) {
    uint64_t first = all * part / parts, end = all * (part + 1) / parts;
    return (struct varve_dim){.local = end - first, .first = first, .global = all};
}

void scale_state_array(struct scale_state *state, uint32_t number, uint32_t ranks, uint64_t rows, uint64_t columns) {
    int grid[2] = {0, 0};
    MPI_Dims_create((int)ranks, 2, grid);
    uint32_t across = (uint32_t)grid[1];
    *state =
        (struct scale_state){.number = number, .array = {.size = sizeof state->array, .type = VARVE_U64, .dims = 2}};
    state->array.dim[0] = share(rows, number / across, (uint32_t)grid[0]);
    state->array.dim[1] = share(columns, number % across, across);
    state->block_bytes = state->array.dim[0].local * state->array.dim[1].local * sizeof *state->block;
    state->block = zeros(state->block_bytes);
}

void scale_state_clear(struct scale_state *state) {
    free(state->same);
    free(state->own);
    free(state->block);
    *state = (struct scale_state){0};
}

int scale_state_protect(const struct scale_state *state, struct varve_session *session) {
    if (state->block)
        return varve_protect_array(session, "field", state->block, &state->array);
    int rc = varve_protect(session, "same", state->same, state->half);
    return rc ? rc : varve_protect(session, "own", state->own, state->half);
}

/* ---- its contents ---- */

/* Words become what they shall be, or are compared with it: how many are not. */
static uint64_t each_word(uint64_t *words, size_t count, uint64_t series, uint64_t first, int is_filled) {
    uint64_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = mix(mix(series) + first + i);
        wrong += is_filled && words[i] != value;
        if (!is_filled)
            words[i] = value;
    }
    return wrong;
}

static uint64_t each(const struct scale_state *state, uint64_t checkpoint, int is_filled) {
    uint64_t wrong = 0, series = checkpoint << 32;
    const struct varve_dim *rows = &state->array.dim[0], *columns = &state->array.dim[1];
    if (!state->block)
        return each_word(state->same, state->half / sizeof(uint64_t), UINT32_MAX, 0, is_filled) +
               each_word(state->own, state->half / sizeof(uint64_t), series + state->number, 0, is_filled);
    for (uint64_t y = 0; y < rows->local; y++)
        wrong += each_word(state->block + y * columns->local, columns->local, series,
                           (rows->first + y) * columns->global + columns->first, is_filled);
    return wrong;
}

void scale_state_fill(const struct scale_state *state, uint64_t checkpoint) {
    each(state, checkpoint, 0);
}

int scale_state_is_right(const struct scale_state *state, uint64_t checkpoint) {
    return each(state, checkpoint, 1) == 0;
}
