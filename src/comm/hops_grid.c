#include "comm/hops_grid.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/search.h"

/* Measured on a simulated network: below these, more partners cost less than more hops. */
#define FLAT_RANKS 16
#define FLAT_QUESTIONS 256 /* a rank with this many questions per rank */
#define ROW_QUESTIONS 64   /* per node: one row of all nodes */

/* Other ranks' nodes must be known, or a question cannot be sent to a rank by name. */
static int knows_nodes(const struct varve_comm *comm) {
    const struct varve_comm_ops *ops = comm->ops;
    return comm->nodes > 0 && comm->least_local > 0 &&
           ops->size >= offsetof(struct varve_comm_ops, place_of) + sizeof ops->place_of && ops->node_size &&
           ops->rank_of && ops->place_of;
}

void vv_grid_init(struct vv_grid *grid, struct varve_comm *comm) {
    *grid = (struct vv_grid){.comm = comm, .nodes = comm->ranks, .width = 1, .own = {comm->rank, 0}};
    if (!knows_nodes(comm))
        return;
    grid->nodes = comm->nodes;
    grid->width = comm->least_local;
    grid->own = (struct vv_seat){comm->node, comm->local};
}

struct vv_seat vv_grid_place(const struct vv_grid *grid, uint32_t rank) {
    struct vv_seat place = {rank, 0};
    if (knows_nodes(grid->comm))
        grid->comm->ops->place_of(grid->comm, rank, &place.node, &place.local);
    return place;
}

uint32_t vv_grid_rank(const struct vv_grid *grid, struct vv_seat place) {
    return knows_nodes(grid->comm) ? grid->comm->ops->rank_of(grid->comm, place.node, place.local) : place.node;
}

static uint32_t node_size(const struct vv_grid *grid) {
    return knows_nodes(grid->comm) ? grid->comm->ops->node_size(grid->comm, grid->own.node) : 1;
}

uint32_t vv_grid_square(const struct vv_grid *grid) {
    uint32_t columns = 1;
    while ((uint64_t)columns * columns < grid->nodes)
        columns++;
    return columns;
}

uint32_t vv_grid_columns(const struct vv_grid *grid, uint64_t questions) {
    uint32_t ranks = grid->comm->ranks;
    if (ranks <= FLAT_RANKS || ranks <= questions / FLAT_QUESTIONS)
        return 0;
    return grid->nodes <= questions / ROW_QUESTIONS ? grid->nodes : vv_grid_square(grid);
}

/* ---- partners ---- */

static int partners_capacity(struct vv_partners *partners, uint32_t capacity) {
    partners->ranks = vv_calloc(capacity ? capacity : 1, sizeof *partners->ranks);
    partners->sorted = vv_calloc(capacity ? capacity : 1, sizeof *partners->sorted);
    return partners->ranks && partners->sorted ? 0 : -ENOMEM;
}

static void partners_add(struct vv_partners *partners, uint32_t rank) {
    partners->ranks[partners->count++] = rank;
}

static int compare_ranks(const void *a, const void *b, void *arg) {
    const uint32_t *ranks = arg;
    uint32_t x = ranks[*(const uint32_t *)a], y = ranks[*(const uint32_t *)b];
    return (x > y) - (x < y);
}

static void partners_sort(struct vv_partners *partners) {
    for (uint32_t i = 0; i < partners->count; i++)
        partners->sorted[i] = i;
    qsort_r(partners->sorted, partners->count, sizeof *partners->sorted, compare_ranks, partners->ranks);
}

uint32_t vv_partners_find(const struct vv_partners *partners, uint32_t rank) {
    uint32_t at;
    VV_SEARCH(at, 0, partners->count, partners->ranks[partners->sorted[at]] < rank);
    return at < partners->count && partners->ranks[partners->sorted[at]] == rank ? partners->sorted[at] : UINT32_MAX;
}

/* ---- stages ---- */

static int is_home(const struct vv_grid *grid) {
    return grid->own.local < grid->width;
}

static uint32_t rank_at(const struct vv_grid *grid, uint32_t node) {
    return vv_grid_rank(grid, (struct vv_seat){node, grid->own.local});
}

static uint32_t rank_here(const struct vv_grid *grid, uint32_t local) {
    return vv_grid_rank(grid, (struct vv_seat){grid->own.node, local});
}

static int lay_flat(const struct vv_grid *grid, struct vv_stage *stage) {
    uint32_t ranks = grid->comm->ranks;
    if (partners_capacity(&stage->out, ranks) || partners_capacity(&stage->from, ranks))
        return -ENOMEM;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        partners_add(&stage->out, rank);
        partners_add(&stage->from, rank);
    }
    return 0;
}

