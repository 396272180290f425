/* Slices of objects as they are stored, each read once for all ranks that ask for it. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "peers/peers_private.h"

#define BUCKETS 1024
#define ALIGN 4096
#define AT_ONCE 16 /* slices that are read together */

struct vv_slice_cache {
    pthread_mutex_t lock;
    pthread_cond_t is_loaded;
    struct varve_backend *backend;
    size_t budget, bytes;
    struct vv_slice *newest, *oldest; /* of those nobody borrows */
    struct vv_slice *buckets[BUCKETS];
};

int vv_slice_cache_create(struct varve_backend *backend, size_t budget, struct vv_slice_cache **out) {
    struct vv_slice_cache *slices = vv_calloc(1, sizeof *slices);
    if (!slices)
        return -ENOMEM;
    slices->backend = backend;
    slices->budget = budget;
    pthread_mutex_init(&slices->lock, NULL);
    pthread_cond_init(&slices->is_loaded, NULL);
    *out = slices;
    return 0;
}

static void free_slice(struct vv_slice *slice) {
    vv_free(slice->data);
    vv_free(slice);
}

static void unchain(struct vv_slice_cache *slices, struct vv_slice *slice) {
    struct vv_slice **at = &slices->buckets[slice->id.low % BUCKETS];
    while (*at != slice)
        at = &(*at)->chain;
    *at = slice->chain;
}

static void remove_idle(struct vv_slice_cache *slices, struct vv_slice *slice) {
    *(slice->newer ? &slice->newer->older : &slices->newest) = slice->older;
    *(slice->older ? &slice->older->newer : &slices->oldest) = slice->newer;
    slice->newer = slice->older = NULL;
}

static void add_idle(struct vv_slice_cache *slices, struct vv_slice *slice) {
    slice->older = slices->newest;
    *(slices->newest ? &slices->newest->newer : &slices->oldest) = slice;
    slices->newest = slice;
}

static void make_capacity(struct vv_slice_cache *slices) {
    while (slices->bytes > slices->budget && slices->oldest) {
        struct vv_slice *slice = slices->oldest;
        remove_idle(slices, slice);
        unchain(slices, slice);
        slices->bytes -= VV_SLICE;
        free_slice(slice);
    }
}

void vv_slice_cache_destroy(struct vv_slice_cache *slices) {
    if (!slices)
        return;
    slices->budget = 0;
    make_capacity(slices);
    pthread_cond_destroy(&slices->is_loaded);
    pthread_mutex_destroy(&slices->lock);
    vv_free(slices);
}

static struct vv_hash128 id_of(const char *key, uint64_t number) {
    char text[VV_KEY_CAPACITY + sizeof number];
    size_t size = strnlen(key, VV_KEY_CAPACITY);
    memcpy(text, key, size);
    memcpy(text + size, &number, sizeof number);
    return vv_digest(text, size + sizeof number);
}

static struct vv_slice *look_up(struct vv_slice_cache *slices, struct vv_hash128 id) {
    struct vv_slice *slice = slices->buckets[id.low % BUCKETS];
    while (slice && !vv_hash128_equal(slice->id, id))
        slice = slice->chain;
    return slice;
}

/* With the lock. Waits while another thread reads it. */
static struct vv_slice *find(struct vv_slice_cache *slices, struct vv_hash128 id) {
    struct vv_slice *slice;
    while ((slice = look_up(slices, id)) && slice->is_loading)
        pthread_cond_wait(&slices->is_loaded, &slices->lock);
    return slice;
}

static struct vv_slice *new_slice(struct vv_hash128 id) {
    struct vv_slice *slice = vv_calloc(1, sizeof *slice);
    uint8_t *data = slice ? vv_aligned(VV_SLICE, ALIGN) : NULL;
    if (!data) {
        vv_free(slice);
        return NULL;
    }
    slice->data = data;
    slice->id = id;
    slice->refs = 1;
    slice->is_loading = 1;
    return slice;
}

/* With the lock: slices that are not there, as many as follow each other. */
static size_t add_missing(struct vv_slice_cache *slices, const char *key, uint64_t first, size_t count,
                          struct vv_slice **out) {
    size_t n = 0;
    for (; n < count && n < AT_ONCE; n++) {
        struct vv_hash128 id = id_of(key, first + n);
        struct vv_slice *slice = n > 0 && look_up(slices, id) ? NULL : new_slice(id);
        if (!slice)
            break;
        slice->chain = slices->buckets[id.low % BUCKETS];
        slices->buckets[id.low % BUCKETS] = slice;
        slices->bytes += VV_SLICE;
        out[n] = slice;
    }
    make_capacity(slices);
    return n;
}

