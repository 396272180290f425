/* Puts files below a folder, and never outside of it: no component of a path is followed if it is a symbolic link. A
 * file is written beside its place, under a name that nobody else has, and gets its own name when its data is on
 * storage. Nothing is taken away, or written into, that was not made here. */
#ifndef FILES_PLACE_H
#define FILES_PLACE_H

#include "files/plan.h"

/* So many complete files, or bytes of them, wait for their names at the most. */
#define FILES_WAITING_MOST 1000u
#define FILES_WAITING_BYTES (UINT64_C(1) << 30)

struct files_made {
    uint64_t device, inode; /* to know it again */
    int is_there;
};

struct files_place {
    int folder;
    int is_forced;                             /* replace files that are there */
    void (*named)(void *arg, uint32_t number); /* told of each file that has got its name; may be NULL */
    void *arg;
    const struct files_list *files;
    uint64_t tag;                         /* of the temporary names */
    uint64_t device;                      /* of the folder */
    struct files_made *made;              /* of each file */
    uint32_t waiting[FILES_WAITING_MOST]; /* complete, but without their names */
    uint32_t waiting_count;
    uint64_t waiting_bytes;
    int fd; /* of the file that was written last, -1 */
    uint32_t file;
};

/* folder, is_forced, named and arg are set already; folder and files are the caller's. */
int files_place_open(struct files_place *place, const struct files_list *files, struct varve_error *error);
/* Make room for the file of this number: its size, all zeros. Makes the folders on the way. */
int files_place_begin(struct files_place *place, uint32_t number, struct varve_error *error);
/* Zeros may be left out where nothing was written yet. */
int files_place_write(struct files_place *place, uint32_t number, uint64_t offset, const void *data, size_t size,
                      struct varve_error *error);
/* All was written, but the file is to be another one: fn makes it of the first, in a file that is empty. */
typedef int (*files_pack_fn)(void *arg, int from, int to, struct varve_error *error);
int files_place_pack(struct files_place *place, uint32_t number, files_pack_fn fn, void *arg,
                     struct varve_error *error);
/* All was written: permissions and time, and the name as soon as enough others wait, too. */
int files_place_finish(struct files_place *place, uint32_t number, struct varve_error *error);
/* Names for all that wait; data and names are on storage: one wait for all of them, as there may be very many. */
int files_place_settle(struct files_place *place, struct varve_error *error);
/* Take a file that was begun and has no name yet away again. */
void files_place_drop(struct files_place *place, uint32_t number);
void files_place_close(struct files_place *place);

#endif
