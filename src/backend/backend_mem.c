/* Objects in memory: the reference implementation, and what unit tests use.
 *
 * A named store belongs to the process, not to the backend that opened it: it outlives a close, so that a test can
 * close, open again and find its objects, until vv_mem_drop. A store without a name belongs to its one backend. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "backend/backend_parts.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/search.h"

struct mem_object {
    char *key;
    uint8_t *data;
    size_t size;
};

struct mem_store {
    struct mem_store *next; /* in the registry */
    char *name;
    unsigned references; /* backends, and 1 for the registry */
    pthread_mutex_t lock;
    struct mem_object *objects; /* in order of keys */
    size_t count;
    size_t capacity;
};

struct mem_backend {
    struct varve_backend base;
    struct mem_store *store;
};

struct mem_upload {
    struct varve_upload base;
    char *key;
    struct vv_buf bytes;
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mem_store *registry;

static void store_destroy(struct mem_store *store) {
    for (size_t i = 0; i < store->count; i++) {
        vv_free(store->objects[i].key);
        vv_free(store->objects[i].data);
    }
    vv_free(store->objects);
    vv_free(store->name);
    pthread_mutex_destroy(&store->lock);
    vv_free(store);
}

static struct mem_store *store_create(const char *name) {
    struct mem_store *store = vv_calloc(1, sizeof(*store));
    if (!store)
        return NULL;
    store->name = vv_strdup(name);
    if (!store->name) {
        vv_free(store);
        return NULL;
    }
    pthread_mutex_init(&store->lock, NULL);
    store->references = 1;
    return store;
}

static void store_decref(struct mem_store *store) {
    pthread_mutex_lock(&registry_lock);
    int last = --store->references == 0;
    pthread_mutex_unlock(&registry_lock);
    if (last)
        store_destroy(store);
}

static struct mem_store *registry_find(const char *name, int may_create, int *result) {
    struct mem_store *store = registry;
    while (store && strcmp(store->name, name) != 0)
        store = store->next;
    if (!store && !may_create) {
        *result = VARVE_NO_STORE;
        return NULL;
    }
    if (!store) {
        store = store_create(name);
        if (!store) {
            *result = -ENOMEM;
            return NULL;
        }
        store->next = registry;
        registry = store;
    }
    store->references++;
    return store;
}

void vv_mem_drop(const char *name) {
    pthread_mutex_lock(&registry_lock);
    struct mem_store **link = &registry;
    while (*link && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    struct mem_store *store = *link;
    if (store)
        *link = store->next;
    pthread_mutex_unlock(&registry_lock);
    if (store)
        store_decref(store);
}

static struct mem_store *store_of(struct varve_backend *backend) {
    return ((struct mem_backend *)backend)->store;
}

/* Where key is, or would be. Lock held. */
static size_t find(const struct mem_store *store, const char *key, int *found) {
    size_t at;
    VV_SEARCH(at, 0, store->count, strcmp(store->objects[at].key, key) < 0);
    *found = at < store->count && strcmp(store->objects[at].key, key) == 0;
    return at;
}

/* Takes key and data over on success. Lock held. */
static int insert(struct mem_store *store, size_t at, struct mem_object object) {
    if (VV_GROW(store->objects, store->count, store->capacity) != 0)
        return -ENOMEM;
    memmove(&store->objects[at + 1], &store->objects[at], (store->count - at) * sizeof(object));
    store->objects[at] = object;
    store->count++;
    return 0;
}

static int mem_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out) {
    (void)size_hint;
    struct mem_upload *upload = vv_calloc(1, sizeof(*upload));
    if (!upload)
        return -ENOMEM;
    upload->base.backend = backend;
    upload->key = vv_strdup(key);
    if (!upload->key) {
        vv_free(upload);
        return -ENOMEM;
    }
    vv_buf_init(&upload->bytes);
    *out = &upload->base;
    return 0;
}

static int mem_upload_write(struct varve_upload *base, const void *data, size_t size) {
    struct mem_upload *upload = (struct mem_upload *)base;
    vv_buf_append(&upload->bytes, data, size);
    return upload->bytes.failed;
}

static void mem_upload_abort(struct varve_upload *base) {
    struct mem_upload *upload = (struct mem_upload *)base;
    vv_buf_clear(&upload->bytes);
    vv_free(upload->key);
    vv_free(upload);
}

static int mem_upload_commit(struct varve_upload *base) {
    struct mem_upload *upload = (struct mem_upload *)base;
    struct mem_store *store = store_of(base->backend);
    int found, result = upload->bytes.failed;
    pthread_mutex_lock(&store->lock);
    size_t at = find(store, upload->key, &found);
    if (result == 0 && found)
        result = -EEXIST;
    if (result == 0)
        result = insert(store, at, (struct mem_object){upload->key, upload->bytes.data, upload->bytes.size});
    pthread_mutex_unlock(&store->lock);
    if (result == 0) {
        upload->key = NULL;
        vv_buf_init(&upload->bytes);
    }
    mem_upload_abort(base);
    return result;
}

static int mem_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct mem_store *store = store_of(backend);
    struct mem_object object = {vv_strdup(key), vv_malloc(size ? size : 1), size};
    int result = object.key && object.data ? 0 : -ENOMEM;
    if (result == 0) {
        if (size)
            memcpy(object.data, data, size);
        int found;
        pthread_mutex_lock(&store->lock);
        size_t at = find(store, key, &found);
        if (found) {
            struct mem_object old = store->objects[at];
            store->objects[at] = object;
            object = old;
        } else {
            result = insert(store, at, object);
            if (result == 0)
                object = (struct mem_object){0};
        }
        pthread_mutex_unlock(&store->lock);
    }
    vv_free(object.key);
    vv_free(object.data);
    return result;
}

