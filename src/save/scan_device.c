/* Regions in the memory of a device, which finds by itself what changed (varve_device.h). To everything but a save it
 * is a region behind callbacks.
 *
 * What a device remembers must be the checkpoint that our history is of: it is *in step* then. Whenever that is not
 * sure it is asked for everything. A checkpoint may end in the background, so the device is told how it ended when the
 * program calls us next. */
#include <errno.h>
#include <string.h>

#include "capture/device.h"
#include "save/save_private.h"

#define PART (64u << 20) /* bytes that are compared at once: so much may lie in the device's answer */

/* ---- a save ---- */

static const char *why(const struct vv_device *device, int code) {
    const char *text = device->ops.why ? device->ops.why(device->arg) : NULL;
    return text && text[0] ? text : varve_error_text(code);
}

/* Granules that differ have runs, and runs lie in granules that differ: else ids and origins would part ways. */
static int do_granules_agree(const struct varve_ask *ask, const struct varve_answer *answer) {
    uint64_t least = ask->offset / VV_GRANULE, end = vv_granules(ask->offset + ask->length);
    size_t next = 0; /* the first run that ends behind the granule's start */
    uint64_t covered = 0, bytes = 0;
    for (size_t i = 0; i < answer->granule_count; i++) {
        uint64_t index = answer->granules[i].index, from = index * VV_GRANULE, to = from + VV_GRANULE, inside = 0;
        if (index < least || index >= end)
            return 0;
        least = index + 1;
        while (next < answer->run_count && answer->runs[next].offset + answer->runs[next].length <= from)
            next++;
        for (size_t j = next; j < answer->run_count && answer->runs[j].offset < to; j++) {
            uint64_t first = answer->runs[j].offset > from ? answer->runs[j].offset : from;
            uint64_t last = answer->runs[j].offset + answer->runs[j].length;
            inside += (last < to ? last : to) - first;
        }
        if (inside == 0)
            return 0;
        covered += inside;
    }
    for (size_t i = 0; i < answer->run_count; i++)
        bytes += answer->runs[i].length;
    return covered == bytes && (!ask->is_whole || bytes == ask->length);
}

/* Runs ascend inside the part, refer to what may be referred to, and have as many bytes as they say. If nothing of what
 * was counts, they tile it. */
static int is_sound(const struct varve_ask *ask, const struct varve_answer *answer) {
    uint64_t at = ask->offset, end = ask->offset + ask->length, bytes = 0;
    for (size_t i = 0; i < answer->run_count; i++) {
        const struct varve_run *run = &answer->runs[i];
        if (run->length == 0 || run->offset < at || run->offset > end || run->length > end - run->offset ||
            run->label < VARVE_ZERO || run->label > VARVE_SHIFTED)
            return 0;
        if (run->label == VARVE_SHIFTED &&
            (run->place.source >= ask->source_count || !ask->is_usable[run->place.source]))
            return 0;
        if (run->label == VARVE_FIRST &&
            (run->place.source != ask->source || run->place.address != ask->address + run->offset))
            return 0;
        bytes += run->label == VARVE_FIRST ? run->length : 0;
        at = run->offset + run->length;
    }
    return bytes == answer->data_bytes && do_granules_agree(ask, answer);
}

/* The new data of one run, granule by granule; those that are new as a whole keep their ids. */
static int store_run(struct vv_scan *scan, const struct varve_answer *answer, const struct varve_run *run,
                     const uint8_t *data, size_t *granule) {
    uint64_t at = run->offset, end = run->offset + run->length;
    int rc = 0;
    while (at < end && rc == 0) {
        uint64_t index = at / VV_GRANULE, next = (index + 1) * VV_GRANULE;
        uint32_t size = (uint32_t)((next < end ? next : end) - at);
        struct vv_hash128 id = {0, 0};
        while (*granule < answer->granule_count && answer->granules[*granule].index < index)
            (*granule)++;
        int is_whole = at % VV_GRANULE == 0 && (size == VV_GRANULE || at + size == scan->size);
        if (is_whole && *granule < answer->granule_count && answer->granules[*granule].index == index)
            id = (struct vv_hash128){answer->granules[*granule].id[0], answer->granules[*granule].id[1]};
        rc = vv_save_store(scan->save, run->place.address + (at - run->offset), data + (at - run->offset), size, id);
        at += size;
    }
    return rc;
}

static int take_runs(struct vv_scan *scan, const struct varve_answer *answer) {
    struct vv_stats_sums *sums = &scan->save->sums;
    const uint8_t *data = answer->data;
    size_t granule = 0;
    int rc = 0;
    for (size_t i = 0; i < answer->run_count && rc == 0; i++) {
        const struct varve_run *run = &answer->runs[i];
        struct vv_origin origin = {.offset = run->offset,
                                   .length = run->length,
                                   .kind = run->label == VARVE_ZERO ? VV_ORIGIN_ZERO : VV_ORIGIN_FROM,
                                   .source = run->place.source,
                                   .owner = scan->save->job->comm->rank,
                                   .address = run->place.address};
        rc = vv_origins_add(&scan->past->changed, &origin);
        sums->changed += run->length;
        *(run->label == VARVE_ZERO    ? &sums->zero
          : run->label == VARVE_FIRST ? &sums->fresh
                                      : &sums->known) += run->length;
        if (rc == 0 && run->label == VARVE_FIRST) {
            rc = store_run(scan, answer, run, data, &granule);
            data += run->length;
        }
    }
    return rc;
}

