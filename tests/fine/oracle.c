#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

#define GRANULE 4096u
#define SOURCES 4096u
#define VERSIONS 64u

/* Where a byte is stored: source and address, plus 1; 0: it is zero. */
typedef uint64_t byte_at;

struct field {
    int is_there;
    size_t size;
    uint8_t *data;    /* as committed */
    byte_at *origin;  /* per byte */
    uint64_t address; /* in the layout */
    uint64_t slot;    /* bytes reserved there */
    uint32_t chunk;   /* what it was looked at in; 1: not finely */
    uint8_t *marks;   /* per byte, at the first one of a chunk: it is known what the chunk was */
};

struct oracle {
    enum oracle_method method;
    struct known *chunks, *granules; /* contents -> places */
    uint8_t is_alive[SOURCES];
    uint32_t source; /* of the checkpoint under way */
    uint64_t layout_end, pending_end;
    struct field now[ORACLE_REGIONS], next[ORACLE_REGIONS];
    struct field kept[VERSIONS][ORACLE_REGIONS];
    uint64_t kept_end[VERSIONS];
    struct oracle_sums sums;
};

static void *must(void *memory) {
    if (!memory)
        abort();
    return memory;
}

struct oracle *oracle_create(enum oracle_method method) {
    struct oracle *oracle = must(calloc(1, sizeof *oracle));
    oracle->method = method;
    oracle->chunks = known_create();
    oracle->granules = known_create();
    return oracle;
}

static void field_clear(struct field *field) {
    free(field->data);
    free(field->origin);
    free(field->marks);
    *field = (struct field){0};
}

static struct field field_copy(const struct field *field) {
    struct field copy = *field;
    if (!field->is_there)
        return copy;
    copy.data = must(malloc(field->size + 1));
    copy.origin = must(malloc((field->size + 1) * sizeof *copy.origin));
    copy.marks = must(calloc(field->size + 1, 1));
    memcpy(copy.data, field->data, field->size);
    memcpy(copy.origin, field->origin, field->size * sizeof *copy.origin);
    return copy;
}

void oracle_destroy(struct oracle *oracle) {
    for (unsigned i = 0; i < ORACLE_REGIONS; i++) {
        field_clear(&oracle->now[i]);
        field_clear(&oracle->next[i]);
        for (unsigned v = 0; v < VERSIONS; v++)
            field_clear(&oracle->kept[v][i]);
    }
    known_destroy(oracle->chunks);
    known_destroy(oracle->granules);
    free(oracle);
}

void oracle_begin(struct oracle *oracle) {
    if (++oracle->source == SOURCES)
        abort();
    oracle->is_alive[oracle->source] = 1;
    oracle->pending_end = oracle->layout_end;
    memset(&oracle->sums, 0, sizeof oracle->sums);
}

/* ---- a region ---- */

static int is_zero(const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (data[i])
            return 0;
    return 1;
}

static byte_at byte_of(uint32_t source, uint64_t address) {
    return ((uint64_t)source << 40 | address) + 1;
}

static int is_usable(const struct oracle *oracle, const uint64_t *place) {
    return place && oracle->is_alive[(*place - 1) >> 40];
}

static int are_all_at(const struct field *field, size_t at, size_t size, byte_at place) {
    if (!field->is_there || at + size > field->size)
        return 0;
    for (size_t i = 0; i < size; i++)
        if (field->origin[at + i] != (place ? place + i : 0))
            return 0;
    return 1;
}

static void set_origin(struct field *field, size_t at, size_t size, byte_at place) {
    for (size_t i = 0; i < size; i++)
        field->origin[at + i] = place ? place + i : 0;
}

