/* How `varve analyze` tells what it found: a table, JSON lines, and a page. */
#ifndef ANALYZE_REPORT_H
#define ANALYZE_REPORT_H

#include "analyze/analyze.h"
#include "terminal/cli.h"

/* 0 or a negative code, told in error. */
int report_analyzed(struct cli *cli, const struct analyze *analyze, struct varve_error *error);

#endif
