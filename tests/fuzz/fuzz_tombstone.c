#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_tombstone tombstone;
    int rc = vv_tombstone_parse(data, size, key, NULL, &tombstone, &error);
    if (rc == 0)
        vv_tombstone_encode(again, key, data + 32, &tombstone);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_PACK, data, size, parse);
}
