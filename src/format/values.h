/* The least and the greatest of the values in raw bytes. */
#ifndef VV_VALUES_H
#define VV_VALUES_H

#include "format/pack.h"

/* Whether values of this type are in an order: all but bytes. Of complex numbers the parts are looked at. */
int vv_values_have_range(uint8_t type);

/* The range of the whole elements in size bytes, aligned or not; bytes behind the last whole one do not count. NaN is
 * passed over and flagged; -0 counts as 0. out->type is 0 when the type has no order or there is no whole element. */
void vv_values_range(uint8_t type, const void *data, size_t size, struct vv_range *out);
/* Make `all` hold what `more` holds, too; both of the same type, or of type 0, which adds nothing. */
void vv_range_join(struct vv_range *all, const struct vv_range *more);
/* low and high as doubles, those that no double can hold rounded outwards. Not for EMPTY ones or type 0. */
void vv_range_doubles(const struct vv_range *range, double *low, double *high);

#endif
