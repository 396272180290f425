/* Asking a running session for a checkpoint. */
#include "inspect/inspect_private.h"

#include <errno.h>

#include "base/error.h"
#include "lifecycle/trigger.h"

int varve_store_trigger(struct varve_store *store, const char *name, unsigned flags, struct varve_error *error) {
    vv_error_clear(error);
    if (!store || !name)
        return vv_error(error, -EINVAL, "a store and a name are needed");
    if (vv_name_check(name) < 0 || (flags & ~VARVE_TRIGGER_EXIT))
        return vv_error(error, -EINVAL, "a name has 1 to %d bytes, and the flags are 0 or VARVE_TRIGGER_EXIT",
                        VV_NAME_MAX);
    int rc = vv_trigger_ask(store->store, name, flags ? VV_TRIGGER_EXIT : VV_TRIGGER_CHECKPOINT, error);
    return rc < 0 ? vv_error_default(error, rc, "%s cannot be asked: %s", name, varve_error_text(rc)) : rc;
}