/* Returns the bytes that are new. */
static size_t take_chunk(struct oracle *oracle, const struct field *past, struct field *field, size_t at, size_t size) {
    const uint8_t *data = field->data + at;
    struct oracle_sums *sums = &oracle->sums;
    int is_marked = field->marks[at];
    field->marks[at] = !is_zero(data, size);
    if (is_zero(data, size)) {
        *(are_all_at(past, at, size, 0) ? &sums->fixed : &sums->zero) += 1;
        set_origin(field, at, size, 0);
        return 0;
    }
    if (is_marked && memcmp(past->data + at, data, size) == 0) {
        sums->fixed++;
        memcpy(field->origin + at, past->origin + at, size * sizeof *field->origin);
        return 0;
    }
    uint64_t *known = oracle->method == ORACLE_BASIC ? NULL : known_find(oracle->chunks, data, size);
    if (is_usable(oracle, known)) {
        sums->shifted++;
        set_origin(field, at, size, *known);
        return 0;
    }
    byte_at place = byte_of(oracle->source, field->address + at);
    known_put(oracle->chunks, data, size, place);
    set_origin(field, at, size, place);
    sums->first++;
    sums->bytes_new += size;
    return size;
}

/* Is it bound by the same ends, and are all bytes as they were? */
static int is_same(const struct field *past, const struct field *field, size_t at, size_t size) {
    if (!past->is_there || at + size > past->size || (size < GRANULE && past->size != field->size))
        return 0;
    return memcmp(past->data + at, field->data + at, size) == 0;
}

/* Known as a whole. The others look at 4 KiB only where they do not look at chunks. */
static uint64_t *find_granule(const struct oracle *oracle, const struct field *field, const uint8_t *data,
                              size_t size) {
    if (oracle->method == ORACLE_FULL || (oracle->method == ORACLE_BASIC && field->chunk > 1))
        return NULL;
    uint64_t *known = known_find(oracle->granules, data, size);
    return is_usable(oracle, known) ? known : NULL;
}

static size_t take_chunks(struct oracle *oracle, const struct field *past, struct field *field, size_t at,
                          size_t size) {
    size_t fresh = 0;
    for (size_t in = 0; in < size; in += field->chunk)
        fresh += take_chunk(oracle, past, field, at + in, size - in < field->chunk ? size - in : field->chunk);
    return fresh;
}

/* Wherever the whole is, it is known what its chunks are. */
static void keep_marks(struct field *field, size_t at, size_t size) {
    memset(field->marks + at, 0, size);
    for (size_t in = 0; in < size && field->chunk > 1; in += field->chunk)
        field->marks[at + in] = !is_zero(field->data + at + in, size - in < field->chunk ? size - in : field->chunk);
}

static void take_granule(struct oracle *oracle, const struct field *past, struct field *field, size_t at) {
    size_t size = field->size - at < GRANULE ? field->size - at : GRANULE, fresh = size;
    const uint8_t *data = field->data + at;
    if (oracle->method != ORACLE_FULL && is_same(past, field, at, size)) {
        memcpy(field->origin + at, past->origin + at, size * sizeof *field->origin);
        return;
    }
    const uint64_t *known = find_granule(oracle, field, data, size);
    if (is_zero(data, size) || known) {
        set_origin(field, at, size, known && !is_zero(data, size) ? *known : 0);
        keep_marks(field, at, size);
        return;
    }
    byte_at place = byte_of(oracle->source, field->address + at);
    if (field->chunk > 1)
        fresh = take_chunks(oracle, past, field, at, size);
    else {
        set_origin(field, at, size, place);
        oracle->sums.bytes_new += size;
    }
    if (fresh == size)
        known_put(oracle->granules, data, size, place);
}

static uint64_t round_up(uint64_t size) {
    return (size + GRANULE - 1) / GRANULE * GRANULE;
}

/* What was where is known as far as both have the same chunks. */
static void take_marks(const struct field *past, struct field *field) {
    if (!past->is_there || past->chunk != field->chunk || field->chunk < 2)
        return;
    size_t common = past->size < field->size ? past->size : field->size;
    memcpy(field->marks, past->marks, past->size == field->size ? common : common / GRANULE * GRANULE);
}

