/* Parts of the file backend: objects are files, keys are paths below a root folder.
 *
 *   file.c           open, stat, list, replace, remove, space, sync, close
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
#ifndef VV_FILE_STATE_PRIVATE_H
#define VV_FILE_STATE_PRIVATE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "storage/storage.h"

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
    int is_quota; /* not the file system is full: the user may have no more */
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

#endif
