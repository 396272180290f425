/* An input is a manifest section. What is read is written again and must give the same bytes. */
#include "fuzz.h"

#define DEPENDENCIES 5

struct source {
    const uint8_t *data;
    size_t size;
    size_t piece;
};

static int64_t fill(void *arg, uint64_t offset, void *data, size_t size) {
    const struct source *source = arg;
    FUZZ_CHECK(offset <= source->size);
    if (size > source->size - offset)
        size = source->size - offset;
    if (size > source->piece)
        size = source->piece;
    memcpy(data, source->data + offset, size);
    return (int64_t)size;
}

/* Copy the runs of one region. */
static int copy_runs(struct vv_manifest_reader *reader, struct vv_manifest_writer *writer) {
    struct varve_error error;
    struct vv_run run;
    struct vv_hash128 digest;
    uint64_t offset = 0;
    int rc;
    while ((rc = vv_manifest_next_run(reader, &run, &digest, &error)) > 0) {
        FUZZ_CHECK(run.offset == offset && run.length >= 1 && run.place_count <= VV_PLACES_MAX);
        for (uint32_t i = 0; i < run.place_count; i++)
            FUZZ_CHECK(run.places[i].dependency <= DEPENDENCIES && run.places[i].address <= VV_ADDRESS_END);
        offset += run.length;
        vv_manifest_run(writer, &run);
    }
    if (rc == 0)
        vv_manifest_region_end(writer, digest);
    return rc;
}

static int copy_regions(struct vv_manifest_reader *reader, struct vv_manifest_writer *writer) {
    struct varve_error error;
    struct vv_region_entry entry;
    int rc;
    while ((rc = vv_manifest_next_region(reader, &entry, &error)) > 0) {
        uint64_t address = entry.address;
        if (entry.flags == 0) {
            address = (vv_manifest_head(reader)->layout_bytes - entry.length) & ~(uint64_t)(VV_GRANULE - 1);
            vv_manifest_set_address(reader, address);
        }
        vv_manifest_region(writer, &entry, address);
        if (!(entry.flags & VV_REGION_REMOVED) && (rc = copy_runs(reader, writer)) < 0)
            break;
    }
    return rc;
}

static int skip_regions(struct source *source, uint32_t owner) {
    struct varve_error error;
    struct vv_region_entry entry;
    struct vv_manifest_reader *reader = NULL;
    int rc = vv_manifest_open(fill, source, source->size, owner, DEPENDENCIES, &reader, &error);
    while (rc >= 0 && (rc = vv_manifest_next_region(reader, &entry, &error)) > 0)
        ;
    vv_manifest_close(reader);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct source source = {data, size, SIZE_MAX};
    struct vv_manifest_reader *reader = NULL;
    struct vv_manifest_writer writer;
    struct varve_error error;
    struct vv_buf again;
    uint32_t owner = size >= 4 ? vv_get32(data) : 0;
    if (vv_manifest_open(fill, &source, size, owner, DEPENDENCIES, &reader, &error) < 0)
        return 0;
    vv_buf_init(&again);
    vv_manifest_head_encode(&again, vv_manifest_head(reader));
    vv_manifest_begin(&writer, &again, owner);
    int rc = copy_regions(reader, &writer);
    FUZZ_CHECK(rc == 0 || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT);
    if (rc == 0) {
        FUZZ_CHECK(again.size == size && memcmp(again.data, data, size) == 0);
        source.piece = 13;
        FUZZ_CHECK(skip_regions(&source, owner) == 0);
    }
    vv_buf_clear(&again);
    vv_manifest_close(reader);
    return 0;
}
