/* Content-defined chunks: whether a file is cut behind a byte depends on the 48 bytes that end there, and on the
 * minimum and maximum size of chunks. So bytes that are inserted move the cuts behind them along, and the chunks there
 * stay what they were. The rule is in docs/format.md, Imported files. */
#ifndef FILES_CUT_H
#define FILES_CUT_H

#include <stddef.h>
#include <stdint.h>

#define FILES_WINDOW 48u
#define FILES_CUT_BLOCK 4096u /* bytes that are looked at together */
#define FILES_CUTS_MOST 17u   /* in a block: minimum sizes are 256 at least */

struct files_cut {
    uint32_t minimum, maximum; /* bytes of a chunk; the last one of a file may be shorter */
    uint16_t mask;             /* bits of the hash that decide */
    uint32_t length;           /* bytes of the chunk that is not complete */
};

/* The mean size of chunks: 512, 4,096 or 32,768. */
void files_cut_init(struct files_cut *cut, uint32_t target);
/* Where chunks end among the next bytes of a file: offsets behind their last bytes, ascending. size is at most
 * FILES_CUT_BLOCK. The FILES_WINDOW - 1 bytes before data can be read, and are those before it in the file; at its
 * beginning they do not matter. Returns how many there are. */
size_t files_cut_next(struct files_cut *cut, const uint8_t *data, size_t size, uint32_t ends[FILES_CUTS_MOST]);

/* For files_cut_next: the ends of all windows of these bytes whose hash says cut, in whatever way is fastest here, or
 * without vectors. size is 1 to FILES_CUT_BLOCK. */
size_t files_cut_scan(const uint8_t *data, size_t size, uint16_t mask, uint16_t *ends);
size_t files_cut_scan_plain(const uint8_t *data, size_t size, uint16_t mask, uint16_t *ends);

#endif