static int lay_node(const struct vv_grid *grid, struct vv_stage *stage) {
    uint32_t size = node_size(grid);
    if (partners_capacity(&stage->out, grid->width) || partners_capacity(&stage->from, size))
        return -ENOMEM;
    for (uint32_t local = 0; local < grid->width; local++)
        partners_add(&stage->out, rank_here(grid, local));
    for (uint32_t local = 0; local < size && is_home(grid); local++)
        partners_add(&stage->from, rank_here(grid, local));
    return 0;
}

/* How many nodes a row has. */
static uint32_t row_size(const struct vv_grid *grid, uint32_t row) {
    return row + 1 == grid->rows ? grid->tail : grid->columns;
}

/* The row whose nodes stand in for what the last row lacks, for the sender in this column of it. */
static uint32_t row_standing_in(const struct vv_grid *grid, uint32_t column) {
    return column % (grid->rows - 1);
}

static int lay_row(const struct vv_grid *grid, struct vv_stage *stage) {
    uint32_t row = grid->own.node / grid->columns, column = grid->own.node % grid->columns;
    if (partners_capacity(&stage->out, grid->columns) || partners_capacity(&stage->from, 2 * grid->columns))
        return -ENOMEM;
    if (!is_home(grid))
        return 0;
    for (uint32_t to = 0; to < grid->columns; to++) {
        uint32_t in_row = to < row_size(grid, row) ? row : row_standing_in(grid, column);
        partners_add(&stage->out, rank_at(grid, in_row * grid->columns + to));
    }
    for (uint32_t sender = 0; sender < row_size(grid, row); sender++)
        partners_add(&stage->from, rank_at(grid, row * grid->columns + sender));
    for (uint32_t sender = 0; sender < grid->tail && column >= grid->tail; sender++)
        if (row_standing_in(grid, sender) == row)
            partners_add(&stage->from, rank_at(grid, (grid->rows - 1) * grid->columns + sender));
    return 0;
}

static int lay_column(const struct vv_grid *grid, struct vv_stage *stage) {
    uint32_t column = grid->own.node % grid->columns;
    if (partners_capacity(&stage->out, grid->rows) || partners_capacity(&stage->from, grid->rows))
        return -ENOMEM;
    for (uint32_t row = 0; row < grid->rows && is_home(grid); row++) {
        if (column >= row_size(grid, row))
            continue;
        partners_add(&stage->out, rank_at(grid, row * grid->columns + column));
        partners_add(&stage->from, rank_at(grid, row * grid->columns + column));
    }
    return 0;
}

static int lay_guest(const struct vv_grid *grid, struct vv_stage *stage) {
    uint32_t size = node_size(grid), guests = size / grid->width + 1;
    if (partners_capacity(&stage->out, guests) || partners_capacity(&stage->from, 1))
        return -ENOMEM;
    for (uint32_t local = grid->own.local; local < size && is_home(grid); local += grid->width)
        partners_add(&stage->out, rank_here(grid, local));
    partners_add(&stage->from, rank_here(grid, grid->own.local % grid->width));
    return 0;
}

static int add_stage(struct vv_grid *grid, int kind) {
    static int (*const lay[])(const struct vv_grid *, struct vv_stage *) = {lay_flat, lay_node, lay_row, lay_column,
                                                                            lay_guest};
    struct vv_stage *stage = &grid->stages[grid->stage_count++];
    stage->kind = kind;
    int rc = lay[kind](grid, stage);
    if (rc)
        return rc;
    partners_sort(&stage->out);
    partners_sort(&stage->from);
    return 0;
}

int vv_grid_lay_out(struct vv_grid *grid, uint32_t columns) {
    int has_guests = (uint64_t)grid->nodes * grid->width < grid->comm->ranks;
    int rc = 0;
    vv_grid_clear(grid);
    grid->is_flat = columns == 0;
    if (grid->is_flat)
        return add_stage(grid, VV_STAGE_FLAT);
    grid->columns = columns;
    grid->rows = (grid->nodes + columns - 1) / columns;
    grid->tail = grid->nodes - (grid->rows - 1) * columns;
    if (grid->width > 1 || has_guests)
        rc = add_stage(grid, VV_STAGE_NODE);
    if (rc == 0 && grid->columns > 1)
        rc = add_stage(grid, VV_STAGE_ROW);
    if (rc == 0 && grid->rows > 1)
        rc = add_stage(grid, VV_STAGE_COLUMN);
    if (rc == 0 && has_guests)
        rc = add_stage(grid, VV_STAGE_GUEST);
    return rc;
}

void vv_grid_clear(struct vv_grid *grid) {
    for (uint32_t i = 0; i < VV_STAGES_MAX; i++) {
        struct vv_stage *stage = &grid->stages[i];
        vv_free(stage->out.ranks);
        vv_free(stage->out.sorted);
        vv_free(stage->from.ranks);
        vv_free(stage->from.sorted);
        *stage = (struct vv_stage){0};
    }
    grid->stage_count = 0;
}
