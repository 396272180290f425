/* Common to the fuzz targets of the format. An input is parsed as it is, and once more with its sums and digests made
 * right, so that the fields behind them are really read. What a parser accepts, the encoder must give back. */
#ifndef FUZZ_H
#define FUZZ_H

#include "../format/reseal.h"
#include "../format/samples.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

/* Parse bytes of a small object; on success encode it again into `again`. */
typedef int (*fuzz_again_fn)(const uint8_t *data, size_t size, const struct vv_key *key, struct vv_buf *again);

/* The key under which these bytes would stand, with the samples' name. */
static inline struct vv_key fuzz_key(int kind, const uint8_t *data, size_t size) {
    struct vv_key key = sample_key(kind);
    if (size < VV_HEAD_SIZE)
        return key;
    key.generation = vv_get32(data + 48) ? vv_get32(data + 48) : 1;
    key.attempt = vv_get32(data + 52);
    key.version = vv_get64(data + 56) & INT64_MAX;
    key.writer = vv_get32(data + 64);
    key.part = vv_get32(data + 68);
    return key;
}

static inline void fuzz_once(int kind, const uint8_t *data, size_t size, fuzz_again_fn fn) {
    struct vv_key key = fuzz_key(kind, data, size);
    struct vv_buf again;
    vv_buf_init(&again);
    int rc = fn(data, size, &key, &again);
    FUZZ_CHECK(rc == 0 || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT || rc == VARVE_FORGOTTEN ||
               (rc == VARVE_KEY && vv_get16(data + 10) == VV_KIND_SEALED));
    /* Optional features are not kept, and long texts are cut; all else is. */
    if (rc == 0 && vv_get64(data + 24) == 0 && again.size == size)
        FUZZ_CHECK(memcmp(again.data, data, size) == 0);
    vv_buf_clear(&again);
}

static inline int fuzz_small(int kind, const uint8_t *data, size_t size, fuzz_again_fn fn) {
    static const uint8_t magic[8] = {0x89, 0x56, 0x61, 0x72, 0x76, 0x65, 0x0D, 0x0A};
    struct vv_key key = sample_key(kind);
    uint8_t *copy = malloc(size ? size : 1);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, size);
    fuzz_once(kind, copy, size, fn);
    if (size >= VV_HEAD_SIZE) {
        memcpy(copy, magic, sizeof magic);
        vv_put64(copy + 72, kind == VV_KIND_STORE ? 0 : vv_sum64(key.name, strlen(key.name)));
    }
    reseal_small(copy, size);
    fuzz_once(kind, copy, size, fn);
    free(copy);
    return 0;
}

#endif
