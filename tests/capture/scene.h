/* The protected memory of snapshot-truth: regions of odd sizes and places that grow, shrink, move, go away and come
 * back. */
#ifndef CAPTURE_SCENE_H
#define CAPTURE_SCENE_H

#include "kit.h"

enum region_kind {
    MAPPED,    /* private anonymous memory that starts somewhere in a page */
    LENT,      /* from varve_alloc */
    HEAP,      /* from malloc, grows by realloc */
    SHARED,    /* MAP_SHARED */
    CALLBACK,  /* behind callbacks; its buffer is written like all the others */
    NEIGHBOUR, /* begins in the page where the region before it ends */
    ALIAS      /* lies inside the first region */
};

struct region {
    const char *name;
    enum region_kind kind;
    size_t usual; /* size that it goes around */
    unsigned flags;
    int is_sparse; /* hardly ever written */
    uint8_t *map;  /* what is unmapped, freed, reallocated */
    size_t map_size;
    uint8_t *ptr;
    size_t size;
    int is_present;
};

#define SCENE_REGIONS 14
struct scene {
    struct region regions[SCENE_REGIONS];
    struct varve_session *session;
    unsigned flags; /* given to every region that is not DEVICE_WRITES */
    int has_alias;  /* memory that two regions share is neither watched nor held: not in every scene */
    struct dice dice;
    uint64_t moved, left, resized, hollowed;
};

/* About `bytes` in all. The session is set, and everything protected, by scene_enter. */
void scene_create(struct scene *scene, size_t bytes, unsigned flags, int has_alias, uint64_t seed);
void scene_enter(struct scene *scene, struct varve_session *session);
/* Regions from varve_alloc are gone when the session is closed. */
void scene_leave(struct scene *scene);
void scene_destroy(struct scene *scene);

void scene_images(const struct scene *scene, struct images *out);
/* Everything that threads may write while nobody moves `victim` (or NULL). Returns how many targets there are. */
size_t scene_targets(const struct scene *scene, const struct region *sparse, struct scribble_target *out);

/* A region that scene_disturb may be asked to change next. */
struct region *scene_sparse(struct scene *scene);
/* Grow, shrink, move, take away or bring back, always telling the library as a program has to. */
void scene_disturb(struct scene *scene, struct region *region);
/* Give pages back to the system with MADV_DONTNEED; not while a checkpoint is in flight. */
void scene_hollow(struct scene *scene);
/* Write about one page in so many everywhere. */
void scene_write(struct scene *scene, unsigned one_in, uint64_t seed);

#endif
