/* Where criu asks before it lets its processes go on: a socket in the folder of its images. */
#ifndef PROCESS_GATE_H
#define PROCESS_GATE_H

#include <errno.h>
#include <stdio.h>
#include <sys/un.h>

#define PROCESS_GATE "gate.sock"
/* What is sent to the one that asks; the end of the connection means that the dump has failed. */
#define PROCESS_GO_ON "y"

static inline int process_name_socket(struct sockaddr_un *address, const char *folder, const char *name) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path, sizeof address->sun_path, "%s/%s", folder, name);
    return length >= 0 && (size_t)length < sizeof address->sun_path ? 0 : -ENAMETOOLONG;
}

#endif
