/* A library that fixed-odd is linked with: it has a variable that the program also sees, and memory of its own. */
#include <stdlib.h>

#ifdef FIXED_OTHER
const char fixed_other[] = "another build of the same library";
#endif

#define EXPORT __attribute__((visibility("default")))

EXPORT int fixed_visits;
static int *kept;

EXPORT int fixed_library(int value);
int fixed_library(int value) {
    if (!kept)
        kept = calloc(1, sizeof *kept);
    if (kept)
        *kept += value;
    fixed_visits++;
    return kept ? *kept : -1;
}
