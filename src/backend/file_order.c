/* File systems on which one sync of a folder is enough for those above it.
 *
 * By the letter, the sync of a folder makes its own entries durable, and each folder above needs one of its own. But
 * where all changes of names go through one log, in the order in which they were made, what is in the log before an
 * entry is durable with it. A folder was made before anything in it, by us or by any other process of this host: so
 * once an entry is durable, the way to it is.
 *
 * ext4: jbd2 commits whole transactions, in order; a fast commit has all changes of names since the last whole one.
 * Without a journal, its fsync looks for parents that are new and writes them, too. xfs: the log is forced up to the
 * folder's last change, and what comes earlier in it is written before. tests/power cuts the power of both. Of other
 * file systems this is not known, and of those with several servers it is not true: there every folder is synced.
 * ext2 has the number of ext4, but no log: the table of mounts tells them apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "backend/backend_file_private.h"

#define EXT_MAGIC 0xEF53ul
#define XFS_MAGIC 0x58465342ul

/* "36 35 8:1 / /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw": blanks within names are written as \040. */
static int is_line_of(const char *line, dev_t device, const char *type) {
    unsigned upper, lower;
    const char *rest = strstr(line, " - ");
    size_t size = strlen(type);
    return rest && sscanf(line, "%*u %*u %u:%u", &upper, &lower) == 2 && upper == major(device) &&
           lower == minor(device) && strncmp(rest + 3, type, size) == 0 && rest[3 + size] == ' ';
}

static int is_mounted_as(dev_t device, const char *type) {
    FILE *table = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t room = 0;
    int found = 0;
    while (table && !found && getline(&line, &room, table) > 0)
        found = is_line_of(line, device, type);
    free(line);
    if (table)
        fclose(table);
    return found;
}

void vv_file_order_init(struct file_backend *file) {
    struct statfs fs;
    struct stat st;
    file->is_ordered = 0;
    if (file->tuning.each_folder || fstatfs(file->root_fd, &fs) < 0 || fstat(file->root_fd, &st) < 0)
        return;
    unsigned long magic = (unsigned long)fs.f_type;
    file->ordered_device = st.st_dev;
    file->is_ordered = magic == XFS_MAGIC || (magic == EXT_MAGIC && is_mounted_as(st.st_dev, "ext4"));
}

/* Something else may be mounted below the root. */
int vv_file_is_ordered(const struct file_backend *file, int fd) {
    struct stat st;
    return file->is_ordered && fstat(fd, &st) == 0 && st.st_dev == file->ordered_device;
}
