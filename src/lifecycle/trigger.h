/* Triggers: what somebody asks of the session that has a name open (docs/format.md 5, 10). An object in the store, so
 * that it reaches a session through every backend. */
#ifndef VV_TRIGGER_H
#define VV_TRIGGER_H

#include "store/store.h"

/* Ask: 0, or 1 when the same was asked before and nobody has taken it yet. -ESRCH when no session can have the name
 * open, VARVE_BUSY when something else was asked and is not taken yet. A damaged one is replaced. trigger->time_ns and
 * host are filled in. */
int vv_trigger_ask(struct vv_store *store, const char *name, uint32_t wish, struct varve_error *error);

/* For the session: 1 and the trigger if there is one, which is removed; 0 if there is none. sum: of its bytes, also
 * when it cannot be read (error) or removed (2, and error says why): the session must not obey the same one twice. 0:
 * there is none. */
int vv_trigger_take(struct vv_store *store, const char *name, struct vv_trigger *out, uint64_t *sum,
                    struct varve_error *error);

#endif
