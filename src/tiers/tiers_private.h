/* What the files of this folder share: tiers.c (queues and who waits), move.c (one checkpoint to one tier), back.c
 * (from a tier to the first store), same.c (two that are one), heal.c (damage in the first store). */
#ifndef VV_TIERS_PRIVATE_H
#define VV_TIERS_PRIVATE_H

#include "copy/copy.h"
#include "tiers/tiers.h"

#define VV_TIER_WAITING_MOST 32 /* as the setting allows */

/* The newest checkpoint of the name in a store. Copies keep version and time. */
struct vv_tier_newest {
    struct vv_attempt attempt; /* generation 0: there is none */
    uint64_t time_ns;
};

struct vv_tier {
    struct vv_tiers *all;
    unsigned number;
    char *address;
    int keep, waiting_most; /* checkpoints there, 0: all; and those that may wait */
    struct vv_tier_newest newest; /* when the session was opened */
    uint8_t id[16];               /* of its store, if that was there then: is_seen */
    int is_seen;
    pthread_t thread;
    int has_thread;
    /* with the lock: */
    struct vv_attempt waiting[VV_TIER_WAITING_MOST + 1]; /* the oldest first */
    unsigned count;
    struct vv_attempt moving; /* generation 0: none is */
    int result;               /* of the last one that is not on its way any more */
    struct vv_attempt last;
    int is_last_try;
    uint64_t passed; /* written by the thread that adds */
    struct varve_error error;
    /* of its thread: */
    struct vv_store *from, *to;
    struct vv_pool *pool;
};

struct vv_tiers {
    char *address; /* of the first store */
    char *name;
    struct vv_settings settings; /* those of the session, as moving wants them */
    struct vv_log *log;
    struct vv_placement where;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int has_limit; /* nobody waits longer than until_ns */
    uint64_t until_ns;
    int is_closing; /* nothing more comes */
    int is_ended;   /* what is under way shall stop, too */
    struct vv_tiers_counts counts;
    char advice[VV_TIERS_ADVICE];
    unsigned tier_count;
    struct vv_tier tiers[VV_TIERS_MOST];
};

/* move.c: in the thread of the tier. */
int vv_tier_move(struct vv_tier *tier, const struct vv_attempt *attempt, struct vv_copy_result *result,
                 struct varve_error *error);
void vv_tier_clear(struct vv_tier *tier);
/* Open a store to read it. VARVE_NO_STORE if there is none. */
int vv_tier_open_store(struct vv_tiers *tiers, const char *address, struct vv_store **out, struct varve_error *error);

/* same.c: VARVE_SETTING if two of them are one store; by their addresses, and by what is there: after the first store
 * was claimed. */
int vv_tiers_check_places(const struct vv_tiers *tiers, struct varve_error *error);
int vv_tiers_check_stores(struct vv_tiers *tiers, const struct vv_store *first, struct vv_lease *lease,
                          struct varve_error *error);

/* back.c */
int vv_tier_find_newest(struct vv_store *store, const char *name, struct vv_tier_newest *out,
                        struct varve_error *error);

#endif
