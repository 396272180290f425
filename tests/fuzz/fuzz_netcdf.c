/* Classic netCDF files: the input is the file. What is found, once checked, lies in the file and shares no byte. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "files/netcdf.h"
#include "fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct files_found *found, size_t size) {
    uint8_t *taken = calloc(size + 1, 1);
    if (!taken)
        return;
    for (size_t i = 0; i < found->count; i++)
        for (size_t j = 0; j < found->variables[i].count; j++) {
            const struct files_extent *extent = &found->extents[found->variables[i].first + j];
            for (uint64_t k = 0; k < extent->length; k++)
                if (extent->offset + k >= size || taken[extent->offset + k]++)
                    abort();
        }
    free(taken);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    struct files_found found = {.count = 0};
    int rc = files_netcdf(read_input, &input, size, &found);
    if (rc != 0 && rc != -EBADMSG && rc != -E2BIG && rc != -ENOMEM)
        abort();
    files_found_check(&found, size);
    check(&found, size);
    files_found_clear(&found);
    return 0;
}
