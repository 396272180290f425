#include "twin.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/content_id.h"

enum { OURS, FOREIGN }; /* owners */

static void *grown(void *list, size_t *capacity, size_t need, size_t each) {
    if (need > *capacity) {
        *capacity = need + need / 2 + 16;
        list = realloc(list, *capacity * each);
        if (!list)
            abort();
    }
    return list;
}

/* ---- what is known, as it was ---- */

static size_t marks_size(const struct twin *twin) {
    return (twin->bytes / VARVE_GRANULE + 1) * VV_FINE_MOST * sizeof *twin->marks;
}

static void save_seen(struct twin *twin) {
    memcpy(twin->saved_marks, twin->marks, marks_size(twin));
    free(twin->saved);
    twin->saved_count = twin->seen.count;
    twin->saved = malloc((size_t)twin->saved_count * sizeof *twin->saved + 1);
    if (!twin->saved)
        abort();
    if (twin->saved_count)
        memcpy(twin->saved, twin->seen.entries, twin->saved_count * sizeof *twin->saved);
}

static void bring_seen_back(struct twin *twin) {
    memcpy(twin->marks, twin->saved_marks, marks_size(twin));
    vv_fine_index_clear(&twin->seen);
    vv_fine_index_bound(&twin->seen, UINT64_MAX);
    struct vv_fine_index saved = {.entries = twin->saved};
    for (uint32_t i = 0; i < twin->saved_count; i++)
        vv_fine_index_put(&twin->seen, twin->saved[i].id, vv_fine_index_place(&saved, i));
}

static void forget(struct twin *twin) {
    memset(twin->marks, 0, marks_size(twin));
    vv_fine_index_clear(&twin->seen);
    vv_origins_clear(&twin->past);
    vv_origins_clear(&twin->top);
    twin->has_kept = 0;
    twin->asked = 0;
}

/* ---- compare ---- */

static void add_run(struct twin *twin, struct varve_answer *answer, const struct vv_fine_run *run) {
    struct varve_run *last = answer->run_count ? &twin->runs[answer->run_count - 1] : NULL;
    if (run->label == VV_LABEL_FIRST) {
        twin->data = grown(twin->data, &twin->data_capacity, answer->data_bytes + run->length, 1);
        memcpy(twin->data + answer->data_bytes, twin->memory + run->offset, run->length);
        answer->data_bytes += run->length;
    }
    /* What continues the last one comes from another granule: the runs of one are joined already. */
    if (last && last->label == run->label && last->offset + last->length == run->offset &&
        (run->label == VV_LABEL_ZERO ||
         (last->place.source == run->place.source && last->place.address + last->length == run->place.address))) {
        last->length += run->length;
        return;
    }
    twin->runs = grown(twin->runs, &twin->run_capacity, answer->run_count + 1, sizeof *twin->runs);
    struct varve_run *next = &twin->runs[answer->run_count++];
    *next = (struct varve_run){.offset = run->offset, .length = run->length, .label = run->label};
    if (run->label != VV_LABEL_ZERO)
        next->place = (struct varve_place){run->place.source, 0, run->place.address};
}

static void say(struct twin *twin, const struct vv_fine_run *run) {
    struct vv_origin origin = {.offset = run->offset, .length = run->length, .kind = VV_ORIGIN_ZERO, .owner = OURS};
    if (run->label != VV_LABEL_ZERO) {
        origin.kind = VV_ORIGIN_FROM;
        origin.source = run->place.source;
        origin.address = run->place.address;
    }
    if (vv_origins_add(&twin->top, &origin) != 0)
        abort();
}

