/* What criu asks for: the input is a request, the message that is behind its length. A name that is taken lies in the
 * request, can be a file in a folder, and is taken again from a request that has nothing else. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "process/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *name, size_t length) {
    uint8_t request[PROCESS_NAME_MOST + 3] = {1 << 3 | 2};
    size_t head = length < 128 ? 2 : 3, again_length;
    const char *again;

    request[1] = length < 128 ? (uint8_t)length : (uint8_t)(length & 127) | 128;
    request[2] = (uint8_t)(length >> 7); /* a short name is written over it */
    memcpy(request + head, name, length);
    if (process_request_name(request, head + length, &again, &again_length) < 0 || again_length != length ||
        memcmp(again, name, length) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *name = NULL, *first = (const char *)data;
    size_t length = 0;
    int rc = process_request_name(data, size, &name, &length);

    if (rc < 0) {
        if (rc != -EPROTO || name || length)
            abort();
        return 0;
    }
    if (name < first || length > size || (size_t)(name - first) > size - length)
        abort();
    if (length == 0 || length > PROCESS_NAME_MOST || name[0] == '.' || memchr(name, '/', length) ||
        memchr(name, 0, length))
        abort();
    check(name, length);
    return 0;
}
