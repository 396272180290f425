/* Weights: float32, float16 and bfloat16 with exponents apart from mantissas (coding rotate-zstd). Whatever the numbers
 * are comes back; normally distributed ones get as small as is known of such coders; the chooser finds it. */
#include <stdlib.h>
#include <string.h>

#include "encode/choice.h"
#include "encode/coding.h"
#include "encode_data.h"
#include "test.h"

enum { BLOCK = 1 << 20, EDGE = 64 };
static const uint8_t types[] = {VARVE_F32, VARVE_F16, VARVE_BF16};
static uint8_t data[BLOCK + 1], stored[BLOCK + EDGE], back[BLOCK + EDGE];
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

static double uniform(void) {
    return ((double)(next_random() >> 11) + 0.5) * 0x1p-53;
}

/* float16 of what is below 65504; bfloat16 is cut off. */
static uint16_t narrow_of(uint8_t type, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == VARVE_BF16)
        return (uint16_t)(bits >> 16);
    int power = x != 0 && ilogbf(x) > -14 ? ilogbf(x) : -14;
    return (uint16_t)((bits >> 16 & 0x8000) + (uint32_t)(power + 14) * 1024 + (uint32_t)ldexpf(fabsf(x), 10 - power));
}

static void fill_normal(uint8_t type, size_t size) {
    size_t width = type == VARVE_F32 ? 4 : 2;
    for (size_t i = 0; i + width <= size; i += width) {
        float x = (float)(0.02 * sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
        uint16_t narrow = narrow_of(type, x);
        memcpy(data + i, width == 4 ? (const void *)&x : &narrow, width);
    }
}

static struct vv_coding coding_of(uint8_t type, uint32_t row) {
    struct vv_content content = {.type = type, .row = row};
    struct vv_coding coding;
    assert_true(vv_coding_fit(VV_CODING_ROTATE_ZSTD, &content, 0, &coding));
    return coding;
}

/* The size it takes; 0 if it does not get smaller. */
static size_t round_trip(const struct vv_coding *coding, const uint8_t *from, size_t size) {
    struct vv_content content = {0};
    memset(stored + size, 0x5a, EDGE);
    memset(back + size, 0x5a, EDGE);
    int64_t got = vv_coder_encode(coder, coding, &content, from, size, stored, 1);
    assert_true(got >= 0 && got < (int64_t)size);
    if (got > 0) {
        memset(back, 0xa5, size);
        assert_int_equal(vv_coder_decode(coder, coding, stored, (size_t)got, back, size), 0);
        assert_memory_equal(back, from, size);
    }
    for (int i = 0; i < EDGE; i++)
        assert_true(stored[size + (size_t)i] == 0x5a && back[size + (size_t)i] == 0x5a);
    return (size_t)got;
}

static void every_size_comes_back(void **unused) {
    (void)unused;
    size_t smaller = 0;
    for (size_t t = 0; t < sizeof types; t++) {
        struct vv_coding coding = coding_of(types[t], 0), vectors = coding_of(types[t], 3);
        fill_normal(types[t], 70000);
        for (size_t size = 1; size < 70000; size += size < 600 ? 1 : 1 + size / 7) {
            smaller += round_trip(&coding, data + size % 5, size) > 0;
            round_trip(&vectors, data + size % 5, size);
        }
    }
    assert_true(smaller > 1000); /* else hardly anything was decoded */
}

/* NaN with payloads, infinities, both zeros and denormals are bits like others: all there are of 16. */
static void every_number_comes_back(void **unused) {
    (void)unused;
    uint16_t *all = (uint16_t *)(void *)data;
    for (size_t t = 0; t < sizeof types; t++) {
        struct vv_coding coding = coding_of(types[t], 0);
        fill_normal(types[t], BLOCK); /* so that it gets smaller, and is decoded */
        for (size_t i = 0; i < 65536; i++)
            all[i] = (uint16_t)i;
        assert_true(round_trip(&coding, data, BLOCK) > 0);
        fill_normal(types[t], BLOCK);
        for (size_t i = 0; i < BLOCK / 2; i += 16)
            all[i] = (uint16_t)next_random();
        assert_true(round_trip(&coding, data, BLOCK) > 0);
        fill_data(data, BLOCK, SOUP, VARVE_F32, 1);
        assert_true(round_trip(&coding, data, BLOCK) > 0);
    }
}

/* Bounds: what weights must reach (1.45 and 1.18), and what a sample of 64 KiB tells of that. */
static void normal_weights_get_small(void **unused) {
    (void)unused;
    static const double least[] = {1.18, 1.17, 1.45};
    for (size_t t = 0; t < sizeof types; t++) {
        struct vv_coding coding = coding_of(types[t], 0);
        fill_normal(types[t], BLOCK);
        double whole = (double)BLOCK / (double)round_trip(&coding, data, BLOCK);
        double sample = 65536 / (double)round_trip(&coding, data, 65536);
        print_message("type %u: %.4f times smaller, a sample %.4f\n", types[t], whole, sample);
        assert_true(whole >= least[t]);
        assert_true(sample > 0.98 * whole && sample < 1.02 * whole);
    }
}

/* One frame of zstd with one raw block of four bfloat16 and a byte: 1, -2, -0 and NaN. */
static void a_frame_made_by_hand_is_read(void **unused) {
    (void)unused;
    static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 9,    0x49, 0,    0,
                                    0,    1,    1,    0x80, 0x7f, 0x80, 0,    0xff, 0x77};
    static const uint8_t want[] = {0x80, 0x3f, 0, 0xc0, 0, 0x80, 0xc0, 0x7f, 0x77};
    struct vv_coding coding = coding_of(VARVE_BF16, 0);
    assert_int_equal(vv_coder_decode(coder, &coding, frame, sizeof frame, back, sizeof want), 0);
    assert_memory_equal(back, want, sizeof want);
}

