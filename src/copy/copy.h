/* Copying a checkpoint into another store, or under another name: docs/design.md, "A copy is a checkpoint of its own".
 */
#ifndef VV_COPY_H
#define VV_COPY_H

#include "base/settings.h"
#include "base/thread.h"
#include "lifecycle/lease.h"
#include "store/store.h"

struct vv_copy_options {
    const struct vv_settings *settings; /* how blocks are made; codec=auto means the smallest here */
    struct vv_pool *pool;               /* reads */
    int is_dry_run;                     /* read and compare only */
    int may_go_back;                    /* a lower version than what is there, if it was saved later */
    uint32_t takeover_seconds;          /* how long to wait for another that holds the name; 0: a moment */
    struct vv_lease *lease;             /* of the caller on that name, with nothing in its generation; or NULL */
    const struct vv_attempt *instead;   /* a checkpoint there that is damaged: it is not looked at; or NULL */
    uint32_t keep;                      /* how many checkpoints of the name stay there afterwards; 0: all */
    /* Bytes of regions copied and read back; nonzero stops with -EINTR. May be NULL. */
    int (*progress)(void *arg, uint64_t done, uint64_t total);
    void *arg;
};
struct vv_copy_result {
    uint32_t generation; /* of the copy; 0: there is none */
    uint64_t version;
    uint32_t ranks;
    uint64_t regions;
    uint64_t protected_bytes;
    uint64_t new_bytes;     /* before encoding: what was not there */
    uint64_t resumed_bytes; /* of these, what an earlier try had stored; a dry run does not look for it */
    uint64_t written;       /* bytes in packs that were made now */
    int is_there;           /* it was there already, and was compared */
};

/* Which checkpoint is copied. */
struct vv_copy_source {
    struct vv_store *store;
    const char *name;
    uint32_t generation;
    uint64_t version;
};

/* Make the checkpoint of `from` one of `name` in `to`, with its version and the time it was saved at. Everything is
 * checked as it is read, stored unless `to` has it, read back, and becomes a checkpoint at last. Given again after it
 * was killed or failed, it goes on with what it had stored. While it reads back, all votes are there: if it is killed
 * then, a session may adopt the copy unread. `to` may be NULL in a dry run: there is no store yet.
 * VARVE_BUSY while a session may be writing `name`; VARVE_MISMATCH when `name` has this version of something else, or a
 * later one (but see may_go_back), or when with may_go_back the newest there was saved later and `from` does not have
 * it; VARVE_UNSUPPORTED for node-local stores; VARVE_CORRUPT when `from` is damaged: then
 * nothing is committed. out is filled in any case. */
int vv_copy(const struct vv_copy_source *from, struct vv_store *to, const char *name,
            const struct vv_copy_options *options, struct vv_copy_result *out, struct varve_error *error);

/* Does the store have this version, saved at this time? 1, 0, or an error; 1 also if a record of it cannot be read. */
int vv_copy_is_here(struct vv_store *store, const char *name, uint64_t version, uint64_t time_ns,
                    struct varve_error *error);

/* The store that a checkpoint of `from` shall go to, which is made if it is missing. What is encrypted stays so:
 * VARVE_KEY if that store is not, or would not be. *out stays NULL in a dry run without a store. */
struct vv_copy_place {
    struct vv_store *from;
    const char *from_address;
    const char *address;
    const struct vv_settings *settings;
    struct vv_log *log; /* lives as long as the store */
    int is_dry_run;
};
int vv_copy_open(const struct vv_copy_place *place, struct vv_store **out, struct varve_error *error);
/* VARVE_KEY if `from` is encrypted and `to` is not. */
int vv_copy_check_keys(struct vv_store *from, const char *from_address, struct vv_store *to, const char *to_address,
                       struct varve_error *error);

#endif
