/* Everything that is counted of one checkpoint. Programs get the few numbers of struct varve_stats, and all of these by
 * name (varve_stats_each); VV_DETAILS_TABLE gives names and units, and docs/man/varve_stats.3.scd explains them. */
#ifndef VV_DETAILS_H
#define VV_DETAILS_H

#include <stddef.h>
#include <stdint.h>

struct vv_details {
    int64_t version;        /* of the last checkpoint that was begun, -1 if none */
    int result;             /* 0, why it failed, or -EINPROGRESS: what follows is not complete yet */
    double seconds_blocked; /* inside varve_checkpoint, seconds_waited included */
    double seconds_durable; /* from the end of seconds_waited until it is durable */
    uint64_t bytes_protected;
    uint64_t bytes_changed;   /* in chunks (fine ones where they are used) that differ from the last checkpoint */
    uint64_t bytes_zero;      /* of these, zeros: never stored */
    uint64_t bytes_known;     /* of these, the same as another chunk of this rank, now or earlier */
    uint64_t bytes_new;       /* of these, new: encoded and stored */
    uint64_t bytes_rewritten; /* old data stored again, so that what it lay in can go */
    uint64_t bytes_stored;    /* data as it went to storage */
    uint64_t bytes_metadata;  /* everything else that went to storage in packs */
    uint64_t bytes_base;      /* of which manifests written as a whole again */
    uint64_t runs_changed;
    uint64_t chunks_new;
    char tracker[16];         /* how changed pages are found; none: every touched page is looked at */
    char codec[16];           /* the one most bytes used */
    uint64_t attempts;        /* tries it took */
    double seconds_waited;    /* inside varve_checkpoint, for the checkpoint before it */
    uint64_t bytes_staged;    /* copied inside the call */
    uint64_t bytes_drained;   /* stored inside the call: they did not fit, and could not or should not be left */
    uint64_t bytes_held;      /* left in the program's memory; who writes them is stopped until they are copied */
    uint64_t pages_wait;      /* held pages whose writer had to wait until they were stored */
    uint64_t pages_cow;       /* held pages that were copied because somebody wrote them */
    uint64_t pages_avoided;   /* written in flight, after they were stored; seen only by trackers that trap */
    uint64_t pages_ahead;     /* held pages that were released before anybody wrote them */
    uint64_t pages_trapped;   /* writes that were stopped, in all, up to the next checkpoint */
    uint64_t bytes_memory;    /* of all the library has in this process, the most since it began; see varve_stats(3) */
    char capture[16];         /* auto, sync, trap, frozen or held */
    char capture_reason[128]; /* why it was staged, drained, held or frozen */
    char tracker_reason[128]; /* why this tracker was chosen */
    uint64_t bytes_elsewhere; /* of bytes_changed, stored by another rank, now or earlier */
    uint64_t bytes_copied;    /* of other ranks, stored here as their copies */
    uint64_t bytes_parity;    /* of the group, stored here so that lost nodes can be made up for */
    uint64_t exchange_messages, exchange_bytes; /* sent to find duplicates between ranks */
    double seconds_named;                       /* computing the ids that were offered to the other ranks */
    double seconds_exchange;                    /* asking them */
    char dedup[16];                             /* how duplicates were looked for: none, local, top-k, exact */
    char dedup_reason[128];                     /* why */
    char codec_reason[128];                     /* what was chosen how often, and by what */
    double seconds_encode;  /* compressing, all threads together, looking for the best way included */
    double seconds_sampled; /* of these, looking for the best way */
    double storage_speed;   /* bytes per second that the storage takes, as measured; 0: not known yet */
    uint32_t writers;       /* of the whole checkpoint */
    uint32_t group;         /* ranks that share the writer of this one; with more than 1, bytes_stored, bytes_metadata,
                             * codec and what is about encoding count for all of them on its rank; 0 elsewhere */
    uint64_t bytes_moved;   /* on the writer's rank: given to other writers, so that all write the same amount */
    char grouping[32];      /* what lay together when it was compressed, for most bytes */
    char aggregate_reason[128]; /* why ranks share writers, or do not */
    uint64_t chunks_fixed, chunks_zero, chunks_first,
        chunks_shifted;    /* fine chunks of the 4 KiB that changed: as they
                            * were, zeros, never seen (stored), and found elsewhere */
    uint32_t fine;         /* bytes of a fine chunk, in the region with most of them; 0: nothing was looked at finely */
    uint64_t bytes_seen;   /* memory of what is known of fine chunks */
    double seconds_fine;   /* looking at them */
    char fine_reason[128]; /* why fine chunks are used, or not */
    uint64_t chunks_audited; /* that no tracker had reported and that were compared all the same */
    double seconds_audit;    /* of a processor, inside the call, for these */
    uint64_t
        bytes_frozen; /* left to a copy of the process that the kernel keeps as it was at the call; nobody is stopped */
    uint64_t bytes_frozen_most; /* memory that this copy took, at the most that was seen; not in bytes_memory */

    /* of the last restart; times but the first are sums over all threads */
    double restart_seconds;
    uint64_t restart_reads, restart_bytes_read;     /* of the storage, for others as well */
    uint64_t restart_blocks, restart_bytes_decoded; /* that were checked and decoded as a whole, and their bytes then */
    uint64_t restart_rounds;                        /* of questions to other ranks */
    double restart_reading, restart_checking, restart_decoding, restart_copying;
    double restart_waiting;         /* for other ranks */
    uint64_t restart_bytes_rebuilt; /* from parity, since no node has them any more */

