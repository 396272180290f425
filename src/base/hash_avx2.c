/* Hashes with vectors of 32 bytes: this file alone is compiled for processors that have them. */
#ifdef __AVX2__
#define WIDE vv_hash_avx2
/* Compilers may forget it where their own functions call each other: then the program's own vector code, which has 16
 * bytes, runs at half its speed until somebody clears the upper halves. */
#define LEAVE_WIDE() _mm256_zeroupper()
#include "base/hash_wide_code.h"
#endif
