#include "files/chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/cut.h"

#define STRIDE (1u << 20)

struct chunks {
    uint64_t *lengths; /* a chunk that ends at a granule and the one behind it count as one */
    size_t count, capacity;
    size_t most;
};

/* Each chunk begins at a granule of its region. Where that is so anyway, as in zeros, one piece is enough for both. */
static int add_chunk(struct chunks *chunks, uint64_t length) {
    if (chunks->count && chunks->lengths[chunks->count - 1] % FILES_GRANULE == 0) {
        chunks->lengths[chunks->count - 1] += length;
        return 0;
    }
    if (chunks->count == chunks->most)
        return 1;
    int rc = files_grow((void **)&chunks->lengths, &chunks->capacity, chunks->count, sizeof *chunks->lengths);
    if (rc == 0)
        chunks->lengths[chunks->count++] = length;
    return rc;
}

/* The bytes of a stride, block by block. *begin is where the chunk begins, counted in the file. */
static int cut_stride(struct files_cut *cut, struct chunks *out, const uint8_t *data, size_t size, uint64_t offset,
                      uint64_t *begin) {
    int rc = 0;

    for (size_t at = 0; at < size && rc == 0; at += FILES_CUT_BLOCK) {
        uint32_t ends[FILES_CUTS_MOST];
        size_t part = size - at < FILES_CUT_BLOCK ? size - at : FILES_CUT_BLOCK;
        size_t count = files_cut_next(cut, data + at, part, ends);
        for (size_t i = 0; i < count && rc == 0; i++) {
            rc = add_chunk(out, offset + at + ends[i] - *begin);
            *begin = offset + at + ends[i];
        }
    }
    return rc;
}

static ssize_t read_stride(int fd, uint8_t *out, uint64_t offset, uint64_t size) {
    ssize_t got;

    do
        got = pread(fd, out, size < STRIDE ? (size_t)size : STRIDE, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got;
}

static int find_chunks(const struct files_file *file, int fd, uint32_t target, struct chunks *out, files_step_fn step,
                       void *arg, struct varve_error *error) {
    uint8_t *buffer = calloc(1, FILES_WINDOW + STRIDE), *data = buffer + FILES_WINDOW;
    uint64_t at = 0, begin = 0;
    struct files_cut cut;
    int rc = buffer ? 0 : -ENOMEM;

    files_cut_init(&cut, target);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    while (rc == 0 && at < file->size) {
        ssize_t got = read_stride(fd, data, at, file->size - at);
        if (got < 0)
            rc = files_system_error(error, "read", file->path);
        else if (got == 0)
            rc = files_changed(error, file->path);
        else
            rc = cut_stride(&cut, out, data, (size_t)got, at, &begin);
        if (rc == 0) {
            memmove(buffer, data + got - FILES_WINDOW, FILES_WINDOW); /* of a short stride, with what was before it */
            at += (uint64_t)got;
            rc = step ? step(arg, at) : 0;
        }
    }
    if (rc == 0 && at > begin)
        rc = add_chunk(out, at - begin);
    free(buffer);
    return rc;
}

int files_add_chunks(struct files_plan *plan, uint32_t file, int fd, uint32_t target, files_step_fn step, void *arg,
                     struct varve_error *error) {
    struct chunks chunks = {.most = files_plan_chunks_most(plan, file)};

    int rc = find_chunks(&plan->files.list[file], fd, target, &chunks, step, arg, error);
    rc = rc ? rc : files_plan_add_chunks(plan, file, chunks.lengths, chunks.count);
    free(chunks.lengths);
    return rc == -ENOMEM ? files_error(error, rc, "no memory for the chunks of %s", plan->files.list[file].path) : rc;
}