static void label(struct twin *twin, const struct vv_fine *fine, uint64_t offset, uint32_t size,
                  struct varve_answer *answer) {
    struct vv_hash128 ids[VV_FINE_MOST];
    struct vv_fine_run runs[VV_FINE_MOST];
    struct vv_fine_counts counts = {0};
    vv_fine_name(fine, twin->memory + offset, size, ids);
    uint32_t count = vv_fine_label(fine, offset, size, ids, runs, &counts);
    for (uint32_t i = 0; i < count; i++) {
        add_run(twin, answer, &runs[i]);
        say(twin, &runs[i]);
    }
    answer->chunks_fixed += counts.fixed;
    answer->chunks_first += counts.first;
    answer->chunks_shifted += counts.shifted;
    answer->chunks_zero += counts.zero;
}

static struct vv_hash128 name_granule(struct twin *twin, uint64_t seed, uint64_t offset, uint32_t size) {
    const uint8_t *data = twin->memory + offset;
    return vv_is_zero(data, size) ? (struct vv_hash128){0, 0} : vv_id(seed, data, size);
}

static uint32_t granule_size(const struct twin *twin, uint64_t offset) {
    return (uint32_t)(twin->bytes - offset < VARVE_GRANULE ? twin->bytes - offset : VARVE_GRANULE);
}

static void compare_granules(struct twin *twin, const struct varve_ask *ask, const struct vv_fine *fine,
                             struct varve_answer *answer) {
    for (uint64_t offset = ask->offset; offset < ask->offset + ask->length; offset += VARVE_GRANULE) {
        uint64_t index = offset / VARVE_GRANULE;
        uint32_t size = granule_size(twin, offset);
        struct vv_hash128 id = name_granule(twin, ask->seed, offset, size);
        twin->fresh[index] = id;
        if (twin->has_kept && !ask->is_whole && vv_hash128_equal(id, twin->kept[index]))
            continue;
        twin->granules =
            grown(twin->granules, &twin->granule_capacity, answer->granule_count + 1, sizeof *twin->granules);
        twin->granules[answer->granule_count++] = (struct varve_granule){index, {id.low, id.high}};
        label(twin, fine, offset, size, answer);
    }
}

static int twin_compare(void *arg, const struct varve_ask *ask, struct varve_answer *answer) {
    struct twin *twin = arg;
    const struct vv_origins nothing = {0};
    uint32_t sources = ask->source_count > ask->source ? ask->source_count : ask->source + 1;
    uint8_t *is_usable = calloc(sources, 1);
    if (!is_usable || ask->offset != twin->asked)
        abort();
    if (!ask->is_whole && ask->source_count)
        memcpy(is_usable, ask->is_usable, ask->source_count);
    is_usable[ask->source] = 1;
    if (twin->chunk && twin->chunk != ask->chunk)
        forget(twin);
    twin->chunk = ask->chunk;
    if (ask->offset == 0)
        save_seen(twin);
    if (ask->offset == 0 && ask->is_whole) {
        vv_fine_index_clear(&twin->seen);
        memset(twin->marks, 0, marks_size(twin));
    }
    twin->is_whole = ask->is_whole;
    vv_fine_index_bound(&twin->seen, ask->most);
    struct vv_fine fine = {.seen = &twin->seen,
                           .seed = ask->seed,
                           .chunk = ask->chunk,
                           .source = ask->source,
                           .owner = OURS,
                           .address = ask->address,
                           .marks = twin->marks,
                           .past = ask->is_whole ? &nothing : &twin->past,
                           .is_usable = is_usable,
                           .source_count = sources};
    *answer = (struct varve_answer){0};
    compare_granules(twin, ask, &fine, answer);
    answer->granules = twin->granules;
    answer->runs = twin->runs;
    answer->data = twin->data;
    twin->asked += ask->length;
    free(is_usable);
    return 0;
}

static void make_permanent(struct twin *twin) {
    const struct vv_origins nothing = {0};
    struct vv_hash128 *kept = twin->kept;
    struct vv_origins merged = {0};
    if (vv_origins_merge(twin->is_whole ? &nothing : &twin->past, &twin->top, twin->bytes, &merged) != 0)
        abort();
    vv_origins_clear(&twin->past);
    twin->past = merged;
    twin->kept = twin->fresh;
    twin->fresh = kept;
    twin->has_kept = 1;
}

