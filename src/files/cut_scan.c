/* The hash of all windows in a block. It is a polynomial in a power of a multiplier, so windows of 4 bytes give those
 * of 16, and these those of 48: eight multiplications for each window, and none waits for that of the byte before. The
 * loops are plain, and 16 bits wide, so that compilers make vectors of them (this file is compiled with -O3). Where
 * each hash comes from the one before, byte after byte waits for a multiplication. */
#include <string.h>

#include "files/cut.h"

#define BYTE_FACTOR 0x70f9u
#define FACTOR 0x9e7du
#define WANTED 0x5aa4u

#define TIMES(a, b) ((uint16_t)((uint32_t)(a) * (uint32_t)(b)))
#define POWER_2 TIMES(FACTOR, FACTOR)
#define POWER_4 TIMES(POWER_2, POWER_2)
#define POWER_8 TIMES(POWER_4, POWER_4)
#define POWER_16 TIMES(POWER_8, POWER_8)

struct work {
    uint16_t bytes[FILES_CUT_BLOCK + FILES_WINDOW];
    uint16_t four[FILES_CUT_BLOCK + FILES_WINDOW];
    uint16_t sixteen[FILES_CUT_BLOCK + FILES_WINDOW];
    uint8_t is_cut[FILES_CUT_BLOCK];
};

/* Bytes that differ in few bits become numbers that differ in many; only 0 stays 0. */
static inline uint16_t spread(uint8_t byte) {
    uint16_t product = TIMES(byte, BYTE_FACTOR);

    return product ^ (uint16_t)(product >> 8);
}

/* `from` is the first byte of the first window. */
static inline __attribute__((always_inline)) void mark(const uint8_t *from, size_t size, uint16_t mask,
                                                       struct work *restrict work) {
    const uint16_t wanted = WANTED & mask;

    for (size_t i = 0; i < size + 47; i++)
        work->bytes[i] = spread(from[i]);
    for (size_t i = 0; i < size + 44; i++) {
        const uint16_t *in = work->bytes + i;
        work->four[i] =
            (uint16_t)(in[3] + TIMES(in[2], FACTOR) + TIMES(in[1], POWER_2) + TIMES(in[0], TIMES(POWER_2, FACTOR)));
    }
    for (size_t i = 0; i < size + 32; i++) {
        const uint16_t *in = work->four + i;
        work->sixteen[i] =
            (uint16_t)(in[12] + TIMES(in[8], POWER_4) + TIMES(in[4], POWER_8) + TIMES(in[0], TIMES(POWER_8, POWER_4)));
    }
    for (size_t i = 0; i < size; i++) {
        const uint16_t *in = work->sixteen + i;
        uint16_t hash = (uint16_t)(in[32] + TIMES(in[16], POWER_16) + TIMES(in[0], TIMES(POWER_16, POWER_16)));
        work->is_cut[i] = ((uint16_t)(hash + (in[32] >> 8)) & mask) == wanted;
    }
}

static void mark_plain(const uint8_t *from, size_t size, uint16_t mask, struct work *work) {
    mark(from, size, mask, work);
}

#if defined(__x86_64__) && defined(__GNUC__)
static __attribute__((target("avx2"))) void mark_avx2(const uint8_t *from, size_t size, uint16_t mask,
                                                      struct work *work) {
    mark(from, size, mask, work);
}
#define HAS_AVX2() __builtin_cpu_supports("avx2")
#else
#define mark_avx2 mark_plain
#define HAS_AVX2() 0
#endif

static size_t list(const uint8_t *is_cut, size_t size, uint16_t *ends) {
    const uint8_t *at = is_cut, *end = is_cut + size;
    size_t count = 0;

    while (at < end && (at = memchr(at, 1, (size_t)(end - at))) != NULL)
        ends[count++] = (uint16_t)(++at - is_cut);
    return count;
}

size_t files_cut_scan(const uint8_t *data, size_t size, uint16_t mask, uint16_t *ends) {
    struct work work;

    (HAS_AVX2() ? mark_avx2 : mark_plain)(data - (FILES_WINDOW - 1), size, mask, &work);
    return list(work.is_cut, size, ends);
}

/* Byte by byte, as the document has it. */
size_t files_cut_scan_plain(const uint8_t *data, size_t size, uint16_t mask, uint16_t *ends) {
    const uint16_t power_48 = TIMES(TIMES(POWER_16, POWER_16), POWER_16);
    uint16_t hash = 0, newest = 0; /* of 48 bytes, and of the last 16 */
    size_t count = 0;

    for (const uint8_t *at = data - (FILES_WINDOW - 1); at < data + size; at++) {
        uint16_t next = spread(*at);
        hash = (uint16_t)(TIMES(hash, FACTOR) + next);
        newest = (uint16_t)(TIMES(newest, FACTOR) + next);
        if (at >= data - (FILES_WINDOW - 1) + 16)
            newest = (uint16_t)(newest - TIMES(spread(at[-16]), POWER_16));
        if (at > data)
            hash = (uint16_t)(hash - TIMES(spread(at[-(int)FILES_WINDOW]), power_48));
        if (at >= data && ((hash + (newest >> 8)) & mask) == (WANTED & mask))
            ends[count++] = (uint16_t)(at - data + 1);
    }
    return count;
}
