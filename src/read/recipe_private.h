/* Inside a recipe: the manifest layers of one owner. For recipe.c and recipe_layer.c. */
#ifndef VV_RECIPE_PRIVATE_H
#define VV_RECIPE_PRIVATE_H

#include "read/view_private.h"

/* One manifest section: where it is, how its dependency indices map to sources of the view, and the reader over it. */
struct vv_layer {
    struct vv_view *view;
    uint32_t source;
    uint32_t writer;
    struct vv_section section;
    char key[VV_KEY_CAPACITY];
    uint8_t *data; /* the section if it is small, else NULL: it is read again in each pass */
    struct vv_dependency *dependencies;
    uint32_t *sources; /* of dependency index i, or VV_NO_SOURCE */
    uint32_t dependency_count;

    uint64_t length;               /* of the manifest, unpacked */
    struct vv_coder *coder;        /* of a packed one; its pieces come one after another: */
    uint8_t *piece;                /* the one at hand, */
    uint64_t piece_from, piece_to; /* where it lies in the manifest, */
    uint64_t next_piece;           /* and where in the section the next one begins */

    struct vv_manifest_reader *reader;
    int is_at_end;
    int has_entry; /* entry is read; its runs are not, or not all */
    struct vv_region_entry entry;
    int is_in;        /* entry belongs to the region at hand */
    uint64_t address; /* of the region in this layer */
    int has_run;
    struct vv_run run;
    struct varve_error fill_error; /* why the last fill failed */
};

/* Find the section of owner in the pack of (source, writer), check its digest, open a reader on it. */
int vv_layer_open(struct vv_layer *layer, struct vv_view *view, uint32_t source, uint32_t writer, uint32_t owner,
                  struct varve_error *error);
/* Begin again from the first entry. */
int vv_layer_rewind(struct vv_layer *layer, uint32_t owner, struct varve_error *error);
void vv_layer_clear(struct vv_layer *layer);
/* The attempt that a lower-layer reference in this layer's head means. */
const struct vv_dependency *vv_layer_dependency(const struct vv_layer *layer, uint32_t dependency);
/* Errors of the reader, with the object's key in front. */
int vv_layer_error(const struct vv_layer *layer, int rc, struct varve_error *error);

#endif
