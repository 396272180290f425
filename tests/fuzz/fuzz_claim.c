#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_claim claim;
    int rc = vv_claim_parse(data, size, key, NULL, &claim, &error);
    if (rc == 0)
        vv_claim_encode(again, key, claim.store_id, &claim);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_CLAIM, data, size, parse);
}
