/* Would fine chunks pay for a region, and of which size? Told by a sample of its granules: of these the pieces of 32
 * bytes are remembered from one checkpoint to the next, and of all sampled pieces a set of what was seen. Nothing
 * depends on it but what is stored how compactly. */
#ifndef VV_FINE_SAMPLE_H
#define VV_FINE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

struct vv_fine_sample;

/* Of chunks in sampled granules of any region: forgets, and may mistake one for another once in a long while. */
struct vv_fine_set {
    uint64_t *slots; /* NULL: made when it is first needed */
};
void vv_fine_set_clear(struct vv_fine_set *set);

/* NULL: too small a region to be worth it, or no memory. */
struct vv_fine_sample *vv_fine_sample_make(uint64_t granules);
void vv_fine_sample_free(struct vv_fine_sample *sample); /* accepts NULL */
/* Is it of a region with so many? */
int vv_fine_sample_is_of(const struct vv_fine_sample *sample, uint64_t granules);
/* A granule has changed. What is not in the sample is passed over at no cost. */
void vv_fine_sample_look(struct vv_fine_sample *sample, struct vv_fine_set *set, uint64_t index, const uint8_t *data,
                         uint32_t size);

/* What a choice depends on. */
struct vv_fine_costs {
    double write;    /* seconds per byte stored */
    double look;     /* seconds per byte of changed granules to look at them finely */
    double remember; /* bytes of memory per byte of the region that may be used for it */
};
/* The size of chunks, 0 for none, once the sample says anything (else `now`); what was sampled so far is forgotten
 * then. reason gets a few words. */
uint32_t vv_fine_sample_evaluate(struct vv_fine_sample *sample, const struct vv_fine_costs *costs, uint32_t now,
                                 char reason[64]);

#endif
