/* Do a verb again when it failed for a reason that may go away by itself (varve_backend.h lists them), with growing
 * pauses: 10 ms, 20 ms, 40 ms, ... at most 2 s, each shortened at random by up to half so that many ranks do not come
 * back together.
 *
 * Not repeated: upload_write, because an upload is useless after an error; and commit. A commit that failed may have
 * happened. Trying again could then report -EEXIST although the object is ours, and taking -EEXIST for success could
 * claim an object of somebody else. Only the caller can tell the two apart, by what the object says.
 *
 * A remove that is repeated and then finds nothing has succeeded: the object is gone, and probably by the first try. */
#include <errno.h>

#include "backend/backend_wrap_private.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"

#define PAUSE_FIRST_MS 10u
#define PAUSE_MAX_MS 2000u

struct retry {
    struct wrap wrap;
    unsigned retries;
    const struct vv_log *log;
};

static int is_transient(int64_t result) {
    return result == -EAGAIN || result == -EINTR || result == -ETIMEDOUT || result == -EBUSY || result == -ECONNRESET;
}

static void pause_before(unsigned tries) {
    uint32_t random = 0;
    unsigned ms = tries < 8 ? PAUSE_FIRST_MS << tries : PAUSE_MAX_MS;
    if (ms > PAUSE_MAX_MS)
        ms = PAUSE_MAX_MS;
    (void)vv_random(&random, sizeof(random));
    vv_sleep_ms(ms - random % (ms / 2 + 1));
}

static int64_t retry_leave(struct wrap *wrap, struct wrap_op *op, int64_t result) {
    struct retry *retry = (struct retry *)wrap;
    if (op->verb == VV_VERB_REMOVE && op->tries > 0 && result == -ENOENT)
        return 0;
    if (op->verb == VV_VERB_WRITE || op->verb == VV_VERB_COMMIT || op->verb == VV_VERB_ABORT || !is_transient(result) ||
        op->tries >= retry->retries)
        return result;
    vv_log(retry->log, VV_LOG_DEBUG, "%s %s: trying again: %s", vv_backend_name(wrap->inner), op->key ? op->key : "",
           varve_error_text((int)result));
    pause_before(op->tries++);
    return WRAP_AGAIN;
}

static const struct wrap_hooks retry_hooks = {.name = "retry", .leave = retry_leave};

int vv_retry_backend_wrap(struct varve_backend *inner, unsigned retries, const struct vv_log *log,
                          struct varve_backend **out) {
    struct retry *retry = vv_calloc(1, sizeof(*retry));
    if (!retry)
        return -ENOMEM;
    vv_wrap_init(&retry->wrap, &retry_hooks, inner);
    retry->retries = retries;
    retry->log = log;
    *out = &retry->wrap.base;
    return 0;
}
