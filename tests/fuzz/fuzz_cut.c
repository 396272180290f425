/* Content-defined chunks of any bytes, given in pieces of any sizes: vectors and the plain way find the same windows,
 * chunks have their sizes, and the pieces do not matter. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "files/cut.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES 20000 /* the input is repeated up to that, so that short ones have chunks, too */

static void check_scan(const uint8_t *data, size_t size, uint16_t mask) {
    uint16_t fast[FILES_CUT_BLOCK], plain[FILES_CUT_BLOCK];
    size = size < FILES_CUT_BLOCK ? size : FILES_CUT_BLOCK;
    size_t count = files_cut_scan(data, size, mask, fast);
    if (count != files_cut_scan_plain(data, size, mask, plain) || memcmp(fast, plain, count * sizeof *fast) != 0)
        abort();
}

/* Returns how many chunks end, and a number that tells where. */
static size_t cut_all(const uint8_t *data, size_t size, uint32_t target, size_t step, uint64_t *where) {
    struct files_cut cut;
    uint64_t begin = 0;
    size_t total = 0;
    files_cut_init(&cut, target);
    for (size_t at = 0; at < size; at += step) {
        uint32_t ends[FILES_CUTS_MOST];
        size_t part = size - at < step ? size - at : step;
        size_t count = files_cut_next(&cut, data + at, part, ends);
        for (size_t i = 0; i < count; i++) {
            uint64_t end = at + ends[i];
            if (ends[i] > part || end - begin < cut.minimum || end - begin > cut.maximum)
                abort();
            *where = *where * 31 + end;
            begin = end;
        }
        total += count;
    }
    if (cut.length != size - begin)
        abort();
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t targets[] = {512, 4096, 32768};
    if (size < 3)
        return 0;
    size_t step = 256 + (data[0] | (size_t)data[1] << 8) % (FILES_CUT_BLOCK - 255), all = BYTES;
    uint8_t *buffer = calloc(1, all + FILES_WINDOW), *copy = buffer + FILES_WINDOW;
    for (size_t i = 0; buffer && i < all; i++)
        copy[i] = data[2 + i % (size - 2)];
    for (size_t i = 0; buffer && i < 3; i++) {
        uint64_t one = 0, other = 0;
        check_scan(copy, all, (uint16_t)(0x10000u - 0x20000u / targets[i]));
        size_t count = cut_all(copy, all, targets[i], step, &one);
        if (count != cut_all(copy, all, targets[i], FILES_CUT_BLOCK, &other) || one != other)
            abort();
    }
    free(buffer);
    return 0;
}
