/* Looks into files that hold memory of processes, and says which bytes are what: images of criu in a folder, tar
 * archives with such images (podman, kubelet), images of DMTCP. */
#ifndef ARCHIVE_LOOK_H
#define ARCHIVE_LOOK_H

#include "files/look.h"
#include "files/walk.h"

/* FILES_PLAIN, or what begins like this. */
enum files_kind archive_kind_of(const void *start, size_t size);

/* The file of this number, open as fd, if it is one of these; files and folder are for the others beside it. As
 * files_look: what cannot be known is not there, and note says why. */
int archive_look(const struct files_list *files, uint32_t number, int folder, int fd, struct files_found *found,
                 char note[FILES_NOTE_CAPACITY]);

#endif
