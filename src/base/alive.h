/* Is another process of this machine still there? */
#ifndef VV_ALIVE_H
#define VV_ALIVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Names a process for as long as the machine runs: a number alone is soon another's. */
struct vv_alive_id {
    uint64_t pid;
    uint64_t start;     /* when it began, as /proc tells it; 0: not known */
    uint64_t pid_space; /* in which numbers count; 0: not known */
};

enum vv_alive { VV_ALIVE_UNKNOWN, VV_ALIVE_YES, VV_ALIVE_NO };

/* The calling process. */
void vv_alive_self(struct vv_alive_id *out);
/* Only a certain "no" counts as no. The process ran on this machine since it was started. */
enum vv_alive vv_alive_look(const struct vv_alive_id *id);
/* The beginning of a file of /proc, with NUL; its length or -errno. */
ssize_t vv_read_proc(const char *path, char *out, size_t capacity);

#endif
