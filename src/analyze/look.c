/* One look: reads every byte once, names pages and fine chunks, and counts what is known already. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "analyze/analyze_private.h"
#include "files/cut.h"

#define STRIDE (1u << 20)
#define PAGES_MOST (UINT64_C(3) << 20) /* names: 48 MiB, in a table of 64 MiB */
#define FINE_MOST (UINT64_C(3) << 15)  /* names of fine chunks: a table of 2 MiB, which a processor keeps near */
#define FINES (ANALYZE_PAGE / ANALYZE_FINE)
#define CUT_BYTES 4096u /* on average: as the setting chunk_size has it */
/* What is kept of a page: the look and file in which it was last seen, and which page of the look it was. */
#define FILE_AT 32
#define FILE_MASK UINT64_C(0x3FFFFF)
#define LOOK_AT 54
#define RUN_BYTES 3.0 /* of a manifest, to say where a run of known pages is: measured */
#define ZERO_NAME 1u  /* content of a page of zeros */

/* What a look adds up for its kinds: names may be a sample, so these are no whole numbers. */
struct sums {
    double within, across, earlier, fresh;
    double fine, fine_known; /* of those fine chunks that count, and are not zero */
    uint64_t fresh_pages;
};

struct looking {
    struct analyze *analyze;
    struct analyze_look *look;
    const struct analyze_source *source;
    uint8_t *buffer, *data; /* data lies behind room for a window */
    struct samples samples;
    struct sums sums[ANALYZE_KINDS];
    double runs; /* of known pages that follow each other where they were seen, too */
    double compared, changed, fine_compared, fine_changed, cut_known;
    /* the region that is read */
    struct analyze_region region;
    size_t number, kind;
    uint64_t place; /* its name */
    uint64_t known; /* bytes of it that are zero or known */
    uint32_t next;  /* the page that would go on with what the last known page was equal to */
    uint32_t pages; /* of this look so far */
    struct files_cut cut;
    XXH3_state_t *cut_state;
    uint64_t cut_length;
};

