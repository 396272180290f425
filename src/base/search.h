/* Binary search. */
#ifndef VV_SEARCH_H
#define VV_SEARCH_H

/* Let `at` become the first index from `first` on for which is_before, an expression of `at`, is false; `end` if there
 * is none. It must be true up to some index and false from there:
 *     size_t at;
 *     VV_SEARCH(at, 0, count, list[at].number < number); */
#define VV_SEARCH(at, first, end, is_before)                                                                           \
    do {                                                                                                               \
        __typeof__(at) vv_low = (first), vv_high = (end);                                                              \
        while (vv_low < vv_high) {                                                                                     \
            (at) = vv_low + (vv_high - vv_low) / 2;                                                                    \
            if (is_before)                                                                                             \
                vv_low = (at) + 1;                                                                                     \
            else                                                                                                       \
                vv_high = (at);                                                                                        \
        }                                                                                                              \
        (at) = vv_low;                                                                                                 \
    } while (0)

#endif
