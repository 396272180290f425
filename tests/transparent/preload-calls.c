/* A part of libvarve by its name. It calls a library that allocates, as libvarve_s3 calls libcurl. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *odd_make(size_t size);
__attribute__((visibility("default"))) void *odd_make(size_t size) {
    void *(*make)(size_t);
    const char *path = getenv("CALLED");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library ? dlsym(library, "odd_make") : NULL;
    if (!symbol)
        return NULL;
    memcpy(&make, &symbol, sizeof make);
    char *ptr = make(size);
    if (ptr)
        ptr[0] = 1; /* or the call would be a jump */
    return ptr;
}
