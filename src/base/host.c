#include "base/host.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

void vv_wait_before(int look) {
    long ms = look == 0 ? 0 : look > 7 ? 1000 : 5L << look;
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    if (ms > 0)
        nanosleep(&time, NULL);
}

void vv_read_host(char *out, size_t capacity) {
    if (gethostname(out, capacity - 1) < 0)
        snprintf(out, capacity, "?");
    out[capacity - 1] = '\0';
}
