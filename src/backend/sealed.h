/* Sealed objects: what an encrypted store keeps under its keys (docs/format.md 17). Bytes in, bytes out.
 *
 *   head (96) | frame frame ... | last frame
 *
 * A frame is 64 KiB of the object, encrypted, and a tag of 16 bytes; the last one has less than 64 KiB, perhaps none.
 * So the length of a frame says whether the object ends with it, and its tag proves that. Each object has a key of its
 * own, made of the store's key, a random salt, and the key (the name) the object lies under: counters do as nonces, and
 * an object that was moved does not open. */
#ifndef VV_SEALED_H
#define VV_SEALED_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve_backend.h>

#define VV_SEALED_HEAD 96u
#define VV_SEALED_FRAME 65536u
#define VV_SEALED_TAG 16u
#define VV_SEALED_KEY 32u
#define VV_SEALED_ID 16u

/* A key, and the cipher it is for. Wiped by clear. */
struct vv_secret {
    const struct varve_cipher_ops *cipher;
    uint8_t key[VV_SEALED_KEY];
    uint8_t id[VV_SEALED_ID]; /* tells keys apart, and nothing about them */
};
int vv_secret_init(struct vv_secret *secret, const struct varve_cipher_ops *cipher, const uint8_t key[VV_SEALED_KEY]);
void vv_secret_clear(struct vv_secret *secret);

/* How long a sealed object is, and how many bytes one of this length holds (if it is whole; 0 if it cannot be). */
uint64_t vv_sealed_length(uint64_t size);
uint64_t vv_sealed_size(uint64_t length);

/* The head of a new object under name. */
int vv_sealed_head(const struct vv_secret *secret, const char *name, uint8_t head[VV_SEALED_HEAD]);
/* The same with this salt: for tests, since salts must be random. */
void vv_sealed_head_with(const struct vv_secret *secret, const char *name, const uint8_t salt[32],
                         uint8_t head[VV_SEALED_HEAD]);
/* Is it the head of a sealed object at all? */
int vv_sealed_is_head(const uint8_t *head, size_t size);
/* Why this cannot be the head of an object under name that was sealed with this secret; NULL if it can. */
const char *vv_sealed_head_wrong(const struct vv_secret *secret, const char *name, const uint8_t *head, size_t size);
/* The key of one object. */
int vv_sealed_key(const struct vv_secret *secret, const char *name, const uint8_t head[VV_SEALED_HEAD],
                  uint8_t out[VV_SEALED_KEY]);

/* Frame `number` of an object: size bytes to size + 16, and back (-EBADMSG: it is not that frame). */
int vv_sealed_put(const struct varve_cipher_ops *ops, struct varve_cipher *cipher, uint64_t number, const void *data,
                  size_t size, void *out);
int vv_sealed_take(const struct varve_cipher_ops *ops, struct varve_cipher *cipher, uint64_t number, const void *data,
                   size_t size, void *out);

/* A whole object: out has room for vv_sealed_length(size). */
int vv_sealed_whole(const struct vv_secret *secret, const char *name, const void *data, size_t size, uint8_t *out);

#endif
