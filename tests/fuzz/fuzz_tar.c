/* Tar archives: the input is the archive. The members lie in it, and those that are told share no byte. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "archive/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
};

static int read_at(void *arg, uint64_t offset, void *buffer, size_t size) {
    const struct input *input = arg;
    if (offset > input->size || size > input->size - offset)
        abort();
    memcpy(buffer, input->data + offset, size);
    return 0;
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