    /* of the session, on rank 0: checkpoints that have come to further tiers, were passed over on the way there since
     * newer ones came, and could not be copied; what was written for those that came, and how long it took */
    uint64_t tiers_moved, tiers_passed, tiers_failed, tiers_bytes;
    double tiers_seconds;
    uint64_t tiers_back; /* checkpoints that were copied back from a tier when the session was opened */
    uint64_t tiers_healed; /* that a restart found damaged, and a tier gave back */
};

/* X(kind, name, unit) for every member but version and result. The kinds are the types: WIDE is uint64_t, SHORT is
 * uint32_t, REAL is double, TEXT is an array of char. */
#define VV_DETAILS_TABLE(X)                                                                                            \
    X(REAL, seconds_blocked, "seconds")                                                                                \
    X(REAL, seconds_durable, "seconds")                                                                                \
    X(WIDE, bytes_protected, "bytes")                                                                                  \
    X(WIDE, bytes_changed, "bytes")                                                                                    \
    X(WIDE, bytes_zero, "bytes")                                                                                       \
    X(WIDE, bytes_known, "bytes")                                                                                      \
    X(WIDE, bytes_new, "bytes")                                                                                        \
    X(WIDE, bytes_rewritten, "bytes")                                                                                  \
    X(WIDE, bytes_stored, "bytes")                                                                                     \
    X(WIDE, bytes_metadata, "bytes")                                                                                   \
    X(WIDE, bytes_base, "bytes")                                                                                       \
    X(WIDE, runs_changed, "runs")                                                                                      \
    X(WIDE, chunks_new, "chunks")                                                                                      \
    X(TEXT, tracker, "")                                                                                               \
    X(TEXT, codec, "")                                                                                                 \
    X(WIDE, attempts, "")                                                                                              \
    X(REAL, seconds_waited, "seconds")                                                                                 \
    X(WIDE, bytes_staged, "bytes")                                                                                     \
    X(WIDE, bytes_drained, "bytes")                                                                                    \
    X(WIDE, bytes_held, "bytes")                                                                                       \
    X(WIDE, pages_wait, "pages")                                                                                       \
    X(WIDE, pages_cow, "pages")                                                                                        \
    X(WIDE, pages_avoided, "pages")                                                                                    \
    X(WIDE, pages_ahead, "pages")                                                                                      \
    X(WIDE, pages_trapped, "pages")                                                                                    \
    X(WIDE, bytes_memory, "bytes")                                                                                     \
    X(TEXT, capture, "")                                                                                               \
    X(TEXT, capture_reason, "")                                                                                        \
    X(TEXT, tracker_reason, "")                                                                                        \
    X(WIDE, bytes_elsewhere, "bytes")                                                                                  \
    X(WIDE, bytes_copied, "bytes")                                                                                     \
    X(WIDE, bytes_parity, "bytes")                                                                                     \
    X(WIDE, exchange_messages, "messages")                                                                             \
    X(WIDE, exchange_bytes, "bytes")                                                                                   \
    X(REAL, seconds_named, "seconds")                                                                                  \
    X(REAL, seconds_exchange, "seconds")                                                                               \
    X(TEXT, dedup, "")                                                                                                 \
    X(TEXT, dedup_reason, "")                                                                                          \
    X(TEXT, codec_reason, "")                                                                                          \
    X(REAL, seconds_encode, "seconds")                                                                                 \
    X(REAL, seconds_sampled, "seconds")                                                                                \
    X(REAL, storage_speed, "bytes per second")                                                                         \
    X(SHORT, writers, "writers")                                                                                       \
    X(SHORT, group, "ranks")                                                                                           \
    X(WIDE, bytes_moved, "bytes")                                                                                      \
    X(TEXT, grouping, "")                                                                                              \
    X(TEXT, aggregate_reason, "")                                                                                      \
    X(WIDE, chunks_fixed, "chunks")                                                                                    \
    X(WIDE, chunks_zero, "chunks")                                                                                     \
    X(WIDE, chunks_first, "chunks")                                                                                    \
    X(WIDE, chunks_shifted, "chunks")                                                                                  \
    X(SHORT, fine, "bytes")                                                                                            \
    X(WIDE, bytes_seen, "bytes")                                                                                       \
    X(REAL, seconds_fine, "seconds")                                                                                   \
    X(TEXT, fine_reason, "")                                                                                           \
    X(WIDE, chunks_audited, "chunks")                                                                                  \
    X(REAL, seconds_audit, "seconds")                                                                                  \
    X(WIDE, bytes_frozen, "bytes")                                                                                     \
    X(WIDE, bytes_frozen_most, "bytes")                                                                                \
    X(REAL, restart_seconds, "seconds")                                                                                \
    X(WIDE, restart_reads, "reads")                                                                                    \
    X(WIDE, restart_bytes_read, "bytes")                                                                               \
    X(WIDE, restart_blocks, "blocks")                                                                                  \
    X(WIDE, restart_bytes_decoded, "bytes")                                                                            \
    X(WIDE, restart_rounds, "rounds")                                                                                  \
    X(REAL, restart_reading, "seconds")                                                                                \
    X(REAL, restart_checking, "seconds")                                                                               \
    X(REAL, restart_decoding, "seconds")                                                                               \
    X(REAL, restart_copying, "seconds")                                                                                \
    X(REAL, restart_waiting, "seconds")                                                                                \
    X(WIDE, restart_bytes_rebuilt, "bytes")                                                                            \
    X(WIDE, tiers_moved, "checkpoints")                                                                                \
    X(WIDE, tiers_passed, "checkpoints")                                                                               \
    X(WIDE, tiers_failed, "checkpoints")                                                                               \
    X(WIDE, tiers_bytes, "bytes")                                                                                      \
    X(REAL, tiers_seconds, "seconds")                                                                                  \
    X(WIDE, tiers_back, "checkpoints")                                                                                 \
    X(WIDE, tiers_healed, "checkpoints")

#endif
