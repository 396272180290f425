/* A view is a record and a cache. Sources are numbered as the record lists them; everything else is found from there:
 * record -> writers list (digest in the record) -> footer (digest in the list) -> sections (digest in the footer). */
#include "store/view.h"
#include "base/alloc.h"
#include "store/view_private.h"

#include <errno.h>
#include <stdio.h>

const char *vv_attempt_text(const struct vv_attempt *attempt, char out[64]) {
    int n = snprintf(out, 64, "generation %u version %llu", attempt->generation, (unsigned long long)attempt->version);
    if (attempt->attempt) {
        snprintf(out + n, 64 - (size_t)n, " attempt %u", attempt->attempt);
    }
    return out;
}

static int check_record(const struct vv_view *view, struct varve_error *error) {
    const struct vv_record *record = &view->record;
    char text[64];
    if (!vv_settings_are_same(&record->settings, &view->store->settings)) {
        return vv_error(error, VARVE_CORRUPT, "%s: the settings in its record are not those of the store",
                        vv_attempt_text(&view->attempt, text));
    }
    for (uint32_t i = 0; i < record->lean_count; i++) {
        const struct vv_attempt *lean = &record->leans[i].attempt;
        if (!vv_attempt_is_newer(&view->attempt, lean)) { /* another attempt at the same version is no past either */
            return vv_error(error, VARVE_CORRUPT, "the record of generation %u version %llu leans on the future: %s",
                            view->attempt.generation, (unsigned long long)view->attempt.version,
                            vv_attempt_text(lean, text));
        }
        if (i && vv_attempt_compare(&record->leans[i - 1].attempt, lean) >= 0) {
            return vv_error(error, VARVE_CORRUPT, "the lean entries of %s are out of order",
                            vv_attempt_text(&view->attempt, text));
        }
    }
    return 0;
}

static int open_record(struct vv_view *view, uint32_t generation, uint64_t version, struct varve_error *error) {
    int rc = vv_record_load(view->store, view->name, generation, version, &view->record, error);
    if (rc < 0) {
        return rc;
    }
    view->attempt = (struct vv_attempt){.generation = generation, .attempt = view->record.attempt, .version = version};
    rc = check_record(view, error);
    if (rc == 0) {
        struct vv_cached *writers = NULL;
        rc = vv_view_writers(view, 0, &writers, error);
        vv_view_release(view, writers);
    }
    return rc;
}

int vv_view_open_with(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                      struct vv_pack_cache *cache, struct vv_view **out, struct varve_error *error) {
    struct vv_view *view = vv_calloc(1, sizeof *view);
    if (!view) {
        return vv_error_sys(error, -ENOMEM, "open a checkpoint");
    }
    view->store = store;
    view->cache = cache;
    view->owns_cache = !cache;
    snprintf(view->name, sizeof view->name, "%s", name);
    int rc = cache ? 0 : vv_pack_cache_create(VV_TABLES_BUDGET, &view->cache);
    rc = rc < 0 ? vv_error_sys(error, rc, "open a checkpoint") : open_record(view, generation, version, error);
    if (rc < 0) {
        vv_view_close(view);
        return rc;
    }
    *out = view;
    return 0;
}

int vv_view_open(struct vv_store *store, const char *name, uint32_t generation, uint64_t version, struct vv_view **out,
                 struct varve_error *error) {
    return vv_view_open_with(store, name, generation, version, NULL, out, error);
}

void vv_view_close(struct vv_view *view) {
    if (!view) {
        return;
    }
    if (view->owns_cache) {
        vv_pack_cache_destroy(view->cache);
    }
    vv_record_clear(&view->record);
    vv_free(view);
}

const struct vv_record *vv_view_record(const struct vv_view *view) {
    return &view->record;
}

const struct vv_attempt *vv_view_attempt(const struct vv_view *view) {
    return &view->attempt;
}

const struct vv_attempt *vv_view_source(const struct vv_view *view, uint32_t source) {
    if (source == 0) {
        return &view->attempt;
    }
    return source <= view->record.lean_count ? &view->record.leans[source - 1].attempt : NULL;
}

