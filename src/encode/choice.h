/* Which coding pays: per variable and block, from a sample, the speed of the storage and the processors that are free.
 * One chooser lives as long as the session and is used by several threads at once. */
#ifndef VV_CHOICE_H
#define VV_CHOICE_H

#include "encode/coding.h"

struct vv_chooser;

struct vv_chooser_plan {
    int name;             /* enum vv_coding_name, or -1: to be chosen */
    int level;            /* of zstd */
    double workers;       /* processors that are free for encoding; at least 1 */
    double threads;       /* that encode and write, waiting for the storage included; at least 1 */
    double storage_speed; /* bytes per second, as the commits so far have shown; 0: not known yet */
    int is_for_size;      /* time does not count: the smallest, by samples */
    int is_thorough;      /* and every block is encoded with everything: blocks of a variable may be of many kinds */
};

int vv_chooser_create(struct vv_chooser **out);      /* 0 or -ENOMEM */
void vv_chooser_destroy(struct vv_chooser *chooser); /* accepts NULL */
/* A checkpoint begins. What was learned about variables and codecs stays. */
void vv_chooser_begin(struct vv_chooser *chooser, const struct vv_chooser_plan *plan);
/* The coding for a block. variable: the same number for blocks that are alike (a region; or a kind of small regions
 * that share blocks). May sample; coder is this thread's. */
void vv_chooser_pick(struct vv_chooser *chooser, struct vv_coder *coder, uint64_t variable,
                     const struct vv_content *content, const void *data, size_t size, struct vv_coding *out);
/* What became of it: stored == size if it was stored as it is. seconds: of the processor. */
void vv_chooser_encoded(struct vv_chooser *chooser, uint64_t variable, const struct vv_coding *coding, size_t size,
                        size_t stored, double seconds);
/* So many bytes were handed to the storage, which took so long: tells its speed while the first checkpoint is still
 * being written, and whether the storage or the processors are behind. */
void vv_chooser_wrote(struct vv_chooser *chooser, size_t bytes, double seconds);

struct vv_choice_sums {
    uint64_t raw[VV_CODING_NAMES], stored[VV_CODING_NAMES]; /* bytes of this checkpoint by coding */
    double seconds_encode;                                  /* of all threads */
    double seconds_sampled;                                 /* of these, looking for the coding */
    double storage_speed;                                   /* bytes per second; 0: it has not shown yet */
};
/* Of the checkpoint since vv_chooser_begin. reason: "delta-zstd 62 %, none 38 %; storage 105 MB/s, 2 processors", cut
 * to fit. */
void vv_chooser_sums(struct vv_chooser *chooser, struct vv_choice_sums *out, char *reason, size_t capacity);

#endif
