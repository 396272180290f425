/* Where the chunks of an HDF5 data set lie, read from the index in the file. The library tells it one chunk at a time,
 * and counts through all chunks before it each time (versions before 1.14): too slow where there are many. This knows
 * the index that files have by default (B-trees of version 1); the library is asked for others. */
#ifndef FILES_HDF5_INDEX_H
#define FILES_HDF5_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define FILES_RANK_MOST 32

struct files_hdf5_place {
    int fd;
    uint64_t base;        /* addresses in the file count from here: behind the user block */
    uint64_t header;      /* address of the data set's object header */
    unsigned offset_size; /* bytes of an address */
    unsigned length_size;
    unsigned rank; /* of the data set */
};

struct files_hdf5_chunk {
    uint64_t first[FILES_RANK_MOST]; /* element */
    uint64_t offset, length;         /* in the file */
};
typedef int (*files_hdf5_chunk_fn)(void *arg, const struct files_hdf5_chunk *chunk);

/* 0, what fn returned, -ENOSYS when the index is another one, -EBADMSG when it makes no sense. */
int files_hdf5_index(const struct files_hdf5_place *place, files_hdf5_chunk_fn fn, void *arg);

#endif
