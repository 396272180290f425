/* The kernels of the filters: byte planes, with the processor's vectors where it has them. */
#ifndef VV_FILTER_PRIVATE_H
#define VV_FILTER_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

/* Byte k of element i of `in` becomes planes[k * stride + i], for `count` elements, and the reverse. */
void vv_planes_split(unsigned element, const uint8_t *in, size_t count, uint8_t *planes, size_t stride);
void vv_planes_join(unsigned element, const uint8_t *planes, size_t stride, size_t count, uint8_t *out);
/* The same without vectors: what other processors get, and what tests compare with. */
void vv_planes_split_plain(unsigned element, const uint8_t *in, size_t count, uint8_t *planes, size_t stride);
void vv_planes_join_plain(unsigned element, const uint8_t *planes, size_t stride, size_t count, uint8_t *out);

/* Vectors of three numbers of `width` bytes, 4 or 8: number l of vector i of `in` becomes lanes[(l * stride + i) *
 * width], for `count` vectors, and the reverse. */
void vv_lanes_split(unsigned width, const uint8_t *in, size_t count, uint8_t *lanes, size_t stride);
void vv_lanes_join(unsigned width, const uint8_t *lanes, size_t stride, size_t count, uint8_t *out);
void vv_lanes_split_plain(unsigned width, const uint8_t *in, size_t count, uint8_t *lanes, size_t stride);
void vv_lanes_join_plain(unsigned width, const uint8_t *lanes, size_t stride, size_t count, uint8_t *out);

/* Each 8 bytes are 8 rows of 8 bits: exchange rows and columns. Its own reverse. */
void vv_bits_turn(uint8_t *data, size_t words);
void vv_bits_turn_plain(uint8_t *data, size_t words);

#endif