/* What is not reported is as it was; or zero, if nothing of what was counts. */
static int take_ids(struct vv_scan *scan, const struct varve_ask *ask, const struct varve_answer *answer) {
    uint64_t next = ask->offset / VV_GRANULE, end = vv_granules(ask->offset + ask->length);
    struct vv_hash128 zero = {0, 0};
    int rc = 0;
    for (size_t i = 0; i < answer->granule_count && rc == 0; i++) {
        const struct varve_granule *granule = &answer->granules[i];
        for (; ask->is_whole && next < granule->index && rc == 0; next++)
            rc = vv_scan_new_id(scan, next, zero);
        if (rc == 0)
            rc = vv_scan_new_id(scan, granule->index, (struct vv_hash128){granule->id[0], granule->id[1]});
        next = granule->index + 1;
    }
    for (; ask->is_whole && next < end && rc == 0; next++)
        rc = vv_scan_new_id(scan, next, zero);
    return rc;
}

static int take_answer(struct vv_scan *scan, const struct varve_ask *ask, const struct varve_answer *answer) {
    struct vv_save *save = scan->save;
    int rc = take_ids(scan, ask, answer);
    save->sums.looked += ask->length;
    save->fine.counts.fixed += answer->chunks_fixed;
    save->fine.counts.zero += answer->chunks_zero;
    save->fine.counts.first += answer->chunks_first;
    save->fine.counts.shifted += answer->chunks_shifted;
    save->sums.chunks_new += answer->chunks_first;
    return rc ? rc : take_runs(scan, answer);
}

int vv_scan_device(struct vv_scan *scan, const struct vv_region *region, uint64_t *at, struct varve_error *error) {
    struct vv_save *save = scan->save;
    struct vv_device *device = region->device;
    if (*at == 0)
        device->is_in_step &= !scan->past->is_new && !scan->is_full;
    struct varve_ask ask = {.size = sizeof ask,
                            .offset = *at,
                            .length = scan->size - *at < PART ? scan->size - *at : PART,
                            .total = scan->size,
                            .seed = save->job->store->settings.seed,
                            .address = scan->past->pending_address,
                            .source = save->plan.source,
                            .chunk = vv_device_chunk(region, (uint32_t)save->job->settings.fine),
                            .most = vv_fine_capacity(save->job, scan->size),
                            .is_usable = save->fine.is_usable,
                            .source_count = save->job->lineage.history.source_count,
                            .is_whole = !device->is_in_step};
    struct varve_answer answer = {0};
    uint64_t begin = vv_clock_ns();
    device->is_asked = save->plan.has_devices = 1;
    int rc = device->ops.compare(device->arg, &ask, &answer);
    save->fine.ns += vv_clock_ns() - begin;
    if (rc)
        return vv_error(error, rc < 0 ? rc : -EIO, "region %s: its device (%s) could not compare it: %s", device->name,
                        device->ops.name, why(device, rc < 0 ? rc : -EIO));
    if (!is_sound(&ask, &answer))
        return vv_error(error, -EPROTO, "region %s: its device (%s) gave an answer that makes no sense", device->name,
                        device->ops.name);
    *at += ask.length;
    vv_save_region(save, scan->past);
    return take_answer(scan, &ask, &answer);
}

/* ---- after a restart ---- */

/* An origin as runs. What another rank has stored was never seen; nor, to be told in few words, what repeats a piece:
 * it is seen through the first. */
static int add_runs(struct vv_buf *runs, const struct vv_origin *origin, uint32_t rank) {
    int is_repeated = origin->kind == VV_ORIGIN_REPEATED;
    uint64_t most = UINT32_C(1) << 30;
    for (uint64_t at = 0, length; at < origin->length; at += length) {
        int is_seen = origin->owner == rank && !(is_repeated && at > 0);
        struct varve_run run = {
            .offset = origin->offset + at,
            .label = origin->kind == VV_ORIGIN_ZERO ? VARVE_ZERO
                     : is_seen                      ? VARVE_SHIFTED
                                                    : VARVE_FIRST,
            .place = {.source = origin->source, .address = origin->address + (is_repeated ? 0 : at)}};
        length = origin->length - at < most ? origin->length - at : most;
        if (is_repeated && at == 0 && length > origin->piece)
            length = origin->piece;
        run.length = (uint32_t)length;
        vv_buf_append(runs, &run, sizeof run);
    }
    return runs->failed;
}

void vv_device_restored(struct vv_job *job, const struct vv_region *region, const struct vv_past *past) {
    struct vv_device *device = region->device;
    const struct vv_origins *origins = &past->origins;
    struct vv_buf runs;
    vv_buf_init(&runs);
    int rc = 0;
    device->is_in_step = device->is_asked = 0;
    for (size_t i = 0; i < origins->count && rc == 0; i++)
        rc = add_runs(&runs, &origins->list[i], job->comm->rank);
    struct varve_ask ask = {.size = sizeof ask,
                            .length = past->length,
                            .total = past->length,
                            .seed = job->store->settings.seed,
                            .chunk = vv_device_chunk(region, (uint32_t)job->settings.fine),
                            .most = vv_fine_capacity(job, past->length),
                            .is_usable = job->lineage.history.is_alive,
                            .source_count = job->lineage.history.source_count};
    if (rc == 0 && past->length == device->bytes && (origins->count > 0 || past->length == 0))
        device->is_in_step =
            device->ops.restored(device->arg, &ask, (const void *)runs.data, runs.size / sizeof(struct varve_run)) == 0;
    vv_buf_clear(&runs);
}
