/* A store: a backend, the store's settings, and what is known before any name is looked at. */
#ifndef VV_STORE_H
#define VV_STORE_H

#include "backend/backend.h"
#include "base/log.h"
#include "format/object.h"

struct vv_parts_ops;
struct vv_read_costs;
struct vv_lend_ops;

struct vv_store {
    struct varve_backend *backend; /* owned */
    uint8_t id[16];
    struct vv_settings_store settings;
    const struct vv_log *log;
    int is_patched; /* the store object is lost or damaged; id and settings come from another object */
    const struct vv_parts_ops *parts; /* who gives parts of blocks (block_parts.h), or NULL */
    void *parts_arg;
    const struct vv_lend_ops *lend; /* who lends whole blocks (block_lend.h), or NULL */
    void *lend_arg;
    struct vv_read_costs *costs; /* of all that read from it; owned */
};

enum vv_store_mode { VV_STORE_READ, VV_STORE_WRITE };

/* Open the store on a backend, which from now on belongs to the store (also on failure: it is closed).
 * VV_STORE_WRITE makes a new store where there is none: VV_STORE_READ returns VARVE_NO_STORE. When the store object
 * is missing or damaged but other objects are there, id and settings are taken from records or claims (all that are
 * looked at must agree), with a warning. */
int vv_store_open(struct varve_backend *backend, int mode, const struct vv_log *log, struct vv_store **out,
                  struct varve_error *error);
/* VV_STORE_WRITE, and a new store becomes like this one: with its layout, and with its id and all settings unless the
 * id is 0. A store with another id is VARVE_MISMATCH then. */
int vv_store_open_as(struct varve_backend *backend, const struct vv_store_object *like, const struct vv_log *log,
                     struct vv_store **out, struct varve_error *error);
void vv_store_close(struct vv_store *store); /* accepts NULL */
/* Is what was opened still there? Whoever emptied the place of an open store has removed the store object and the keys,
 * too: they are made again. 1 then, 0 if all is there, VARVE_MISMATCH if there is another store now, or an error.
 * key: where the user's key comes from. */
int vv_store_restore(struct vv_store *store, const char *key, struct varve_error *error);

/* The names in the store, in order. */
typedef int (*vv_name_fn)(void *arg, const char *name);
int vv_store_names(struct vv_store *store, vv_name_fn fn, void *arg, struct varve_error *error);

/* By generation and version alone: of two attempts at one version neither is newer. */
int vv_attempt_is_newer(const struct vv_attempt *a, const struct vv_attempt *b);
/* A checkpoint depends on the past: on nothing of its own version, and on newer ones only of its own generation and if
 * its parent is newer, as with copies that compact has made. */
int vv_dependency_is_possible(const struct vv_attempt *own, const struct vv_attempt *parent,
                              const struct vv_attempt *dependency);
int vv_settings_are_same(const struct vv_settings_store *a, const struct vv_settings_store *b);

/* The key of an object of an attempt. kind is PACK, PART, WRITERS, RECORD ... */
struct vv_key vv_attempt_key(const char *name, const struct vv_attempt *attempt, int kind, uint32_t writer,
                             uint32_t part);

/* A read of key has failed with rc: say why, as far as the backend knows. Returns rc. */
int vv_read_error(struct vv_store *store, const char *key, int rc, struct varve_error *error);
/* Read a whole small object into out, which the caller has initialised and clears. VARVE_CORRUPT when it is larger
 * than any may be; -ENOENT when it is certainly absent. */
int vv_object_read(struct vv_store *store, const struct vv_key *key, struct vv_buf *out, struct varve_error *error);
/* Up to size bytes of it, from offset on: how many, fewer only at its end; or an error as above. */
int64_t vv_object_read_at(struct vv_store *store, const struct vv_key *key, uint64_t offset, void *data, size_t size,
                          struct varve_error *error);
/* Create a small object; -EEXIST when the key is taken. */
int vv_object_create(struct vv_store *store, const struct vv_key *key, const struct vv_buf *bytes,
                     struct varve_error *error);
/* Create a tombstone under key; -EEXIST when it is taken. */
int vv_tombstone_create(struct vv_store *store, const struct vv_key *key, int reason, struct varve_error *error);
/* After something was not written with rc: if there was no room for it, the text says also what is short. Returns rc.
 */
int vv_error_shortage(struct vv_store *store, int rc, struct varve_error *error);

#endif
