#include "process/tree.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/error.h"
#include "files/walk.h"

/* ---- who is below ---- */

struct kin {
    pid_t pid, parent;
    uint64_t start;
    char state;
};

/* Words of /proc/PID/stat behind the name of the program, which may have brackets and spaces in it. */
static int read_kin(pid_t pid, struct kin *out) {
    char path[32], text[1024];
    int parent = -1;

    *out = (struct kin){.pid = pid, .parent = -1};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    const char *end = strrchr(text, ')');
    if (!end || sscanf(end + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
                       &out->state, &parent, &out->start) != 3)
        return -ESRCH;
    out->parent = (pid_t)parent;
    return 0;
}

/* The root that the process lies below, or is itself; 0: none. */
static pid_t root_of(const struct kin *list, size_t count, pid_t pid, const pid_t *roots, size_t root_count) {
    for (size_t depth = 0; depth < count && pid > 0; depth++) {
        size_t i = 0;
        for (size_t j = 0; j < root_count; j++)
            if (roots[j] == pid)
                return pid;
        while (i < count && list[i].pid != pid)
            i++;
        pid = i < count ? list[i].parent : 0;
    }
    return 0;
}

static int list_all(struct kin **list, size_t *count) {
    size_t capacity = 0;
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    int rc = folder ? 0 : -errno;

    while (rc == 0 && (entry = readdir(folder))) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (*end || pid <= 0)
            continue;
        rc = files_grow((void **)list, &capacity, *count, sizeof **list);
        if (rc == 0 && read_kin((pid_t)pid, &(*list)[*count]) == 0)
            ++*count;
    }
    if (folder)
        closedir(folder);
    return rc;
}

/* The roots are the last: the others would get other parents. */
int process_members(const pid_t *roots, size_t root_count, struct process_member **members, size_t *count) {
    struct kin *list = NULL, self;
    size_t all = 0;
    int rc = list_all(&list, &all);

    *members = rc == 0 ? calloc(all + root_count, sizeof **members) : NULL;
    *count = 0;
    rc = rc == 0 && !*members ? -ENOMEM : rc;
    for (size_t i = 0; i < all && rc == 0; i++) {
        pid_t root = root_of(list, all, list[i].pid, roots, root_count);
        if (root > 0 && root != list[i].pid)
            (*members)[(*count)++] = (struct process_member){list[i].pid, list[i].start};
    }
    for (size_t i = 0; i < root_count && rc == 0; i++)
        if (read_kin(roots[i], &self) == 0)
            (*members)[(*count)++] = (struct process_member){roots[i], self.start};
    free(list);
    return rc;
}

/* Above it, or the same once more. */
static int check_root(const struct kin *list, size_t all, const pid_t *roots, size_t count, size_t which,
                      struct varve_error *error) {
    struct kin self;

    if (read_kin(roots[which], &self) < 0)
        return files_error(error, -EINVAL, "there is no process %d", (int)roots[which]);
    if (self.state == 'Z')
        return files_error(error, -EINVAL, "process %d has ended; its parent has not waited for it yet",
                           (int)roots[which]);
    pid_t above = root_of(list, all, self.parent, roots, count);
    for (size_t i = 0; i < which; i++)
        above = roots[i] == roots[which] ? roots[i] : above;
    if (above > 0)
        return files_error(error, -EINVAL, "process %d belongs to the tree of process %d: name that one alone, once",
                           (int)roots[which], (int)above);
    return 0;
}

int process_check_roots(const pid_t *roots, size_t count, struct varve_error *error) {
    struct kin *list = NULL;
    size_t all = 0;
    int rc = list_all(&list, &all);

    if (rc < 0)
        files_error(error, rc, "cannot look at the processes: %s", strerror(-rc));
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = check_root(list, all, roots, count, i, error);
    free(list);
    return rc;
}

