/* An object being written to a file, and how it gets its name.
 *
 * Until commit the file has no name (O_TMPFILE): if the process dies, the kernel removes it. Where that does not exist
 * the file has a name for the time being (file_temporary.c). Commit syncs the file, gives it its name by an operation
 * that fails if the name is taken, and syncs the folder.
 *
 * Objects smaller than a block (2 MiB) are gathered in it and written at once, through the page cache. With the first
 * full block the upload decides: direct writes by the helper threads; or, where direct writes are refused or switched
 * off, write() from the caller's memory with early writeback, so that fsync finds little left to do. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/log.h"
#include "storage/file_private.h"

/* Is fd reachable by name, so that it can be linked? */
static int has_proc_name(int fd) {
    char path[64];
    struct stat a, b;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* A file without a name in the nearest folder of key that exists, so that it is on the right file system. If one is
 * removed after it was found and before it is used, ext4 says EPERM (for files with a name the kernel itself looks out
 * for this, and says ENOENT). Where EPERM means that the folder may not be changed, giving the name will say so again.
 */
static int open_nameless(struct file_backend *file, const char *key) {
    char path[VV_BACKEND_KEY_MAX + 2];
    strcpy(path, key);
    for (;;) {
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = '\0';
        else
            strcpy(path, ".");
        int fd = vv_file_below(file, path, O_TMPFILE | O_WRONLY, file->file_mode);
        if ((fd != -ENOENT && fd != -EPERM) || !slash)
            return fd;
    }
}

static int open_file(struct file_backend *file, struct file_upload *upload) {
    uint64_t mark = vv_file_mark(file);
    if (atomic_load(&file->nameless) != NAMELESS_NO) {
        int fd = open_nameless(file, upload->key);
        if (fd >= 0 && has_proc_name(fd))
            return fd;
        if (fd >= 0)
            close(fd);
        else if (fd == -ENOENT || fd == -ENOTDIR)
            return (fd = vv_file_missing(file, fd, mark)) == -ENOENT ? -ENOTDIR : fd;
        else if (fd != -EOPNOTSUPP && fd != -EISDIR && fd != -EINVAL)
            return fd;
        atomic_store(&file->nameless, NAMELESS_NO);
    }
    return vv_file_temporary(file, upload->key, &upload->made, &upload->temporary);
}

/* What min_free leaves, and the reserve, are for objects known to be small: with them a store can still be opened,
 * thinned out and pruned when its disk is full of data. */
static int is_small(uint64_t size_hint) {
    return size_hint > 0 && size_hint < FILE_SMALL;
}

#define CAPACITY_EVERY (64u << 20)

/* What remains free is looked at again as a large object grows: its size need not have been known. */
static int keep_capacity(struct file_backend *file, struct file_upload *upload) {
    if (upload->offset - upload->checked < CAPACITY_EVERY)
        return 0;
    upload->checked = upload->offset;
    return vv_file_capacity_check(file, 0);
}

/* Frees everything; the file goes away unless it has got its name. */
static void upload_destroy(struct file_backend *file, struct file_upload *upload) {
    (void)vv_file_writer_wait(&file->writer, upload);
    vv_file_block_release(&file->writer, upload->block);
    if (upload->fd >= 0)
        close(upload->fd);
    if (upload->temporary && upload->is_published)
        (void)vv_file_below_unlink(file, upload->temporary, 0);
    else if (upload->temporary)
        vv_file_temporary_drop(file, upload->key, upload->temporary);
    vv_free(upload->temporary);
    vv_free(upload->key);
    vv_free(upload);
}

int vv_file_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out) {
    struct file_backend *file = (struct file_backend *)backend;
    int result = vv_file_may_write(file);
    if (result == 0 && !is_small(size_hint))
        result = vv_file_capacity_check(file, size_hint);
    if (result < 0)
        return result;
    struct file_upload *upload = vv_calloc(1, sizeof(*upload));
    if (!upload)
        return -ENOMEM;
    upload->base.backend = backend;
    upload->fd = -1;
    upload->made = SIZE_MAX;
    upload->is_small = is_small(size_hint);
    upload->key = vv_strdup(key);
    do
        result = upload->key ? open_file(file, upload) : -ENOMEM;
    while (upload->is_small && vv_file_reserve_take(file, result));
    if (result >= 0) {
        upload->fd = result;
        result = vv_file_set_mode(file, upload->fd);
    }
    if (result == 0 && file->tuning.preallocate && size_hint >= FILE_SMALL)
        result = fallocate(upload->fd, 0, 0, (off_t)size_hint) < 0 && errno == ENOSPC ? -ENOSPC : 0;
    if (result < 0) {
        vv_file_note_short(file, result);
        upload_destroy(file, upload);
        return result;
    }
    *out = &upload->base;
    return 0;
}

