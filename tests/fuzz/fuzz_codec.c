/* Stored blocks: the first byte chooses the codec, the next three the raw length, the rest is the block. Decoding never writes past its
 * room and gives exactly the raw length or refuses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "encode/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 5)
        return 0;
    const struct vv_codec_ops *codec = vv_codec_by_number(data[0] % 3);
    size_t raw = 1 + ((size_t)data[1] | (size_t)data[2] << 8 | (size_t)(data[3] & 3) << 16);
    uint8_t *out = malloc(raw);
    if (!out)
        return 0;
    int result = codec->decode(data + 4, size - 4, out, raw);
    if (result != 0 && result != VARVE_CORRUPT)
        abort();
    free(out);
    return 0;
}
