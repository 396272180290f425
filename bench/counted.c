/* Backends as they are opened and closed. */
#include "counted.h"

#include <pthread.h>

#include "storage/storage.h"

#define OPEN_MAX 64

int __real_vv_backend_open(const char *uri, const struct vv_backend_options *options, struct varve_backend **out,
                           struct varve_error *error);
void __real_vv_backend_close(struct varve_backend *backend);
int __wrap_vv_backend_open(const char *uri, const struct vv_backend_options *options, struct varve_backend **out,
                           struct varve_error *error);
void __wrap_vv_backend_close(struct varve_backend *backend);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct varve_backend *opened[OPEN_MAX];
static uint64_t closed_read, base_read; /* of those that are closed; and before the last reset */

static uint64_t read_of(struct varve_backend *backend) {
    struct vv_backend_counts counts;
    return backend && vv_count_get(backend, &counts) == 0 ? counts.bytes_read : 0;
}

int __wrap_vv_backend_open(const char *uri, const struct vv_backend_options *options, struct varve_backend **out,
                           struct varve_error *error) {
    int rc = __real_vv_backend_open(uri, options, out, error);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < OPEN_MAX && rc == 0; i++)
        if (!opened[i]) {
            opened[i] = *out;
            break;
        }
    pthread_mutex_unlock(&lock);
    return rc;
}

void __wrap_vv_backend_close(struct varve_backend *backend) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < OPEN_MAX && backend; i++)
        if (opened[i] == backend) {
            closed_read += read_of(backend);
            opened[i] = NULL;
        }
    pthread_mutex_unlock(&lock);
    __real_vv_backend_close(backend);
}

static uint64_t sum(void) {
    uint64_t bytes = closed_read;
    for (size_t i = 0; i < OPEN_MAX; i++)
        bytes += read_of(opened[i]);
    return bytes;
}

void counted_reset(void) {
    pthread_mutex_lock(&lock);
    base_read = sum();
    pthread_mutex_unlock(&lock);
}

uint64_t counted_read(void) {
    pthread_mutex_lock(&lock);
    uint64_t bytes = sum() - base_read;
    pthread_mutex_unlock(&lock);
    return bytes;
}
