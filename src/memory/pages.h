/* Which pages of some memory were ever touched: the page table knows, without reading the bytes. */
#ifndef VV_PAGES_H
#define VV_PAGES_H

#include <stdint.h>

/* A range [offset, offset + length) of the memory. is_untouched: it certainly reads as zeros. Ranges come in ascending
 * order and tile the memory. Nonzero stops with that value. */
typedef int (*vv_pages_fn)(void *arg, uint64_t offset, uint64_t length, int is_untouched);

/* Where the page table cannot be looked at, or means something else (shared and file mappings), everything counts as
 * touched. */
int vv_pages_walk(const void *ptr, uint64_t size, vv_pages_fn fn, void *arg);
/* The same where one of our own userfaultfds has the memory: nobody else's fills it in. */
int vv_pages_walk_ours(const void *ptr, uint64_t size, vv_pages_fn fn, void *arg);
/* Both return -EFAULT when a page cannot be read although it is mapped: a guard page, memory that has failed. */

/* Can these pages, which are not present, be read? 0 or -EFAULT; brings them in. Addresses of whole pages. */
int vv_pages_ask(uint64_t start, uint64_t end);

/* Make [ptr, ptr + size) read as zeros, touching only what is not untouched already. 0 or -EFAULT. */
int vv_pages_zero(void *ptr, uint64_t size);

/* Let the kernel put pages behind memory that is about to be written: in one go that costs far less than page by page.
 * Changes no bytes; does nothing where the kernel cannot. */
void vv_pages_back(void *ptr, uint64_t size);

#endif
