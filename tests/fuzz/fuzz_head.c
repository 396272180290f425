#include "fuzz.h"

/* Tombstones lie under the keys of records, and what is encrypted under all keys. */
static int has_no_key(int kind) {
    return kind == VV_KIND_TOMBSTONE || kind == VV_KIND_SEALED;
}

static void parse(const uint8_t *data, size_t size) {
    for (int kind = VV_KIND_STORE; kind <= VV_KIND_LAST; kind++) {
        struct vv_key key = fuzz_key(kind, data, size);
        struct varve_error error;
        struct vv_head head;
        struct vv_buf again;
        if (has_no_key(kind) || vv_head_parse(data, size, &key, NULL, &head, &error) < 0)
            continue;
        FUZZ_CHECK(head.format == VV_FORMAT_VERSION);
        if (has_no_key(head.kind) || head.optional != 0)
            continue;
        vv_buf_init(&again);
        vv_head_encode(&again, &key, head.store_id, head.required);
        FUZZ_CHECK(memcmp(again.data, data, VV_HEAD_SIZE) == 0);
        vv_buf_clear(&again);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vv_key key = sample_key(VV_KIND_CLAIM);
    parse(data, size);
    if (size < VV_HEAD_SIZE)
        return 0;
    uint8_t copy[VV_HEAD_SIZE];
    memcpy(copy, data, sizeof copy);
    vv_put64(copy + 72, vv_sum64(key.name, strlen(key.name)));
    reseal_head(copy, sizeof copy);
    parse(copy, sizeof copy);
    return 0;
}
