/* The reserve: a few small files in the store that hold room for the moment when there is none.
 *
 * On a file system without a free byte, or without a free inode, a tombstone, a claim or a heartbeat cannot be written.
 * So nothing could be forgotten or pruned, and the store would stay full for good. A small write that meets ENOSPC or
 * EDQUOT therefore removes one file of the reserve and is tried again. Data never gets it: while the reserve is not
 * whole, and there is no room to make it so, data is refused.
 *
 * The files lie in a folder whose name is no key (it has a comma), so listings pass over it, and so may every reader.
 * They hold random bytes: neither holes nor compression make them smaller than they look. Any number of processes may
 * take and make them at once. Taking is unlink, of which one wins; making is an exclusive create. Whoever dies in
 * between leaves a smaller reserve, or a file that is too short; the next look makes both good.
 *
 * Looks happen after replace (a session's first heartbeat, then now and then) and with sweep (the end of a prune). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "storage/file_private.h"

#define FOLDER ".reserve,"
#define FILES 12u /* a session that fails may take nine, and forgetting needs two at a time */
#define FILE_BYTES (32u << 10)
#define ALL_BYTES ((uint64_t)FILES * FILE_BYTES)
#define INODES_FREE 16u /* that data leaves free where min_free is set */
#define SECOND UINT64_C(1000000000)
#define LOOK_LACKING (10 * SECOND)
#define LOOK_WHOLE (60 * SECOND)

static int means_full(int result) {
    return result == -ENOSPC || result == -EDQUOT;
}

/* ---- room ---- */

/* Some file systems have no fixed number of inodes, and say 0 or as many as can be. */
static int read_capacity(const struct file_backend *file, struct file_capacity *out) {
    struct statvfs st;
    if (fstatvfs(file->root_fd, &st) < 0)
        return -errno;
    out->bytes = (uint64_t)st.f_bavail * st.f_frsize;
    out->own_bytes = (uint64_t)(geteuid() == 0 ? st.f_bfree : st.f_bavail) * st.f_frsize;
    out->has_inodes = st.f_files != 0 && st.f_files < UINT64_MAX / 2;
    out->inodes = geteuid() == 0 ? st.f_ffree : st.f_favail;
    return 0;
}

/* What a person will be told. */
static void note_shortage(struct file_backend *file, const struct file_capacity *capacity) {
    pthread_mutex_lock(&file->reserve.lock);
    file->reserve.shortage = *capacity;
    file->reserve.is_short = 1;
    pthread_mutex_unlock(&file->reserve.lock);
}

void vv_file_note_short(struct file_backend *file, int result) {
    struct file_capacity capacity = {0};
    if (!means_full(result) || read_capacity(file, &capacity) < 0)
        return;
    capacity.wanted_bytes = file->min_free;
    capacity.is_quota = result == -EDQUOT;
    note_shortage(file, &capacity);
}