/* Whatever is cut off is missed. A changed byte gives wrong numbers or is refused, and touches nothing else; the sum of
 * the block tells. */
static void damage_is_refused(void **unused) {
    (void)unused;
    enum { SIZE = 5001 };
    for (size_t t = 0; t < sizeof types; t++) {
        struct vv_coding coding = coding_of(types[t], 0);
        size_t refused = 0;
        fill_normal(types[t], SIZE);
        size_t got = round_trip(&coding, data, SIZE);
        assert_true(got > 0);
        for (size_t cut = 0; cut < got; cut++)
            assert_int_equal(vv_coder_decode(coder, &coding, stored, cut, back, SIZE), VARVE_CORRUPT);
        assert_int_equal(vv_coder_decode(coder, &coding, stored, got, back, SIZE - 1), VARVE_CORRUPT);
        assert_int_equal(vv_coder_decode(coder, &coding, stored, got, back, SIZE + 1), VARVE_CORRUPT);
        memset(back + SIZE, 0x5a, EDGE);
        for (size_t i = 0; i < got; i++) {
            stored[i] ^= (uint8_t)(1 + i % 255);
            int rc = vv_coder_decode(coder, &coding, stored, got, back, SIZE);
            stored[i] ^= (uint8_t)(1 + i % 255);
            assert_true(rc == 0 || rc == VARVE_CORRUPT);
            refused += rc != 0;
        }
        assert_true(refused > 4); /* the magic number at least */
        for (int i = 0; i < EDGE; i++)
            assert_true(back[SIZE + i] == 0x5a);
    }
}

/* They share the context of zstd, also when what it wrote did not fit. */
static void other_codings_are_not_disturbed(void **unused) {
    (void)unused;
    enum { SIZE = 100000 };
    struct vv_coding rotate = coding_of(VARVE_F32, 0), plain = {.codec = VV_CODEC_ZSTD};
    struct vv_content content = {0};
    static uint8_t text[SIZE], noise[SIZE], before[SIZE], after[SIZE];
    fill_data(text, SIZE, TEXT, VARVE_BYTES, 1);
    fill_data(noise, SIZE, NOISE, VARVE_BYTES, 1);
    int64_t got = vv_coder_encode(coder, &plain, &content, text, SIZE, before, 5);
    assert_true(got > 0);
    for (int i = 0; i < 2; i++) {
        fill_normal(VARVE_F32, SIZE);
        assert_true((round_trip(&rotate, i ? noise : data, SIZE) > 0) == !i);
        assert_int_equal(vv_coder_encode(coder, &plain, &content, text, SIZE, after, 5), got);
        assert_memory_equal(after, before, (size_t)got);
    }
}

/* Bytes of blocks encoded with what the chooser picks, by coding. */
static void choose(const struct vv_chooser_plan *plan, uint8_t type, struct vv_choice_sums *sums) {
    struct vv_chooser *chooser;
    char reason[200];
    assert_int_equal(vv_chooser_create(&chooser), 0);
    vv_chooser_begin(chooser, plan);
    for (int i = 0; i < 12; i++) {
        struct vv_content content = {.type = type};
        struct vv_coding coding;
        fill_normal(type, BLOCK);
        vv_chooser_pick(chooser, coder, 1, &content, data, BLOCK, &coding);
        int64_t got = vv_coder_encode(coder, &coding, &content, data, BLOCK, stored, plan->level);
        assert_true(got >= 0);
        vv_chooser_encoded(chooser, 1, &coding, BLOCK, got ? (size_t)got : BLOCK, 1e-3);
    }
    vv_chooser_sums(chooser, sums, reason, sizeof reason);
    print_message("type %u: %s\n", type, reason);
    vv_chooser_destroy(chooser);
}

static void the_smallest_is_chosen(void **unused) {
    (void)unused;
    struct vv_chooser_plan plan = {.name = -1, .level = 9, .workers = 1, .is_for_size = 1};
    for (size_t t = 0; t < sizeof types; t++) {
        struct vv_choice_sums sums;
        double stored_bytes = 0;
        choose(&plan, types[t], &sums);
        for (int i = 0; i < VV_CODING_NAMES; i++)
            stored_bytes += (double)sums.stored[i];
        if (types[t] != VARVE_F16) /* which another coding makes as small */
            assert_true(sums.raw[VV_CODING_ROTATE_ZSTD] >= (uint64_t)10 * BLOCK);
        assert_true(12.0 * BLOCK / stored_bytes >= (types[t] == VARVE_BF16  ? 1.45
                                                    : types[t] == VARVE_F32 ? 1.18
                                                                            : 1.17));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_comes_back),    cmocka_unit_test(every_number_comes_back),
        cmocka_unit_test(normal_weights_get_small), cmocka_unit_test(a_frame_made_by_hand_is_read),
        cmocka_unit_test(damage_is_refused),        cmocka_unit_test(other_codings_are_not_disturbed),
        cmocka_unit_test(the_smallest_is_chosen),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
