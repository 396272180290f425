/* A view is a record and a cache. Sources are numbered as the record lists them; everything else is found from there:
 * record -> writers list (digest in the record) -> footer (digest in the list) -> sections (digest in the footer). */
#include "read/view.h"
#include "base/alloc.h"
#include "read/view_private.h"

#include <errno.h>
#include <stdio.h>

const char *vv_attempt_text(const struct vv_attempt *attempt, char out[64]) {
    int n = snprintf(out, 64, "generation %u version %llu", attempt->generation, (unsigned long long)attempt->version);
    if (attempt->attempt)
        snprintf(out + n, 64 - (size_t)n, " attempt %u", attempt->attempt);
    return out;
}

static int check_record(const struct vv_view *view, struct varve_error *error) {
    const struct vv_record *record = &view->record;
    char text[64];
    if (!vv_settings_are_same(&record->settings, &view->store->settings)) {
        return vv_error(error, VARVE_CORRUPT, "%s: the settings in its record are not those of the store",
                        vv_attempt_text(&view->attempt, text));
    }
    for (uint32_t i = 0; i < record->dependency_count; i++) {
        const struct vv_attempt *dependency = &record->dependencies[i].attempt;
        if (!vv_dependency_is_possible(&view->attempt, &record->parent, dependency)) {
            return vv_error(error, VARVE_CORRUPT, "the record of generation %u version %llu depends on the future: %s",
                            view->attempt.generation, (unsigned long long)view->attempt.version,
                            vv_attempt_text(dependency, text));
        }
        if (i && vv_attempt_compare(&record->dependencies[i - 1].attempt, dependency) >= 0) {
            return vv_error(error, VARVE_CORRUPT, "the lean entries of %s are out of order",
                            vv_attempt_text(&view->attempt, text));
        }
    }
    return 0;
}

/* A copy that the view owns. */
static int copy_record(struct vv_view *view, const struct vv_attempt *attempt, const struct vv_record *record,
                       struct varve_error *error) {
    struct vv_key key = vv_attempt_key(view->name, attempt, VV_KIND_RECORD, 0, 0);
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_record_encode(&buf, &key, view->store->id, record);
    int rc = buf.failed ? vv_error_sys(error, buf.failed, "open a checkpoint")
                        : vv_record_parse(buf.data, buf.size, &key, view->store->id, &view->record, error);
    vv_buf_clear(&buf);
    return rc;
}

/* given: NULL, or what is not under its key. */
static int open_record(struct vv_view *view, const struct vv_attempt *at, const struct vv_record *given,
                       struct varve_error *error) {
    int rc = given ? copy_record(view, at, given, error)
                   : vv_record_load(view->store, view->name, at->generation, at->version, &view->record, error);
    if (rc < 0)
        return rc;
    view->attempt = *at;
    view->attempt.attempt = view->record.attempt;
    rc = check_record(view, error);
    if (rc == 0) {
        struct vv_cached *writers = NULL;
        rc = vv_view_writers(view, 0, &writers, error);
        vv_view_release(view, writers);
    }
    return rc;
}

static int open_view(struct vv_store *store, const char *name, const struct vv_attempt *at,
                     const struct vv_record *given, struct vv_pack_cache *cache, struct vv_view **out,
                     struct varve_error *error) {
    struct vv_view *view = vv_calloc(1, sizeof *view);
    if (!view)
        return vv_error_sys(error, -ENOMEM, "open a checkpoint");
    pthread_mutex_init(&view->decoded.lock, NULL);
    view->store = store;
    view->reader = VV_ALL_OWNERS;
    view->cache = cache;
    view->owns_cache = !cache;
    snprintf(view->name, sizeof view->name, "%s", name);
    int rc = cache ? 0 : vv_pack_cache_create(VV_TABLES_BUDGET, &view->cache);
    rc = rc < 0 ? vv_error_sys(error, rc, "open a checkpoint") : open_record(view, at, given, error);
    if (rc < 0) {
        vv_view_close(view);
        return rc;
    }
    *out = view;
    return 0;
}

