/* Codecs for floating-point numbers and the grid of lossy ones: every bit comes back, whatever the numbers are and
 * whatever the program has done to the processor's arithmetic; rows are used where they help; bad streams do no
 * harm. */
#include <fenv.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "encode/coding.h"
#include "encode/grid.h"
#include "encode_data.h"
#include "test.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

enum { LARGEST = 1 << 19 };
static uint8_t data[LARGEST], stored[LARGEST], back[LARGEST];
static struct vv_coder *coder;

static int setup(void **unused) {
    (void)unused;
    return vv_coder_create(&coder);
}

static int teardown(void **unused) {
    (void)unused;
    vv_coder_destroy(coder);
    return 0;
}

static int64_t encode(int name, const struct vv_content *content, size_t size, struct vv_coding *coding) {
    if (!vv_coding_fit(name, content, 0, coding))
        skip(); /* not built in */
    return vv_coder_encode(coder, coding, content, data, size, stored, 1);
}

static void assert_comes_back(const struct vv_coding *coding, int64_t got, size_t size) {
    assert_true(got > 0);
    memset(back, 0xa5, size);
    assert_int_equal(vv_coder_decode(coder, coding, stored, (size_t)got, back, size), 0);
    assert_memory_equal(back, data, size);
}

/* Compressible, but with some of the soup in it. */
static void smooth_with_soup(uint8_t type, size_t size, size_t row, unsigned one_in) {
    unsigned width = type == VARVE_F32 ? 4 : 8;
    fill_data(data, size, SMOOTH, type, row);
    for (size_t i = 0; i + width <= size; i += width)
        if (next_random() % one_in == 0) {
            uint64_t bits = soup_bits(width);
            if (width == 4)
                vv_put32(data + i, (uint32_t)bits);
            else
                vv_put64(data + i, bits);
        }
}

static void zfp_keeps_every_bit(void **unused) {
    (void)unused;
    for (int round = 0; round < 40; round++)
        for (uint8_t type = VARVE_F32; type <= VARVE_F64; type++) {
            size_t size = 16000 + next_random() % 999, row = round % 2 ? 61 : 0;
            struct vv_content content = {.type = type, .row = (uint32_t)row};
            struct vv_coding coding;
            smooth_with_soup(type, size, 61, 40);
            int64_t got = encode(VV_CODING_ZFP, &content, size, &coding);
            assert_comes_back(&coding, got, size);
        }
    /* single odd values among zeros: each in a block of its own */
    for (uint8_t type = VARVE_F32; type <= VARVE_F64; type++) {
        unsigned width = type == VARVE_F32 ? 4 : 8;
        memset(data, 0, LARGEST);
        for (size_t i = 0; i < LARGEST; i += 16 * width) {
            uint64_t bits = soup_bits(width);
            for (unsigned b = 0; b < width; b++)
                data[i + b] = (uint8_t)(bits >> b * 8);
        }
        struct vv_content content = {.type = type};
        struct vv_coding coding;
        int64_t got = encode(VV_CODING_ZFP, &content, LARGEST, &coding);
        assert_comes_back(&coding, got, LARGEST);
    }
}

static void fpzip_keeps_every_bit(void **unused) {
    (void)unused;
    for (int round = 0; round < 40; round++)
        for (uint8_t type = VARVE_F32; type <= VARVE_F64; type++) {
            size_t size = 16000 + next_random() % 999, row = round % 2 ? 61 : 0;
            struct vv_content content = {.type = type, .row = (uint32_t)row};
            struct vv_coding coding;
            smooth_with_soup(type, size, 61, 40);
            assert_int_equal(encode(VV_CODING_FPZIP, &content, size, &coding), 0); /* not finite: not for fpzip */
            for (size_t i = 0; i + 8 <= size; i += 8) { /* leave denormals, zeros, small and usual numbers */
                uint64_t bits = vv_get64(data + i);
                if (type == VARVE_F64 && (bits >> 52 & 0x7ff) > 1500)
                    vv_put64(data + i, bits & ~(UINT64_C(0x7ff) << 52));
                for (size_t j = i; type == VARVE_F32 && j <= i + 4; j += 4)
                    if ((vv_get32(data + j) >> 23 & 0xff) > 200)
                        vv_put32(data + j, vv_get32(data + j) & ~(UINT32_C(0xff) << 23));
            }
            fill_data(data + size - size % 8 - 8, 8 + size % 8, ZEROS, type, 1);
            int64_t got = encode(VV_CODING_FPZIP, &content, size, &coding);
            assert_comes_back(&coding, got, size);
        }
}

