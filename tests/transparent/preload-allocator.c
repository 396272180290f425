/* An allocator of somebody else, as a library or as part of a program. */
#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *ptr);
void *malloc(size_t size);
void free(void *ptr);

__attribute__((visibility("default"))) void *malloc(size_t size) {
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void free(void *ptr) {
    __libc_free(ptr);
}
