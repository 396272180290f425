#include "base/bytes.h"
#include "base/alloc.h"

#include <errno.h>

/* Seven bits a byte: 9 full ones and one bit in the tenth. */
#define VARINT_MAX_BYTES 10

void vv_buf_init(struct vv_buf *buf) {
    *buf = (struct vv_buf){0};
}

void vv_buf_clear(struct vv_buf *buf) {
    vv_free(buf->data);
    vv_buf_init(buf);
}

static int grow(struct vv_buf *buf, size_t need) {
    size_t capacity = buf->capacity ? buf->capacity : 256;
    while (capacity < need)
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    uint8_t *data = vv_realloc(buf->data, capacity);
    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->capacity = capacity;
    return 0;
}

uint8_t *vv_buf_extend(struct vv_buf *buf, size_t size) {
    if (buf->failed)
        return NULL;
    if (size > SIZE_MAX - buf->size) {
        buf->failed = -ENOMEM;
        return NULL;
    }
    if (!buf->data || size > buf->capacity - buf->size) {
        buf->failed = grow(buf, buf->size + size);
        if (buf->failed)
            return NULL;
    }
    uint8_t *at = buf->data + buf->size;
    buf->size += size;
    return at;
}

void vv_buf_append(struct vv_buf *buf, const void *data, size_t size) {
    uint8_t *at = vv_buf_extend(buf, size);
    if (at && size)
        memcpy(at, data, size);
}

void vv_buf_zero(struct vv_buf *buf, size_t size) {
    uint8_t *at = vv_buf_extend(buf, size);
    if (at)
        memset(at, 0, size);
}

void vv_buf_u8(struct vv_buf *buf, uint8_t v) {
    vv_buf_append(buf, &v, 1);
}

void vv_buf_u16(struct vv_buf *buf, uint16_t v) {
    uint8_t *at = vv_buf_extend(buf, 2);
    if (at)
        vv_put16(at, v);
}

void vv_buf_u32(struct vv_buf *buf, uint32_t v) {
    uint8_t *at = vv_buf_extend(buf, 4);
    if (at)
        vv_put32(at, v);
}

void vv_buf_u64(struct vv_buf *buf, uint64_t v) {
    uint8_t *at = vv_buf_extend(buf, 8);
    if (at)
        vv_put64(at, v);
}

void vv_buf_varint(struct vv_buf *buf, uint64_t v) {
    uint8_t bytes[VARINT_MAX_BYTES];
    size_t n = 0;
    while (v >= 0x80) {
        bytes[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    bytes[n++] = (uint8_t)v;
    vv_buf_append(buf, bytes, n);
}

/* Signed numbers are folded so that small ones of either sign stay short: 0, -1, 1, -2 become 0, 1, 2, 3. */
void vv_buf_svarint(struct vv_buf *buf, int64_t v) {
    vv_buf_varint(buf, ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0));
}

void vv_buf_text16(struct vv_buf *buf, const char *text) {
    size_t size = strnlen(text, UINT16_MAX);
    vv_buf_u16(buf, (uint16_t)size);
    vv_buf_append(buf, text, size);
}

void vv_cursor_init(struct vv_cursor *cursor, const void *data, size_t size) {
    static const uint8_t nothing[1];
    cursor->at = size ? data : nothing;
    cursor->end = cursor->at + size;
    cursor->failed = 0;
}

size_t vv_cursor_left(const struct vv_cursor *cursor) {
    return (size_t)(cursor->end - cursor->at);
}

const uint8_t *vv_cursor_take(struct vv_cursor *cursor, size_t size) {
    if (cursor->failed || size > vv_cursor_left(cursor)) {
        cursor->failed = -1;
        return NULL;
    }
    const uint8_t *at = cursor->at;
    cursor->at += size;
    return at;
}

uint8_t vv_cursor_u8(struct vv_cursor *cursor) {
    const uint8_t *at = vv_cursor_take(cursor, 1);
    return at ? *at : 0;
}

uint16_t vv_cursor_u16(struct vv_cursor *cursor) {
    const uint8_t *at = vv_cursor_take(cursor, 2);
    return at ? vv_get16(at) : 0;
}

uint32_t vv_cursor_u32(struct vv_cursor *cursor) {
    const uint8_t *at = vv_cursor_take(cursor, 4);
    return at ? vv_get32(at) : 0;
}

uint64_t vv_cursor_u64(struct vv_cursor *cursor) {
    const uint8_t *at = vv_cursor_take(cursor, 8);
    return at ? vv_get64(at) : 0;
}

/* Only the shortest form is accepted, so that equal values have equal bytes. */
uint64_t vv_cursor_varint(struct vv_cursor *cursor) {
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_MAX_BYTES; i++) {
        uint8_t byte = vv_cursor_u8(cursor);
        int is_last = !(byte & 0x80);
        int is_too_big = i == VARINT_MAX_BYTES - 1 && byte > 1;
        int is_too_long = is_last && byte == 0 && i > 0;
        if (cursor->failed || is_too_big || is_too_long)
            break;
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (is_last)
            return v;
    }
    cursor->failed = -1;
    return 0;
}

int64_t vv_cursor_svarint(struct vv_cursor *cursor) {
    uint64_t v = vv_cursor_varint(cursor);
    return (int64_t)((v >> 1) ^ (v & 1 ? UINT64_MAX : 0));
}

void vv_cursor_text16(struct vv_cursor *cursor, char *out, size_t capacity) {
    size_t size = vv_cursor_u16(cursor);
    const uint8_t *at = vv_cursor_take(cursor, size);
    if (capacity)
        out[0] = '\0';
    if (!at)
        return;
    if (size >= capacity || memchr(at, 0, size)) {
        cursor->failed = -1;
        return;
    }
    memcpy(out, at, size);
    out[size] = '\0';
}
