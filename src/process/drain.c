#include "process/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/error.h"
#include "process/tree.h"

#define PAGE 4096u
#define RESERVE (UINT64_C(128) << 20)   /* for images that are no pages, and the ends of pieces */
#define OTHERWISE (UINT64_C(256) << 20) /* where the kernel does not say what is free */

/* ---- pieces ---- */

/* Whole pages, as long as more may come. */
static uint64_t waiting(const struct process_image *image) {
    uint64_t bytes = image->size - image->taken;
    return image->is_ended ? bytes : bytes & ~(uint64_t)(PAGE - 1);
}

/* The last one while it has something: few long pieces. Then the one that has most. */
static struct process_image *choose_image(struct process_drain *drain) {
    struct process_source *sources = drain->receiver->sources;
    struct process_image *best = NULL;

    if (drain->image < sources[drain->source].images.count)
        best = &sources[drain->source].images.list[drain->image];
    if (best && waiting(best) > 0)
        return best;
    for (size_t i = 0; i < drain->receiver->count; i++)
        for (size_t j = 0; j < sources[i].images.count; j++)
            if (waiting(&sources[i].images.list[j]) > (best ? waiting(best) : 0)) {
                best = &sources[i].images.list[j];
                drain->source = i;
                drain->image = j;
            }
    return best && waiting(best) > 0 ? best : NULL;
}

static int read_all(int fd, uint64_t offset, char *out, uint64_t size) {
    while (size > 0) {
        ssize_t got = pread(fd, out, (size_t)size, (off_t)offset);
        if (got == 0 || (got < 0 && errno != EINTR))
            return got == 0 ? -EIO : -errno;
        out += got > 0 ? got : 0;
        offset += got > 0 ? (uint64_t)got : 0;
        size -= got > 0 ? (uint64_t)got : 0;
    }
    return 0;
}

/* The end of an image is filled up to a page with zeros: the next piece begins at a page again. */
static int take_piece(struct process_drain *drain, struct process_image *image, char *buffer, uint64_t size,
                      struct varve_error *error) {
    uint64_t length = waiting(image) < size ? waiting(image) : size;
    struct files_piece piece = {image->taken, drain->at, length, image->number, 0};

    int rc = read_all(image->fd, image->taken, buffer, length);
    if (rc == 0 && fallocate(image->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)image->taken,
                             (off_t)((length + PAGE - 1) & ~(uint64_t)(PAGE - 1))) < 0)
        rc = -errno;
    rc = rc ? rc : files_plan_piece(drain->plan, &piece);
    if (rc < 0)
        return files_error(error, rc, "cannot take %s out of memory: %s", image->name, strerror(-rc));
    uint64_t end = (length + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    memset(buffer + length, 0, (size_t)(end - length));
    image->taken += length;
    drain->taken += length;
    drain->at += end;
    return 0;
}

/* As much as may wait in memory: criu runs ahead of the storage that far. */
static int receive_more(struct process_drain *drain, struct varve_error *error) {
    int rc = drain->is_over ? 0 : 1;

    while (rc > 0 && (drain->receiver->bytes - drain->taken < drain->memory || !choose_image(drain)))
        rc = process_receive(drain->receiver, error);
    drain->is_over = rc == 0;
    return rc < 0 ? rc : 0;
}

int process_drain_read(struct process_drain *drain, uint64_t offset, void *buffer, size_t size,
                       struct varve_error *error) {
    char *out = buffer;
    uint64_t end = offset + size;
    struct process_image *image = NULL;
    int rc = offset == drain->at && size % PAGE == 0 ? 0 : -ESPIPE;

    if (rc < 0)
        return files_error(error, rc,
                           "what criu has sent is gone and cannot be stored once more; give it more --memory");
    do {
        rc = receive_more(drain, error);
        image = rc == 0 && drain->at < end ? choose_image(drain) : NULL;
        rc = image ? take_piece(drain, image, out + (drain->at - offset), end - drain->at, error) : rc;
    } while (rc == 0 && image);
    if (rc == 0 && drain->at < end) {
        memset(out + (drain->at - offset), 0, (size_t)(end - drain->at));
        drain->at = end;
    }
    return rc;
}

/* ---- how much it may be ---- */

/* "NAME:   12 kB" of a file of /proc. */
static uint64_t read_kilobytes(FILE *file, const char *const names[]) {
    char line[256];
    uint64_t sum = 0, value;

    while (file && fgets(line, sizeof line, file))
        for (size_t i = 0; names[i]; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0 &&
                sscanf(line + strlen(names[i]), ": %" SCNu64, &value) == 1)
                sum += value << 10;
    return sum;
}

/* Shared memory is stored as a whole, also what the process has not touched. */
static uint64_t read_shared(FILE *file) {
    char line[512], mode[8];
    uint64_t sum = 0, start, end;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, mode) == 3 && mode[3] == 's')
            sum += end - start;
    return sum;
}

static uint64_t bytes_of(pid_t pid) {
    static const char *const names[] = {"VmRSS", "VmSwap", "HugetlbPages", NULL};
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    uint64_t bytes = read_kilobytes(status, names) + read_shared(maps);
    if (status)
        fclose(status);
    if (maps)
        fclose(maps);
    return bytes;
}

uint64_t process_bytes_most(const pid_t *roots, size_t count) {
    struct process_member *members = NULL;
    size_t found = 0;
    uint64_t bytes = 0;

    if (process_members(roots, count, &members, &found) == 0)
        for (size_t i = 0; i < found; i++)
            bytes += bytes_of(members[i].pid);
    free(members);
    return bytes + bytes / 8 + RESERVE;
}

uint64_t process_memory_share(void) {
    static const char *const names[] = {"MemAvailable", NULL};
    FILE *file = fopen("/proc/meminfo", "re");
    uint64_t bytes = read_kilobytes(file, names);

    if (file)
        fclose(file);
    return bytes ? bytes / 2 : OTHERWISE;
}
