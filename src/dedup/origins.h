/* Where the bytes of a region come from: ranges with their origin, ascending and without overlap. This is what a
 * manifest says, in memory.
 *
 * A `source` is a slot in the session's list of attempts (dedup/history.h), not yet a dependency index: slots live as
 * long as the session, dependency indices belong to one pack. */
#ifndef VV_ORIGINS_H
#define VV_ORIGINS_H

#include <stddef.h>
#include <stdint.h>

enum vv_origin_kind { VV_ORIGIN_ZERO, VV_ORIGIN_FROM, VV_ORIGIN_REPEATED };

struct vv_origin {
    uint64_t offset; /* in the region */
    uint64_t length;
    uint64_t address; /* in the owner's layout at the source */
    uint32_t source;
    uint32_t owner;
    uint32_t kind;
    uint32_t piece; /* of repeated ones */
};

struct vv_origins {
    struct vv_origin *list;
    size_t count;
    size_t capacity;
};

void vv_origins_clear(struct vv_origins *origins);
/* Append; offset is at or past the end of the last (or vv_origins_sort is called when all are there). Joined with the
 * last one where the bytes continue, also into `repeated` when the same piece comes again. 0 or -ENOMEM. */
int vv_origins_add(struct vv_origins *origins, const struct vv_origin *origin);
/* Chunks that were stored in another order were appended in another order: put them right, joined. Nothing to do when
 * they ascend. */
void vv_origins_sort(struct vv_origins *origins);
/* The first one that ends after offset: its index, or count. */
size_t vv_origins_find(const struct vv_origins *origins, uint64_t offset);
/* Do they say the same of this range? It must lie in one of theirs. */
int vv_origins_say(const struct vv_origins *origins, const struct vv_origin *origin);
/* What `top` says, else what `below` says, up to length; appended to the empty out. Together they must tile [0,
 * length). 0 or -ENOMEM. */
int vv_origins_merge(const struct vv_origins *below, const struct vv_origins *top, uint64_t length,
                     struct vv_origins *out);
/* The part [from, to) of an origin, from and to being region offsets inside it. A repeated one entered in the middle of
 * a piece gives up to two parts: call until *from reaches to. */
struct vv_origin vv_origin_part(const struct vv_origin *origin, uint64_t *from, uint64_t to);

#endif
