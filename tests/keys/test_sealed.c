/* Sealed objects: known answers, and that nothing but what was written under a name comes back from it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "backend/backend.h"
#include "base/bytes.h"
#include "storage/keys_private.h"

#define FRAME VV_SEALED_FRAME

static const struct varve_cipher_ops *cipher;
static struct vv_secret secret, other_secret;
static const char name[] = "n/kat/beat/00000001";

struct stores {
    struct varve_backend *raw; /* what the owner of the storage sees */
    struct varve_backend *sealed;
};

static void from_hex(const char *text, uint8_t *out) {
    for (size_t i = 0; text[2 * i]; i++) {
        unsigned value;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
        out[i] = (uint8_t)value;
    }
}

static void assert_hex(const uint8_t *data, const char *text) {
    uint8_t expected[256];
    from_hex(text, expected);
    assert_memory_equal(data, expected, strlen(text) / 2);
}

static void make_pattern(uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 7);
}

/* ---- known answers ---- */

/* RFC 4231, test case 1; the GCM specification of McGrew and Viega, test cases 13 to 15. */
static void test_cipher(void **state) {
    uint8_t key[32] = {0}, nonce[12] = {0}, data[64] = {0}, out[80], back[64], mac[32];
    struct varve_cipher *context;
    (void)state;
    memset(key, 0x0b, 20);
    assert_int_equal(cipher->hmac(key, 20, "Hi There", 8, mac), 0);
    assert_hex(mac, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    memset(key, 0, sizeof key);
    assert_int_equal(cipher->begin(key, &context), 0);
    assert_int_equal(cipher->seal(context, nonce, data, 0, out), 0);
    assert_hex(out, "530f8afbc74536b9a963b4f1c4cb738b");
    assert_int_equal(cipher->seal(context, nonce, data, 16, out), 0);
    assert_hex(out, "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
    cipher->end(context);
    from_hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", key);
    from_hex("cafebabefacedbaddecaf888", nonce);
    from_hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
             "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
             data);
    assert_int_equal(cipher->begin(key, &context), 0);
    assert_int_equal(cipher->seal(context, nonce, data, 64, out), 0);
    assert_hex(out, "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
                    "b094dac5d93471bdec1a502270e3cc6c");
    assert_int_equal(cipher->open(context, nonce, out, 64, back), 0);
    assert_memory_equal(back, data, 64);
    nonce[0] ^= 1;
    assert_int_equal(cipher->open(context, nonce, out, 64, back), -EBADMSG);
    cipher->end(context);
}

static void seal_with(const uint8_t key[32], uint64_t number, const uint8_t *data, size_t size, uint8_t *out) {
    struct varve_cipher *context;
    assert_int_equal(cipher->begin(key, &context), 0);
    assert_int_equal(vv_sealed_put(cipher, context, number, data, size, out), 0);
    cipher->end(context);
}

/* These bytes were made from docs/format.md 17 with another implementation of everything (Python's cryptography). */
static void test_framing(void **state) {
    static uint8_t data[FRAME + 5], out[FRAME + 16];
    uint8_t salt[32], head[96], key[32];
    (void)state;
    for (int i = 0; i < 32; i++)
        salt[i] = (uint8_t)(100 + i);
    vv_sealed_head_with(&secret, name, salt, head);
    assert_hex(head, "8956617276650d0a01000e000000000001000000000000000000000000000000"
                     "013211d1d71b6c7bcdf3cb1a49dba42d6465666768696a6b6c6d6e6f70717273"
                     "7475767778797a7b7c7d7e7f808182833f11376a765725ae284cacd76df5575d");
    assert_null(vv_sealed_head_wrong(&secret, name, head, sizeof head));
    assert_int_equal(vv_sealed_key(&secret, name, head, key), 0);
    assert_hex(key, "2862aaec46b8e1d19169394bb9b7651898cf974b5c54bb3ba3f0c15cacad94b1");
    seal_with(key, 0, (const uint8_t *)"hello, varve\n", 13, out);
    assert_hex(out, "d31eb2c6a3835327e67010b0b6f9b4aa51aa3712780f36bcda54fb180a");
    make_pattern(data, sizeof data);
    seal_with(key, 0, data, FRAME, out);
    assert_hex(out, "48906e4a77b616418a45bc56c5907204");
    assert_hex(out + FRAME, "ff724b8b622c47b87cfbb3752baaf739");
    seal_with(key, 1, data + FRAME, 5, out);
    assert_hex(out, "ab1b7ad02db36afa7a114c13cf0dd18b271d9e957b");
    seal_with(key, 1, data, 0, out);
    assert_hex(out, "3f59a006405d366751a230f20af762c1");
}

/* ---- the wrapper ---- */

static void open_stores(struct stores *stores, const struct vv_secret *with) {
    struct vv_backend_options options = {.may_create = 1};
    struct varve_backend *inner;
    struct varve_error error;
    assert_int_equal(vv_backend_open("mem://sealed", &options, &stores->raw, &error), 0);
    assert_int_equal(vv_backend_open("mem://sealed", &options, &inner, &error), 0);
    assert_int_equal(vv_sealed_backend_wrap(inner, with, NULL, &stores->sealed), 0);
}

static void close_stores(struct stores *stores) {
    vv_backend_close(stores->sealed);
    vv_backend_close(stores->raw);
    vv_mem_drop("sealed");
}

static void put_in_pieces(struct varve_backend *backend, const char *key, const uint8_t *data, size_t size,
                          size_t piece) {
    struct varve_upload *upload;
    assert_int_equal(vv_backend_create(backend, key, size, &upload), 0);
    for (size_t at = 0; at < size; at += piece)
        assert_int_equal(vv_backend_upload_write(upload, data + at, size - at < piece ? size - at : piece), 0);
    assert_int_equal(vv_backend_upload_commit(upload), 0);
}

static void check_range(struct varve_backend *backend, const uint8_t *data, size_t size, size_t offset, size_t want) {
    uint8_t *into = malloc(want + 1);
    size_t expected = offset >= size ? 0 : size - offset < want ? size - offset : want;
    assert_int_equal(vv_backend_get(backend, "n/a", offset, into, want), expected);
    assert_memory_equal(into, data + (offset < size ? offset : 0), expected);
    free(into);
}

/* Sizes and ranges around the ends of frames, written in pieces of several lengths. */
static void test_ranges(void **state) {
    static const size_t sizes[] = {0, 1, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME, 9 * FRAME + 77};
    static const size_t pieces[] = {1000, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME};
    static uint8_t data[9 * FRAME + 77];
    struct stores stores;
    (void)state;
    make_pattern(data, sizeof data);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t length, size;
        open_stores(&stores, &secret);
        put_in_pieces(stores.sealed, "n/a", data, sizes[i], pieces[i % 5]);
        assert_int_equal(vv_backend_stat(stores.raw, "n/a", &length), 0);
        assert_int_equal(length, vv_sealed_length(sizes[i]));
        assert_int_equal(vv_backend_stat(stores.sealed, "n/a", &size), 0);
        assert_int_equal(size, sizes[i]);
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
                check_range(stores.sealed, data, sizes[i], sizes[j], sizes[k]);
        check_range(stores.sealed, data, sizes[i], FRAME - 3, 7);
        close_stores(&stores);
    }
}

