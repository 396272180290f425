/* varve-gate: the action script of `criu dump`. When all images are written, and the processes still stand, it waits
 * until `varve dump` lets them go on. A program of its own, since criu runs it four times, once while the processes
 * stand still: with the libraries of varve it would take 30 ms to start. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process/gate.h"

static int wait_at(const char *folder) {
    struct sockaddr_un address;
    char answer = 0;

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || process_name_socket(&address, folder, PROCESS_GATE) < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return 1;
    ssize_t got = read(fd, &answer, 1);
    while (got < 0 && errno == EINTR)
        got = read(fd, &answer, 1);
    close(fd);
    return got == 1 && answer == PROCESS_GO_ON[0] ? 0 : 1;
}

int main(void) {
    const char *action = secure_getenv("CRTOOLS_SCRIPT_ACTION"), *folder = secure_getenv("CRTOOLS_IMAGE_DIR");

    if (!action || !folder)
        return 1;
    return strcmp(action, "post-dump") == 0 ? wait_at(folder) : 0;
}
