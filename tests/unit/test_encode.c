/* Codings and the coder: whatever goes in comes out; nothing is written beyond its room; wrong sizes, contradictions
 * and missing memory are answered. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "encode/coding.h"
#include "encode/grid.h"
#include "encode_data.h"
#include "test.h"

enum { LARGEST = 1 << 20, EDGE = 64, ROW = 100 };

static uint8_t *data, *stored, *back;
static struct vv_coder *coder;

static int setup(void **unused) {
    (void)unused;
    data = malloc(LARGEST + 1);
    stored = malloc(LARGEST + EDGE);
    back = malloc(LARGEST + EDGE);
    return data && stored && back ? vv_coder_create(&coder) : -1;
}

static int teardown(void **unused) {
    (void)unused;
    vv_coder_destroy(coder);
    free(data);
    free(stored);
    free(back);
    return 0;
}

static void assert_edge(const uint8_t *at) {
    for (int i = 0; i < EDGE; i++)
        assert_int_equal(at[i], 0x5a);
}

/* 1 if it got smaller. */
static int round_trip(const struct vv_coding *coding, const struct vv_content *content, const uint8_t *from,
                      size_t size) {
    memset(stored + size, 0x5a, EDGE);
    memset(back + size, 0x5a, EDGE);
    int64_t got = vv_coder_encode(coder, coding, content, from, size, stored, 1);
    assert_true(got >= 0 && (got < (int64_t)size || size == 0));
    assert_edge(stored + size);
    if (got == 0)
        return 0;
    memset(back, 0xa5, size);
    assert_int_equal(vv_coder_decode(coder, coding, stored, (size_t)got, back, size), 0);
    assert_edge(back + size);
    assert_memory_equal(back, from, size);
    /* a wrong size is refused, or at least harmless: streams of floats do not say how many there are */
    int rc = vv_coder_decode(coder, coding, stored, (size_t)got, back, size + 1);
    assert_true(rc == VARVE_CORRUPT || coding->codec == VV_CODEC_FPZIP || coding->codec == VV_CODEC_ZFP ||
                coding->codec == VV_CODEC_ZFP_GRID);
    memset(back + size - 1, 0x5a, EDGE);
    rc = vv_coder_decode(coder, coding, stored, (size_t)got, back, size - 1);
    assert_true(rc == VARVE_CORRUPT || (rc == 0 && coding->element));
    assert_edge(back + size - 1);
    return 1;
}

static void every_coding_gives_everything_back(void **unused) {
    (void)unused;
    static const size_t sizes[] = {1, 2, 7, 8, 63, 130, 4095, 4096, 20011};
    static const uint8_t elements[] = {0, 1, 2, 4, 8, 12, 16, 24};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int type = VARVE_BYTES; type <= VARVE_C128; type++)
            for (int kind = 0; kind < KINDS; kind++) {
                /* at an odd address, as the program may have it */
                fill_data(data + 1, sizes[s], kind, (uint8_t)type, ROW);
                for (int name = 0; name < VV_CODING_NAMES; name++) {
                    struct vv_content content = {.type = (uint8_t)type, .row = kind % 2 ? 0 : ROW};
                    struct vv_coding coding;
                    uint8_t element = elements[(size_t)(name + kind + type) % sizeof elements];
                    if (vv_coding_fit(name, &content, element, &coding))
                        round_trip(&coding, &content, data + 1, sizes[s]);
                }
            }
}

static void large_blocks_come_back(void **unused) {
    (void)unused;
    for (int type = VARVE_F32; type <= VARVE_F64; type++) {
        fill_data(data, LARGEST, SMOOTH, (uint8_t)type, 500);
        for (int name = 1; name < VV_CODING_NAMES; name++) {
            struct vv_content content = {.type = (uint8_t)type, .row = 500};
            struct vv_coding coding;
            if (!vv_coding_fit(name, &content, 0, &coding))
                continue;
            int is_smaller = round_trip(&coding, &content, data, LARGEST);
            assert_true(is_smaller || name == VV_CODING_LZ4); /* which finds nothing in floats */
        }
    }
}

static void filters_in_any_order(void **unused) {
    (void)unused;
    static const uint8_t elements[] = {1, 2, 4, 8, 12, 16, 24};
    fill_data(data, 8195, COUNTERS, VARVE_U64, ROW);
    for (uint8_t a = 1; a < VV_FILTERS; a++)
        for (uint8_t b = 0; b < VV_FILTERS; b++)
            for (size_t e = 0; e < sizeof elements; e++) {
                struct vv_coding coding = {.codec = VV_CODEC_ZSTD, .filter = {a, b}, .element = elements[e]};
                struct vv_content content = {.type = VARVE_U64};
                assert_int_equal(vv_coding_check(&coding, NULL), 0);
                assert_true(round_trip(&coding, &content, data, 8195));
            }
}

