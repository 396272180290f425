/* Finds out whether a compressed file can be stored unpacked: what is in it, and which recipe gives its bytes back. */
#ifndef ARCHIVE_UNPACK_H
#define ARCHIVE_UNPACK_H

#include "archive/pack.h"
#include "files/look.h"

/* Archives whose content is larger than both of these, or than half of what is free, stay as they are. */
#define ARCHIVE_UNPACKED_FREE (UINT64_C(256) << 20)
#define ARCHIVE_UNPACKED_TIMES 100u

struct archive_unpacked {
    int fd; /* a file without a name, in TMPDIR or /var/tmp; it goes when it is closed */
    uint64_t size;
    struct archive_recipe recipe;
};

/* 1: unpacked, and the recipe was tried. 0: it stays as it is; note says why, if there is anything to say: files that
 * hold neither a tar archive nor an image of DMTCP are no matter of ours. Or a negative code. */
int archive_unpack(int fd, uint64_t size, archive_tick_fn tick, struct archive_unpacked *out,
                   char note[FILES_NOTE_CAPACITY]);
void archive_unpacked_clear(struct archive_unpacked *unpacked);

#endif
