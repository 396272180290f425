/* Compressed files: the input is the file. What is read fits where it is put, and it ends. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "archive/stream.h"

#define CONTENT_MOST (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(struct archive_stream *stream, struct archive_recipe *recipe) {
    uint8_t *out = malloc(4096); /* a checker sees what is written behind it */
    uint64_t total = 0;
    int64_t got = out ? 1 : 0;
    while (got > 0 && total < CONTENT_MOST) {
        got = archive_stream_read(stream, out, 4096);
        total += got > 0 ? (uint64_t)got : 0;
        if (got > 4096 || (got < 0 && got != -EBADMSG && got != -ENOMEM))
            abort();
    }
    free(out);
    int rc = got == 0 && total ? archive_stream_end(stream, recipe) : 0;
    if (rc != 0 && rc != -EBADMSG && rc != -ENOMEM)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct archive_stream *stream = NULL;
    struct archive_recipe recipe = {.head = NULL};
    int fd = memfd_create("stream", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, data, size) == (ssize_t)size && archive_stream_open(fd, size, &stream, &recipe) > 0) {
        if (recipe.head_size > size || (recipe.packer != ARCHIVE_GZIP && recipe.packer != ARCHIVE_ZSTD))
            abort();
        read_all(stream, &recipe);
        archive_stream_close(stream);
        if (recipe.head_size + recipe.tail_size > size)
            abort();
    }
    archive_recipe_clear(&recipe);
    if (fd >= 0)
        close(fd);
    return 0;
}
