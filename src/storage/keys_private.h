/* Keys of encrypted stores, and where they come from. */
#ifndef VV_KEYS_PRIVATE_H
#define VV_KEYS_PRIVATE_H

#include "backend/sealed.h"
#include "storage/storage.h"

/* key_source.c: the user's key from "file:PATH", "env:NAME" or "command:TEXT". VARVE_SETTING if there is none; no text
 * of an error has anything of a key. */
int vv_key_read(const char *source, uint8_t key[VV_SEALED_KEY], struct varve_error *error);

/* loaded.c: the library with the cipher. */
int vv_cipher_load(const struct varve_cipher_ops **out, struct varve_error *error);

/* keys.c: wrap *backend if the store on it is encrypted, or shall be. VARVE_NO_STORE: there is none, and none is to be
 * made. Without the right key nothing is changed. On failure *backend is as it was. */
int vv_keys_open(struct varve_backend **backend, const struct vv_backend_options *options, const char *place,
                 struct varve_error *error);

#endif
