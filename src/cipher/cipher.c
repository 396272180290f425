/* AES-256-GCM and HMAC-SHA256 of OpenSSL's libcrypto, for encrypted stores. Errors of libcrypto become -EIO: they mean
 * that memory is short or that its configuration forbids these two. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <varve/varve_backend.h>

#define TAG 16
#define NONCE 12

static pthread_once_t fetch_once = PTHREAD_ONCE_INIT;
static EVP_CIPHER *gcm; /* fetched once: a look-up by name takes longer than a small object */

static void fetch(void) {
    gcm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
}

static EVP_CIPHER_CTX *context_of(struct varve_cipher *cipher) {
    return (EVP_CIPHER_CTX *)cipher;
}

static int cipher_hmac(const void *key, size_t key_size, const void *data, size_t size, uint8_t out[32]) {
    unsigned length = 0;
    return HMAC(EVP_sha256(), key, (int)key_size, data, size, out, &length) && length == 32 ? 0 : -EIO;
}

static int cipher_begin(const uint8_t key[32], struct varve_cipher **out) {
    pthread_once(&fetch_once, fetch);
    EVP_CIPHER_CTX *context = gcm ? EVP_CIPHER_CTX_new() : NULL;
    if (!context)
        return gcm ? -ENOMEM : -EIO;
    if (EVP_CipherInit_ex2(context, gcm, key, NULL, 1, NULL) != 1) {
        EVP_CIPHER_CTX_free(context);
        return -EIO;
    }
    *out = (struct varve_cipher *)context;
    return 0;
}

static int cipher_seal(struct varve_cipher *cipher, const uint8_t nonce[12], const void *data, size_t size, void *out) {
    EVP_CIPHER_CTX *context = context_of(cipher);
    uint8_t *bytes = out;
    int length = 0, rest = 0;
    int is_done = EVP_CipherInit_ex2(context, NULL, NULL, nonce, 1, NULL) == 1 &&
                  (size == 0 || EVP_CipherUpdate(context, bytes, &length, data, (int)size) == 1) &&
                  EVP_CipherFinal_ex(context, bytes + length, &rest) == 1 && (size_t)(length + rest) == size &&
                  EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG, bytes + size) == 1;
    return is_done ? 0 : -EIO;
}

static int cipher_open(struct varve_cipher *cipher, const uint8_t nonce[12], const void *data, size_t size, void *out) {
    EVP_CIPHER_CTX *context = context_of(cipher);
    uint8_t tag[TAG], *bytes = out;
    int length = 0, rest = 0;
    for (int i = 0; i < TAG; i++)
        tag[i] = ((const uint8_t *)data)[size + (size_t)i];
    if (EVP_CipherInit_ex2(context, NULL, NULL, nonce, 0, NULL) != 1 ||
        (size && EVP_CipherUpdate(context, bytes, &length, data, (int)size) != 1) ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG, tag) != 1)
        return -EIO;
    return EVP_CipherFinal_ex(context, bytes + length, &rest) == 1 ? 0 : -EBADMSG;
}

static void cipher_end(struct varve_cipher *cipher) {
    EVP_CIPHER_CTX_free(context_of(cipher)); /* wipes the key */
}

static const struct varve_cipher_ops ops = {
    .size = sizeof(ops),
    .name = "AES-256-GCM of OpenSSL",
    .hmac = cipher_hmac,
    .begin = cipher_begin,
    .seal = cipher_seal,
    .open = cipher_open,
    .end = cipher_end,
};

VARVE_API const struct varve_cipher_ops *varve_cipher_get(void);
const struct varve_cipher_ops *varve_cipher_get(void) {
    return &ops;
}
