#include "restart/shared_packs.h"

#include <errno.h>

int vv_learn_shared_pack(struct vv_shared_note *note, struct vv_view *view, struct vv_peers *peers, uint32_t source,
                         struct varve_error *error) {
    uint32_t writers = 0;
    if (note->is_known && note->source == source)
        return 0;
    int rc = vv_view_writer_count(view, source, &writers, error);
    if (rc < 0)
        return rc;
    *note = (struct vv_shared_note){1, source, writers < vv_view_record(view)->ranks};
    if (note->is_shared_pack && vv_peers_shared_pack(peers, vv_view_source(view, source), writers) != 0)
        return vv_error(error, -ENOMEM, "no memory for what a checkpoint depends on");
    return 0;
}

int vv_find_shared_packs(struct vv_view *view, struct vv_peers *peers, uint32_t rank, int *is_any_out,
                         struct varve_error *error) {
    struct vv_shared_note note = {0};
    struct vv_recipe *recipe;
    struct vv_recipe_region region;
    struct vv_run run;
    int rc = vv_recipe_open(view, rank, &recipe, error);
    if (rc)
        return rc;
    while (rc >= 0 && (rc = vv_recipe_next_region(recipe, &region, error)) > 0)
        while (rc >= 0 && (rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
            if (run.place_count > 0)
                rc = vv_learn_shared_pack(&note, view, peers, run.places[0].dependency, error);
            *is_any_out |= note.is_shared_pack;
        }
    vv_recipe_close(recipe);
    return rc;
}
