/* The backend of the store that work reads from: gets and sizes of packs are answered by whoever shall, everything else
 * by the rank's own. Nothing is written through it. */
#include <errno.h>

#include "base/alloc.h"
#include "peers/peers_private.h"

static struct varve_backend *inner(struct varve_backend *backend) {
    return ((struct vv_peers *)backend)->own->backend;
}

/* ---- asking ---- */

static void make_question(struct vv_asking *asking, struct vv_buf *data, int kind, const char *key, uint64_t offset) {
    asking->at = data->size;
    vv_peers_begin_question(data, kind, key, offset);
    if (kind == VV_ASKED_BYTES && !data->failed)
        vv_put32(data->data + asking->at + 4, asking->capacity);
    asking->size = (uint32_t)(data->size - asking->at);
}

static int ask(struct vv_peers *peers, struct vv_asking *list, size_t count, const struct vv_buf *data) {
    int rc = data->failed ? -ENOMEM : vv_peers_put(peers, list, count, data);
    if (rc == 0)
        vv_peers_wait(peers, list, count);
    return rc;
}

/* home: a rank, or VV_HOME_BY_ID: each question goes to the one that reads what it is about. */
static int64_t ask_bytes(struct vv_peers *peers, uint32_t home, const struct vv_key *key, const char *text,
                         uint64_t offset, uint8_t *data, size_t size) {
    size_t count = size ? (size_t)((offset + size - 1) / VV_QUESTION - offset / VV_QUESTION + 1) : 0;
    struct vv_asking *list = vv_calloc(count + 1, sizeof *list);
    struct vv_buf questions;
    if (!list)
        return -ENOMEM;
    vv_buf_init(&questions);
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t at = offset + done, left = VV_QUESTION - at % VV_QUESTION;
        list[i].home = home == VV_HOME_BY_ID ? vv_peers_home(peers, key, at) : home;
        list[i].out = data + done;
        list[i].capacity = (uint32_t)(left < size - done ? left : size - done);
        make_question(&list[i], &questions, VV_ASKED_BYTES, text, at);
        done += list[i].capacity;
    }
    int64_t got = ask(peers, list, count, &questions);
    for (size_t i = 0; i < count && got >= 0; i++) {
        got = list[i].result < 0 ? list[i].result : got + list[i].result;
        if (list[i].result >= 0 && list[i].result < list[i].capacity)
            break; /* the object ends here */
    }
    vv_buf_clear(&questions);
    vv_free(list);
    return got;
}

/* A question whose answer fits into `room` bytes at out: how many came, or an error. */
static int64_t ask_one(struct vv_peers *peers, int kind, uint32_t home, const char *key, void *out, uint32_t capacity) {
    struct vv_asking asking = {.home = home, .out = out, .capacity = capacity};
    struct vv_buf question;
    vv_buf_init(&question);
    make_question(&asking, &question, kind, key, 0);
    int rc = ask(peers, &asking, 1, &question);
    vv_buf_clear(&question);
    return rc ? rc : asking.result;
}

static int ask_size(struct vv_peers *peers, uint32_t home, const char *key, uint64_t *out) {
    uint8_t bytes[8] = {0};
    int64_t got = ask_one(peers, VV_ASKED_SIZE, home, key, bytes, sizeof bytes);
    if (got != sizeof bytes)
        return got < 0 ? (int)got : -EPROTO;
    *out = vv_get64(bytes);
    return 0;
}

/* ---- who has it: node-local stores ---- */

static void remember(struct vv_peers *peers, const struct vv_holders *found) {
    pthread_mutex_lock(&peers->lock);
    if (!vv_holders_find(&peers->known, found->id)) { /* another thread may have asked, too */
        vv_buf_append(&peers->known, found, sizeof *found);
        struct vv_holders *list = (struct vv_holders *)peers->known.data;
        size_t i = peers->known.failed ? 0 : peers->known.size / sizeof *list - 1;
        for (; i > 0 && vv_hash128_compare(list[i - 1].id, found->id) > 0; i--)
            list[i] = list[i - 1];
        if (!peers->known.failed)
            list[i] = *found;
        peers->known.failed = 0; /* then it will be asked again */
    }
    pthread_mutex_unlock(&peers->lock);
}

