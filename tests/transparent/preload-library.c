/* A library that a program opens when it runs. */
#include <stdlib.h>

void *odd_make(size_t size);
__attribute__((visibility("default"))) void *odd_make(size_t size) {
    char *ptr = malloc(size);
    if (ptr)
        ptr[0] = 1; /* or the call would be a jump, and its caller the one who allocates */
    return ptr;
}
