/* Images of DMTCP 4: two pages of header, then for each area of memory a page that describes it, and its bytes. */
#ifndef ARCHIVE_DMTCP_H
#define ARCHIVE_DMTCP_H

#include "files/netcdf.h" /* files_read_fn, files_found */

#define ARCHIVE_DMTCP_START 28u /* bytes that archive_is_dmtcp looks at */

int archive_is_dmtcp(const uint8_t start[ARCHIVE_DMTCP_START]);
/* The bytes of each area as a variable NAME@ADDRESS; its headers stay with the rest of the file. 0, -EBADMSG where it
 * ends too early or makes no sense, -E2BIG, -ENOMEM, or what fn returned; what was found before that is told. */
int archive_dmtcp(files_read_fn fn, void *arg, uint64_t size, struct files_found *found);

#endif
