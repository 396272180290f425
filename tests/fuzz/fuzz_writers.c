#include "fuzz.h"

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_writers writers;
    int rc = vv_writers_parse(data, size, key, NULL, &writers, &error);
    if (rc < 0)
        return rc;
    vv_writers_encode(again, key, data + 32, &writers, NULL);
    for (uint32_t i = 0; i < writers.count; i++)
        if (writers.list[i].owners > 0)
            FUZZ_CHECK(vv_writers_home(&writers, writers.list[i].first_owner) == i);
    vv_writers_clear(&writers);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_small(VV_KIND_WRITERS, data, size, parse);
}
