/* A lease: one session's claim on a name, with its heartbeat (docs/format.md 5, 10).
 *
 * A thread renews the heartbeat. Functions here may be called by one thread at a time; the heartbeat thread is their
 * own business. */
#ifndef VV_LEASE_H
#define VV_LEASE_H

#include "store/store.h"

struct vv_lease;

struct vv_lease_options {
    uint32_t ranks;
    uint32_t beat_seconds;
    uint32_t dead_seconds;
    uint32_t takeover_seconds; /* how long to watch another session's heartbeat before giving up with VARVE_BUSY */
    const char *program;       /* NULL: /proc/self/comm */
    uint32_t above;            /* the generation claimed is above this one, too */
    const uint8_t *session_id; /* of a session that has claimed other stores already; NULL: a new one */
    int (*stop)(void *arg);    /* asked while it watches: nonzero ends that with -EINTR; or NULL */
    void *arg;
};

/* Claim the next generation of name; its heartbeat names no checkpoint. VARVE_BUSY at once when this process itself has
 * a session open for it. If the highest claim's owner may be alive, watch its heartbeat for up to takeover_seconds (it
 * is dead when its heartbeat stays unchanged for the dead_seconds its claim states); if it lives, VARVE_BUSY with host,
 * pid and age in the text. Stopped meanwhile: -EINTR. With a session_id: 1, and no lease, when another process of that
 * session has the highest claim here. */
int vv_lease_take(struct vv_store *store, const char *name, const struct vv_lease_options *options,
                  struct vv_lease **out, struct varve_error *error);
uint32_t vv_lease_generation(const struct vv_lease *lease);
/* The id that the claims of this lease carry, 16 bytes. */
const uint8_t *vv_lease_session(const struct vv_lease *lease);
/* Is the claim on this generation that of the session with this id? 1; 0 if it is another's or not there; or an error.
 * For the other processes of a job, to see whether they look at the same storage. */
int vv_claim_is_of(struct vv_store *store, const char *name, uint32_t generation, const uint8_t session_id[16],
                   struct varve_error *error);
/* The id of the session that has this claim; 1, 0 when there is none or it cannot be read, or an error of the storage.
 */
int vv_claim_session(struct vv_store *store, const char *name, uint32_t generation, uint8_t session_out[16],
                     struct varve_error *error);
/* Claim one more generation for the same session (a restart after its first checkpoint); the old one ends. After an
 * error the new claim may stand: then it is finished, and the generation changes, as soon as the storage allows. */
int vv_lease_advance(struct vv_lease *lease, struct varve_error *error);
/* Name the checkpoint this session refers to (generation 0: none); durable in the heartbeat when it returns. */
int vv_lease_refer(struct vv_lease *lease, const struct vv_attempt *attempt, struct varve_error *error);
/* VARVE_FENCED when another session's higher claim exists, or the own one is gone; from then on for ever. An error of
 * the storage fences nobody. */
int vv_lease_check(struct vv_lease *lease, struct varve_error *error);
/* From now on the heartbeat thread calls fn after each turn, without a lock that a commit needs; NULL: nobody any more,
 * and no call is under way. */
void vv_lease_on_heartbeat(struct vv_lease *lease, void (*fn)(void *arg), void *arg);
/* Stop the heartbeat thread, write state "ended", free. Accepts NULL. */
void vv_lease_release(struct vv_lease *lease);
/* The same without writing anything: as if the process had died. For tests, and after fork. */
void vv_lease_abandon(struct vv_lease *lease);

/* Who holds a name: the owner of its highest claim. */
enum vv_holding { VV_HELD_BY_NOBODY, VV_HELD_BY_DEAD, VV_HELD_BY_UNKNOWN, VV_HELD_BY_LIVING };
struct vv_holder {
    uint32_t generation; /* 0: nobody ever claimed it */
    int holding;         /* enum vv_holding */
    int has_claim;       /* it can be read, and what follows is known */
    uint64_t claimed_ns;
    uint32_t pid, ranks, beat_seconds, dead_seconds;
    char host[VV_TEXT_CAPACITY], program[VV_TEXT_CAPACITY];
    uint64_t beat_ns; /* on the holder's clock; 0: there is none that can be read */
    char evidence[200];
};
int vv_holder_look(struct vv_store *store, const char *name, struct vv_holder *out, struct varve_error *error);
/* Free a name whose holder is dead, by a claim above it that ends at once: should the holder be alive after all, it is
 * fenced with its next checkpoint, and what it had committed stays. VARVE_BUSY while it is alive. If that is not known,
 * its heartbeat is watched for its dead_seconds; with is_dead, where somebody knows more than can be seen here, only
 * for two of its periods. progress may be NULL. out says who it was, also after VARVE_BUSY. */
int vv_unlock(struct vv_store *store, const char *name, int is_dead, int (*progress)(void *, uint64_t, uint64_t),
              void *arg, struct vv_holder *out, struct varve_error *error);
/* Claim the generation above `highest` and end it at once. VARVE_BUSY when somebody else was faster. */
int vv_lease_end_above(struct vv_store *store, const char *name, uint32_t highest, struct varve_error *error);

/* Has a session of this process with this id failed while it made its claim? Then nobody has it. */
int vv_lease_is_given_up_here(const uint8_t session_id[16]);

/* What can be said about a generation without waiting. UNKNOWN: its process is on another host, or hidden; treat as
 * MAYBE. */
enum vv_life { VV_LIFE_DEAD, VV_LIFE_MAYBE, VV_LIFE_UNKNOWN };
/* is_superseded: a higher claim exists. refers_out (may be NULL) gets the checkpoint its heartbeat names. A missing or
 * damaged claim or heartbeat counts as MAYBE unless superseded; a heartbeat of another session than the claim's as
 * missing. */
int vv_life_look(struct vv_store *store, const char *name, uint32_t generation, int is_superseded, int *life_out,
                 struct vv_attempt *refers_out, struct varve_error *error);
/* The highest claimed generation, 0 if none. */
int vv_claims_highest(struct vv_store *store, const char *name, uint32_t *out, struct varve_error *error);

#endif