int vv_view_open_with(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                      struct vv_pack_cache *cache, struct vv_view **out, struct varve_error *error) {
    struct vv_attempt at = {.generation = generation, .version = version};
    return open_view(store, name, &at, NULL, cache, out, error);
}

int vv_view_open_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                        const struct vv_record *record, struct vv_view **out, struct varve_error *error) {
    return open_view(store, name, attempt, record, NULL, out, error);
}

void vv_view_expect_parts(struct vv_view *view) {
    view->decoded.is_wanted = 1;
}

void vv_view_expect_owner(struct vv_view *view, uint32_t owner) {
    view->reader = owner;
}

int vv_view_open(struct vv_store *store, const char *name, uint32_t generation, uint64_t version, struct vv_view **out,
                 struct varve_error *error) {
    return vv_view_open_with(store, name, generation, version, NULL, out, error);
}

void vv_view_close(struct vv_view *view) {
    if (!view)
        return;
    if (view->owns_cache)
        vv_pack_cache_destroy(view->cache);
    vv_record_clear(&view->record);
    vv_free(view->decoded.data);
    pthread_mutex_destroy(&view->decoded.lock);
    vv_free(view);
}

void vv_view_distrust(struct vv_view *view, vv_trust_fn is_trusted, void *arg) {
    view->is_trusted = is_trusted;
    view->is_trusted_arg = arg;
}

uint64_t vv_view_seed(const struct vv_view *view) {
    return view->store->settings.seed;
}

const struct vv_record *vv_view_record(const struct vv_view *view) {
    return &view->record;
}

const struct vv_attempt *vv_view_attempt(const struct vv_view *view) {
    return &view->attempt;
}

int vv_view_used_copies(const struct vv_view *view) {
    return view->used_copies;
}

const struct vv_attempt *vv_view_source(const struct vv_view *view, uint32_t source) {
    if (source == 0)
        return &view->attempt;
    return source <= view->record.dependency_count ? &view->record.dependencies[source - 1].attempt : NULL;
}

