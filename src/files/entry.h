/* What a walk meets besides plain files: symbolic links, which are kept as they are and never followed, and names that
 * are not wanted. */
#ifndef FILES_ENTRY_H
#define FILES_ENTRY_H

#include "files/walk.h"

/* Does a pattern say that this is left out? One with a slash is compared with the path, others with the name. */
int files_is_excluded(const struct files_list *files, const char *path, const char *name);
/* Add a symbolic link: `name` in the open folder. */
int files_add_link(struct files_list *files, int folder, const char *name, const char *path, const struct stat *stat,
                   struct varve_error *error);
/* No folder on the way to the path is a symbolic link. */
int files_check_way(int folder, const char *path, struct varve_error *error);

#endif
