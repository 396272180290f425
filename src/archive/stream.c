#include "archive/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#ifdef VARVE_HAS_ZLIB
#include <zlib.h>
#endif

#define STEP (64u << 10)
#define GZIP_FIXED 10u  /* bytes of each header */
#define GZIP_TRAILER 8u /* sum and length of the content */
#define WINDOW_MOST 27  /* log2: 128 MiB, as the command zstd reads without being asked */

struct archive_stream {
    int fd;
    uint64_t at, size; /* of the file: where the next step is read */
    uint8_t in[STEP];
    size_t have, used;
    int is_done;
    enum archive_packer packer;
    ZSTD_DCtx *zstd;
#ifdef VARVE_HAS_ZLIB
    z_stream zlib;
    int has_zlib;
#endif
};

/* ---- the file ---- */

static ssize_t read_file(int fd, uint64_t at, void *buffer, size_t size) {
    ssize_t got;
    do
        got = pread(fd, buffer, size, (off_t)at);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static int fill(struct archive_stream *stream) {
    uint64_t left = stream->size - stream->at;
    if (stream->used < stream->have)
        return 0;
    ssize_t got = read_file(stream->fd, stream->at, stream->in, left < STEP ? (size_t)left : STEP);
    if (got <= 0)
        return got < 0 ? -EIO : -EBADMSG; /* it ends before the content does */
    stream->at += (uint64_t)got;
    stream->have = (size_t)got;
    stream->used = 0;
    return 0;
}

/* ---- gzip ---- */

#ifdef VARVE_HAS_ZLIB
enum { HAS_SUM = 2, HAS_EXTRA = 4, HAS_NAME = 8, HAS_COMMENT = 16 };

static size_t behind_text(const uint8_t *data, size_t at, size_t size) {
    const uint8_t *end = at < size ? memchr(data + at, 0, size - at) : NULL;
    return end ? (size_t)(end - data) + 1 : size + 1;
}

/* How long the header is; 0: it is none. */
static size_t gzip_header(const uint8_t *data, size_t size) {
    size_t at = GZIP_FIXED;
    if (size < GZIP_FIXED || data[0] != 0x1f || data[1] != 0x8b || data[2] != Z_DEFLATED || data[3] > 31)
        return 0;
    if (data[3] & HAS_EXTRA)
        at = at + 2 <= size ? at + 2 + (data[at] | (size_t)data[at + 1] << 8) : size + 1;
    if (data[3] & HAS_NAME)
        at = behind_text(data, at, size);
    if (data[3] & HAS_COMMENT)
        at = behind_text(data, at, size);
    at += data[3] & HAS_SUM ? 2 : 0;
    return at <= size ? at : 0;
}

static int open_gzip(struct archive_stream *stream, struct archive_recipe *recipe) {
    size_t head = gzip_header(stream->in, stream->have);
    if (head == 0)
        return 0;
    recipe->head = malloc(head);
    if (!recipe->head || inflateInit2(&stream->zlib, -MAX_WBITS) != Z_OK)
        return -ENOMEM;
    stream->has_zlib = 1;
    memcpy(recipe->head, stream->in, head);
    recipe->head_size = stream->used = head;
    recipe->packer = ARCHIVE_GZIP;
    return 1;
}

static int64_t read_gzip(struct archive_stream *stream, void *buffer, size_t size) {
    z_stream *zlib = &stream->zlib;
    zlib->next_out = buffer;
    zlib->avail_out = (unsigned)size;
    while (zlib->avail_out == size && !stream->is_done) {
        int rc = fill(stream);
        if (rc < 0)
            return rc;
        zlib->next_in = stream->in + stream->used;
        zlib->avail_in = (unsigned)(stream->have - stream->used);
        rc = inflate(zlib, Z_NO_FLUSH);
        stream->used = stream->have - zlib->avail_in;
        stream->is_done = rc == Z_STREAM_END;
        if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            return rc == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    }
    return (int64_t)(size - zlib->avail_out);
}
#endif

/* ---- zstd ---- */

static int open_zstd(struct archive_stream *stream, struct archive_recipe *recipe) {
    static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    if (stream->have < 6 || memcmp(stream->in, magic, sizeof magic) != 0)
        return 0;
    stream->zstd = ZSTD_createDCtx();
    if (!stream->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax, WINDOW_MOST)))
        return -ENOMEM;
    unsigned long long told = ZSTD_getFrameContentSize(stream->in, stream->have);
    recipe->packer = ARCHIVE_ZSTD;
    recipe->is_told = told != ZSTD_CONTENTSIZE_UNKNOWN && told != ZSTD_CONTENTSIZE_ERROR;
    recipe->has_sum = stream->in[4] >> 2 & 1;
    return 1;
}

static int64_t read_zstd(struct archive_stream *stream, void *buffer, size_t size) {
    ZSTD_outBuffer out = {buffer, size, 0};
    while (out.pos == 0 && !stream->is_done) {
        /* Once it has all of the file it may still hold content back. */
        int rc = stream->at < stream->size || stream->used < stream->have ? fill(stream) : 0;
        if (rc < 0)
            return rc;
        ZSTD_inBuffer in = {stream->in, stream->have, stream->used};
        size_t left = ZSTD_decompressStream(stream->zstd, &out, &in);
        if (ZSTD_isError(left))
            return -EBADMSG;
        if (left > 0 && out.pos == 0 && in.pos == in.size && stream->at == stream->size)
            return -EBADMSG; /* cut */
        stream->used = in.pos;
        stream->is_done = left == 0;
    }
    return (int64_t)out.pos;
}

/* ---- both ---- */

int archive_stream_open(int fd, uint64_t size, struct archive_stream **out, struct archive_recipe *recipe) {
    struct archive_stream *stream = calloc(1, sizeof *stream);
    *out = NULL;
    if (!stream)
        return -ENOMEM;
    stream->fd = fd;
    stream->size = size;
    int rc = size && fill(stream) == 0 ? open_zstd(stream, recipe) : 0;
#ifdef VARVE_HAS_ZLIB
    rc = rc ? rc : open_gzip(stream, recipe);
#endif
    stream->packer = recipe->packer;
    if (rc <= 0) {
        archive_stream_close(stream);
        archive_recipe_clear(recipe);
        return rc;
    }
    *out = stream;
    return 1;
}

int64_t archive_stream_read(struct archive_stream *stream, void *buffer, size_t size) {
#ifdef VARVE_HAS_ZLIB
    if (stream->packer == ARCHIVE_GZIP)
        return read_gzip(stream, buffer, size);
#endif
    return read_zstd(stream, buffer, size);
}

int archive_stream_end(struct archive_stream *stream, struct archive_recipe *recipe) {
    uint64_t begin = stream->at - (stream->have - stream->used), left = stream->size - begin;
    size_t least = stream->packer == ARCHIVE_GZIP ? GZIP_TRAILER : 0;
    size_t most = stream->packer == ARCHIVE_GZIP ? ARCHIVE_HEAD_MOST : 0;
    if (left < least || left > most)
        return -EBADMSG;
    recipe->tail = malloc((size_t)left + 1);
    if (!recipe->tail)
        return -ENOMEM;
    recipe->tail_size = (size_t)left;
    return read_file(stream->fd, begin, recipe->tail, (size_t)left) == (ssize_t)left ? 0 : -EIO;
}

void archive_stream_close(struct archive_stream *stream) {
    if (!stream)
        return;
#ifdef VARVE_HAS_ZLIB
    if (stream->has_zlib)
        inflateEnd(&stream->zlib);
#endif
    ZSTD_freeDCtx(stream->zstd);
    free(stream);
}
