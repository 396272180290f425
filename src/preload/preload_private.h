/* What the files of preload/ share. Nothing here may call malloc, but where the thread is marked as busy (see
 * allocator.c). */
#ifndef VV_PRELOAD_PRIVATE_H
#define VV_PRELOAD_PRIVATE_H

#include <link.h>
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
/* The owner of what code at this address allocates; *out is set as by site_find only where it is not plain. */
enum site_owner site_owner(void *caller, struct site *out);
/* Does the object of this path belong to the program? Its name without folders in any case. */
int site_is_program(const char *path, char *name_out, size_t capacity);
/* Of an object's name without folders: does what it allocates belong to its caller? */
int site_is_passed(const char *name);
/* Has nobody said whether it holds data of the program? */
int site_is_unsaid(const char *name);
/* Are threads that code at this address makes the program's? Those of OpenMP are. */
int site_makes_threads(void *caller);
/* NULL: it has none. */
const uint8_t *site_build_id(const struct dl_phdr_info *info, size_t *size_out);

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

/* ---- arena.c: the heap of address-true mode. The caller has the lock. ---- */

#define ARENA_BASE ((uintptr_t)1 << 44) /* far from programs, the kernel's choices and stacks */
#define ARENA_MOST ((size_t)256 << 30)

/* 0, or -1: its addresses are taken, or there is no memory. */
int arena_reserve(void);
int arena_commit(size_t bytes);
void *arena_memory(size_t *bytes_out);
/* What lies behind reads as zeros from now on. */
void arena_drop(size_t from);
/* For each free: inline. */
static inline int arena_has(const void *ptr) {
    return (uintptr_t)ptr - ARENA_BASE < ARENA_MOST;
}
/* Zeroed; NULL: no memory. */
void *arena_take(size_t size, size_t alignment);
void arena_give(void *ptr);
size_t arena_size(void *ptr);
/* Where it is: 1, or 0 if it does not fit or would waste too much. */
int arena_resize(void *ptr, size_t size);

/* ---- fixed.c: address-true mode ---- */

typedef int (*preload_fn)(void *arg, const char *name, void *ptr, size_t size, const char *why);

enum { FIXED_UNKNOWN, FIXED_OFF, FIXED_ON };
extern int fixed_state __attribute__((visibility("hidden")));
void fixed_decide(void);
/* Shall what code at this address allocates come from the arena? */
int fixed_is_ours(void *caller);
/* The memory that comes back, and the objects of the process. */
int fixed_each(preload_fn fn, void *arg);
/* One thread of the program more (1) or less (-1). */
void fixed_thread(int change);

/* ---- unopened.c: programs that open no session ---- */

/* At the start, before the program may change its environment. */
void unopened_start(void);
/* It has opened one, or tried to. */
void unopened_session(void);

/* ---- called.c: programs that never call Varve ---- */

/* At the start, when the environment says so: calls of one function come to us. */
void called_start(void);

/* ---- allocator.c ---- */

/* Once, when there is an environment. */
void preload_configure(void);
/* Does not return. */
void preload_refuse(const char *why, const char *object);

#endif
