/* Which regions a restart is asked for. */
#include <string.h>

#include "format/attributes.h"
#include "restart/restart_private.h"

int vv_is_asked(const struct vv_restart_options *options, const char *name) {
    if (vv_is_about(name))
        return 0;
    if (!options->regions)
        return 1;
    for (size_t i = 0; i < options->region_count; i++)
        if (strcmp(options->regions[i], name) == 0)
            return 1;
    return 0;
}

int vv_check_asked(const struct vv_restart_options *options, const struct vv_regions *regions,
                   struct varve_error *error) {
    for (size_t i = 0; i < options->region_count; i++) {
        if (vv_is_ours(options->regions[i])) /* alone it would lack what checks pointers */
            return vv_error(
                error, VARVE_MISMATCH,
                "region %s cannot be asked for: the name is the library's. Name its memory (varve_protect), "
                "or restore all regions",
                options->regions[i]);
        if (!vv_regions_find(regions, options->regions[i]))
            return vv_error(
                error, VARVE_MISMATCH,
                "region %s is asked for but not protected: protect it first, or check its name; nothing was restored",
                options->regions[i]);
    }
    return 0;
}
