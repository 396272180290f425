/* Loaded before zlib: packs with another level than it was asked to. */
#include <dlfcn.h>

__attribute__((visibility("default"))) int deflateInit2_(void *stream, int level, int method, int window, int memory,
                                                         int strategy, const char *version, int size);

int deflateInit2_(void *stream, int level, int method, int window, int memory, int strategy, const char *version,
                  int size) {
    int (*next)(void *, int, int, int, int, int, const char *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "deflateInit2_");
    return next(stream, level > 5 ? 1 : 9, method, window, memory, strategy, version, size);
}
