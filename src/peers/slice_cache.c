/* Slices of objects as they are stored, each read once for all ranks that ask for it. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "peers/peers_private.h"

#define ALIGN 4096
#define AT_ONCE 16 /* slices that are read together */

struct vv_slice_cache {
    struct vv_cache cache;
    struct varve_backend *backend;
};

static void clear_slice(struct vv_cache_entry *entry) {
    vv_free(((struct vv_slice *)entry)->data);
}

int vv_slice_cache_create(struct varve_backend *backend, size_t budget, struct vv_slice_cache **out) {
    struct vv_slice_cache *slices = vv_calloc(1, sizeof *slices);
    if (!slices)
        return -ENOMEM;
    slices->backend = backend;
    vv_cache_init(&slices->cache, budget, sizeof(struct vv_slice), clear_slice);
    *out = slices;
    return 0;
}

void vv_slice_cache_destroy(struct vv_slice_cache *slices) {
    if (!slices)
        return;
    vv_cache_clear(&slices->cache);
    vv_free(slices);
}

static struct vv_hash128 id_of(const char *key, uint64_t number) {
    char text[VV_KEY_CAPACITY + sizeof number];
    size_t size = strnlen(key, VV_KEY_CAPACITY);
    memcpy(text, key, size);
    memcpy(text + size, &number, sizeof number);
    return vv_digest(text, size + sizeof number);
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

/* One more that is not there, for us to load; NULL: it is there, or there is no memory, and the run ends before it. */
static struct vv_slice *add_slice(struct vv_slice_cache *slices, struct vv_hash128 id) {
    struct vv_slice *slice = vv_cache_add(&slices->cache, id, VV_SLICE);
    if (slice && !(slice->data = vv_aligned(VV_SLICE, ALIGN))) {
        vv_cache_loaded(&slices->cache, &slice->entry, VV_SLICE, -ENOMEM);
        slice = NULL;
    }
    return slice;
}

/* The first of the list is to be loaded. Those after it that are not there either are added, as many as follow each
 * other, and all are read together. Returns how many. Slices that could not be read are not remembered. */
static size_t load_run(struct vv_slice_cache *slices, const char *key, uint64_t first, size_t most,
                       struct vv_slice **list, int *rc) {
    size_t n = 1;
    list[0]->data = vv_aligned(VV_SLICE, ALIGN);
    while (list[0]->data && n < most && n < AT_ONCE && (list[n] = add_slice(slices, id_of(key, first + n))))
        n++;
    *rc = list[0]->data ? fill(slices, key, first, n, list) : -ENOMEM;
    for (size_t i = n; i-- > 0;) { /* backwards: who waits for the first finds the others settled as well */
        vv_cache_loaded(&slices->cache, &list[i]->entry, VV_SLICE, *rc);
        if (*rc)
            list[i] = NULL;
    }
    return n;
}

int vv_slice_cache_acquire(struct vv_slice_cache *slices, const char *key, uint64_t first, size_t count,
                           struct vv_slice **out) {
    int rc = 0;
    memset(out, 0, count * sizeof *out);
    for (size_t i = 0; i < count && rc == 0;) {
        out[i] = vv_cache_acquire(&slices->cache, id_of(key, first + i), VV_SLICE);
        if (!out[i])
            rc = -ENOMEM;
        else if (out[i]->entry.is_loading)
            i += load_run(slices, key, first + i, count - i, out + i, &rc);
        else
            i++;
    }
    if (rc) {
        vv_slice_cache_release(slices, out, count);
        memset(out, 0, count * sizeof *out);
    }
    return rc;
}

void vv_slice_cache_release(struct vv_slice_cache *slices, struct vv_slice **list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (list[i])
            vv_cache_release(&slices->cache, &list[i]->entry);
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
