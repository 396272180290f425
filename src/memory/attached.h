/* All memory that guards of the mprotect kind watch in this process, for the handler of SIGSEGV: it must find whose
 * page it is without a lock that the interrupted thread might hold, and without allocating.
 *
 * Readers come and go by counting themselves; whoever changes the list puts a new one in its place, and frees the old
 * one when the readers it had are gone. Counters and locks lie in a page that the kernel wipes in a child of fork,
 * where the threads that held them do not exist. */
#ifndef VV_ATTACHED_H
#define VV_ATTACHED_H

#include <stddef.h>
#include <stdint.h>

struct vv_guard;

struct vv_attached {
    uintptr_t start, end;
    struct vv_guard *guard;
    uint32_t owner;  /* mark of the process that attached it */
    uint64_t *armed; /* pagebits; under the guard's lock */
};

/* Once per process, before anything else. 0 or -errno. */
int vv_attached_begin(void);
/* Differs between a process and its children of fork; the same in a child that shares the memory (vfork). Never 0. */
uint32_t vv_attached_mark(void);

/* -EEXIST: a part of it is attached already. */
int vv_attached_add(struct vv_guard *guard, uintptr_t start, size_t length);
/* Returns when no handler looks at it any more; not under a lock that a guard's callback takes. The caller frees it
 * with vv_attached_free. NULL: not there. */
struct vv_attached *vv_attached_remove(struct vv_guard *guard, uintptr_t start, size_t length);
void vv_attached_free(struct vv_attached *attached);
/* Any one of this guard's; NULL: none. */
struct vv_attached *vv_attached_any(struct vv_guard *guard);

/* Returns when every handler that is looking at something now has done with it. The same care as with remove. */
void vv_attached_settle(void);

/* In handlers, and by a guard for its own memory. What was found stays valid until leave. */
unsigned vv_attached_enter(void);
void vv_attached_leave(unsigned ticket);
struct vv_attached *vv_attached_find(uintptr_t address);
/* Something armed lies where nothing is mapped any more: the program moved or unmapped it. */
int vv_attached_is_torn(void);
/* Was attached not long ago. */
int vv_attached_was(uintptr_t address);

/* A word that is bumped whenever something is disarmed, to wait for that. */
uint32_t vv_attached_word(void);
void vv_attached_wait(uint32_t word, uintptr_t page, long timeout_ns);
void vv_attached_wake(uintptr_t start, uintptr_t end);

/* 1 if nothing between is unmapped. */
int vv_attached_is_mapped(uintptr_t start, uintptr_t end);

#endif
