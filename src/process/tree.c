#include "process/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/walk.h"

/* ---- who is below ---- */

struct kin {
    pid_t pid, parent;
};

/* The parent is the second word behind the name of the program, which may have brackets and spaces in it. */
static pid_t parent_of(pid_t pid) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    const char *end = strrchr(text, ')');
    int parent = -1;
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? (pid_t)parent : -1;
}

static int is_below(const struct kin *list, size_t count, pid_t pid, pid_t root) {
    for (size_t depth = 0; depth < count && pid > 0; depth++) {
        if (pid == root)
            return 1;
        size_t i = 0;
        while (i < count && list[i].pid != pid)
            i++;
        pid = i < count ? list[i].parent : -1;
    }
    return 0;
}

int process_signal_tree(pid_t root, int signal) {
    struct kin *list = NULL;
    size_t count = 0, capacity = 0;
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    int rc = folder ? 0 : -errno;

    while (rc == 0 && (entry = readdir(folder))) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (*end || pid <= 0)
            continue;
        rc = files_grow((void **)&list, &capacity, count, sizeof *list);
        if (rc == 0)
            list[count++] = (struct kin){(pid_t)pid, parent_of((pid_t)pid)};
    }
    for (size_t i = 0; i < count && rc == 0; i++)
        if (list[i].pid != root && is_below(list, count, list[i].pid, root))
            kill(list[i].pid, signal);
    if (rc == 0)
        kill(root, signal); /* last: the others would get another parent */
    if (folder)
        closedir(folder);
    free(list);
    return rc;
}

/* ---- the guard ---- */

/* Runs until the other end says that all is well, or is gone. criu has that end, too: it may stop the tree after the
 * death of the one that started it. */
static void guard(pid_t root, int pipe) {
    char byte = 0;
    ssize_t got;

    setsid();
    do
        got = read(pipe, &byte, 1);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        process_signal_tree(root, SIGCONT);
    _exit(0);
}

int process_hold(struct process_held *held, pid_t root, struct varve_error *error) {
    int ends[2];

    *held = (struct process_held){.root = root, .pipe = -1};
    if (pipe(ends) < 0) {
        snprintf(error->text, sizeof error->text, "cannot watch over process %d: %s", (int)root, strerror(errno));
        return -errno;
    }
    held->guard = fork();
    if (held->guard == 0) {
        close(ends[1]);
        guard(root, ends[0]);
    }
    close(ends[0]);
    held->pipe = ends[1];
    if (held->guard < 0) {
        int code = -errno;
        snprintf(error->text, sizeof error->text, "cannot watch over process %d: %s", (int)root, strerror(-code));
        close(held->pipe);
        return code;
    }
    return 0;
}

void process_let_go(struct process_held *held, int is_stored) {
    process_signal_tree(held->root, is_stored ? SIGKILL : SIGCONT);
    while (write(held->pipe, "!", 1) < 0 && errno == EINTR) {
    }
    close(held->pipe);
    while (waitpid(held->guard, NULL, 0) < 0 && errno == EINTR) {
    }
}
