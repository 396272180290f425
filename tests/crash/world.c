#include "world.h"
#include "details.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096

static const char *const names[WORLD_REGIONS] = {"grow", "move", "sparse", "bulk", "zero", "calls", "visitor"};

const char *world_name(int region) {
    return names[region];
}

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

int64_t world_size(const struct world *world, int region, int64_t version) {
    int64_t step = world->is_fixed ? 4 : version;
    switch (region) {
    case WORLD_GROW:
        return 30000 + (step % 40) * 9100;
    case WORLD_MOVE:
        return 16 * PAGE;
    case WORLD_SPARSE:
        return 512 * 1024;
    case WORLD_BULK:
        return world->is_small ? 6 * PAGE : world->is_fixed ? 2600 * 1024 : 1300 * 1024;
    case WORLD_ZERO:
        return 8 * PAGE;
    case WORLD_CALLS:
        return 17000 + (step + 2) % 5 * 700;
    default:
        return world->is_fixed || step % 5 < 3 ? 5 * PAGE + 123 : -1;
    }
}

/* A third of the pages cannot be compressed, a third is numbers that vary slowly, the others repeat themselves. */
static void fill_page(uint64_t key, uint8_t *out, size_t size) {
    uint64_t kind = mix(key) % 3;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t value = mix(key * 1000003 + (kind == 0 ? i : i % 256));
        double number = 1000 + (double)(key % 100) + (double)i * 0.125 + (double)(value % 64) * 1e-9;
        if (kind == 1)
            memcpy(&value, &number, sizeof value);
        memcpy(out + i, &value, size - i < 8 ? size - i : 8);
    }
}

/* What decides the bytes of page `page`; 0 for zeros. */
static uint64_t page_key(const struct world *world, int region, uint64_t page, int64_t version) {
    uint64_t salt = world->common && (region == WORLD_MOVE || page % 2 == 0) ? world->common : world->salt;
    uint64_t v = (uint64_t)version, base = salt * 7919 + (uint64_t)region * 100000007;
    switch (region) {
    case WORLD_MOVE: /* the same pages in other places; one of them is there now and then, where something else was and
                        will be */
        return mix(page % 8 == 6 && v % 3 != 1 ? base + page : salt + (page + v + world->salt) % 23) | 1;
    case WORLD_SPARSE:
        return page % 32 == v % 5 ? mix(base + page * 64 + v) | 1 : 0;
    case WORLD_BULK:
        return mix(base + (page % 64 == v % 64 ? page * 4096 + v : page * 4096)) | 1;
    case WORLD_ZERO: /* and some of it is nearly as it was before it was zero */
        return v % 2 ? mix(base + page + (page % 4 ? v : 0)) | 1 : 0;
    case WORLD_CALLS: /* the same for four versions, in which it becomes shorter and longer */
        return mix(base + page * 4096 + (v + page + 2) / 4) | 1;
    default:
        return mix(base + page * 4096 + (v + page) / 3) | 1;
    }
}

/* All of it moves up by `by` bytes, and what comes out at the end goes in at the start. */
static void turn_page(uint8_t *page, size_t size, size_t by) {
    uint8_t end[PAGE];
    by %= size;
    memcpy(end, page + size - by, by);
    memmove(page + by, page, size - by);
    memcpy(page, end, by);
}

/* Where programs change a little of a page: a few bytes of it, pieces of it in other places, or zeros for a piece. What
 * fine chunks are for. */
static void change_pieces(uint64_t key, uint64_t page, int64_t version, uint8_t *out, size_t size) {
    uint64_t v = (uint64_t)version;
    switch (page % 4) {
    case 0:
        for (uint64_t i = 0; i < 3; i++)
            out[mix(key + v * 3 + i) % size] ^= 0x5a;
        break;
    case 1:
        turn_page(out, size, (size_t)(v % 7) * 192);
        break;
    case 2:
        if (size == PAGE)
            memset(out + v % 5 * 700, 0, 700);
        break;
    default: /* as it is */
        break;
    }
}

