/* This host, and waiting for what another one has made. */
#ifndef VV_HOST_H
#define VV_HOST_H

#include <stddef.h>

/* Some file systems show a new file to other hosts a little late: look so many times. */
#define VV_LOOKS 12
/* Before look 0, 1, ...: not at all, then 10 ms, each time twice as long, up to a second. */
void vv_wait_before(int look);
/* The name of this host, "?" if it has none. */
void vv_read_host(char *out, size_t capacity);

#endif
