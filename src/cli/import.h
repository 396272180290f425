/* Files become a checkpoint: those of a folder (varve import), or the images of a process (varve dump). A plan says how
 * they are taken apart into regions; each region is given to the library when it asks. */
#ifndef CLI_IMPORT_H
#define CLI_IMPORT_H

#include "archive/packed.h"
#include "files/map.h"
#include "files/source.h"
#include "terminal/cli.h"

struct feed;

/* Bytes that come only once, and of which nobody knows beforehand what they are: one region, as long as it may become,
 * and the plan behind it. */
struct import_stream {
    void *arg;
    int (*read)(void *arg, uint64_t offset, void *buffer, size_t size, struct varve_error *error);
    /* All was read: complete plan and map; the map keeps its size, with zeros behind it. */
    int (*end)(void *arg, struct varve_error *error);
};

struct importing {
    struct cli *cli;
    const char *codec;    /* the setting */
    int is_cut;           /* into content-defined chunks */
    uint32_t chunk_bytes; /* their mean size */
    struct varve_which which;
    int has_looked;
    int64_t parent; /* the version to go on from, -1: none */
    struct files_plan plan;
    struct files_source source;
    struct feed *feeds;
    uint8_t *map;
    size_t map_size;
    int folder;
    const int *fds; /* of the files of the plan, -1 where one is not open already; NULL: none is */
    struct archive_packed packed;
    uint8_t *recipes; /* of the packed files */
    size_t recipes_size;
    uint64_t seen;                      /* bytes of the files that were looked into */
    const struct import_stream *stream; /* instead of files, NULL: none */
    int is_stream_over;
    uint64_t total, given;
    uint64_t notes;
    uint64_t bytes_stored, bytes_known; /* with what goes to storage beside the data; found in the store already */
};

/* The folder of -C, or the current one. A file descriptor, or a negative code, told in error. */
int import_folder(const struct cli *cli, struct varve_error *error);
/* Find the files and folders of these arguments below importing->folder, look into all, and make the plan of them. Call
 * it before there are threads. */
int import_plan(struct importing *importing, char *const args[], int count, struct varve_error *error);
/* The plan is complete: put it in order, and make the map that belongs to it. */
int import_settle(struct importing *importing, struct varve_error *error);
/* Choose the version, and the one to go on from, of which all is checked. import_store does so if it was not done. */
int import_look(struct importing *importing, struct varve_error *error);
/* Store it, and wait until it is durable. */
int import_store(struct importing *importing, const char *what, struct varve_error *error);
void import_summary(const struct importing *importing, const char *done);
void import_clear(struct importing *importing);
/* About a "path" or a "name". In JSON it is told here, and 1 returned. */
int import_note_json(struct importing *importing, const char *about, const char *which, const char *note);

#endif
