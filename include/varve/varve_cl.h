/* Checkpoints of OpenCL buffers; link with -lvarve_cl -lvarve (pkg-config varve-cl).
 *
 *     varve_protect_cl(s, "field", queue, buffer, 0, bytes, 0);
 *
 * From then on it is a region like any other: varve_checkpoint finds on the device what changed and fetches only that,
 * varve_restart writes it back. The device is used inside these calls only, with the queue given here: what was queued
 * before is finished first; other queues must not write the buffer meanwhile. Needs OpenCL 1.2 with 32-bit atomics, and
 * memory on the device beside the buffer: less than a quarter of it with chunks of 128 bytes, and 100 MB to work in. */
#ifndef VARVE_CL_H
#define VARVE_CL_H

#include <varve/varve.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Protect `bytes` bytes of a buffer from `offset` on (a multiple of 64) under a name. chunk: in pieces of how many
 * bytes changes are looked for: 32 to 4096, a power of two, or 0 for the default. Queue and buffer are retained until
 * the region is unprotected or the session is closed. Not collective. -ENODEV when the device lacks what is needed;
 * varve_session_error tells what. */
VARVE_API int varve_protect_cl(struct varve_session *session, const char *region, cl_command_queue queue, cl_mem buffer,
                               uint64_t offset, uint64_t bytes, uint32_t chunk);

#ifdef __cplusplus
}
#endif
#endif
