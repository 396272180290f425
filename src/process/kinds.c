#include "process/kinds.h"

#include <varve/varve.h>

static const struct process_kind heap = {"heap", VARVE_U64};     /* pointers, sizes and numbers of 8 bytes */
static const struct process_kind stack = {"stack", VARVE_U64};   /* the same */
static const struct process_kind code = {"code", VARVE_U8};      /* instructions */
static const struct process_kind file = {"file", VARVE_U64};     /* what a program or library has written: pointers */
static const struct process_kind memory = {"memory", VARVE_U64}; /* large blocks of malloc, arenas, thread stacks */

const struct process_kind *process_kind_of(int is_heap, int is_stack, int is_file, int is_code) {
    if (is_heap)
        return &heap;
    if (is_stack)
        return &stack;
    if (is_file)
        return is_code ? &code : &file;
    return &memory;
}
