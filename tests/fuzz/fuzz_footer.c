/* An input is footer and end, as vv_footer_encode appends them. */
#include "fuzz.h"

static void parse(const uint8_t *data, size_t size) {
    struct varve_error error;
    struct vv_footer footer;
    struct vv_hash128 digest;
    struct vv_buf again;
    uint64_t offset;
    uint32_t length;
    uint64_t object_length = vv_get64(data + size - VV_END_SIZE) + size;
    if (vv_end_parse(data + size - VV_END_SIZE, object_length, &offset, &length, &digest, &error) < 0)
        return;
    FUZZ_CHECK(length == size - VV_END_SIZE);
    if (vv_footer_parse(data, length, offset, digest, &footer, &error) < 0)
        return;
    for (uint32_t i = 0; i < footer.owners; i++)
        FUZZ_CHECK(vv_footer_section(&footer, VV_SECTION_MANIFEST, footer.first_owner + i) != NULL);
    vv_buf_init(&again);
    vv_footer_encode(&again, offset, &footer, NULL);
    if (again.size == size) /* a long program text is cut */
        FUZZ_CHECK(memcmp(again.data, data, size) == 0);
    vv_buf_clear(&again);
    vv_footer_clear(&footer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < VV_END_SIZE)
        return 0;
    parse(data, size);
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, size);
    reseal_footer(copy, size, vv_get64(data + size - VV_END_SIZE));
    parse(copy, size);
    free(copy);
    return 0;
}
