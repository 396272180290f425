/* Pins: checkpoints that nobody forgets. */
#include "inspect/inspect_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lifecycle/pin.h"

static int find(struct varve_store *store, const struct varve_which *which, struct varve_which *found,
                struct vv_attempt *at, struct varve_error *error) {
    vv_error_clear(error);
    if (!store || !which || !which->name)
        return vv_error(error, -EINVAL, "a store and the name of a checkpoint are needed");
    *found = *which;
    int rc = varve_store_resolve(store, found, error);
    *at = (struct vv_attempt){.generation = found->generation, .version = (uint64_t)found->version};
    return rc;
}

static int default_text(struct varve_error *error, int rc, const char *what, const struct varve_which *which) {
    return vv_error_default(error, rc, "cannot %s %s@%" PRId64 " of generation %" PRIu32 ": %s", what, which->name,
                            which->version, which->generation, varve_error_text(rc));
}

int varve_store_pin(struct varve_store *store, const struct varve_which *which, const char *reason,
                    struct varve_error *error) {
    struct vv_pin pin = {0};
    struct varve_which found;
    struct vv_attempt at;

    if (reason && strlen(reason) >= sizeof pin.reason)
        return vv_error(error, -EINVAL, "a reason has at most %zu bytes", sizeof pin.reason - 1);
    int rc = find(store, which, &found, &at, error);
    if (rc < 0)
        return rc;
    snprintf(pin.reason, sizeof pin.reason, "%s", reason ? reason : "");
    rc = vv_pin_set(store->store, found.name, &at, &pin, error);
    return rc < 0 ? default_text(error, rc, "pin", &found) : rc;
}

int varve_store_unpin(struct varve_store *store, const struct varve_which *which, struct varve_error *error) {
    struct varve_which found;
    struct vv_attempt at;

    int rc = find(store, which, &found, &at, error);
    if (rc < 0)
        return rc;
    rc = vv_pin_unset(store->store, found.name, &at, error);
    return rc < 0 ? default_text(error, rc, "unpin", &found) : 0;
}

int varve_store_pinned(struct varve_store *store, const struct varve_which *which, struct varve_pin *out,
                       struct varve_error *error) {
    struct varve_which found;
    struct vv_attempt at;
    struct vv_pin pin;

    if (!out || out->size > sizeof *out || out->size < sizeof out->size)
        return vv_error(error, -EINVAL, "the size of struct varve_pin must be set, to what this library knows");
    int rc = find(store, which, &found, &at, error);
    if (rc == 0)
        rc = vv_pin_look(store->store, found.name, &at, &pin, error);
    if (rc != VV_PIN_HELD)
        return rc < 0 ? default_text(error, rc, "look at the pin of", &found) : 0;
    struct varve_pin given = {.size = out->size, .time_ns = pin.time_ns};
    snprintf(given.host, sizeof given.host, "%s", pin.host);
    snprintf(given.reason, sizeof given.reason, "%s", pin.reason);
    memcpy(out, &given, out->size);
    return 1;
}