/* One that has ended meanwhile is no error. */
static int signal_members(const struct process_member *members, size_t count, int number) {
    struct kin now;
    int rc = 0;

    for (size_t i = 0; i < count; i++)
        if (read_kin(members[i].pid, &now) == 0 && now.start == members[i].start && kill(members[i].pid, number) < 0 &&
            errno != ESRCH)
            rc = -errno;
    return rc;
}

/* ---- the guard ---- */

static int receive_all(int fd, void *buffer, size_t size) {
    ssize_t got = recv(fd, buffer, size, MSG_WAITALL);
    while (got < 0 && errno == EINTR)
        got = recv(fd, buffer, size, MSG_WAITALL);
    return got == (ssize_t)size;
}

/* Waits to be told who is stopped, then what becomes of them. If the other end is gone they go on; criu has that end,
 * too, since it may stop them after the death of the one that started it. */
static void guard(const pid_t *roots, size_t root_count, int socket) {
    struct process_member *members = NULL;
    uint64_t count = 0;
    char is_stored = 0;

    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (receive_all(socket, &count, sizeof count))
        members = calloc(count + 1, sizeof *members);
    if (members && receive_all(socket, members, count * sizeof *members)) {
        is_stored = receive_all(socket, &is_stored, 1) && is_stored;
        _exit(signal_members(members, count, is_stored ? SIGKILL : SIGCONT) < 0);
    }
    size_t found = 0; /* never told, or without memory: whoever still waits for the answer does it once more */
    if (process_members(roots, root_count, &members, &found) == 0)
        signal_members(members, found, SIGCONT);
    _exit(1);
}

int process_hold(struct process_held *held, const pid_t *roots, size_t count, struct varve_error *error) {
    int ends[2];

    *held = (struct process_held){.roots = roots, .root_count = count, .socket = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        return files_system_error(error, "watch over", "the process");
    held->guard = fork();
    if (held->guard == 0) {
        close(ends[1]);
        guard(roots, count, ends[0]);
    }
    close(ends[0]);
    held->socket = ends[1];
    if (held->guard < 0) {
        int code = files_system_error(error, "watch over", "the process");
        close(held->socket);
        return code;
    }
    return 0;
}

static int send_all(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return -errno;
        at += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

int process_hold_members(struct process_held *held, struct varve_error *error) {
    int rc = process_members(held->roots, held->root_count, &held->members, &held->count);
    uint64_t count = held->count;

    rc = rc ? rc : send_all(held->socket, &count, sizeof count);
    rc = rc ? rc : send_all(held->socket, held->members, held->count * sizeof *held->members);
    return rc ? files_error(error, rc, "cannot watch over process %d: %s", (int)held->roots[0], strerror(-rc)) : 0;
}

static int cannot_signal(const pid_t *roots, int code, struct varve_error *error) {
    return files_error(error, code, "cannot signal process %d, or one that belongs to it: %s", (int)roots[0],
                       strerror(-code));
}

int process_let_go(struct process_held *held, int is_stored, struct varve_error *error) {
    char command = (char)is_stored;
    int status = -1, rc = 0;

    if (is_stored)
        send_all(held->socket, &command, 1);
    close(held->socket);
    while (waitpid(held->guard, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) { /* somebody has killed the guard, or it had no memory */
        if (!held->members)
            rc = process_members(held->roots, held->root_count, &held->members, &held->count);
        rc = rc ? rc : signal_members(held->members, held->count, is_stored ? SIGKILL : SIGCONT);
    }
    free(held->members);
    return rc ? cannot_signal(held->roots, rc, error) : 0;
}

int process_signal(const pid_t *roots, size_t count, int number, struct varve_error *error) {
    struct process_member *members = NULL;
    size_t found = 0;
    int rc = process_members(roots, count, &members, &found);

    rc = rc ? rc : signal_members(members, found, number);
    free(members);
    return rc ? cannot_signal(roots, rc, error) : 0;
}