static int64_t mem_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    struct mem_store *store = store_of(backend);
    int64_t result = -ENOENT;
    int found;
    pthread_mutex_lock(&store->lock);
    size_t at = find(store, key, &found);
    if (found) {
        const struct mem_object *object = &store->objects[at];
        size_t left = offset < object->size ? object->size - (size_t)offset : 0;
        size_t count = size < left ? size : left;
        if (count)
            memcpy(data, object->data + offset, count);
        result = (int64_t)count;
    }
    pthread_mutex_unlock(&store->lock);
    return result;
}

static int mem_stat(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    struct mem_store *store = store_of(backend);
    int found;
    pthread_mutex_lock(&store->lock);
    size_t at = find(store, key, &found);
    if (found)
        *size_out = store->objects[at].size;
    pthread_mutex_unlock(&store->lock);
    return found ? 0 : -ENOENT;
}

/* The component of key directly below prefix, of length size; NULL if key is not below it. */
static const char *component_below(const char *key, const char *prefix, size_t prefix_size, size_t *size) {
    if (prefix_size) {
        if (strncmp(key, prefix, prefix_size) != 0 || key[prefix_size] != '/')
            return NULL;
        key += prefix_size + 1;
    }
    *size = strcspn(key, "/");
    return key;
}

/* Collects under the lock and calls back without it. The names of one component are not always neighbours in the order
 * of keys ("a-b" lies between "a" and "a/c"), so equal ones are joined after sorting. */
static int collect(struct mem_store *store, const char *prefix, const char *after, struct vv_name_list *names) {
    size_t prefix_size = strlen(prefix);
    for (size_t i = 0; i < store->count; i++) {
        size_t size = 0;
        const char *name = component_below(store->objects[i].key, prefix, prefix_size, &size);
        if (!name)
            continue;
        const struct vv_found *last = names->count ? &names->items[names->count - 1] : NULL;
        int is_prefix = name[size] == '/';
        if (last && last->is_prefix == is_prefix && strlen(last->name) == size && strncmp(last->name, name, size) == 0)
            continue;
        int result = vv_name_list_add(names, name, size, is_prefix);
        if (result < 0)
            return result;
        if (after && strcmp(names->items[names->count - 1].name, after) <= 0)
            vv_free(names->items[--names->count].name);
    }
    return 0;
}

static int mem_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                    varve_list_fn fn, void *arg) {
    struct mem_store *store = store_of(backend);
    struct vv_name_list names = {0};
    pthread_mutex_lock(&store->lock);
    int result = collect(store, prefix, after, &names);
    pthread_mutex_unlock(&store->lock);
    if (result == 0)
        result = vv_name_list_emit(&names, limit, fn, arg);
    vv_name_list_clear(&names);
    return result;
}

static int mem_remove(struct varve_backend *backend, const char *key) {
    struct mem_store *store = store_of(backend);
    struct mem_object object = {0};
    int found;
    pthread_mutex_lock(&store->lock);
    size_t at = find(store, key, &found);
    if (found) {
        object = store->objects[at];
        store->count--;
        memmove(&store->objects[at], &store->objects[at + 1], (store->count - at) * sizeof(object));
    }
    pthread_mutex_unlock(&store->lock);
    vv_free(object.key);
    vv_free(object.data);
    return found ? 0 : -ENOENT;
}

static void mem_close(struct varve_backend *backend) {
    if (!backend)
        return;
    store_decref(store_of(backend));
    vv_free(backend);
}

static const struct varve_backend_ops mem_ops = {
    .size = sizeof(mem_ops),
    .name = "mem",
    .create = mem_create,
    .upload_write = mem_upload_write,
    .upload_commit = mem_upload_commit,
    .upload_abort = mem_upload_abort,
    .replace = mem_replace,
    .get = mem_get,
    .stat = mem_stat,
    .list = mem_list,
    .remove = mem_remove,
    .close = mem_close,
};

int vv_mem_open(const char *name, int may_create, struct varve_backend **out, struct varve_error *error) {
    struct mem_backend *backend = vv_calloc(1, sizeof(*backend));
    if (!backend)
        return vv_error_sys(error, -ENOMEM, "cannot open mem://%s", name);
    int result = -ENOMEM;
    backend->base.ops = &mem_ops;
    if (*name) {
        pthread_mutex_lock(&registry_lock);
        backend->store = registry_find(name, may_create, &result);
        pthread_mutex_unlock(&registry_lock);
    } else {
        backend->store = store_create("");
    }
    if (!backend->store) {
        vv_free(backend);
        if (result == VARVE_NO_STORE)
            return vv_error(error, result, "there is no memory store mem://%s in this process", name);
        return vv_error_sys(error, result, "cannot open mem://%s", name);
    }
    *out = &backend->base;
    return 0;
}
