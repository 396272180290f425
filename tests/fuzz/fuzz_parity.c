/* An input is table and end of a parity object, as vv_parity_encode appends them. */
#include "fuzz.h"

static void check(const struct vv_parity *parity) {
    uint64_t all = 0;
    for (uint32_t row = 0; row < vv_parity_members(parity); row++)
        for (uint32_t d = 0; d < parity->data; d++) {
            uint32_t member = vv_parity_data_member(parity, row, d);
            FUZZ_CHECK(vv_parity_data_row(parity, member, d) == row);
            FUZZ_CHECK(vv_parity_piece(parity, member) <= vv_parity_row_length(parity, row));
        }
    for (uint32_t i = 0; i < parity->parity; i++)
        FUZZ_CHECK(vv_parity_member(parity, vv_parity_row(parity, parity->member, i), i) == parity->member);
    for (uint32_t i = 0; i < vv_parity_members(parity); i++)
        all += parity->streams[i];
    for (uint32_t i = 0; i < parity->count; i++)
        all -= parity->list[i].length;
    FUZZ_CHECK(all == 0);
}

static void parse(const uint8_t *data, size_t size) {
    struct varve_error error;
    struct vv_parity parity;
    struct vv_hash128 digest;
    struct vv_buf again;
    uint64_t offset;
    uint32_t length;
    uint64_t object_length = vv_get64(data + size - VV_PARITY_END_SIZE) + size;
    if (vv_parity_end_parse(data + size - VV_PARITY_END_SIZE, object_length, &offset, &length, &digest, &error) < 0)
        return;
    FUZZ_CHECK(length == size - VV_PARITY_END_SIZE);
    if (vv_parity_parse(data, length, offset, digest, &parity, &error) < 0)
        return;
    check(&parity);
    vv_buf_init(&again);
    vv_parity_encode(&again, offset, &parity);
    FUZZ_CHECK(again.size == size && memcmp(again.data, data, size) == 0);
    vv_buf_clear(&again);
    vv_parity_clear(&parity);
}

/* Where the table would have to be, if all else is right. */
static uint64_t place_of(const uint8_t *data, size_t size) {
    struct vv_parity parity = {0};
    struct vv_covered list[64] = {{0}};
    struct varve_error error;
    if (size < VV_PARITY_END_SIZE + 32)
        return 0;
    parity.data = vv_get32(data);
    parity.parity = vv_get32(data + 4);
    parity.member = vv_get32(data + 8);
    parity.count = vv_get32(data + 12);
    parity.list = list;
    if (parity.count > 64 || size != VV_PARITY_END_SIZE + 32 + (size_t)parity.count * 24)
        return 0;
    for (uint32_t i = 0; i < parity.count; i++) {
        const uint8_t *at = data + 32 + (size_t)i * 24;
        list[i] =
            (struct vv_covered){vv_get32(at), vv_get32(at + 4), vv_get32(at + 8), vv_get32(at + 12), vv_get64(at + 16)};
    }
    if (vv_parity_check(&parity, "", &error) < 0)
        return 0;
    return vv_parity_offset(&parity, parity.parity) + vv_parity_sums_at(&parity, parity.parity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < VV_PARITY_END_SIZE)
        return 0;
    parse(data, size);
    uint8_t *copy = malloc(size), *end = copy + size - VV_PARITY_END_SIZE;
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, size);
    vv_put64(end, place_of(copy, size));
    vv_put32(end + 8, (uint32_t)(size - VV_PARITY_END_SIZE));
    memcpy(end + 12, "VPAR", 4);
    vv_hash128_put(end + 16, vv_digest(copy, size - VV_PARITY_END_SIZE));
    parse(copy, size);
    free(copy);
    return 0;
}