static int ask_holders(struct vv_peers *peers, const char *key, struct vv_holders *out) {
    uint8_t bytes[VV_HOLDER_SIZE * VV_HOLDERS_MAX];
    int64_t got = ask_one(peers, VV_ASKED_HOLDERS, VV_HOME_BY_ID, key, bytes, sizeof bytes);
    *out = (struct vv_holders){.id = vv_peers_key_id(key)};
    if (got < 0 || got % VV_HOLDER_SIZE != 0)
        return got < 0 ? (int)got : -EPROTO;
    for (; out->count < got / VV_HOLDER_SIZE; out->count++) {
        const uint8_t *at = bytes + VV_HOLDER_SIZE * out->count;
        out->ranks[out->count] = vv_get32(at);
        out->writers[out->count] = vv_get32(at + 4);
        if (out->ranks[out->count] >= peers->comm->ranks)
            return -EPROTO;
    }
    remember(peers, out);
    return 0;
}

/* Parts are where their pack is. */
int vv_peers_find_holders(struct vv_peers *peers, const struct vv_key *key, struct vv_holders *out) {
    struct vv_key asked = *key;
    char text[VV_KEY_CAPACITY];
    if (asked.kind == VV_KIND_PART) {
        asked.kind = VV_KIND_PACK;
        asked.part = 0;
    }
    vv_key_print(&asked, text);
    struct vv_hash128 id = vv_peers_key_id(text);
    pthread_mutex_lock(&peers->lock);
    const struct vv_holders *known = vv_holders_find(&peers->known, id);
    if (known)
        *out = *known;
    pthread_mutex_unlock(&peers->lock);
    if (known)
        return 0;
    *out = (struct vv_holders){.id = id};
    return peers->is_running ? ask_holders(peers, text, out) : 0;
}

int vv_peers_have(struct vv_peers *peers, const struct vv_key *key, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    struct vv_holders holders;
    uint64_t size;
    vv_key_print(key, text);
    int rc = vv_backend_stat(peers->own->backend, text, &size);
    if (rc != -ENOENT)
        return rc == 0 ? 1 : vv_error_sys(error, rc, "cannot look at %s", text);
    if (peers->mode != VV_PEERS_LOCAL)
        return 0;
    rc = vv_peers_find_holders(peers, key, &holders);
    return rc ? vv_error_sys(error, rc, "cannot ask for %s", text) : holders.count > 0;
}

int vv_peers_count(struct vv_peers *peers, const struct vv_key *key, struct varve_error *error) {
    struct vv_holders holders;
    int rc = vv_peers_find_holders(peers, key, &holders);
    return rc ? vv_error_sys(error, rc, "the other nodes cannot be asked") : (int)holders.count;
}

int64_t vv_peers_get_from(struct vv_peers *peers, uint32_t rank, const struct vv_key *key, uint64_t offset, void *data,
                          size_t size) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    int64_t got = vv_backend_get(peers->own->backend, text, offset, data, size);
    return got == -ENOENT ? ask_bytes(peers, rank, key, text, offset, data, size) : got;
}

int vv_peers_size_from(struct vv_peers *peers, uint32_t rank, const struct vv_key *key, uint64_t *out) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    int rc = vv_backend_stat(peers->own->backend, text, out);
    return rc == -ENOENT ? ask_size(peers, rank, text, out) : rc;
}

/* ---- which way ---- */

enum way { WAY_HERE, WAY_SLICES, WAY_RANK, WAY_SEARCH };

/* A pack of one rank is read by that rank; packs of several, by all of them in turns, so that nobody reads alone. */
static enum way find_way(const struct vv_peers *peers, const char *text, struct vv_key *key) {
    if (peers->mode == VV_PEERS_DIRECT || vv_key_parse(text, key) < 0)
        return WAY_HERE;
    int is_pack = key->kind == VV_KIND_PACK || key->kind == VV_KIND_PART || key->kind == VV_KIND_COPY;
    if (peers->mode == VV_PEERS_LOCAL)
        return is_pack || key->kind == VV_KIND_WRITERS ? WAY_SEARCH : WAY_HERE;
    if (!is_pack || peers->is_alone) /* slices that nobody asks for would be read in vain */
        return WAY_HERE;
    struct vv_attempt attempt = {key->generation, key->attempt, key->version};
    if (vv_peers_span(peers, &attempt) == 1 && vv_peers_home(peers, key, 0) == peers->comm->rank)
        return WAY_SLICES;
    return peers->is_running ? WAY_RANK : WAY_HERE;
}

