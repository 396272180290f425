#include "fuzz.h"

/* What a rank among many does: the beginning, and one page; no byte beyond what it was given is read. */
static void parse_parts(const uint8_t *data, size_t size, const struct vv_key *key, const struct vv_writers *whole) {
    struct vv_writer page[VV_WRITERS_PAGE];
    struct varve_error error;
    struct vv_writers_index index;
    uint64_t need = vv_writers_index_size(data, size);
    if (vv_writers_index_parse(data, need < size ? need : size, key, NULL, &index, &error) < 0) {
        FUZZ_CHECK(!whole);
        return;
    }
    for (uint32_t i = 0; index.pages && i < vv_writers_pages(index.count); i++) {
        size_t length;
        uint64_t at = vv_writers_page_at(index.count, i, &length);
        if (at + length > size || vv_writers_page_parse(&index, i, data + at, length, key, page, &error) < 0)
            FUZZ_CHECK(!whole);
        else if (whole)
            FUZZ_CHECK(memcmp(page, whole->list + (size_t)i * VV_WRITERS_PAGE, length / 64 * sizeof *page) == 0);
    }
    vv_writers_index_clear(&index);
}

static int parse(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again) {
    struct varve_error error;
    struct vv_writers writers;
    int rc = vv_writers_parse(data, size, key, NULL, &writers, &error);
    parse_parts(data, size, key, rc < 0 ? NULL : &writers);
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
