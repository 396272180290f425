/* Is a checkpoint whole? All of it is read, every byte checked, and thrown away. */
#ifndef FILES_WHOLE_H
#define FILES_WHOLE_H

#include <varve/varve_inspect.h>

/* 0 or a negative code, told in error: VARVE_CORRUPT when something is damaged, -EINTR when it was stopped. */
int whole_check(struct varve_store *store, const struct varve_which *which, varve_progress_fn progress,
                struct varve_error *error);

#endif
