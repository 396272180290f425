/* One fixed sample of every object, for golden files, seeds of the fuzzers and tests. */
#ifndef TEST_SAMPLES_H
#define TEST_SAMPLES_H

#include "format/job_log_object.h"
#include "format/manifest.h"
#include "format/parity.h"

#define SAMPLE_PACK_SECTIONS 6
#define SAMPLE_TYPED_SECTIONS 7
#define SAMPLE_DEPENDENCIES 2

extern const uint8_t sample_store_id[16];
struct vv_key sample_key(int kind);

void sample_store(struct vv_buf *buf);
void sample_store_local(struct vv_buf *buf);
void sample_claim(struct vv_buf *buf);
void sample_heartbeat(struct vv_buf *buf);
void sample_writers(struct vv_buf *buf);
void sample_record(struct vv_buf *buf);
void sample_tombstone(struct vv_buf *buf, int kind); /* under the key of a pack, a record or a pin */
void sample_pin(struct vv_buf *buf);
void sample_trigger(struct vv_buf *buf);
void sample_job_log(struct vv_buf *buf);
void sample_catalogue(struct vv_buf *buf);
void sample_part(struct vv_buf *buf);
void sample_pack(struct vv_buf *buf);
void sample_copy(struct vv_buf *buf);
void sample_pack_typed(struct vv_buf *buf); /* the same with a filtered block and ranges */
void sample_parity(struct vv_buf *buf);
void sample_parity_table(struct vv_buf *buf, uint64_t offset); /* table and end */
/* Sections: of owner 4, a base; of owner 5, an overlay over a base and an overlay. */
void sample_manifest_base(struct vv_buf *buf);
void sample_manifest_overlay(struct vv_buf *buf);
void sample_manifest_arrays(struct vv_buf *buf); /* of owner 4: strides, and each distribution */
/* Regions of owner 0 that tell of the whole checkpoint: of six ranks. */
#define SAMPLE_RANKS 6
void sample_attributes(struct vv_buf *buf);
void sample_arrays(struct vv_buf *buf);

#endif
