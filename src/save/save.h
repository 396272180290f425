/* Saving: this rank's part of one attempt, from the plan to the sealed pack. */
#ifndef VV_SAVE_H
#define VV_SAVE_H

#include "base/details.h"
#include "capture/protected.h"
#include "dedup/exchange.h"
#include "dedup/fine.h"
#include "job/job.h"
#include "job/measured.h"
#include "write/output.h"

/* How the bytes that may lie between the program and the storage are shared out. */
struct vv_budget {
    uint32_t block_size;
    unsigned blocks;
    uint64_t staging; /* bytes for copies of chunks */
};

/* Deduplication between ranks (rank_dedup.c). */
struct vv_rank_dedup {
    struct vv_exchange *exchange; /* NULL: there is none */
    int is_exact;
    unsigned rest;    /* checkpoints for which it is left out, since it did not pay */
    unsigned resting; /* so long the last time */
    unsigned losses;  /* how often in a row it did not pay */
    const char *name, *reason;
};

/* How much is audited (audit.c). */
struct vv_audit_state {
    uint64_t random;      /* of the generator; 0: not begun */
    double chunk_seconds; /* that one chunk takes; 0: not measured yet */
    double call_seconds;  /* of the processor, that the last calls have taken */
};

struct vv_scan;
struct vv_save;

/* The chunks that this rank would have to store, named before anybody stores one (offers.c). */
struct vv_named {
    uint64_t index; /* granule of its region */
    uint32_t scan;  /* its region, by its slot in the save's scans */
    uint32_t offer; /* VV_NAMED_FINE and a number in fine_ids: it is not offered, but stored here, finely */
};
#define VV_NAMED_FINE (UINT32_C(1) << 31)
/* A chunk of another rank that is stored here as its copy, from our own memory. */
struct vv_local_replica {
    uint32_t offer;
    uint32_t owner;
    uint64_t address;
};
struct vv_offers {
    struct vv_named *list; /* those of a region together, ascending */
    size_t count, capacity;
    struct vv_offer *unique; /* each id once, with the address of the first chunk that has it */
    uint8_t *dispositions;   /* per offer, once it is known: enum vv_disposition bits */
    size_t offer_count, offer_capacity;
    uint32_t *map; /* from ids to offers, + 1; open addressing */
    size_t map_size;
    struct vv_local_replica *local_replicas; /* by offer */
    size_t local_replica_count;
    struct vv_hash128 *fine_ids; /* of granules that are stored finely */
    size_t fine_count, fine_capacity;
    int is_copied;  /* named from copies that nobody can write meanwhile, */
    int is_stable;  /* and that will come again as they were */
    size_t written; /* of the list, once it is settled */
};

/* What the call has planned (save.c; is_sparse and rewrite_left: emptying.c). */
struct vv_save_plan {
    struct vv_attempt attempt;
    uint32_t source; /* our slot in the history */
    struct vv_budget budget;
    uint64_t begun_ns;
    uint64_t layout_end; /* becomes the history's when committed */
    uint64_t regions;
    size_t ids_capacity;   /* places in the table of ids */
    int is_shared;         /* it is compared with other ranks */
    int is_shared_behind;  /* in the background */
    int has_devices;       /* some were asked */
    uint8_t *is_sparse;    /* per source: its live bytes are stored again, as far as */
    uint64_t rewrite_left; /* this goes */
};

struct vv_scans {
    struct vv_scan *list;        /* one per region */
    size_t asked;                /* regions whose callbacks have been asked, */
    uint64_t asked_at;           /* and up to where in the next */
    struct vv_variable variable; /* of the region whose data comes now */
    uint8_t rounded[VV_GRANULE]; /* a chunk of a region with a grid, as it is stored; or a copy of one that is named */
};

/* Fine chunks (fine_policy.c). */
struct vv_save_fine {
    uint8_t *is_usable; /* per source: fine chunks may be referred to there; NULL: no region is looked at finely */
    struct vv_fine_counts counts;
    uint64_t ns;
    uint64_t mark_bytes;
    const char *why; /* of the largest region that is looked at finely, if there is one */
};

/* The manifest that was written (manifest_build.c). */
struct vv_save_manifest {
    int is_base;
    uint64_t base_bytes; /* of the manifest, if it is one, */
    uint64_t bytes;      /* and as it is stored */
    struct vv_recipe_layers layers;
    uint64_t *live; /* bytes each source holds after the commit */
};

struct vv_stats_sums {
    uint64_t protected_bytes, looked, changed, zero, known, fresh, rewritten, chunks_new, elsewhere, copied;
    uint64_t fixed, fixed_rewritten; /* stored whatever the others say, and stored again */
};

struct vv_outcome {
    int result; /* of this rank, and why */
    struct varve_error error;
    struct vv_details stats; /* what this part knows of them */
    uint64_t sealed_ns;
};

struct vv_save {
    struct vv_job *job;               /* the session's */
    struct vv_protected *memory;      /* the session's */
    struct vv_outputs *outputs;       /* the session's */
    struct vv_measured *measured;     /* the session's */
    struct vv_rank_dedup *rank_dedup; /* the session's */
    struct vv_audit_state *audit;     /* the session's */
    struct vv_save_plan plan;         /* save.c */
    struct vv_scans scans;            /* save.c */
    struct vv_offers offers;          /* offers.c, if it is compared with other ranks */
    struct vv_save_fine fine;         /* fine_policy.c */
    struct vv_output *output;         /* save.c */
    struct vv_save_manifest manifest; /* manifest_build.c */
    struct vv_stats_sums sums;        /* scan.c */
    struct vv_outcome outcome;        /* save.c */
};

/* In the call: what there is to save is captured when it returns 0; with capture=sync it is stored, too. */
int vv_save_prepare(struct vv_save *save, struct varve_error *error);
/* The rest, in the background: save->outcome tells how it went. */
void vv_save_write(struct vv_save *save);
/* The attempt was committed, or it was not; frees what the save holds. */
void vv_save_accept(struct vv_save *save, struct vv_hash128 writers_digest);
void vv_save_drop(struct vv_save *save);

/* ---- rank_dedup.c: what several ranks hold is stored once. Collective. ---- */
int vv_rank_dedup_open(struct vv_rank_dedup *rank_dedup, struct vv_job *job, struct varve_error *error);
void vv_rank_dedup_close(struct vv_rank_dedup *rank_dedup); /* not collective */
/* Sources have got other numbers: nothing from before counts. Not collective. */
void vv_rank_dedup_forget(struct vv_rank_dedup *rank_dedup);

/* ---- fine_policy.c ---- */
/* After a restart: what was restored has been seen. is_as_restored: 0 if the program may have changed it already. Then
 * nothing is known of it, and devices are asked for all of theirs. */
void vv_fine_refill(struct vv_job *job, struct vv_protected *memory, int is_as_restored);

#endif
