#include "files/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define AHEAD (8u << 20)

void files_source_open(struct files_source *source, const struct files_plan *plan, int folder, const int *fds) {
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    *source = (struct files_source){.plan = plan, .folder = folder, .fds = fds, .fd = -1};
    source->is_dropping = folder >= 0 && plan->files.bytes > memory / 4;
}

void files_source_close(struct files_source *source) {
    if (source->fd >= 0)
        close(source->fd);
    source->fd = -1;
}

static int is_open(const struct files_source *source, size_t number) {
    return source->fds && source->fds[number] >= 0;
}

static int open_file(struct files_source *source, uint32_t number) {
    const struct files_file *file = &source->plan->files.list[number];
    struct stat now;
    if (source->fd >= 0 && source->file == number)
        return 0;
    files_source_close(source);
    int fd = is_open(source, number)
                 ? fcntl(source->fds[number], F_DUPFD_CLOEXEC, 0)
                 : openat(source->folder, file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return files_system_error(&source->error, "open", file->path);
    source->fd = fd;
    source->file = number;
    source->ahead = 0;
    if (fstat(fd, &now) < 0)
        return files_system_error(&source->error, "look at", file->path);
    return files_is_same(file, &now) ? 0 : files_changed(&source->error, file->path);
}

/* Files are read in long strides: let the disk run ahead, and do not push everything else out of memory. */
static void advise(struct files_source *source, uint64_t offset, uint64_t size) {
    uint64_t end = offset + size;
    if (end > source->ahead || offset + 2 * AHEAD < source->ahead) {
        posix_fadvise(source->fd, (off_t)end, AHEAD, POSIX_FADV_WILLNEED);
        source->ahead = end + AHEAD / 2;
    }
    if (source->is_dropping)
        posix_fadvise(source->fd, (off_t)offset, (off_t)size, POSIX_FADV_DONTNEED);
}

static int read_piece(struct files_source *source, uint32_t number, uint64_t offset, char *out, size_t size) {
    const struct files_file *file = &source->plan->files.list[number];
    int rc = open_file(source, number);
    uint64_t at = offset, end = offset + size;
    while (rc == 0 && at < end) {
        ssize_t got = pread(source->fd, out, (size_t)(end - at), (off_t)at);
        if (got == 0)
            return files_changed(&source->error, file->path);
        if (got < 0 && errno != EINTR)
            return files_system_error(&source->error, "read", file->path);
        out += got > 0 ? got : 0;
        at += got > 0 ? (uint64_t)got : 0;
    }
    if (rc == 0 && size >= FILES_GRANULE)
        advise(source, offset, size);
    return rc;
}

/* The first piece of the region that ends behind the offset. */
static size_t find_piece(const struct files_plan *plan, const struct files_region *region, uint64_t offset) {
    size_t low = region->first, high = region->first + region->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (plan->pieces[middle].region_offset + plan->pieces[middle].length <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int files_source_read(struct files_source *source, size_t number, uint64_t offset, void *buffer, size_t size) {
    const struct files_plan *plan = source->plan;
    const struct files_region *region = &plan->regions[number];
    char *out = buffer;
    uint64_t end = offset + size;
    int rc = 0;
    for (size_t i = find_piece(plan, region, offset); offset < end && rc == 0; i++) {
        const struct files_piece *piece = i < region->first + region->count ? &plan->pieces[i] : NULL;
        uint64_t start = piece && piece->region_offset < end ? piece->region_offset : end;
        if (start > offset) {
            memset(out, 0, (size_t)(start - offset));
            out += start - offset;
            offset = start;
        }
        if (offset == end)
            break;
        uint64_t inside = offset - piece->region_offset;
        uint64_t part = piece->length - inside < end - offset ? piece->length - inside : end - offset;
        rc = read_piece(source, piece->file, piece->file_offset + inside, out, (size_t)part);
        out += part;
        offset += part;
    }
    return rc;
}

int files_source_check(struct files_source *source) {
    for (size_t i = 0; i < source->plan->files.count; i++) {
        const struct files_file *file = &source->plan->files.list[i];
        struct stat now;
        if (is_open(source, i) ? fstat(source->fds[i], &now)
                               : fstatat(source->folder, file->path, &now, AT_SYMLINK_NOFOLLOW))
            return errno == ENOENT ? files_changed(&source->error, file->path)
                                   : files_system_error(&source->error, "look at", file->path);
        if (!files_is_same(file, &now))
            return files_changed(&source->error, file->path);
    }
    return 0;
}
