/* What the files of this folder share. */
#ifndef ANALYZE_PRIVATE_H
#define ANALYZE_PRIVATE_H

#include "analyze/analyze.h"
#include "analyze/names.h"

#define ANALYZE_SLICES 8

struct slice {
    const uint8_t *data;
    size_t size;
    size_t before; /* zeros in front of it */
};

/* New pages of a region that are to be encoded, one after another. */
struct sample {
    char *name;
    size_t region;
    size_t kind; /* of the look */
    int type;
    uint64_t row;
    uint64_t length; /* of the region */
    uint8_t *data;
    size_t size;
    uint64_t *numbers; /* of the pages, among those of their kind */
    size_t pages, capacity;
    struct slice slices[ANALYZE_SLICES]; /* while it is encoded */
};

/* The samples of a look. */
struct samples {
    struct sample *list;
    size_t count, capacity;
    uint64_t bytes, all, most; /* now; up to which all is taken; of a sample */
    unsigned levels;           /* how often every second unit of pages was left out */
};

struct analyze {
    unsigned looks; /* that will come */
    unsigned count;
    struct analyze_look *list;
    struct names pages;       /* content of a page: look and file in which it was last seen */
    struct names places;      /* place of a page: its content */
    struct names fine;        /* content of a fine chunk: the look */
    struct names fine_places; /* place of a fine chunk: its content */
    struct names cuts;        /* content of a content-defined chunk: the look */
};

/* sample.c */
void samples_begin(struct samples *samples, uint64_t bytes);
struct new_page {
    const struct analyze_region *region;
    size_t region_number, kind;
    uint64_t number; /* among the new pages of its kind */
    const void *data;
    size_t size;
};
int samples_add(struct samples *samples, const struct new_page *page);
/* Encode all; fills what the look stores. */
int samples_encode(struct samples *samples, struct analyze_look *look, struct varve_error *error);
void samples_clear(struct samples *samples);

#endif
