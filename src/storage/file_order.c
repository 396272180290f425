/* File systems on which one sync of a folder is enough for those above it.
 *
 * By the letter, the sync of a folder makes its own entries durable, and each folder above needs one of its own. But
 * where all changes of names go through one log, in the order in which they were made, what is in the log before an
 * entry is durable with it. A folder was made before anything in it, by us or by any other process of this host: so
 * once an entry is durable, the way to it is.
 *
 * ext4: the sync of a folder commits the whole transaction, also with fast commits. Without a journal it does not, so
 * there must be one. xfs: the log is forced up to the folder's last change, and what comes earlier in it is written
 * before. tests/power cuts the power of both. Of other file systems this is not known, and of those with several
 * servers it is not true: there every folder is synced. Their numbers do not tell: ext2 has that of ext4, and 9p hands
 * on that of its server. So the table of mounts is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "storage/file_private.h"

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
    size_t capacity = 0;
    int found = 0;
    while (table && !found && getline(&line, &capacity, table) > 0)
        found = is_line_of(line, device, type);
    free(line);
    if (table)
        fclose(table);
    return found;
}

/* A device of ext4 has this file, and the name of a process in it if there is a journal. What cannot be read is taken
 * for none. */
static int has_journal(dev_t device) {
    char path[64], target[256], task[32] = "";
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u", major(device), minor(device));
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size <= 0)
        return 0;
    target[size] = 0;
    const char *name = strrchr(target, '/');
    char file[320];
    snprintf(file, sizeof file, "/sys/fs/ext4/%s/journal_task", name ? name + 1 : target);
    FILE *attribute = fopen(file, "re");
    int is_read = attribute && fgets(task, sizeof task, attribute) != NULL;
    if (attribute)
        fclose(attribute);
    return is_read && task[0] >= '0' && task[0] <= '9';
}

void vv_file_order_init(struct file_backend *file) {
    struct statfs fs;
    struct stat st;
    file->is_ordered = 0;
    if (file->tuning.each_folder || fstatfs(file->root_fd, &fs) < 0 || fstat(file->root_fd, &st) < 0)
        return;
    unsigned long magic = (unsigned long)fs.f_type;
    file->ordered_device = st.st_dev;
    file->is_ordered = (magic == XFS_MAGIC && is_mounted_as(st.st_dev, "xfs")) ||
                       (magic == EXT_MAGIC && is_mounted_as(st.st_dev, "ext4") && has_journal(st.st_dev));
}

/* Something else may be mounted below the root. */
int vv_file_is_ordered(const struct file_backend *file, int fd) {
    struct stat st;
    return file->is_ordered && fstat(fd, &st) == 0 && st.st_dev == file->ordered_device;
}
