/* The bytes of sealed objects, and the keys they are sealed with. */
#include "backend/sealed.h"

#include <errno.h>
#include <string.h>

#include "backend/backend.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/thread.h"

/* The beginning is that of every object (format/head.c), with a kind and a required feature of its own: a program that
 * does not know of encryption says so, instead of calling the object damaged. */
static const uint8_t magic[8] = {0x89, 0x56, 0x61, 0x72, 0x76, 0x65, 0x0D, 0x0A};
#define FORMAT_VERSION 1
#define KIND_SEALED 14
#define FEATURE_ENCRYPTED 1u
#define AT_KEY_ID 32
#define AT_SALT 48
#define AT_NAME_SUM 80
#define AT_SUM 88

static const char object_label[] = "varve object 1";
static const char id_label[] = "varve key id 1";
#define LABEL 14

/* HKDF-SHA256 (RFC 5869) for 32 bytes, which is one round of its second half. info has room for one byte more. */
static int derive(const struct vv_secret *secret, const uint8_t salt[32], uint8_t *info, size_t size, uint8_t out[32]) {
    uint8_t middle[32];
    int result = secret->cipher->hmac(salt, 32, secret->key, sizeof secret->key, middle);
    info[size] = 1;
    if (result == 0)
        result = secret->cipher->hmac(middle, sizeof middle, info, size + 1, out);
    explicit_bzero(middle, sizeof middle);
    return result;
}

int vv_secret_init(struct vv_secret *secret, const struct varve_cipher_ops *cipher, const uint8_t key[VV_SEALED_KEY]) {
    static const uint8_t no_salt[32];
    uint8_t info[LABEL + 1], id[32];
    secret->cipher = cipher;
    memcpy(secret->key, key, sizeof secret->key);
    memcpy(info, id_label, LABEL);
    int result = derive(secret, no_salt, info, LABEL, id);
    memcpy(secret->id, id, sizeof secret->id);
    return result;
}

void vv_secret_clear(struct vv_secret *secret) {
    explicit_bzero(secret, sizeof *secret);
}

uint64_t vv_sealed_length(uint64_t size) {
    return VV_SEALED_HEAD + size + (size / VV_SEALED_FRAME + 1) * VV_SEALED_TAG;
}

uint64_t vv_sealed_size(uint64_t length) {
    uint64_t body = length < VV_SEALED_HEAD ? 0 : length - VV_SEALED_HEAD;
    uint64_t full = body / (VV_SEALED_FRAME + VV_SEALED_TAG), rest = body % (VV_SEALED_FRAME + VV_SEALED_TAG);
    return full * VV_SEALED_FRAME + (rest < VV_SEALED_TAG ? 0 : rest - VV_SEALED_TAG);
}

void vv_sealed_head_with(const struct vv_secret *secret, const char *name, const uint8_t salt[32],
                         uint8_t head[VV_SEALED_HEAD]) {
    memset(head, 0, VV_SEALED_HEAD);
    memcpy(head, magic, sizeof magic);
    vv_put16(head + 8, FORMAT_VERSION);
    vv_put16(head + 10, KIND_SEALED);
    vv_put64(head + 16, FEATURE_ENCRYPTED);
    memcpy(head + AT_KEY_ID, secret->id, sizeof secret->id);
    memcpy(head + AT_SALT, salt, 32);
    vv_put64(head + AT_NAME_SUM, vv_sum64(name, strlen(name)));
    vv_put64(head + AT_SUM, vv_sum64(head, AT_SUM));
}

int vv_sealed_head(const struct vv_secret *secret, const char *name, uint8_t head[VV_SEALED_HEAD]) {
    uint8_t salt[32];
    int result = vv_random(salt, sizeof salt);
    if (result == 0)
        vv_sealed_head_with(secret, name, salt, head);
    return result;
}

