#include "archive/pack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve.h>
#include <xxhash.h>
#include <zstd.h>
#ifdef VARVE_HAS_ZLIB
#include <zlib.h>
#endif

#include "files/error.h"
#include "files/found.h"

#define STEP (256u << 10)

/* Room for one step in, and one out. */
struct steps {
    int fd;
    uint64_t at, size;
    archive_take_fn take;
    void *arg;
    archive_tick_fn tick;
    uint8_t in[STEP], out[STEP];
};

void archive_recipe_clear(struct archive_recipe *recipe) {
    free(recipe->head);
    free(recipe->tail);
    recipe->head = recipe->tail = NULL;
}

/* The next bytes to pack; 0 at the end, or a negative code. */
static int64_t next_step(struct steps *steps) {
    uint64_t left = steps->size - steps->at;
    size_t wanted = left < STEP ? (size_t)left : STEP;
    int rc = steps->tick ? steps->tick(NULL, 0, 0) : 0;
    if (rc || wanted == 0)
        return rc;
    ssize_t got;
    do
        got = pread(steps->fd, steps->in, wanted, (off_t)steps->at);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got < 0 ? -errno : -EIO;
    steps->at += (uint64_t)got;
    return got;
}

static int hand_out(struct steps *steps, const void *data, size_t size) {
    return size ? steps->take(steps->arg, data, size) : 0;
}

/* ---- gzip ---- */

#ifdef VARVE_HAS_ZLIB
static int deflate_step(struct steps *steps, z_stream *stream, int is_last) {
    int rc = 0;
    do {
        stream->next_out = steps->out;
        stream->avail_out = STEP;
        if (deflate(stream, is_last ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
            return -EIO;
        rc = hand_out(steps, steps->out, STEP - stream->avail_out);
    } while (rc == 0 && stream->avail_out == 0);
    return rc;
}

static int pack_gzip(struct steps *steps, const struct archive_recipe *recipe) {
    z_stream stream = {.next_in = NULL};
    int64_t got = 1;
    int rc = hand_out(steps, recipe->head, recipe->head_size);
    if (rc)
        return rc;
    if (deflateInit2(&stream, (int)recipe->level, Z_DEFLATED, -MAX_WBITS, (int)recipe->memory, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return -ENOMEM;
    while (got > 0 && rc == 0) {
        got = next_step(steps);
        stream.next_in = steps->in;
        stream.avail_in = got > 0 ? (unsigned)got : 0;
        rc = got < 0 ? (int)got : deflate_step(steps, &stream, got == 0);
    }
    deflateEnd(&stream);
    return rc ? rc : hand_out(steps, recipe->tail, recipe->tail_size);
}
#else
static int pack_gzip(struct steps *steps, const struct archive_recipe *recipe) {
    (void)steps, (void)recipe;
    return VARVE_UNSUPPORTED;
}
#endif

/* ---- zstd ---- */

static int zstd_step(struct steps *steps, ZSTD_CCtx *context, size_t size, int is_last) {
    ZSTD_inBuffer in = {steps->in, size, 0};
    size_t left = 1;
    int rc = 0;
    while (rc == 0 && (is_last ? left > 0 : in.pos < in.size)) {
        ZSTD_outBuffer out = {steps->out, STEP, 0};
        left = ZSTD_compressStream2(context, &out, &in, is_last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return -EIO;
        rc = hand_out(steps, steps->out, out.pos);
    }
    return rc;
}

static int pack_zstd(struct steps *steps, const struct archive_recipe *recipe) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    int64_t got = 1;
    int rc = context ? 0 : -ENOMEM;
    if (rc == 0 && (ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, (int)recipe->level)) ||
                    ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, (int)recipe->has_sum)) ||
                    ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_nbWorkers, (int)recipe->memory)) ||
                    (recipe->is_told && ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(context, steps->size)))))
        rc = VARVE_UNSUPPORTED; /* a library without threads */
    while (got > 0 && rc == 0) {
        got = next_step(steps);
        rc = got < 0 ? (int)got : zstd_step(steps, context, (size_t)got, got == 0);
    }
    ZSTD_freeCCtx(context);
    return rc;
}

/* ---- both ---- */

int archive_pack(const struct archive_recipe *recipe, int fd, uint64_t size, archive_take_fn take, void *arg,
                 archive_tick_fn tick) {
    struct steps *steps = malloc(sizeof *steps);
    if (!steps)
        return -ENOMEM;
    steps->fd = fd;
    steps->at = 0;
    steps->size = size;
    steps->take = take;
    steps->arg = arg;
    steps->tick = tick;
    int rc = recipe->packer == ARCHIVE_GZIP ? pack_gzip(steps, recipe) : pack_zstd(steps, recipe);
    free(steps);
    return rc;
}

void archive_library(enum archive_packer packer, char out[ARCHIVE_LIBRARY_CAPACITY]) {
    if (packer == ARCHIVE_ZSTD)
        snprintf(out, ARCHIVE_LIBRARY_CAPACITY, "libzstd %s", ZSTD_versionString());
    else
#ifdef VARVE_HAS_ZLIB
        snprintf(out, ARCHIVE_LIBRARY_CAPACITY, "zlib %s", zlibVersion());
#else
        snprintf(out, ARCHIVE_LIBRARY_CAPACITY, "no zlib");
#endif
}

struct writing {
    int fd;
    uint64_t size, most;
    XXH3_state_t *digest;
};

static int write_packed(void *arg, const void *data, size_t size) {
    struct writing *writing = arg;
    if (size > writing->most - writing->size)
        return VARVE_UNSUPPORTED;
    writing->size += size;
    XXH3_128bits_update(writing->digest, data, size);
    return files_write_all(writing->fd, data, size);
}

static int is_digest(const struct writing *writing, const uint8_t digest[ARCHIVE_DIGEST]) {
    XXH128_hash_t hash = XXH3_128bits_digest(writing->digest);
    uint8_t got[ARCHIVE_DIGEST];
    for (unsigned i = 0; i < 8; i++) {
        got[i] = (uint8_t)(hash.low64 >> 8 * i);
        got[8 + i] = (uint8_t)(hash.high64 >> 8 * i);
    }
    return memcmp(got, digest, sizeof got) == 0;
}

int archive_repack(const struct archive_recipe *recipe, int from, uint64_t size, int to, archive_tick_fn tick,
                   struct varve_error *error) {
    struct writing writing = {.fd = to, .most = recipe->size, .digest = XXH3_createState()};
    char library[ARCHIVE_LIBRARY_CAPACITY];
    if (!writing.digest)
        return -ENOMEM;
    XXH3_128bits_reset(writing.digest);
    int rc = archive_pack(recipe, from, size, write_packed, &writing, tick);
    if (rc == 0 && (writing.size != recipe->size || !is_digest(&writing, recipe->digest)))
        rc = VARVE_UNSUPPORTED;
    XXH3_freeState(writing.digest);
    if (rc != VARVE_UNSUPPORTED)
        return rc;
    archive_library(recipe->packer, library);
    return files_error(error, rc,
                       "%s packs in another way than %s, with which it was imported; export it there, or its content:"
                       " append +unpacked to its name",
                       library, recipe->library);
}
