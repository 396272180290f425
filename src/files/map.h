/* The map of an import, the bytes of its region ":files" (docs/format.md, Imported files): which regions there are, and
 * of which of their pieces each file is made. */
#ifndef FILES_MAP_H
#define FILES_MAP_H

#include "files/plan.h"

#define FILES_MAP_MOST (UINT64_C(64) << 20)

/* A settled plan as bytes, to be freed by the caller. 0, -ENOMEM, or -E2BIG above FILES_MAP_MOST. */
int files_map_encode(const struct files_plan *plan, uint8_t **out, size_t *size_out);
/* The reverse, from bytes that nobody vouches for: VARVE_CORRUPT or VARVE_UNKNOWN_FORMAT with a text when they are no
 * map whose pieces lie in their regions and cover each file exactly. The plan is settled then. Region types are not in
 * it. */
int files_map_parse(const uint8_t *data, size_t size, struct files_plan *plan, struct varve_error *error);

#endif
