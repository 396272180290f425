/* cut-lengths FILE TARGET STEP: the lengths of the content-defined chunks of a file, one on each line. The bytes are
 * given to the cutter STEP at a time. */
#include <stdio.h>
#include <stdlib.h>

#include "files/cut.h"

int main(int argc, char **argv) {
    FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;
    size_t step = argc == 4 ? strtoul(argv[3], NULL, 10) : 0, size = 0;
    if (!file || step == 0 || step > FILES_CUT_BLOCK)
        return 2;
    uint8_t *buffer = calloc(1, (64u << 20) + FILES_WINDOW), *data = buffer + FILES_WINDOW;
    struct files_cut cut;
    uint64_t begin = 0;
    if (!buffer)
        return 2;
    files_cut_init(&cut, (uint32_t)strtoul(argv[2], NULL, 10));
    size = fread(data, 1, 64u << 20, file);
    for (size_t at = 0; at < size; at += step) {
        uint32_t ends[FILES_CUTS_MOST];
        size_t count = files_cut_next(&cut, data + at, size - at < step ? size - at : step, ends);
        for (size_t i = 0; i < count; i++) {
            printf("%llu\n", (unsigned long long)(at + ends[i] - begin));
            begin = at + ends[i];
        }
    }
    if (size > begin)
        printf("%llu\n", (unsigned long long)(size - begin));
    free(buffer);
    return fclose(file) == 0 ? 0 : 2;
}
