/* The exchange: what several ranks hold is stored once.
 *
 * Every rank offers the chunks it would have to store, each id once. The verdict on each is: store it here (VV_MINE),
 * another rank stores it in this checkpoint (VV_THERE), or the job has stored it before (VV_KNOWN). Exactly one holder
 * of an id gets VV_MINE, unless it is known. Owners are chosen so that all ranks store about the same amount, what only
 * one of them holds included.
 *
 * Two schemes. `exact` sends every id to a home rank by its hash (comm/hops.h), which sees all holders: nothing is
 * missed. `top-k` is the collective of Nicolae (IPDPS 2013): a reduction that keeps the k most frequent ids; what falls
 * off, and what only one rank holds, every holder stores itself. Its merge is not associative, so it goes up one fixed
 * tree and the root's result is everybody's.
 *
 * Memory of homes (exact only): a bounded table of ids that were offered earlier and where they were stored. Sources
 * are slots of the history, which must be the same on all ranks; entries of sources that are not alive do not count, so
 * that a failed checkpoint leaves no id behind. A slot never comes to mean another source, unless all is forgotten.
 *
 * Collective; the same code on all ranks. */
#ifndef VV_EXCHANGE_H
#define VV_EXCHANGE_H

#include "comm/hops.h"
#include "dedup/table.h"

struct vv_offer {
    struct vv_hash128 id;
    uint64_t address; /* in our layout */
    uint32_t size;
};

enum vv_verdict_kind { VV_MINE, VV_THERE, VV_KNOWN };

struct vv_verdict {
    uint32_t kind;
    uint32_t owner;   /* always; this rank if MINE */
    uint64_t address; /* in the owner's layout */
    uint32_t source;  /* KNOWN: a slot of the history */
    int is_shared;    /* MINE: others hold it, too, and will read it here */
};

struct vv_exchange_in {
    const struct vv_offer *offers; /* no id twice */
    size_t count;
    uint64_t fixed_bytes; /* that this rank stores in any case, beside the offers */
    uint32_t source;      /* the slot of this checkpoint: what is MINE now is remembered under it */
    /* Per source, the same on all ranks, and not 0 for the own one; NULL: nothing from before may be used. */
    const uint8_t *is_alive;
    uint32_t source_count;
};

struct vv_exchange_sums {
    struct vv_hops_sums hops;
    uint64_t mine, there, known; /* bytes of this rank's offers */
    uint64_t table_bytes;        /* memory of the home */
};

struct vv_exchange;

struct vv_exchange_ops {
    const char *name;
    /* verdicts: one per offer. sums (not NULL) is added to, but for table_bytes. */
    int (*run)(struct vv_exchange *exchange, const struct vv_exchange_in *in, struct vv_verdict *verdicts,
               struct vv_exchange_sums *sums, struct varve_error *error);
    void (*close)(struct vv_exchange *exchange);
};

struct vv_exchange {
    const struct vv_exchange_ops *ops;
};

/* shape: enum vv_hops_shape. -ENOTSUP when the group cannot exchange messages. Collective. */
int vv_exchange_exact(struct varve_comm *comm, int shape, struct vv_exchange **out, struct varve_error *error);
/* How many ids this rank may remember as a home; forgets nothing when it grows. 0 or -ENOMEM. Not collective. */
int vv_exchange_exact_capacity(struct vv_exchange *exchange, size_t entries);
/* Drop what this rank remembers as a home: for when the slots of the history begin anew. All ranks do, or none. */
void vv_exchange_exact_forget(struct vv_exchange *exchange);
/* k: how many ids survive a merge. */
int vv_exchange_topk(struct varve_comm *comm, size_t k, struct vv_exchange **out, struct varve_error *error);

static inline void vv_exchange_close(struct vv_exchange *exchange) { /* accepts NULL; not collective */
    if (exchange)
        exchange->ops->close(exchange);
}

#endif
