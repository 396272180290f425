/* What sessions have left about their checkpoints. */
#include "inspect/inspect_private.h"

#include <errno.h>

#include "base/error.h"
#include "lifecycle/job_log.h"

struct handing {
    varve_job_log_fn fn;
    void *arg;
};

static int hand_over(void *arg, uint32_t generation, const char *text, size_t size, const struct varve_error *why) {
    const struct handing *handing = arg;
    struct varve_job_log log = {.size = sizeof log,
                                .generation = generation,
                                .text = text,
                                .length = text ? size : 0,
                                .reason = why ? why->text : NULL};
    return handing->fn(handing->arg, &log);
}

int varve_store_logs(struct varve_store *store, const char *name, varve_job_log_fn fn, void *arg,
                     struct varve_error *error) {
    struct handing handing = {fn, arg};
    vv_error_clear(error);
    if (!store || !name || !fn)
        return vv_error(error, -EINVAL, "a store, a name and a function are needed");
    if (vv_name_check(name) < 0)
        return vv_error(error, -EINVAL, "a name has 1 to %d bytes", VV_NAME_MAX);
    return vv_job_logs_each(store->store, name, hand_over, &handing, error);
}
