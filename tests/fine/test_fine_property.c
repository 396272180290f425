/* Random edit scripts on random data, through the public functions: whatever the method, the size of chunks and the
 * number of checkpoints, with failures and restarts in between, every version comes back as it was; and what a
 * checkpoint stores is exactly what an oracle says that it must.
 *
 * test_fine_property [rounds]: so many times as much. FINE_SEED or TEST_SEED repeats a run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "details.h"
#include "list.h"
#include "oracle.h"
#include "test.h"
#include "world.h"

static uint64_t first_seed;
static unsigned times = 1;

/* TEST_SCALE: percent, less where a sanitizer makes everything slower. */
static unsigned often(unsigned rounds) {
    const char *percent = getenv("TEST_SCALE");
    unsigned some = rounds * times * (percent && atoi(percent) > 0 ? (unsigned)atoi(percent) : 100) / 100;
    return some ? some : 1;
}

static const char *const methods[] = {"tree", "basic", "full"};
static const uint32_t sizes[] = {1, 32, 64, 128, 256, 512, 1024, 2048, 4096};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* What was there in an earlier version is there again; or whole granules are emptied, or become like others: what
 * was known of the chunks in them must not be believed later. */
static void come_back(struct world *world, uint32_t grain) {
    unsigned region = edits_draw(WORLD_REGIONS);
    struct piece *now = &world->pieces[region];
    const struct piece *from = now;
    const struct version *then = &world->then[edits_draw((uint32_t)world->last + 2)];
    uint32_t kind = edits_draw(3), unit = kind == 0 && edits_draw(2) ? grain : 4096;
    size_t at = edits_draw((uint32_t)now->size) / unit * unit, to = at, length = unit * (1 + edits_draw(3));
    if (kind == 0 && then->is_saved)
        from = &then->pieces[region];
    if (kind == 1)
        to = edits_draw((uint32_t)now->size) / unit * unit;
    size_t end = from->size < now->size ? from->size : now->size, furthest = at > to ? at : to;
    if (furthest + length > end)
        return;
    if (kind == 2)
        memset(now->data + at, 0, length);
    else
        memmove(now->data + to, from->data + at, length);
}

static void edit(struct world *world, uint32_t grain, int may_resize) {
    for (uint32_t n = edits_draw(3) ? edits_draw(12) : edits_draw(60); n > 0; n--)
        if (edits_draw(3) == 0)
            come_back(world, grain);
        else
            edits_one(world->pieces, WORLD_REGIONS, grain, may_resize);
    if (may_resize && edits_draw(6) == 0)
        piece_move(&world->pieces[edits_draw(WORLD_REGIONS)]);
}

/* ---- checkpoints that fail ---- */

/* The next checkpoint fails for certain (1), or may (2). */
static int arm(int may_run_short) {
#ifdef VARVE_FAULTS
    static const char *const points[] = {"engine.save.after_blocks=error:5", "engine.save.before_seal=error:28",
                                         "engine.save.before_commit=error:5"};
    uint32_t kind = edits_draw(8);
    if (kind == 0) {
        vv_fault_set(points[edits_draw(3)]);
        return 1;
    }
    if (kind == 1 && may_run_short) {
        vv_alloc_fail_at(1 + edits_draw(120));
        return 2;
    }
#else
    (void)may_run_short;
#endif
    return 0;
}

static void disarm(void) {
#ifdef VARVE_FAULTS
    vv_fault_set(NULL);
    vv_alloc_fail_at(0);
#endif
}

/* A checkpoint that may fail. Returns whether it worked. */
static int save(struct world *world, int64_t version, int may_run_short) {
    int armed = arm(may_run_short), rc = world_save(world, version);
    disarm();
    if (armed == 1)
        assert_true(rc < 0);
    if (armed == 0 && rc)
        fail_msg("checkpoint %lld (%s): %s", (long long)version, world->settings,
                 varve_session_error(world->session)->text);
    return rc == 0;
}

/* ---- every version comes back ---- */

static void draw_settings(char *out, size_t capacity, const char *method, uint32_t chunk) {
    static const char *const shares[] = {"1", "0.125", "0.03", "0"};
    static const char *const codecs[] = {"none", "auto", "lz4", "size"};
    static const char *const captures[] = {"auto", "sync", "sync,threads=0"};
    static const char *const dedups[] = {"auto", "local", "none", "exact"};
    snprintf(out, capacity, "fine=%u,fine_method=%s,fine_share=%s,codec=%s,capture=%s,dedup=%s,space=%s%s", chunk,
             method, shares[edits_draw(4)], codecs[edits_draw(4)], captures[edits_draw(3)], dedups[edits_draw(4)],
             edits_draw(3) == 0 ? "1" : "2", edits_draw(2) ? ",block_size=64K" : "");
}

