#include "memory/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number behind a word at the start of a line. */
static int find_in_lines(char *text, const char *word, int64_t *out) {
    size_t length = strlen(word);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        if (strncmp(line, word, length) != 0)
            continue;
        *out = strtoll(line + length, NULL, 10);
        return 1;
    }
    return 0;
}

/* 0 or -errno. Read piece by piece, since a line before it may be long (the groups of a user); opened anew each time,
 * since a descriptor that a child of fork inherits speaks of its parent. */
static int find_number(const char *path, const char *word, int64_t *out) {
    char text[4096];
    size_t kept = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC), is_found = 0;
    if (fd < 0)
        return -errno;
    while (!is_found) {
        ssize_t got = read(fd, text + kept, sizeof text - 1 - kept);
        if (got <= 0)
            break;
        text[kept + (size_t)got] = 0;
        is_found = find_in_lines(text, word, out);
        const char *last = strrchr(text, '\n'); /* what follows is the beginning of a line */
        last = last ? last + 1 : text;
        kept = strlen(last);
        kept = kept < sizeof text / 2 ? kept : 0; /* no line of ours is so long */
        memmove(text, last, kept);
    }
    close(fd);
    return is_found ? 0 : -ENOTSUP;
}

int64_t vv_process_pinned(void) {
    int64_t kib = 0;
    return find_number("/proc/self/status", "VmPin:", &kib) == 0 ? kib * 1024 : -ENOTSUP;
}

int64_t vv_process_resident(void) {
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    const char *second = strchr(text, ' ');
    return second ? strtoll(second, NULL, 10) : -ENOTSUP;
}

/* ---- memory that is left ---- */

/* Of a control group; INT64_MAX: it has no bound, or does not tell. */
static int64_t left_in_group(const char *folder, int is_second) {
    char path[4352];
    int64_t most = 0, used = 0, files = 0;
    snprintf(path, sizeof path, "%s/%s", folder, is_second ? "memory.max" : "memory.limit_in_bytes");
    if (find_number(path, "", &most) != 0 || most <= 0) /* "max" */
        return INT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, is_second ? "memory.current" : "memory.usage_in_bytes");
    if (find_number(path, "", &used) != 0)
        return INT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (find_number(path, is_second ? "inactive_file " : "total_inactive_file ", &files) != 0)
        files = 0;
    return used - files < most ? most - used + files : 0;
}

/* A line of /proc/self/cgroup: "0::/path" of the second version, "5:memory:/path" of the first. */
static int64_t left_in_groups(char *line) {
    char folder[4224];
    int is_second = strncmp(line, "0::", 3) == 0;
    char *path = is_second ? line + 2 : strstr(line, ":memory:");
    int64_t least = INT64_MAX;
    if (!path)
        return least;
    path = strchr(path, '/');
    while (path && *path) {
        int64_t left;
        snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", is_second ? "" : "/memory", path);
        left = left_in_group(folder, is_second);
        least = left < least ? left : least;
        char *last = strrchr(path, '/');
        if (last == path && path[1]) {
            path[1] = 0; /* "/" itself comes last */
            continue;
        }
        *last = 0;
    }
    return least;
}

int64_t vv_process_memory_left(void) {
    char line[4096];
    int64_t kib = 0, least = -ENOTSUP;
    if (find_number("/proc/meminfo", "MemAvailable:", &kib) == 0)
        least = kib * 1024;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        int64_t left = left_in_groups(line);
        if (left < INT64_MAX && (least < 0 || left < least))
            least = left;
    }
    if (file)
        fclose(file);
    return least;
}

/* Both: a collapse is counted when it begins, and may end much later. */
int64_t vv_process_huge_changes(void) {
    int64_t made = 0, split = 0;
    if (find_number("/proc/vmstat", "thp_collapse_alloc ", &made) == 0 &&
        find_number("/proc/vmstat", "thp_split_pmd ", &split) == 0)
        return made + split;
    return access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0 || errno != ENOENT ? -ENOTSUP : 0;
}

int vv_process_is_merged(void) {
    int64_t count = 0;
    if (find_number("/proc/self/ksm_stat", "ksm_rmap_items ", &count) == 0)
        return count > 0;
    if (find_number("/proc/self/ksm_merging_pages", "", &count) == 0)
        return count > 0;
    return find_number("/sys/kernel/mm/ksm/pages_shared", "", &count) == 0 && count > 0;
}
