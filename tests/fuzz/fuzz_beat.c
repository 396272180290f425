#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_heartbeat heartbeat;
    int rc = vv_heartbeat_parse(data, size, key, NULL, &heartbeat, &error);
    if (rc == 0)
        vv_heartbeat_encode(again, key, data + 32, &heartbeat);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_HEARTBEAT, data, size, parse);
}