/* One read. Nobody else touches slices that are being loaded. */
static int fill(struct vv_slice_cache *slices, const char *key, uint64_t first, size_t count, struct vv_slice **list) {
    uint8_t *together = count > 1 ? vv_aligned(count * VV_SLICE, ALIGN) : list[0]->data;
    if (!together)
        return -ENOMEM;
    int64_t got = vv_backend_get(slices->backend, key, first * VV_SLICE, together, count * VV_SLICE);
    for (size_t i = 0; i < count && got >= 0; i++) {
        uint64_t before = i * VV_SLICE, left = (uint64_t)got > before ? (uint64_t)got - before : 0;
        list[i]->size = left < VV_SLICE ? (size_t)left : VV_SLICE;
        if (count > 1)
            memcpy(list[i]->data, together + before, list[i]->size);
    }
    if (count > 1)
        vv_free(together);
    return got < 0 ? (int)got : 0;
}

/* With the lock, which it gives away while it reads. Slices that could not be read are not remembered. */
static int load(struct vv_slice_cache *slices, const char *key, uint64_t first, size_t count, struct vv_slice **list) {
    pthread_mutex_unlock(&slices->lock);
    int rc = fill(slices, key, first, count, list);
    pthread_mutex_lock(&slices->lock);
    for (size_t i = 0; i < count; i++) {
        list[i]->is_loading = 0;
        if (rc) {
            slices->bytes -= VV_SLICE;
            unchain(slices, list[i]);
            free_slice(list[i]);
            list[i] = NULL;
        }
    }
    pthread_cond_broadcast(&slices->is_loaded);
    return rc;
}

int vv_slice_cache_acquire(struct vv_slice_cache *slices, const char *key, uint64_t first, size_t count,
                           struct vv_slice **out) {
    int rc = 0;
    memset(out, 0, count * sizeof *out);
    pthread_mutex_lock(&slices->lock);
    for (size_t i = 0; i < count && rc == 0;) {
        struct vv_slice *slice = find(slices, id_of(key, first + i));
        if (slice) {
            if (slice->refs++ == 0)
                remove_idle(slices, slice);
            out[i++] = slice;
            continue;
        }
        size_t n = add_missing(slices, key, first + i, count - i, out + i);
        rc = n ? load(slices, key, first + i, n, out + i) : -ENOMEM;
        i += n;
    }
    pthread_mutex_unlock(&slices->lock);
    if (rc) {
        vv_slice_cache_release(slices, out, count);
        memset(out, 0, count * sizeof *out);
    }
    return rc;
}

void vv_slice_cache_release(struct vv_slice_cache *slices, struct vv_slice **list, size_t count) {
    pthread_mutex_lock(&slices->lock);
    for (size_t i = 0; i < count; i++)
        if (list[i] && --list[i]->refs == 0)
            add_idle(slices, list[i]);
    make_capacity(slices);
    pthread_mutex_unlock(&slices->lock);
}

size_t vv_slice_cache_copy(struct vv_slice *const *list, size_t count, uint64_t start, uint64_t offset, void *data,
                           size_t size) {
    size_t done = 0;
    for (size_t i = (size_t)((offset - start) / VV_SLICE); i < count && done < size; i++) {
        size_t from = (size_t)((offset + done - start) % VV_SLICE);
        size_t there = list[i]->size > from ? list[i]->size - from : 0;
        size_t take = there < size - done ? there : size - done;
        memcpy((uint8_t *)data + done, list[i]->data + from, take);
        done += take;
        if (list[i]->size < VV_SLICE)
            break;
    }
    return done;
}

int64_t vv_slice_cache_get(struct vv_slice_cache *slices, const char *key, uint64_t offset, void *data, size_t size) {
    struct vv_slice *list[AT_ONCE];
    size_t done = 0;
    while (done < size) {
        uint64_t at = offset + done, first = at / VV_SLICE, last = (offset + size - 1) / VV_SLICE;
        size_t count = last - first + 1 < AT_ONCE ? (size_t)(last - first + 1) : AT_ONCE;
        uint64_t end = (first + count) * VV_SLICE;
        size_t want = end - at < size - done ? (size_t)(end - at) : size - done;
        int rc = vv_slice_cache_acquire(slices, key, first, count, list);
        if (rc)
            return rc;
        size_t got = vv_slice_cache_copy(list, count, first * VV_SLICE, at, (uint8_t *)data + done, want);
        vv_slice_cache_release(slices, list, count);
        done += got;
        if (got < want)
            break;
    }
    return (int64_t)done;
}