static double now(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int is_zero(const uint8_t *data, size_t size) {
    return data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

static uint64_t name_of_place(uint64_t region, uint64_t place) {
    uint64_t both[2] = {region, place};
    return XXH3_64bits(both, sizeof both);
}

/* ---- fine chunks of pages ---- */

/* Of a page that is new: which fine chunks are zero, or known? */
static int look_finely(struct looking *looking, const uint8_t *page, size_t size) {
    struct names *names = &looking->analyze->fine;
    struct sums *sums = &looking->sums[looking->kind];
    uint64_t old;
    int rc = 0;

    for (size_t at = 0; at < size && rc >= 0; at += ANALYZE_FINE) {
        size_t part = size - at < ANALYZE_FINE ? size - at : ANALYZE_FINE;
        if (is_zero(page + at, part)) {
            looking->look->kinds[looking->kind].counts.fine_zero += part;
            continue;
        }
        uint64_t name = XXH3_64bits(page + at, part);
        if (!names_counts(names, name))
            continue;
        double weight = names_weight(names) * (double)part;
        rc = names_put(names, name, looking->analyze->count, &old);
        sums->fine += weight;
        sums->fine_known += rc > 0 ? weight : 0;
    }
    return rc < 0 ? rc : 0;
}

/* Of a page that has changed, or may change later: which fine chunks are as they were? All chunks of a page count, or
 * none does. */
static int compare_finely(struct looking *looking, uint64_t place, const uint8_t *page, size_t size, int has_changed) {
    struct names *names = &looking->analyze->fine_places;
    uint64_t old;
    int rc = 0;

    if (!names_counts(names, place))
        return 0;
    for (size_t at = 0; at < size && rc >= 0; at += ANALYZE_FINE) {
        size_t part = size - at < ANALYZE_FINE ? size - at : ANALYZE_FINE;
        uint64_t name = XXH3_64bits(page + at, part);
        /* The top bits say whether it counts; the others have to differ. */
        rc = names_put(names, place ^ (at / ANALYZE_FINE + 1) * UINT64_C(0x9E3779B9), name, &old);
        looking->fine_compared += has_changed && rc > 0 ? (double)part : 0;
        looking->fine_changed += has_changed && rc > 0 && old != name ? (double)part : 0;
    }
    return rc < 0 ? rc : 0;
}

/* ---- pages ---- */

static int compare_page(struct looking *looking, uint64_t offset, uint64_t name, const uint8_t *page, size_t size) {
    struct names *names = &looking->analyze->places;
    const struct analyze_source *source = looking->source;
    uint64_t at = source->place ? source->place(source->arg, looking->number, offset) : offset, old;
    uint64_t place = name_of_place(looking->place, at);

    if (!names_counts(names, place))
        return 0;
    double weight = names_weight(names) * (double)size;
    int rc = names_put(names, place, name, &old);
    if (rc < 0)
        return rc;
    looking->compared += rc > 0 ? weight : 0;
    looking->changed += rc > 0 && old != name ? weight : 0;
    return compare_finely(looking, place, page, size, rc > 0 && old != name);
}

static int take_new(struct looking *looking, const uint8_t *page, size_t size) {
    const struct new_page taken = {.region = &looking->region,
                                   .region_number = looking->number,
                                   .kind = looking->kind,
                                   .number = looking->sums[looking->kind].fresh_pages++,
                                   .data = page,
                                   .size = size};
    int rc = samples_add(&looking->samples, &taken);
    return rc ? rc : look_finely(looking, page, size);
}

/* Not zero: has it been seen in this look or in the one before? Later checkpoints know no others. */
static int name_page(struct looking *looking, uint64_t name, const uint8_t *page, size_t size) {
    struct names *names = &looking->analyze->pages;
    struct sums *sums = &looking->sums[looking->kind];
    uint64_t look = looking->analyze->count, old = 0;
    uint64_t seen = look << LOOK_AT | (looking->region.file & FILE_MASK) << FILE_AT | looking->pages;

    if (!names_counts(names, name))
        return take_new(looking, page, size);
    double weight = names_weight(names) * (double)size;
    int rc = names_put(names, name, seen, &old);
    if (rc < 0)
        return rc;
    if (rc == 0 || old >> LOOK_AT < look - (look > 0)) {
        sums->fresh += weight;
        return take_new(looking, page, size);
    }
    looking->known += size;
    looking->runs += (uint32_t)old != looking->next ? names_weight(names) : 0;
    looking->next = (uint32_t)old + 1;
    if (old >> LOOK_AT < look)
        sums->earlier += weight;
    else if ((old ^ seen) >> FILE_AT == 0)
        sums->within += weight;
    else
        sums->across += weight;
    return 0;
}

static int look_at_page(struct looking *looking, uint64_t offset, const uint8_t *page, size_t size) {
    struct analyze_look *look = looking->look;
    uint64_t name = ZERO_NAME;
    int rc = 0;

    if (is_zero(page, size)) {
        look->kinds[looking->kind].counts.zero += size;
        looking->known += size;
    } else {
        name = XXH3_64bits(page, size);
        rc = name_page(looking, name, page, size);
    }
    looking->pages++;
    if (rc == 0 && looking->analyze->looks > 1 && looking->region.place)
        rc = compare_page(looking, offset, name, page, size);
    return rc;
}

/* ---- content-defined chunks ---- */

static int end_cut(struct looking *looking) {
    struct names *names = &looking->analyze->cuts;
    uint64_t name = XXH3_64bits_digest(looking->cut_state), old;
    double weight = names_weight(names) * (double)looking->cut_length;
    int rc = names_counts(names, name) ? names_put(names, name, looking->analyze->count, &old) : 0;

    looking->cut_known += rc > 0 ? weight : 0;
    XXH3_64bits_reset(looking->cut_state);
    looking->cut_length = 0;
    return rc < 0 ? rc : 0;
}

/* The next bytes of a plain file, with a window of those before in front of them. */
static int cut_bytes(struct looking *looking, const uint8_t *data, size_t size) {
    int rc = 0;

    for (size_t at = 0; at < size && rc == 0; at += FILES_CUT_BLOCK) {
        uint32_t ends[FILES_CUTS_MOST];
        size_t part = size - at < FILES_CUT_BLOCK ? size - at : FILES_CUT_BLOCK, from = 0;
        size_t count = files_cut_next(&looking->cut, data + at, part, ends);
        for (size_t i = 0; i <= count && rc == 0; i++) {
            size_t to = i < count ? ends[i] : part;
            XXH3_64bits_update(looking->cut_state, data + at + from, to - from);
            looking->cut_length += to - from;
            from = to;
            rc = i < count ? end_cut(looking) : 0;
        }
    }
    return rc;
}

/* ---- a region ---- */

static size_t find_kind(struct analyze_look *look, const char *name) {
    size_t i = 0;

    while (i < look->kind_count && strcmp(look->kinds[i].name, name) != 0)
        i++;
    if (i == ANALYZE_KINDS)
        return ANALYZE_KINDS - 1;
    if (i == look->kind_count) {
        look->kind_count++;
        snprintf(look->kinds[i].name, sizeof look->kinds[i].name, "%s", i + 1 < ANALYZE_KINDS ? name : "other");
    }
    return i;
}

static void begin_region(struct looking *looking, size_t number) {
    const struct analyze_source *source = looking->source;

    looking->number = number;
    looking->region = (struct analyze_region){.name = ""};
    source->region(source->arg, number, &looking->region);
    looking->kind = find_kind(looking->look, looking->region.kind);
    if (looking->region.place)
        looking->place = XXH3_64bits(looking->region.place, strlen(looking->region.place));
    looking->known = 0;
    looking->look->kinds[looking->kind].counts.bytes += looking->region.length;
    looking->look->regions++;
    files_cut_init(&looking->cut, CUT_BYTES);
    XXH3_64bits_reset(looking->cut_state);
    looking->cut_length = 0;
}

static int look_at_stride(struct looking *looking, uint64_t offset, size_t size) {
    int rc = 0;

    for (size_t at = 0; at < size && rc == 0; at += ANALYZE_PAGE)
        rc =
            look_at_page(looking, offset + at, looking->data + at, size - at < ANALYZE_PAGE ? size - at : ANALYZE_PAGE);
    if (rc == 0 && looking->region.is_plain) {
        rc = cut_bytes(looking, looking->data, size);
        memmove(looking->buffer, looking->data + size - FILES_WINDOW, FILES_WINDOW);
    }
    return rc;
}

static int look_at_region(struct looking *looking, size_t number, uint64_t *done, struct varve_error *error) {
    const struct analyze_source *source = looking->source;
    int rc = 0;

    begin_region(looking, number);
    for (uint64_t at = 0; at < looking->region.length && rc == 0; at += STRIDE) {
        uint64_t left = looking->region.length - at;
        size_t size = left < STRIDE ? (size_t)left : STRIDE;
        double begin = now();
        rc = source->read(source->arg, number, at, looking->data, size, error);
        looking->look->seconds_read += now() - begin;
        rc = rc ? rc : look_at_stride(looking, at, size);
        *done += size;
        rc = rc ? rc : source->step(source->arg, *done);
    }
    if (rc == 0 && looking->region.is_plain) {
        looking->look->plain += looking->region.length;
        looking->look->plain_known += looking->known;
        rc = looking->cut_length ? end_cut(looking) : 0;
    }
    return rc;
}

/* ---- the sums ---- */

static uint64_t whole(double value) {
    return value > 0 ? (uint64_t)(value + 0.5) : 0;
}

/* Samples are made to fit what was counted, so that the parts of a kind add up. */
static void settle_kind(struct analyze_counts *counts, const struct sums *sums) {
    double all = sums->within + sums->across + sums->earlier + sums->fresh;
    uint64_t rest = counts->bytes - counts->zero;
    double fit = all > 0 ? (double)rest / all : 0;

    counts->within = whole(sums->within * fit);
    counts->across = whole(sums->across * fit);
    counts->earlier = whole(sums->earlier * fit);
    uint64_t known = counts->within + counts->across + counts->earlier;
    counts->fresh = known < rest ? rest - known : 0;
    counts->earlier -= known > rest ? known - rest : 0;
    double fine = sums->fine > 0 ? sums->fine_known / sums->fine : 0;
    counts->fine_zero = counts->fine_zero < counts->fresh ? counts->fine_zero : counts->fresh;
    counts->fine_known = whole(fine * (double)(counts->fresh - counts->fine_zero));
}

static void add_counts(struct analyze_counts *all, const struct analyze_counts *counts) {
    all->bytes += counts->bytes;
    all->zero += counts->zero;
    all->within += counts->within;
    all->across += counts->across;
    all->earlier += counts->earlier;
    all->fresh += counts->fresh;
    all->fine_zero += counts->fine_zero;
    all->fine_known += counts->fine_known;
}

static void settle(struct looking *looking) {
    struct analyze_look *look = looking->look;
    const struct analyze *analyze = looking->analyze;

    for (size_t i = 0; i < look->kind_count; i++) {
        settle_kind(&look->kinds[i].counts, &looking->sums[i]);
        add_counts(&look->all, &look->kinds[i].counts);
    }
    look->compared = whole(looking->compared);
    look->changed = whole(looking->changed);
    look->compared = look->compared < look->all.bytes ? look->compared : look->all.bytes;
    look->changed = look->changed < look->compared ? look->changed : look->compared;
    double fine = looking->fine_compared > 0 ? looking->fine_changed / looking->fine_compared : 1;
    look->fine_changed = whole(fine * (double)look->changed);
    look->cut_known = whole(looking->cut_known);
    look->cut_known = look->cut_known < look->plain ? look->cut_known : look->plain;
    look->share_named = 1 / names_weight(&analyze->pages);
    look->share_fine = 1 / names_weight(&analyze->fine);
}

/* ---- all of it ---- */

int analyze_create(struct analyze **out, unsigned looks) {
    struct analyze *analyze = calloc(1, sizeof *analyze);

    *out = analyze;
    if (!analyze)
        return -ENOMEM;
    analyze->looks = looks;
    analyze->pages.most = analyze->places.most = analyze->cuts.most = PAGES_MOST;
    analyze->fine.most = analyze->fine_places.most = FINE_MOST;
    analyze->list = calloc(looks, sizeof *analyze->list);
    return analyze->list ? 0 : -ENOMEM;
}

void analyze_destroy(struct analyze *analyze) {
    if (!analyze)
        return;
    names_clear(&analyze->pages);
    names_clear(&analyze->places);
    names_clear(&analyze->fine);
    names_clear(&analyze->fine_places);
    names_clear(&analyze->cuts);
    free(analyze->list);
    free(analyze);
}

static int look_at_regions(struct looking *looking, struct varve_error *error) {
    uint64_t done = 0;
    double begin = now();
    int rc = 0;

    for (size_t i = 0; i < looking->source->count && rc == 0; i++)
        rc = look_at_region(looking, i, &done, error);
    looking->look->seconds = now() - begin;
    return rc;
}

int analyze_look(struct analyze *analyze, const char *label, const struct analyze_source *source,
                 struct varve_error *error) {
    struct analyze_look *look = &analyze->list[analyze->count];
    struct looking *looking = calloc(1, sizeof *looking);
    int rc = looking ? 0 : -ENOMEM;

    if (rc < 0)
        return rc;
    snprintf(look->label, sizeof look->label, "%s", label);
    looking->analyze = analyze;
    looking->look = look;
    looking->source = source;
    looking->cut_state = XXH3_createState();
    looking->buffer = calloc(1, FILES_WINDOW + STRIDE);
    looking->data = looking->buffer ? looking->buffer + FILES_WINDOW : NULL;
    samples_begin(&looking->samples, source->bytes);
    rc = looking->buffer && looking->cut_state ? look_at_regions(looking, error) : -ENOMEM;
    if (rc == 0) {
        settle(looking);
        rc = samples_encode(&looking->samples, look, error);
        look->all.metadata += whole(RUN_BYTES * looking->runs);
    }
    samples_clear(&looking->samples);
    XXH3_freeState(looking->cut_state);
    free(looking->buffer);
    free(looking);
    analyze->count += rc == 0;
    return rc;
}

const struct analyze_look *analyze_result(const struct analyze *analyze, unsigned number) {
    return &analyze->list[number];
}

unsigned analyze_count(const struct analyze *analyze) {
    return analyze->count;
}
