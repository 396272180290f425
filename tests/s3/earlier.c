/* A libvarve_s3 from before the parameters of an address came as pairs. It must never be called. */
#include <errno.h>
#include <varve/varve_backend.h>

VARVE_API int varve_backend_open_s3(const struct varve_backend_request *request, struct varve_backend **out,
                                    struct varve_error *error);

int varve_backend_open_s3(const struct varve_backend_request *request, struct varve_backend **out,
                          struct varve_error *error) {
    (void)request, (void)error;
    *out = NULL;
    return -EIO;
}
