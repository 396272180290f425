/* The setting `tiers`, taken apart: addresses, and what each says of its tier behind the ? beside what the storage
 * knows. */
#ifndef VV_TIER_ADDRESS_H
#define VV_TIER_ADDRESS_H

#include "base/settings.h"

struct vv_tier_address {
    char text[VV_SETTING_TEXT_BYTES]; /* without what is below */
    int keep;                         /* checkpoints, 0: all, -1: as tiers_keep says */
    int waiting;                      /* 0: as tiers_waiting says */
};

/* The next one, and *at behind it. 1, 0 if there is none, or VARVE_SETTING. */
int vv_tier_address_next(const char **at, struct vv_tier_address *out, struct varve_error *error);

#endif
