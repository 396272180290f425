/* A Reed-Solomon code over bytes: parity t of data d_0, d_1, ... is the sum of 2^(t i) d_i, in GF(256) with the
 * polynomial 0x11D. Up to three parities of up to 253 data: any `data` of all of them give back the others. */
#ifndef VV_ERASURE_H
#define VV_ERASURE_H

#include <stddef.h>
#include <stdint.h>

#define VV_ERASURE_DATA_MAX 16u

/* The factor of data number `data` in parity number `parity`. */
uint8_t vv_erasure_factor(uint32_t parity, uint32_t data);
/* Data number `wanted` from the symbols in `have` (data, then parity, as many as there are data, all different): their
 * factors. -EINVAL if they do not give it. */
int vv_erasure_solve(uint32_t data, const uint32_t *have, uint32_t wanted, uint8_t *factors_out);
/* out = the sum of factors[i] * sources[i]; out is none of the sources. */
void vv_erasure_sum(const uint8_t *factors, const uint8_t *const *sources, uint32_t count, size_t size, uint8_t *out);

#endif
