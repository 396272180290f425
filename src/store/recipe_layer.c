#include "base/alloc.h"
#include "store/recipe_private.h"

#include <errno.h>
#include <stdio.h>

#define KEEP_IN_MEMORY (8u << 20)

int vv_layer_error(const struct vv_layer *layer, int rc, struct varve_error *error) {
    if (layer->fill_error.code) {
        return vv_error(error, layer->fill_error.code, "%s", layer->fill_error.text);
    }
    return vv_pack_error(layer->key, rc, error);
}

static int64_t fill_from_memory(void *arg, uint64_t offset, void *data, size_t size) {
    const struct vv_layer *layer = arg;
    uint64_t left = offset < layer->section.length ? layer->section.length - offset : 0;
    size_t n = left < size ? (size_t)left : size;
    memcpy(data, layer->data + offset, n);
    return (int64_t)n;
}

static int64_t fill_from_store(void *arg, uint64_t offset, void *data, size_t size) {
    struct vv_layer *layer = arg;
    uint64_t left = offset < layer->section.length ? layer->section.length - offset : 0;
    size_t n = left < size ? (size_t)left : size;
    int rc =
        n ? vv_pack_get(layer->view->store, layer->key, layer->section.offset + offset, data, n, &layer->fill_error)
          : 0;
    return rc < 0 ? vv_view_missing(layer->view, rc, &layer->fill_error) : (int64_t)n;
}

int vv_layer_rewind(struct vv_layer *layer, uint32_t owner, struct varve_error *error) {
    vv_manifest_close(layer->reader);
    layer->reader = NULL;
    layer->is_at_end = layer->has_entry = layer->is_in = layer->has_run = 0;
    int rc = vv_manifest_open(layer->data ? fill_from_memory : fill_from_store, layer, layer->section.length, owner,
                              layer->lean_count, &layer->reader, error);
    return rc < 0 ? vv_layer_error(layer, rc, error) : 0;
}

static int map_leans(struct vv_layer *layer, const struct vv_footer *footer, struct varve_error *error) {
    layer->lean_count = footer->lean_count;
    layer->sources = vv_calloc((size_t)footer->lean_count + 1, sizeof layer->sources[0]);
    layer->leans = vv_calloc((size_t)footer->lean_count + 1, sizeof layer->leans[0]);
    if (!layer->sources || !layer->leans) {
        return vv_error_sys(error, -ENOMEM, "%u lean entries", footer->lean_count);
    }
    layer->sources[0] = layer->source;
    for (uint32_t i = 0; i < footer->lean_count; i++) {
        layer->leans[i + 1] = footer->leans[i];
        layer->sources[i + 1] = vv_view_find_source(layer->view, &footer->leans[i]);
    }
    return 0;
}

const struct vv_lean *vv_layer_lean(const struct vv_layer *layer, uint32_t lean) {
    return &layer->leans[lean];
}

/* Digest first: nothing is parsed that was not written. */
static int check_section(void *arg, const char *key, const struct vv_section *section, struct varve_error *error) {
    struct vv_layer *layer = arg;
    struct vv_store *store = layer->view->store;
    snprintf(layer->key, sizeof layer->key, "%s", key);
    layer->section = *section;
    return section->length <= KEEP_IN_MEMORY ? vv_section_load(store, key, section, &layer->data, error)
                                             : vv_section_check(store, key, section, error);
}

int vv_layer_open(struct vv_layer *layer, struct vv_view *view, uint32_t source, uint32_t writer, uint32_t owner,
                  struct varve_error *error) {
    struct vv_cached *footer;
    *layer = (struct vv_layer){.view = view, .source = source, .writer = writer};
    int rc = vv_view_footer(view, source, writer, &footer, error);
    if (rc < 0) {
        return rc;
    }
    rc = map_leans(layer, footer->object, error);
    vv_view_release(view, footer);
    if (rc == 0) {
        rc = vv_view_section(view, source, writer, VV_SECTION_MANIFEST, owner, check_section, layer, error);
    }
    return rc < 0 ? rc : vv_layer_rewind(layer, owner, error);
}

void vv_layer_clear(struct vv_layer *layer) {
    vv_manifest_close(layer->reader);
    vv_free(layer->data);
    vv_free(layer->leans);
    vv_free(layer->sources);
    layer->reader = NULL;
    layer->data = NULL;
    layer->leans = NULL;
    layer->sources = NULL;
}
