/* Addresses of stores: parsing any text fails or gives something that is within bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vv_uri uri;
    struct varve_error error = {0};
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    int result = vv_uri_parse(text, &uri, &error);
    if (result < 0 && (error.code != result || !error.text[0]))
        abort();
    if (result == 0 &&
        (strlen(uri.path) > VV_BACKEND_PATH_MAX || uri.retry > 1000 || (uri.kind == VV_URI_FILE && !uri.path[0]) ||
         (uri.kind == VV_URI_LOADED ? !uri.scheme[0] : uri.options[0].name != NULL) ||
         (uri.fault[0] && vv_fault_spec_check(uri.fault) < 0)))
        abort();
    free(text);
    return 0;
}