/* -0 and 0 side by side: a prediction of -0 would be another number. */
static void fpzip_keeps_zeros_apart(void **unused) {
    (void)unused;
    enum { ROW = 100, ROWS = 120 };
    struct vv_content content = {.type = VARVE_F64, .row = ROW};
    struct vv_coding coding;
    fill_data(data, ROW * ROWS * 8, SMOOTH, VARVE_F64, ROW);
    for (size_t y = 20; y < 60; y++)
        for (size_t x = 30; x < 60; x++)
            vv_put64(data + (y * ROW + x) * 8, next_random() << 63);
    int64_t got = encode(VV_CODING_FPZIP, &content, ROW * ROWS * 8, &coding);
    assert_comes_back(&coding, got, ROW * ROWS * 8);
    assert_int_equal(vv_get32(stored), ROW);
}

/* Written by libfpzip 1.3.0: four rows of six numbers, and a byte. */
static void a_stream_of_fpzip_is_read(void **unused) {
    (void)unused;
    static const uint8_t payload[] = {
        0x06, 0x00, 0x00, 0x00, 0xab, 0xfa, 0x0b, 0x05, 0xf4, 0x00, 0x00, 0x01, 0xfa, 0x10, 0x9f, 0xd7, 0x40,
        0x00, 0x00, 0x00, 0x07, 0x01, 0xa8, 0x20, 0x00, 0x00, 0x00, 0x03, 0x79, 0xb2, 0x50, 0x00, 0x00, 0x00,
        0x01, 0xb9, 0x48, 0x48, 0x00, 0x00, 0x00, 0x00, 0xd8, 0xf4, 0x8a, 0x00, 0x00, 0x00, 0x00, 0x18, 0x8d,
        0x58, 0x00, 0x00, 0x00, 0x00, 0x3c, 0x60, 0xa4, 0xbf, 0x69, 0x79, 0x36, 0x40, 0x00, 0x00, 0x00, 0x03,
        0x95, 0x8e, 0x48, 0x9c, 0x7c, 0x4e, 0x44, 0x00, 0x00, 0x00, 0x00, 0x36, 0x80, 0xc1, 0x30, 0x6b, 0x20,
    };
    struct vv_coding coding = {.codec = VV_CODEC_FPZIP, .element = 8};
    assert_int_equal(vv_coder_decode(coder, &coding, payload, sizeof payload, back, 24 * 8 + 1), 0);
    for (int i = 0; i < 24; i++) {
        double x;
        memcpy(&x, back + (size_t)i * 8, 8);
        assert_true(x == 1.0 + (i % 6) * 0.25 - (i / 6) * 0.125);
    }
    assert_int_equal(back[24 * 8], 0xab);
    for (size_t length = 1; length < sizeof payload; length++)
        assert_int_equal(vv_coder_decode(coder, &coding, payload, length, back, 24 * 8 + 1), VARVE_CORRUPT);
}

static void rows_are_used_where_they_help(void **unused) {
    (void)unused;
    for (int name = VV_CODING_FPZIP; name <= VV_CODING_ZFP; name++)
        for (uint8_t type = VARVE_F32; type <= VARVE_F64; type++) {
            struct vv_content rows = {.type = type, .row = 200}, wrong = {.type = type, .row = 137},
                              none = {type, 0, 0};
            struct vv_coding coding;
            size_t size = 300001;
            fill_data(data, size, SMOOTH, type, 200);
            int64_t flat = encode(name, &none, size, &coding);
            int64_t got = encode(name, &rows, size, &coding);
            assert_comes_back(&coding, got, size);
            assert_int_equal(vv_get32(stored), 200);
            assert_true(got < flat);
            for (size_t i = 0; i + 4 <= size; i += 4) /* noise: a neighbour more only adds its own */
                vv_put32(data + i, i / 4 % 2 && type == VARVE_F64 ? 0x40590000u | (next_random() & 0xff)
                                                                  : 0x43100000u | (next_random() & 0xffff));
            got = encode(name, &wrong, size, &coding);
            assert_comes_back(&coding, got, size);
            if (name == VV_CODING_FPZIP)
                assert_int_equal(vv_get32(stored), 0);
            struct vv_content too_long = {.type = type, .row = 1u << 31};
            got = encode(name, &too_long, size, &coding);
            assert_int_equal(vv_get32(stored), 0);
            assert_comes_back(&coding, got, size);
        }
}

/* ---- the grid ---- */

static double grid_power(int exponent) {
    return ldexp(1, exponent);
}

static void the_grid_of_a_bound(void **unused) {
    (void)unused;
    assert_true(vv_grid_of(1) == 2);
    assert_true(vv_grid_of(0.5) == 1);
    assert_true(vv_grid_of(0.6) == 1);
    assert_true(vv_grid_of(0.99) == 1);
    assert_true(vv_grid_of(DBL_MIN) == 2 * DBL_MIN);
    assert_true(vv_grid_of(DBL_MAX) == grid_power(1023));
    assert_true(vv_grid_of(0) == 0 && vv_grid_of(-1) == 0 && vv_grid_of(DBL_MIN / 2) == 0);
    assert_true(vv_grid_of(INFINITY) == 0 && vv_grid_of(NAN) == 0);
    for (int i = 0; i < 1000; i++) {
        double bound = ldexp(1 + (double)(next_random() % 1000) / 1000, (int)(next_random() % 2000) - 1000);
        double grid = vv_grid_of(bound);
        assert_true(grid / 2 <= bound && grid > bound);
    }
}

