/* Random values for tests: the seed is printed, and VARVE_TEST_SEED repeats a run. */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include "base/hash.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state;

static inline void random_begin(void) {
    const char *text = getenv("VARVE_TEST_SEED");
    random_state = text ? strtoull(text, NULL, 0) : vv_clock_wall_ns() | 1;
    printf("# VARVE_TEST_SEED=%" PRIu64 "\n", random_state);
}

static inline uint64_t random_u64(void) { /* splitmix64 */
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 to end - 1 */
static inline uint64_t random_below(uint64_t end) {
    return random_u64() % end;
}

/* A number of 0 to bits bits, all lengths equally likely. */
static inline uint64_t random_bits(unsigned bits) {
    unsigned size = (unsigned)random_below(bits + 1);
    return size == 0 ? 0 : random_u64() >> (64 - size);
}

static inline void random_fill(void *out, size_t size) {
    uint8_t *at = out;
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)random_u64();
}

/* A text of 0 to max bytes without NUL. */
static inline void random_text(char *out, size_t min, size_t max) {
    size_t size = min + random_below(max - min + 1);
    for (size_t i = 0; i < size; i++)
        out[i] = (char)(1 + random_below(255));
    out[size] = '\0';
}

static inline struct vv_hash128 random_hash(void) {
    return (struct vv_hash128){random_u64(), random_u64()};
}

#endif
