/* Parts of the file backend: objects are files, keys are paths below a root folder.
 *
 *   backend_file.c   open, stat, list, replace, remove, space, sync, close
 *   file_below.c     find things below the root without following links
 *   file_trust.c     whose root is it, and may we write there?
 *   file_folder.c    folders below the root: made on demand, made durable
 *   file_order.c     does one sync of a folder make the way to it durable, too?
 *   file_whole.c     is the root there, and all of its file system, or does a server miss? probe, and second looks
 *   file_fresh.c     folders as they are now, where a host remembers what it has seen of them
 *   file_names.c     names of files that stay for a moment only
 *   file_temporary.c files that are being written; sweep
 *   file_upload.c    one object being written, and how it gets its name
 *   file_reserve.c   a few files that hold room for when there is none; how much is free
 *   file_writer.c    the helper threads that keep several direct writes in flight, and their blocks of memory
 *   file_read.c      get, with a small cache of open files
 */
#ifndef VV_BACKEND_FILE_PRIVATE_H
#define VV_BACKEND_FILE_PRIVATE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "backend/backend_private.h"

#define FILE_ALIGN 4096u                  /* of direct reads and writes, unless the file system names less */
#define FILE_SMALL (1u << 20)             /* smaller objects are never kept open: they may be of a mutable kind */
#define FILE_BLOCK_SLACK (2 * FILE_ALIGN) /* room for an unaligned range of a whole block */
#define FILE_DURABLE_KNOWN 32
#define FILE_NOTED 64 /* folders that sweep will look into */

