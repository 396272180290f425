/* Who talks to whom when questions travel (hops.h): computed on every rank for itself, nothing of it is communicated.
 *
 * Every node takes part with as many ranks as the smallest node has (`width`): these are the homes, numbered node by
 * node. Further ranks of larger nodes ask and are asked by name, but ids have no home there. The nodes are laid out in
 * rows of `columns`; the last row may be shorter. A question takes the stages in this order, where they exist:
 *
 *   node     to the rank of this node that has the home's number among its ranks;
 *   row      to the node of this row that is in the home's column. In a short last row some columns are missing: there
 *            a node of another row stands in, another one for each sender;
 *   column   to the node in the home's row;
 *   guest    to a rank beyond the width, which can only be asked by name, from the rank that looks after it.
 *
 * Flat is one stage, to all ranks. */
#ifndef VV_HOPS_GRID_H
#define VV_HOPS_GRID_H

#include "base/hash.h"
#include "comm/comm.h"

enum vv_stage_kind { VV_STAGE_FLAT, VV_STAGE_NODE, VV_STAGE_ROW, VV_STAGE_COLUMN, VV_STAGE_GUEST };
#define VV_STAGES_MAX 4

/* Ranks to send to or to take from. Each is there once; this rank itself may be among them. */
struct vv_partners {
    uint32_t *ranks;
    uint32_t *sorted; /* indexes of ranks, ascending by rank */
    uint32_t count;
};

struct vv_stage {
    int kind;
    struct vv_partners out, from;
};

struct vv_seat {
    uint32_t node, local;
};

struct vv_grid {
    struct varve_comm *comm;
    uint32_t nodes, width; /* homes: nodes x width */
    struct vv_seat own;
    uint32_t columns, rows;
    uint32_t tail; /* nodes in the last row */
    int is_flat;
    struct vv_stage stages[VV_STAGES_MAX];
    uint32_t stage_count;
};

/* What the group says about nodes; every rank one of its own where it says nothing. No stages yet. */
void vv_grid_init(struct vv_grid *grid, struct varve_comm *comm);
/* The stages: columns from 1 to the number of nodes, or 0 for flat. 0 or -ENOMEM. Not collective. */
int vv_grid_lay_out(struct vv_grid *grid, uint32_t columns);
/* What suits when a rank has at most so many questions: as for vv_grid_lay_out. */
uint32_t vv_grid_columns(const struct vv_grid *grid, uint64_t questions);
uint32_t vv_grid_square(const struct vv_grid *grid); /* the same for rows as long as columns */
void vv_grid_clear(struct vv_grid *grid);

/* The number among the partners of what somebody called rank; UINT32_MAX if it is none. */
uint32_t vv_partners_find(const struct vv_partners *partners, uint32_t rank);

/* Homes are 64-bit numbers spread evenly: the same id has the same one whatever the stages are. */
static inline struct vv_seat vv_grid_home(const struct vv_grid *grid, struct vv_hash128 id) {
    uint64_t mixed = (id.high ^ id.low >> 29) * UINT64_C(0x9e3779b97f4a7c15) + id.low;
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
    uint32_t home = (uint32_t)(((mixed >> 32) * ((uint64_t)grid->nodes * grid->width)) >> 32);
    return (struct vv_seat){home / grid->width, home % grid->width};
}

/* Where a rank is; the caller has checked that there is such a rank. */
struct vv_seat vv_grid_place(const struct vv_grid *grid, uint32_t rank);
uint32_t vv_grid_rank(const struct vv_grid *grid, struct vv_seat place);

/* The partner in stage.out that brings a question nearer to its home. UINT32_MAX: from here none does. */
static inline uint32_t vv_grid_next(const struct vv_grid *grid, const struct vv_stage *stage, struct vv_seat home) {
    switch (stage->kind) {
    case VV_STAGE_NODE:
        return home.local < grid->width ? home.local : home.local % grid->width;
    case VV_STAGE_ROW:
        return home.node % grid->columns;
    case VV_STAGE_COLUMN:
        return home.node / grid->columns;
    case VV_STAGE_GUEST:
        return home.local / grid->width;
    default:
        return vv_grid_rank(grid, home);
    }
}

#endif
