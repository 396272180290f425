/* What the kernel tells of this process as a whole. */
#ifndef VV_PROCESS_H
#define VV_PROCESS_H

#include <stdint.h>

/* Bytes pinned for devices (VmPin: RDMA, registered buffers of io_uring): those may write them past the page table,
 * where no tracker sees it and no guard stops it. -ENOTSUP: the kernel does not tell, or /proc is not there. Drivers
 * that pin without counting (some GPUs, VFIO, XPMEM) are not in it. */
int64_t vv_process_pinned(void);
/* Pages of this process that are there; negative: unknown. */
int64_t vv_process_resident(void);
/* Bytes that may still be used: by the system, or, if that is less, by the control group of this process and those
 * around it. Files that could be dropped count as free. Negative: unknown. */
int64_t vv_process_memory_left(void);
/* Grows when the kernel makes a huge page of small ones, or small ones of a huge page, anywhere in the system.
 * Negative: unknown. */
int64_t vv_process_huge_changes(void);
/* 1 if the kernel may merge equal pages of this process (KSM); before Linux 5.19, of any process. */
int vv_process_is_merged(void);

#endif