/* In "bulk", only a few pages, so that most parts hold what they held. */
static int is_changed_in_pieces(int region, uint64_t page, int64_t version) {
    switch (region) {
    case WORLD_BULK:
        return page % 64 < 2;
    case WORLD_MOVE:
        return page % 8 == 5 || (page % 8 == 6 && version % 3 != 1);
    case WORLD_ZERO:
        return page % 4 == 0;
    default:
        return 1;
    }
}

void world_fill(const struct world *world, int region, int64_t version, uint8_t *out) {
    size_t size = (size_t)world_size(world, region, version);
    for (size_t at = 0; at < size; at += PAGE) {
        size_t length = size - at < PAGE ? size - at : (size_t)PAGE;
        uint64_t page = at / PAGE, key = page_key(world, region, page, version);
        if (!key)
            memset(out + at, 0, length);
        else
            fill_page(key, out + at, length);
        if (key && is_changed_in_pieces(region, page, version))
            change_pieces(key, page, version, out + at, length);
    }
}

/* ---- the memory ---- */

static int give_length(void *arg, uint64_t *bytes_out) {
    *bytes_out = ((struct world_bytes *)arg)->size;
    return 0;
}

static int give_bytes(void *arg, uint64_t offset, void *buffer, size_t size) {
    const struct world_bytes *bytes = arg;
    if (offset > bytes->size || size > bytes->size - offset)
        return -EINVAL;
    memcpy(buffer, bytes->data + offset, size);
    return 0;
}

static int take_bytes(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    struct world_bytes *bytes = arg;
    if (total != bytes->size || offset > total || size > total - offset)
        return -EINVAL;
    memcpy(bytes->data + offset, buffer, size);
    return 0;
}

static const struct varve_callbacks callbacks = {sizeof callbacks, give_length, give_bytes, take_bytes, 0};

/* What a region says it holds; VARVE_BYTES: nothing. */
static int type_of(int region) {
    return region == WORLD_BULK   ? VARVE_F64
           : region == WORLD_MOVE ? VARVE_F32
           : region == WORLD_GROW ? VARVE_I16
                                  : VARVE_BYTES;
}

static int protect(struct world *world, int region, struct world_bytes *bytes) {
    static const uint64_t element[] = {[VARVE_F64] = 8, [VARVE_F32] = 4, [VARVE_I16] = 2};
    int type = type_of(region);
    if (region == WORLD_CALLS)
        return varve_protect_callback(world->session, names[region], &callbacks, bytes);
    if (type == VARVE_BYTES)
        return varve_protect(world->session, names[region], bytes->data, bytes->size);
    struct varve_array array = {
        .size = sizeof array, .type = type, .dims = 2, .dim = {{bytes->size / element[type] / 2, 0, 0}, {2, 0, 0}}};
    return varve_protect_array(world->session, names[region], bytes->data, &array);
}

/* New memory of this size, under the region's name. The old memory is freed when the library no longer knows it. */
static int place(struct world *world, int region, size_t size) {
    struct world_bytes *bytes = &world->regions[region];
    uint8_t *data = NULL, *old = bytes->data;
    int rc = 0;
    if (region == WORLD_SPARSE) {
        if (old)
            return 0;
        data = varve_alloc(world->session, names[region], size);
        if (!data)
            return varve_session_error(world->session)->code;
        *bytes = (struct world_bytes){data, size};
        return 0;
    }
    data = malloc(size);
    if (!data)
        abort();
    struct world_bytes before = *bytes;
    *bytes = (struct world_bytes){data, size};
    rc = protect(world, region, bytes);
    if (rc < 0) {
        *bytes = before;
        free(data);
        return rc;
    }
    free(old);
    return 0;
}

static int leave(struct world *world, int region) {
    struct world_bytes *bytes = &world->regions[region];
    if (!bytes->data)
        return 0;
    int rc = varve_unprotect(world->session, names[region]);
    if (rc < 0)
        return rc;
    free(bytes->data);
    *bytes = (struct world_bytes){0};
    return 0;
}

