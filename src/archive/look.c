#include "archive/look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive/dmtcp.h"
#include "archive/tar.h"
#include "process/segments.h"

#define SECONDS 90
#define LISTS_MOST 1000u /* of one folder: as many files are open at once */

struct looking {
    const struct files_list *files;
    uint32_t number;
    int folder, fd;
    enum files_kind kind;
};

static int read_at(void *arg, uint64_t offset, void *buffer, size_t size) {
    return pread(*(int *)arg, buffer, size, (off_t)offset) == (ssize_t)size ? 0 : -EIO;
}

static int is_pages(const char *name) {
    size_t length = strlen(name);
    return strncmp(name, "pages-", 6) == 0 && length > 10 && strcmp(name + length - 4, ".img") == 0;
}

enum files_kind archive_kind_of(const void *start, size_t size) {
    if (size >= ARCHIVE_BLOCK && archive_is_tar(start))
        return FILES_TAR;
    return size >= ARCHIVE_DMTCP_START && archive_is_dmtcp(start) ? FILES_DMTCP : FILES_PLAIN;
}

static enum files_kind kind_of(const struct files_file *file, int fd) {
    uint8_t start[ARCHIVE_BLOCK];
    if (is_pages(archive_base(file->path)))
        return FILES_CRIU;
    ssize_t got = pread(fd, start, sizeof start, 0);
    return got < 0 ? FILES_PLAIN : archive_kind_of(start, (size_t)got);
}

static int is_beside(const char *path, const char *other) {
    size_t length = (size_t)(archive_base(path) - path);
    return (size_t)(archive_base(other) - other) == length && strncmp(path, other, length) == 0;
}

/* ---- images in a folder ---- */

static int open_list(const struct looking *looking, const struct files_file *file, struct process_image *image) {
    *image = (struct process_image){.name = (char *)archive_base(file->path), .size = file->size};
    image->fd = openat(looking->folder, file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return image->fd < 0 ? -errno : 0;
}

static int look_at_images(const struct looking *looking, struct files_found *found) {
    const struct files_list *files = looking->files;
    const struct files_file *pages = &files->list[looking->number];
    struct process_image list[LISTS_MOST], image = {.name = (char *)archive_base(pages->path), .size = pages->size};
    struct process_images images = {.list = list};
    int rc = 0;
    image.fd = looking->fd;
    for (size_t i = 0; i < files->count && rc == 0; i++) {
        const char *path = files->list[i].path;
        if (!is_beside(pages->path, path) || !archive_is_list(archive_base(path)))
            continue;
        rc = images.count == LISTS_MOST ? -E2BIG : open_list(looking, &files->list[i], &list[images.count]);
        images.count += rc == 0;
    }
    return rc ? rc : process_segments(&images, &image, found); /* this process ends, and what is open with it */
}

/* ---- members of an archive ---- */

/* The bytes of a member, less those of the variables from `first` on: these are found in the order of the file. */
static int add_rest(struct files_found *found, size_t first, const struct archive_member *member) {
    static const struct files_variable like = {.type = VARVE_BYTES};
    uint64_t at = member->offset, end = member->offset + member->size;
    size_t count = found->extent_count, begin = first < found->count ? found->variables[first].first : count;
    int rc = files_found_variable(found, member->name, &like);
    for (size_t i = begin; i < count && rc == 0; i++) {
        struct files_extent taken = found->extents[i];
        rc = files_found_extent(found, at, taken.offset - at);
        at = taken.offset + taken.length;
    }
    return rc ? rc : files_found_extent(found, at, end - at);
}

/* What criu's lists say about an image of pages becomes part of what is known of the archive. */
static int add_segments(struct files_found *found, const struct files_found *segments,
                        const struct archive_member *member) {
    int rc = 0;
    for (size_t i = 0; i < segments->count && rc == 0; i++) {
        const struct files_variable *variable = &segments->variables[i];
        char name[FILES_NAME_MOST + 1];
        snprintf(name, sizeof name, "%.900s/%.100s", member->name, variable->name);
        rc = files_found_variable(found, name, variable);
        for (size_t j = variable->first; j < variable->first + variable->count && rc == 0; j++)
            rc = files_found_extent(found, member->offset + segments->extents[j].offset, segments->extents[j].length);
    }
    return rc;
}

static int add_pages(struct files_found *found, const struct archive_members *members,
                     const struct archive_member *member, int fd) {
    struct process_image image = {
        .name = (char *)archive_base(member->name), .fd = fd, .size = member->size, .offset = member->offset};
    struct process_images images = {.list = calloc(members->count + 1, sizeof image)};
    struct files_found segments = {.count = 0};
    size_t first = found->count;
    int rc = images.list ? 0 : -ENOMEM;
    for (size_t i = 0; i < members->count && rc == 0; i++) {
        const struct archive_member *other = &members->list[i];
        if (is_beside(member->name, other->name) && archive_is_list(archive_base(other->name)))
            images.list[images.count++] = (struct process_image){
                .name = (char *)archive_base(other->name), .fd = fd, .size = other->size, .offset = other->offset};
    }
    rc = rc ? rc : process_segments(&images, &image, &segments);
    rc = rc ? rc : add_segments(found, &segments, member);
    rc = rc ? rc : add_rest(found, first, member);
    files_found_clear(&segments);
    free(images.list);
    return rc;
}

static int look_at_archive(const struct looking *looking, struct files_found *found) {
    struct archive_members members = {.count = 0};
    int fd = looking->fd;
    int walked = archive_tar(read_at, &fd, 0, looking->files->list[looking->number].size, &members), rc = 0;
    for (size_t i = 0; i < members.count && rc == 0; i++)
        rc = is_pages(archive_base(members.list[i].name)) ? add_pages(found, &members, &members.list[i], fd)
                                                          : add_rest(found, found->count, &members.list[i]);
    archive_members_clear(&members);
    return walked ? walked : rc;
}

/* ---- both ---- */

static int look(void *arg, int answer) {
    struct looking *looking = arg;
    struct files_found found = {.count = 0};
    int rc = 0;
    if (looking->kind == FILES_CRIU)
        rc = look_at_images(looking, &found);
    else if (looking->kind == FILES_TAR)
        rc = look_at_archive(looking, &found);
    else
        rc = archive_dmtcp(read_at, &looking->fd, looking->files->list[looking->number].size, &found);
    return files_found_write(&found, answer) ? -EIO : rc;
}

int archive_look(const struct files_list *files, uint32_t number, int folder, int fd, struct files_found *found,
                 char note[FILES_NOTE_CAPACITY]) {
    struct looking looking = {files, number, folder, fd, kind_of(&files->list[number], fd)};
    note[0] = '\0';
    if (looking.kind == FILES_PLAIN)
        return 0;
    return files_look_by(look, &looking, files->list[number].size, looking.kind, SECONDS, found, note);
}
