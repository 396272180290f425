/* Compare a part of a region with its last checkpoint: the kernels in their order, and what the host has to know
 * between them. Bytes come to the host once, all together; before that, twice, a few numbers. */
#include <errno.h>
#include <string.h>

#include "opencl_private.h"

struct counts {
    uint32_t fresh, moved; /* chunks to remember */
    uint32_t runs, firsts;
};

static int send_usable(struct cl_region *region, const struct varve_ask *ask) {
    int rc = vv_cl_space(region, SPACE_USABLE, ask->source_count);
    return rc ? rc
              : vv_cl_send(region, region->shared->spaces[SPACE_USABLE].memory, ask->is_usable, region->part.sources);
}

/* Nothing was ever seen; unless it fails, then it was. */
static int set_aside(struct cl_region *region) {
    region->aside = region->table;
    region->table = (struct cl_table){0};
    return vv_cl_table_start(region);
}

static int begin_part(struct cl_region *region, const struct varve_ask *ask) {
    int is_past = region->has_kept && !ask->is_whole;
    region->part = (struct cl_part){
        .base = region->base,
        .total = region->bytes,
        .seed = ask->seed,
        .address = ask->address,
        .shift = region->shift,
        .source = ask->source,
        .sources = ask->is_whole || !ask->is_usable ? 0 : ask->source_count,
        .has_past = (uint32_t)is_past,
    };
    int rc = ask->is_whole && ask->offset == 0 ? set_aside(region) : 0;
    if (rc == 0)
        rc = send_usable(region, ask);
    return rc ? rc : vv_cl_list(region, ask->offset, ask->length);
}

/* Which chunks are known, and which of the others stand for their equals. */
static int find_known_chunks(struct cl_region *region) {
    struct cl_part *part = &region->part;
    struct cl_table *table = &region->table;
    int rc = vv_cl_name_chunks(region);
    if (rc == 0)
        rc = vv_cl_space(region, SPACE_LABELS, part->chunks);
    if (rc == 0)
        rc = RUN(region, find_chunks, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 SPACE(region, SPACE_IDS), MEMORY(region->past), MEMORY(table->slots), MEMORY(table->ids),
                 MEMORY(table->places), SPACE(region, SPACE_USABLE), SPACE(region, SPACE_HEADS),
                 SPACE(region, SPACE_ENTRIES), SPACE(region, SPACE_HOMES), SPACE(region, SPACE_LABELS));
    if (rc == 0)
        rc = RUN(region, mark_heads, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 SPACE(region, SPACE_HEADS), SPACE(region, SPACE_ENTRIES), SPACE(region, SPACE_HOMES),
                 SPACE(region, SPACE_MARKS));
    return rc ? rc : vv_cl_sum(region, region->shared->spaces[SPACE_MARKS].memory, part->chunks);
}

static int label(struct cl_region *region, const struct varve_ask *ask, struct counts *counts) {
    struct cl_part *part = &region->part;
    struct cl_space *spaces = region->shared->spaces;
    part->capacity = vv_cl_table_capacity(&region->table, ask->most);
    int rc = vv_cl_send_part(region);
    if (rc == 0)
        rc = vv_cl_space(region, SPACE_RUN_MARKS, (uint64_t)part->chunks * 8);
    if (rc == 0)
        rc = RUN(region, label_chunks, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 MEMORY(region->table.places), SPACE(region, SPACE_ENTRIES), SPACE(region, SPACE_HOMES),
                 SPACE(region, SPACE_MARKS), SPACE(region, SPACE_PLACES), SPACE(region, SPACE_LABELS));
    if (rc == 0)
        rc = RUN(region, mark_runs, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 SPACE(region, SPACE_PLACES), SPACE(region, SPACE_LABELS), SPACE(region, SPACE_RUN_MARKS));
    if (rc == 0)
        rc = vv_cl_sum(region, spaces[SPACE_RUN_MARKS].memory, part->chunks);
    if (rc == 0)
        rc = vv_cl_fetch(region, spaces[SPACE_MARKS].memory, (uint64_t)(part->chunks - 1) * 8, 8, &counts->fresh);
    if (rc == 0)
        rc = vv_cl_fetch(region, spaces[SPACE_RUN_MARKS].memory, (uint64_t)(part->chunks - 1) * 8, 8, &counts->runs);
    counts->fresh = counts->fresh < part->capacity ? counts->fresh : part->capacity;
    return rc;
}

/* Where there is no memory for more entries, there is no room for them: again, with what there is. */
static int label_and_grow(struct cl_region *region, const struct varve_ask *ask, struct counts *counts) {
    for (;;) {
        int rc = label(region, ask, counts);
        if (rc == 0)
            rc = vv_cl_table_grow(region, counts->fresh, ask->most);
        if (rc != -ENOMEM || region->table.is_full)
            return rc;
        region->table.is_full = 1;
    }
}

