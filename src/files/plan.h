/* How a set of files is taken apart into regions: each variable of worth becomes a region, what is left of a file
 * another one, and the pieces say which bytes of a file are which bytes of a region. The pieces of each file cover it
 * exactly, without gap or overlap. */
#ifndef FILES_PLAN_H
#define FILES_PLAN_H

#include "files/found.h"
#include "files/walk.h"

#define FILES_PIECES_MOST 2000000u
#define FILES_REGIONS_MOST 131072u
#define FILES_OWN_RESTS_MOST 4096u /* with more files what is left of them shares a region */
#define FILES_REGION_NAME_MOST 255u
#define FILES_GRANULE 4096u
#define FILES_MAP_REGION ":files"  /* the map of map.h */
#define FILES_REST_REGION ":rests" /* what is left of all files, where there are very many */

struct files_piece {
    uint64_t file_offset, region_offset, length;
    uint32_t file, region;
};

struct files_region {
    char *name;      /* as the store has it: cut where it would be too long */
    char *full;      /* PATH or PATH:VARIABLE; NULL: the same */
    size_t variable; /* where VARIABLE begins in that; 0: there is none */
    uint64_t length;
    int type;
    unsigned dims; /* 0: bytes */
    uint64_t *dim;
    size_t first, count; /* pieces, in the order of the region; what lies between them is zero */
};

struct files_plan {
    struct files_list files;
    struct files_region *regions;
    size_t region_count, region_capacity;
    struct files_piece *pieces; /* by region and place in it, once settled */
    size_t piece_count, piece_capacity;
    int64_t shared; /* the region of all rests, -1: each file has its own */
};

/* Take over the files. */
void files_plan_begin(struct files_plan *plan, struct files_list *files);
/* The next file, whose variables are these; all files in order. 1: its variables were left out, there are too many
 * already. */
int files_plan_add(struct files_plan *plan, uint32_t file, const struct files_found *found);
/* Room for so many pieces of a file in content-defined chunks, beside those of the files that are still to come. */
size_t files_plan_chunks_most(const struct files_plan *plan, uint32_t file);
/* The next file, which has no variables: its chunks one after another, each from a granule on, so that one that stays
 * the same is found although those before it have grown. */
int files_plan_add_chunks(struct files_plan *plan, uint32_t file, const uint64_t *lengths, size_t count);
/* Make names unique, and put regions and pieces in order: the same variable of all files together, so that what is
 * alike can be compressed together; last, what is left of the files. */
int files_plan_settle(struct files_plan *plan);
void files_plan_clear(struct files_plan *plan);

/* For those who build a plan from a map. */
int files_plan_piece(struct files_plan *plan, const struct files_piece *piece);
/* Takes the names over, also when it fails. */
int files_plan_region(struct files_plan *plan, char *name, char *full);
void files_plan_sort(struct files_plan *plan);

#endif
