/* A job whose ranks hold parts of one array, lists and more, and the ranks that it comes back on. */
#ifndef MOVED_H
#define MOVED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#include "group.h"

#define DIMS_MOST 3
#define LIST 1000 /* elements of the list, of three words each; of the list of bytes as well */

/* A global array, cut into a grid of blocks. A grid that does not divide it gives uneven blocks; more blocks than
 * elements, empty ones. Other shapes are drawn: a seed always gives the same. */
struct cut {
    enum { EVEN, UNEVEN, BOXES } shape; /* UNEVEN: a grid that is cut anywhere; BOXES: cut in two again and again */
    uint64_t seed;
    unsigned dims;
    uint64_t size[DIMS_MOST];
    uint32_t grid[DIMS_MOST];  /* their product is the number of ranks */
    uint32_t cycle[DIMS_MOST]; /* dealt out in blocks of so many elements, one to each; 0: one block for each */
};

enum step { SAVE, RESTART, GO_ON };
struct plan {
    enum step step;
    struct cut cut;
    const char *settings;
    int is_told;        /* what the regions are that are no arrays */
    int code;           /* that is expected of the restart */
    const char *says;   /* and of its error, on some rank */
    int is_copied;      /* each block is there twice: the second half of the ranks has those of the first */
    int is_torn;        /* but with other values */
    int is_even;        /* the list is shared evenly */
    int is_kept;        /* the data is saved again as it is */
    int has_extra;      /* a region is protected that was never stored */
    const char *chosen; /* only this region is asked for */
    unsigned flags;     /* of varve_restart_regions */
    int is_begun;       /* with varve_restart_begin */
    int is_different;   /* what is said to be everywhere the same is not */
    int has_hole;       /* the last block is not stored */
    int is_signed;      /* the array is of another type */
    int is_alone;       /* rank 0 calls varve_restart, the others ask for one region */
    int has_gap;        /* the last rank leaves its last row out */
    int has_overlap;    /* and all but the first have one more in front */
    int is_extra_own;   /* the region that was never stored is by rank */
    int is_short;       /* together the ranks want one element of the list less than there are */
};

struct rank {
    const struct plan *plan;
    struct varve_comm *comm;
    struct varve_session *session;
    struct varve_array array;
    uint64_t count;
    uint64_t *field;
    uint64_t list_first, list_count;
    uint64_t list[LIST][3];
    uint8_t bytes[LIST];
    uint64_t everywhere[600], own[300], dropped[100];
};

extern char moved_folder[128];
/* In memory that all ranks share: */
extern uint32_t *moved_ranks;     /* of the newest checkpoint */
extern _Atomic int *moved_looked; /* of how many ranks a rank has read the descriptions, at most */
extern _Atomic int *moved_warned; /* of elements that nobody wants any more, 1, or several ranks, 2 */

/* ---- outside ---- */

int moved_setup(void **state);
int moved_teardown(void **state);
struct cut moved_cut_of(unsigned dims, uint32_t a, uint32_t b, uint32_t c);
struct cut moved_drawn_cut(struct cut cut, int shape, uint64_t seed);
/* One step of the job; fails the test when a rank does. */
void moved_run(const struct plan *plan);
/* `varve verify` finds nothing. */
void moved_check_store(void);
/* Every pair of grids of one array, each from a store of its own. */
void moved_turn(const struct cut *cuts, size_t count, const char *settings);

/* ---- in the ranks ---- */

void moved_cut_out(struct rank *rank);
void moved_share_list(struct rank *rank);
void moved_open_session(struct rank *rank);
void moved_protect(struct rank *rank);
void moved_save(struct rank *rank, int64_t version, uint64_t salt);
void moved_restart(struct rank *rank);
void moved_check(struct rank *rank, uint64_t salt, uint32_t ranks_before);

#endif
