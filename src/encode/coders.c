/* A list of idle coders. */
#include "encode/coders.h"
#include "base/alloc.h"

void vv_coders_init(struct vv_coders *coders) {
    pthread_mutex_init(&coders->lock, NULL);
    coders->idle = NULL;
}

void vv_coders_clear(struct vv_coders *coders) {
    while (coders->idle) {
        struct vv_lent_coder *lent = coders->idle;
        coders->idle = lent->next;
        vv_coder_destroy(lent->coder);
        vv_free(lent);
    }
    pthread_mutex_destroy(&coders->lock);
}

struct vv_lent_coder *vv_coders_borrow(struct vv_coders *coders) {
    pthread_mutex_lock(&coders->lock);
    struct vv_lent_coder *lent = coders->idle;
    if (lent)
        coders->idle = lent->next;
    pthread_mutex_unlock(&coders->lock);
    if (lent)
        return lent;
    lent = vv_calloc(1, sizeof *lent);
    if (lent && vv_coder_create(&lent->coder) != 0) {
        vv_free(lent);
        lent = NULL;
    }
    return lent;
}

void vv_coders_return(struct vv_coders *coders, struct vv_lent_coder *lent) {
    if (!lent)
        return;
    pthread_mutex_lock(&coders->lock);
    lent->next = coders->idle;
    coders->idle = lent;
    pthread_mutex_unlock(&coders->lock);
}
