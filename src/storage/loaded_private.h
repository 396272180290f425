/* Backends in libraries of their own. */
#ifndef VV_LOADED_PRIVATE_H
#define VV_LOADED_PRIVATE_H

#include "storage/storage.h"

/* Load libvarve_SCHEME.so, and let it open what the address names. */
int vv_loaded_open(const struct vv_uri *uri, const struct vv_backend_options *options, struct varve_backend **out,
                   struct varve_error *error);

#endif
