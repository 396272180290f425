/* Codings: names, what fits which content, what may stand in a block entry; and the coder, which runs filters and
 * codec. */
#include "encode/coding.h"

#include <errno.h>
#include <string.h>
#include <varve/varve.h>
#include <zstd.h>

#include "base/alloc.h"
#include "encode/codec.h"
#include "encode/filter.h"

static const struct {
    const char *text;
    uint8_t codec, filter[2];
} names[VV_CODING_NAMES] = {
    [VV_CODING_NONE] = {"none", VV_CODEC_NONE, {0, 0}},
    [VV_CODING_LZ4] = {"lz4", VV_CODEC_LZ4, {0, 0}},
    [VV_CODING_ZSTD] = {"zstd", VV_CODEC_ZSTD, {0, 0}},
    [VV_CODING_LZ4_ZSTD] = {"lz4-zstd", VV_CODEC_LZ4_ZSTD, {0, 0}},
    [VV_CODING_SHUFFLE_LZ4] = {"shuffle-lz4", VV_CODEC_LZ4, {VV_FILTER_SHUFFLE, 0}},
    [VV_CODING_SHUFFLE_ZSTD] = {"shuffle-zstd", VV_CODEC_ZSTD, {VV_FILTER_SHUFFLE, 0}},
    [VV_CODING_BITSHUFFLE_LZ4] = {"bitshuffle-lz4", VV_CODEC_LZ4, {VV_FILTER_BITSHUFFLE, 0}},
    [VV_CODING_BITSHUFFLE_ZSTD] = {"bitshuffle-zstd", VV_CODEC_ZSTD, {VV_FILTER_BITSHUFFLE, 0}},
    [VV_CODING_DELTA_LZ4] = {"delta-lz4", VV_CODEC_LZ4, {VV_FILTER_DELTA, VV_FILTER_SHUFFLE}},
    [VV_CODING_DELTA_ZSTD] = {"delta-zstd", VV_CODEC_ZSTD, {VV_FILTER_DELTA, VV_FILTER_SHUFFLE}},
    [VV_CODING_XOR_ZSTD] = {"xor-zstd", VV_CODEC_ZSTD, {VV_FILTER_XOR, VV_FILTER_SHUFFLE}},
    [VV_CODING_ROTATE_ZSTD] = {"rotate-zstd", VV_CODEC_ZSTD, {VV_FILTER_ROTATE, VV_FILTER_SHUFFLE}},
    [VV_CODING_FPZIP] = {"fpzip", VV_CODEC_FPZIP, {0, 0}},
    [VV_CODING_ZFP] = {"zfp", VV_CODEC_ZFP, {0, 0}},
};

const char *vv_coding_text(int name) {
    return name >= 0 && name < VV_CODING_NAMES ? names[name].text : "unknown";
}

/* Complex numbers are one element: their parts differ, each is alike the same part of the number before. */
static uint8_t element_of_type(uint8_t type) {
    switch (type) {
    case VARVE_I8:
    case VARVE_U8:
        return 1;
    case VARVE_I16:
    case VARVE_U16:
    case VARVE_F16:
    case VARVE_BF16:
        return 2;
    case VARVE_I32:
    case VARVE_U32:
    case VARVE_F32:
        return 4;
    case VARVE_C128:
        return 16;
    default: /* numbers of 8 bytes, and bytes: most data nobody described is made of such, or at least aligned so */
        return 8;
    }
}

/* Bytes of the elements that filters see. Vectors of three numbers (positions, velocities) are one element, too. */
static uint8_t element_of(const struct vv_content *content) {
    uint8_t element = element_of_type(content->type);
    int has_vectors = content->row == 3 && content->type != VARVE_BYTES && (element == 4 || element == 8);
    return has_vectors ? (uint8_t)(3 * element) : element;
}

/* Only exponents of 8 bits become a whole byte; float16 loses nothing, as three bits of its mantissa come along. */
static int can_rotate(const struct vv_content *content, uint8_t element) {
    switch (content->type) {
    case VARVE_F16:
    case VARVE_BF16:
        return element == 2;
    case VARVE_F32:
        return element == 4 || element == 12;
    default: /* bytes that look like numbers of 4 */
        return content->type == VARVE_BYTES && element == 4;
    }
}

