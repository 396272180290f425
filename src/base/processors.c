/* What /proc/stat and the scheduler tell. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/processors.h"
#include "base/thread.h"

#define LEAST_NS 200000000u /* the system counts in hundredths of a second */

static uint64_t idle_ticks(const cpu_set_t *allowed) {
    FILE *file = fopen("/proc/stat", "re");
    char line[512];
    uint64_t sum = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned cpu;
        unsigned long long idle, waiting;
        if (sscanf(line, "cpu%u %*u %*u %*u %llu %llu", &cpu, &idle, &waiting) == 3 && cpu < CPU_SETSIZE &&
            CPU_ISSET(cpu, allowed))
            sum += idle + waiting;
        if (strncmp(line, "cpu", 3) != 0)
            break;
    }
    if (file)
        fclose(file);
    return sum;
}

void vv_processors_look(struct vv_processors *out) {
    cpu_set_t allowed;
    long ticks = sysconf(_SC_CLK_TCK);
    memset(out, 0, sizeof *out);
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        out->count = (unsigned)CPU_COUNT(&allowed);
    if (out->count == 0)
        out->count = 1;
    if (ticks > 0)
        out->idle_ns = idle_ticks(&allowed) * (1000000000u / (uint64_t)ticks);
    out->now_ns = vv_clock_ns();
}

double vv_processors_idle(const struct vv_processors *before, const struct vv_processors *after) {
    if (before->idle_ns == 0 || after->now_ns < before->now_ns + LEAST_NS || after->idle_ns < before->idle_ns)
        return -1;
    double idle = (double)(after->idle_ns - before->idle_ns) / (double)(after->now_ns - before->now_ns);
    return idle < after->count ? idle : after->count;
}
