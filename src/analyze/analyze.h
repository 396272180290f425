/* What Varve would make of data that it has not stored: files, or the memory of a process, looked at once or several
 * times. Every byte is read once and every page named; new pages are encoded in a store in memory, all of them or a
 * fair sample. Nothing is written. Memory is bounded whatever the size of the data. */
#ifndef ANALYZE_H
#define ANALYZE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <varve/varve.h>

#define ANALYZE_PAGE 4096u
#define ANALYZE_FINE 128u /* bytes of a fine chunk */
#define ANALYZE_KINDS 32u
#define ANALYZE_LOOKS 1024u

/* A region as it would be protected. */
struct analyze_region {
    const char *name;  /* in the store */
    const char *place; /* the same for the same variable in each look; NULL: it is not compared */
    const char *kind;  /* what is counted together: "f64", "heap" */
    uint32_t file;     /* the number of the file or process it comes from */
    int type;          /* enum varve_type */
    uint64_t row;      /* elements in the fastest dimension; 0: not known */
    uint64_t length;   /* bytes */
    int is_plain;      /* bytes of a file in their order, which content-defined chunks might suit */
};

/* Where the bytes of a look come from. */
struct analyze_source {
    void *arg;
    size_t count; /* regions */
    uint64_t bytes;
    void (*region)(void *arg, size_t number, struct analyze_region *out);
    /* 0 or a negative code, told in error. offset is a multiple of ANALYZE_PAGE. */
    int (*read)(void *arg, size_t number, uint64_t offset, void *buffer, size_t size, struct varve_error *error);
    /* Where the page at this offset was before and will be again; NULL: there. */
    uint64_t (*place)(void *arg, size_t number, uint64_t offset);
    int (*step)(void *arg, uint64_t done); /* how far it is; anything but 0 ends it */
};

/* Of one look; all in bytes of the data, if nothing else is said. */
struct analyze_counts {
    uint64_t bytes;
    uint64_t zero;                  /* pages of zeros, */
    uint64_t within, across;        /* equal to another page of the same file, or of another file, of this look, */
    uint64_t earlier;               /* or of the look before, */
    uint64_t fresh;                 /* and new: these five are `bytes` together */
    uint64_t stored, metadata;      /* what would go to storage: new pages encoded, and what is written beside them */
    uint64_t sampled;               /* new bytes that were encoded to know that */
    uint64_t fine_zero, fine_known; /* of the new pages, in fine chunks: zeros, and equal to another one */
};

struct analyze_kind {
    char name[24];
    struct analyze_counts counts; /* without metadata */
};

struct analyze_look {
    char label[256]; /* what was looked at */
    struct analyze_counts all;
    struct analyze_kind kinds[ANALYZE_KINDS]; /* the last takes what finds no room of its own */
    size_t kind_count;
    uint64_t regions;
    uint64_t compared, changed;     /* bytes that have a place in the look before, and those that differ there */
    uint64_t fine_changed;          /* of `changed`, in fine chunks that differ */
    uint64_t plain, cut_known;      /* bytes of plain files, and of these in content-defined chunks that are known */
    uint64_t plain_known;           /* and in pages that are known, or zero */
    double seconds;                 /* from the first byte to the last */
    double seconds_read;            /* of these, waiting for bytes */
    double share_named, share_fine; /* of the names that were kept: 1, or they are a sample */
};

struct analyze;

/* looks: how many will come. */
int analyze_create(struct analyze **out, unsigned looks);
void analyze_destroy(struct analyze *analyze); /* accepts NULL */
/* The next look. Starts threads, which are gone when it returns. 0 or a negative code, told in error. */
int analyze_look(struct analyze *analyze, const char *label, const struct analyze_source *source,
                 struct varve_error *error);
unsigned analyze_count(const struct analyze *analyze);
const struct analyze_look *analyze_result(const struct analyze *analyze, unsigned number);

/* What to make of it all. */
struct analyze_advice {
    uint64_t bytes, stored; /* of all looks, with metadata */
    uint64_t copied;        /* bytes that a program would have to wait for at a checkpoint: those that change */
    double seconds_blocked; /* copying these, at the speed of this machine's memory */
    double changed;         /* share of the data that changes between looks; less than 0: not known */
    char settings[128];     /* such as "codec=size,fine=128"; "": the defaults */
    char why[512];          /* in words */
};
void analyze_advise(const struct analyze *analyze, struct analyze_advice *out);

/* One HTML page that needs nothing beside it, in the colours that the reader prefers. */
void analyze_page(FILE *out, const struct analyze *analyze, const struct analyze_advice *advice);

#endif