/* The n-th of the holders to ask: those who miss the same do not all begin with the same one. */
static uint32_t nth_holder(const struct vv_peers *peers, const struct vv_holders *holders, uint32_t n) {
    return holders->ranks[(peers->comm->rank + n) % holders->count];
}

static int64_t search_bytes(struct vv_peers *peers, const struct vv_key *key, const char *text, uint64_t offset,
                            void *data, size_t size) {
    struct vv_holders holders;
    if (!peers->is_running) /* nobody answers */
        return -ENOENT;
    int64_t got = vv_peers_find_holders(peers, key, &holders);
    if (got < 0)
        return got;
    got = -ENOENT;
    for (uint32_t i = 0; i < holders.count && got < 0; i++)
        got = ask_bytes(peers, nth_holder(peers, &holders, i), key, text, offset, data, size);
    return got == -ENOENT ? vv_peers_rebuild(peers, key, offset, data, size) : got;
}

static int64_t peers_get(struct varve_backend *backend, const char *text, uint64_t offset, void *data, size_t size) {
    struct vv_peers *peers = (struct vv_peers *)backend;
    struct vv_key key;
    int64_t got = -EIO;
    switch (find_way(peers, text, &key)) {
    case WAY_SLICES:
        return vv_slice_cache_get(peers->slices, text, offset, data, size);
    case WAY_RANK:
        got = ask_bytes(peers, VV_HOME_BY_ID, &key, text, offset, data, size);
        if (got >= 0 || got == -ENOENT)
            return got;
        break; /* its trouble need not be ours */
    case WAY_SEARCH:
        got = vv_backend_get(inner(backend), text, offset, data, size);
        return got == -ENOENT ? search_bytes(peers, &key, text, offset, data, size) : got;
    case WAY_HERE:
        break;
    }
    return vv_backend_get(inner(backend), text, offset, data, size);
}

static int search_size(struct vv_peers *peers, const struct vv_key *key, const char *text, uint64_t *out) {
    struct vv_holders holders;
    if (!peers->is_running)
        return -ENOENT;
    int rc = vv_peers_find_holders(peers, key, &holders);
    if (rc < 0)
        return rc;
    rc = -ENOENT;
    for (uint32_t i = 0; i < holders.count && rc < 0; i++)
        rc = ask_size(peers, nth_holder(peers, &holders, i), text, out);
    return rc == -ENOENT ? vv_peers_rebuild_size(peers, key, out) : rc;
}

static int peers_stat(struct varve_backend *backend, const char *text, uint64_t *size_out) {
    struct vv_peers *peers = (struct vv_peers *)backend;
    struct vv_key key;
    int rc = vv_backend_stat(inner(backend), text, size_out);
    if (rc != -ENOENT || find_way(peers, text, &key) != WAY_SEARCH)
        return rc;
    return search_size(peers, &key, text, size_out);
}

/* ---- the rest ---- */

static int peers_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                      varve_list_fn fn, void *arg) {
    return vv_backend_list(inner(backend), prefix, after, limit, fn, arg);
}

static int peers_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out) {
    (void)backend, (void)key, (void)size_hint, (void)out;
    return -EROFS;
}

static int peers_upload_write(struct varve_upload *upload, const void *data, size_t size) {
    (void)upload, (void)data, (void)size;
    return -EROFS;
}

static int peers_upload_commit(struct varve_upload *upload) {
    (void)upload;
    return -EROFS;
}

static void peers_upload_abort(struct varve_upload *upload) {
    (void)upload;
}

static int peers_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    (void)backend, (void)key, (void)data, (void)size;
    return -EROFS;
}

static int peers_remove(struct varve_backend *backend, const char *key) {
    (void)backend, (void)key;
    return -EROFS;
}

static void peers_close(struct varve_backend *backend) {
    (void)backend;
}

const struct varve_backend_ops vv_peers_backend_ops = {.size = sizeof(struct varve_backend_ops),
                                                       .name = "peers",
                                                       .create = peers_create,
                                                       .upload_write = peers_upload_write,
                                                       .upload_commit = peers_upload_commit,
                                                       .upload_abort = peers_upload_abort,
                                                       .replace = peers_replace,
                                                       .get = peers_get,
                                                       .stat = peers_stat,
                                                       .list = peers_list,
                                                       .remove = peers_remove,
                                                       .close = peers_close};
