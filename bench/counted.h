/* What the library asks of the storage, as its count wrapper has seen it: for stores with ?count=1 in their address.
 *
 * Nothing public tells, so the program is linked with --wrap=vv_backend_open and --wrap=vv_backend_close, and keeps the
 * backends that are opened in sight. */
#ifndef COUNTED_H
#define COUNTED_H

#include <stdint.h>

/* Since the last reset, of this process. */
void counted_reset(void);
uint64_t counted_read(void);

#endif