static void read_raw(struct stores *stores, const char *key, struct vv_buf *buf) {
    vv_buf_init(buf);
    assert_int_equal(vv_backend_get_all(stores->raw, key, 1 << 28, buf), 0);
}

static void refused(struct stores *stores, const char *key, const char *why) {
    char text[200];
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_get_all(stores->sealed, key, 1 << 28, &buf), VARVE_CORRUPT);
    assert_int_equal(vv_backend_refusal(stores->sealed, key, text, sizeof text), 1);
    if (why && !strstr(text, why))
        fail_msg("%s: %s, not %s", key, text, why);
    vv_buf_clear(&buf);
}

static void accepted(struct stores *stores, const char *key, const uint8_t *data, size_t size) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(vv_backend_get_all(stores->sealed, key, 1 << 28, &buf), 0);
    assert_int_equal(buf.size, size);
    assert_memory_equal(buf.data, data, size);
    vv_buf_clear(&buf);
}

/* Each bit of an object of one frame; of a larger one each of its head and its ends, and one in 997 of the others. */
static void test_flipped_bits(void **state) {
    static const size_t sizes[] = {0, 40, 2 * FRAME + 5};
    static uint8_t data[2 * FRAME + 5];
    struct stores stores;
    (void)state;
    make_pattern(data, sizeof data);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct vv_buf raw;
        open_stores(&stores, &secret);
        assert_int_equal(vv_backend_put(stores.sealed, "n/a", data, sizes[i]), 0);
        read_raw(&stores, "n/a", &raw);
        for (size_t bit = 0; bit < 8 * raw.size; bit++) {
            if (bit > 8 * 200 && bit < 8 * (raw.size - 40) && bit % 997)
                continue;
            raw.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(vv_backend_replace(stores.raw, "n/a", raw.data, raw.size), 0);
            refused(&stores, "n/a", NULL);
            raw.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_int_equal(vv_backend_replace(stores.raw, "n/a", raw.data, raw.size), 0);
        accepted(&stores, "n/a", data, sizes[i]);
        vv_buf_clear(&raw);
        close_stores(&stores);
    }
}

