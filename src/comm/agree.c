/* Agreement, made of the reductions and broadcasts of a group. */
#include "comm/comm.h"

#include <inttypes.h>
#include <string.h>

#define CODE_BIAS (INT64_C(1) << 31)

/* Ordered like the code, and among equals like the rank. */
static uint64_t pack_code(const struct varve_comm *comm, int code) {
    return (uint64_t)((int64_t)code + CODE_BIAS) << 32 | comm->rank;
}

static int broken(const struct varve_comm *comm, int rc, struct varve_error *error) {
    vv_error(error, rc, "the processes of the job cannot talk to each other any more (%s): %s", comm->ops->name,
             varve_error_text(rc));
    error->rank = (int)comm->rank;
    return rc;
}

/* Everybody gets the error of this rank. It may have come from another one, in an agreement before: then that is the rank where it happened. */
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
    return rc ? broken(comm, rc, error) : code;
}

int vv_comm_agree(struct varve_comm *comm, int code, struct varve_error *error) {
    uint64_t worst = pack_code(comm, code < 0 ? code : 0);
    int rc = comm->ops->least(comm, &worst, 1);
    if (rc)
        return broken(comm, rc, error);
    code = (int)((int64_t)(worst >> 32) - CODE_BIAS);
    return code == 0 ? 0 : share_error(comm, code, (uint32_t)worst, error);
}

int vv_comm_agree_same(struct varve_comm *comm, int code, uint64_t value, const char *what, struct varve_error *error) {
    uint64_t values[3] = {pack_code(comm, code < 0 ? code : 0), value, ~value};
    int rc = comm->ops->least(comm, values, 3);
    if (rc)
        return broken(comm, rc, error);
    code = (int)((int64_t)(values[0] >> 32) - CODE_BIAS);
    if (code)
        return share_error(comm, code, (uint32_t)values[0], error);
    if (values[1] == ~values[2])
        return 0;
    vv_error(error, VARVE_DISAGREED,
             "the ranks gave different values for %s: from %" PRId64 " to %" PRId64 "; all must give the same", what,
             (int64_t)values[1], (int64_t)~values[2]);
    error->rank = VV_COMM_ROOT;
    return VARVE_DISAGREED;
}

int vv_comm_most(struct varve_comm *comm, uint64_t *value) {
    uint64_t turned = ~*value;
    int rc = comm->ops->least(comm, &turned, 1);
    *value = ~turned;
    return rc;
}

int vv_comm_follow(struct varve_comm *comm, int code, void *data, size_t size, uint32_t root,
                   struct varve_error *error) {
    int64_t told = code;
    int rc = comm->ops->broadcast(comm, &told, sizeof told, root);
    if (rc)
        return broken(comm, rc, error);
    if (told != 0)
        return share_error(comm, (int)told, root, error);
    rc = size ? comm->ops->broadcast(comm, data, size, root) : 0;
    return rc ? broken(comm, rc, error) : 0;
}