int vv_sealed_is_head(const uint8_t *head, size_t size) {
    return size >= VV_SEALED_HEAD && memcmp(head, magic, sizeof magic) == 0 &&
           vv_get64(head + AT_SUM) == vv_sum64(head, AT_SUM) && vv_get16(head + 8) == FORMAT_VERSION &&
           vv_get16(head + 10) == KIND_SEALED;
}

const char *vv_sealed_head_wrong(const struct vv_secret *secret, const char *name, const uint8_t *head, size_t size) {
    if (size < VV_SEALED_HEAD)
        return "it is shorter than the head of an encrypted object";
    if (memcmp(head, magic, sizeof magic) != 0)
        return "it does not begin with the magic of a Varve object";
    if (vv_get64(head + AT_SUM) != vv_sum64(head, AT_SUM))
        return "its head is damaged";
    if (!vv_sealed_is_head(head, size))
        return "it is not encrypted, and was not written by a session of this store";
    if (vv_get64(head + 16) != FEATURE_ENCRYPTED || vv_get64(head + 24) || vv_get32(head + 12))
        return "its head has features that this program does not know";
    if (memcmp(head + AT_KEY_ID, secret->id, sizeof secret->id) != 0)
        return "it is encrypted with the key of another store";
    if (vv_get64(head + AT_NAME_SUM) != vv_sum64(name, strlen(name)))
        return "it was written under another name: somebody has moved or exchanged it";
    return NULL;
}

int vv_sealed_key(const struct vv_secret *secret, const char *name, const uint8_t head[VV_SEALED_HEAD],
                  uint8_t out[VV_SEALED_KEY]) {
    uint8_t info[LABEL + VV_SEALED_HEAD + VV_BACKEND_KEY_MAX + 1];
    size_t size = strlen(name);
    if (size > VV_BACKEND_KEY_MAX)
        return -EINVAL;
    memcpy(info, object_label, LABEL);
    memcpy(info + LABEL, head, VV_SEALED_HEAD);
    memcpy(info + LABEL + VV_SEALED_HEAD, name, size);
    return derive(secret, head + AT_SALT, info, LABEL + VV_SEALED_HEAD + size, out);
}

static void make_nonce(uint64_t number, size_t size, uint8_t nonce[12]) {
    vv_put64(nonce, number);
    vv_put32(nonce + 8, size < VV_SEALED_FRAME);
}

int vv_sealed_put(const struct varve_cipher_ops *ops, struct varve_cipher *cipher, uint64_t number, const void *data,
                  size_t size, void *out) {
    uint8_t nonce[12];
    make_nonce(number, size, nonce);
    return ops->seal(cipher, nonce, data, size, out);
}

int vv_sealed_take(const struct varve_cipher_ops *ops, struct varve_cipher *cipher, uint64_t number, const void *data,
                   size_t size, void *out) {
    uint8_t nonce[12];
    make_nonce(number, size, nonce);
    return ops->open(cipher, nonce, data, size, out);
}

static int seal_frames(const struct vv_secret *secret, const uint8_t key[VV_SEALED_KEY], const uint8_t *data,
                       size_t size, uint8_t *out) {
    struct varve_cipher *cipher;
    int result = secret->cipher->begin(key, &cipher);
    if (result < 0)
        return result;
    for (uint64_t number = 0; result == 0; number++) {
        size_t part = size < VV_SEALED_FRAME ? size : VV_SEALED_FRAME;
        result = vv_sealed_put(secret->cipher, cipher, number, data, part, out);
        if (part < VV_SEALED_FRAME)
            break;
        data += part;
        size -= part;
        out += part + VV_SEALED_TAG;
    }
    secret->cipher->end(cipher);
    return result;
}

int vv_sealed_whole(const struct vv_secret *secret, const char *name, const void *data, size_t size, uint8_t *out) {
    uint8_t key[VV_SEALED_KEY];
    int result = vv_sealed_head(secret, name, out);
    if (result == 0)
        result = vv_sealed_key(secret, name, out, key);
    if (result == 0)
        result = seal_frames(secret, key, data, size, out + VV_SEALED_HEAD);
    explicit_bzero(key, sizeof key);
    return result;
}
