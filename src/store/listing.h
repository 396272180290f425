/* Listings of a store, and sets of attempts. */
#ifndef VV_LISTING_H
#define VV_LISTING_H

#include "store/store.h"

/* The numbers below a prefix, ascending. Components that are no number of so many digits are logged and left out. */
struct vv_numbers {
    uint64_t *list;
    size_t count;
    size_t capacity;
};
/* after (may be NULL): only numbers above *after. Clear in every case. */
int vv_numbers_list(struct vv_store *store, const char *prefix, int digits, const uint64_t *after,
                    struct vv_numbers *out, struct varve_error *error);
/* Below the data of a name: its generations (depth 0), the versions of one (1), the attempts at one (2). */
int vv_data_list(struct vv_store *store, const char *name, const struct vv_attempt *at, int depth,
                 struct vv_numbers *out, struct varve_error *error);
int vv_numbers_add(struct vv_numbers *numbers, uint64_t number); /* 0 or -ENOMEM */
void vv_numbers_clear(struct vv_numbers *numbers);

/* Is there an object? 1, 0 or an error. */
int vv_object_exists(struct vv_store *store, const struct vv_key *key, struct varve_error *error);
/* Does anything lie below prefix? 1, 0 or an error. */
int vv_prefix_is_used(struct vv_store *store, const char *prefix, struct varve_error *error);

/* ---- a set of attempts ---- */

struct vv_attempts {
    struct vv_attempt *list;
    size_t count;
    size_t capacity;
    size_t sorted; /* the first so many are in order, none twice */
};
int vv_attempts_add(struct vv_attempts *set, const struct vv_attempt *attempt); /* 0 or -ENOMEM */
void vv_attempts_sort(struct vv_attempts *set);
int vv_attempts_has(const struct vv_attempts *set, const struct vv_attempt *attempt); /* it must be sorted */
void vv_attempts_clear(struct vv_attempts *set);

#endif
