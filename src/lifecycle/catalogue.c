/* The catalogue: what the records say, gathered in one object.
 *
 * The listing of the keys decides what exists. A record never changes but into a tombstone, so an entry for a key
 * that is listed can only be wrong in one way: it was forgotten since. vv_forget therefore marks its entry; when
 * that does not work out, a list shows a checkpoint that turns out to be forgotten when it is used. Nothing that
 * removes data ever looks here. */
#include "lifecycle/catalogue.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "lifecycle/lifecycle.h"

#define WRITE_AFTER 64

static struct vv_key catalogue_key(const char *name) {
    return vv_attempt_key(name, &(struct vv_attempt){0}, VV_KIND_CATALOGUE, 0, 0);
}

int vv_catalogue_read(struct vv_store *store, const char *name, struct vv_catalogue *out, struct varve_error *error) {
    struct vv_key key = catalogue_key(name);
    struct vv_buf buf;
    *out = (struct vv_catalogue){0};
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &key, &buf, error);
    if (rc == 0)
        rc = vv_catalogue_parse(buf.data, buf.size, &key, store->id, out, error);
    vv_buf_clear(&buf);
    return rc;
}

/* Empty when there is none or it is of no use. */
static int read_cache(struct vv_store *store, const char *name, struct vv_catalogue *out) {
    struct varve_error why = {0};
    int rc = vv_catalogue_read(store, name, out, &why);
    if (rc < 0 && rc != -ENOENT)
        vv_log(store->log, VV_LOG_DEBUG, "the catalogue of %s is not used: %s", name, why.text);
    return rc;
}

static int write_cache(struct vv_store *store, const char *name, const struct vv_catalogue *catalogue) {
    struct vv_key key = catalogue_key(name);
    char text[VV_KEY_CAPACITY];
    struct vv_buf buf;
    vv_key_print(&key, text);
    vv_buf_init(&buf);
    vv_catalogue_encode(&buf, &key, store->id, catalogue);
    int rc = buf.failed ? buf.failed : VV_FAULT("store.catalogue.before_replace");
    if (rc == 0)
        rc = vv_backend_replace(store->backend, text, buf.data, buf.size);
    vv_buf_clear(&buf);
    if (rc < 0)
        vv_log(store->log, VV_LOG_DEBUG, "cannot write %s: %s", text, varve_error_text(rc));
    return rc;
}

/* ---- loading ---- */

struct loading {
    struct vv_store *store;
    const char *name;
    void (*damaged)(void *arg, uint32_t generation, uint64_t version, const struct varve_error *why);
    void *arg;
    struct vv_catalogue cache;
    uint64_t next; /* entry of the cache */
    struct vv_catalogue all;
    size_t capacity;
    uint64_t read; /* records that had to be read */
};

/* One key of the listing, with what is known before anything is read. */
static int take_key(void *arg, uint32_t generation, uint64_t version) {
    struct loading *loading = arg;
    struct vv_catalogue *all = &loading->all;
    struct vv_catalogue_entry entry = {.attempt = {.generation = generation, .version = version}};
    if (VV_GROW(all->list, all->count, loading->capacity) != 0)
        return -ENOMEM;
    while (loading->next < loading->cache.count &&
           vv_attempt_is_newer(&loading->cache.list[loading->next].attempt, &entry.attempt))
        loading->next++;
    if (loading->next < loading->cache.count &&
        !vv_attempt_is_newer(&entry.attempt, &loading->cache.list[loading->next].attempt))
        entry = loading->cache.list[loading->next];
    all->list[all->count++] = entry;
    return 0;
}

/* Entries the cache did not have: neither a tombstone nor a time. */
static int is_unknown(const struct vv_catalogue_entry *entry) {
    return !entry->is_tombstone && entry->time_ns == 0;
}

