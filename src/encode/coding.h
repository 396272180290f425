/* How the bytes of a block are made smaller, and the reverse: up to two filters that only rearrange, then a codec
 * (docs/format.md 6). A coding is what the block entry says; a coder does the work. */
#ifndef VV_CODING_H
#define VV_CODING_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum vv_codec_number {
    VV_CODEC_NONE = 0,
    VV_CODEC_LZ4 = 1,
    VV_CODEC_ZSTD = 2,
    VV_CODEC_FPZIP = 3,
    VV_CODEC_ZFP = 4,      /* reversible */
    VV_CODEC_ZFP_GRID = 5, /* values that lie on a grid: zfp to within less than half its width, then rounded to it */
    VV_CODEC_LZ4_ZSTD = 6, /* lz4, and zstd over what it left */
    VV_CODECS = 7,
};
enum vv_filter_number {
    VV_FILTER_NONE = 0,
    VV_FILTER_SHUFFLE = 1,    /* bytes of equal place together */
    VV_FILTER_BITSHUFFLE = 2, /* bits of equal place together */
    VV_FILTER_DELTA = 3,      /* each element less the one before, as unsigned numbers */
    VV_FILTER_XOR = 4,        /* each element xor the one before */
    VV_FILTER_ROTATE = 5, /* each number rotated by one bit: the sign comes last, and exponents of 8 bits are a byte */
    VV_FILTERS = 6,
};

struct vv_coding {
    uint8_t codec;
    uint8_t filter[2]; /* in the order of encoding */
    uint8_t element;   /* bytes: 1, 2, 4, 8, 12, 16 or 24 with filters, 4 or 8 with fpzip and zfp, else 0 */
};

/* What is known about the bytes of a block. */
struct vv_content {
    uint8_t type; /* enum varve_type; VARVE_BYTES: nothing is known */
    uint32_t row; /* elements in the fastest dimension of the array; 0: not known */
    double grid;  /* lossy regions: values are multiples of this power of two; else 0 */
};

/* The codings a setting can name; each is fitted to the content of a block by vv_coding_fit. */
enum vv_coding_name {
    VV_CODING_NONE,
    VV_CODING_LZ4,
    VV_CODING_ZSTD,
    VV_CODING_LZ4_ZSTD,
    VV_CODING_SHUFFLE_LZ4,
    VV_CODING_SHUFFLE_ZSTD,
    VV_CODING_BITSHUFFLE_LZ4,
    VV_CODING_BITSHUFFLE_ZSTD,
    VV_CODING_DELTA_LZ4,   /* delta, shuffle, lz4 */
    VV_CODING_DELTA_ZSTD,  /* delta, shuffle, zstd */
    VV_CODING_XOR_ZSTD,    /* xor, shuffle, zstd */
    VV_CODING_ROTATE_ZSTD, /* rotate, shuffle, zstd as an entropy coder of each plane: no repetitions are looked for */
    VV_CODING_FPZIP,
    VV_CODING_ZFP,
    VV_CODING_NAMES,
};
const char *vv_coding_text(int name); /* "shuffle-lz4", ...; at most 15 characters */
/* The coding of this name for such content. 0 if it makes no sense there (fpzip on integers), or its library was not
 * built in; then *out is zstd. element: of the filters; 0: that of the content's type, three of them where rows are
 * vectors of three numbers, or 8 if nothing is known. */
int vv_coding_fit(int name, const struct vv_content *content, uint8_t element, struct vv_coding *out);
/* The name that comes nearest to a coding read from storage; never fails. */
const char *vv_coding_describe(const struct vv_coding *coding);
/* 0 if this combination may stand in a block entry and can be decoded here, VARVE_UNKNOWN_FORMAT and what is not known
 * if not; VARVE_CORRUPT if it contradicts itself. */
int vv_coding_check(const struct vv_coding *coding, struct varve_error *error);

/* The work space of one thread. */
struct vv_coder;
int vv_coder_create(struct vv_coder **out);    /* 0 or -ENOMEM; takes little memory before it is used */
void vv_coder_destroy(struct vv_coder *coder); /* accepts NULL */
/* Room of its own for what is encoded, which lasts until it is asked for again; NULL without memory. */
uint8_t *vv_coder_out(struct vv_coder *coder, size_t size);
/* Encode into out, which has size bytes: gives the encoded size, 0 when it would not be smaller (or the coding does not
 * fit: values that are not on the grid), or a negative error. level: of zstd. */
int64_t vv_coder_encode(struct vv_coder *coder, const struct vv_coding *coding, const struct vv_content *content,
                        const void *data, size_t size, void *out, int level);
/* Decode stored bytes into exactly size bytes; 0, VARVE_CORRUPT, VARVE_UNKNOWN_FORMAT or -ENOMEM. Never writes past
 * out + size, and takes memory in proportion to size whatever the stored bytes say. */
int vv_coder_decode(struct vv_coder *coder, const struct vv_coding *coding, const void *stored, size_t stored_size,
                    void *out, size_t size);

#endif
