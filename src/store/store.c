/* Opening a store, and the small things every other file here needs: keys, whole objects, listings, sets.
 *
 * The store object is created before anything else, so a store without it that has objects has lost it. A new one, with
 * another seed, would make every stored content id meaningless: then it is patched from what the other objects say
 * (store_patch.c), never made anew. */
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"
#include "storage/storage.h"
#include "store/listing.h"
#include "store/read_costs.h"
#include "store/store_private.h"

#define LARGE_MAX (UINT64_C(4) << 30)

static const struct vv_key store_key = {.kind = VV_KIND_STORE};

struct vv_key vv_attempt_key(const char *name, const struct vv_attempt *attempt, int kind, uint32_t writer,
                             uint32_t part) {
    struct vv_key key = {.kind = kind,
                         .generation = attempt->generation,
                         .attempt = attempt->attempt,
                         .version = attempt->version,
                         .writer = writer,
                         .part = part};
    snprintf(key.name, sizeof key.name, "%s", name);
    return key;
}

int vv_settings_are_same(const struct vv_settings_store *a, const struct vv_settings_store *b) {
    return a->id_kind == b->id_kind && a->granule_log2 == b->granule_log2 && a->seed == b->seed &&
           a->created_ns == b->created_ns && a->layout == b->layout;
}

int vv_read_error(struct vv_store *store, const char *key, int rc, struct varve_error *error) {
    char why[160];
    if (rc == VARVE_CORRUPT && vv_backend_refusal(store->backend, key, why, sizeof why))
        return vv_error(error, rc, "%s is refused: %s", key, why);
    return vv_error_sys(error, rc, "cannot read %s", key);
}

int vv_object_read(struct vv_store *store, const struct vv_key *key, struct vv_buf *out, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    int is_large = key->kind == VV_KIND_WRITERS || key->kind == VV_KIND_CATALOGUE;
    vv_key_print(key, text);
    uint64_t max = is_large ? LARGE_MAX : VV_SMALL_MAX;
    int rc = vv_backend_get_all(store->backend, text, max, out);
    if (rc == -ESTALE) /* replaced or removed while it was read, as network file systems say it */
        rc = vv_backend_get_all(store->backend, text, max, out);
    if (rc == -EFBIG)
        return vv_error(error, VARVE_CORRUPT, "%s is larger than any %s may be", text, vv_kind_name(key->kind));
    return rc < 0 ? vv_read_error(store, text, rc, error) : 0;
}

int64_t vv_object_read_at(struct vv_store *store, const struct vv_key *key, uint64_t offset, void *data, size_t size,
                          struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    int64_t got = vv_backend_get(store->backend, text, offset, data, size);
    if (got == -ESTALE)
        got = vv_backend_get(store->backend, text, offset, data, size);
    return got < 0 ? vv_read_error(store, text, (int)got, error) : got;
}

int vv_object_create(struct vv_store *store, const struct vv_key *key, const struct vv_buf *bytes,
                     struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    int rc = bytes->failed ? bytes->failed : vv_backend_put(store->backend, text, bytes->data, bytes->size);
    if (rc < 0)
        vv_error_sys(error, rc, "cannot create %s", text);
    return vv_error_shortage(store, rc, error);
}

int vv_error_shortage(struct vv_store *store, int rc, struct varve_error *error) {
    char text[512];
    if (!error || (rc != -ENOSPC && rc != -EDQUOT) || !vv_backend_shortage(store->backend, text, sizeof text))
        return rc;
    return vv_error(error, rc, "%s", text); /* which object found no room tells nobody anything */
}

int vv_tombstone_create(struct vv_store *store, const struct vv_key *key, int reason, struct varve_error *error) {
    struct vv_tombstone tombstone = {.reason = (uint32_t)reason, .time_ns = vv_clock_wall_ns()};
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_tombstone_encode(&buf, key, store->id, &tombstone);
    int rc = vv_object_create(store, key, &buf, error);
    vv_buf_clear(&buf);
    return rc;
}

/* ---- opening ---- */

