/* Little-endian fields, growing buffers, and a reader that cannot run past the end. */
#ifndef VV_BYTES_H
#define VV_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t vv_get16(const void *p) {
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}
static inline uint32_t vv_get32(const void *p) {
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline uint64_t vv_get64(const void *p) {
    const uint8_t *b = p;
    return (uint64_t)vv_get32(b) | (uint64_t)vv_get32(b + 4) << 32;
}
static inline void vv_put16(void *p, uint16_t v) {
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}
static inline void vv_put32(void *p, uint32_t v) {
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)(v >> 16);
    b[3] = (uint8_t)(v >> 24);
}
static inline void vv_put64(void *p, uint64_t v) {
    vv_put32(p, (uint32_t)v);
    vv_put32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

/* A growing buffer. The first failed allocation is remembered and every later append does nothing, so that a long
 * encoder checks once at its end. */
struct vv_buf {
    uint8_t *data;
    size_t size;
    size_t capacity;
    int failed; /* 0 or -ENOMEM */
};

void vv_buf_init(struct vv_buf *buf);
void vv_buf_clear(struct vv_buf *buf);
/* Room for size more bytes at the end, counted as used; NULL on failure. */
uint8_t *vv_buf_extend(struct vv_buf *buf, size_t size);
void vv_buf_append(struct vv_buf *buf, const void *data, size_t size);
void vv_buf_zero(struct vv_buf *buf, size_t size);
void vv_buf_u8(struct vv_buf *buf, uint8_t v);
void vv_buf_u16(struct vv_buf *buf, uint16_t v);
void vv_buf_u32(struct vv_buf *buf, uint32_t v);
void vv_buf_u64(struct vv_buf *buf, uint64_t v);
void vv_buf_varint(struct vv_buf *buf, uint64_t v);
void vv_buf_svarint(struct vv_buf *buf, int64_t v);
void vv_buf_text16(struct vv_buf *buf, const char *text); /* cut at 65,535 bytes */

/* A reader over bytes somebody else wrote. The first read past the end, or of a malformed varint, sets failed and
 * every later read gives zeros. */
struct vv_cursor {
    const uint8_t *at;
    const uint8_t *end;
    int failed; /* 0 or -1 */
};

void vv_cursor_init(struct vv_cursor *cursor, const void *data, size_t size);
size_t vv_cursor_left(const struct vv_cursor *cursor);
const uint8_t *vv_cursor_take(struct vv_cursor *cursor, size_t size); /* NULL past the end */
uint8_t vv_cursor_u8(struct vv_cursor *cursor);
uint16_t vv_cursor_u16(struct vv_cursor *cursor);
uint32_t vv_cursor_u32(struct vv_cursor *cursor);
uint64_t vv_cursor_u64(struct vv_cursor *cursor);
uint64_t vv_cursor_varint(struct vv_cursor *cursor);
int64_t vv_cursor_svarint(struct vv_cursor *cursor);
/* Copy a text16 into out (with NUL); fails when it does not fit or has a NUL inside. */
void vv_cursor_text16(struct vv_cursor *cursor, char *out, size_t capacity);

#endif
