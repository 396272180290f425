#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_catalogue catalogue;
    int rc = vv_catalogue_parse(data, size, key, NULL, &catalogue, &error);
    if (rc < 0)
        return rc;
    vv_catalogue_encode(again, key, data + 32, &catalogue);
    vv_catalogue_clear(&catalogue);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_CATALOGUE, data, size, parse);
}