/* Positions of things that lie in a row, more or less; each number differs from the two beside it. */
static void fill_vectors(int type, size_t count) {
    static const double first[3] = {1e6, -3, 0.015}, step[3] = {40, 1e-3, 1e-6};
    for (size_t i = 0; i < count; i++) {
        double x = first[i % 3] + step[i % 3] * ((double)(i / 3) + (double)(next_random() % 16) / 16);
        float f = (float)x;
        if (type == VARVE_F32)
            memcpy(data + i * 4, &f, 4);
        else
            memcpy(data + i * 8, &x, 8);
    }
}

static size_t coded_size(const struct vv_coding *coding, const struct vv_content *content, size_t from, size_t size) {
    int64_t got = vv_coder_encode(coder, coding, content, data + from, size, stored, 1);
    assert_true(got >= 0);
    return got ? (size_t)got : size;
}

/* Each filter gets more out of vectors than out of their numbers, wherever in a vector a block begins and ends. */
static void vectors_of_three(void **unused) {
    (void)unused;
    enum { SIZE = 120000 };
    for (int type = VARVE_F32; type <= VARVE_F64; type++) {
        uint8_t width = type == VARVE_F32 ? 4 : 8;
        struct vv_content content = {.type = (uint8_t)type, .row = 3};
        fill_vectors(type, 2 * SIZE / width);
        for (int name = VV_CODING_SHUFFLE_LZ4; name <= VV_CODING_XOR_ZSTD; name++) {
            struct vv_coding vectors, numbers;
            assert_true(vv_coding_fit(name, &content, 0, &vectors) && vv_coding_fit(name, &content, width, &numbers));
            assert_int_equal(vectors.element, 3 * width);
            assert_int_equal(numbers.element, width);
            assert_string_equal(vv_coding_describe(&vectors), vv_coding_text(name));
            size_t whole = coded_size(&vectors, &content, 0, SIZE);
            for (size_t from = 0; from < 3U * width; from++) {
                size_t size = SIZE - from * 7 % 24;
                int is_smaller = round_trip(&vectors, &content, data + from, size);
                if (from % width) /* numbers are not aligned, either */
                    continue;
                assert_true(is_smaller);
                size_t got = coded_size(&vectors, &content, from, size);
                assert_true(got < coded_size(&numbers, &content, from, size) * 9 / 10);
                assert_true(got < whole + whole / 15);
            }
        }
    }
}

static int fits(int name, int type, double grid, struct vv_coding *out) {
    struct vv_content content = {.type = (uint8_t)type, .grid = grid};
    return vv_coding_fit(name, &content, 0, out);
}

