/* Where the members of a tar archive lie. The archive is never taken apart for good: headers and padding stay as they
 * are, and this only says which bytes are the data of a member. So a lie in it costs space, and never a byte. */
#ifndef ARCHIVE_TAR_H
#define ARCHIVE_TAR_H

#include "files/netcdf.h" /* files_read_fn */

#define ARCHIVE_BLOCK 512u
#define ARCHIVE_MEMBERS_MOST 100000u /* that are told; an archive may have more */
#define ARCHIVE_MEMBER_LEAST 16384u  /* bytes: smaller ones are not told, except lists of criu */

struct archive_member {
    char *name; /* as the archive has it, without "./"; for people: nothing is ever made under it */
    uint64_t offset, size;
};

struct archive_members {
    struct archive_member *list; /* in the order of the archive */
    size_t count, capacity;
};

int archive_is_tar(const uint8_t block[ARCHIVE_BLOCK]); /* the first one */
/* The members of the archive in these bytes, and of archives in it as ARCHIVE/MEMBER. 0, -EBADMSG where it ends too
 * early or makes no sense, -E2BIG, -ENOMEM, or what fn returned; the members before that are told all the same. */
int archive_tar(files_read_fn fn, void *arg, uint64_t offset, uint64_t size, struct archive_members *members);
void archive_members_clear(struct archive_members *members);
/* Is it a list of criu, which says what pages are? NAME is without folders. */
int archive_is_list(const char *name);
const char *archive_base(const char *path); /* the name behind the last slash */

#endif
