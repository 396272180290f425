/* What memory/ keeps of one protected piece of memory from checkpoint to checkpoint: a byte per chunk.
 *
 * Chunks of 4 KiB are counted from the region's start, pages from the page it starts in. Where the start is not the
 * start of a page, a page holds parts of two chunks and a chunk lies in two pages. Only whole pages inside the region
 * are ever watched or held; the partial ones at its ends hold other people's data, too. */
#ifndef VV_TRACKED_RANGE_H
#define VV_TRACKED_RANGE_H

#include <stddef.h>
#include <stdint.h>

#define VV_PAGE 4096u

struct vv_tracker;

/* Bits of a chunk's byte. */
enum {
    VV_CHUNK_STATE = 7,       /* one of enum vv_chunk_state */
    VV_CHUNK_ACCESS = 7 << 3, /* how it was first written in this epoch: one of enum vv_access, shifted by 3 */
    VV_CHUNK_CHANGED =
        1 << 6, /* belongs to the next checkpoint whatever its tracker says: carried over from one that failed */
    VV_PAGE_ARMED = 1 << 7 /* of the page with this number: its first write is noticed by the guard */
};
enum vv_chunk_state { VV_IDLE, VV_SCHEDULED, VV_IN_PROGRESS, VV_STAGED, VV_PROCESSED };
/* In the words of the paper; NOT: not written (seen) in this epoch. */
enum vv_access { VV_ACCESS_NOT, VV_ACCESS_WAIT, VV_ACCESS_COW, VV_ACCESS_AVOIDED, VV_ACCESS_AFTER };

struct vv_watch {
    uint8_t *ptr;
    uint64_t size;
    unsigned flags;             /* VARVE_DEVICE_WRITES and the others of varve_protect_flags */
    struct vv_tracker *tracker; /* never NULL once it is added */
    void *notes;                /* its tracker's own, while it is attached */
    uint8_t *bytes;             /* chunks + 1 of them; pages cost nothing until touched */
    uint8_t *marks; /* one per 4096 of those bytes: something was put there; the others need not be looked at */
    uint64_t chunks;
    int is_plain;   /* private anonymous memory, and no other watch lies there: may be watched and held */
    int is_doubted; /* its tracker was found to lie, or a page cannot be read: all of it is looked at, and never held */
    int was_lost;   /* the program took the memory away under a capture: never held again */
    unsigned untracked;         /* epochs for which it is not worth watching */
    void *user;                 /* the caller's, to find its own data from a piece */
    struct vv_watch *next_left; /* the caller's, for a list of those whose memory is gone */
    uint32_t first;             /* number of its first chunk among all of the capture; set when one begins */
};

/* The whole pages inside: first address and length, 0 if there are none. */
uintptr_t vv_watch_inside(const struct vv_watch *watch, size_t *length_out);

#endif
