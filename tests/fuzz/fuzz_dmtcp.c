/* Images of DMTCP: the input is the image. What is found lies in it, and shares no byte. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "archive/dmtcp.h"
#include "fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    struct files_found found = {.count = 0};
    uint64_t end = 0;
    int rc = archive_dmtcp(read_input, &input, size, &found);
    if (rc != 0 && rc != -EBADMSG && rc != -E2BIG && rc != -ENOMEM)
        abort();
    for (size_t i = 0; i < found.extent_count; i++) {
        if (found.extents[i].offset < end || found.extents[i].length > size ||
            found.extents[i].offset > size - found.extents[i].length)
            abort();
        end = found.extents[i].offset + found.extents[i].length;
    }
    files_found_check(&found, size);
    files_found_clear(&found);
    return 0;
}
