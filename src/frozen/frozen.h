/* A frozen copy of this process: a child in which the kernel keeps all private memory as it was at one moment, page by
 * page, whatever the program does with its own. It copies what it is asked for into a small buffer that both share, and
 * gives the pages back at once, so that it keeps little. It needs no privilege.
 *
 * The program does not notice it: the child has no signal to send when it ends, so that neither SIGCHLD nor waitpid
 * (without __WALL and __WCLONE) tell of it, it keeps no descriptor open, and no handler of pthread_atfork runs. Only
 * who stops it (SIGSTOP to all processes of a group) makes the kernel send its parent a SIGCHLD, as of any child; it is
 * told to go on when it is missed. It ends when its parent ends or becomes another program (exec). What it costs: while
 * it is made, page tables are copied, and the first write of the program to each page afterwards takes longer, most
 * where the child still needs the page.
 *
 * Shared mappings are not frozen, memory with MADV_DONTFORK is absent from it and memory with MADV_WIPEONFORK is empty:
 * see inherited.h.
 *
 * One thread at a time uses a frozen copy. In a child of fork its parent's is of no use (-ECHILD) but for end and
 * destroy, which leave the parent's copy alone. */
#ifndef VV_FROZEN_H
#define VV_FROZEN_H

#include <stddef.h>
#include <stdint.h>

#define VV_FROZEN_BYTES ((size_t)1 << 20) /* of the buffer */
#define VV_FROZEN_RUNS 256u               /* at a time */
#define VV_FROZEN_KEPT 512u               /* ranges that may be asked for */

struct vv_frozen;

/* Memory [start, start + length). */
struct vv_frozen_range {
    uintptr_t start;
    size_t length;
};
struct vv_frozen_run {
    uintptr_t start;
    uint32_t length;
    uint32_t place; /* in the buffer */
};

/* 0, or -errno with a reason: what it promises is tried out with a copy of the whole process, once, and again after an
 * error that may pass. */
int vv_frozen_works(char *why, size_t capacity);
/* -errno of a process that is short of something just now. */
int vv_frozen_may_pass(int rc);

/* 0 or -errno. Nothing is frozen yet. */
int vv_frozen_create(struct vv_frozen **out);
void vv_frozen_destroy(struct vv_frozen *frozen); /* accepts NULL */

/* Freeze. Only these ranges (ascending, apart from each other, at most VV_FROZEN_KEPT) will be asked for: the child
 * drops the rest. 0 or -errno: nothing is frozen; vv_frozen_why_gone may tell more. */
int vv_frozen_begin(struct vv_frozen *frozen, const struct vv_frozen_range *kept, size_t count);
/* Copy runs (at most VV_FROZEN_RUNS, also empty ones) as they were to their places in the buffer. Whole pages in them
 * are kept, so that they can be asked for again, or given back; or the runs ascend, and what lies between them is given
 * back, too. 0, or -ECHILD: the child is gone; vv_frozen_why_gone tells how. */
enum vv_frozen_after { VV_FROZEN_KEEP, VV_FROZEN_GIVE, VV_FROZEN_GIVE_BETWEEN };
int vv_frozen_read(struct vv_frozen *frozen, const struct vv_frozen_run *runs, size_t count,
                   enum vv_frozen_after after);
const uint8_t *vv_frozen_buffer(const struct vv_frozen *frozen);
/* The child ends. May be called at any time. 0, or -ETIMEDOUT: it is still there after two seconds, and was left to
 * itself; it ends when it comes to look. */
int vv_frozen_end(struct vv_frozen *frozen);

int vv_frozen_pid(const struct vv_frozen *frozen); /* 0: nothing is frozen */
/* Of a child that is gone: how it ended, for people, and the run it was copying, -1 if none. */
const char *vv_frozen_why_gone(const struct vv_frozen *frozen);
int vv_frozen_fatal_run(const struct vv_frozen *frozen);
/* Did it touch memory that is not there (SIGSEGV, SIGBUS)? */
int vv_frozen_met_a_hole(const struct vv_frozen *frozen);
/* Bytes that only the child has: pages that the program has written since. Negative: unknown. Walks the page table. */
int64_t vv_frozen_memory(struct vv_frozen *frozen);

#endif