static void codings_fit_their_content(void **unused) {
    (void)unused;
    struct vv_coding c;
    assert_true(fits(VV_CODING_SHUFFLE_LZ4, VARVE_F32, 0, &c));
    assert_int_equal(c.codec, VV_CODEC_LZ4);
    assert_int_equal(c.filter[0], VV_FILTER_SHUFFLE);
    assert_int_equal(c.element, 4);
    assert_true(fits(VV_CODING_DELTA_ZSTD, VARVE_C128, 0, &c));
    assert_int_equal(c.element, 16);
    assert_true(fits(VV_CODING_BITSHUFFLE_ZSTD, VARVE_BYTES, 0, &c));
    assert_int_equal(c.element, 8);
    assert_true(fits(VV_CODING_DELTA_LZ4, VARVE_U8, 0, &c));
    assert_int_equal(c.filter[1], VV_FILTER_NONE);
    assert_true(fits(VV_CODING_ROTATE_ZSTD, VARVE_BF16, 0, &c));
    assert_int_equal(c.element, 2);
    assert_false(fits(VV_CODING_ROTATE_ZSTD, VARVE_F64, 0, &c)); /* its exponent is no byte */
    assert_false(fits(VV_CODING_ROTATE_ZSTD, VARVE_I32, 0, &c));
    assert_false(fits(VV_CODING_SHUFFLE_ZSTD, VARVE_I8, 0, &c));
    assert_int_equal(c.codec, VV_CODEC_ZSTD);
    assert_int_equal(c.filter[0], VV_FILTER_NONE);
    for (int type = VARVE_BYTES; type <= VARVE_C128; type++)
        if (type != VARVE_F32 && type != VARVE_F64) {
            assert_false(fits(VV_CODING_FPZIP, type, 0, &c));
            assert_int_equal(c.codec, VV_CODEC_ZSTD);
            assert_false(fits(VV_CODING_ZFP, type, 0, &c));
        }
    if (fits(VV_CODING_ZFP, VARVE_F64, 0.5, &c)) {
        assert_int_equal(c.codec, VV_CODEC_ZFP_GRID);
        assert_string_equal(vv_coding_describe(&c), "zfp");
    } else {
        assert_int_equal(c.codec, VV_CODEC_ZSTD);
    }
    for (int name = 0; name < VV_CODING_NAMES; name++) {
        assert_true(strlen(vv_coding_text(name)) <= 15);
        if (fits(name, VARVE_F32, 0, &c)) {
            assert_int_equal(vv_coding_check(&c, NULL), 0);
            assert_string_equal(vv_coding_describe(&c), vv_coding_text(name));
        }
    }
    for (int type = VARVE_BYTES; type <= VARVE_C128; type++) { /* three of what has 4 or 8 bytes are one vector */
        static const uint8_t elements[] = {8, 0, 0, 2, 2, 12, 12, 24, 24, 12, 24, 2, 2, 24, 16};
        struct vv_content content = {.type = (uint8_t)type, .row = 3};
        vv_coding_fit(VV_CODING_SHUFFLE_ZSTD, &content, 0, &c);
        assert_int_equal(c.element, elements[type]);
        if (vv_coding_fit(VV_CODING_ZFP, &content, 0, &c) && vv_coding_fit(VV_CODING_FPZIP, &content, 0, &c))
            assert_int_equal(c.element, type == VARVE_F32 ? 4 : 8);
        content.row = 6;
        vv_coding_fit(VV_CODING_SHUFFLE_ZSTD, &content, 0, &c);
        assert_int_equal(c.element, elements[type] % 3 ? elements[type] : elements[type] / 3);
    }
    assert_false(fits(VV_CODING_NAMES, VARVE_F64, 0, &c));
    assert_false(fits(-1, VARVE_F64, 0, &c));
}

