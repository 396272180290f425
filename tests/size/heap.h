/* How much memory the library holds, and the most it held: a program linked with -Wl,--wrap=malloc and so on
 * (CMakeLists.txt) has its calls of the C library's allocation functions counted, and those of the library linked
 * into it, but not what other shared libraries take for themselves. */
#ifndef HEAP_H
#define HEAP_H

#include <stdint.h>

#define HEAP_SMALL 65536

/* Bytes held. Pieces below HEAP_SMALL also apart: buffers of a fixed size are larger, and would hide when those
 * grow. */
struct heap {
    int64_t all, small;
};

struct heap heap_live(void);
void heap_watch(void);       /* from now on: */
struct heap heap_peak(void); /* the most that was held at a time */

#endif
