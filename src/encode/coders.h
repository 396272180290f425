/* Coders that are borrowed for one block and used again. Any thread. */
#ifndef VV_CODERS_H
#define VV_CODERS_H

#include <pthread.h>

#include "encode/coding.h"

struct vv_lent_coder {
    struct vv_lent_coder *next;
    struct vv_coder *coder;
};
struct vv_coders {
    pthread_mutex_t lock;
    struct vv_lent_coder *idle;
};

void vv_coders_init(struct vv_coders *coders);
void vv_coders_clear(struct vv_coders *coders);                              /* nothing may be lent */
struct vv_lent_coder *vv_coders_borrow(struct vv_coders *coders);            /* NULL without memory */
void vv_coders_return(struct vv_coders *coders, struct vv_lent_coder *lent); /* accepts NULL */

#endif
