/* Keeping objects: how the rest of the library opens and uses a backend.
 *
 * A backend is chosen by address: mem://NAME, file:///path, or a plain path. Parameters of the address put wrappers
 * around it (docs/backends.md). Nobody above this folder calls the members of varve_backend_ops: the functions here
 * check keys, and return VARVE_UNSUPPORTED where an optional member is missing. What each verb promises is written in
 * varve/varve_backend.h. Any thread, but one upload by one thread at a time. */
#ifndef VV_BACKEND_H
#define VV_BACKEND_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve_backend.h>

struct vv_buf;
struct vv_log;

#define VV_BACKEND_KEY_MAX 1023
#define VV_BACKEND_PATH_MAX 4096

void vv_backend_close(struct varve_backend *backend); /* accepts NULL */
/* "file", "mem", ...: of the innermost one; for messages. */
const char *vv_backend_name(const struct varve_backend *backend);

int vv_backend_key_check(const char *key); /* 0, or -EINVAL if it is no key */

/* The verbs. -EINVAL for a bad key. */
int vv_backend_create(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out);
int vv_backend_upload_write(struct varve_upload *upload, const void *data, size_t size);
int vv_backend_upload_commit(struct varve_upload *upload); /* frees it in every case */
void vv_backend_upload_abort(struct varve_upload *upload); /* accepts NULL */
int vv_backend_replace(struct varve_backend *backend, const char *key, const void *data, size_t size);
int64_t vv_backend_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size);
int vv_backend_stat(struct varve_backend *backend, const char *key, uint64_t *size_out);
int vv_backend_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                    varve_list_fn fn, void *arg);
int vv_backend_remove(struct varve_backend *backend, const char *key);
int vv_backend_space(struct varve_backend *backend, uint64_t *bytes_out);
/* What was short when something failed with -ENOSPC or -EDQUOT the last time: bytes or inodes, how many, and where. 1
 * and the text, or 0 if that is not known. */
int vv_backend_shortage(struct varve_backend *backend, char *text, size_t size);
/* 0 also where visible means durable. */
int vv_backend_sync(struct varve_backend *backend, const char *key);
int vv_backend_sweep(struct varve_backend *backend); /* how many leftovers went, or an error */
/* Is all of the storage there? Before anything is concluded from what is not found; 0 also where nothing can be missing
 * by halves. One process per store is enough: those that only join need not ask. */
int vv_backend_probe(struct varve_backend *backend, struct varve_error *error);
/* Listings of prefix that begin later show all that was there when this began. To be called before something is
 * deleted, or said not to exist, because it is not listed. -ESTALE: they do not. */
int vv_backend_refresh(struct varve_backend *backend, const char *prefix, struct varve_error *error);

/* A whole small object at once: create, write, commit. -EEXIST if the key is taken. */
int vv_backend_put(struct varve_backend *backend, const char *key, const void *data, size_t size);
/* The whole object appended to buf, which the caller has initialised and clears; -EFBIG if it has more than max bytes.
 * If the object is replaced meanwhile, buf gets the old or the new one, never a mixture. */
int vv_backend_get_all(struct varve_backend *backend, const char *key, uint64_t max, struct vv_buf *buf);

/* Delete the process-wide memory store mem://name. Backends that have it open keep it until they close. */
void vv_mem_drop(const char *name);

/* Wrappers (each a backend that owns inner and closes it). On failure inner is untouched. */
/* file: NULL, or one that all share for whom the limit holds together; made if there is none. */
int vv_limit_backend_wrap(struct varve_backend *inner, uint64_t bytes_per_second, uint64_t latency_ns, const char *file,
                          struct varve_backend **out);
int vv_retry_backend_wrap(struct varve_backend *inner, unsigned retries, const struct vv_log *log,
                          struct varve_backend **out);
int vv_fault_backend_wrap(struct varve_backend *inner, const char *spec, struct varve_backend **out);
int vv_count_backend_wrap(struct varve_backend *inner, struct varve_backend **out);

struct vv_secret;
/* Objects are encrypted on their way in, and checked and decrypted on their way out (sealed.h). The secret is copied.
 * Objects below the prefix "keys" are not its own, and it does not list them. log lives as long as the backend. */
int vv_sealed_backend_wrap(struct varve_backend *inner, const struct vv_secret *secret, const struct vv_log *log,
                           struct varve_backend **out);
/* The secret of such a wrapper, and what it wraps; NULL if backend is none. */
const struct vv_secret *vv_sealed_secret(struct varve_backend *backend, struct varve_backend **inner_out);
/* Why a get of key failed with VARVE_CORRUPT the last time. 1 and the text, or 0 if that is not known. */
int vv_backend_refusal(struct varve_backend *backend, const char *key, char *text, size_t size);

enum vv_verb {
    VV_VERB_CREATE,
    VV_VERB_WRITE,
    VV_VERB_COMMIT,
    VV_VERB_ABORT,
    VV_VERB_REPLACE,
    VV_VERB_GET,
    VV_VERB_STAT,
    VV_VERB_LIST,
    VV_VERB_REMOVE,
    VV_VERB_SPACE,
    VV_VERB_SYNC,
    VV_VERB_SWEEP,
    VV_VERB_PROBE,
    VV_VERB_REFRESH,
    VV_VERB_COUNT
};

struct vv_backend_counts {
    uint64_t calls[VV_VERB_COUNT];
    uint64_t errors[VV_VERB_COUNT]; /* calls that returned a negative value */
    uint64_t bytes[VV_VERB_COUNT];  /* of WRITE, REPLACE and GET */
    uint64_t bytes_written;         /* WRITE and REPLACE together */
    uint64_t bytes_read;
    uint64_t get_ns; /* in GET, of all threads */
};

/* What the count wrapper in backend, or in one it wraps, has seen; VARVE_UNSUPPORTED if there is none. */
int vv_count_get(struct varve_backend *backend, struct vv_backend_counts *out);
/* Operations the fault wrapper in backend, or in one it wraps, has seen; 0 if there is none. */
uint64_t vv_fault_count(struct varve_backend *backend);

#endif
