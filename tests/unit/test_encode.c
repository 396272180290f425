/* Codecs: round trips, what does not get smaller, and damaged input. */
#include <stdlib.h>
#include <string.h>

#include "encode/codec.h"
#include "test.h"

static const char *const names[] = {"none", "lz4", "zstd"};

static void fill(uint8_t *data, size_t size, int kind) {
    for (size_t i = 0; i < size; i++)
        data[i] = kind == 0 ? 0 : kind == 1 ? (uint8_t)(i / 100) : (uint8_t)rand();
}

static void round_trips(void **unused) {
    (void)unused;
    static const size_t sizes[] = {1, 2, 64, 4096, 65537, 1 << 20};
    uint8_t *data = malloc(1 << 20), *stored = malloc(1 << 20), *back = malloc((1 << 20) + 1);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int kind = 0; kind < 3; kind++)
            for (int c = 1; c < 3; c++) {
                const struct vv_codec_ops *codec = vv_codec_by_name(names[c]);
                assert_ptr_equal(codec, vv_codec_by_number((uint8_t)c));
                fill(data, sizes[s], kind);
                int64_t got = codec->encode(data, sizes[s], stored, 1);
                assert_true(got >= 0 && got < (int64_t)sizes[s]);
                if (got == 0)
                    continue;
                back[sizes[s]] = 0x5a;
                assert_int_equal(codec->decode(stored, (size_t)got, back, sizes[s]), 0);
                assert_memory_equal(back, data, sizes[s]);
                assert_int_equal(back[sizes[s]], 0x5a);
                /* a wrong size, in either direction, is refused */
                assert_int_equal(codec->decode(stored, (size_t)got, back, sizes[s] + 1), VARVE_CORRUPT);
                if (sizes[s] > 1)
                    assert_int_equal(codec->decode(stored, (size_t)got, back, sizes[s] - 1), VARVE_CORRUPT);
            }
    assert_null(vv_codec_by_number(3));
    assert_null(vv_codec_by_name("gzip"));
    free(data);
    free(stored);
    free(back);
}

static void damaged_input_is_refused_or_harmless(void **unused) {
    (void)unused;
    enum { SIZE = 8192 };
    static uint8_t data[SIZE], stored[SIZE], bad[SIZE], back[SIZE];
    fill(data, SIZE, 1);
    for (int c = 1; c < 3; c++) {
        const struct vv_codec_ops *codec = vv_codec_by_name(names[c]);
        int64_t got = codec->encode(data, SIZE, stored, 1);
        assert_true(got > 0);
        for (int i = 0; i < 5000; i++) {
            memcpy(bad, stored, (size_t)got);
            bad[rand() % got] ^= (uint8_t)(1 << rand() % 8);
            int rc = codec->decode(bad, (size_t)(rand() % 2 ? got : rand() % got), back, SIZE);
            assert_true(rc == 0 || rc == VARVE_CORRUPT);
        }
    }
}

static void the_choice_looks_at_data_and_storage(void **unused) {
    (void)unused;
    enum { SIZE = 65536 };
    static uint8_t data[SIZE];
    fill(data, SIZE, 2);
    assert_string_equal(vv_codec_choose(data, SIZE, 1e6, 1)->name, "none"); /* random bytes: nothing to gain */
    fill(data, SIZE, 1);
    assert_string_not_equal(vv_codec_choose(data, SIZE, 1e6, 1)->name, "none"); /* slow storage, easy data */
    assert_string_equal(vv_codec_choose(data, SIZE, 1e15, 1)->name, "none");    /* storage faster than any codec */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(damaged_input_is_refused_or_harmless),
        cmocka_unit_test(the_choice_looks_at_data_and_storage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