uint32_t vv_view_find_source(const struct vv_view *view, const struct vv_lean *lean) {
    const struct vv_record *record = &view->record;
    if (vv_attempt_compare(&lean->attempt, &view->attempt) == 0) {
        return vv_hash128_equal(lean->writers_digest, record->writers_digest) ? 0 : VV_NO_SOURCE;
    }
    uint32_t low = 0, high = record->lean_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = vv_attempt_compare(&record->leans[middle].attempt, &lean->attempt);
        if (order == 0) {
            return vv_hash128_equal(record->leans[middle].writers_digest, lean->writers_digest) ? middle + 1
                                                                                                : VV_NO_SOURCE;
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return VV_NO_SOURCE;
}

struct vv_pack_id vv_view_pack(const struct vv_view *view, uint32_t source, uint32_t writer) {
    return (struct vv_pack_id){
        .store = view->store, .name = view->name, .attempt = *vv_view_source(view, source), .writer = writer};
}

int vv_view_missing(const struct vv_view *view, int rc, struct varve_error *error) {
    if (rc != -ENOENT && rc != VARVE_FORGOTTEN) {
        return rc;
    }
    struct vv_record record;
    struct varve_error why;
    char text[64];
    vv_attempt_text(&view->attempt, text);
    vv_error_clear(&why);
    int now = vv_record_load(view->store, view->name, view->attempt.generation, view->attempt.version, &record, &why);
    if (now == VARVE_FORGOTTEN || now == VARVE_NO_CHECKPOINT) {
        return vv_error(error, VARVE_FORGOTTEN, "%s was forgotten while it was read", text);
    }
    if (now < 0) {
        return vv_error(error, now, "%s", why.text);
    }
    vv_record_clear(&record);
    char what[300];
    snprintf(what, sizeof what, "%.299s", error ? error->text : "");
    return vv_error(error, VARVE_CORRUPT, "%s, although the record of %s stands", what, text);
}

/* ---- loading into the cache ---- */

struct load {
    struct vv_view *view;
    uint32_t source;
    uint32_t writer;
    uint32_t part;
};

static struct vv_hash128 writers_digest(const struct vv_view *view, uint32_t source) {
    return source ? view->record.leans[source - 1].writers_digest : view->record.writers_digest;
}

static void writers_destroy(void *object) {
    vv_writers_clear(object);
    vv_free(object);
}

static int read_writers(const struct load *load, struct vv_writers *out, struct varve_error *error) {
    struct vv_view *view = load->view;
    struct vv_key key = vv_attempt_key(view->name, vv_view_source(view, load->source), VV_KIND_WRITERS, 0, 0);
    struct vv_buf bytes;
    vv_buf_init(&bytes);
    int rc = vv_object_read(view->store, &key, &bytes, error);
    if (rc == 0) {
        rc = vv_writers_parse(bytes.data, bytes.size, &key, view->store->id, out, error);
    } else if (rc == -ENOENT) {
        char text[VV_KEY_ROOM];
        vv_key_print(&key, text);
        vv_error(error, rc, "%s is missing", text);
    }
    vv_buf_clear(&bytes);
    return rc;
}

static int load_writers(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct vv_writers *writers = vv_calloc(1, sizeof *writers);
    if (!writers) {
        return vv_error_sys(error, -ENOMEM, "a writers list");
    }
    int rc = read_writers(arg, writers, error);
    if (rc < 0) {
        vv_free(writers);
        return rc;
    }
    *object_out = writers;
    *bytes_out = sizeof *writers + writers->count * sizeof writers->list[0];
    return 0;
}

static int check_writers(const struct vv_view *view, uint32_t source, const struct vv_writers *writers,
                         struct varve_error *error) {
    char text[64];
    vv_attempt_text(vv_view_source(view, source), text);
    if (!vv_hash128_equal(writers->digest, writers_digest(view, source))) {
        return vv_error(error, VARVE_CORRUPT, "the writers list of %s is not the one the record of version %llu names",
                        text, (unsigned long long)view->attempt.version);
    }
    const struct vv_record *record = &view->record;
    if (source == 0 && (writers->count != record->writers || writers->ranks != record->ranks ||
                        writers->length != record->writers_length)) {
        return vv_error(error, VARVE_CORRUPT, "record and writers list of %s differ about writers or ranks", text);
    }
    return 0;
}

int vv_view_writers(struct vv_view *view, uint32_t source, struct vv_cached **out, struct varve_error *error) {
    const struct vv_attempt *attempt = vv_view_source(view, source);
    if (!attempt) {
        return vv_error(error, -EINVAL, "there is no source %u", source);
    }
    struct load load = {.view = view, .source = source};
    struct vv_cache_key key = {.attempt = *attempt, .kind = VV_CACHED_WRITERS};
    struct vv_cached *cached;
    int rc = vv_pack_cache_acquire(view->cache, &key, load_writers, &load, writers_destroy, &cached, error);
    if (rc < 0) {
        return vv_view_missing(view, rc, error);
    }
    rc = check_writers(view, source, cached->object, error);
    if (rc < 0) {
        vv_view_release(view, cached);
        return rc;
    }
    *out = cached;
    return 0;
}

static void footer_destroy(void *object) {
    vv_footer_clear(object);
    vv_free(object);
}

static int load_footer(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct load *load = arg;
    struct vv_pack_id id = vv_view_pack(load->view, load->source, load->writer);
    struct vv_footer *footer = vv_calloc(1, sizeof *footer);
    struct vv_cached *writers = NULL;
    int rc =
        footer ? vv_view_writers(load->view, load->source, &writers, error) : vv_error_sys(error, -ENOMEM, "a footer");
    if (rc == 0) {
        rc = vv_pack_footer_load(&id, VV_KIND_PACK, writers->object, footer, NULL, error);
    }
    vv_view_release(load->view, writers);
    if (rc < 0) {
        vv_free(footer);
        return rc;
    }
    *object_out = footer;
    *bytes_out = sizeof *footer + footer->section_count * sizeof footer->sections[0] +
                 footer->lean_count * sizeof footer->leans[0] + footer->parts * sizeof footer->part_lengths[0];
    return 0;
}

int vv_view_footer(struct vv_view *view, uint32_t source, uint32_t writer, struct vv_cached **out,
                   struct varve_error *error) {
    struct load load = {.view = view, .source = source, .writer = writer};
    struct vv_cache_key key = {.attempt = *vv_view_source(view, source), .writer = writer, .kind = VV_CACHED_FOOTER};
    int rc = vv_pack_cache_acquire(view->cache, &key, load_footer, &load, footer_destroy, out, error);
    return vv_view_missing(view, rc, error);
}

static void tables_destroy(void *object) {
    vv_pack_tables_clear(object);
    vv_free(object);
}

static int load_tables(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct load *load = arg;
    struct vv_pack_id id = vv_view_pack(load->view, load->source, load->writer);
    struct vv_pack_tables *tables = vv_calloc(1, sizeof *tables);
    struct vv_cached *footer = NULL;
    int rc = tables ? vv_view_footer(load->view, load->source, load->writer, &footer, error)
                    : vv_error_sys(error, -ENOMEM, "tables");
    if (rc == 0) {
        rc = vv_pack_tables_load(&id, footer->object, tables, bytes_out, error);
    }
    vv_view_release(load->view, footer);
    if (rc < 0) {
        vv_free(tables);
        return rc;
    }
    *object_out = tables;
    return 0;
}

int vv_view_tables(struct vv_view *view, uint32_t source, uint32_t writer, struct vv_cached **out,
                   struct varve_error *error) {
    struct load load = {.view = view, .source = source, .writer = writer};
    struct vv_cache_key key = {.attempt = *vv_view_source(view, source), .writer = writer, .kind = VV_CACHED_TABLES};
    int rc = vv_pack_cache_acquire(view->cache, &key, load_tables, &load, tables_destroy, out, error);
    return vv_view_missing(view, rc, error);
}

static void destroy_nothing(void *object) {
    (void)object;
}

static int load_part(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct load *load = arg;
    struct vv_pack_id id = vv_view_pack(load->view, load->source, load->writer);
    struct vv_head head;
    *object_out = NULL;
    *bytes_out = 0;
    return vv_pack_head_check(&id, VV_KIND_PART, load->part, &head, error);
}

int vv_view_block_key(struct vv_view *view, uint32_t source, uint32_t writer, uint32_t part, uint32_t parts, char *key,
                      struct varve_error *error) {
    struct vv_pack_id id = vv_view_pack(view, source, writer);
    vv_pack_key(&id, part < parts ? VV_KIND_PART : VV_KIND_PACK, part < parts ? part : 0, key);
    if (part == parts) {
        return 0;
    }
    struct load load = {.view = view, .source = source, .writer = writer, .part = part};
    struct vv_cache_key cache_key = {.attempt = id.attempt, .writer = writer, .kind = VV_CACHED_PART, .page = part};
    struct vv_cached *cached = NULL;
    int rc = vv_pack_cache_acquire(view->cache, &cache_key, load_part, &load, destroy_nothing, &cached, error);
    if (rc == 0) {
        vv_view_release(view, cached);
    }
    return vv_view_missing(view, rc, error);
}

void vv_view_release(struct vv_view *view, struct vv_cached *cached) {
    vv_pack_cache_release(view->cache, cached);
}