/* In long double, which holds each quotient and product of these. */
static void check_rounded(double x, double y, double grid, double greatest) {
    if (!isfinite(x)) {
        assert_memory_equal(&x, &y, 8);
        return;
    }
    assert_false(y == 0 && signbit(y));
    long double steps = (long double)x / grid, near = rintl(steps) * (long double)grid;
    if (fabsl(steps) >= 0x1p52L || fabsl(near) > greatest)
        assert_true(x == y);
    else
        assert_true((long double)y == near);
    assert_true(fabsl((long double)x - y) <= (long double)grid / 2);
}

static void values_are_rounded_to_the_grid(void **unused) {
    (void)unused;
    static const int exponents[] = {-1021, -1000, -300, -150, -149, -130, -126, -100, -20, -3,
                                    0,     1,     30,   99,   101,  127,  500,  961,  1023};
    enum { COUNT = 4001 };
    for (size_t e = 0; e < sizeof exponents / sizeof exponents[0]; e++)
        for (uint8_t type = VARVE_F32; type <= VARVE_F64; type++) {
            double grid = grid_power(exponents[e]);
            size_t width = type == VARVE_F32 ? 4 : 8, size = COUNT * width + 3;
            uint8_t *in = data + 1, *out = back + 3; /* not aligned */
            for (size_t i = 0; i < COUNT; i++) {
                double near = ((double)(int64_t)next_random() / 0x1p63) * grid * 100;
                float narrow = (float)near;
                uint64_t bits = soup_bits((unsigned)width);
                if (i % 3 && width == 8)
                    memcpy(&bits, &near, 8);
                else if (i % 3)
                    memcpy(&bits, &narrow, 4);
                for (size_t b = 0; b < width; b++)
                    in[i * width + b] = (uint8_t)(bits >> b * 8);
            }
            memcpy(in + COUNT * width, "abc", 3);
            vv_grid_round(type, grid, in, out, size);
            assert_memory_equal(out + COUNT * width, "abc", 3);
            for (size_t i = 0; i < COUNT; i++) {
                float f[2];
                double d[2];
                memcpy(f, in + i * width, 4);
                memcpy(f + 1, out + i * width, 4);
                if (type == VARVE_F32 && f[0] != f[0]) {
                    assert_memory_equal(in + i * 4, out + i * 4, 4);
                } else if (type == VARVE_F32) {
                    check_rounded(f[0], f[1], grid, FLT_MAX);
                } else {
                    memcpy(d, in + i * 8, 8);
                    memcpy(d + 1, out + i * 8, 8);
                    check_rounded(d[0], d[1], grid, DBL_MAX);
                }
            }
            memcpy(stored, out, size); /* twice is as good as once, and in place as good as not */
            vv_grid_round(type, grid, stored, stored, size);
            assert_memory_equal(stored, out, size);
        }
}

static void values_on_a_grid_come_back(void **unused) {
    (void)unused;
    static const double bounds[] = {1e-9, 1e-5, 1e-2, 1, 1000};
    size_t size = 100003;
    for (uint8_t type = VARVE_F32; type <= VARVE_F64; type++)
        for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++)
            for (uint32_t row = 0; row <= 200; row += 200) {
                struct vv_content content = {.type = type, .row = row, .grid = vv_grid_of(bounds[b])};
                struct vv_coding coding;
                fill_data(data, size, SMOOTH, type, 200);
                for (size_t i = 0; i + 8 <= size; i += 8) /* measurements are never quite smooth */
                    data[i] = (uint8_t)next_random();
                vv_grid_round(type, content.grid, data, data, size);
                int64_t got = encode(VV_CODING_ZFP, &content, size, &coding);
                assert_int_equal(coding.codec, VV_CODEC_ZFP_GRID);
                if (got == 0) { /* the grid is finer than the numbers: nothing was rounded, little to gain */
                    assert_true(type == VARVE_F32 && bounds[b] < 1e-4);
                    continue;
                }
                assert_comes_back(&coding, got, size);
                if (bounds[b] >= 1)
                    assert_true(got * 3 < (int64_t)size);
            }
}

