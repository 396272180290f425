/* Encrypts: what is inside sees only sealed objects (sealed.h), what is outside only plain ones.
 *
 * An object is sealed frame by frame as it is written, and opened frame by frame as parts of it are read. To open a
 * frame one needs the head. Objects of one frame are read in one piece with it. Keys of larger ones are remembered, so
 * that a second read of such an object does not ask for the head again. An object may be replaced meanwhile: if a frame
 * does not open with a head from another read, both are read once more before that counts as damage. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend_wrap_private.h"
#include "backend/sealed.h"
#include "base/alloc.h"
#include "base/buffer_pool.h"
#include "base/hash.h"
#include "base/log.h"

#define KNOWN 64          /* objects whose keys are remembered */
#define BATCH_FRAMES 4    /* that an upload passes on together */
#define SCRATCH_FRAMES 18 /* a block that is not encoded, and a little: larger reads take memory of their own */
#define SEALED_FRAME (VV_SEALED_FRAME + VV_SEALED_TAG)

struct known_key {
    struct vv_hash128 id; /* of its name */
    uint8_t key[VV_SEALED_KEY];
};

struct sealed_backend {
    struct wrap wrap;
    struct varve_backend_ops ops;
    struct vv_secret secret;
    const struct vv_log *log;
    struct vv_scratch_pool scratch; /* what is read, before it is opened */
    pthread_mutex_t lock;           /* of what follows */
    struct known_key known[KNOWN];
    unsigned next;
    char refused[VV_BACKEND_KEY_MAX + 1]; /* the last one that was damaged or exchanged */
    char reason[160];
};

struct sealed_upload {
    struct varve_upload base;
    struct varve_upload *inner;
    struct varve_cipher *cipher;
    uint64_t number; /* of the next frame */
    size_t fill, out_fill;
    uint8_t plain[VV_SEALED_FRAME];
    uint8_t out[VV_SEALED_HEAD + BATCH_FRAMES * SEALED_FRAME];
};

static struct sealed_backend *sealed_of(struct varve_backend *backend) {
    return (struct sealed_backend *)backend;
}

/* ---- what is known ---- */

static struct vv_hash128 name_id(const char *name) {
    return vv_digest(name, strlen(name));
}

static struct known_key *find_known(struct sealed_backend *sealed, struct vv_hash128 id) {
    for (unsigned i = 0; i < KNOWN; i++)
        if (vv_hash128_equal(sealed->known[i].id, id))
            return &sealed->known[i];
    return NULL;
}

static int recall(struct sealed_backend *sealed, const char *name, uint8_t key[VV_SEALED_KEY]) {
    struct vv_hash128 id = name_id(name);
    pthread_mutex_lock(&sealed->lock);
    const struct known_key *known = find_known(sealed, id);
    if (known)
        memcpy(key, known->key, VV_SEALED_KEY);
    pthread_mutex_unlock(&sealed->lock);
    return known != NULL;
}

static void remember_key(struct sealed_backend *sealed, const char *name, const uint8_t key[VV_SEALED_KEY]) {
    struct vv_hash128 id = name_id(name);
    pthread_mutex_lock(&sealed->lock);
    struct known_key *known = find_known(sealed, id);
    if (!known)
        known = &sealed->known[sealed->next++ % KNOWN];
    known->id = id;
    memcpy(known->key, key, VV_SEALED_KEY);
    pthread_mutex_unlock(&sealed->lock);
}

static void forget_key(struct sealed_backend *sealed, const char *name) {
    pthread_mutex_lock(&sealed->lock);
    struct known_key *known = find_known(sealed, name_id(name));
    if (known)
        explicit_bzero(known, sizeof *known);
    pthread_mutex_unlock(&sealed->lock);
}

static int refuse_sealed(struct sealed_backend *sealed, const char *name, const char *reason) {
    vv_log(sealed->log, VV_LOG_DEBUG, "%s is refused: %s", name, reason);
    pthread_mutex_lock(&sealed->lock);
    snprintf(sealed->refused, sizeof sealed->refused, "%s", name);
    snprintf(sealed->reason, sizeof sealed->reason, "%s", reason);
    pthread_mutex_unlock(&sealed->lock);
    return VARVE_CORRUPT;
}

/* ---- writing ---- */

static int pass_frames_on(struct sealed_upload *upload) {
    int result = vv_backend_upload_write(upload->inner, upload->out, upload->out_fill);
    upload->out_fill = 0;
    return result;
}