static int set_direct(struct file_upload *upload, int on) {
    int flags = fcntl(upload->fd, F_GETFL);
    if (flags < 0)
        return -errno;
    return fcntl(upload->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) < 0 ? -errno : 0;
}

static void decide_way(struct file_backend *file, struct file_upload *upload) {
    upload->way = FILE_BUFFERED;
    if (!atomic_load(&file->may_direct))
        return;
    int result = set_direct(upload, 1);
    if (result == 0) {
        upload->way = FILE_DIRECT;
        return;
    }
    atomic_store(&file->may_direct, 0);
    vv_log(file->log, VV_LOG_INFO, "%s: no direct writes here: %s", file->root, varve_error_text(result));
}

static int write_buffered(struct file_backend *file, struct file_upload *upload, const void *data, size_t size) {
    int result = vv_file_write_all(upload->fd, data, size, upload->offset);
    if (result < 0)
        return result;
    upload->offset += size;
    if ((result = keep_capacity(file, upload)) < 0)
        return result;
    if (!file->tuning.skip_early_writeback && upload->offset - upload->started >= FILE_SMALL) {
        (void)sync_file_range(upload->fd, (off_t)upload->started, (off_t)(upload->offset - upload->started),
                              SYNC_FILE_RANGE_WRITE);
        upload->started = upload->offset;
    }
    return 0;
}

/* The block is full: send it on its way. */
static int flush_block(struct file_backend *file, struct file_upload *upload) {
    if (upload->way == FILE_UNDECIDED)
        decide_way(file, upload);
    if (upload->way == FILE_BUFFERED) {
        int result = write_buffered(file, upload, upload->block->data, upload->fill);
        upload->fill = 0;
        vv_file_block_release(&file->writer, upload->block);
        upload->block = NULL;
        return result;
    }
    struct file_block *block = upload->block;
    block->upload = upload;
    block->offset = upload->offset;
    block->size = upload->fill;
    upload->block = NULL;
    upload->offset += upload->fill;
    upload->fill = 0;
    int result = vv_file_writer_submit(&file->writer, block);
    return result < 0 ? result : keep_capacity(file, upload);
}

static int append(struct file_backend *file, struct file_upload *upload, const void *data, size_t size) {
    const uint8_t *at = data;
    while (size > 0) {
        if (upload->way == FILE_BUFFERED)
            return write_buffered(file, upload, at, size);
        if (!upload->block && !(upload->block = vv_file_block_acquire(&file->writer)))
            return -ENOMEM;
        size_t capacity = file->writer.block_bytes - upload->fill;
        size_t count = size < capacity ? size : capacity;
        memcpy(upload->block->data + upload->fill, at, count);
        upload->fill += count;
        at += count;
        size -= count;
        int result = upload->fill == file->writer.block_bytes ? flush_block(file, upload) : 0;
        if (result < 0)
            return result;
    }
    return 0;
}

/* A failed upload stays failed, whatever the caller does with it. */
static void set_error(struct file_backend *file, struct file_upload *upload, int result) {
    vv_file_note_short(file, result);
    pthread_mutex_lock(&file->writer.lock);
    if (upload->error == 0)
        upload->error = result;
    pthread_mutex_unlock(&file->writer.lock);
}

int vv_file_upload_write(struct varve_upload *base, const void *data, size_t size) {
    struct file_upload *upload = (struct file_upload *)base;
    struct file_backend *file = (struct file_backend *)base->backend;
    int result = append(file, upload, data, size);
    if (result < 0)
        set_error(file, upload, result);
    return result;
}

/* What is left in the block: whole pages as before, the last bytes through the page cache. */
static int write_rest(struct file_backend *file, struct file_upload *upload) {
    size_t whole = upload->way == FILE_DIRECT ? upload->fill / FILE_ALIGN * FILE_ALIGN : 0;
    int result = 0;
    if (whole > 0) {
        result = vv_file_write_all(upload->fd, upload->block->data, whole, upload->offset);
        if (result == -EINVAL) {
            whole = 0;
            result = 0;
        }
    }
    int waited = vv_file_writer_wait(&file->writer, upload);
    if (waited < 0)
        return waited;
    if (result == 0 && upload->way == FILE_DIRECT && upload->fill > whole)
        result = set_direct(upload, 0);
    if (result == 0 && upload->fill > whole)
        result =
            vv_file_write_all(upload->fd, upload->block->data + whole, upload->fill - whole, upload->offset + whole);
    upload->offset += upload->fill;
    upload->fill = 0;
    return result;
}

/* Cut off what fallocate added beyond the end. */
static int trim(struct file_backend *file, struct file_upload *upload) {
    if (!file->tuning.preallocate)
        return 0;
    return ftruncate(upload->fd, (off_t)upload->offset) < 0 ? -errno : 0;
}