/* Write only what differs, as a program would: pages that were never touched stay so. */
static void write_sparse(const struct world *world, int64_t version) {
    const struct world_bytes *bytes = &world->regions[WORLD_SPARSE];
    uint8_t *wanted = malloc(bytes->size);
    if (!wanted)
        abort();
    world_fill(world, WORLD_SPARSE, version, wanted);
    for (size_t at = 0; at < bytes->size; at += PAGE)
        if (memcmp(bytes->data + at, wanted + at, PAGE) != 0)
            memcpy(bytes->data + at, wanted + at, PAGE);
    free(wanted);
}

static int set_region(struct world *world, int region, int64_t version, int is_garbage) {
    int64_t size = world_size(world, region, version);
    if (size < 0)
        return leave(world, region);
    int rc = place(world, region, (size_t)size);
    if (rc < 0)
        return rc;
    const struct world_bytes *bytes = &world->regions[region];
    if (is_garbage)
        memset(bytes->data, 0xa5, bytes->size);
    else if (region == WORLD_SPARSE)
        write_sparse(world, version);
    else
        world_fill(world, region, version, bytes->data);
    return 0;
}

static int set_all(struct world *world, int64_t version, int is_garbage) {
    if (world->placed.ranks)
        return placed_set(&world->placed, world->session, version, is_garbage);
    for (int region = 0; region < WORLD_REGIONS; region++) {
        int rc = set_region(world, region, version, is_garbage);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int world_set(struct world *world, int64_t version) {
    return set_all(world, version, 0);
}

int world_garbage(struct world *world, int64_t version) {
    return set_all(world, version, 1);
}

int world_compare(const struct world *world, int64_t version, char *text, size_t capacity) {
    if (world->placed.ranks)
        return placed_compare(&world->placed, version, text, capacity);
    for (int region = 0; region < WORLD_REGIONS; region++) {
        int64_t size = world_size(world, region, version);
        const struct world_bytes *bytes = &world->regions[region];
        if (size < 0)
            continue;
        uint8_t *wanted = malloc((size_t)size);
        if (!wanted)
            abort();
        world_fill(world, region, version, wanted);
        size_t at = 0;
        int is_other_size = !bytes->data || bytes->size != (uint64_t)size;
        while (!is_other_size && at < (size_t)size && bytes->data[at] == wanted[at])
            at++;
        free(wanted);
        if (is_other_size || at < (size_t)size) {
            snprintf(text, capacity,
                     "version %" PRId64 ", region %s (%" PRIu64 " of %" PRId64 " bytes): differs at %zu", version,
                     names[region], bytes->size, size, at);
            return -1;
        }
    }
    return 0;
}

void world_clear(struct world *world) {
    placed_clear(&world->placed);
    for (int region = 0; region < WORLD_REGIONS; region++) {
        if (region != WORLD_SPARSE) /* the session's */
            free(world->regions[region].data);
        world->regions[region] = (struct world_bytes){0};
    }
}

void world_shown_add(struct world_shown *shown, const struct vv_details *stats) {
    shown->fixed += stats->chunks_fixed;
    shown->zero += stats->chunks_zero;
    shown->first += stats->chunks_first;
    shown->shifted += stats->chunks_shifted;
    shown->rewritten += stats->bytes_rewritten;
}

static const char *missing_fine(const struct world_shown *shown) {
    const char *chunk = getenv("VARVE_FINE"), *dedup = getenv("VARVE_DEDUP");
    if (!chunk || strtol(chunk, NULL, 10) < 32)
        return NULL;
    if (!shown->fixed || !shown->zero || !shown->first)
        return !shown->fixed ? "fixed chunk" : !shown->zero ? "zero chunk" : "first chunk";
    /* With these, chunks that moved are not looked for, or not all of them are known. */
    int may_miss = getenv("VARVE_FINE_METHOD") || getenv("VARVE_FINE_SHARE") || (dedup && strcmp(dedup, "none") == 0);
    return shown->shifted || may_miss ? NULL : "shifted chunk";
}

const char *world_shown_missing(const struct world_shown *shown) {
    const char *fine = missing_fine(shown);
    return fine ? fine : getenv("VARVE_SPACE") && !shown->rewritten ? "chunk that was stored again" : NULL;
}
