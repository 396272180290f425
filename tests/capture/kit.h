/* What the tests of asynchronous capture share. They see the library as a program does: through its public headers
 * only. A test that finds something wrong says what and ends its process with 1; with 77 when this machine cannot
 * run it. */
#ifndef CAPTURE_KIT_H
#define CAPTURE_KIT_H

#include "details.h"
#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);
__attribute__((noreturn, format(printf, 1, 2))) void skip(const char *format, ...);
/* Put before every complaint: which case, which round. */
extern char kit_where[256];

/* ---- randomness that can be repeated ---- */
uint64_t mix(uint64_t x);
struct dice {
    uint64_t state;
};
uint64_t roll(struct dice *dice);                       /* 64 bits */
uint64_t roll_below(struct dice *dice, uint64_t limit); /* limit > 0 */
/* No two pages alike, and nothing that compresses. */
void fill(void *at, size_t size, uint64_t seed);

/* ---- folders and stores ---- */
/* A new folder in TMPDIR or /dev/shm; removed by kit_folder_remove. */
void kit_folder(char *out, size_t capacity, const char *purpose);
void kit_folder_remove(const char *folder);
/* Fails the test when it cannot be opened. Warnings of the library are counted, not shown, unless KIT_LOG is set. */
struct varve_session *kit_open(const char *store, const char *settings);
/* The same, but leaves the failure to the caller. */
int kit_try_open(const char *store, const char *settings, struct varve_session **out, struct varve_error *error);
#define KIT_NAME "truth"
void kit_stats(struct varve_session *session, struct vv_details *out);
double kit_seconds(void);

/* ---- what this machine can do, found out without the library ---- */
/* A userfaultfd that stops system calls, too: 1 or 0. */
int has_kernel_uffd(void);
/* PAGEMAP_SCAN of pages that are noted when written (Linux 6.7): 1 or 0. */
int has_scan(void);
int has_softdirty(void); /* asked before a session is open: it clears the bits */
/* From now on a user without privileges, with /proc/self as every ordinary process has it; skips where that cannot be.
 */
void become_nobody(void);

/* ---- what a checkpoint has to hold ---- */
struct image {
    char name[32];
    uint8_t *data;
    size_t size;
};
struct images {
    struct image list[48];
    size_t count;
    int64_t version;
    uint32_t rank; /* whose regions they are */
};
void images_add(struct images *images, const char *name, const void *data, size_t size);
void images_clear(struct images *images);
/* The stored checkpoint has these regions of the rank and no others, and every byte is right. The address should be
 * without limit: nobody wants to read slowly. */
void images_check(const struct images *images, const char *address);
/* 1 if the store has this version. */
int is_stored(const char *address, int64_t version);
/* How the memory differs from the image: fails the test if it does. */
void image_compare(const struct image *image, const void *data, size_t size, const char *what);

/* ---- threads that write wherever they can ---- */
enum scribble_pattern { ASCENDING, DESCENDING, SHUFFLED, PATTERNS };
struct scribble_target {
    uint8_t *ptr;
    size_t size;
};
struct scribblers;
/* Threads that wait for scribblers_go, then write into every page (or, if one_in is above 1, about one page in so
 * many) of the targets again and again until scribblers_stop, which gives the number of pages written. */
struct scribblers *scribblers_prepare(const struct scribble_target *targets, size_t count,
                                      enum scribble_pattern pattern, unsigned one_in, uint64_t seed);
void scribblers_go(struct scribblers *all);
uint64_t scribblers_stop(struct scribblers *all);
/* One pass by the calling thread. */
void scribble_once(const struct scribble_target *target, unsigned one_in, uint64_t seed);

/* ---- storage that fails while it is asked to ---- */
/* No file of this process may pass so many bytes until storage_heal: writes then fail with EFBIG. */
void storage_break(uint64_t bytes);
void storage_heal(void);

#endif