static int seal_frame(struct sealed_upload *upload, const void *data, size_t size) {
    const struct varve_cipher_ops *ops = sealed_of(upload->base.backend)->secret.cipher;
    int result = 0;
    if (sizeof upload->out - upload->out_fill < size + VV_SEALED_TAG)
        result = pass_frames_on(upload);
    if (result == 0)
        result = vv_sealed_put(ops, upload->cipher, upload->number++, data, size, upload->out + upload->out_fill);
    upload->out_fill += size + VV_SEALED_TAG;
    return result;
}

static int sealed_upload_write(struct varve_upload *base, const void *data, size_t size) {
    struct sealed_upload *upload = (struct sealed_upload *)base;
    const uint8_t *bytes = data;
    int result = 0;
    while (size > 0 && result == 0) {
        size_t part = VV_SEALED_FRAME - upload->fill < size ? VV_SEALED_FRAME - upload->fill : size;
        if (part == VV_SEALED_FRAME) {
            result = seal_frame(upload, bytes, part);
        } else {
            memcpy(upload->plain + upload->fill, bytes, part);
            upload->fill += part;
        }
        if (upload->fill == VV_SEALED_FRAME) {
            result = seal_frame(upload, upload->plain, upload->fill);
            upload->fill = 0;
        }
        bytes += part;
        size -= part;
    }
    return result;
}

static void free_upload(struct sealed_upload *upload) {
    sealed_of(upload->base.backend)->secret.cipher->end(upload->cipher);
    vv_free(upload);
}

static int sealed_upload_commit(struct varve_upload *base) {
    struct sealed_upload *upload = (struct sealed_upload *)base;
    int result = seal_frame(upload, upload->plain, upload->fill);
    if (result == 0)
        result = pass_frames_on(upload);
    if (result == 0)
        result = vv_backend_upload_commit(upload->inner);
    else
        vv_backend_upload_abort(upload->inner);
    free_upload(upload);
    return result;
}

static void sealed_upload_abort(struct varve_upload *base) {
    struct sealed_upload *upload = (struct sealed_upload *)base;
    vv_backend_upload_abort(upload->inner);
    free_upload(upload);
}

static int begin_sealing(struct sealed_backend *sealed, const char *name, struct sealed_upload *upload) {
    uint8_t key[VV_SEALED_KEY];
    int result = vv_sealed_head(&sealed->secret, name, upload->out);
    if (result == 0)
        result = vv_sealed_key(&sealed->secret, name, upload->out, key);
    if (result == 0)
        result = sealed->secret.cipher->begin(key, &upload->cipher);
    explicit_bzero(key, sizeof key);
    upload->out_fill = VV_SEALED_HEAD;
    return result;
}

static int sealed_create(struct varve_backend *backend, const char *key, uint64_t size_hint,
                         struct varve_upload **out) {
    struct sealed_backend *sealed = sealed_of(backend);
    struct sealed_upload *upload = vv_malloc(sizeof *upload);
    if (!upload)
        return -ENOMEM;
    upload->base.backend = backend;
    upload->inner = NULL;
    upload->cipher = NULL;
    upload->number = 0;
    upload->fill = 0;
    int result = begin_sealing(sealed, key, upload);
    if (result == 0)
        result =
            vv_backend_create(sealed->wrap.inner, key, size_hint ? vv_sealed_length(size_hint) : 0, &upload->inner);
    if (result < 0) {
        free_upload(upload);
        return result;
    }
    *out = &upload->base;
    return 0;
}

static int sealed_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct sealed_backend *sealed = sealed_of(backend);
    size_t length = (size_t)vv_sealed_length(size);
    uint8_t *out = vv_malloc(length);
    if (!out)
        return -ENOMEM;
    int result = vv_sealed_whole(&sealed->secret, key, data, size, out);
    if (result == 0)
        result = vv_backend_replace(sealed->wrap.inner, key, out, length);
    vv_free(out);
    return result;
}

/* ---- reading ---- */

/* A range of an object, and the frames it lies in. */
struct range {
    const char *name;
    uint64_t offset;
    uint8_t *data;
    size_t size;
    uint64_t first;   /* frame */
    size_t frames;    /* how many of them */
    int has_key;      /* key is that of the object */
    int is_one_state; /* key and frames come from one read */
    uint8_t key[VV_SEALED_KEY];
};

static int take_head(struct sealed_backend *sealed, struct range *range, const uint8_t *head, size_t size) {
    const char *wrong = vv_sealed_head_wrong(&sealed->secret, range->name, head, size);
    if (wrong)
        return refuse_sealed(sealed, range->name, wrong);
    return vv_sealed_key(&sealed->secret, range->name, head, range->key);
}