void oracle_place(struct oracle *oracle, unsigned region, size_t size, uint32_t chunk) {
    const struct field *past = &oracle->now[region];
    struct field *field = &oracle->next[region];
    *field = (struct field){.is_there = 1,
                            .size = size,
                            .data = must(malloc(size + 1)),
                            .origin = must(malloc((size + 1) * sizeof *field->origin)),
                            .address = past->address,
                            .slot = past->slot,
                            .chunk = oracle->method == ORACLE_FULL ? 1 : chunk,
                            .marks = must(calloc(size + 1, 1))};
    take_marks(past, field);
    if (!past->is_there || past->slot < round_up(size)) {
        field->address = oracle->pending_end;
        field->slot = round_up(size);
        oracle->pending_end += field->slot;
    }
}

void oracle_region(struct oracle *oracle, unsigned region, const uint8_t *data) {
    struct field *field = &oracle->next[region];
    memcpy(field->data, data, field->size);
    for (size_t at = 0; at < field->size; at += GRANULE)
        take_granule(oracle, &oracle->now[region], field, at);
}

/* What nobody refers to any more is gone. */
static void let_die(struct oracle *oracle) {
    uint8_t *is_alive = must(calloc(SOURCES, 1));
    for (unsigned i = 0; i < ORACLE_REGIONS; i++)
        for (size_t at = 0; at < oracle->now[i].size; at++)
            if (oracle->now[i].origin[at])
                is_alive[(oracle->now[i].origin[at] - 1) >> 40] = 1;
    for (uint32_t i = 0; i < SOURCES; i++)
        oracle->is_alive[i] &= is_alive[i];
    free(is_alive);
}

struct oracle_sums oracle_end(struct oracle *oracle, int is_committed) {
    for (unsigned i = 0; i < ORACLE_REGIONS; i++) {
        struct field *gone = is_committed ? &oracle->now[i] : &oracle->next[i];
        field_clear(gone);
        if (is_committed)
            oracle->now[i] = oracle->next[i];
        else
            oracle->now[i].chunk = 0; /* nobody knows any more what was where */
        memset(&oracle->next[i], 0, sizeof oracle->next[i]);
    }
    if (is_committed) {
        oracle->layout_end = oracle->pending_end;
        let_die(oracle);
    } else
        oracle->is_alive[oracle->source] = 0;
    return oracle->sums;
}

/* ---- going back ---- */

void oracle_keep(struct oracle *oracle, unsigned version) {
    for (unsigned i = 0; i < ORACLE_REGIONS; i++) {
        field_clear(&oracle->kept[version][i]);
        oracle->kept[version][i] = field_copy(&oracle->now[i]);
    }
    oracle->kept_end[version] = oracle->layout_end;
}

static int is_in_one_piece(const struct field *field, size_t at, size_t size) {
    return field->origin[at] && are_all_at(field, at, size, field->origin[at]);
}

static void know_again(struct known *known, const struct field *field, uint32_t unit) {
    for (size_t at = 0; at < field->size; at += unit) {
        size_t size = field->size - at < unit ? field->size - at : unit;
        if (is_in_one_piece(field, at, size) && !is_zero(field->data + at, size))
            known_put(known, field->data + at, size, field->origin[at]);
    }
}

static void bring_back(struct oracle *oracle, struct field *field, uint32_t chunk) {
    field->slot = round_up(field->size);
    field->chunk = oracle->method == ORACLE_FULL ? 1 : chunk;
    know_again(oracle->granules, field, GRANULE);
    if (field->chunk < 2)
        return;
    know_again(oracle->chunks, field, chunk);
    for (size_t at = 0; at < field->size; at += chunk)
        field->marks[at] = !is_zero(field->data + at, field->size - at < chunk ? field->size - at : chunk);
}

void oracle_restart(struct oracle *oracle, unsigned version, uint32_t chunk) {
    known_destroy(oracle->chunks);
    known_destroy(oracle->granules);
    oracle->chunks = known_create();
    oracle->granules = known_create();
    memset(oracle->is_alive, 1, sizeof oracle->is_alive);
    for (unsigned i = 0; i < ORACLE_REGIONS; i++) {
        field_clear(&oracle->now[i]);
        oracle->now[i] = field_copy(&oracle->kept[version][i]);
        if (oracle->now[i].is_there)
            bring_back(oracle, &oracle->now[i], chunk);
    }
    oracle->layout_end = oracle->kept_end[version];
    let_die(oracle);
}
