/* The recipes of packed files: the input is the region. What is accepted becomes the same bytes again. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "archive/packed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct files_file list[] = {{.path = (char *)"a.tgz+unpacked"},
                                {.path = (char *)"b"},
                                {.path = (char *)"b+unpacked"}, /* the name is taken */
                                {.path = (char *)"c.zst+unpacked"}};
    struct files_list files = {.list = list, .count = sizeof list / sizeof list[0]};
    struct archive_packed packed;
    struct varve_error error = {.text = ""};
    uint8_t *again = NULL;
    size_t again_size = 0;
    int rc = archive_recipes_parse(data, size, &files, &packed, &error);
    if (rc != 0 && rc != VARVE_CORRUPT && rc != VARVE_UNKNOWN_FORMAT && rc != -ENOMEM)
        abort();
    if (rc == 0) {
        for (size_t i = 0; i < packed.count; i++)
            if (packed.list[i].file != 0 && packed.list[i].file != 3)
                abort();
        if (archive_recipes_encode(&packed, &again, &again_size) == 0 &&
            (again_size != size || memcmp(again, data, size) != 0))
            abort();
    } else if (!error.text[0]) {
        abort();
    }
    free(again);
    archive_packed_clear(&packed);
    return 0;
}
