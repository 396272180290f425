/* Is the process that wrote a claim still there? Only a certain "gone" counts; everything doubtful is unknown, and
 * then the heartbeat decides.
 *
 * Traps on the way: /proc may hide other users' processes (hidepid) or show another PID namespace; a time namespace
 * shifts the start times it shows; the name of a program may hold spaces and parentheses; and a process whose first
 * thread has exited looks like a zombie while its other threads write on. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_private.h"

/* The beginning of a file of /proc, with NUL; its length or -errno. */
static ssize_t read_proc(const char *path, char *out, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t size = read(fd, out, room - 1);
    int saved = errno;
    close(fd);
    if (size < 0)
        return -saved;
    out[size] = '\0';
    return size;
}

static void read_boot_id(uint8_t out[16]) {
    char text[64];
    size_t digits = 0;
    uint8_t id[16] = {0};
    memset(out, 0, 16);
    if (read_proc("/proc/sys/kernel/random/boot_id", text, sizeof text) < 0)
        return;
    for (const char *p = text; *p && digits < 32; p++) {
        const char *hex = "0123456789abcdef";
        const char *at = strchr(hex, *p);
        if (at)
            id[digits / 2] |= (uint8_t)((at - hex) << (digits % 2 ? 0 : 4)), digits++;
    }
    if (digits == 32)
        memcpy(out, id, 16);
}

struct proc_stat {
    char state;
    uint64_t threads;
    uint64_t start;
};

/* Fields 3, 20 and 22 of /proc/PID/stat, counted after the last parenthesis. */
static int read_stat(pid_t pid, struct proc_stat *out) {
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    ssize_t size = read_proc(path, text, sizeof text);
    if (size < 0)
        return (int)size;
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ')
        return -EINVAL;
    at += 2;
    out->state = *at;
    for (int field = 3; field < 22; field++) {
        if (field == 20)
            out->threads = strtoull(at, NULL, 10);
        at = strchr(at, ' ');
        if (!at)
            return -EINVAL;
        at++;
    }
    out->start = strtoull(at, NULL, 10);
    return 0;
}

/* Does /proc count processes and time as we do? */
static int is_proc_ours(void) {
    char text[256];
    ssize_t size = readlink("/proc/self", text, sizeof text - 1);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    if (strtoll(text, NULL, 10) != (long long)getpid())
        return 0;
    if (read_proc("/proc/self/timens_offsets", text, sizeof text) < 0)
        return 1; /* a kernel without time namespaces */
    const char *at = strstr(text, "boottime");
    long long seconds = 0, nanoseconds = 0;
    return !at || (sscanf(at, "boottime %lld %lld", &seconds, &nanoseconds) == 2 && seconds == 0 && nanoseconds == 0);
}

void vv_process_self(struct vv_claim *claim) {
    struct stat st;
    struct proc_stat self;
    claim->pid = (uint32_t)getpid();
    claim->pid_namespace = 0;
    claim->pid_start = 0;
    read_boot_id(claim->boot_id);
    if (gethostname(claim->host, sizeof claim->host) < 0)
        claim->host[0] = '\0';
    claim->host[sizeof claim->host - 1] = '\0';
    if (!is_proc_ours() || stat("/proc/self/ns/pid", &st) < 0 || read_stat(getpid(), &self) < 0)
        return;
    claim->pid_namespace = st.st_ino;
    claim->pid_start = self.start;
}

int vv_process_look(const struct vv_claim *claim) {
    static const uint8_t none[16];
    struct vv_claim self;
    struct proc_stat there;
    vv_process_self(&self);
    if (memcmp(claim->boot_id, none, 16) == 0 || memcmp(claim->boot_id, self.boot_id, 16) != 0 ||
        claim->pid_namespace == 0 || claim->pid_namespace != self.pid_namespace || claim->pid_start == 0 ||
        claim->pid == 0 || claim->pid > INT32_MAX)
        return VV_PROCESS_UNKNOWN;
    if (kill((pid_t)claim->pid, 0) < 0 && errno == ESRCH)
        return VV_PROCESS_GONE;
    if (read_stat((pid_t)claim->pid, &there) < 0)
        return VV_PROCESS_UNKNOWN;
    if (there.start != claim->pid_start)
        return VV_PROCESS_GONE;
    int is_zombie = there.state == 'Z' || there.state == 'X';
    return is_zombie && there.threads <= 1 ? VV_PROCESS_GONE : VV_PROCESS_THERE;
}
