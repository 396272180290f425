#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_beat beat;
    int rc = vv_beat_parse(data, size, key, NULL, &beat, &error);
    if (rc == 0)
        vv_beat_encode(again, key, data + 32, &beat);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_BEAT, data, size, parse);
}
