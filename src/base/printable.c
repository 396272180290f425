#include "base/printable.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at text, 1 to 4, and its number; 0 if it is none. */
static size_t read_character(const unsigned char *text, uint32_t *out) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = text[0] < 0x80 ? 1 : text[0] < 0xc0 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] > 0xf4 || size == 0)
        return 0;
    uint32_t point = size == 1 ? text[0] : text[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0; /* also the end of the text */
        point = point << 6 | (text[i] & 0x3f);
    }
    *out = point;
    return point < least[size] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff) ? 0 : size;
}

/* Controls, line and paragraph separators, and marks that turn the order of what is read around. */
static int is_control(uint32_t point) {
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x061c || point == 0x200e || point == 0x200f ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

/* How many bytes are taken from text; used_out is how many are put into out, which has room for 16. */
static size_t put_one(const unsigned char *text, char *out, size_t *used_out) {
    uint32_t point = 0;
    size_t size = read_character(text, &point);
    if (size > 0 && !is_control(point)) {
        memcpy(out, text, size);
        *used_out = size;
        return size;
    }
    size = size ? size : 1;
    *used_out = 0;
    for (size_t i = 0; i < size; i++)
        *used_out += (size_t)snprintf(out + *used_out, 5, "\\x%02x", text[i]);
    return size;
}

void vv_printable(const char *text, char *out, size_t capacity) {
    const unsigned char *at = (const unsigned char *)text;
    size_t used = 0;
    while (*at) {
        char one[17];
        size_t size;
        at += put_one(at, one, &size);
        if (size >= capacity - used)
            break;
        memcpy(out + used, one, size);
        used += size;
    }
    out[used] = '\0';
}
