#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef VARVE_FAULTS
#include <pthread.h>
#include <stdatomic.h>

static atomic_uint_fast64_t alloc_count;
static atomic_uint_fast64_t alloc_fail_at;
static pthread_once_t alloc_once = PTHREAD_ONCE_INIT;

static void read_environment(void) {
    const char *text = secure_getenv("VARVE_FAIL_ALLOC");
    if (text) {
        atomic_store(&alloc_fail_at, strtoull(text, NULL, 10));
    }
}

static int is_refused(void) {
    pthread_once(&alloc_once, read_environment);
    uint64_t count = atomic_fetch_add(&alloc_count, 1) + 1;
    if (count != atomic_load(&alloc_fail_at)) {
        return 0;
    }
    errno = ENOMEM;
    return 1;
}

void vv_alloc_fail_at(uint64_t k) {
    pthread_once(&alloc_once, read_environment);
    atomic_store(&alloc_fail_at, 0);
    atomic_store(&alloc_count, 0);
    atomic_store(&alloc_fail_at, k);
}

uint64_t vv_alloc_count(void) {
    return atomic_load(&alloc_count);
}
#else
static int is_refused(void) {
    return 0;
}

void vv_alloc_fail_at(uint64_t k) {
    (void)k;
}

uint64_t vv_alloc_count(void) {
    return 0;
}
#endif

/* The C library may answer NULL or a pointer to a request for nothing; ours never does the former. */
static size_t at_least_one(size_t size) {
    return size ? size : 1;
}

void *vv_malloc(size_t size) {
    return is_refused() ? NULL : malloc(at_least_one(size));
}

void *vv_calloc(size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return is_refused() ? NULL : calloc(1, at_least_one(total));
}

void *vv_realloc(void *ptr, size_t size) {
    return is_refused() ? NULL : realloc(ptr, at_least_one(size));
}

void *vv_aligned(size_t size, size_t alignment) {
    void *ptr = NULL;
    if (is_refused()) {
        return NULL;
    }
    int rc = posix_memalign(&ptr, alignment, at_least_one(size));
    if (rc) {
        errno = rc;
        return NULL;
    }
    return ptr;
}

char *vv_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = vv_malloc(size);
    if (copy) {
        memcpy(copy, text, size);
    }
    return copy;
}

void vv_free(void *ptr) {
    free(ptr);
}

void *vv_pages_map(size_t size) {
    if (is_refused()) {
        return NULL;
    }
    void *ptr =
        mmap(NULL, at_least_one(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return ptr == MAP_FAILED ? NULL : ptr;
}

void vv_pages_unmap(void *ptr, size_t size) {
    if (ptr) {
        munmap(ptr, at_least_one(size));
    }
}
