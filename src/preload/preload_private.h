/* What the files of preload/ share. Nothing here may call malloc, but where the thread is marked as busy (see
 * allocator.c). */
#ifndef VV_PRELOAD_PRIVATE_H
#define VV_PRELOAD_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

/* ---- site.c: which place in which program allocates? ---- */

enum site_owner {
    OWNER_RUNTIME, /* a library that allocates for itself: not the program's data */
    OWNER_PROGRAM,
    OWNER_UNKNOWN, /* nobody has said whose data this library holds */
    OWNER_NAMELESS /* an object without a build id, or code that is in no object */
};

#define SITE_TEXT 96

struct site {
    uint64_t key;   /* hash of build ids and offsets of the return addresses; the same in every run of the same files */
    uint64_t owned; /* the same of the owner's alone */
    enum site_owner owner;
    char text[SITE_TEXT]; /* "storm+0x1a2b": the owner's return address; or the object, where there is no owner */
};

/* Who called the allocator. Takes no lock. */
void site_find(struct site *out);
/* At the start, before there are threads. Names of objects, with colons between: those that hold the program's data,
 * and those that do not. NULL: none. The texts must live on. */
void site_configure(const char *include, const char *exclude);

/* ---- blocks.c: the large allocations that are live. The caller has the lock. ---- */

struct block {
    void *ptr; /* NULL: an empty slot */
    size_t size;
    size_t mapped;   /* bytes of whole pages */
    uint32_t site;   /* its number in the table of sites, */
    uint32_t owned;  /* and that of the owner's return address alone */
    uint64_t number; /* how many were allocated there before it */
};

struct known_site {
    struct site site;
    uint64_t count;    /* allocations so far */
    int is_of_threads; /* another thread than the first one has allocated here; counted for the owner alone */
};

/* The number of the site; -1: no memory. */
int64_t blocks_site(const struct site *site);
struct known_site *blocks_known(uint32_t site);
/* 0, or -1: no memory. */
int blocks_add(const struct block *block);
/* NULL: none is there. The pointer lives until the next call of add or remove. */
struct block *blocks_find(const void *ptr);
void blocks_remove(struct block *block);
/* All of them, until fn returns nonzero; returns that. */
int blocks_each(int (*fn)(void *arg, const struct block *block), void *arg);

/* ---- pages.c: whole pages from the kernel. The caller has the lock. ---- */

/* NULL: no memory. Zeroed unless *is_used: then a block of this site lay there before. */
void *pages_take(size_t bytes, size_t alignment, uint32_t site, int *is_used);
void pages_give(void *ptr, size_t bytes, uint32_t site);
/* Larger or smaller, perhaps elsewhere; NULL: no memory, and it is as it was. */
void *pages_resize(void *ptr, size_t bytes, size_t wanted);

#endif
