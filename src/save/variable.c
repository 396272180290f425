/* What the output is told about the region whose data follows. */
#include "encode/grid.h"
#include "save/save_private.h"

static uint64_t mix(uint64_t key, uint64_t value) {
    return (key ^ value) * UINT64_C(0x9e3779b97f4a7c15) ^ key >> 31;
}

static void describe(struct vv_save *save, const struct vv_past *past, struct vv_variable *out) {
    const struct vv_array *array = past->pending_array;
    *out = (struct vv_variable){.region = past->number,
                                .length = past->pending_length,
                                .is_large = (uint32_t)past->pending_no_ids,
                                .key = past->variable,
                                .owner = save->job->comm->rank,
                                .content = {.type = VARVE_BYTES}};
    if (array) {
        uint64_t row = array->dims > 1 ? array->dim[array->dims - 1].local : 0;
        out->content.type = array->type;
        out->content.row = row < UINT32_MAX ? (uint32_t)row : 0;
        out->content.grid = array->bound > 0 ? vv_grid_of(array->bound) : 0;
        out->key = mix(mix(out->key, array->type), array->dims);
        for (unsigned i = 1; i < array->dims; i++) /* the slowest one is where ranks differ */
            out->key = mix(out->key, array->dim[i].local);
    }
}

void vv_save_region(struct vv_save *save, const struct vv_past *past) {
    struct vv_output *output = save->output;
    if (past == output->told)
        return;
    output->told = past;
    describe(save, past, &save->scans.variable);
    output->ops->region(output, &save->scans.variable);
}
