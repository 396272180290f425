#include "process/live.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "files/error.h"
#include "files/walk.h"

#define PAGE 4096u
#define BATCH 8192u /* entries of the page table that are read together */
#define IS_FILE (UINT64_C(1) << 61)
#define IS_SWAPPED (UINT64_C(1) << 62)
#define IS_PRESENT (UINT64_C(1) << 63)

static int gone(struct varve_error *error, pid_t pid) {
    return files_error(error, -ESRCH, "process %d has ended", (int)pid);
}

static FILE *open_of(pid_t pid, const char *what) {
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    return fopen(path, "re");
}

/* Also root looks at its own only: this is for people who wonder about their program. */
static int check_owner(pid_t pid, struct varve_error *error) {
    char line[256];
    unsigned real = 0;
    int is_told = 0;
    FILE *file = open_of(pid, "status");

    if (!file)
        return files_error(error, -ESRCH, "there is no process %d", (int)pid);
    while (!is_told && fgets(line, sizeof line, file))
        is_told = sscanf(line, "Uid: %u", &real) == 1;
    fclose(file);
    if (!is_told)
        return gone(error, pid);
    if (real == getuid())
        return 0;
    return files_error(error, -EPERM, "process %d belongs to user %u, not to you; only its owner may look into it",
                       (int)pid, real);
}

/* ---- what there is ---- */

static int add_run(struct process_live *live, uint64_t address) {
    struct process_part *part = &live->parts[live->part_count - 1];
    struct process_run *last = part->count ? &live->runs[live->run_count - 1] : NULL;

    if (last && last->address + last->length == address) {
        last->length += PAGE;
    } else {
        int rc = files_grow((void **)&live->runs, &live->run_capacity, live->run_count, sizeof *live->runs);
        if (rc < 0)
            return rc;
        live->runs[live->run_count++] = (struct process_run){address, PAGE, part->length};
        part->count++;
    }
    part->length += PAGE;
    live->bytes += PAGE;
    return 0;
}

/* Pages of a file that nobody has written are not the process's own. */
static int add_pages(struct process_live *live, int pagemap, uint64_t from, uint64_t to, int is_shared) {
    uint64_t entries[BATCH];
    int rc = 0;

    while (from < to && rc == 0) {
        uint64_t count = (to - from) / PAGE < BATCH ? (to - from) / PAGE : BATCH;
        ssize_t got = pread(pagemap, entries, count * sizeof *entries, (off_t)(from / PAGE * sizeof *entries));
        if (got < (ssize_t)sizeof *entries)
            return 0; /* the mapping has gone */
        count = (uint64_t)got / sizeof *entries;
        for (uint64_t i = 0; i < count && rc == 0; i++)
            if (entries[i] & (IS_PRESENT | IS_SWAPPED) && (is_shared || !(entries[i] & IS_FILE)))
                rc = add_run(live, from + i * PAGE);
        from += count * PAGE;
    }
    return rc;
}

/* A line of maps. Memory that is shared by name is a file; without one it is the processes' own. */
static int add_mapping(struct process_live *live, int pagemap, char *line) {
    uint64_t from, to;
    char flags[5], *path;
    int at = 0;

    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &from, &to, flags, &at) < 3)
        return 0;
    path = line + (at ? at : (int)strlen(line));
    path[strcspn(path, "\n")] = '\0';
    int is_shared = flags[3] == 's';
    int is_nameless =
        !strncmp(path, "/dev/zero", 9) || !strncmp(path, "/SYSV", 5) || !strncmp(path, "/memfd:", 7) || !*path;
    if (!strncmp(path, "[v", 2) || !strncmp(flags, "---", 3) || (is_shared && !is_nameless) || from >= to)
        return 0;
    int rc = files_grow((void **)&live->parts, &live->part_capacity, live->part_count, sizeof *live->parts);
    if (rc < 0)
        return rc;
    struct process_part *part = &live->parts[live->part_count++];
    *part = (struct process_part){.start = from, .first = live->run_count};
    part->kind = process_kind_of(!strcmp(path, "[heap]"), !strcmp(path, "[stack]"), path[0] == '/' && !is_nameless,
                                 flags[2] == 'x');
    snprintf(part->name, sizeof part->name, "%s@%" PRIx64, part->kind->name, from);
    rc = add_pages(live, pagemap, from, to, is_shared);
    if (live->parts[live->part_count - 1].length == 0)
        live->part_count--;
    return rc;
}

