/* Tar archives: the input is the archive, and the sums of headers are made right. The members lie in it, and those that
 * are told share no byte. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "archive/tar.h"
#include "fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Else nearly all that a fuzzer thinks of would be refused for its sum. */
static void set_sum(uint8_t block[ARCHIVE_BLOCK]) {
    unsigned sum = 0;
    memset(block + 148, ' ', 8);
    for (unsigned i = 0; i < ARCHIVE_BLOCK; i++)
        sum += block[i];
    for (unsigned i = 0; i < 6; i++)
        block[148 + i] = (uint8_t)('0' + (sum >> 3 * (5 - i) & 7));
}

static int read_at(void *arg, uint64_t offset, void *buffer, size_t size) {
    int rc = read_input(arg, offset, buffer, size);
    if (size == ARCHIVE_BLOCK && memcmp((uint8_t *)buffer + 257, "ustar", 5) == 0)
        set_sum(buffer);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    struct archive_members members = {.count = 0};
    uint64_t end = 0; /* in the order of the archive */
    int rc = archive_tar(read_at, &input, 0, size, &members);
    if (rc != 0 && rc != -EBADMSG && rc != -E2BIG && rc != -ENOMEM)
        abort();
    for (size_t i = 0; i < members.count; i++) {
        const struct archive_member *member = &members.list[i];
        if (member->offset < end || member->size > size || member->offset > size - member->size || !member->name)
            abort();
        end = member->offset + member->size;
    }
    archive_members_clear(&members);
    return 0;
}
