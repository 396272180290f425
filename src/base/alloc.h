/* Memory for the whole library: checked sizes, and allocations that tests can make fail.
 *
 * In builds with fault points the k-th allocation fails when VARVE_FAIL_ALLOC=k or vv_alloc_fail_at(k) says so. */
#ifndef VV_ALLOC_H
#define VV_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *vv_malloc(size_t size);
void *vv_calloc(size_t count, size_t size); /* NULL when count * size overflows */
void *vv_realloc(void *ptr, size_t size);
void *vv_aligned(size_t size, size_t alignment); /* free with vv_free */
char *vv_strdup(const char *text);
void vv_free(void *ptr); /* accepts NULL */

/* Room for one more in a list that has `count` of its `capacity` places in use; it grows by half, and begins with
 * `first` places. 0 or -ENOMEM, and then the list is as it was. */
#define VV_GROW_FROM(list, count, capacity, first) vv_grow(&(list), &(capacity), (count), sizeof *(list), (first))
#define VV_GROW(list, count, capacity) VV_GROW_FROM(list, count, capacity, 16)
int vv_grow(void *list, size_t *capacity, size_t count, size_t size, size_t first); /* list: the address of a pointer */

/* Zeroed pages that cost nothing until touched; NULL on failure. */
void *vv_pages_map(size_t size);
void vv_pages_unmap(void *ptr, size_t size); /* accepts NULL */
/* The same for a program that asked for them: its memory does not count as ours. */
void *vv_pages_map_for_program(size_t size);

/* ---- how much there is ----
 *
 * Of the whole process: what was allocated here, without what was mapped and never touched. Looking at it walks the
 * page table of all mappings, so it is done where most is in use, not at every allocation. */

/* Look how much there is now, and remember the most. */
uint64_t vv_memory_note(void);
uint64_t vv_memory_most(void); /* of all that were seen, since the process began */

/* Make the k-th allocation from now fail (1 is the next), once; 0 switches off. Only in builds with fault points. */
void vv_alloc_fail_at(uint64_t k);
/* Allocations since the last vv_alloc_fail_at. */
uint64_t vv_alloc_count(void);

#endif
