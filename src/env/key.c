/* What only the ranks of a job can compute: keyed hashes, HMAC-SHA256 of libcrypto. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "door.h"

#define PARTS_MOST 256 /* bytes: all that is ever hashed here is short */

int vv_env_mac_of(const void *key, size_t key_size, const void *data, size_t size, uint8_t out[VV_ENV_KEY]) {
    unsigned length = 0;
    return HMAC(EVP_sha256(), key, (int)key_size, data, size, out, &length) && length == VV_ENV_KEY ? 0 : -EIO;
}

int vv_env_mac(const uint8_t key[VV_ENV_KEY], const char *word, const struct vv_env_part *parts, size_t count,
               uint8_t out[VV_ENV_KEY]) {
    uint8_t bytes[PARTS_MOST];
    size_t size = strlen(word) + 1; /* with its end: no word is the beginning of another */
    if (size > sizeof bytes)
        return -EINVAL;
    memcpy(bytes, word, size);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].size > sizeof bytes - size)
            return -EINVAL;
        memcpy(bytes + size, parts[i].data, parts[i].size);
        size += parts[i].size;
    }
    return vv_env_mac_of(key, VV_ENV_KEY, bytes, size, out);
}

int vv_env_is_same(const uint8_t *a, const uint8_t *b, size_t size) {
    return CRYPTO_memcmp(a, b, size) == 0;
}

int vv_env_random(void *out, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t got = getrandom((char *)out + done, size - done, 0);
        if (got < 0 && errno != EINTR)
            return -errno;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}