/* Die and come back, go back in the middle, or go on without reading. */
static void interrupt(struct world *world, const char *method, uint32_t chunk) {
    uint32_t kind = edits_draw(10);
    if (world->last < 0 || kind > 2)
        return;
    if (kind == 0) {
        world_close(world);
        draw_settings(world->settings, sizeof world->settings, method, chunk);
        world_open(world);
        world_restart(world, world->last); /* a newer one that ran short of memory at its very end may be there, too */
    } else if (kind == 1) {
        int64_t version = edits_draw((uint32_t)world->last + 1);
        if (world->then[version].is_saved)
            world_restart(world, version);
    } else {
        world_close(world);
        world_open(world);
        assert_int_equal(varve_continue(world->session, world->last, NULL), 0);
    }
}

static void live_through(const char *method, uint32_t chunk, uint64_t seed) {
    static struct world world;
    char address[64], settings[256];
    edits_seed(seed);
    snprintf(address, sizeof address, "mem://fine-%llu", (unsigned long long)seed);
    draw_settings(settings, sizeof settings, method, chunk);
    world_make(&world, address, settings, 0);
    int64_t versions = 2 + edits_draw(10);
    for (int64_t version = 0; version < versions; version++) {
        edit(&world, chunk, 1);
        if (edits_draw(4) == 0)
            world.chunks[edits_draw(WORLD_REGIONS)] = edits_draw(3) ? sizes[edits_draw(SIZES)] : 0;
        world_protect(&world);
        save(&world, version, 1);
        interrupt(&world, method, chunk);
    }
    world_check_all(&world);
    world_end(&world);
}

static void every_version_comes_back(void **unused) {
    (void)unused;
    for (unsigned round = 0; round < often(3); round++)
        for (unsigned m = 0; m < 3; m++)
            for (unsigned s = 0; s < SIZES; s++)
                live_through(methods[m], sizes[s], first_seed + round * 1000 + m * 100 + s);
}

/* ---- what is stored ---- */

