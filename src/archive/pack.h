/* A file that was compressed as a whole hides everything: no page of it looks like one that is known. So it is stored
 * unpacked, with a recipe that gives its bytes back. A recipe is kept only when it was tried and gave every byte. */
#ifndef ARCHIVE_PACK_H
#define ARCHIVE_PACK_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve_error.h>

#define ARCHIVE_HEAD_MOST 65536u    /* bytes before and behind what is compressed */
#define ARCHIVE_LIBRARY_CAPACITY 64 /* "zlib 1.2.13" */
#define ARCHIVE_DIGEST 16

enum archive_packer { ARCHIVE_GZIP = 1, ARCHIVE_ZSTD = 2 };

struct archive_recipe {
    uint32_t file; /* number in the map */
    uint64_t size; /* of the packed file */
    uint8_t digest[ARCHIVE_DIGEST];
    enum archive_packer packer;
    uint32_t level;
    uint32_t memory;      /* gzip: zlib's memLevel; zstd: 1: written by a worker thread */
    uint32_t is_told;     /* zstd: 1: the frame tells how long its content is, */
    uint32_t has_sum;     /* and ends with a sum of it */
    uint8_t *head, *tail; /* gzip: as they were */
    size_t head_size, tail_size;
    char library[ARCHIVE_LIBRARY_CAPACITY]; /* that repeated it */
};

/* Is given the packed bytes, in order: 0 to go on, another value stops and comes back from archive_pack. */
typedef int (*archive_take_fn)(void *arg, const void *data, size_t size);
/* Called now and then, with NULL and zeros: 0, or a negative code to stop. */
typedef int (*archive_tick_fn)(void *arg, uint64_t done, uint64_t total);

/* Pack the file `fd`, of `size` bytes. 0, what take or tick returned, -EIO, -ENOMEM, or VARVE_UNSUPPORTED when this
 * program cannot do that at all. */
int archive_pack(const struct archive_recipe *recipe, int fd, uint64_t size, archive_take_fn take, void *arg,
                 archive_tick_fn tick);
/* What would do it here: the name and version of the library. */
void archive_library(enum archive_packer packer, char out[ARCHIVE_LIBRARY_CAPACITY]);
/* Pack `from` into `to`, which is empty, and see that it is the file that the recipe belongs to. VARVE_UNSUPPORTED
 * with a text when it is another one: then this library packs in another way than the one before. */
int archive_repack(const struct archive_recipe *recipe, int from, uint64_t size, int to, archive_tick_fn tick,
                   struct varve_error *error);
void archive_recipe_clear(struct archive_recipe *recipe);

#endif
