/* Files in content-defined chunks (cut.h). */
#ifndef FILES_CHUNKS_H
#define FILES_CHUNKS_H

#include "files/plan.h"

/* Called now and then with the bytes read so far; anything but 0 ends it. */
typedef int (*files_step_fn)(void *arg, uint64_t done);

/* The next file of the plan, which has no variables and is open as fd: read all of it, and add it in chunks of `target`
 * bytes on average. 1: there are too many chunks already, and nothing was added. Otherwise 0 or a negative code, told
 * in error unless the step has returned it. */
int files_add_chunks(struct files_plan *plan, uint32_t file, int fd, uint32_t target, files_step_fn step, void *arg,
                     struct varve_error *error);

#endif
