/* Programs that are to be started, and what must be there to start them. */
#ifndef PROCESS_PROGRAM_H
#define PROCESS_PROGRAM_H

#include <stddef.h>
#include <varve/varve.h>

/* The file of this name, as execvp looks for it. 0 or a negative code, told in error. */
int process_find_program(const char *name, char *out, size_t capacity, struct varve_error *error);
/* A file of ours that lies beside libvarve in a build, and in a folder there where it was installed. */
int process_find_beside(const char *name, char *out, size_t capacity, struct varve_error *error);
/* Would the loader preload into it? -ENOTSUP, told in error, if not: it would pass over that without a word. */
int process_check_program(const char *path, struct varve_error *error);
/* -ENOTSUP: "PATH WHY". */
int process_refuse_program(struct varve_error *error, const char *path, const char *why);

#endif
