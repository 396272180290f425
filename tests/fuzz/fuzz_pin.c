#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_pin pin;
    int rc = vv_pin_parse(data, size, key, NULL, &pin, &error);
    if (rc < 0)
        return rc;
    vv_pin_encode(again, key, data + 32, &pin);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_PIN, data, size, parse);
}
