#ifndef CLI_EXPORT_ARRAYS_H
#define CLI_EXPORT_ARRAYS_H

#include "terminal/cli.h"

/* varve export --arrays FILE: the exit code. */
int export_arrays(struct cli *cli, struct varve_which *which);

#endif
