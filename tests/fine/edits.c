#include "edits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state;

void edits_seed(uint64_t seed) {
    state = seed;
    edits_draw(2);
}

uint64_t edits_first_seed(void) {
    const char *text = getenv("FINE_SEED");
    if (!text)
        text = getenv("TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

uint32_t edits_draw(uint32_t below) {
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return below < 2 ? 0 : (uint32_t)(x >> 33) % below;
}

void piece_make(struct piece *piece, size_t size, size_t capacity) {
    *piece = (struct piece){aligned_alloc(4096, (capacity + 8191) / 4096 * 4096), size, capacity};
    if (!piece->data)
        abort();
    memset(piece->data, 0, capacity);
}

void piece_free(struct piece *piece) {
    free(piece->data);
    piece->data = NULL;
}

void piece_move(struct piece *piece) {
    struct piece other;
    piece_make(&other, piece->size, piece->capacity);
    memcpy(other.data, piece->data, piece->size);
    piece_free(piece);
    *piece = other;
}

void piece_noise(struct piece *piece, size_t at, size_t size) {
    for (size_t i = 0; i < size; i++)
        piece->data[at + i] = (uint8_t)edits_draw(256);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A length: mostly a few bytes or chunks, now and then some granules. */
static size_t draw_length(uint32_t grain) {
    uint32_t kind = edits_draw(8);
    if (kind == 0)
        return 4096u * (1 + edits_draw(3));
    return kind < 4 ? grain * (1 + edits_draw(4)) : 1 + edits_draw(600);
}

static size_t draw_place(size_t size, uint32_t grain) {
    size_t at = edits_draw((uint32_t)size);
    return edits_draw(2) ? at : edits_draw(4) ? at / grain * grain : at / 4096 * 4096;
}

static void insert(struct piece *piece, size_t at, size_t length, int may_resize) {
    if (may_resize && edits_draw(2) && piece->size + length <= piece->capacity)
        piece->size += length;
    length = least(length, piece->size - at);
    memmove(piece->data + at + length, piece->data + at, piece->size - at - length);
    piece_noise(piece, at, length);
}

static void cut(struct piece *piece, size_t at, size_t length, int may_resize) {
    length = least(length, piece->size - at);
    memmove(piece->data + at, piece->data + at + length, piece->size - at - length);
    if (may_resize && edits_draw(2))
        piece->size -= length;
    else if (edits_draw(2))
        piece_noise(piece, piece->size - length, length);
}

/* The length bytes at `at`, again and again behind it. */
static void repeat(struct piece *piece, size_t at, size_t length) {
    for (uint32_t times = 1 + edits_draw(20); times > 0 && at + 2 * length <= piece->size; times--, at += length)
        memcpy(piece->data + at + length, piece->data + at, length);
}

/* What comes into sight when it grows is noise, zeros, or what was there when it was larger. */
static void resize(struct piece *piece) {
    size_t size = edits_draw(3) ? edits_draw((uint32_t)piece->capacity + 1)
                                : 4096u * edits_draw((uint32_t)(piece->capacity / 4096));
    uint32_t what = edits_draw(3);
    size_t before = piece->size;
    piece->size = size;
    if (size > before && what == 0)
        piece_noise(piece, before, size - before);
    else if (size > before && what == 1)
        memset(piece->data + before, 0, size - before);
}

void edits_one(struct piece *pieces, unsigned count, uint32_t grain, int may_resize) {
    struct piece *piece = &pieces[edits_draw(count)], *other = &pieces[edits_draw(count)];
    uint32_t kind = edits_draw(may_resize ? 13 : 12);
    if (kind == 12) {
        resize(piece);
        return;
    }
    if (piece->size == 0 || other->size == 0)
        return;
    size_t at = draw_place(piece->size, grain), from = draw_place(other->size, grain);
    size_t length = draw_length(grain), fits = least(length, piece->size - at);
    if (kind < 3)
        piece_noise(piece, at, fits);
    else if (kind < 6)
        memmove(piece->data + at, other->data + from, least(fits, other->size - from));
    else if (kind == 6)
        insert(piece, at, length, may_resize);
    else if (kind == 7)
        cut(piece, at, length, may_resize);
    else if (kind == 8)
        repeat(piece, at, length);
    else if (kind == 9)
        memset(piece->data + at, 0, fits);
    else if (kind == 10) /* one byte */
        piece->data[at] ^= (uint8_t)(1 + edits_draw(255));
    else /* one value: many equal chunks */
        memset(piece->data + at, (int)edits_draw(256), fits);
}
