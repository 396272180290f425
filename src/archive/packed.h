/* All packed files of an import, and the region ":packed" with their recipes (docs/format.md, Imported files). The map
 * knows such a file as PATH+unpacked: a reader that knows no recipes gives the content back, under a name that does not
 * pretend to be more. */
#ifndef ARCHIVE_PACKED_H
#define ARCHIVE_PACKED_H

#include "archive/unpack.h"
#include "files/place.h"

#define ARCHIVE_REGION ":packed"
#define ARCHIVE_SUFFIX "+unpacked"
#define ARCHIVE_PACKED_MOST 200u /* of one import: each keeps a file open */
#define ARCHIVE_RECIPES_MOST (UINT64_C(32) << 20)

struct archive_packed {
    struct archive_recipe *list; /* by number of the file */
    size_t count, capacity;
    int *fds; /* of all files of the list: the content of packed ones, -1 for others; NULL: none is packed */
    size_t file_count;
    uint64_t grown; /* how much longer the contents are than the packed files; below 0 where they are not */
};

/* Unpacks those files of a settled list for which it can be undone: they get their new names, sizes and places in the
 * list. tell is given a note about each of the others, where there is anything to say. */
int archive_unpack_files(struct archive_packed *packed, struct files_list *files, int folder, archive_tick_fn tick,
                         void (*tell)(void *arg, const char *path, const char *note), void *arg,
                         struct varve_error *error);
/* The recipes as bytes, to be freed by the caller. 0, -ENOMEM. */
int archive_recipes_encode(const struct archive_packed *packed, uint8_t **out, size_t *size_out);
/* The reverse, from bytes that nobody vouches for; the files are those of the map. VARVE_CORRUPT or
 * VARVE_UNKNOWN_FORMAT with a text. */
int archive_recipes_parse(const uint8_t *data, size_t size, const struct files_list *files,
                          struct archive_packed *packed, struct varve_error *error);
/* The files get the names back that they had, except those whose content is asked for under the name of the map. */
void archive_name_packed(struct archive_packed *packed, struct files_list *files, char *const asked[], int count);
/* The file of this number was written: if it is packed, pack it. As archive_repack. */
int archive_place(const struct archive_packed *packed, struct files_place *place, struct files_file *file,
                  uint32_t number, archive_tick_fn tick, struct varve_error *error);
void archive_packed_clear(struct archive_packed *packed);

#endif
