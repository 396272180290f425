/* Which files a checkpoint has made: names of a folder before and after. */
#ifndef NEW_FILES_H
#define NEW_FILES_H

#include <stddef.h>

struct new_files {
    char **names;
    size_t count, capacity;
};

/* All files below a folder, sorted; but not heartbeats, which are replaced all the time, nor files that have no key yet
 * (a comma in their names). Takes the place of what was in files. */
void new_files_look(const char *folder, struct new_files *files);
/* How many of now are not in before. Of these, below a folder called data: in *data_out. */
size_t new_files_count(const struct new_files *before, const struct new_files *now, size_t *data_out);
void new_files_clear(struct new_files *files);

#endif