int vv_file_capacity_check(struct file_backend *file, uint64_t size) {
    struct file_capacity capacity = {0};
    int result = read_capacity(file, &capacity),
        is_whole = faccessat(file->root_fd, FOLDER "/0", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (result < 0)
        return result;
    capacity.wanted_bytes =
        is_whole || file->min_free > UINT64_MAX - ALL_BYTES ? file->min_free : file->min_free + ALL_BYTES;
    capacity.wanted_inodes = (file->min_free ? INODES_FREE : 0) + (is_whole ? 0 : FILES + 1);
    if (capacity.bytes >= capacity.wanted_bytes && capacity.bytes - capacity.wanted_bytes >= size &&
        (!capacity.has_inodes || capacity.inodes >= capacity.wanted_inodes))
        return 0;
    note_shortage(file, &capacity);
    return -ENOSPC;
}

/* The bound that was met; without one the file system had no room for the next bytes. */
static void tell_bytes(const struct file_backend *file, const struct file_capacity *capacity, char *text, size_t size) {
    int length = snprintf(text, size, "bytes are short in %.400s: %" PRIu64 " free", file->root, capacity->bytes);
    if (length < 0 || (size_t)length >= size || capacity->bytes >= capacity->wanted_bytes)
        return;
    snprintf(text + length, size - (size_t)length, ", %" PRIu64 " must be (%s)", capacity->wanted_bytes,
             capacity->wanted_bytes > file->min_free ? "min_free, and a reserve" : "min_free");
}

int vv_file_shortage(struct file_backend *file, char *text, size_t size) {
    pthread_mutex_lock(&file->reserve.lock);
    struct file_capacity capacity = file->reserve.shortage;
    int is_short = file->reserve.is_short;
    pthread_mutex_unlock(&file->reserve.lock);
    if (!is_short)
        return 0;
    int are_inodes_short = capacity.has_inodes && (capacity.inodes == 0 || capacity.inodes < capacity.wanted_inodes);
    if (capacity.is_quota)
        snprintf(text, size, "the disk quota in %.400s is used up", file->root);
    else if (are_inodes_short)
        snprintf(text, size, "inodes are short in %.400s: %" PRIu64 " are free, %" PRIu64 " must be", file->root,
                 capacity.inodes, capacity.wanted_inodes ? capacity.wanted_inodes : 1);
    else
        tell_bytes(file, &capacity, text, size);
    return 1;
}

/* ---- the files ---- */

static void file_name(unsigned number, char out[8]) {
    snprintf(out, 8, "%u", number % FILES);
}

static int open_folder(struct file_backend *file) {
    return vv_file_below(file, FOLDER, O_RDONLY | O_DIRECTORY, 0);
}

/* Freed blocks may be had only after the file system has committed their release: the sync makes it so. */
int vv_file_reserve_take(struct file_backend *file, int result) {
    char name[8];
    int is_taken = 0;
    if (!means_full(result))
        return 0;
    int folder = open_folder(file);
    for (unsigned i = 0; folder >= 0 && i < FILES && !is_taken; i++) {
        file_name(i, name);
        is_taken = unlinkat(folder, name, 0) == 0;
    }
    if (is_taken)
        (void)vv_file_sync(folder);
    else
        vv_file_note_short(file, result);
    if (folder >= 0)
        close(folder);
    if (is_taken) {
        atomic_store(&file->reserve.look_ns, 0);
        vv_log(file->log, VV_LOG_INFO, "%s is full: a part of the store's reserve was used to go on", file->root);
    }
    return is_taken;
}

static int is_whole(int folder, const char *name) {
    struct stat st;
    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size == FILE_BYTES;
}

static int write_one(struct file_backend *file, int folder, const char *name) {
    uint8_t *bytes = vv_malloc(FILE_BYTES);
    int result = bytes ? vv_random(bytes, FILE_BYTES) : -ENOMEM;
    int fd =
        result < 0 ? -1 : openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file->file_mode);
    if (result == 0 && fd < 0)
        result = -errno;
    if (fd >= 0) {
        result = vv_file_set_mode(file, fd);
        if (result == 0)
            result = vv_file_write_all(fd, bytes, FILE_BYTES, 0);
        if (result == 0)
            result = vv_file_sync(fd);
        close(fd);
        if (result < 0)
            (void)unlinkat(folder, name, 0);
    }
    vv_free(bytes);
    return result;
}

/* Only where it leaves as much again: the last bytes are better used by what is being written. */
static int has_capacity(const struct file_backend *file, unsigned missing) {
    struct file_capacity capacity = {0};
    return read_capacity(file, &capacity) == 0 && capacity.own_bytes >= 2 * (uint64_t)missing * FILE_BYTES &&
           (!capacity.has_inodes || capacity.inodes >= 2 * (uint64_t)missing + 1);
}

static unsigned count_missing(int folder) {
    char name[8];
    unsigned missing = 0;
    for (unsigned i = 0; i < FILES; i++) {
        file_name(i, name);
        missing += !is_whole(folder, name);
    }
    return missing;
}

static int make_folder(struct file_backend *file) {
    if (mkdirat(file->root_fd, FOLDER, file->folder_mode) < 0 && errno != EEXIST)
        return -errno;
    int folder = open_folder(file);
    if (folder >= 0 && file->mode == VV_MODE_GROUP)
        (void)fchmod(folder, 0770);
    return folder;
}

/* The file that is taken first is made last: while it is there, the reserve is whole. 1 if it is now. */
static int make(struct file_backend *file) {
    int folder = open_folder(file);
    unsigned missing = folder < 0 ? FILES : count_missing(folder);
    if (missing > 0 && !has_capacity(file, missing)) {
        if (folder >= 0)
            close(folder);
        return 0;
    }
    if (folder < 0)
        folder = make_folder(file);
    int result = folder < 0 ? folder : 0;
    for (unsigned i = FILES; i > 0 && missing > 0 && result == 0; i--) {
        char name[8];
        file_name(i - 1, name);
        if (is_whole(folder, name))
            continue;
        (void)unlinkat(folder, name, 0);
        result = write_one(file, folder, name);
        if (result == -EEXIST)
            result = 0; /* another process makes it */
    }
    if (folder >= 0)
        close(folder);
    if (result < 0)
        vv_log(file->log, VV_LOG_DEBUG, "the reserve of the store in %s could not be made: %s", file->root,
               varve_error_text(result));
    return result == 0;
}

void vv_file_reserve_keep(struct file_backend *file, int is_due) {
    uint64_t now = vv_clock_ns(), due = atomic_load(&file->reserve.look_ns);
    if ((!is_due && now < due) || !atomic_compare_exchange_strong(&file->reserve.look_ns, &due, now + LOOK_LACKING))
        return;
    if (make(file))
        atomic_store(&file->reserve.look_ns, now + LOOK_WHOLE);
}
