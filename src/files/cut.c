#include "files/cut.h"

#include <assert.h>

/* Behind the minimum, half the target, a cut comes after another half of the target on average. */
void files_cut_init(struct files_cut *cut, uint32_t target) {
    assert(target >= 512 && target <= 32768 && (target & (target - 1)) == 0);
    *cut = (struct files_cut){.minimum = target / 2, .maximum = 4 * target};
    cut->mask = (uint16_t)(0x10000u - 0x10000u / (target / 2));
}

size_t files_cut_next(struct files_cut *cut, const uint8_t *data, size_t size, uint32_t ends[FILES_CUTS_MOST]) {
    uint16_t found[FILES_CUT_BLOCK];
    /* A chunk is at least as long as a window and the minimum is not looked at: half of all bytes. */
    size_t skip = cut->minimum > cut->length + 1 ? cut->minimum - cut->length - 1 : 0;
    size_t found_count = skip < size ? files_cut_scan(data + skip, size - skip, cut->mask, found) : 0;
    int64_t begin = -(int64_t)cut->length; /* of the chunk, counted from data */
    size_t next = 0, count = 0;

    for (;;) {
        int64_t end = begin + cut->maximum;
        while (next < found_count && (int64_t)(skip + found[next]) < begin + cut->minimum)
            next++;
        if (next < found_count && (int64_t)(skip + found[next]) < end)
            end = (int64_t)(skip + found[next]);
        if (end > (int64_t)size)
            break;
        ends[count++] = (uint32_t)end;
        begin = end;
    }
    cut->length = (uint32_t)((int64_t)size - begin);
    return count;
}
