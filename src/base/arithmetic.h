/* Arithmetic as the standard has it, whatever the program has set: rounding, tiny numbers flushed to 0, traps. What is
 * computed must come out the same in the program that writes and in the one that reads, and must not end either. */
#ifndef VV_ARITHMETIC_H
#define VV_ARITHMETIC_H

#include <fenv.h>

static inline void vv_arithmetic_begin(fenv_t *saved) {
    fegetenv(saved);
    fesetenv(FE_DFL_ENV);
}
static inline void vv_arithmetic_end(const fenv_t *saved) {
    fesetenv(saved);
}

#endif
