/* Agreement, made of the reductions and broadcasts of a group. */
#include "comm/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

#define CODE_BIAS (INT64_C(1) << 31)

/* Ordered like the code, and among equals like the rank. */
static uint64_t pack_code(const struct varve_comm *comm, int code) {
    return (uint64_t)((int64_t)code + CODE_BIAS) << 32 | comm->rank;
}

int vv_comm_broken(const struct varve_comm *comm, int rc, struct varve_error *error) {
    vv_error(error, rc, "the processes of the job cannot talk to each other any more (%s): %s", comm->ops->name,
             varve_error_text(rc));
    error->rank = (int)comm->rank;
    return rc;
}

/* Everybody gets the error of this rank. It may have come from another one, in an agreement before: then that is the
 * rank where it happened. */
static int share_error(struct varve_comm *comm, int code, uint32_t rank, struct varve_error *error) {
    if (comm->rank == rank) {
        int is_agreed = error->code == code && error->rank >= 0 && error->text[0];
        vv_error_default(error, code, "%s", varve_error_text(code));
        error->code = code;
        if (!is_agreed)
            error->rank = (int)rank;
    }
    int rc = comm->ops->broadcast(comm, error, sizeof *error, rank);
    error->text[sizeof error->text - 1] = 0;
    return rc ? vv_comm_broken(comm, rc, error) : code;
}

int vv_comm_agree_values(struct varve_comm *comm, int code, uint64_t *values, size_t count, struct varve_error *error) {
    uint64_t least[1 + VV_AGREED_MOST] = {pack_code(comm, code < 0 ? code : 0)};
    if (count > 0)
        memcpy(least + 1, values, count * sizeof *values);
    int rc = comm->ops->reduce_min(comm, least, 1 + count);
    if (rc)
        return vv_comm_broken(comm, rc, error);
    if (count > 0)
        memcpy(values, least + 1, count * sizeof *values);
    code = (int)((int64_t)(least[0] >> 32) - CODE_BIAS);
    return code == 0 ? 0 : share_error(comm, code, (uint32_t)least[0], error);
}

int vv_comm_agree(struct varve_comm *comm, int code, struct varve_error *error) {
    return vv_comm_agree_values(comm, code, NULL, 0, error);
}

static const char *const call_names[] = {"open", "checkpoint", "restart",       "stored",     "reject",
                                         "need", "continue",   "restart_begin", "restart_end"};

int vv_comm_all_say(struct varve_error *error, int code, const char *format, ...) {
    char text[sizeof error->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    vv_error(error, code, "%s", text);
    error->rank = VV_COMM_ROOT;
    return code;
}

static int explain(enum vv_call call, uint64_t low, uint64_t high, struct varve_error *error) {
    if (call == VV_CALL_OPEN)
        return vv_comm_all_say(error, VARVE_DISAGREED, "the ranks gave different names; all must give the same");
    return vv_comm_all_say(error, VARVE_DISAGREED,
                           "the ranks gave different versions to varve_%s: from %" PRId64 " to %" PRId64
                           "; all must give the same",
                           call_names[call], (int64_t)low, (int64_t)high);
}

int vv_comm_agree_least(struct varve_comm *comm, int code, enum vv_call call, uint64_t value, uint64_t *least,
                        struct varve_error *error) {
    uint64_t values[6] = {pack_code(comm, code < 0 ? code : 0), value, ~value, call, ~(uint64_t)call, *least};
    int rc = comm->ops->reduce_min(comm, values, 6);
    if (rc)
        return vv_comm_broken(comm, rc, error);
    *least = values[5];
    uint64_t first = values[3], last = ~values[4], count = sizeof call_names / sizeof *call_names;
    if (first != last && last < count)
        return vv_comm_all_say(
            error, VARVE_DISAGREED,
            "the ranks do not make the same call: one is in varve_%s, another in varve_%s; collective calls"
            " are made by all ranks in the same order",
            call_names[first], call_names[last]);
    code = (int)((int64_t)(values[0] >> 32) - CODE_BIAS);
    if (code)
        return share_error(comm, code, (uint32_t)values[0], error);
    return values[1] == ~values[2] ? 0 : explain(call, values[1], ~values[2], error);
}

int vv_comm_agree_call(struct varve_comm *comm, int code, enum vv_call call, uint64_t value,
                       struct varve_error *error) {
    uint64_t ignored = 0; /* ranks that mix calls up still send each other messages of one length */
    return vv_comm_agree_least(comm, code, call, value, &ignored, error);
}

int vv_comm_most(struct varve_comm *comm, uint64_t *value) {
    uint64_t turned = ~*value;
    int rc = comm->ops->reduce_min(comm, &turned, 1);
    *value = ~turned;
    return rc;
}

int vv_comm_follow(struct varve_comm *comm, int code, void *data, size_t size, uint32_t root,
                   struct varve_error *error) {
    int64_t told = code;
    int rc = comm->ops->broadcast(comm, &told, sizeof told, root);
    if (rc)
        return vv_comm_broken(comm, rc, error);
    if (told != 0)
        return share_error(comm, (int)told, root, error);
    rc = size ? comm->ops->broadcast(comm, data, size, root) : 0;
    return rc ? vv_comm_broken(comm, rc, error) : 0;
}

int vv_comm_share(struct varve_comm *comm, struct vv_buf *buf, uint32_t root, struct varve_error *error) {
    uint64_t size = buf->size;
    uint8_t *data = NULL;
    int rc = vv_comm_follow(comm, buf->failed, &size, sizeof size, root, error);
    if (rc)
        return rc;
    if (comm->rank != root && !(data = vv_malloc(size ? size : 1)))
        rc = vv_error(error, -ENOMEM, "no memory for %" PRIu64 " bytes from rank %u", size, root);
    rc = vv_comm_agree(comm, rc, error);
    if (rc == 0)
        rc = vv_comm_follow(comm, 0, comm->rank == root ? buf->data : data, size, root, error);
    if (rc == 0 && comm->rank != root)
        vv_buf_append(buf, data, size);
    vv_free(data);
    return rc ? rc : vv_comm_agree(comm, buf->failed, error);
}
