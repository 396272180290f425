/* A library that a program opens when it runs. */
#include <stdlib.h>

void *odd_make(size_t size);
__attribute__((visibility("default"))) void *odd_make(size_t size) {
    char *ptr = malloc(size);
    if (ptr)
        ptr[0] = 1; /* or the call would be a jump, and its caller the one who allocates */
    return ptr;
}

static __thread int seen; /* the loader makes it when it is first used */

int odd_seen(void);
__attribute__((visibility("default"))) int odd_seen(void) {
    return ++seen;
}

__attribute__((visibility("default"))) void *odd_fields[2]; /* pointers of the program */