static int twin_settle(void *arg, int is_committed) {
    struct twin *twin = arg;
    if (is_committed && twin->asked != twin->bytes)
        return -EINVAL;
    if (is_committed)
        make_permanent(twin);
    else if (twin->asked)
        bring_seen_back(twin);
    vv_origins_clear(&twin->top);
    twin->asked = 0;
    return 0;
}

/* ---- coming back ---- */

static int twin_write(void *arg, uint64_t offset, const void *data, size_t size) {
    struct twin *twin = arg;
    memcpy(twin->memory + offset, data, size);
    return 0;
}

static void take_runs(struct twin *twin, const struct varve_run *runs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct vv_origin origin = {.offset = runs[i].offset, .length = runs[i].length, .kind = VV_ORIGIN_ZERO};
        if (runs[i].label != VARVE_ZERO) {
            origin.kind = VV_ORIGIN_FROM;
            origin.source = runs[i].place.source;
            origin.address = runs[i].place.address;
            origin.owner = runs[i].label == VARVE_SHIFTED ? OURS : FOREIGN;
        }
        if (vv_origins_add(&twin->past, &origin) != 0)
            abort();
    }
}

static int twin_restored(void *arg, const struct varve_ask *ask, const struct varve_run *runs, size_t count) {
    struct twin *twin = arg;
    struct vv_hash128 ids[VV_FINE_MOST];
    forget(twin);
    twin->chunk = ask->chunk;
    take_runs(twin, runs, count);
    vv_fine_index_bound(&twin->seen, ask->most);
    struct vv_fine fine = {.seen = &twin->seen,
                           .seed = ask->seed,
                           .chunk = ask->chunk,
                           .owner = OURS,
                           .past = &twin->past,
                           .marks = twin->marks};
    for (uint64_t offset = 0; offset < twin->bytes; offset += VARVE_GRANULE) {
        uint32_t size = granule_size(twin, offset);
        twin->kept[offset / VARVE_GRANULE] = name_granule(twin, ask->seed, offset, size);
        uint32_t ids_count = vv_fine_name(&fine, twin->memory + offset, size, ids);
        for (uint32_t i = 0; i < ids_count; i++) { /* the first of equal ones is remembered */
            uint32_t at = i * ask->chunk, length = size - at < ask->chunk ? size - at : ask->chunk;
            fine.is_by_place = vv_fine_index_find(&twin->seen, ids[i]) != VV_SEEN_NOT;
            vv_fine_restore(&fine, offset + at, length, &ids[i], 1);
        }
    }
    twin->has_kept = 1;
    return 0;
}

static void twin_leave(void *arg) {
    forget(arg);
}

const struct varve_device_ops twin_ops = {
    .size = sizeof(struct varve_device_ops),
    .name = "twin",
    .compare = twin_compare,
    .settle = twin_settle,
    .write = twin_write,
    .restored = twin_restored,
    .leave = twin_leave,
};

void twin_init(struct twin *twin, void *memory, uint64_t bytes) {
    uint64_t granules = (bytes + VARVE_GRANULE - 1) / VARVE_GRANULE;
    *twin = (struct twin){.memory = memory, .bytes = bytes};
    twin->kept = calloc(granules, sizeof *twin->kept);
    twin->fresh = calloc(granules, sizeof *twin->fresh);
    twin->marks = calloc(1, marks_size(twin));
    twin->saved_marks = calloc(1, marks_size(twin));
    if (!twin->kept || !twin->fresh || !twin->marks || !twin->saved_marks)
        abort();
}

void twin_clear(struct twin *twin) {
    vv_fine_index_clear(&twin->seen);
    vv_origins_clear(&twin->past);
    vv_origins_clear(&twin->top);
    free(twin->kept);
    free(twin->fresh);
    free(twin->saved);
    free(twin->marks);
    free(twin->saved_marks);
    free(twin->granules);
    free(twin->runs);
    free(twin->data);
}
