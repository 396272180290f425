/* Answers of an S3 server: any bytes are refused, or give leaves whose paths and values lie within the document. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "s3_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    size_t leaves;
    size_t bytes;
};

static int take_leaf(void *arg, const char *path, const char *value) {
    struct seen *seen = arg;
    size_t length = strlen(path);
    if (length == 0 || length >= 256 || path[0] == '/' || path[length - 1] == '/')
        abort();
    seen->leaves++;
    seen->bytes += value ? strlen(value) : 0;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct seen seen = {0};
    char *copy = malloc(size ? size : 1); /* of the exact size: a byte too far is found */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    int rc = vv_s3_xml_walk(copy, size, take_leaf, &seen);
    if (rc != 0 && rc != -EPROTO && rc != -ENOMEM)
        abort();
    if (seen.bytes > size || seen.leaves > size || (rc == 0 && seen.leaves == 0))
        abort();
    free(copy);
    return 0;
}