/* Of one frame what the range wants: straight to its place if that is all of it. */
static int open_frame(struct sealed_backend *sealed, struct varve_cipher *cipher, const struct range *range,
                      uint64_t number, const uint8_t *frame, size_t size, uint8_t *spare) {
    uint64_t at = number * VV_SEALED_FRAME;
    uint64_t from = at > range->offset ? at : range->offset, to = at + size;
    int is_inside = at >= range->offset && to <= range->offset + range->size;
    uint8_t *out = is_inside ? range->data + (at - range->offset) : spare;
    int result = vv_sealed_take(sealed->secret.cipher, cipher, number, frame, size, out);
    if (result < 0) { /* what was not proved does not leave */
        memset(out, 0, size);
        return result == -EBADMSG ? refuse_sealed(sealed, range->name, "it was damaged or changed after it was written")
                                  : result;
    }
    if (to > range->offset + range->size)
        to = range->offset + range->size;
    if (!is_inside && to > from)
        memcpy(range->data + (from - range->offset), spare + (from - at), (size_t)(to - from));
    return 0;
}

/* How many bytes of the range came, or an error. */
static int64_t open_frames(struct sealed_backend *sealed, const struct range *range, const uint8_t *bytes,
                           size_t size) {
    uint8_t *spare = vv_malloc(VV_SEALED_FRAME);
    struct varve_cipher *cipher = NULL;
    uint64_t end = range->first * VV_SEALED_FRAME; /* of what is opened */
    int result = spare ? sealed->secret.cipher->begin(range->key, &cipher) : -ENOMEM;
    int is_last = 0;
    for (size_t i = 0; i < range->frames && !is_last && result == 0; i++) {
        size_t frame = size < SEALED_FRAME ? size : SEALED_FRAME;
        is_last = frame < SEALED_FRAME;
        if (frame < VV_SEALED_TAG) {
            result = refuse_sealed(sealed, range->name, "its end is cut off");
            break;
        }
        frame -= VV_SEALED_TAG;
        result = open_frame(sealed, cipher, range, range->first + i, bytes, frame, spare);
        end += frame;
        bytes += frame + VV_SEALED_TAG;
        size -= frame + VV_SEALED_TAG;
    }
    sealed->secret.cipher->end(cipher);
    vv_free(spare);
    if (result < 0)
        return result;
    if (end <= range->offset)
        return 0;
    return (int64_t)(end - range->offset < range->size ? end - range->offset : range->size);
}

/* Nothing is there: the range begins behind the last frame, or the object was cut where a frame ends. */
static int64_t check_end(struct sealed_backend *sealed, const struct range *range) {
    uint64_t length = 0;
    int result = vv_backend_stat(sealed->wrap.inner, range->name, &length);
    if (result < 0)
        return result;
    if (length < VV_SEALED_HEAD || (length - VV_SEALED_HEAD) % SEALED_FRAME < VV_SEALED_TAG)
        return refuse_sealed(sealed, range->name, "its end is cut off");
    return 0;
}

/* Read the frames, and the head with them if its key is not known and they lie behind it. */
static int64_t read_range(struct sealed_backend *sealed, struct range *range, uint8_t *bytes) {
    struct varve_backend *inner = sealed->wrap.inner;
    uint64_t at = VV_SEALED_HEAD + range->first * SEALED_FRAME;
    size_t want = range->frames * SEALED_FRAME, skip = 0;
    if (!range->has_key && range->first > 0) {
        int64_t got = vv_backend_get(inner, range->name, 0, bytes, VV_SEALED_HEAD);
        int result = got < 0 ? (int)got : take_head(sealed, range, bytes, (size_t)got);
        if (result < 0)
            return result;
    } else if (!range->has_key) {
        skip = VV_SEALED_HEAD;
        range->is_one_state = 1;
    }
    int64_t got = vv_backend_get(inner, range->name, at - skip, bytes, want + skip);
    if (got < 0)
        return got;
    int result = skip ? take_head(sealed, range, bytes, (size_t)got) : 0;
    if (result < 0)
        return result;
    size_t size = (size_t)got - skip;
    if (!range->has_key && size >= SEALED_FRAME) /* smaller ones may be of a mutable kind, and are read at once */
        remember_key(sealed, range->name, range->key);
    if (size == 0 && range->first > 0)
        return check_end(sealed, range);
    return open_frames(sealed, range, bytes + skip, size);
}