/* Regions are looked at as they lie in memory. Where chunks have different sizes, it matters whose are taken first. */
static void ask_oracle(struct oracle *oracle, const struct world *world) {
    unsigned order[WORLD_REGIONS];
    for (unsigned i = 0; i < WORLD_REGIONS; i++) {
        unsigned at = i;
        for (; at > 0 && world->pieces[order[at - 1]].data > world->pieces[i].data; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    oracle_begin(oracle);
    for (unsigned i = 0; i < WORLD_REGIONS; i++)
        oracle_place(oracle, i, world->pieces[i].size, world->chunks[i]);
    for (unsigned i = 0; i < WORLD_REGIONS; i++)
        oracle_region(oracle, order[i], world->pieces[order[i]].data);
}

/* Which of several equal things is referred to may differ when they are taken in another order (capture=auto), or
 * when fewer granules are known as a whole (after a restart, those that were joined to what lies before them in one
 * run are not): then a chunk may be part of a granule that is known, where the oracle has it as shifted, or the
 * other way round. Nothing is stored for either. */
static void compare(const struct world *world, int64_t version, const struct oracle_sums *must, int is_strict,
                    uint64_t seed) {
    struct vv_details stats = {0};
    assert_int_equal(vv_details_get(world->session, &stats), 0);
    if (stats.bytes_new != must->bytes_new || stats.chunks_first != must->first || stats.chunks_zero != must->zero ||
        (is_strict && (stats.chunks_fixed != must->fixed || stats.chunks_shifted != must->shifted)) ||
        stats.bytes_rewritten != 0)
        fail_msg("seed %llu, version %lld (%s; %u %u %u): new %llu first %llu fixed %llu zero %llu shifted %llu "
                 "rewritten %llu; "
                 "the oracle says %llu %llu %llu %llu %llu",
                 (unsigned long long)seed, (long long)version, world->settings, world->chunks[0], world->chunks[1],
                 world->chunks[2], (unsigned long long)stats.bytes_new, (unsigned long long)stats.chunks_first,
                 (unsigned long long)stats.chunks_fixed, (unsigned long long)stats.chunks_zero,
                 (unsigned long long)stats.chunks_shifted, (unsigned long long)stats.bytes_rewritten,
                 (unsigned long long)must->bytes_new, (unsigned long long)must->first, (unsigned long long)must->fixed,
                 (unsigned long long)must->zero, (unsigned long long)must->shifted);
}

struct trial {
    enum oracle_method method;
    uint32_t chunk; /* 0: each region has another one */
    const char *capture;
    int has_restarts;
    uint64_t seed;
};

/* Enough is protected that what is remembered is never full, here and in the table of granules. */
#define SPARE ((size_t)16 << 20)

static void follow(const struct trial *trial) {
    static struct world world;
    char address[64], settings[256];
    edits_seed(trial->seed);
    struct oracle *oracle = oracle_create(trial->method);
    snprintf(address, sizeof address, "mem://exact-%llu", (unsigned long long)trial->seed);
    snprintf(settings, sizeof settings,
             "fine=1,fine_method=%s,fine_share=1,codec=none,space=0,capture=%s,dedup=local,table_share=0.1",
             methods[trial->method], trial->capture);
    world_make(&world, address, settings, SPARE);
    for (unsigned i = 0; i < WORLD_REGIONS; i++)
        world.chunks[i] = trial->chunk ? trial->chunk : sizes[edits_draw(SIZES)];
    int64_t versions = 3 + edits_draw(12);
    for (int64_t version = 0; version < versions; version++) {
        edit(&world, world.chunks[0], 1);
        if (!trial->chunk && edits_draw(5) == 0)
            world.chunks[edits_draw(WORLD_REGIONS)] = sizes[edits_draw(SIZES)];
        world_protect(&world);
        ask_oracle(oracle, &world);
        int is_saved = save(&world, version, 0);
        struct oracle_sums must = oracle_end(oracle, is_saved);
        if (!is_saved)
            continue;
        if (!trial->has_restarts ||
            trial->chunk != 1) /* else a granule inside a longer run is stored again, see compare */
            compare(&world, version, &must, !trial->has_restarts && strcmp(trial->capture, "sync") == 0, trial->seed);
        oracle_keep(oracle, (unsigned)version);
        if (!trial->has_restarts || edits_draw(4))
            continue;
        int64_t back = edits_draw((uint32_t)version + 1);
        if (!world.then[back].is_saved)
            continue;
        world_restart(&world, back);
        oracle_restart(oracle, (unsigned)back, trial->chunk);
    }
    world_check_all(&world);
    world_end(&world);
    oracle_destroy(oracle);
}

/* All regions have chunks of the same size. */
static void nothing_seen_is_stored_again(void **unused) {
    (void)unused;
    for (unsigned round = 0; round < often(2); round++)
        for (unsigned s = 0; s < SIZES; s++)
            for (int is_auto = 0; is_auto < 2; is_auto++)
                follow(&(struct trial){ORACLE_TREE, sizes[s], is_auto ? "auto" : "sync", 0,
                                       first_seed + 100000 + round * 1000 + s * 10 + (unsigned)is_auto});
}

/* Contents of one region are found in another one with other chunks only where 4 KiB are the same. */
static void sizes_may_differ(void **unused) {
    (void)unused;
    for (unsigned round = 0; round < often(12); round++)
        follow(&(struct trial){ORACLE_TREE, 0, "sync", 0, first_seed + 200000 + round});
}

static void basic_and_full_store_what_they_say(void **unused) {
    (void)unused;
    for (unsigned round = 0; round < often(1); round++)
        for (unsigned s = 0; s < SIZES; s++) {
            follow(&(struct trial){ORACLE_BASIC, sizes[s], "sync", 0, first_seed + 300000 + round * 1000 + s});
            follow(&(struct trial){ORACLE_FULL, sizes[s], "auto", 0, first_seed + 300500 + round * 1000 + s});
        }
}

/* After a restart everything is known that was restored. */
static void restored_bytes_have_been_seen(void **unused) {
    (void)unused;
    for (unsigned round = 0; round < often(1); round++)
        for (unsigned s = 0; s < SIZES; s++)
            follow(&(struct trial){ORACLE_TREE, sizes[s], "sync", 1, first_seed + 400000 + round * 1000 + s});
}

/* ---- the paper's list ---- */

/* A list with an entry per chunk says enough to bring every version back, however many checkpoints there are. */
static void a_list_is_enough(void **unused) {
    (void)unused;
    for (unsigned round = 0; round < often(2); round++)
        for (unsigned s = 1; s < SIZES; s++) {
            struct piece now, back, then[12];
            struct list *list = list_create(sizes[s]);
            edits_seed(first_seed + 500000 + round * 100 + s);
            piece_make(&now, edits_draw(WORLD_LARGEST), WORLD_LARGEST);
            piece_make(&back, 0, WORLD_LARGEST);
            piece_noise(&now, 0, now.size);
            for (unsigned v = 0; v < 12; v++) {
                for (uint32_t n = edits_draw(20); v > 0 && n > 0; n--)
                    edits_one(&now, 1, sizes[s], 1);
                piece_make(&then[v], now.size, WORLD_LARGEST);
                memcpy(then[v].data, now.data, now.size);
                list_save(list, now.data, now.size);
            }
            for (unsigned v = 0; v < 12; v++) {
                back.size = list_restore(list, v, back.data, back.capacity);
                assert_int_equal(back.size, then[v].size);
                assert_memory_equal(back.data, then[v].data, back.size);
                piece_free(&then[v]);
            }
            list_destroy(list);
            piece_free(&now);
            piece_free(&back);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_comes_back),
        cmocka_unit_test(nothing_seen_is_stored_again),
        cmocka_unit_test(sizes_may_differ),
        cmocka_unit_test(basic_and_full_store_what_they_say),
        cmocka_unit_test(restored_bytes_have_been_seen),
        cmocka_unit_test(a_list_is_enough),
    };
    times = argc > 1 && atoi(argv[1]) > 0 ? (unsigned)atoi(argv[1]) : 1;
    first_seed = edits_first_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
