/* `varve top`: what a running job does, again each second. */
#ifndef REPORT_TOP_H
#define REPORT_TOP_H

#include "terminal/cli.h"

int report_top(struct cli *cli, const char *name);

#endif
