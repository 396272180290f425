/* The store object is missing, or what it holds is damaged: id and settings from other objects (store_rebuild.c). */
#ifndef VV_STORE_PRIVATE_H
#define VV_STORE_PRIVATE_H

#include "store/store.h"

int vv_store_patch(struct vv_store *store, int is_missing, struct varve_error *error);

#endif
