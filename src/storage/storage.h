/* From the address of a store to a backend. The file backend lies here, too (file_state_private.h). */
#ifndef VV_STORAGE_H
#define VV_STORAGE_H

#include "backend/backend_parts.h"

struct vv_log;
struct vv_file_tuning;

enum vv_direct { VV_DIRECT_AUTO, VV_DIRECT_ON, VV_DIRECT_OFF };
enum vv_mode { VV_MODE_PRIVATE, VV_MODE_GROUP, VV_MODE_UMASK };
enum vv_owner { VV_OWNER_SELF, VV_OWNER_ANY };
/* What a store is opened for. WRITING: whether the root may be trusted is asked at once, and open fails if not. EITHER:
 * it is asked by the first verb that writes, which then returns -EPERM. READING: such verbs return -EROFS. */
enum vv_purpose { VV_FOR_WRITING, VV_FOR_EITHER, VV_FOR_READING };

/* The key of an encrypted store, sealed with the user's: worth nothing without that. */
#define VV_KEYS_COPY 144u
struct vv_keys {
    uint8_t id[16];                  /* of the store's key */
    uint8_t copies[2][VV_KEYS_COPY]; /* keys/0 and keys/1; zeros if it could not be read */
};

/* Zero is the default of every member. The strings and pointers are not kept, but for log. */
struct vv_backend_options {
    int may_create;    /* make the folder (its parent must exist), else VARVE_NO_STORE when there is none */
    int direct;        /* enum vv_direct: bypass the page cache for large objects */
    int mode;          /* enum vv_mode: who may read and write files and folders made here */
    uint64_t min_free; /* bytes that must stay free, looked at as an upload begins and every 64 MiB: -ENOSPC below; and,
                        * unless it is 0, 16 inodes */
    int owner;         /* enum vv_owner: whose root is written to */
    int purpose;       /* enum vv_purpose: what it is opened for */
    int encrypt;       /* a new store becomes encrypted, and one that is not is VARVE_KEY */
    const char *key;   /* where the user's key comes from (key_source.c); "" or NULL: there is none */
    const struct vv_keys
        *keys_like;     /* a new store gets the key of the one these keys are from (vv_keys_get), or NULL */
    struct vv_log *log; /* lives as long as the backend; NULL: warnings to stderr */
    const struct vv_file_tuning *tuning; /* for measurements; NULL: what measured best */
};

/* Open what uri names. options may be NULL. VARVE_NO_STORE, VARVE_SETTING (the address is wrong; says where),
 * VARVE_KEY (the store is encrypted with another key, or should be and is not), VARVE_UNSUPPORTED, or -errno; error
 * says why. Close it with vv_backend_close. */
int vv_backend_open(const char *uri, const struct vv_backend_options *options, struct varve_backend **out,
                    struct varve_error *error);

/* An address of `size` bytes as it is meant now, also when the process has gone to another folder; vv_free it. NULL
 * without memory, or when the present folder is unknown. */
char *vv_address_absolute(const char *address, size_t size);

enum vv_sameness {
    VV_PLACES_DIFFER,
    VV_PLACES_ALIKE, /* the same bucket or pool, perhaps of another server */
    VV_PLACES_SAME   /* one folder, also by another spelling, a link or a mount; or the same bucket of one server */
};
/* Of two addresses, without asking what they name: a store need not be there yet. */
enum vv_sameness vv_address_compare(const char *a, const char *b);

/* Of stores that are encrypted (keys.c). source is where the user's key comes from. */
/* Do both copies open, and have the store's key? 1, 0 if the store is not encrypted, or an error; then *bad is the one
 * that does not, unless the user's key was not there. */
int vv_keys_check(struct varve_backend *backend, const char *source, const char **bad, struct varve_error *error);
/* Let the store be opened with the key from new_source, and not with that from source any more. */
int vv_keys_change(struct varve_backend *backend, const char *source, const char *new_source,
                   struct varve_error *error);
/* Somebody may have emptied the store while it was open: copies that are missing are written again, since its key is
 * known. How many; 0 also if it is not encrypted. */
int vv_keys_restore(struct varve_backend *backend, const char *source, struct varve_error *error);
/* 1, or 0 if the store is not encrypted. */
int vv_keys_get(struct varve_backend *backend, struct vv_keys *out, struct varve_error *error);

#endif
