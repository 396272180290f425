#ifndef CLI_SHOW_ARRAYS_H
#define CLI_SHOW_ARRAYS_H

#include "terminal/cli.h"

/* The arrays that the ranks hold together, as a table or in JSON. */
int show_arrays(const struct cli *cli, const struct varve_which *which, struct varve_error *error);

#endif
