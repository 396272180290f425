/* What the files of the file backend call of each other. */
#ifndef VV_FILE_PRIVATE_H
#define VV_FILE_PRIVATE_H

#include "storage/file_state_private.h"

/* file.c */
int vv_file_open(const char *path, const struct vv_backend_options *options, struct varve_backend **out,
                 struct varve_error *error);
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