static int read_store_object(struct vv_store *store, struct varve_error *error) {
    struct vv_store_object object;
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &store_key, &buf, error);
    if (rc == 0)
        rc = vv_store_object_parse(buf.data, buf.size, &object, error);
    vv_buf_clear(&buf);
    if (rc == VARVE_UNKNOWN_FORMAT && error) {
        struct varve_error why = *error;
        vv_error(error, rc, "%.400s; a newer Varve wrote it: use that one", why.text);
    }
    if (rc == 0) {
        memcpy(store->id, object.store_id, sizeof store->id);
        store->settings = object.settings;
    }
    return rc;
}

static int is_no_id(const uint8_t id[16]) {
    static const uint8_t none[16];
    return memcmp(id, none, sizeof none) == 0;
}

/* Whoever loses the race to make it uses what the other one made. */
static int make_store(struct vv_store *store, const struct vv_store_object *like, struct varve_error *error) {
    struct vv_store_object object = {
        .settings = {.id_kind = VV_ID_XXH3, .granule_log2 = 12, .created_ns = vv_clock_wall_ns()}};
    struct vv_buf buf;
    int rc = vv_random(object.store_id, sizeof object.store_id);
    if (rc == 0)
        rc = vv_random(&object.settings.seed, sizeof object.settings.seed);
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot choose the id of a new store");
    object.settings.seed += object.settings.seed == 0;
    if (like && is_no_id(like->store_id))
        object.settings.layout = like->settings.layout;
    else if (like)
        object = *like;
    if ((rc = VV_FAULT("store.open.before_create")) < 0)
        return vv_error_sys(error, rc, "cannot make the store");
    vv_buf_init(&buf);
    vv_store_object_encode(&buf, &object);
    rc = vv_object_create(store, &store_key, &buf, error);
    vv_buf_clear(&buf);
    if (rc == 0 || rc == -EEXIST) {
        vv_error_clear(error);
        rc = read_store_object(store, error);
    }
    return rc;
}

static int see_foreign(void *arg, const char *component, int is_prefix) {
    (void)is_prefix;
    if (strcmp(component, "n") != 0 && strcmp(component, "varve") != 0)
        *(int *)arg = 1;
    return *(int *)arg;
}

/* A wrong path must not litter somebody's folder. */
static int make_new(struct vv_store *store, int mode, const struct vv_store_object *like, struct varve_error *error) {
    int is_foreign = 0;
    if (mode == VV_STORE_READ)
        return vv_error(error, VARVE_NO_STORE, "there is no store here: it would have an object named varve");
    int rc = vv_backend_list(store->backend, "", NULL, 0, see_foreign, &is_foreign);
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot look whether there is a store");
    if (is_foreign)
        return vv_error(
            error, VARVE_NO_STORE,
            "there are files here but no store (it would have an object named varve): give a new or an empty folder");
    return make_store(store, like, error);
}

static int find_settings(struct vv_store *store, int mode, const struct vv_store_object *like,
                         struct varve_error *error) {
    int rc = read_store_object(store, error);
    if (rc == -ENOENT) {
        rc = vv_prefix_is_used(store, "n", error);
        if (rc < 0)
            return rc;
        if (rc == 0)
            return make_new(store, mode, like, error);
        /* Another session may have made the store, and a name in it, between the two looks. */
        rc = read_store_object(store, error);
    }
    if (rc == -ENOENT || rc == VARVE_CORRUPT)
        rc = vv_store_patch(store, rc == -ENOENT, error);
    return rc;
}

static int open_store(struct varve_backend *backend, int mode, const struct vv_store_object *like,
                      const struct vv_log *log, struct vv_store **out, struct varve_error *error) {
    struct vv_store *store = vv_calloc(1, sizeof *store);
    if (!store || !(store->costs = vv_calloc(1, sizeof *store->costs))) {
        vv_free(store);
        vv_backend_close(backend);
        return vv_error_sys(error, -ENOMEM, "cannot open the store");
    }
    store->backend = backend;
    store->log = log;
    int rc = find_settings(store, mode, like, error);
    if (rc == 0 && like && !is_no_id(like->store_id) &&
        (memcmp(store->id, like->store_id, sizeof store->id) != 0 ||
         !vv_settings_are_same(&store->settings, &like->settings)))
        rc = vv_error(error, VARVE_MISMATCH, "there is another store here, with another id or other settings");
    if (rc < 0) {
        vv_store_close(store);
        return rc;
    }
    vv_error_clear(error);
    *out = store;
    return 0;
}

