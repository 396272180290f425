/* Hashes with vectors of 32 bytes: this file alone is compiled for processors that have them. */
#ifdef __AVX2__
#define WIDE vv_hash_avx2
#include "base/hash_wide_code.h"
#endif
