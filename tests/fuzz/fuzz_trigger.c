#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_trigger trigger;
    int rc = vv_trigger_parse(data, size, key, NULL, &trigger, &error);
    if (rc < 0)
        return rc;
    vv_trigger_encode(again, key, data + 32, &trigger);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_TRIGGER, data, size, parse);
}