static int refused(struct varve_error *error, pid_t pid, int code) {
    if (code != -EACCES && code != -EPERM)
        return code == -ESRCH ? gone(error, pid) : files_error(error, code, "process %d cannot be read", (int)pid);
    return files_error(error, code,
                       "the kernel does not let you look into process %d: sysctl kernel.yama.ptrace_scope=0 allows it",
                       (int)pid);
}

int process_live_open(struct process_live *live, pid_t pid, struct varve_error *error) {
    char path[40], *line = NULL;
    size_t room = 0;

    *live = (struct process_live){.pid = pid};
    int rc = check_owner(pid, error);
    if (rc < 0)
        return rc;
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    int pagemap = open(path, O_RDONLY | O_CLOEXEC);
    FILE *maps = pagemap < 0 ? NULL : open_of(pid, "maps");
    if (!maps)
        rc = refused(error, pid, -errno);
    while (rc == 0 && getline(&line, &room, maps) > 0)
        rc = add_mapping(live, pagemap, line);
    if (rc == 0 && live->bytes == 0)
        rc = files_error(error, -ESRCH, "process %d has no memory of its own: it has ended, or is the kernel's",
                         (int)pid);
    free(line);
    if (maps)
        fclose(maps);
    if (pagemap >= 0)
        close(pagemap);
    return rc;
}

void process_live_close(struct process_live *live) {
    free(live->parts);
    free(live->runs);
    *live = (struct process_live){.pid = live->pid};
}

/* ---- reading ---- */

static const struct process_run *run_at(const struct process_live *live, size_t part, uint64_t offset) {
    const struct process_run *runs = live->runs + live->parts[part].first;
    size_t low = 0, high = live->parts[part].count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle].before <= offset)
            low = middle;
        else
            high = middle;
    }
    return &runs[low];
}

uint64_t process_live_place(const struct process_live *live, size_t part, uint64_t offset) {
    const struct process_run *run = run_at(live, part, offset);
    return run->address + (offset - run->before) - live->parts[part].start;
}

/* Up to where it can be read; what has gone since it was listed is passed over page by page. */
static int read_run(struct process_live *live, uint64_t address, uint8_t *out, size_t size, struct varve_error *error) {
    while (size > 0) {
        struct iovec to = {out, size}, from = {(void *)(uintptr_t)address, size}; // NOLINT
        ssize_t got = process_vm_readv(live->pid, &to, 1, &from, 1, 0);
        if (got < 0 && errno != EFAULT && errno != EINTR)
            return refused(error, live->pid, -errno);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            got = size < PAGE ? (ssize_t)size : (ssize_t)PAGE;
            memset(out, 0, (size_t)got);
            live->lost += (uint64_t)got;
        }
        address += (uint64_t)got;
        out += got;
        size -= (size_t)got;
    }
    return 0;
}

int process_live_read(struct process_live *live, size_t part, uint64_t offset, void *buffer, size_t size,
                      struct varve_error *error) {
    uint8_t *out = buffer;
    int rc = 0;

    while (size > 0 && rc == 0) {
        const struct process_run *run = run_at(live, part, offset);
        uint64_t left = run->length - (offset - run->before);
        size_t now = left < size ? (size_t)left : size;
        rc = read_run(live, run->address + (offset - run->before), out, now, error);
        out += now;
        offset += now;
        size -= now;
    }
    return rc;
}
