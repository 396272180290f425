/* The group of processes that checkpoint together (varve_comm.h), and how it comes to one answer. Everything here is
 * collective.
 *
 * The rule: a collective call of the session returns the same code on every rank. So whatever a rank finds out on its
 * own, be it only that an argument is wrong, goes through vv_comm_agree before anybody returns or acts on it. */
#ifndef VV_COMM_H
#define VV_COMM_H

#include <varve/varve_comm.h>

#include "base/error.h"

/* A group of one. */
extern struct varve_comm vv_comm_single;

#define VV_COMM_ROOT 0u

static inline int vv_comm_is_root(const struct varve_comm *comm) {
    return comm->rank == VV_COMM_ROOT;
}

/* The lowest code of all ranks: 0 only if it is 0 everywhere (errors are negative; do not give positive ones). When it
 * is not 0, error (not NULL) becomes that of the first rank that had the code, with its rank in it: all ranks tell the
 * same story. */
int vv_comm_agree(struct varve_comm *comm, int code, struct varve_error *error);
/* The same, and in the same message the least of all ranks' values, each by itself. They count only if it is 0. A
 * reduction costs the busiest rank a dozen messages where there are thousands of ranks: what can be agreed upon
 * together is. */
#define VV_AGREED_MOST 6u
int vv_comm_agree_values(struct varve_comm *comm, int code, uint64_t *values, size_t count, struct varve_error *error);
/* An operation of the group failed with rc, which is returned: error (not NULL) says so, as of this rank. */
int vv_comm_broken(const struct varve_comm *comm, int rc, struct varve_error *error);

/* The first round of a call: are all ranks in the same one, with the same value (the version; a hash of the name in
 * open)? 0, or VARVE_DISAGREED; or the error that a rank has found in its arguments. Ranks that mix calls up are told
 * so instead of waiting for each other. */
enum vv_call {
    VV_CALL_OPEN,
    VV_CALL_CHECKPOINT,
    VV_CALL_RESTART,
    VV_CALL_STORED,
    VV_CALL_REJECT,
    VV_CALL_NEED,
    VV_CALL_CONTINUE,
    VV_CALL_RESTART_BEGIN,
    VV_CALL_RESTART_END
};
int vv_comm_agree_call(struct varve_comm *comm, int code, enum vv_call call, uint64_t value, struct varve_error *error);
/* The same, and the least of all ranks' numbers. */
int vv_comm_agree_least(struct varve_comm *comm, int code, enum vv_call call, uint64_t value, uint64_t *least,
                        struct varve_error *error);

/* An error that all ranks come to by themselves, alike: it is told as rank 0's. Returns code. Not collective. */
int vv_comm_all_say(struct varve_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The largest of all ranks' values. */
int vv_comm_most(struct varve_comm *comm, uint64_t *value);

/* Root has done something alone: everybody gets its code, its error, and `size` bytes of what it found (data may be
 * NULL). */
int vv_comm_follow(struct varve_comm *comm, int code, void *data, size_t size, uint32_t root,
                   struct varve_error *error);

/* Rank 0 gets what all ranks have, put together on the way: along a tree, each rank takes what those below it have, and
 * gives what it then has itself, once. take is not called for a rank that had nothing to give, since it failed. Returns
 * the first error of this rank, also take's and give's: to be agreed upon by the caller. */
struct vv_buf;
struct vv_merging {
    int (*take)(void *arg, const void *data, size_t size);
    int (*give)(void *arg, struct vv_buf *out); /* nothing when the rank has failed before */
    void *arg;
};
int vv_comm_merge(struct varve_comm *comm, const struct vv_merging *merging);

/* Each value becomes the sum of those of the ranks up to this one, itself included; total: of all ranks. All give the
 * same count. Returns the first error of this rank: to be agreed upon by the caller. */
int vv_comm_sums(struct varve_comm *comm, uint64_t *values, size_t count, uint64_t *total);

/* Everybody's buf becomes root's. */
int vv_comm_share(struct varve_comm *comm, struct vv_buf *buf, uint32_t root, struct varve_error *error);

#endif