static void contradictions_are_named(void **unused) {
    (void)unused;
    static const struct {
        struct vv_coding coding;
        int code;
        const char *word;
    } cases[] = {
        {{7, {0, 0}, 0}, VARVE_UNKNOWN_FORMAT, "codec 7"},
        {{2, {6, 0}, 8}, VARVE_UNKNOWN_FORMAT, "filter 6"},
        {{2, {3, 200}, 8}, VARVE_UNKNOWN_FORMAT, "filter 200"},
        {{0, {1, 0}, 8}, VARVE_CORRUPT, "none"},
        {{2, {0, 1}, 8}, VARVE_CORRUPT, "filters 0 and 1"},
        {{2, {1, 0}, 3}, VARVE_CORRUPT, "3 bytes"},
        {{2, {1, 0}, 0}, VARVE_CORRUPT, "0 bytes"},
        {{2, {1, 0}, 48}, VARVE_CORRUPT, "48 bytes"},
        {{1, {0, 0}, 4}, VARVE_CORRUPT, "4 bytes"},
        {{2, {0, 0}, 12}, VARVE_CORRUPT, "12 bytes"},
        {{3, {0, 0}, 12}, VARVE_CORRUPT, "fpzip"},
        {{4, {0, 0}, 24}, VARVE_CORRUPT, "zfp"},
        {{3, {0, 0}, 2}, VARVE_CORRUPT, "fpzip"},
        {{4, {1, 0}, 4}, VARVE_CORRUPT, "zfp"},
        {{5, {0, 0}, 0}, VARVE_CORRUPT, "zfp-grid"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct varve_error error = {0};
        assert_int_equal(vv_coding_check(&cases[i].coding, &error), cases[i].code);
        assert_non_null(strstr(error.text, cases[i].word));
        assert_int_equal(vv_coder_decode(coder, &cases[i].coding, data, 10, back, 10), cases[i].code);
        assert_true(vv_coder_encode(coder, &cases[i].coding, &(struct vv_content){0}, data, 10, stored, 1) < 0);
        assert_non_null(vv_coding_describe(&cases[i].coding));
    }
}

/* Without fpzip its blocks can still be read; without zfp they are refused by name. */
static void what_was_not_built_in_says_so(void **unused) {
    (void)unused;
    struct vv_coding c, zfp = {.codec = VV_CODEC_ZFP, .element = 8}, fpzip = {.codec = VV_CODEC_FPZIP, .element = 8};
    struct varve_error error = {0};
    assert_int_equal(vv_coding_check(&fpzip, &error), 0);
    if (fits(VV_CODING_ZFP, VARVE_F64, 0, &c)) {
        assert_int_equal(vv_coding_check(&zfp, &error), 0);
    } else {
        assert_int_equal(vv_coding_check(&zfp, &error), VARVE_UNKNOWN_FORMAT);
        assert_non_null(strstr(error.text, "zfp was not built in"));
        assert_int_equal(vv_coder_decode(coder, &zfp, data, 10, back, 80), VARVE_UNKNOWN_FORMAT);
    }
}

static void damaged_input_is_refused_or_harmless(void **unused) {
    (void)unused;
    enum { SIZE = 8192 + 3 };
    uint8_t *bad = malloc(SIZE);
    for (int type = VARVE_F32; type <= VARVE_F64; type++)
        for (int name = 1; name < VV_CODING_NAMES; name++) {
            struct vv_content content = {.type = (uint8_t)type, .row = 50, .grid = type == VARVE_F32 ? 0.0625 : 0};
            struct vv_coding coding;
            fill_data(data, SIZE, SMOOTH, (uint8_t)type, 50);
            if (content.grid > 0)
                vv_grid_round(content.type, content.grid, data, data, SIZE);
            if (!vv_coding_fit(name, &content, 0, &coding))
                continue;
            int64_t got = vv_coder_encode(coder, &coding, &content, data, SIZE, stored, 1);
            assert_true(got > 0 || name == VV_CODING_LZ4);
            for (int i = 0; got > 0 && i < 300; i++) {
                memcpy(bad, stored, (size_t)got);
                for (uint64_t flips = next_random() % 4; flips < 4; flips++)
                    bad[next_random() % (uint64_t)got] ^= (uint8_t)(1 << next_random() % 8);
                size_t length = next_random() % 2 ? (size_t)got : 1 + next_random() % (uint64_t)got;
                memset(back + SIZE, 0x5a, EDGE);
                int rc = vv_coder_decode(coder, &coding, bad, length, back, SIZE);
                assert_true(rc == 0 || rc == VARVE_CORRUPT);
                assert_edge(back + SIZE);
            }
        }
    free(bad);
}

/* Every allocation of ours fails once; what is left over is for the leak checker to say. */
static void without_memory(void **unused) {
    (void)unused;
    vv_alloc_fail_at(1);
    struct vv_coder *mine;
    int rc = vv_coder_create(&mine);
    vv_alloc_fail_at(0);
    if (rc == 0) { /* no fault points in this build */
        vv_coder_destroy(mine);
        skip();
    }
    assert_int_equal(rc, -ENOMEM);
    enum { SIZE = 65536 };
    fill_data(data, SIZE, SMOOTH, VARVE_F64, ROW);
    for (int name = 1; name < VV_CODING_NAMES; name++) {
        struct vv_content content = {.type = name == VV_CODING_ROTATE_ZSTD ? VARVE_F32 : VARVE_F64, .row = ROW};
        struct vv_coding coding;
        int64_t got = 0;
        if (!vv_coding_fit(name, &content, 0, &coding))
            continue;
        for (uint64_t k = 1;; k++) {
            assert_int_equal(vv_coder_create(&mine), 0);
            vv_alloc_fail_at(k);
            got = vv_coder_encode(mine, &coding, &content, data, SIZE, stored, 1);
            int is_done = vv_alloc_count() < k;
            vv_alloc_fail_at(0);
            vv_coder_destroy(mine);
            if (is_done)
                break;
            assert_int_equal(got, -ENOMEM);
        }
        for (uint64_t k = 1; got > 0; k++) {
            assert_int_equal(vv_coder_create(&mine), 0);
            vv_alloc_fail_at(k);
            rc = vv_coder_decode(mine, &coding, stored, (size_t)got, back, SIZE);
            int is_done = vv_alloc_count() < k;
            vv_alloc_fail_at(0);
            vv_coder_destroy(mine);
            assert_int_equal(rc, is_done ? 0 : -ENOMEM);
            if (is_done)
                break;
        }
    }
    vv_coder_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_coding_gives_everything_back),
        cmocka_unit_test(large_blocks_come_back),
        cmocka_unit_test(filters_in_any_order),
        cmocka_unit_test(vectors_of_three),
        cmocka_unit_test(codings_fit_their_content),
        cmocka_unit_test(contradictions_are_named),
        cmocka_unit_test(what_was_not_built_in_says_so),
        cmocka_unit_test(damaged_input_is_refused_or_harmless),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