/* 1 read, 0 damaged or not readable (told, stays with time 0), VARVE_NO_CHECKPOINT gone since the listing. */
static int read_entry(struct loading *loading, struct vv_catalogue_entry *entry) {
    struct varve_error why = {0};
    struct vv_record record;
    int rc =
        vv_record_load(loading->store, loading->name, entry->attempt.generation, entry->attempt.version, &record, &why);
    if (rc == VARVE_FORGOTTEN) {
        entry->is_tombstone = 1;
        return 1;
    }
    if (rc == VARVE_NO_CHECKPOINT || rc == -ENOMEM)
        return rc;
    if (rc < 0) {
        if (loading->damaged)
            loading->damaged(loading->arg, entry->attempt.generation, entry->attempt.version, &why);
        return 0;
    }
    entry->attempt.attempt = record.attempt;
    entry->time_ns = record.time_ns;
    entry->protected_bytes = record.protected_bytes;
    entry->stored_bytes = record.stored_bytes;
    entry->metadata_bytes = record.metadata_bytes;
    entry->regions = record.regions;
    entry->ranks = record.ranks;
    vv_record_clear(&record);
    return 1;
}

static int read_missing(struct loading *loading, struct varve_error *error) {
    uint64_t left = 0;
    for (uint64_t i = 0; i < loading->all.count; i++) {
        struct vv_catalogue_entry entry = loading->all.list[i];
        int rc = is_unknown(&entry) ? read_entry(loading, &entry) : 0;
        if (rc == VARVE_NO_CHECKPOINT)
            continue;
        if (rc < 0)
            return vv_error_sys(error, rc, "cannot read the records of %s", loading->name);
        loading->read += (uint64_t)rc;
        loading->all.list[left++] = entry;
    }
    loading->all.count = left;
    return 0;
}

/* Leave out what pass says; the order stays. */
static void filter(struct vv_catalogue *catalogue, int (*is_out)(const struct vv_catalogue_entry *)) {
    uint64_t left = 0;
    for (uint64_t i = 0; i < catalogue->count; i++)
        if (!is_out(&catalogue->list[i]))
            catalogue->list[left++] = catalogue->list[i];
    catalogue->count = left;
}

static int is_tombstone(const struct vv_catalogue_entry *entry) {
    return (int)entry->is_tombstone;
}

/* Records that could not be read are not cached: the next one to look may find them repaired, or within reach. */
static void save(struct loading *loading) {
    struct vv_catalogue copy = {.count = loading->all.count};
    if (copy.count && !(copy.list = vv_calloc(copy.count, sizeof *copy.list)))
        return;
    if (copy.count)
        memcpy(copy.list, loading->all.list, copy.count * sizeof *copy.list);
    filter(&copy, is_unknown);
    write_cache(loading->store, loading->name, &copy);
    vv_catalogue_clear(&copy);
}

int vv_catalogue_load(struct vv_store *store, const char *name, int may_write,
                      void (*damaged)(void *arg, uint32_t generation, uint64_t version, const struct varve_error *why),
                      void *arg, struct vv_catalogue *out, struct varve_error *error) {
    struct loading loading = {.store = store, .name = name, .damaged = damaged, .arg = arg};
    int rc = read_cache(store, name, &loading.cache);
    rc = rc == -ENOMEM ? vv_error_sys(error, rc, "cannot read the catalogue of %s", name) : 0;
    if (rc == 0)
        rc = vv_records_list(store, name, take_key, &loading, error);
    if (rc == 0)
        rc = read_missing(&loading, error);
    vv_catalogue_clear(&loading.cache);
    if (rc < 0) {
        vv_catalogue_clear(&loading.all);
        return rc;
    }
    if (may_write && loading.read > WRITE_AFTER)
        save(&loading);
    filter(&loading.all, is_tombstone);
    *out = loading.all;
    return 0;
}

/* ---- forgetting ---- */

void vv_catalogue_bury(struct vv_store *store, const char *name, const struct vv_attempt *list, size_t count) {
    struct vv_catalogue cache;
    uint64_t at = 0, changed = 0;
    if (read_cache(store, name, &cache) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        while (at < cache.count && vv_attempt_is_newer(&cache.list[at].attempt, &list[i]))
            at++;
        if (at == cache.count)
            break;
        if (!vv_attempt_is_newer(&list[i], &cache.list[at].attempt) && !cache.list[at].is_tombstone) {
            cache.list[at].is_tombstone = 1;
            changed++;
        }
    }
    if (changed)
        write_cache(store, name, &cache);
    vv_catalogue_clear(&cache);
}
