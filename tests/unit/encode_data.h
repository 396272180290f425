/* Data for tests of encode/: kinds that codecs treat differently, always the same. */
#ifndef ENCODE_DATA_H
#define ENCODE_DATA_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <varve/varve.h>

enum data_kind { SMOOTH, NOISE, ZEROS, CONSTANT, SOUP, COUNTERS, TEXT, KINDS };

static uint64_t random_state = 1;

static inline uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Bits of floats of all sorts: NaN with payloads, infinities, both zeros, denormals, largest and smallest, any. */
static inline uint64_t soup_bits(unsigned width) {
    uint64_t top = width == 8 ? UINT64_C(0x7ff) << 52 : UINT64_C(0xff) << 23;
    uint64_t fraction = width == 8 ? (UINT64_C(1) << 52) - 1 : (UINT64_C(1) << 23) - 1;
    uint64_t sign = next_random() % 2 ? UINT64_C(1) << (width * 8 - 1) : 0, r = next_random();
    switch (next_random() % 7) {
    case 0:
        return sign | top | (r & fraction);
    case 1:
        return sign | top;
    case 2:
        return sign;
    case 3:
        return sign | (r & fraction);
    case 4:
        return sign | (top - 1);
    case 5:
        return sign | (r & 3);
    default:
        return width == 8 ? r : r & UINT32_MAX;
    }
}

/* row: of the smooth field. */
static inline void fill_data(uint8_t *data, size_t size, int kind, uint8_t type, size_t row) {
    unsigned width = type == VARVE_F32 || type == VARVE_C64 || type == VARVE_I32 || type == VARVE_U32 ? 4 : 8;
    uint64_t sum = 1000;
    for (size_t i = 0, n = 0; i < size; i += width, n++) {
        uint64_t bits = 0;
        double x = (double)(n % row), y = (double)(n / row);
        double smooth = 280 + 9 * sin(x * 0.02 + y * 0.011) * cos(y * 0.03 - x * 0.007);
        float narrow = (float)smooth;
        sum += next_random() % 3;
        if (kind == SMOOTH && width == 8)
            memcpy(&bits, &smooth, 8);
        else if (kind == SMOOTH)
            memcpy(&bits, &narrow, 4);
        else if (kind == NOISE)
            bits = next_random();
        else if (kind == CONSTANT)
            bits = UINT64_C(0x400921fb54442d18);
        else if (kind == SOUP)
            bits = soup_bits(width);
        else if (kind == COUNTERS)
            bits = sum;
        else if (kind == TEXT)
            memcpy(&bits, &"to be or not to be, that is the question"[n * 8 % 33], 8);
        for (size_t b = 0; b < width && i + b < size; b++)
            data[i + b] = (uint8_t)(bits >> b * 8);
    }
}

#endif
