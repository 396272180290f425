/* How small new pages become: they are stored in a store in memory, by the library and with its settings, so that the
 * choice of codings is the real one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/analyze_private.h"
#include "files/error.h"
#include "files/found.h"
#include "files/walk.h"

#define UNIT 64u                  /* pages that are taken together: a quarter of a block */
#define ALL (UINT64_C(8) << 20)   /* bytes up to which all is encoded */
#define LEAST (UINT64_C(2) << 20) /* of more, so much at the least, */
#define MOST (UINT64_C(32) << 20) /* and at the most, */
#define BLOCK (UINT64_C(1) << 20) /* of the library */
#define NAME_MOST 200u
#define NAME_BYTES 16u /* of a chunk, in a pack */
#define SHARE 128      /* otherwise one byte in so many */
#define SETTINGS "keep=all,codec=size,capture=sync,dedup=local,staging=16M,aggregate=off,copies=1"

void samples_begin(struct samples *samples, uint64_t bytes) {
    uint64_t budget = bytes / SHARE;

    *samples = (struct samples){.most = budget < LEAST ? LEAST : budget > MOST ? MOST : budget};
    samples->all = samples->most > ALL ? samples->most : ALL;
}

/* One unit in 2^levels, spread evenly: of two neighbours one stays at each level, now this, now that, as data may have
 * a period. The first always stays, as there may be no other. */
static int is_taken(uint64_t unit, unsigned levels) {
    for (unsigned i = 0; i < levels; i++, unit >>= 1)
        if ((unit & 1) != ((unit >> 1) * UINT64_C(0x9E3779B97F4A7C15) >> 63))
            return 0;
    return 1;
}

/* Every second unit goes. */
static void thin_out(struct samples *samples) {
    samples->levels++;
    samples->bytes = 0;
    for (size_t i = 0; i < samples->count; i++) {
        struct sample *sample = &samples->list[i];
        size_t kept = 0, size = 0;
        for (size_t j = 0; j < sample->pages; j++) {
            size_t at = j * ANALYZE_PAGE, part = sample->size - at < ANALYZE_PAGE ? sample->size - at : ANALYZE_PAGE;
            if (!is_taken(sample->numbers[j] / UNIT, samples->levels))
                continue;
            memmove(sample->data + size, sample->data + at, part);
            sample->numbers[kept++] = sample->numbers[j];
            size += part;
        }
        sample->pages = kept;
        sample->size = size;
        samples->bytes += size;
    }
}

static struct sample *sample_of(struct samples *samples, const struct new_page *page) {
    struct sample *last = samples->count ? &samples->list[samples->count - 1] : NULL;
    const struct analyze_region *region = page->region;
    char name[NAME_MOST];

    if (last && last->region == page->region_number)
        return last;
    if (files_grow((void **)&samples->list, &samples->capacity, samples->count, sizeof *samples->list) < 0)
        return NULL;
    snprintf(name, sizeof name, "%zu %s", page->region_number, region->name);
    last = &samples->list[samples->count];
    *last = (struct sample){.name = strdup(name),
                            .region = page->region_number,
                            .kind = page->kind,
                            .type = region->type,
                            .row = region->row,
                            .length = region->length};
    if (!last->name)
        return NULL;
    samples->count++;
    return last;
}

static int make_room(struct sample *sample) {
    if (sample->pages < sample->capacity)
        return 0;
    size_t capacity = sample->capacity ? sample->capacity * 2 : UNIT / 4;
    uint8_t *data = realloc(sample->data, capacity * ANALYZE_PAGE);
    sample->data = data ? data : sample->data;
    uint64_t *numbers = data ? realloc(sample->numbers, capacity * sizeof *numbers) : NULL;
    sample->numbers = numbers ? numbers : sample->numbers;
    if (!numbers)
        return -ENOMEM;
    sample->capacity = capacity;
    return 0;
}

int samples_add(struct samples *samples, const struct new_page *page) {
    if (!is_taken(page->number / UNIT, samples->levels))
        return 0;
    struct sample *sample = sample_of(samples, page);
    if (!sample || make_room(sample) < 0)
        return -ENOMEM;
    memcpy(sample->data + sample->size, page->data, page->size);
    sample->size += page->size;
    sample->numbers[sample->pages++] = page->number;
    samples->bytes += page->size;
    while (samples->bytes > (samples->levels ? samples->most : samples->all) && samples->levels < 63)
        thin_out(samples);
    return 0;
}

void samples_clear(struct samples *samples) {
    for (size_t i = 0; i < samples->count; i++) {
        free(samples->list[i].name);
        free(samples->list[i].data);
        free(samples->list[i].numbers);
    }
    free(samples->list);
    samples->list = NULL;
    samples->count = samples->capacity = 0;
}

/* ---- encoding ---- */

static int on_length(void *arg, uint64_t *bytes_out) {
    const struct slice *slice = arg;
    *bytes_out = slice->before + slice->size;
    return 0;
}

static int on_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    const struct slice *slice = arg;
    size_t left = offset < slice->before ? slice->before - (size_t)offset : 0, zeros = left < size ? left : size;

    memset(buffer, 0, zeros);
    if (zeros < size)
        memcpy((uint8_t *)buffer + zeros, slice->data + (offset + zeros - slice->before), size - zeros);
    return 0;
}