static int64_t sealed_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    struct sealed_backend *sealed = sealed_of(backend);
    struct range range = {.name = key, .offset = offset, .data = data, .size = size};
    range.first = offset / VV_SEALED_FRAME;
    range.frames = size ? (size_t)((offset + size - 1) / VV_SEALED_FRAME - range.first) + 1 : 1;
    if (range.frames > SIZE_MAX / 2 / SEALED_FRAME)
        return -EINVAL;
    struct vv_scratch *scratch = NULL;
    uint8_t *large = NULL;
    if (range.frames <= SCRATCH_FRAMES)
        scratch = vv_scratch_acquire(&sealed->scratch, VV_SEALED_HEAD + SCRATCH_FRAMES * SEALED_FRAME);
    else
        large = vv_malloc(VV_SEALED_HEAD + range.frames * SEALED_FRAME);
    uint8_t *bytes = scratch ? scratch->data : large;
    if (!bytes)
        return -ENOMEM;
    range.has_key = recall(sealed, key, range.key);
    int64_t got = read_range(sealed, &range, bytes);
    if (got == VARVE_CORRUPT && !range.is_one_state) {
        forget_key(sealed, key);
        range.has_key = 0;
        got = read_range(sealed, &range, bytes);
    }
    explicit_bzero(range.key, sizeof range.key);
    vv_scratch_release(&sealed->scratch, scratch);
    vv_free(large);
    return got;
}

static int sealed_stat(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    uint64_t length = 0;
    int result = vv_backend_stat(sealed_of(backend)->wrap.inner, key, &length);
    if (result == 0)
        *size_out = vv_sealed_size(length);
    return result;
}

struct root_listing {
    varve_list_fn fn;
    void *arg;
    size_t left; /* names that are still wanted */
};

static int pass_name_on(void *arg, const char *name, int is_prefix) {
    struct root_listing *listing = arg;
    if (strcmp(name, "keys") == 0)
        return 0;
    int result = listing->fn(listing->arg, name, is_prefix);
    return result ? result : --listing->left == 0;
}

static int sealed_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                       varve_list_fn fn, void *arg) {
    struct varve_backend *inner = sealed_of(backend)->wrap.inner;
    struct root_listing listing = {.fn = fn, .arg = arg, .left = limit ? limit : SIZE_MAX};
    if (*prefix)
        return vv_backend_list(inner, prefix, after, limit, fn, arg);
    return vv_backend_list(inner, prefix, after, 0, pass_name_on, &listing);
}

/* ---- the wrapper ---- */

static void sealed_destroy(struct wrap *wrap) {
    struct sealed_backend *sealed = (struct sealed_backend *)wrap;
    vv_secret_clear(&sealed->secret);
    explicit_bzero(sealed->known, sizeof sealed->known);
    vv_scratch_clear(&sealed->scratch);
    pthread_mutex_destroy(&sealed->lock);
}

static const struct wrap_hooks sealed_hooks = {.name = "sealed", .destroy = sealed_destroy};

int vv_sealed_backend_wrap(struct varve_backend *inner, const struct vv_secret *secret, const struct vv_log *log,
                           struct varve_backend **out) {
    struct sealed_backend *sealed = vv_calloc(1, sizeof *sealed);
    if (!sealed)
        return -ENOMEM;
    vv_wrap_init(&sealed->wrap, &sealed_hooks, inner);
    sealed->ops = vv_wrap_ops;
    sealed->ops.create = sealed_create;
    sealed->ops.upload_write = sealed_upload_write;
    sealed->ops.upload_commit = sealed_upload_commit;
    sealed->ops.upload_abort = sealed_upload_abort;
    sealed->ops.replace = sealed_replace;
    sealed->ops.get = sealed_get;
    sealed->ops.stat = sealed_stat;
    sealed->ops.list = sealed_list;
    sealed->wrap.base.ops = &sealed->ops;
    sealed->secret = *secret;
    sealed->log = log;
    vv_scratch_init(&sealed->scratch);
    pthread_mutex_init(&sealed->lock, NULL);
    *out = &sealed->wrap.base;
    return 0;
}

const struct vv_secret *vv_sealed_secret(struct varve_backend *backend, struct varve_backend **inner_out) {
    struct sealed_backend *sealed = (struct sealed_backend *)vv_wrap_find(backend, &sealed_hooks);
    if (sealed && inner_out)
        *inner_out = sealed->wrap.inner;
    return sealed ? &sealed->secret : NULL;
}

int vv_backend_refusal(struct varve_backend *backend, const char *key, char *text, size_t size) {
    struct sealed_backend *sealed = (struct sealed_backend *)vv_wrap_find(backend, &sealed_hooks);
    if (!sealed)
        return 0;
    pthread_mutex_lock(&sealed->lock);
    int is_known = strcmp(sealed->refused, key) == 0;
    if (is_known)
        snprintf(text, size, "%s", sealed->reason);
    pthread_mutex_unlock(&sealed->lock);
    return is_known;
}
