/* For people who add a storage backend. The promise here is weaker than in varve.h: it holds within a minor version.
 *
 * A backend keeps objects: strings of bytes under keys such as "n/heat2d/claim/00000001". An object is written once and
 * never changed (replace() is for the two mutable kinds and for turning a record into a tombstone). That one sentence
 * is what lets a file system, S3 and RADOS be the same above this header.
 *
 * Keys: components of 1 to 255 characters A-Z a-z 0-9 . _ - % ~, separated by '/', none of them "." or "..", at most
 * 1,023 characters in all. The caller guarantees it (vv_backend_* wrappers check).
 *
 * All functions may be called by several threads at once, except that one upload is used by one thread at a time. All
 * may block. They return 0 (or a count) or a negative error: -ENOENT means the key certainly has no object; every other
 * failure to find out must be another error. Errors that may go away by themselves: -EAGAIN, -EINTR, -ETIMEDOUT,
 * -EBUSY, -ECONNRESET. */
#ifndef VARVE_BACKEND_H
#define VARVE_BACKEND_H

#include <stdint.h>
#include <varve/varve_error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct varve_backend;
struct varve_upload;

/* What list() found: name is the last component; is_prefix tells that more keys lie below it. Return 0 to go on, a
 * positive value to stop early (list then returns 0), a negative one to stop with that error. */
typedef int (*varve_list_fn)(void *arg, const char *name, int is_prefix);

struct varve_backend_ops {
    size_t size;      /* sizeof(struct varve_backend_ops) when the backend was compiled */
    const char *name; /* "file", "mem", ...; in messages */

    /* Begin an object that appears at once, complete and durable, in upload_commit. size_hint is the expected size or
     * 0; a backend that can tell that there is no room returns -ENOSPC here. Required. */
    int (*create)(struct varve_backend *backend, const char *key, uint64_t size_hint, struct varve_upload **out);
    /* Append bytes; the buffer may be reused when it returns. An error makes the upload useless: abort it. Required. */
    int (*upload_write)(struct varve_upload *upload, const void *data, size_t size);
    /* Make it durable and visible under its key; -EEXIST if the key is taken, and nothing has changed then. After any
     * other error the object may or may not exist. Frees the upload in every case. Required. */
    int (*upload_commit)(struct varve_upload *upload);
    /* Drop it, as if it had never begun. Frees the upload. Required. */
    void (*upload_abort)(struct varve_upload *upload);

    /* Put these bytes under key at once, whatever was there before; durable. Required. */
    int (*replace)(struct varve_backend *backend, const char *key, const void *data, size_t size);
    /* Read up to size bytes from offset. Returns how many: fewer only at the end of the object. Required. */
    int64_t (*get)(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size);
    /* The object's size, or -ENOENT. Required. */
    int (*stat)(struct varve_backend *backend, const char *key, uint64_t *size_out);
    /* The components directly below prefix ("" for the root, no trailing '/'), in ascending byte order, those greater
     * than after (or all if NULL), at most limit of them (0: all). A prefix with nothing below it is an empty list.
     * Required. */
    int (*list)(struct varve_backend *backend, const char *prefix, const char *after, size_t limit, varve_list_fn fn,
                void *arg);
    /* Remove the object; -ENOENT if there is none. Need not be durable when it returns, but removals become durable not
     * before what was made durable earlier. Required. */
    int (*remove)(struct varve_backend *backend, const char *key);
    /* Bytes that can still be stored. Optional. */
    int (*space)(struct varve_backend *backend, uint64_t *bytes_out);
    /* Make what is visible under key durable: another process may have died between the two. Optional: left out where
     * visible means durable. */
    int (*sync)(struct varve_backend *backend, const char *key);
    /* Remove leftovers of dead writers that never became objects. Optional. */
    int (*sweep)(struct varve_backend *backend);
    /* Required; accepts NULL. */
    void (*close)(struct varve_backend *backend);
    /* Is all of the storage there? Called before anything is concluded from what is not found, by one process that will
     * write. 0, or an error, and then why (room bytes) says to a person what is missing. It may try what changes
     * nothing. Optional: for storage that goes on when a server is down and then shows only a part of its objects. */
    int (*probe)(struct varve_backend *backend, char *why, size_t room);
    /* Let listings of prefix that begin later show all that was there when this began, or say -ESTALE. Called before
     * anything is deleted, or said not to exist, because it is not listed. It may try what changes nothing. Optional:
     * for storage whose clients remember listings. */
    int (*refresh)(struct varve_backend *backend, const char *prefix);
};

/* The first member of every backend and of every upload. */
struct varve_backend {
    const struct varve_backend_ops *ops;
};
struct varve_upload {
    struct varve_backend *backend;
};

/* A backend may lie in a library of its own, libvarve_SCHEME.so, that is loaded when an address with its scheme is
 * opened (docs/backend-developers.md). The library exports a function of this type, named varve_backend_open2_SCHEME:
 * the number rises when the request changes, so that no library is given one that it does not understand. The strings
 * live during the call, log_arg as long as the backend. */
#define VARVE_BACKEND_REQUEST 2
struct varve_backend_option {
    const char *name;
    const char *value; /* NULL: no = follows the name */
};
struct varve_backend_request {
    size_t size;       /* sizeof(struct varve_backend_request) */
    const char *place; /* what follows :// in the address, up to ?, with %XX decoded */
    /* The parameters after ? that are not those of wrappers, as they stand there; behind the last, one whose name is
     * NULL. Refuse those that are not known, or make no sense. */
    const struct varve_backend_option *options;
    int may_create;                                          /* make a place for a store if there is none */
    int is_reading;                                          /* verbs that change something return -EROFS */
    void (*log)(void *log_arg, int level, const char *line); /* level: 0 error, 1 warning, 2 information */
    void *log_arg;
};
typedef int (*varve_backend_open_fn)(const struct varve_backend_request *request, struct varve_backend **out,
                                     struct varve_error *error);

/* Encryption lies in a library of its own, too: libvarve_cipher.so, which exports varve_cipher_get. It is loaded for
 * stores that are encrypted (docs/format.md 17). */
struct varve_cipher;

struct varve_cipher_ops {
    size_t size;      /* sizeof(struct varve_cipher_ops) when the library was compiled */
    const char *name; /* for messages */
    /* HMAC-SHA256. 0, or an error. Any thread. */
    int (*hmac)(const void *key, size_t key_size, const void *data, size_t size, uint8_t out[32]);
    /* AES-256-GCM with this key, for one thread at a time. */
    int (*begin)(const uint8_t key[32], struct varve_cipher **out);
    /* out gets size bytes and a tag of 16. A nonce is used once with a key. */
    int (*seal)(struct varve_cipher *cipher, const uint8_t nonce[12], const void *data, size_t size, void *out);
    /* The reverse: data has size bytes and the tag. -EBADMSG: they are not what was sealed; out means nothing then. */
    int (*open)(struct varve_cipher *cipher, const uint8_t nonce[12], const void *data, size_t size, void *out);
    void (*end)(struct varve_cipher *cipher); /* accepts NULL */
};
typedef const struct varve_cipher_ops *(*varve_cipher_get_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