/* What measurements may vary. Zero: the default. */
struct vv_file_tuning {
    size_t block_bytes;       /* of one direct write; a multiple of 4,096 */
    unsigned in_flight;       /* direct writes of one upload at a time, and helper threads */
    int preallocate;          /* fallocate when the size is known */
    int named_temporaries;    /* as on file systems without O_TMPFILE */
    int rename_only;          /* and without hard links */
    int step_by_step;         /* as on kernels without openat2 */
    int skip_early_writeback; /* buffered: leave everything to fsync */
    int each_folder;          /* as on file systems of which file_order.c knows nothing */
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

/* What GlusterFS says about its servers; see file_whole.c. */
struct file_watch {
    int graphs_fd;                   /* its folder of state, or -1 where there is none */
    atomic_uint_least64_t mark;      /* changes whenever a server goes or comes; as of the last look */
    atomic_uint_least64_t looked_ns; /* when that was */
    atomic_int is_told;              /* the log says that one is missing */
};

/* Folders where sweep will look for leftovers. */
struct file_noted {
    pthread_mutex_t lock;
    char *folders[FILE_NOTED];
    unsigned count;
};

/* What is free, and what must be for data to be stored. */
struct file_capacity {
    uint64_t bytes, own_bytes; /* for everybody, and for us: root may use more */
    int has_inodes;            /* their number is limited */
    uint64_t inodes;
    uint64_t wanted_bytes, wanted_inodes;
};

/* See file_reserve.c. */
struct file_reserve {
    atomic_uint_least64_t look_ns; /* when it is looked at next */
    pthread_mutex_t lock;          /* of what follows */
    int is_short;
    struct file_capacity shortage; /* as it was when something did not fit */
};

enum file_trust { TRUST_UNKNOWN, TRUST_YES, TRUST_NO, TRUST_READ };
enum file_nameless { NAMELESS_UNKNOWN, NAMELESS_YES, NAMELESS_NO };

struct file_backend {
    struct varve_backend base;
    char *root;  /* absolute */
    char *given; /* the same as the user wrote it */
    int root_fd;
    int has_openat2;             /* links are refused by the kernel, for a whole path at once */
    atomic_int is_link_told;     /* the log says that a link is in the way */
    atomic_int is_open_to_all;   /* everybody may make files in the root: what lies there must be ours */
    atomic_int is_stranger_told; /* the log says that something there is not */
    mode_t folder_mode, file_mode;
    int mode;         /* enum vv_mode */
    int owner;        /* enum vv_owner */
    atomic_int trust; /* enum file_trust: may we write here? */
    uint64_t min_free;
    struct vv_log *log;
    struct vv_file_tuning tuning;
    atomic_int may_direct; /* cleared when the file system refuses */
    atomic_int nameless;   /* enum file_nameless: are there files without a name? */
    atomic_uint counter;   /* of temporary names */
    char host[17];         /* this boot and PID namespace, or "" if unknown */
    struct file_writer writer;
    struct file_cache cache;
    struct file_watch watch;
    struct file_noted noted;
    struct file_reserve reserve;
    pthread_mutex_t durable_lock;
    uint64_t durable[FILE_DURABLE_KNOWN]; /* sums of folders whose way from the root is durable, last used first */
    int is_ordered;                       /* see file_order.c; on this device */
    dev_t ordered_device;
};

struct file_upload {
    struct varve_upload base;
    char *key;
    int fd;
    char *temporary;          /* its name until commit, below the root; or NULL */
    size_t made;              /* from which length of key on its folders are new */
    int is_published;         /* it has its name */
    struct file_block *block; /* being filled, or NULL */
    size_t fill;
    uint64_t offset;  /* of the block in the file */
    int is_small;     /* a few bytes of the store's own, as its creator said: it may have the reserve */
    uint64_t checked; /* the free space was looked at when the file had this size */
    uint64_t started; /* early writeback has been asked for up to here */
    enum { FILE_UNDECIDED, FILE_DIRECT, FILE_BUFFERED } way;
    unsigned in_flight; /* this and error: under the writer's lock */
    int error;
};

/* backend_file.c */
struct file_backend *vv_file_backend(struct varve_backend *backend); /* NULL if it is another kind */

/* file_below.c */
void vv_file_below_init(struct file_backend *file); /* after the root was opened */
/* Open what lies at path below the root ("" for the root itself), close-on-exec. -ELOOP: a link is in the way. */
int vv_file_below(struct file_backend *file, const char *path, int flags, mode_t mode);
/* The folder that path lies in, open to be given to the calls that end in "at"; *name_out is the last part of path. */
int vv_file_parent(struct file_backend *file, const char *path, const char **name_out);
/* About the entry itself: a link is told as a link. */
int vv_file_below_stat(struct file_backend *file, const char *path, struct stat *st);
int vv_file_below_unlink(struct file_backend *file, const char *path, int flags);
/* 0: a plain file, as objects are. -ENOENT: a folder. Other errors: something that nobody of us has put there. */
int vv_file_kind_check(mode_t mode);

/* file_trust.c */
/* May we write to the root that is open? path is for messages, and to look whether it is a link. -EPERM: better not. */
int vv_file_trust_root(struct file_backend *file, const char *path, struct varve_error *error);
int vv_file_is_trusted_owner(uid_t owner); /* us, or the superuser */
/* The same for verbs that write; the reason is told in the log, once. */
int vv_file_may_write(struct file_backend *file);

/* file_folder.c */
/* Open the folder of key, making it if needed; *made says from which length of key on folders are new (SIZE_MAX: none).
 */
int vv_file_folder_open(struct file_backend *file, const char *key, size_t *made);
/* Make the folder (open as fd), and its way from the root, durable. mark is from before the change that shall last. */
int vv_file_folder_sync(struct file_backend *file, const char *key, int fd, size_t made, uint64_t mark);
/* Remove the emptied folders of key, as far as they are empty. */
void vv_file_folder_prune(struct file_backend *file, const char *key);
/* The folder of temporary names, made if needed. */
int vv_file_tmp_open(struct file_backend *file);
int vv_file_sync(int fd);
int vv_file_set_mode(struct file_backend *file, int fd);

/* file_order.c */
void vv_file_order_init(struct file_backend *file); /* after the root was opened */
/* Is all that was made before an entry of this folder, the folders above included, durable when the entry is? */
int vv_file_is_ordered(const struct file_backend *file, int fd);

/* file_whole.c */
void vv_file_watch_init(struct file_backend *file); /* after the root was opened */
void vv_file_watch_clear(struct file_backend *file);
/* To be taken before a look at names, and given to vv_file_whole after it. */
uint64_t vv_file_mark(struct file_backend *file);
/* 0: all servers were there since the mark was taken. -ENOTCONN: one is missing. -EAGAIN: one has come back since, so
 * look again. */
int vv_file_whole(struct file_backend *file, uint64_t mark);
/* A mark from a look made now, or an error. */
int vv_file_mark_now(struct file_backend *file, uint64_t *mark_out);
int vv_file_probe(struct varve_backend *backend, char *why, size_t capacity);
/* 0, or the error that makes the root unusable: it went away, or something else is mounted over it. */
int vv_file_root_check(struct file_backend *file);
/* What a failed look at a key means: -ENOENT only if the root, and all of its file system, was there since mark. */
int vv_file_missing(struct file_backend *file, int result, uint64_t mark);

/* A look at a name, repeated while that may help. */
struct file_try {
    uint64_t mark;
    uint64_t since_ns;
    unsigned count;
};
void vv_file_try_begin(struct file_backend *file, struct file_try *look);
/* Is it worth looking again after this result? Waits a little if so. */
int vv_file_try_again(struct file_backend *file, struct file_try *look, int64_t result);
/* A folder was removed by somebody else after it was found and before it was used. 0: find or make it again. An error:
 * the root is gone, or not all of the file system is there; -ENOENT: this has gone on for too long to be chance. */
int vv_file_try_anew(struct file_backend *file, struct file_try *look);

/* file_fresh.c */
/* Let what is remembered of the nearest folder above key be compared with the storage. */
void vv_file_ask_above(struct file_backend *file, const char *key);
/* Open the folder of a prefix to list it, as it is now; or an error. */
int vv_file_open_listing(struct file_backend *file, const char *prefix);
int vv_file_refresh(struct varve_backend *backend, const char *prefix);

/* file_names.c */
#define FILE_OWN_CAPACITY 96 /* for ".WORD.,HOST-PID-N-RANDOM" */
/* The process that made a name. */
struct file_maker {
    char host[17];
    long pid;
};
void vv_file_host_token(char out[17]);
/* A name that nobody else makes, with this before it: ".WORD.,", or "" in the folder tmp. */
int vv_file_own_name(struct file_backend *file, const char *before, char out[FILE_OWN_CAPACITY]);
int vv_file_name_parse(const char *name, int is_tmp, struct file_maker *out); /* 1 if it is one of ours */
int vv_file_is_temporary(const char *name);                                   /* one that lies beside objects */

/* file_temporary.c */
/* Are there files without a name? */
int vv_file_has_nameless(struct file_backend *file);
/* A new file that will become the object key, open for writing; *path_out is its name below the root, to be freed by
 * the caller. made as for vv_file_folder_open. */
int vv_file_temporary(struct file_backend *file, const char *key, size_t *made, char **path_out);
/* Has somebody removed it? */
int vv_file_temporary_is_gone(struct file_backend *file, const char *path);
/* Remove it, and the folders that were made for it. */
void vv_file_temporary_drop(struct file_backend *file, const char *key, const char *path);
/* Does the folder tmp, below the root, hold only what we put there? Also if there is none. 1, 0, or an error. */
int vv_file_tmp_is_ours(struct file_backend *file);
void vv_file_note(struct file_backend *file, const char *folder);
void vv_file_noted_clear(struct file_backend *file);
int vv_file_sweep(struct varve_backend *backend);

/* file_reserve.c */
/* Is there room for so many bytes of data? -ENOSPC if not. */
int vv_file_capacity_check(struct file_backend *file, uint64_t size);
/* Something did not fit: remember how much was free. */
void vv_file_note_short(struct file_backend *file, int result);
/* What was short the last time, in words; 0: nothing was. */
int vv_file_shortage(struct file_backend *file, char *text, size_t size);
/* A small write has had this result: 1 if there is more room now, so that it is worth trying again. */
int vv_file_reserve_take(struct file_backend *file, int result);
/* Make the reserve whole if there is room; a look now and then unless is_due. */
void vv_file_reserve_keep(struct file_backend *file, int is_due);

/* file_upload.c */
int vv_file_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out);
int vv_file_upload_write(struct varve_upload *base, const void *data, size_t size);
int vv_file_upload_commit(struct varve_upload *base);
void vv_file_upload_abort(struct varve_upload *base);

/* file_writer.c */
int vv_file_write_all(int fd, const void *data, size_t size, uint64_t offset);
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
