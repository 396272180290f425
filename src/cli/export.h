/* The files of a checkpoint come back (varve export, varve undump). The regions are read one after another, every byte
 * checked, and written where the map says; a file appears under its name when all its regions were right and it is on
 * storage. Nothing the store says about paths is trusted. */
#ifndef CLI_EXPORT_H
#define CLI_EXPORT_H

#include "archive/packed.h"
#include "files/map.h"
#include "files/place.h"
#include "terminal/cli.h"

struct exporting {
    struct cli *cli;
    struct varve_which which;
    int is_flat; /* it must have no folders but those of several processes: images */
    struct files_plan plan;
    struct files_place place;
    struct archive_packed packed;
    uint8_t *states;   /* of each file */
    uint32_t *pending; /* runs of pieces that a file still waits for */
    uint8_t *map;      /* the map of the files, then the recipes of packed ones */
    size_t map_size;
    int has_map, has_recipes;
    uint64_t done, total;
    uint64_t files, bytes; /* given back */
    uint64_t failed;
    /* the region that is being read */
    size_t region, piece;
    int failed_write;
    struct varve_error error; /* of a write */
};

/* Into the open folder place.folder: all files, or those that the arguments of the command line name. Files that cannot
 * be given back are told, and counted in failed. 0 or a negative code, told in error. */
int export_files(struct exporting *exporting, struct varve_error *error);
void export_summary(const struct exporting *exporting);
void export_clear(struct exporting *exporting);

#endif
