/* Parts of the file backend: objects are files, keys are paths below a root folder.
 *
 *   backend_file.c   open, stat, list, replace, remove, space, sync, sweep, close
 *   file_folder.c    folders below the root: made on demand, made durable, checked to be there
 *   file_upload.c    one object being written, and how it gets its name
 *   file_writer.c    the helper threads that keep several direct writes in flight, and their blocks of memory
 *   file_read.c      get, with a small cache of open files
 */
#ifndef VV_BACKEND_FILE_PRIVATE_H
#define VV_BACKEND_FILE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "backend/backend_private.h"

#define FILE_ALIGN 4096u                  /* of direct reads and writes, unless the file system names less */
#define FILE_SMALL (1u << 20)             /* smaller objects are never kept open: they may be of a mutable kind */
#define FILE_BLOCK_SLACK (2 * FILE_ALIGN) /* room for an unaligned range of a whole block */
#define FILE_DURABLE_KNOWN 32

/* What measurements may vary. Zero: the default. */
struct vv_file_tuning {
    size_t block_bytes;       /* of one direct write; a multiple of 4,096 */
    unsigned in_flight;       /* direct writes of one upload at a time, and helper threads */
    int preallocate;          /* fallocate when the size is known */
    int named_temporaries;    /* as on file systems without O_TMPFILE */
    int rename_only;          /* and without hard links */
    int skip_early_writeback; /* buffered: leave everything to fsync */
    size_t direct_read_min;   /* smaller gets go through the page cache; SIZE_MAX: all */
};

struct file_block {
    struct file_block *next;
    struct file_upload *upload;
    uint64_t offset;
    size_t size;
    uint8_t *data; /* block_bytes + FILE_BLOCK_SLACK, aligned */
};

/* The helper threads and the free blocks of one backend. */
struct file_writer {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t done;
    struct file_block *queue, **queue_end;
    struct file_block *spare;
    unsigned spare_count;
    pthread_t *threads;
    unsigned thread_count;
    int is_started;
    int is_stopping;
    size_t block_bytes;
    unsigned in_flight;
};

struct file_cached;
struct file_cache {
    pthread_mutex_t lock;
    struct file_cached *head; /* most recently used first */
    unsigned count;
};

struct file_backend {
    struct varve_backend base;
    char *root; /* absolute */
    int root_fd;
    mode_t folder_mode, file_mode;
    int mode; /* enum vv_mode */
    uint64_t min_free;
    struct vv_log *log;
    struct vv_file_tuning tuning;
    atomic_int may_direct;  /* cleared when the file system refuses */
    atomic_int may_tmpfile; /* likewise */
    atomic_uint counter;    /* of temporary names */
    char host[17];          /* this boot and PID namespace, or "" if unknown */
    struct file_writer writer;
    struct file_cache cache;
    pthread_mutex_t durable_lock;
    uint64_t durable[FILE_DURABLE_KNOWN]; /* sums of folders whose way from the root is durable */
    unsigned durable_next;
};

struct file_upload {
    struct varve_upload base;
    char *key;
    int fd;
    char temporary[96];       /* name in tmp, or "" */
    struct file_block *block; /* being filled, or NULL */
    size_t fill;
    uint64_t offset;  /* of the block in the file */
    uint64_t checked; /* the free space was looked at when the file had this size */
    uint64_t started; /* early writeback has been asked for up to here */
    enum { FILE_UNDECIDED, FILE_DIRECT, FILE_BUFFERED } way;
    unsigned in_flight; /* this and error: under the writer's lock */
    int error;
};

/* file_folder.c */

/* 0, or the error that makes the root unusable: it went away, or something else is mounted over it. */
int vv_file_root_check(struct file_backend *file);
/* What a failed look at a key means: -ENOENT only if the root is certainly there. */
int vv_file_missing(struct file_backend *file, int result);
/* Open the folder of key, making it if needed; *made says from which length of key on folders are new (SIZE_MAX: none).
 */
int vv_file_folder_open(struct file_backend *file, const char *key, size_t *made);
/* Make the folder (open as fd), and its way from the root, durable. */
int vv_file_folder_sync(struct file_backend *file, const char *key, int fd, size_t made);
/* Remove the emptied folders of key, as far as they are empty. */
void vv_file_folder_prune(struct file_backend *file, const char *key);
/* The folder of temporary names, made if needed. */
int vv_file_tmp_open(struct file_backend *file);
int vv_file_sync(int fd);
int vv_file_set_mode(struct file_backend *file, int fd);

/* file_upload.c */
int vv_file_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out);
int vv_file_upload_write(struct varve_upload *base, const void *data, size_t size);
int vv_file_upload_commit(struct varve_upload *base);
void vv_file_upload_abort(struct varve_upload *base);
/* A new file with a name in tmp (name has 96 bytes), open for writing. */
int vv_file_temporary(struct file_backend *file, char *name);
int vv_file_write_all(int fd, const void *data, size_t size, uint64_t offset);

/* file_writer.c */
int vv_file_writer_init(struct file_writer *writer, size_t block_bytes, unsigned in_flight);
void vv_file_writer_clear(struct file_writer *writer);
struct file_block *vv_file_block_acquire(struct file_writer *writer);
void vv_file_block_release(struct file_writer *writer, struct file_block *block); /* accepts NULL */
/* Hand a filled block over; waits while the upload has too many in flight. Returns an earlier error of the upload. */
int vv_file_writer_submit(struct file_writer *writer, struct file_block *block);
/* Wait for all blocks of the upload; returns the first error. */
int vv_file_writer_wait(struct file_writer *writer, struct file_upload *upload);

/* file_read.c */
int64_t vv_file_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size);
void vv_file_cache_drop(struct file_backend *file, const char *key); /* NULL: all */
void vv_file_cache_expire(struct file_backend *file);

#endif