static int is_possible(const struct vv_codec_ops *codec) {
    return (!codec->can_encode || codec->can_encode()) && (!codec->can_decode || codec->can_decode());
}

int vv_coding_fit(int name, const struct vv_content *content, uint8_t element, struct vv_coding *out) {
    *out = (struct vv_coding){.codec = VV_CODEC_ZSTD};
    if (name < 0 || name >= VV_CODING_NAMES)
        return 0;
    struct vv_coding c = {.codec = names[name].codec, .filter = {names[name].filter[0], names[name].filter[1]}};
    if (name == VV_CODING_ZFP && content->grid > 0)
        c.codec = VV_CODEC_ZFP_GRID;
    const struct vv_codec_ops *codec = vv_codec_by_number(c.codec);
    if (!is_possible(codec))
        return 0;
    if (codec->is_of_floats) {
        if (content->type != VARVE_F32 && content->type != VARVE_F64)
            return 0;
        c.element = content->type == VARVE_F32 ? 4 : 8;
    } else if (c.filter[0]) {
        c.element = element ? element : element_of(content);
        if (c.element == 1) { /* there is nothing to shuffle */
            if (c.filter[0] == VV_FILTER_SHUFFLE)
                return 0;
            c.filter[1] = VV_FILTER_NONE;
        }
        if (!vv_filter_is_valid(c.filter, c.element) ||
            (c.filter[0] == VV_FILTER_ROTATE && !can_rotate(content, c.element)))
            return 0;
    }
    *out = c;
    return 1;
}

const char *vv_coding_describe(const struct vv_coding *coding) {
    uint8_t codec = coding->codec == VV_CODEC_ZFP_GRID ? VV_CODEC_ZFP : coding->codec;
    const char *nearest = "unknown";
    int best = -1;
    for (int i = 0; i < VV_CODING_NAMES; i++) {
        if (names[i].codec != codec)
            continue;
        int score = (names[i].filter[0] == coding->filter[0]) * 2 + (names[i].filter[1] == coding->filter[1]);
        if (score > best) {
            best = score;
            nearest = names[i].text;
        }
    }
    return nearest;
}

int vv_coding_check(const struct vv_coding *coding, struct varve_error *error) {
    const struct vv_codec_ops *codec = vv_codec_by_number(coding->codec);
    if (!codec)
        return vv_error(error, VARVE_UNKNOWN_FORMAT, "codec %u is not known here", coding->codec);
    for (int i = 0; i < 2; i++)
        if (coding->filter[i] >= VV_FILTERS)
            return vv_error(error, VARVE_UNKNOWN_FORMAT, "filter %u is not known here", coding->filter[i]);
    uint8_t element = coding->element;
    int has_filters = coding->filter[0] || coding->filter[1];
    if (has_filters) {
        if (codec->number == VV_CODEC_NONE || codec->is_of_floats || !vv_filter_is_valid(coding->filter, element))
            return vv_error(error, VARVE_CORRUPT, "filters %u and %u on elements of %u bytes do not go with codec %s",
                            coding->filter[0], coding->filter[1], element, codec->name);
    } else if (codec->is_of_floats ? element != 4 && element != 8 : element != 0) {
        return vv_error(error, VARVE_CORRUPT, "elements of %u bytes do not go with codec %s", element, codec->name);
    }
    if (codec->can_decode && !codec->can_decode())
        return vv_error(error, VARVE_UNKNOWN_FORMAT, "codec %s was not built in", codec->name);
    return 0;
}

int vv_coder_create(struct vv_coder **out) {
    *out = vv_calloc(1, sizeof **out);
    return *out ? 0 : -ENOMEM;
}

void vv_coder_destroy(struct vv_coder *coder) {
    if (!coder)
        return;
    ZSTD_freeCCtx(coder->zstd_encoder);
    ZSTD_freeDCtx(coder->zstd_decoder);
    for (int i = 0; i < VV_CODER_BUFFERS; i++)
        vv_free(coder->buffer[i].data);
    vv_free(coder);
}

uint8_t *vv_coder_out(struct vv_coder *coder, size_t size) {
    return vv_coder_buffer_of(coder, VV_CODER_OUT, size);
}

