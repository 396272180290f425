/* An input is a byte with the number of blocks, and a ranges section. What is accepted must come out the same when
 * it is written again. */
#include "fuzz.h"

#define BLOCKS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vv_range ranges[BLOCKS_MAX];
    struct varve_error error;
    struct vv_buf again;
    uint64_t count = size ? data[0] % (BLOCKS_MAX + 1) : 0;
    if (size < 1)
        return 0;
    int rc = vv_ranges_parse(data + 1, size - 1, count, ranges, &error);
    FUZZ_CHECK(rc == 0 || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT);
    if (rc < 0)
        return 0;
    vv_buf_init(&again);
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].type)
            vv_range_encode(&again, i, &ranges[i]);
    FUZZ_CHECK(again.size == size - 1 && (size == 1 || memcmp(again.data, data + 1, size - 1) == 0));
    vv_buf_clear(&again);
    return 0;
}
