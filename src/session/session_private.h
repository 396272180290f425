/* What the files of session/ share. */
#ifndef VV_SESSION_PRIVATE_H
#define VV_SESSION_PRIVATE_H

#include "session/session.h"

/* ---- request.c ---- */
/* All ranks have written their parts: the record, or the end of the attempt. Collective. */
void vv_request_finish(struct vv_session *session);
/* The last checkpoint is in the first store: is it in the tier that durable=N asks for? Waits for it. Collective. */
int vv_request_settle(struct vv_session *session, struct varve_error *error);

/* ---- need.c ---- */
/* Rank 0: the job leaves, and was told so. */
void vv_session_leave_word(struct vv_session *session);

/* ---- background.c: the thread that writes while the program goes on ---- */
int vv_background_open(struct vv_session *session, struct varve_error *error);
void vv_background_close(struct vv_session *session); /* what is in flight has landed; accepts a session without */
void vv_background_start(struct vv_session *session); /* session->save is prepared */
/* The capture belongs to the caller's thread alone, until it starts a flight or gives it back. */
void vv_background_occupy(struct vv_session *session);
void vv_background_rest(struct vv_session *session);
/* Nothing is in flight afterwards. Collective when something was. */
void vv_background_land(struct vv_session *session);
/* The request's outcome is known afterwards. Its upkeep may still be in flight: what touches more than the request
 * lands first. Collective like land. */
void vv_background_wait(struct vv_session *session);
/* With the lock: the outcome is known. */
void vv_background_tell(struct vv_session *session);
/* For what the caller's thread says to the others, also while something is in flight. */
struct varve_comm *vv_comm_of_caller(const struct vv_session *session);
/* With the lock: what this rank has written, and a call of all ranks is to commit; NULL: nothing. */
const struct vv_save *vv_background_written(const struct vv_session *session);
/* 1 if wait would not wait, on any rank, or an error of the group. Collective. */
int vv_background_test(struct vv_session *session);
/* The background thread keeps off the capture between these. */
void vv_background_lock(struct vv_session *session);
void vv_background_unlock(struct vv_session *session);
/* With the lock: there is something to watch. */
void vv_background_sample(struct vv_session *session);

/* ---- restart.c ---- */
/* What the last restart cost. */
void vv_restarted_tell(const struct vv_session *session, struct vv_details *out);

/* ---- heap.c: allocations without a name. Each rank for itself, in the caller's thread, unless said ---- */
int vv_heap_open(struct vv_session *session, struct varve_error *error);
void vv_heap_close(struct vv_session *session);
struct vv_heap_block {
    char *name; /* of its region */
    void *ptr;
    size_t size;
    const char *why; /* it cannot be known again, or NULL */
    int is_searched; /* for addresses */
};
/* Those that are live now and lie in no region that the program has named; there is a libvarve_preload, and regions
 * that move have told where they are. -ENOTSUP if one lies in such a region in part. */
int vv_heap_take(const struct vv_heap *heap, const struct vv_regions *regions, struct vv_heap *out,
                 struct varve_error *error);
void vv_heap_replace(struct vv_heap *heap, const struct vv_heap *now);
struct vv_heap_block *vv_heap_find(const struct vv_heap *heap, const char *name);
int vv_heap_tell_ranges(void *arg, struct varve_memory *out);
int vv_heap_tell_pointers(void *arg, struct varve_memory *out);
/* At varve_restart: these are live. */
void vv_heap_remember(struct vv_session *session);
/* Before a checkpoint, once: others are live than at varve_restart. */
void vv_heap_tell_others(struct vv_session *session);
/* Before a checkpoint: -ENOTSUP if one that is stored for the first time holds addresses. */
int vv_heap_search(struct vv_session *session, struct varve_error *error);
/* After a restart: the same of all that came back, if all came back on this rank. Collective. */
int vv_heap_came_back(struct vv_session *session, int is_all, struct varve_error *error);

/* Ranges of addresses, as they are stored. */
#define VV_RANGES_MOST 1023
struct vv_ranges {
    uint64_t count;
    struct {
        uint64_t begin, end;
    } list[VV_RANGES_MOST]; /* ascending */
    uint64_t spare;
};
int vv_ranges_has(const struct vv_ranges *ranges, uint64_t word);

/* ---- fixed.c: address-true mode. As those of heap.c, which call them ---- */
#define VV_FIXED_HOOK "varve_preload_fixed_1" /* preload/allocator.c */
struct vv_fixed *vv_fixed_create(void);
void vv_fixed_destroy(struct vv_fixed *fixed);
/* How the heap gets another size; of region VV_HEAP_ARENA. */
int vv_fixed_resize(uint64_t size);
/* At varve_restart: these words point to memory that does not come back. */
void vv_fixed_remember(struct vv_heap *heap);
/* Before a checkpoint: -ENOTSUP if there are others. */
int vv_fixed_search(struct vv_heap *heap, struct varve_error *error);
/* After a restart: such words have the values of this process again. */
int vv_fixed_came_back(struct vv_heap *heap, const struct vv_regions *regions, struct varve_error *error);

/* ---- heap_pointers.c: where static variables of the program point ---- */
size_t vv_pointers_size(void);
void vv_pointers_take(const struct vv_heap *heap, struct vv_pointers *out);
/* -ENOTSUP if a variable points elsewhere now. */
int vv_pointers_compare(const struct vv_heap *heap, const struct vv_pointers *stored, struct varve_error *error);

/* ---- protect.c ---- */
/* Regions that move are asked where they are. In the caller's thread; nothing is in flight. 0, or why not. */
int vv_ask_regions(struct vv_session *session, struct varve_error *error);
/* Before the first checkpoint, once: whoever forgets `varve run`, or has only small arrays, would hear of it when
 * nothing comes back. Other ranks may have what this one has not. */
void vv_tell_protected(struct vv_session *session);
/* Rank 0: this is the index of arrays from now on, and a region; an empty one is none. Nothing is in flight that could
 * still need the old one. */
int vv_keep_index(struct vv_session *session, struct vv_buf *made, struct varve_error *error);

/* ---- array_index.c ---- */
/* Is what this rank says of its arrays in the index already? Regions that move have been asked. */
int vv_index_is_told(struct vv_session *session);
/* Some rank says something new: rank 0 gets the index of what all say. Collective; to be agreed upon. */
int vv_index_gather(struct vv_session *session, struct vv_buf *made, struct varve_error *error);

#endif
