/* The key of an encrypted store: looked at, and changed. */
#include <errno.h>

#include "base/error.h"
#include "inspect/inspect_private.h"

int varve_store_key_check(struct varve_store *store, struct varve_error *error) {
    vv_error_clear(error);
    if (!store)
        return vv_error(error, -EINVAL, "varve_store_key_check needs a store");
    const char *bad = NULL;
    int rc = vv_keys_check(store->store->backend, store->settings.key, &bad, error);
    return vv_error_store(error, rc, store->address);
}

int varve_store_key_change(struct varve_store *store, const char *new_key, struct varve_error *error) {
    vv_error_clear(error);
    if (!store || !new_key)
        return vv_error(error, -EINVAL, "varve_store_key_change needs a store and where the new key comes from");
    int rc = vv_keys_change(store->store->backend, store->settings.key, new_key, error);
    return vv_error_store(error, rc, store->address);
}