/* A whole read finds every other length: each of small objects, and of larger ones those near the ends of frames. */
static void test_lengths(void **state) {
    static const size_t sizes[] = {0, 1, 40, FRAME - 16, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME};
    static uint8_t data[2 * FRAME], longer[4 * FRAME];
    struct stores stores;
    struct vv_buf raw;
    (void)state;
    make_pattern(data, sizeof data);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        open_stores(&stores, &secret);
        assert_int_equal(vv_backend_put(stores.sealed, "n/a", data, size), 0);
        read_raw(&stores, "n/a", &raw);
        memset(longer, 0, sizeof longer);
        memcpy(longer, raw.data, raw.size);
        for (size_t length = 0; length < raw.size + FRAME + 200; length++) {
            size_t from_frame = (length + 40 - 96) % (FRAME + 16);
            if (length == raw.size || (length > 300 && from_frame > 60))
                continue;
            assert_int_equal(vv_backend_replace(stores.raw, "n/a", longer, length), 0);
            refused(&stores, "n/a", NULL);
        }
        vv_buf_clear(&raw);
        close_stores(&stores);
    }
}

/* Cut where a frame ends, an object is refused by reads that begin there; a whole one has nothing behind its end. */
static void test_cut_at_frame(void **state) {
    static uint8_t data[2 * FRAME];
    struct stores stores;
    struct vv_buf raw;
    uint8_t byte;
    (void)state;
    make_pattern(data, sizeof data);
    open_stores(&stores, &secret);
    assert_int_equal(vv_backend_put(stores.sealed, "n/a", data, sizeof data), 0);
    for (uint64_t frames = 2; frames < 5; frames++)
        assert_int_equal(vv_backend_get(stores.sealed, "n/a", frames * FRAME, &byte, 1), 0);
    read_raw(&stores, "n/a", &raw);
    for (size_t frames = 1; frames < 3; frames++) {
        assert_int_equal(vv_backend_replace(stores.raw, "n/a", raw.data, 96 + frames * (FRAME + 16)), 0);
        assert_int_equal(vv_backend_get(stores.sealed, "n/a", frames * FRAME, &byte, 1), VARVE_CORRUPT);
        assert_int_equal(vv_backend_get(stores.sealed, "n/a", 4 * FRAME, &byte, 1), VARVE_CORRUPT);
    }
    vv_buf_clear(&raw);
    close_stores(&stores);
}

static void move(struct stores *stores, const char *from, const char *to) {
    struct vv_buf raw;
    read_raw(stores, from, &raw);
    assert_int_equal(vv_backend_replace(stores->raw, to, raw.data, raw.size), 0);
    vv_buf_clear(&raw);
}

/* Objects under the name of another one, also if what is readable in their head is changed to fit; of another store;
 * plain ones; and frames in another order or of another state of the same object. */
