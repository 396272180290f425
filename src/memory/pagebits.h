/* A bit per page of a range. Changed under the owner's lock; single bits may be looked at without it. */
#ifndef VV_PAGEBITS_H
#define VV_PAGEBITS_H

#include <stddef.h>
#include <stdint.h>

static inline size_t vv_pagebits_words(size_t pages) {
    return (pages + 63) / 64;
}

static inline uint64_t vv_pagebits_word(const uint64_t *bits, size_t word) {
    return __atomic_load_n(&bits[word], __ATOMIC_ACQUIRE);
}

static inline int vv_pagebits_test(const uint64_t *bits, size_t page) {
    return vv_pagebits_word(bits, page / 64) >> (page % 64) & 1;
}

/* The bits of word number `word` that belong to pages [first, last). */
static inline uint64_t vv_pagebits_mask(size_t word, size_t first, size_t last) {
    uint64_t mask = ~UINT64_C(0);
    if (word == first / 64)
        mask &= ~UINT64_C(0) << (first % 64);
    if (word == last / 64)
        mask &= ~(~UINT64_C(0) << (last % 64));
    return mask;
}

static inline void vv_pagebits_set(uint64_t *bits, size_t first, size_t last) {
    for (size_t i = first / 64; i * 64 < last; i++)
        __atomic_fetch_or(&bits[i], vv_pagebits_mask(i, first, last), __ATOMIC_RELEASE);
}

static inline void vv_pagebits_clear(uint64_t *bits, size_t first, size_t last) {
    for (size_t i = first / 64; i * 64 < last; i++)
        __atomic_fetch_and(&bits[i], ~vv_pagebits_mask(i, first, last), __ATOMIC_RELEASE);
}

static inline size_t vv_pagebits_count(const uint64_t *bits, size_t first, size_t last) {
    size_t sum = 0;
    for (size_t i = first / 64; i * 64 < last; i++)
        sum += (size_t)__builtin_popcountll(vv_pagebits_word(bits, i) & vv_pagebits_mask(i, first, last));
    return sum;
}

/* How many runs of set bits begin at a page of [first, last). */
static inline size_t vv_pagebits_runs(const uint64_t *bits, size_t first, size_t last) {
    size_t sum = 0;
    for (size_t i = first / 64; i * 64 < last; i++) {
        uint64_t word = vv_pagebits_word(bits, i);
        uint64_t before = word << 1 | (i > 0 ? vv_pagebits_word(bits, i - 1) >> 63 : 0);
        sum += (size_t)__builtin_popcountll(word & ~before & vv_pagebits_mask(i, first, last));
    }
    return sum;
}

#endif