uint32_t vv_view_find_source(const struct vv_view *view, const struct vv_dependency *dependency) {
    const struct vv_record *record = &view->record;
    if (vv_attempt_compare(&dependency->attempt, &view->attempt) == 0)
        return vv_hash128_equal(dependency->writers_digest, record->writers_digest) ? 0 : VV_NO_SOURCE;
    uint32_t low = 0, high = record->dependency_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = vv_attempt_compare(&record->dependencies[middle].attempt, &dependency->attempt);
        if (order == 0) {
            return vv_hash128_equal(record->dependencies[middle].writers_digest, dependency->writers_digest)
                       ? middle + 1
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
    if (rc != -ENOENT && rc != VARVE_FORGOTTEN)
        return rc;
    struct vv_record record;
    struct varve_error why;
    char text[64];
    vv_attempt_text(&view->attempt, text);
    vv_error_clear(&why);
    int now = vv_record_load(view->store, view->name, view->attempt.generation, view->attempt.version, &record, &why);
    if (now == VARVE_FORGOTTEN || now == VARVE_NO_CHECKPOINT)
        return vv_error(error, VARVE_FORGOTTEN, "%s was forgotten while it was read; `varve ls` tells what there is",
                        text);
    if (now < 0)
        return vv_error(error, now, "%s", why.text);
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
    uint32_t owner; /* of tables: whose extents */
};

static void footer_destroy(void *object) {
    vv_footer_clear(object);
    vv_free(object);
}

/* What failed with the pack may work with its copy; what is newer than this program or for want of memory may not. */
static int may_use_copy(int rc) {
    return rc < 0 && rc != -ENOMEM && rc != VARVE_UNKNOWN_FORMAT;
}

/* The pack, or its copy. If neither works, the pack's failure is told. */
static int read_footer(const struct load *load, const struct vv_listed *listed, struct vv_view_footer *out,
                       struct varve_error *error) {
    struct vv_pack_id id = vv_view_pack(load->view, load->source, load->writer);
    struct varve_error why = {0};
    out->kind = VV_KIND_PACK;
    int rc = vv_pack_footer_load(&id, VV_KIND_PACK, listed, &out->footer, NULL, error);
    if (!may_use_copy(rc) || vv_pack_footer_load(&id, VV_KIND_COPY, listed, &out->footer, NULL, &why) < 0)
        return rc;
    out->kind = VV_KIND_COPY;
    load->view->used_copies = 1;
    out->is_lost = rc == -ENOENT || rc == VARVE_FORGOTTEN;
    vv_log(load->view->store->log, VV_LOG_WARN, "%s; its tables are read from its copy", error ? error->text : "");
    vv_error_clear(error);
    return 0;
}

static int load_footer(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct load *load = arg;
    struct vv_view_footer *found = vv_calloc(1, sizeof *found);
    struct vv_listed listed;
    int rc = found ? vv_view_listed(load->view, load->source, load->writer, &listed, error)
                   : vv_error_sys(error, -ENOMEM, "a footer");
    if (rc == 0)
        rc = read_footer(load, &listed, found, error);
    if (rc < 0) {
        vv_free(found);
        return rc;
    }
    const struct vv_footer *footer = &found->footer;
    *object_out = found;
    *bytes_out = sizeof *found + footer->section_count * sizeof footer->sections[0] +
                 footer->dependency_count * sizeof footer->dependencies[0] +
                 footer->parts * sizeof footer->part_lengths[0];
    return 0;
}

int vv_view_footer(struct vv_view *view, uint32_t source, uint32_t writer, struct vv_cached **out,
                   struct varve_error *error) {
    struct load load = {.view = view, .source = source, .writer = writer};
    struct vv_cache_key key = {.attempt = *vv_view_source(view, source), .writer = writer, .kind = VV_CACHED_FOOTER};
    int rc = vv_pack_cache_acquire(view->cache, &key, load_footer, &load, footer_destroy, out, error);
    return vv_view_missing(view, rc, error);
}

int vv_view_stored(struct vv_view *view, uint32_t source, uint32_t owner, uint64_t *out, struct varve_error *error) {
    struct vv_cached *footer = NULL;
    uint32_t home = 0;
    *out = 0;
    int rc = vv_view_home(view, source, owner, &home, error);
    if (rc <= 0)
        return rc;
    rc = vv_view_footer(view, source, home, &footer, error);
    if (footer) {
        const struct vv_footer *found = footer->object;
        *out = found->raw_bytes / found->owners;
        vv_view_release(view, footer);
    }
    return rc;
}

/* ---- from the pack or its copy ---- */

/* Do it with the object the footer came from, and with the copy if that fails. */
typedef int (*object_fn)(void *arg, const struct vv_pack_id *id, int kind, const struct vv_footer *footer,
                         struct varve_error *error);

static int with_object(struct vv_view *view, uint32_t source, uint32_t writer, object_fn fn, void *arg,
                       struct varve_error *error) {
    struct vv_pack_id id = vv_view_pack(view, source, writer);
    struct vv_cached *cached;
    struct vv_footer copy;
    struct varve_error why = {0};
    int rc = vv_view_footer(view, source, writer, &cached, error);
    if (rc < 0)
        return rc;
    const struct vv_view_footer *found = cached->object;
    rc = fn(arg, &id, found->kind, &found->footer, error);
    if (may_use_copy(rc) && found->kind == VV_KIND_PACK &&
        vv_pack_footer_load(&id, VV_KIND_COPY, NULL, &copy, NULL, &why) == 0) {
        if (vv_hash128_equal(copy.digest, found->footer.digest) &&
            fn(arg, &id, VV_KIND_COPY, &found->footer, &why) == 0) {
            vv_log(view->store->log, VV_LOG_WARN, "%s; read from its copy", error ? error->text : "");
            vv_error_clear(error);
            view->used_copies = 1;
            rc = 0;
        }
        vv_footer_clear(&copy);
    }
    vv_view_release(view, cached);
    return vv_view_missing(view, rc, error);
}

struct section_load {
    int kind;
    uint32_t owner;
    vv_section_fn fn;
    void *arg;
};

static int load_section(void *arg, const struct vv_pack_id *id, int kind, const struct vv_footer *footer,
                        struct varve_error *error) {
    const struct section_load *load = arg;
    const struct vv_section *section = vv_footer_section(footer, load->kind, load->owner);
    char key[VV_KEY_CAPACITY];
    vv_pack_key(id, kind, 0, key);
    if (!section)
        return vv_error(error, VARVE_CORRUPT, "%s has no section of kind %d of owner %u", key, load->kind, load->owner);
    struct vv_section at = vv_pack_section(footer, section, kind);
    return load->fn(load->arg, key, &at, error);
}

int vv_view_section(struct vv_view *view, uint32_t source, uint32_t writer, int kind, uint32_t owner, vv_section_fn fn,
                    void *arg, struct varve_error *error) {
    struct section_load load = {.kind = kind, .owner = owner, .fn = fn, .arg = arg};
    return with_object(view, source, writer, load_section, &load, error);
}

static void tables_destroy(void *object) {
    vv_pack_tables_clear(object);
    vv_free(object);
}

struct tables_load {
    uint32_t owner;
    struct vv_pack_tables *tables;
    size_t *bytes_out;
};

static int read_tables(void *arg, const struct vv_pack_id *id, int kind, const struct vv_footer *footer,
                       struct varve_error *error) {
    struct tables_load *load = arg;
    return vv_pack_tables_load_of(id, kind, footer, load->owner, load->tables, load->bytes_out, error);
}

static int load_tables(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error) {
    struct load *load = arg;
    struct vv_pack_tables *tables = vv_calloc(1, sizeof *tables);
    struct tables_load read = {.owner = load->owner, .tables = tables, .bytes_out = bytes_out};
    struct vv_cached *footer = NULL;
    int rc = tables ? vv_view_footer(load->view, load->source, load->writer, &footer, error)
                    : vv_error_sys(error, -ENOMEM, "tables");
    if (rc == 0) {
        rc = with_object(load->view, load->source, load->writer, read_tables, &read, error);
        tables->is_lost = ((const struct vv_view_footer *)footer->object)->is_lost;
    }
    vv_view_release(load->view, footer);
    if (rc < 0) {
        vv_free(tables);
        return rc;
    }
    *object_out = tables;
    return 0;
}

int vv_view_tables_of(struct vv_view *view, uint32_t source, uint32_t writer, uint32_t owner, struct vv_cached **out,
                      struct varve_error *error) {
    struct load load = {
        .view = view, .source = source, .writer = writer, .owner = owner == view->reader ? owner : VV_ALL_OWNERS};
    struct vv_cache_key key = {.attempt = *vv_view_source(view, source),
                               .writer = writer,
                               .kind = VV_CACHED_TABLES,
                               .page = load.owner == VV_ALL_OWNERS ? 0 : UINT64_C(1) + load.owner};
    int rc = vv_pack_cache_acquire(view->cache, &key, load_tables, &load, tables_destroy, out, error);
    return vv_view_missing(view, rc, error);
}

int vv_view_tables(struct vv_view *view, uint32_t source, uint32_t writer, struct vv_cached **out,
                   struct varve_error *error) {
    return vv_view_tables_of(view, source, writer, VV_ALL_OWNERS, out, error);
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
    if (part == parts)
        return 0;
    struct load load = {.view = view, .source = source, .writer = writer, .part = part};
    struct vv_cache_key cache_key = {.attempt = id.attempt, .writer = writer, .kind = VV_CACHED_PART, .page = part};
    struct vv_cached *cached = NULL;
    int rc = vv_pack_cache_acquire(view->cache, &cache_key, load_part, &load, destroy_nothing, &cached, error);
    if (rc == 0)
        vv_view_release(view, cached);
    return vv_view_missing(view, rc, error);
}

void vv_view_release(struct vv_view *view, struct vv_cached *cached) {
    vv_pack_cache_release(view->cache, cached);
}
