/* Traps on the way: /proc may hide other users' processes (hidepid) or show another PID namespace; a time namespace
 * shifts the start times it shows; the name of a program may hold spaces and parentheses; and a process whose first
 * thread has exited looks like a zombie while its other threads go on. */
#include "base/alive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct proc_stat {
    char state;
    uint64_t threads;
    uint64_t start;
};

ssize_t vv_read_proc(const char *path, char *out, size_t capacity) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t size = read(fd, out, capacity - 1);
    int saved = errno;
    close(fd);
    if (size < 0)
        return -saved;
    out[size] = '\0';
    return size;
}

/* Fields 3, 20 and 22 of /proc/PID/stat, counted after the last parenthesis. */
static int read_stat(pid_t pid, struct proc_stat *out) {
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    ssize_t size = vv_read_proc(path, text, sizeof text);
    if (size < 0)
        return (int)size;
    const char *at = strrchr(text, ')');
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
    if (vv_read_proc("/proc/self/timens_offsets", text, sizeof text) < 0)
        return 1; /* a kernel without time namespaces */
    const char *at = strstr(text, "boottime");
    long long seconds = 0, nanoseconds = 0;
    return !at || (sscanf(at, "boottime %lld %lld", &seconds, &nanoseconds) == 2 && seconds == 0 && nanoseconds == 0);
}

void vv_alive_self(struct vv_alive_id *out) {
    struct stat st;
    struct proc_stat self;
    *out = (struct vv_alive_id){.pid = (uint64_t)getpid()};
    if (!is_proc_ours() || stat("/proc/self/ns/pid", &st) < 0 || read_stat(getpid(), &self) < 0)
        return;
    out->start = self.start;
    out->pid_space = st.st_ino;
}

#define FIRST_PID_SPACE UINT64_C(0xEFFFFFFC) /* PROC_PID_INIT_INO: the namespace that contains all others */

static int is_no_process(pid_t pid) {
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* Is a process certainly not in this PID namespace? It is when it has gone away; also when we may look and see another
 * one. */
static int is_outside(const char *number, uint64_t space) {
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%.20s/ns/pid", number);
    if (stat(path, &st) == 0)
        return st.st_ino != space;
    return (errno == ENOENT || errno == ESRCH) && is_no_process((pid_t)strtol(number, NULL, 10));
}

/* A /proc that hides processes (hidepid) hides those that one may not look into. So all are shown to whoever may look
 * into process 1, and to whoever may not and yet sees it. */
static int is_proc_whole(void) {
    struct stat st;
    if (stat("/proc/1", &st) < 0)
        return 0;
    return stat("/proc/1/ns/pid", &st) == 0 || errno == EACCES || errno == EPERM;
}

/* A PID namespace has a first process as long as it has any. So if /proc shows every process of the machine, and none
 * is in that namespace, everything in it is dead: a container that was killed. */
static int is_space_gone(uint64_t space, uint64_t own) {
    if (space == 0 || own != FIRST_PID_SPACE || !is_proc_whole())
        return 0;
    DIR *folder = opendir("/proc");
    if (!folder)
        return 0;
    int is_gone = 1;
    struct dirent *entry;
    errno = 0;
    while (is_gone && (entry = readdir(folder))) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1") != 0)
            is_gone = is_outside(entry->d_name, space);
        errno = 0;
    }
    is_gone = is_gone && errno == 0;
    closedir(folder);
    return is_gone;
}

enum vv_alive vv_alive_look(const struct vv_alive_id *id) {
    struct vv_alive_id self;
    struct proc_stat there;
    vv_alive_self(&self);
    if (id->pid_space != self.pid_space && is_space_gone(id->pid_space, self.pid_space))
        return VV_ALIVE_NO;
    if (id->pid_space == 0 || id->pid_space != self.pid_space || id->start == 0 || id->pid == 0 || id->pid > INT32_MAX)
        return VV_ALIVE_UNKNOWN;
    if (is_no_process((pid_t)id->pid))
        return VV_ALIVE_NO;
    if (read_stat((pid_t)id->pid, &there) < 0) /* hidden, or its parent has just taken its end */
        return is_no_process((pid_t)id->pid) ? VV_ALIVE_NO : VV_ALIVE_UNKNOWN;
    if (there.start != id->start)
        return VV_ALIVE_NO;
    int is_zombie = there.state == 'Z' || there.state == 'X';
    return is_zombie && there.threads <= 1 ? VV_ALIVE_NO : VV_ALIVE_YES;
}
