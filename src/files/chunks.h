/* A file in content-defined chunks, by reading all of it once. */
#ifndef FILES_CHUNKS_H
#define FILES_CHUNKS_H

#include "files/cut.h"
#include "files/plan.h"

/* Called now and then with the bytes read so far; anything but 0 ends it. */
typedef int (*files_step_fn)(void *arg, uint64_t done);

struct files_chunks {
    uint64_t *lengths; /* a chunk that ends at a granule and the one behind it count as one */
    size_t count, capacity;
};

/* Cut the file of the plan with this number, which is open as fd. 1: there would be more than `most`. Otherwise 0 or a
 * negative code, told in error unless the step has returned it. */
int files_chunks_find(const struct files_file *file, int fd, uint32_t target, size_t most, struct files_chunks *out,
                      files_step_fn step, void *arg, struct varve_error *error);
void files_chunks_clear(struct files_chunks *chunks);

#endif