static int keep(struct cl_region *region, const struct counts *counts) {
    struct cl_log *log;
    int rc = vv_cl_log(region, counts->moved, &log);
    if (rc == 0)
        rc = vv_cl_remember(region, log->moved);
    if (rc == 0)
        rc = vv_cl_keep_past(region, log->past, 0);
    if (rc == 0)
        region->table.used += counts->fresh;
    return rc;
}

/* The answer as it lies in memory, on both sides: runs, granules, bytes. */
struct layout {
    uint64_t granules, data, end;
};

static int write_answer(struct cl_region *region, const struct counts *counts, const struct layout *layout,
                        cl_mem out) {
    struct cl_part *part = &region->part;
    cl_ulong granules = layout->granules, data = layout->data;
    int rc = RUN(region, begin_runs, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 SPACE(region, SPACE_PLACES), SPACE(region, SPACE_LABELS), SPACE(region, SPACE_RUN_MARKS), MEMORY(out));
    if (rc == 0)
        rc = RUN(region, end_runs, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 SPACE(region, SPACE_LABELS), SPACE(region, SPACE_RUN_MARKS), MEMORY(out));
    if (rc == 0)
        rc = RUN(region, write_granules, part->listed, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 MEMORY(region->fresh), MEMORY(out), NUMBER(granules));
    if (rc == 0 && counts->firsts)
        rc = RUN(region, gather, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 SPACE(region, SPACE_LABELS), SPACE(region, SPACE_RUN_MARKS), MEMORY(region->buffer), MEMORY(out),
                 NUMBER(data));
    return rc;
}

static int fetch_answer(struct cl_region *region, const struct counts *counts, struct layout *layout) {
    cl_int code;
    layout->granules = (uint64_t)counts->runs * sizeof(struct varve_run);
    layout->data = layout->granules + (uint64_t)region->part.listed * sizeof(struct varve_granule);
    /* The last chunk may be short: its end is left out when the bytes are counted. */
    layout->end = layout->data + ((uint64_t)counts->firsts << region->shift);
    int rc = vv_cl_enlarge(region, &region->out, layout->end);
    if (rc == 0)
        rc = write_answer(region, counts, layout, region->out.memory);
    if (rc)
        return rc;
    region->answer = clEnqueueMapBuffer(region->queue, region->out.memory, CL_TRUE, CL_MAP_READ, 0, (size_t)layout->end,
                                        0, NULL, NULL, &code);
    return TOLD(region, code, "clEnqueueMapBuffer");
}

/* Every chunk of the listed granules is in a run, or fixed. */
static void count_labels(const struct cl_region *region, struct varve_answer *answer) {
    uint32_t chunk = UINT32_C(1) << region->shift;
    uint64_t counts[VARVE_SHIFTED + 1] = {0};
    for (size_t i = 0; i < answer->run_count; i++) {
        const struct varve_run *run = &answer->runs[i];
        counts[run->label & 3] += (run->length + (uint64_t)chunk - 1) / chunk;
        answer->data_bytes += run->label == VARVE_FIRST ? run->length : 0;
    }
    answer->chunks_zero = counts[VARVE_ZERO];
    answer->chunks_first = counts[VARVE_FIRST];
    answer->chunks_shifted = counts[VARVE_SHIFTED];
    answer->chunks_fixed = region->part.chunks - counts[VARVE_ZERO] - counts[VARVE_FIRST] - counts[VARVE_SHIFTED];
}

static int compare_listed(struct cl_region *region, const struct varve_ask *ask, struct varve_answer *answer) {
    struct counts counts = {0};
    struct layout layout;
    int rc = find_known_chunks(region);
    if (rc == 0)
        rc = label_and_grow(region, ask, &counts);
    if (rc == 0)
        rc = keep(region, &counts);
    if (rc == 0)
        rc = fetch_answer(region, &counts, &layout);
    if (rc)
        return rc;
    answer->runs = (const struct varve_run *)(const void *)region->answer;
    answer->run_count = counts.runs;
    answer->granules = (const struct varve_granule *)(const void *)(region->answer + layout.granules);
    answer->granule_count = region->part.listed;
    answer->data = region->answer + layout.data;
    count_labels(region, answer);
    return 0;
}

int vv_cl_compare(void *arg, const struct varve_ask *ask, struct varve_answer *answer) {
    struct cl_region *region = arg;
    struct varve_answer found = {0};
    pthread_mutex_lock(&region->shared->lock);
    region->why[0] = '\0';
    /* Parts come one after another, and nothing is known of an attempt that has failed on the way. */
    int rc = vv_cl_unmap(region);
    if (rc == 0 && (region->is_spoilt || ask->offset != region->asked || ask->length == 0 || ask->length > PART_MOST))
        rc = -EINVAL;
    if (rc == 0)
        rc = vv_cl_prepare(region, ask);
    if (rc == 0)
        rc = begin_part(region, ask);
    if (rc == 0 && region->part.listed)
        rc = compare_listed(region, ask, &found);
    if (rc == 0) {
        region->asked += ask->length;
        *answer = found;
    } else {
        region->is_spoilt = 1;
    }
    pthread_mutex_unlock(&region->shared->lock);
    return rc;
}
