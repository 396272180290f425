#include "write/output.h"

#include "base/alloc.h"

struct vv_output *vv_output_create(struct vv_outputs *outputs, const struct vv_output_plan *plan) {
    struct vv_output *output = plan->is_gathered ? vv_output_team_create() : vv_output_pack_create();
    if (output) {
        output->outputs = outputs;
        output->plan = *plan;
    }
    return output;
}

void vv_output_destroy(struct vv_output *output) {
    vv_free(output);
}

int vv_output_adds_nothing(struct vv_output *output, int rc, struct varve_error *error) {
    (void)output, (void)error;
    return rc;
}
