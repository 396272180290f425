#include "write/output.h"

struct vv_output *vv_output_create(struct vv_outputs *outputs, const struct vv_output_plan *plan) {
    struct vv_output *output = plan->is_gathered             ? vv_output_team_create()
                               : outputs->replicas.count > 0 ? vv_output_replicas_create()
                                                             : vv_output_pack_create();
    if (output) {
        output->outputs = outputs;
        output->plan = *plan;
    }
    return output;
}