/* The name by a hard link; over a network a repeated request may find its own first success. */
static int link_from(struct file_backend *file, struct file_upload *upload, int from, const char *temporary, int folder,
                     const char *name) {
    struct stat st;
    int result = -EOPNOTSUPP;
    if (!file->tuning.rename_only)
        result = linkat(from, temporary, folder, name, 0) < 0 ? -errno : 0;
    if (result == -EEXIST && fstat(upload->fd, &st) == 0 && st.st_nlink == 2)
        return 0;
    if (result != -EPERM && result != -EOPNOTSUPP && result != -ENOSYS && result != -EMLINK)
        return result;
    if (renameat2(from, temporary, folder, name, RENAME_NOREPLACE) < 0)
        return errno == EINVAL || errno == ENOSYS ? -EOPNOTSUPP : -errno;
    vv_free(upload->temporary);
    upload->temporary = NULL;
    return 0;
}

static int link_temporary(struct file_backend *file, struct file_upload *upload, int folder, const char *name) {
    const char *temporary;
    int from = vv_file_parent(file, upload->temporary, &temporary);
    if (from < 0)
        return from;
    int result = link_from(file, upload, from, temporary, folder, name);
    close(from);
    return result;
}

static int link_nameless(struct file_upload *upload, int folder, const char *name) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", upload->fd);
    return linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* Give the file its name. A folder may be removed between finding and using it: then again. On success the folder,
 * open. */
static int give_name(struct file_backend *file, struct file_upload *upload) {
    const char *slash = strrchr(upload->key, '/');
    const char *name = slash ? slash + 1 : upload->key;
    struct file_try look;
    int result;
    vv_file_try_begin(file, &look);
    do {
        int folder = vv_file_folder_open(file, upload->key, &upload->made);
        if (folder < 0)
            return folder == -ENOENT ? -ESTALE : folder;
        result = upload->temporary ? link_temporary(file, upload, folder, name) : link_nameless(upload, folder, name);
        if (result == 0)
            return folder;
        close(folder);
        if (result == -ENOENT && upload->temporary && vv_file_temporary_is_gone(file, upload->temporary))
            break;
    } while (result == -ENOENT && (result = vv_file_try_anew(file, &look)) == 0);
    return result == -ENOENT ? -ESTALE : result;
}

static int publish(struct file_backend *file, struct file_upload *upload) {
    uint64_t mark;
    int result = vv_file_mark_now(file, &mark);
    if (result < 0)
        return result;
    int folder;
    do
        folder = give_name(file, upload);
    while (upload->is_small && vv_file_reserve_take(file, folder));
    if (folder < 0)
        return folder;
    upload->is_published = 1;
    result = VV_FAULT("backend.file.after_link");
    if (result == 0) /* once: a second sync may succeed because the failure of the first was reported, not mended */
        result = vv_file_folder_sync(file, upload->key, folder, upload->made, mark);
    if (upload->is_small)
        (void)vv_file_reserve_take(file, result); /* for the next try */
    close(folder);
    return result;
}

/* A small object lies in its block until now, all of it: should there be no room, also if only the sync finds that out,
 * it is written once more. */
static int write_small(struct file_backend *file, struct file_upload *upload) {
    size_t size = upload->fill;
    int result = vv_file_writer_wait(&file->writer, upload);
    if (result < 0)
        return result;
    do {
        result = size > 0 ? vv_file_write_all(upload->fd, upload->block->data, size, 0) : 0;
        if (result == 0)
            result = vv_file_sync(upload->fd);
    } while (vv_file_reserve_take(file, result));
    upload->offset = size;
    upload->fill = 0;
    return result;
}

static int write_all(struct file_backend *file, struct file_upload *upload) {
    if (upload->is_small && upload->way == FILE_UNDECIDED)
        return write_small(file, upload);
    int result = write_rest(file, upload);
    if (result == 0)
        result = trim(file, upload);
    return result == 0 ? vv_file_sync(upload->fd) : result;
}

int vv_file_upload_commit(struct varve_upload *base) {
    struct file_upload *upload = (struct file_upload *)base;
    struct file_backend *file = (struct file_backend *)base->backend;
    int result = write_all(file, upload);
    if (result == 0)
        result = VV_FAULT("backend.file.before_link");
    if (result == 0)
        result = publish(file, upload);
    vv_file_note_short(file, result);
    vv_file_cache_expire(file);
    upload_destroy(file, upload);
    return result;
}

void vv_file_upload_abort(struct varve_upload *base) {
    struct file_upload *upload = (struct file_upload *)base;
    set_error((struct file_backend *)base->backend, upload, -ECANCELED);
    upload_destroy((struct file_backend *)base->backend, upload);
}