/* Run the filters over data; the result is the coder's, or NULL without memory. */
static const uint8_t *filter_data(struct vv_coder *coder, const struct vv_coding *coding, const void *data,
                                  size_t size) {
    uint8_t *filtered = vv_coder_buffer_of(coder, VV_CODER_FILTERED, size);
    if (!filtered)
        return NULL;
    if (vv_filter_is_one_pass(coding->filter)) {
        vv_filter_apply(coding->filter, coding->element, data, filtered, size);
        return filtered;
    }
    uint8_t *again = vv_coder_buffer_of(coder, VV_CODER_VALUES, size); /* codecs that use it have no filters */
    if (!again)
        return NULL;
    vv_filter_apply((const uint8_t[]){coding->filter[0], 0}, coding->element, data, filtered, size);
    vv_filter_apply((const uint8_t[]){coding->filter[1], 0}, coding->element, filtered, again, size);
    return again;
}

/* fpzip and zfp are libraries that may be replaced under us, and compute: what they wrote is read back before it is
 * believed. They are far slower than that matters where they pay. Floats have no filters, so that buffer is free. */
static int64_t check_floats(struct vv_coder *coder, const struct vv_codec_ops *codec, uint8_t element, const void *data,
                            size_t size, const void *out, int64_t got) {
    uint8_t *back = vv_coder_buffer_of(coder, VV_CODER_FILTERED, size);
    if (!back)
        return -ENOMEM;
    int rc = codec->decode(coder, element, out, (size_t)got, back, size);
    if (rc == -ENOMEM)
        return rc;
    return rc == 0 && memcmp(back, data, size) == 0 ? got : 0;
}

int64_t vv_coder_encode(struct vv_coder *coder, const struct vv_coding *coding, const struct vv_content *content,
                        const void *data, size_t size, void *out, int level) {
    int rc = vv_coding_check(coding, NULL);
    if (rc)
        return rc;
    const struct vv_codec_ops *codec = vv_codec_by_number(coding->codec);
    if (size == 0 || (codec->can_encode && !codec->can_encode()))
        return 0;
    if (coding->filter[0])
        data = filter_data(coder, coding, data, size);
    if (!data)
        return -ENOMEM;
    if (codec->number == VV_CODEC_ZSTD && coding->filter[0] == VV_FILTER_ROTATE &&
        coding->filter[1] == VV_FILTER_SHUFFLE)
        level = VV_LEVEL_ENTROPY;
    int64_t got = codec->encode(coder, coding->element, content, data, size, out, level);
    int is_checked = codec->is_of_floats && codec->number != VV_CODEC_ZFP_GRID; /* which does it by itself */
    return is_checked && got > 0 ? check_floats(coder, codec, coding->element, data, size, out, got) : got;
}

static int decode_and_undo(struct vv_coder *coder, const struct vv_coding *coding, const void *stored,
                           size_t stored_size, void *out, size_t size) {
    const struct vv_codec_ops *codec = vv_codec_by_number(coding->codec);
    uint8_t *decoded = vv_coder_buffer_of(coder, VV_CODER_FILTERED, size);
    if (!decoded)
        return -ENOMEM;
    int rc = codec->decode(coder, coding->element, stored, stored_size, decoded, size);
    if (rc)
        return rc;
    if (vv_filter_is_one_pass(coding->filter)) {
        vv_filter_undo(coding->filter, coding->element, decoded, out, size);
        return 0;
    }
    uint8_t *again = vv_coder_buffer_of(coder, VV_CODER_VALUES, size);
    if (!again)
        return -ENOMEM;
    vv_filter_undo((const uint8_t[]){coding->filter[1], 0}, coding->element, decoded, again, size);
    vv_filter_undo((const uint8_t[]){coding->filter[0], 0}, coding->element, again, out, size);
    return 0;
}

int vv_coder_decode(struct vv_coder *coder, const struct vv_coding *coding, const void *stored, size_t stored_size,
                    void *out, size_t size) {
    int rc = vv_coding_check(coding, NULL);
    if (rc)
        return rc;
    if (size == 0 || stored_size == 0)
        return VARVE_CORRUPT;
    if (coding->filter[0])
        return decode_and_undo(coder, coding, stored, stored_size, out, size);
    return vv_codec_by_number(coding->codec)->decode(coder, coding->element, stored, stored_size, out, size);
}