static int on_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size, (void)total;
    return -ENOTSUP; /* nothing is restored here */
}

/* The library gives large regions blocks of their own, and puts small ones together, which makes them smaller. So what
 * is of a large region stays large: zeros in front, which are not stored. */
static size_t zeros_before(const struct sample *sample, size_t size) {
    if (sample->length < BLOCK || size >= BLOCK)
        return 0;
    return (BLOCK - size + ANALYZE_PAGE - 1) / ANALYZE_PAGE * ANALYZE_PAGE;
}

/* Rows as long as those of the whole; what is no whole row at the end is left out. */
static int protect_slice(struct varve_session *session, const struct sample *sample, struct slice *slice) {
    const struct varve_callbacks callbacks = {sizeof callbacks, on_length, on_save, on_load, VARVE_LARGE};
    struct varve_array array = {.size = sizeof array, .type = sample->type, .dims = 1};
    size_t element = files_element_size(sample->type), row = (size_t)sample->row * element;
    char name[NAME_MOST + 24];

    size_t all = slice->before + slice->size;
    if (row > element && slice->size >= row) {
        array.dims = 2;
        array.dim[0].local = all / row;
        array.dim[1].local = sample->row;
        slice->size -= all % row;
    } else {
        array.dim[0].local = all / element;
        slice->size -= all % element;
    }
    snprintf(name, sizeof name, "%zu %s", (size_t)(slice - sample->slices), sample->name);
    int rc = varve_protect_callback(session, name, &callbacks, slice);
    if (rc == 0 && sample->type != VARVE_BYTES)
        rc = varve_describe(session, name, &array);
    return rc;
}

/* The library sees when the data of a region becomes other data, after some blocks. In a sample it would see that too
 * late, so parts of it, which are from different parts of the region, are regions of their own. */
static int protect(struct varve_session *session, struct sample *sample, int is_all) {
    size_t count = is_all ? 1 : sample->size / BLOCK;
    int rc = 0;

    count = count < 1 ? 1 : count > ANALYZE_SLICES ? ANALYZE_SLICES : count;
    size_t each = sample->pages / count * ANALYZE_PAGE;
    for (size_t i = 0; i < count && rc == 0; i++) {
        size_t size = i + 1 < count ? each : sample->size - i * each;
        sample->slices[i] = (struct slice){sample->data + i * each, size, zeros_before(sample, size)};
        rc = protect_slice(session, sample, &sample->slices[i]);
    }
    return rc;
}

struct outcome {
    uint64_t stored, metadata, chunks, fresh;
};

static void on_stat(void *arg, const struct varve_stat *stat) {
    struct outcome *outcome = arg;

    if (strcmp(stat->name, "bytes_stored") == 0)
        outcome->stored = (uint64_t)stat->value;
    if (strcmp(stat->name, "bytes_metadata") == 0)
        outcome->metadata = (uint64_t)stat->value;
    if (strcmp(stat->name, "chunks_new") == 0)
        outcome->chunks = (uint64_t)stat->value;
    if (strcmp(stat->name, "bytes_new") == 0)
        outcome->fresh = (uint64_t)stat->value;
}

static void be_quiet(void *arg, int level, const char *text) {
    (void)arg, (void)level, (void)text;
}

static int store_kind(struct samples *samples, size_t kind, struct outcome *outcome, struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;

    options.settings = SETTINGS;
    options.log = be_quiet;
    int rc = varve_open("mem://", "sample", &options, &session, error);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < samples->count && rc == 0; i++)
        if (samples->list[i].kind == kind && samples->list[i].size)
            rc = protect(session, &samples->list[i], samples->levels == 0);
    rc = rc ? rc : varve_checkpoint(session, 0);
    rc = rc ? rc : varve_wait(session);
    if (rc < 0)
        *error = *varve_session_error(session);
    else
        varve_stats_each(session, on_stat, outcome);
    varve_close(session);
    return rc;
}

static uint64_t scale(uint64_t part, uint64_t of, uint64_t whole) {
    return of ? (uint64_t)((double)part / (double)of * (double)whole + 0.5) : 0;
}

int samples_encode(struct samples *samples, struct analyze_look *look, struct varve_error *error) {
    struct outcome sum = {0};
    int rc = 0;

    for (size_t kind = 0; kind < look->kind_count && rc == 0; kind++) {
        struct analyze_kind *of = &look->kinds[kind];
        struct outcome outcome = {0};
        if (of->counts.fresh == 0)
            continue;
        rc = store_kind(samples, kind, &outcome, error);
        of->counts.sampled = outcome.fresh;
        of->counts.stored = scale(outcome.stored, outcome.fresh, of->counts.fresh);
        look->all.stored += of->counts.stored;
        look->all.sampled += outcome.fresh;
        sum.metadata += outcome.metadata;
        sum.chunks += outcome.chunks;
    }
    /* Names of chunks grow with the data; what else is written is there once, however small the sample is. */
    uint64_t names = sum.chunks * NAME_BYTES < sum.metadata ? sum.chunks * NAME_BYTES : sum.metadata;
    look->all.metadata = sum.metadata - names + scale(names, look->all.sampled, look->all.fresh);
    return rc;
}
