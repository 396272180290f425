/* Images that do not fit into memory, as one run of bytes: what has come of them is taken out of memory, so that more
 * can come, while criu holds its processes. They lie in it as they came, each piece at a page. */
#ifndef PROCESS_DRAIN_H
#define PROCESS_DRAIN_H

#include "files/plan.h"
#include "process/images.h"

struct process_drain {
    struct process_receiver *receiver;
    struct files_plan *plan; /* gets the pieces, all of its first region; their files are the numbers of images */
    uint64_t memory;         /* so much may wait in memory */
    uint64_t taken;          /* of what was received */
    uint64_t at;             /* bytes of the run that were given */
    size_t source, image;    /* the last that something was taken of */
    int is_over;             /* all was received and taken */
};

/* The next bytes of the run, zeros behind its end. size is of whole pages. 0 or a negative code, as of process_receive.
 */
int process_drain_read(struct process_drain *drain, uint64_t offset, void *buffer, size_t size,
                       struct varve_error *error);

/* More bytes than criu will send for these processes and all below them; they are stopped. By what the kernel says
 * about their memory, with a reserve. */
uint64_t process_bytes_most(const pid_t *roots, size_t count);
/* Half of what could be had without pushing others out of memory. */
uint64_t process_memory_share(void);

#endif
