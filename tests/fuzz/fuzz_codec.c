/* Blocks. The first byte: in the highest bit what is done, below it the codec; then both filters and the element in one
 * byte each, cut to what is known; three bytes of length; two of row; two of the exponent of a grid; the rest is the
 * block.
 *
 * Decoding (highest bit 0) hostile bytes to the length never writes past its room and gives exactly that many bytes or
 * refuses. What is encoded (1) and decoded is the same. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "base/bytes.h"
#include "encode/coding.h"
#include "encode/grid.h"

enum { HEAD = 11 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(struct vv_coder *coder, const struct vv_coding *coding, size_t raw, const uint8_t *data,
                   size_t size) {
    uint8_t *out = malloc(raw);
    if (!out)
        return;
    int result = vv_coder_decode(coder, coding, data, size, out, raw);
    if (result != 0 && result != VARVE_CORRUPT && result != VARVE_UNKNOWN_FORMAT)
        abort();
    free(out);
}

static void encode(struct vv_coder *coder, const struct vv_coding *coding, const struct vv_content *content,
                   const uint8_t *data, size_t size) {
    uint8_t *raw = malloc(size), *stored = malloc(size), *back = malloc(size);
    if (raw && stored && back) {
        memcpy(raw, data, size);
        if (coding->codec == VV_CODEC_ZFP_GRID)
            vv_grid_round(content->type, content->grid, raw, raw, size);
        int64_t got = vv_coder_encode(coder, coding, content, raw, size, stored, 1);
        if (got >= (int64_t)size)
            abort();
        if (got > 0 &&
            (vv_coder_decode(coder, coding, stored, (size_t)got, back, size) != 0 || memcmp(raw, back, size) != 0))
            abort();
    }
    free(raw);
    free(stored);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size <= HEAD)
        return 0;
    struct vv_coding coding = {.codec = (data[0] & 127) % VV_CODECS,
                               .filter = {data[1] % VV_FILTERS, data[2] % VV_FILTERS},
                               .element = data[3]};
    struct vv_content content = {.row = vv_get16(data + 7), .type = coding.element == 4 ? VARVE_F32 : VARVE_F64};
    content.grid = ldexp(1, (int16_t)vv_get16(data + 9) % 1022);
    size_t raw = 1 + (vv_get32(data + 4) & 0x3ffff);
    struct vv_coder *coder;
    if (vv_coder_create(&coder))
        return 0;
    if (data[0] & 128)
        encode(coder, &coding, &content, data + HEAD, size - HEAD);
    else
        decode(coder, &coding, raw, data + HEAD, size - HEAD);
    vv_coder_destroy(coder);
    return 0;
}
