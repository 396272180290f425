/* Which regions hold the same variable: those whose names are equal, or in which a pattern finds the same text. */
#ifndef VV_MATCH_H
#define VV_MATCH_H

#include <stdint.h>

#include <varve/varve_error.h>

struct vv_match;

/* pattern: an extended regular expression (POSIX); "" : whole names. Not valid, or nothing that a name should cost:
 * -EINVAL, and error says what is wrong. */
int vv_match_open(const char *pattern, struct vv_match **out, struct varve_error *error);
void vv_match_close(struct vv_match *match); /* accepts NULL */
/* A number that is the same for names that match: of what the first group in parentheses has found, or of all that was
 * found where there is no group or it had no part in it, or of the whole name where nothing was found. Any thread. */
uint64_t vv_match_name(const struct vv_match *match, const char *name);

#endif