static void what_is_not_on_the_grid_is_refused(void **unused) {
    (void)unused;
    struct vv_content content = {.type = VARVE_F64, .grid = 0.25};
    struct vv_coding coding;
    size_t size = 40000;
    double odd[] = {0.1, NAN, INFINITY, -0.0};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        fill_data(data, size, SMOOTH, VARVE_F64, size);
        vv_grid_round(VARVE_F64, 0.25, data, data, size);
        memcpy(data + 8 * 777, &odd[i], 8);
        assert_int_equal(encode(VV_CODING_ZFP, &content, size, &coding), 0);
    }
    double wrong[] = {0.3, INFINITY, 0x1p-1060};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        content.grid = wrong[i];
        assert_int_equal(encode(VV_CODING_ZFP, &content, size, &coding), 0);
    }
}

/* ---- arithmetic of the program ---- */

static void spoil_arithmetic(void) {
    fesetround(FE_UPWARD);
#ifdef __SSE2__
    _mm_setcsr(_mm_getcsr() | 0x8040); /* tiny results and operands are 0, as -ffast-math has it */
#endif
}

static void settings_of_the_program_do_not_matter(void **unused) {
    (void)unused;
    size_t size = 64000;
    for (int name = VV_CODING_FPZIP; name <= VV_CODING_ZFP; name++)
        for (int kind = 0; kind < 3; kind++) { /* usual numbers, denormal ones, numbers on a grid */
            struct vv_content content = {.type = VARVE_F64, .row = 80, .grid = kind == 2 ? 0.125 : 0};
            struct vv_coding coding;
            fill_data(data, size, SMOOTH, VARVE_F64, 80);
            for (size_t i = 0; kind == 1 && i < size; i += 8)
                vv_put64(data + i, vv_get64(data + i) >> 13 & ((UINT64_C(1) << 52) - 1));
            if (kind == 2) {
                memcpy(back, data, size);
                vv_grid_round(VARVE_F64, 0.125, data, data, size);
                fenv_t saved;
                fegetenv(&saved);
                spoil_arithmetic();
                vv_grid_round(VARVE_F64, 0.125, back, back, size);
                fesetenv(&saved);
                assert_memory_equal(data, back, size);
            }
            fenv_t saved;
            fegetenv(&saved);
            spoil_arithmetic();
            int64_t got = vv_coding_fit(name, &content, 0, &coding)
                              ? vv_coder_encode(coder, &coding, &content, data, size, stored, 1)
                              : -1;
            int is_kept = fegetround() == FE_UPWARD;
            fesetenv(&saved);
            if (got == -1)
                skip();
            assert_true(is_kept);
            assert_comes_back(&coding, got, size);
            spoil_arithmetic();
            memset(back, 0, size);
            int rc = vv_coder_decode(coder, &coding, stored, (size_t)got, back, size);
            fesetenv(&saved);
            assert_int_equal(rc, 0);
            assert_memory_equal(back, data, size);
        }
}

/* ---- bad streams ---- */

static void bad_streams_do_no_harm(void **unused) {
    (void)unused;
    enum { SIZE = 4000 };
    for (int i = 0; i < 6000; i++) {
        struct vv_coding coding = {.codec = (uint8_t)(VV_CODEC_FPZIP + i % 3), .element = i / 3 % 2 ? 4 : 8};
        size_t length = 1 + next_random() % 3000, size = 1 + next_random() % SIZE;
        uint8_t *exact = malloc(length), *out = malloc(size); /* of that size, for the address sanitizer */
        for (size_t b = 0; b < length; b++)
            exact[b] = (uint8_t)(i / 6 % 4 == 0   ? next_random()
                                 : i / 6 % 4 == 1 ? 0xff
                                                  : next_random() | next_random());
        if (length >= 8 && i % 5) { /* a row that makes sense, and sometimes exponents */
            vv_put32(exact, next_random() % 2 ? 0 : (uint32_t)(4 + next_random() % 100));
            if (i % 2)
                vv_put32(exact + 4, (uint32_t)(next_random() % 8) | (uint32_t)(next_random() % 2 ? 0xfff0 : 2) << 16);
        }
        int rc = vv_coder_decode(coder, &coding, exact, length, out, size);
        assert_true(rc == 0 || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT);
        free(exact);
        free(out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zfp_keeps_every_bit),
        cmocka_unit_test(fpzip_keeps_every_bit),
        cmocka_unit_test(fpzip_keeps_zeros_apart),
        cmocka_unit_test(a_stream_of_fpzip_is_read),
        cmocka_unit_test(rows_are_used_where_they_help),
        cmocka_unit_test(the_grid_of_a_bound),
        cmocka_unit_test(values_are_rounded_to_the_grid),
        cmocka_unit_test(values_on_a_grid_come_back),
        cmocka_unit_test(what_is_not_on_the_grid_is_refused),
        cmocka_unit_test(settings_of_the_program_do_not_matter),
        cmocka_unit_test(bad_streams_do_no_harm),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
