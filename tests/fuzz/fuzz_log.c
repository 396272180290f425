#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    const char *text;
    size_t length;
    int rc = vv_job_log_parse(data, size, key, NULL, &text, &length, &error);
    if (rc < 0)
        return rc;
    vv_job_log_encode(again, key, data + 32, text, length);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_LOG, data, size, parse);
}
