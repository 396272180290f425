/* What was found in a file: its variables, and where their bytes lie. The parsers fill it in a process of their own; it
 * comes back through a pipe and is checked: nothing that a parser says about a foreign file is to be trusted. */
#ifndef FILES_FOUND_H
#define FILES_FOUND_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#define FILES_EXTENTS_MOST 1000000u /* of one file: what has more is taken as plain bytes */
#define FILES_VARIABLES_MOST 65536u
#define FILES_NAME_MOST 1024u
#define FILES_VARIABLE_LEAST 4096u /* bytes: what is smaller is not worth a region of its own */
#define FILES_EXTENT_LEAST 512u    /* the same for the pieces it lies in, on average */

struct files_extent {
    uint64_t offset, length; /* in the file */
};

struct files_variable {
    char *name;
    int type;      /* enum varve_type */
    unsigned dims; /* 0: nothing is known */
    uint64_t dim[VARVE_DIMS_MAX];
    int is_filtered;     /* its pieces are compressed each for itself: their sizes say nothing */
    size_t first, count; /* extents, in logical order */
};

struct files_found {
    struct files_variable *variables;
    size_t count, capacity;
    struct files_extent *extents;
    size_t extent_count, extent_capacity;
};

/* Bytes of one element of a type; 1 where the type is not known. */
size_t files_element_size(int type);
void files_found_clear(struct files_found *found);
/* Add a variable without extents; its extents follow. 0, -ENOMEM, or -E2BIG beyond the limits. */
int files_found_variable(struct files_found *found, const char *name, const struct files_variable *like);
int files_found_extent(struct files_found *found, uint64_t offset, uint64_t length);
/* Forget the variable that was added last, and its extents. */
void files_found_undo(struct files_found *found);
uint64_t files_variable_bytes(const struct files_found *found, const struct files_variable *variable);

/* All of it, however many calls of write() it takes. 0 or -errno. */
int files_write_all(int fd, const void *data, size_t size);
/* For the pipe: the form is a matter of these two alone. */
int files_found_write(const struct files_found *found, int fd);
/* -EBADMSG when it is none. */
int files_found_read(struct files_found *found, const void *data, size_t size);

/* Drop the variables that a file of this size cannot have, that share bytes with another, or that are too small to
 * matter; and what their type says when it does not fit their bytes. Returns how many were dropped for being wrong. */
size_t files_found_check(struct files_found *found, uint64_t file_size);

#endif