int vv_store_open(struct varve_backend *backend, int mode, const struct vv_log *log, struct vv_store **out,
                  struct varve_error *error) {
    return open_store(backend, mode, NULL, log, out, error);
}

int vv_store_open_as(struct varve_backend *backend, const struct vv_store_object *like, const struct vv_log *log,
                     struct vv_store **out, struct varve_error *error) {
    return open_store(backend, VV_STORE_WRITE, like, log, out, error);
}

void vv_store_close(struct vv_store *store) {
    if (!store)
        return;
    vv_backend_close(store->backend);
    vv_free(store->costs);
    vv_free(store);
}

static int remake_store_object(struct vv_store *store, struct varve_error *error) {
    struct vv_store_object object = {.settings = store->settings};
    struct vv_buf buf;
    memcpy(object.store_id, store->id, sizeof object.store_id);
    vv_buf_init(&buf);
    vv_store_object_encode(&buf, &object);
    int rc = vv_object_create(store, &store_key, &buf, error);
    vv_buf_clear(&buf);
    return rc < 0 ? rc : 1;
}

int vv_store_restore(struct vv_store *store, const char *key, struct varve_error *error) {
    struct vv_store found = {.backend = store->backend};
    int made = vv_keys_restore(store->backend, key, error);
    int rc = made < 0 ? made : read_store_object(&found, error);
    if (made >= 0 && rc == -ENOENT) {
        vv_error_clear(error);
        return store->is_patched ? made > 0 : remake_store_object(store, error);
    }
    if (rc == 0 && memcmp(found.id, store->id, sizeof found.id) != 0)
        rc = vv_error(error, VARVE_MISMATCH, "there is another store now than the one that was opened");
    if (store->is_patched && rc == VARVE_CORRUPT) /* as it was found */
        rc = 0;
    return rc < 0 ? rc : made > 0;
}

/* ---- listings ---- */

struct name_listing {
    struct vv_store *store;
    vv_name_fn fn;
    void *arg;
};

static int take_name(void *arg, const char *component, int is_prefix) {
    struct name_listing *listing = arg;
    char name[VV_NAME_MAX + 1];
    if (!is_prefix || vv_name_decode(component, name) < 0) {
        vv_log(listing->store->log, VV_LOG_WARN, "n/%s is not the name of a series of checkpoints; left alone",
               component);
        return 0;
    }
    return listing->fn(listing->arg, name);
}

int vv_store_names(struct vv_store *store, vv_name_fn fn, void *arg, struct varve_error *error) {
    struct name_listing listing = {.store = store, .fn = fn, .arg = arg};
    int rc = vv_backend_list(store->backend, "n", NULL, 0, take_name, &listing);
    return rc < 0 ? vv_error_default(error, rc, "cannot list the names in the store: %s", varve_error_text(rc)) : 0;
}

struct number_listing {
    struct vv_store *store;
    const char *prefix;
    int digits;
    struct vv_numbers *out;
};

int vv_numbers_add(struct vv_numbers *numbers, uint64_t number) {
    if (VV_GROW(numbers->list, numbers->count, numbers->capacity) != 0)
        return -ENOMEM;
    numbers->list[numbers->count++] = number;
    return 0;
}

static int take_number(void *arg, const char *component, int is_prefix) {
    struct number_listing *listing = arg;
    uint64_t number;
    (void)is_prefix;
    if (vv_hex_parse(component, listing->digits, &number) < 0) {
        vv_log(listing->store->log, VV_LOG_WARN, "%s/%s cannot be interpreted; left alone", listing->prefix, component);
        return 0;
    }
    return vv_numbers_add(listing->out, number);
}