static void test_exchanged(void **state) {
    static uint8_t data[3 * FRAME + 9];
    struct stores stores, others;
    struct vv_buf raw, newer;
    (void)state;
    make_pattern(data, sizeof data);
    open_stores(&stores, &secret);
    assert_int_equal(vv_backend_put(stores.sealed, "n/a", data, sizeof data), 0);
    assert_int_equal(vv_backend_put(stores.sealed, "n/b", data, sizeof data), 0);
    move(&stores, "n/a", "n/c");
    refused(&stores, "n/c", "under another name");
    read_raw(&stores, "n/b", &newer);
    move(&stores, "n/a", "n/b");
    refused(&stores, "n/b", "under another name");
    read_raw(&stores, "n/a", &raw);
    vv_sealed_head_with(&secret, "n/b", raw.data + 48, raw.data);
    assert_int_equal(vv_backend_replace(stores.raw, "n/b", raw.data, raw.size), 0);
    refused(&stores, "n/b", "damaged or changed");
    assert_int_equal(vv_backend_replace(stores.raw, "n/b", data, 1000), 0);
    refused(&stores, "n/b", "magic");
    vv_buf_clear(&raw);
    vv_buf_clear(&newer);

    read_raw(&stores, "n/a", &raw);
    uint8_t *frames = raw.data + 96;
    memcpy(data, frames, FRAME + 16);
    memcpy(frames, frames + FRAME + 16, FRAME + 16);
    memcpy(frames + FRAME + 16, data, FRAME + 16);
    assert_int_equal(vv_backend_replace(stores.raw, "n/a", raw.data, raw.size), 0);
    refused(&stores, "n/a", "damaged or changed");
    memcpy(frames + FRAME + 16, frames, FRAME + 16);
    memcpy(frames, data, FRAME + 16);
    make_pattern(data, sizeof data);
    assert_int_equal(vv_backend_replace(stores.sealed, "n/a", data, sizeof data), 0);
    read_raw(&stores, "n/a", &newer);
    assert_memory_not_equal(newer.data + 96, raw.data + 96, 64); /* the same bytes look different */
    memcpy(newer.data + 96, raw.data + 96, FRAME + 16);
    assert_int_equal(vv_backend_replace(stores.raw, "n/a", newer.data, newer.size), 0);
    refused(&stores, "n/a", "damaged or changed");
    vv_buf_clear(&raw);
    vv_buf_clear(&newer);

    others.raw = stores.raw;
    assert_int_equal(vv_sealed_backend_wrap(stores.raw, &other_secret, NULL, &others.sealed), 0);
    assert_int_equal(vv_backend_put(others.sealed, "n/d", data, 100), 0);
    refused(&stores, "n/d", "of another store");
    accepted(&others, "n/d", data, 100);
    vv_backend_close(stores.sealed);
    vv_backend_close(others.sealed); /* and the one it wraps */
    vv_mem_drop("sealed");
}

/* The key of a large object is remembered; one that was replaced since is read nevertheless. */
static void test_replaced(void **state) {
    static uint8_t data[3 * FRAME];
    struct stores stores;
    uint8_t byte;
    (void)state;
    open_stores(&stores, &secret);
    for (int i = 0; i < 5; i++) {
        memset(data, i, sizeof data);
        assert_int_equal(vv_backend_replace(stores.sealed, "n/a", data, sizeof data), 0);
        assert_int_equal(vv_backend_get(stores.sealed, "n/a", 2 * FRAME + 7, &byte, 1), 1);
        assert_int_equal(byte, i);
        accepted(&stores, "n/a", data, sizeof data);
    }
    close_stores(&stores);
}

static int count_name(void *arg, const char *found, int is_prefix) {
    (void)is_prefix;
    assert_string_not_equal(found, "keys");
    ++*(int *)arg;
    return 0;
}

static void test_listing(void **state) {
    struct stores stores;
    int count = 0;
    (void)state;
    open_stores(&stores, &secret);
    assert_int_equal(vv_backend_put(stores.raw, "keys/0", "x", 1), 0);
    assert_int_equal(vv_backend_put(stores.raw, "a", "x", 1), 0);
    assert_int_equal(vv_backend_put(stores.raw, "n/a", "x", 1), 0);
    assert_int_equal(vv_backend_put(stores.raw, "z", "x", 1), 0);
    assert_int_equal(vv_backend_list(stores.sealed, "", NULL, 0, count_name, &count), 0);
    assert_int_equal(count, 3);
    assert_int_equal(vv_backend_list(stores.sealed, "", "a", 1, count_name, &count), 0);
    assert_int_equal(count, 4);
    close_stores(&stores);
}

static int set_up(void **state) {
    struct varve_error error;
    uint8_t key[32];
    (void)state;
    if (vv_cipher_load(&cipher, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return -1;
    }
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    if (vv_secret_init(&secret, cipher, key) < 0)
        return -1;
    key[31] ^= 1;
    return vv_secret_init(&other_secret, cipher, key);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cipher),       cmocka_unit_test(test_framing),  cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_flipped_bits), cmocka_unit_test(test_lengths),  cmocka_unit_test(test_cut_at_frame),
        cmocka_unit_test(test_exchanged),    cmocka_unit_test(test_replaced), cmocka_unit_test(test_listing),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
