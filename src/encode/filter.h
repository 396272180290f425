/* Filters: rearrange the elements of a block so that a codec finds more in it, and the reverse (docs/format.md 6).
 * They never change the size, and any bytes are valid input in both directions. */
#ifndef VV_FILTER_H
#define VV_FILTER_H

#include <stddef.h>
#include <stdint.h>

/* 1 if both are known, there is no second without a first, and the element is a size that filters take. */
int vv_filter_is_valid(const uint8_t filter[2], uint8_t element);
/* 1 if both can be done in one pass, tile by tile, so that the data goes through memory once: one filter; or delta,
 * xor or rotate, then a shuffle. Others take a pass each. */
int vv_filter_is_one_pass(const uint8_t filter[2]);
/* For filters that are valid, at least one, and take one pass. in and out do not overlap and may have any alignment. */
void vv_filter_apply(const uint8_t filter[2], uint8_t element, const void *in, void *out, size_t size);
void vv_filter_undo(const uint8_t filter[2], uint8_t element, const void *in, void *out, size_t size);

#endif
