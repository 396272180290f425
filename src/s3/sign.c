/* AWS Signature Version 4, as "Authenticating Requests: Using the Authorization Header" describes it: a hash of the
 * request in a canonical form, signed with a key that is derived from the secret, the day, the region and the service.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "s3_private.h"

static void to_hex(const unsigned char *bytes, char out[VV_S3_HASH_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * SHA256_DIGEST_LENGTH] = '\0';
}

void vv_s3_hash(const void *data, size_t size, char out[VV_S3_HASH_TEXT]) {
    unsigned char sum[SHA256_DIGEST_LENGTH];
    SHA256(data ? data : "", size, sum);
    to_hex(sum, out);
}

static int compare_pairs(const void *a, const void *b) {
    const struct vv_s3_pair *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order ? order : strcmp(left->value, right->value);
}

/* A sorted copy; the caller frees it. */
static struct vv_s3_pair *sort_pairs(const struct vv_s3_pair *pairs, size_t count) {
    struct vv_s3_pair *sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted)
        return NULL;
    if (count)
        memcpy(sorted, pairs, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_pairs);
    return sorted;
}

static void add_query(const struct vv_s3_signing *signing, struct vv_s3_text *out) {
    struct vv_s3_pair *sorted = sort_pairs(signing->query, signing->query_count);
    if (!sorted)
        out->failed = -ENOMEM;
    for (size_t i = 0; sorted && i < signing->query_count; i++) {
        vv_s3_text_add(out, "&", i > 0);
        vv_s3_text_encode(out, sorted[i].name, 0);
        vv_s3_text_add(out, "=", 1);
        vv_s3_text_encode(out, sorted[i].value, 0);
    }
    free(sorted);
}

void vv_s3_target(const struct vv_s3_signing *signing, struct vv_s3_text *out) {
    vv_s3_text_encode(out, signing->path, 1);
    if (signing->query_count) {
        vv_s3_text_add(out, "?", 1);
        add_query(signing, out);
    }
}

/* The request in its canonical form, and which headers it has. */
static void add_canonical(const struct vv_s3_signing *signing, const struct vv_s3_pair *headers,
                          struct vv_s3_text *names, struct vv_s3_text *out) {
    vv_s3_text_print(out, "%s\n", signing->method);
    vv_s3_text_encode(out, signing->path, 1);
    vv_s3_text_add(out, "\n", 1);
    add_query(signing, out);
    vv_s3_text_add(out, "\n", 1);
    for (size_t i = 0; i < signing->header_count; i++) {
        vv_s3_text_print(out, "%s:%s\n", headers[i].name, headers[i].value);
        vv_s3_text_print(names, "%s%s", i ? ";" : "", headers[i].name);
    }
    vv_s3_text_print(out, "\n%s\n%s", names->data ? names->data : "", signing->payload_hash);
}

static void hmac(unsigned char key[SHA256_DIGEST_LENGTH], const char *text, size_t size) {
    unsigned length = SHA256_DIGEST_LENGTH;
    unsigned char out[SHA256_DIGEST_LENGTH];
    HMAC(EVP_sha256(), key, SHA256_DIGEST_LENGTH, (const unsigned char *)text, size, out, &length);
    memcpy(key, out, sizeof out);
    OPENSSL_cleanse(out, sizeof out);
}

static void derive(const struct vv_s3_signing *signing, const struct vv_s3_keys *keys,
                   unsigned char key[SHA256_DIGEST_LENGTH]) {
    char secret[sizeof keys->secret + 4];
    size_t size = strlen(keys->secret);
    unsigned length = SHA256_DIGEST_LENGTH;
    memcpy(secret, "AWS4", 4);
    memcpy(secret + 4, keys->secret, size);
    HMAC(EVP_sha256(), secret, (int)size + 4, (const unsigned char *)signing->time, 8, key, &length);
    OPENSSL_cleanse(secret, sizeof secret);
    hmac(key, signing->region, strlen(signing->region));
    hmac(key, signing->service, strlen(signing->service));
    hmac(key, "aws4_request", strlen("aws4_request"));
}

int vv_s3_sign(const struct vv_s3_signing *signing, const struct vv_s3_keys *keys, struct vv_s3_text *out) {
    struct vv_s3_text canonical = {0}, names = {0}, to_sign = {0}, scope = {0};
    unsigned char key[SHA256_DIGEST_LENGTH];
    char hash[VV_S3_HASH_TEXT];
    struct vv_s3_pair *headers = sort_pairs(signing->headers, signing->header_count);
    int failed = headers ? 0 : -ENOMEM;
    if (failed)
        goto out;
    add_canonical(signing, headers, &names, &canonical);
    vv_s3_text_print(&scope, "%.8s/%s/%s/aws4_request", signing->time, signing->region, signing->service);
    failed = canonical.failed | names.failed | scope.failed;
    if (failed)
        goto out;
    vv_s3_hash(canonical.data, canonical.size, hash);
    vv_s3_text_print(&to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", signing->time, scope.data, hash);
    failed = to_sign.failed;
    if (failed)
        goto out;
    derive(signing, keys, key);
    hmac(key, to_sign.data, to_sign.size);
    to_hex(key, hash);
    OPENSSL_cleanse(key, sizeof key);
    vv_s3_text_print(out, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", keys->id, scope.data,
                     names.data, hash);
    failed = out->failed;
out:
    free(headers);
    vv_s3_text_clear(&canonical);
    vv_s3_text_clear(&names);
    vv_s3_text_clear(&to_sign);
    vv_s3_text_clear(&scope);
    return failed ? -ENOMEM : 0;
}
