#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_record record;
    int rc = vv_record_parse(data, size, key, NULL, &record, &error);
    if (rc < 0)
        return rc;
    vv_record_encode(again, key, record.store_id, &record);
    vv_record_clear(&record);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_RECORD, data, size, parse);
}