int vv_numbers_list(struct vv_store *store, const char *prefix, int digits, const uint64_t *after,
                    struct vv_numbers *out, struct varve_error *error) {
    struct number_listing listing = {.store = store, .prefix = prefix, .digits = digits, .out = out};
    char component[24];
    *out = (struct vv_numbers){0};
    if (after)
        snprintf(component, sizeof component, "%0*" PRIx64, digits, *after);
    int rc = vv_backend_list(store->backend, prefix, after ? component : NULL, 0, take_number, &listing);
    return rc < 0 ? vv_error_sys(error, rc, "cannot list %s", prefix) : 0;
}

void vv_numbers_clear(struct vv_numbers *numbers) {
    vv_free(numbers->list);
    *numbers = (struct vv_numbers){0};
}

static int see_one(void *arg, const char *component, int is_prefix) {
    (void)component;
    (void)is_prefix;
    *(int *)arg = 1;
    return 1;
}

int vv_object_exists(struct vv_store *store, const struct vv_key *key, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    uint64_t size;
    vv_key_print(key, text);
    int rc = vv_backend_stat(store->backend, text, &size);
    return rc == 0 ? 1 : rc == -ENOENT ? 0 : vv_error_sys(error, rc, "cannot look at %s", text);
}

int vv_data_list(struct vv_store *store, const char *name, const struct vv_attempt *at, int depth,
                 struct vv_numbers *out, struct varve_error *error) {
    struct vv_key key = vv_attempt_key(name, at, VV_KIND_WRITERS, 0, 0);
    char prefix[VV_KEY_CAPACITY];
    vv_prefix_data(&key, depth, prefix);
    return vv_numbers_list(store, prefix, depth == 1 ? 16 : 8, NULL, out, error);
}

int vv_prefix_is_used(struct vv_store *store, const char *prefix, struct varve_error *error) {
    int is_used = 0;
    int rc = vv_backend_list(store->backend, prefix, NULL, 1, see_one, &is_used);
    return rc < 0 ? vv_error_sys(error, rc, "cannot list %s", prefix) : is_used;
}

/* ---- sets of attempts ---- */

int vv_attempt_is_newer(const struct vv_attempt *a, const struct vv_attempt *b) {
    return a->generation != b->generation ? a->generation > b->generation : a->version > b->version;
}

int vv_dependency_is_possible(const struct vv_attempt *own, const struct vv_attempt *parent,
                              const struct vv_attempt *dependency) {
    if (vv_attempt_is_newer(own, dependency))
        return 1;
    return dependency->generation == own->generation && vv_attempt_is_newer(dependency, own) &&
           vv_attempt_is_newer(parent, own);
}

static int compare_attempts(const void *a, const void *b) {
    return vv_attempt_compare(a, b);
}

void vv_attempts_sort(struct vv_attempts *set) {
    size_t kept = 0;
    if (set->sorted == set->count)
        return;
    qsort(set->list, set->count, sizeof *set->list, compare_attempts);
    for (size_t i = 0; i < set->count; i++)
        if (kept == 0 || vv_attempt_compare(&set->list[kept - 1], &set->list[i]) != 0)
            set->list[kept++] = set->list[i];
    set->count = set->sorted = kept;
}

/* Records repeat one another's dependencies: doubles go before more room is taken. */
int vv_attempts_add(struct vv_attempts *set, const struct vv_attempt *attempt) {
    if (set->count == set->capacity) {
        vv_attempts_sort(set);
        size_t capacity = set->capacity == 0 ? 64 : set->count > set->capacity / 2 ? set->capacity * 2 : set->capacity;
        struct vv_attempt *list = vv_realloc(set->list, capacity * sizeof *list);
        if (!list)
            return -ENOMEM;
        set->list = list;
        set->capacity = capacity;
    }
    set->list[set->count++] = *attempt;
    return 0;
}

int vv_attempts_has(const struct vv_attempts *set, const struct vv_attempt *attempt) {
    return set->count && bsearch(attempt, set->list, set->count, sizeof *set->list, compare_attempts) != NULL;
}

void vv_attempts_clear(struct vv_attempts *set) {
    vv_free(set->list);
    *set = (struct vv_attempts){0};
}
