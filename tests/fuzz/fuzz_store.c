#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_store_object store;
    (void)key;
    int rc = vv_store_object_parse(data, size, &store, &error);
    if (rc == 0)
        vv_store_object_encode(again, &store);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_STORE, data, size, parse);
}
