/* What was seen, and the labels of fine chunks, by themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "dedup/fine.h"
#include "edits.h"
#include "test.h"

#define GRANULE 4096u
#define SEED 77

static uint64_t first_seed;

/* ---- seen ---- */

static struct vv_hash128 id_of(uint64_t i) {
    return (struct vv_hash128){(i + 1) * UINT64_C(0x9e3779b97f4a7c15), i + 1};
}

static struct vv_fine_index_spot spot_of(uint64_t i) {
    return (struct vv_fine_index_spot){(uint32_t)(i % 5), i * 32};
}

static void put_many(struct vv_fine_index *seen, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++)
        vv_fine_index_put(seen, id_of(i), spot_of(i));
}

static int is_seen_at(const struct vv_fine_index *seen, struct vv_hash128 id, struct vv_fine_index_spot place) {
    uint32_t entry = vv_fine_index_find(seen, id);
    if (entry == VV_SEEN_NOT)
        return 0;
    struct vv_fine_index_spot got = vv_fine_index_place(seen, entry);
    assert_int_equal(got.source, place.source);
    assert_int_equal(got.address, place.address);
    return 1;
}

static uint64_t count_seen(const struct vv_fine_index *seen, uint64_t from, uint64_t to) {
    uint64_t count = 0;
    for (uint64_t i = from; i < to; i++)
        count += (uint64_t)is_seen_at(seen, id_of(i), spot_of(i));
    return count;
}

static void what_does_not_fit_is_not_remembered(void **unused) {
    (void)unused;
    struct vv_fine_index seen = {0};
    put_many(&seen, 0, 10); /* no bound was set: nothing is remembered */
    assert_int_equal(count_seen(&seen, 0, 10), 0);
    assert_int_equal(vv_fine_index_bytes(&seen), 0);
    vv_fine_index_bound(&seen, 3000);
    put_many(&seen, 0, 5000);
    assert_int_equal(count_seen(&seen, 0, 3000), 3000); /* the first ones */
    assert_int_equal(count_seen(&seen, 3000, 5000), 0);
    vv_fine_index_bound(&seen, 4000);
    put_many(&seen, 4500, 9000);
    assert_int_equal(count_seen(&seen, 4500, 5500), 1000);
    assert_int_equal(count_seen(&seen, 5500, 9000), 0);
    vv_fine_index_bound(&seen, 10); /* nothing is forgotten for that */
    put_many(&seen, 9000, 9001);
    assert_int_equal(count_seen(&seen, 0, 9001), 4000);
    vv_fine_index_clear(&seen);
    assert_int_equal(vv_fine_index_bytes(&seen), 0);
    assert_int_equal(count_seen(&seen, 0, 9001), 0);
    put_many(&seen, 0, 20); /* the bound has stayed */
    assert_int_equal(count_seen(&seen, 0, 20), 10);
    vv_fine_index_clear(&seen);
}

/* So many entries, and the slots that lead to them, are no more than the bytes allowed, and nearly as many. */
static void the_memory_is_used_and_not_exceeded(void **unused) {
    (void)unused;
    static const uint64_t bytes[] = {0, 100, 4096, 5000, 30000, 100000, 131072, 1000000};
    assert_int_equal(vv_fine_index_fit(0), 0);
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        struct vv_fine_index seen = {0};
        uint64_t most = vv_fine_index_fit(bytes[i]);
        vv_fine_index_bound(&seen, most);
        put_many(&seen, 0, most + 1000);
        assert_int_equal(count_seen(&seen, 0, most + 1000), most);
        assert_true(vv_fine_index_bytes(&seen) <= bytes[i]);
        if (bytes[i] >= 30000)
            assert_true(vv_fine_index_bytes(&seen) > bytes[i] * 6 / 10);
        vv_fine_index_clear(&seen);
    }
    assert_true(vv_fine_index_fit(UINT64_MAX) < UINT32_MAX);
}

static void equal_beginnings_are_told_apart(void **unused) {
    (void)unused;
    struct vv_fine_index seen = {0};
    vv_fine_index_bound(&seen, 100000);
    for (uint64_t i = 0; i < 500; i++) /* all want the same slot, the last one at that */
        vv_fine_index_put(&seen, (struct vv_hash128){UINT64_MAX, i + 1}, spot_of(i));
    put_many(&seen, 0, 50000);
    for (uint64_t i = 0; i < 500; i++)
        assert_true(is_seen_at(&seen, (struct vv_hash128){UINT64_MAX, i + 1}, spot_of(i)));
    assert_int_equal(count_seen(&seen, 0, 50000), 50000);
    assert_int_equal(vv_fine_index_find(&seen, (struct vv_hash128){UINT64_MAX, 501}), VV_SEEN_NOT);
    vv_fine_index_put(&seen, id_of(7), spot_of(8)); /* again: elsewhere, and no second entry */
    assert_true(is_seen_at(&seen, id_of(7), spot_of(8)));
    assert_int_equal(seen.count, 50500);
    vv_fine_index_clear(&seen);
}

static void only_what_is_alive_is_kept(void **unused) {
    (void)unused;
    struct vv_fine_index seen = {0};
    const uint8_t is_alive[5] = {1, 0, 1, 0, 0}, none[5] = {0}, all[5] = {1, 1, 1, 1, 1};
    vv_fine_index_tidy(&seen, all, 5); /* there is nothing yet */
    vv_fine_index_bound(&seen, 10000);
    put_many(&seen, 0, 20000);
    vv_fine_index_tidy(&seen, is_alive, 5);
    assert_int_equal(seen.count, 4000);
    for (uint64_t i = 0; i < 10000; i++)
        assert_int_equal(is_seen_at(&seen, id_of(i), spot_of(i)), i % 5 == 0 || i % 5 == 2);
    for (uint64_t i = 0; i < 10000; i++) /* there is room again; nobody puts anything into a source that is dead */
        vv_fine_index_put(&seen, id_of(30000 + i), (struct vv_fine_index_spot){i % 2 ? 2 : 5, i * 32});
    assert_int_equal(seen.count, 10000);
    const uint8_t later[6] = {0, 0, 1, 0, 0, 1}; /* one more has died, and there is a new one */
    vv_fine_index_tidy(&seen, later, 6);
    assert_int_equal(seen.count, 8000);
    for (uint64_t i = 0; i < 6000; i++)
        assert_true(is_seen_at(&seen, id_of(30000 + i), (struct vv_fine_index_spot){i % 2 ? 2 : 5, i * 32}));
    vv_fine_index_tidy(&seen, later, 6);
    assert_int_equal(seen.count, 8000);
    vv_fine_index_tidy(&seen, none, 5); /* and of one that is not known there is nothing either */
    assert_int_equal(seen.count, 0);
    assert_int_equal(count_seen(&seen, 0, 40000), 0);
    vv_fine_index_clear(&seen);
}

static void places_that_cannot_be_packed_are_ignored(void **unused) {
    (void)unused;
    static const struct vv_fine_index_spot bad[] = {
        {1u << 24, 0}, {UINT32_MAX, 32}, {0, UINT64_C(1) << 45}, {0, 33}, {0, 16}};
    static const struct vv_fine_index_spot good[] = {
        {(1u << 24) - 1, 0}, {0, (UINT64_C(1) << 45) - 32}, {(1u << 24) - 1, 96}};
    struct vv_fine_index seen = {0};
    vv_fine_index_bound(&seen, 100);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        vv_fine_index_put(&seen, id_of(i), good[i]);
        assert_true(is_seen_at(&seen, id_of(i), good[i]));
        for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
            vv_fine_index_move(&seen, vv_fine_index_find(&seen, id_of(i)), bad[j]);
            assert_true(is_seen_at(&seen, id_of(i), good[i]));
            vv_fine_index_put(&seen, id_of(50 + j), bad[j]);
            assert_int_equal(vv_fine_index_find(&seen, id_of(50 + j)), VV_SEEN_NOT);
        }
        vv_fine_index_move(&seen, vv_fine_index_find(&seen, id_of(i)), good[0]);
        assert_true(is_seen_at(&seen, id_of(i), good[0]));
    }
    vv_fine_index_clear(&seen);
}

static void without_memory_less_is_remembered(void **unused) {
    (void)unused;
#ifndef VARVE_FAULTS
    skip();
#endif
    for (uint64_t at = 1; at <= 12; at++) {
        struct vv_fine_index seen = {0};
        vv_fine_index_bound(&seen, 100000);
        vv_alloc_fail_at(at);
        put_many(&seen, 0, 5000);
        vv_alloc_fail_at(0);
        uint64_t count = count_seen(&seen, 0, 5000);
        assert_true(count >= 4999); /* the next one has grown it */
        assert_int_equal(count, seen.count);
        put_many(&seen, 0, 5000);
        assert_int_equal(count_seen(&seen, 0, 5000), 5000);
        assert_int_equal(seen.count, 5000);
        vv_fine_index_clear(&seen);
    }
}

/* ---- labels ---- */

struct scene {
    struct vv_fine_index seen;
    struct vv_origins past;
    struct vv_fine_mark marks[4 * VV_FINE_MOST]; /* of four granules */
    uint8_t is_usable[4];
    struct vv_fine fine;
    uint8_t data[GRANULE];
    struct vv_hash128 ids[VV_FINE_MOST];
    struct vv_fine_run runs[VV_FINE_MOST];
    struct vv_fine_counts counts;
};

#define ADDRESS 0x100000u

/* This checkpoint is source 2; 1 has failed. */
static void scene_make(struct scene *scene, uint32_t chunk) {
    memset(scene, 0, sizeof *scene);
    vv_fine_index_bound(&scene->seen, 100000);
    memcpy(scene->is_usable, (uint8_t[]){1, 0, 1, 1}, 4);
    scene->fine = (struct vv_fine){.seen = &scene->seen,
                                   .seed = SEED,
                                   .chunk = chunk,
                                   .source = 2,
                                   .owner = 3,
                                   .address = ADDRESS,
                                   .past = &scene->past,
                                   .marks = scene->marks,
                                   .is_usable = scene->is_usable,
                                   .source_count = 4};
    for (size_t i = 0; i < GRANULE; i++)
        scene->data[i] = (uint8_t)edits_draw(256);
}

static void scene_end(struct scene *scene) {
    vv_fine_index_clear(&scene->seen);
    vv_origins_clear(&scene->past);
}

static uint32_t label(struct scene *scene, uint64_t offset, uint32_t size) {
    memset(&scene->counts, 0, sizeof scene->counts);
    assert_int_equal(vv_fine_name(&scene->fine, scene->data, size, scene->ids),
                     (size + scene->fine.chunk - 1) / scene->fine.chunk);
    return vv_fine_label(&scene->fine, offset, size, scene->ids, scene->runs, &scene->counts);
}

static void expect_counts(const struct scene *scene, uint64_t fixed, uint64_t zero, uint64_t first, uint64_t shifted) {
    assert_int_equal(scene->counts.fixed, fixed);
    assert_int_equal(scene->counts.zero, zero);
    assert_int_equal(scene->counts.first, first);
    assert_int_equal(scene->counts.shifted, shifted);
}

static void expect_run(const struct scene *scene, uint32_t run, uint32_t label_of, uint64_t offset, uint32_t length,
                       uint32_t source, uint64_t address) {
    assert_int_equal(scene->runs[run].label, label_of);
    assert_int_equal(scene->runs[run].offset, offset);
    assert_int_equal(scene->runs[run].length, length);
    if (label_of == VV_LABEL_ZERO)
        return;
    assert_int_equal(scene->runs[run].place.source, source);
    assert_int_equal(scene->runs[run].place.address, address);
}

static void past_add(struct scene *scene, uint32_t kind, uint64_t offset, uint64_t length, uint32_t source,
                     uint64_t address, uint32_t piece) {
    struct vv_origin origin = {.offset = offset,
                               .length = length,
                               .address = address,
                               .source = source,
                               .owner = 3,
                               .kind = kind,
                               .piece = piece};
    assert_int_equal(vv_origins_add(&scene->past, &origin), 0);
}

static void the_life_of_a_granule(void **unused) {
    (void)unused;
    for (uint32_t chunk = VV_FINE_LEAST; chunk <= GRANULE; chunk *= 2) {
        struct scene scene;
        uint32_t count = GRANULE / chunk;
        scene_make(&scene, chunk);
        assert_int_equal(label(&scene, 8192, GRANULE), 1); /* new */
        expect_run(&scene, 0, VV_LABEL_FIRST, 8192, GRANULE, 2, ADDRESS + 8192);
        expect_counts(&scene, 0, 0, count, 0);
        assert_int_equal(label(&scene, 4096, GRANULE), 1); /* the same before it */
        expect_run(&scene, 0, VV_LABEL_SHIFTED, 4096, GRANULE, 2, ADDRESS + 8192);
        assert_int_equal(label(&scene, 8192, GRANULE), 0); /* where it was */
        expect_counts(&scene, count, 0, 0, 0);
        scene.data[chunk / 2] ^= 1; /* the first chunk changes */
        scene.fine.source = 3;
        assert_int_equal(label(&scene, 8192, GRANULE), 1);
        expect_run(&scene, 0, VV_LABEL_FIRST, 8192, chunk, 3, ADDRESS + 8192);
        expect_counts(&scene, count - 1, 0, 1, 0);
        vv_fine_forget(&scene.fine, 8192, GRANULE); /* nobody knows any more what was where, but it has been seen */
        label(&scene, 8192, GRANULE);
        expect_counts(&scene, 0, 0, 0, count);
        label(&scene, 4096, GRANULE); /* the other one has not been forgotten */
        expect_counts(&scene, count - 1, 0, 0, 1);
        scene.fine.marks = NULL;
        label(&scene, 8192, GRANULE);
        expect_counts(&scene, 0, 0, 0, count);
        vv_fine_forget(&scene.fine, 8192, GRANULE);
        scene_end(&scene);
    }
}

static void zeros(void **unused) {
    (void)unused;
    for (uint32_t chunk = VV_FINE_LEAST; chunk < GRANULE; chunk *= 2) {
        struct scene scene;
        scene_make(&scene, chunk);
        memset(scene.data + chunk, 0, GRANULE - chunk);
        assert_int_equal(label(&scene, 0, GRANULE), 2); /* nothing was there */
        expect_run(&scene, 0, VV_LABEL_FIRST, 0, chunk, 2, ADDRESS);
        expect_run(&scene, 1, VV_LABEL_ZERO, chunk, GRANULE - chunk, 0, 0);
        past_add(&scene, VV_ORIGIN_FROM, 0, GRANULE, 0, ADDRESS, 0); /* something else was there */
        assert_int_equal(label(&scene, 0, GRANULE), 1);
        expect_counts(&scene, 1, GRANULE / chunk - 1, 0, 0);
        vv_origins_clear(&scene.past);
        past_add(&scene, VV_ORIGIN_FROM, 0, chunk, 2, ADDRESS, 0);
        past_add(&scene, VV_ORIGIN_ZERO, chunk, GRANULE - chunk, 0, 0, 0);
        assert_int_equal(label(&scene, 0, GRANULE), 0); /* zeros were there */
        expect_counts(&scene, GRANULE / chunk, 0, 0, 0);
        vv_origins_clear(&scene.past);
        past_add(&scene, VV_ORIGIN_FROM, 0, chunk + chunk / 2, 2, ADDRESS, 0); /* half of a chunk was */
        past_add(&scene, VV_ORIGIN_ZERO, chunk + chunk / 2, GRANULE - chunk - chunk / 2, 0, 0, 0);
        assert_int_equal(label(&scene, 0, GRANULE), 1);
        expect_run(&scene, 0, VV_LABEL_ZERO, chunk, chunk, 0, 0);
        scene_end(&scene);
    }
}

/* A short chunk is no other's beginning. */
static void the_end_of_a_region(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 64);
    memcpy(scene.data + 64, scene.data, 64);
    assert_int_equal(label(&scene, 0, 100), 1);
    expect_run(&scene, 0, VV_LABEL_FIRST, 0, 100, 2, ADDRESS);
    expect_counts(&scene, 0, 0, 2, 0);
    assert_int_equal(label(&scene, 4096, 128), 2); /* the same piece twice */
    expect_counts(&scene, 0, 0, 0, 2);
    assert_int_equal(scene.runs[0].length, 64);
    scene_end(&scene);
}

static void the_lowest_of_equal_chunks_is_stored(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 128);
    for (uint32_t i = 10; i < 20; i++)
        memcpy(scene.data + i * 128, scene.data + 3 * 128, 128);
    uint32_t count = label(&scene, 0, GRANULE);
    expect_counts(&scene, 0, 0, 22, 10);
    assert_int_equal(count, 12);
    expect_run(&scene, 0, VV_LABEL_FIRST, 0, 10 * 128, 2, ADDRESS);
    for (uint32_t i = 1; i <= 10; i++)
        expect_run(&scene, i, VV_LABEL_SHIFTED, (9 + i) * 128, 128, 2, ADDRESS + 3 * 128);
    expect_run(&scene, 11, VV_LABEL_FIRST, 20 * 128, 12 * 128, 2, ADDRESS + 20 * 128);
    scene_end(&scene);
}

/* Only what is known to have been at this place, and nothing but this, is where it was. */
static void marks_tell_what_is_fixed(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 64);
    past_add(&scene, VV_ORIGIN_FROM, 0, 256, 1, 960,
             0); /* wherever it is, in whatever piece: it is referred to already */
    label(&scene, 0, 256);
    expect_counts(&scene, 0, 0, 4, 0);
    uint8_t keep[64];
    memcpy(keep, scene.data, 64);
    memcpy(scene.data, scene.data + 64, 64); /* B B C D */
    label(&scene, 0, 256);
    expect_counts(&scene, 3, 0, 0, 1);
    memset(scene.data, 0, 64);
    label(&scene, 0, 256);
    expect_counts(&scene, 3, 1, 0, 0);
    memcpy(scene.data, keep, 64); /* as it was twice before: that does not count */
    label(&scene, 0, 256);
    expect_counts(&scene, 3, 0, 0, 1);
    label(&scene, 0, 250); /* the last one is shorter now */
    expect_counts(&scene, 3, 0, 1, 0);
    scene_end(&scene);
}

/* What lies behind each other in different sources is two runs. */
static void runs_have_one_source(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 64);
    vv_fine_name(&scene.fine, scene.data, 192, scene.ids);
    vv_fine_index_put(&scene.seen, scene.ids[0], (struct vv_fine_index_spot){0, 960});
    vv_fine_index_put(&scene.seen, scene.ids[1], (struct vv_fine_index_spot){3, 1024});
    vv_fine_index_put(&scene.seen, scene.ids[2], (struct vv_fine_index_spot){3, 1088});
    assert_int_equal(label(&scene, 0, 192), 2);
    expect_run(&scene, 0, VV_LABEL_SHIFTED, 0, 64, 0, 960);
    expect_run(&scene, 1, VV_LABEL_SHIFTED, 64, 128, 3, 1024);
    scene_end(&scene);
}

static void what_has_failed_is_stored_again(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 64);
    scene.fine.source = 1;
    label(&scene, 0, GRANULE);
    scene.fine.source = 2;
    vv_fine_index_bound(&scene.seen, 0); /* no room is needed for this */
    memset(scene.marks, 0, sizeof scene.marks);
    assert_true(vv_fine_is_new(&scene.fine, 0, scene.ids, 64));
    assert_int_equal(label(&scene, 4096, GRANULE), 1);
    expect_run(&scene, 0, VV_LABEL_FIRST, 4096, GRANULE, 2, ADDRESS + 4096);
    assert_false(vv_fine_is_new(&scene.fine, 0, scene.ids, 64));
    assert_int_equal(label(&scene, 0, GRANULE), 1);
    expect_run(&scene, 0, VV_LABEL_SHIFTED, 0, GRANULE, 2, ADDRESS + 4096);
    scene.fine.source_count = 2; /* of a source that is not known either */
    label(&scene, 8192, GRANULE);
    expect_counts(&scene, 0, 0, 64, 0);
    scene_end(&scene);
}

static void beyond_the_bound_each_one_is_first(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 1024);
    memcpy(scene.data + 2048, scene.data, 2048); /* A B A B */
    vv_fine_index_bound(&scene.seen, 1);
    assert_int_equal(label(&scene, 0, GRANULE), 3);
    expect_counts(&scene, 0, 0, 3, 1);
    expect_run(&scene, 0, VV_LABEL_FIRST, 0, 2048, 2, ADDRESS);
    expect_run(&scene, 1, VV_LABEL_SHIFTED, 2048, 1024, 2, ADDRESS);
    expect_run(&scene, 2, VV_LABEL_FIRST, 3072, 1024, 2, ADDRESS + 3072);
    scene_end(&scene);
}

static void basic_knows_places(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 64);
    memcpy(scene.data + 1024, scene.data, 1024);
    memset(scene.data + 2048, 0, 64);
    scene.fine.is_by_place = 1;
    label(&scene, 0, GRANULE);
    expect_counts(&scene, 0, 1, 63, 0);
    label(&scene, 4096, GRANULE);
    expect_counts(&scene, 0, 1, 63, 0);
    assert_int_equal(scene.seen.count, 0);
    past_add(&scene, VV_ORIGIN_FROM, 0, 2048, 2, ADDRESS, 0);
    past_add(&scene, VV_ORIGIN_ZERO, 2048, 64, 0, 0, 0);
    past_add(&scene, VV_ORIGIN_FROM, 2112, GRANULE - 2112, 2, ADDRESS + 2112, 0);
    label(&scene, 0, GRANULE);
    expect_counts(&scene, 64, 0, 0, 0);
    assert_false(vv_fine_is_new(&scene.fine, 0, scene.ids, 64));
    memcpy(scene.data, scene.data + 64, 64);
    label(&scene, 0, GRANULE);
    expect_counts(&scene, 63, 0, 1, 0);
    scene_end(&scene);
}

static void asking_changes_nothing(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 64);
    uint32_t count = vv_fine_name(&scene.fine, scene.data, GRANULE, scene.ids);
    assert_true(vv_fine_is_new(&scene.fine, 0, scene.ids, count));
    assert_int_equal(scene.seen.count, 0);
    vv_fine_index_put(&scene.seen, scene.ids[63], (struct vv_fine_index_spot){0, 0});
    assert_false(vv_fine_is_new(&scene.fine, 0, scene.ids, count));
    vv_fine_index_clear(&scene.seen);
    memset(scene.data + 640, 0, 64);
    count = vv_fine_name(&scene.fine, scene.data, GRANULE, scene.ids);
    assert_true(vv_hash128_is_zero(scene.ids[10]));
    assert_false(vv_fine_is_new(&scene.fine, 0, scene.ids, count)); /* a zero chunk needs not be stored */
    vv_fine_note(&scene.fine, 4096, scene.ids, count);              /* it is stored whole all the same */
    assert_int_equal(scene.seen.count, 63);
    assert_true(is_seen_at(&scene.seen, scene.ids[63], (struct vv_fine_index_spot){2, ADDRESS + 4096 + 63 * 64}));
    scene.fine.source = 3;
    vv_fine_note(&scene.fine, 0, scene.ids, count); /* the newer place counts */
    assert_int_equal(scene.seen.count, 63);
    assert_true(is_seen_at(&scene.seen, scene.ids[63], (struct vv_fine_index_spot){3, ADDRESS + 63 * 64}));
    scene_end(&scene);
}

static void restored_chunks_are_seen(void **unused) {
    (void)unused;
    struct scene scene;
    scene_make(&scene, 64);
    past_add(&scene, VV_ORIGIN_FROM, 0, 100, 0, 3200, 0);        /* chunk 0, and a part of 1 */
    past_add(&scene, VV_ORIGIN_FROM, 100, 92, 3, 6400 + 100, 0); /* the rest of it, and 2 */
    past_add(&scene, VV_ORIGIN_REPEATED, 192, 192, 0, 9600, 64); /* 3, 4, 5 */
    past_add(&scene, VV_ORIGIN_ZERO, 384, 64, 0, 0, 0);          /* 6, although it is not zero */
    struct vv_origin other = {.offset = 448, .length = 64, .address = 64, .owner = 1, .kind = VV_ORIGIN_FROM};
    assert_int_equal(vv_origins_add(&scene.past, &other), 0); /* 7 is another rank's */
    past_add(&scene, VV_ORIGIN_FROM, 512, 80, 3, 32000, 0);   /* 8, and a short 9 */
    uint32_t count = vv_fine_name(&scene.fine, scene.data, 592, scene.ids);
    vv_fine_restore(&scene.fine, 0, 592, scene.ids, count);
    assert_int_equal(count, 10);
    static const uint64_t places[10] = {3200, 0, 6528, 9600, 9600, 9600, 0, 0, 32000, 32064};
    for (uint32_t i = 0; i < 10; i++) {
        struct vv_fine_index_spot place = {i == 2 || i >= 8 ? 3 : 0, places[i]};
        assert_int_equal(is_seen_at(&scene.seen, scene.ids[i], place), places[i] != 0);
    }
    uint32_t before = scene.seen.count;
    vv_fine_restore(&scene.fine, GRANULE, GRANULE, scene.ids, 10); /* behind what the past tells of */
    assert_int_equal(scene.seen.count, before);
    scene.fine.source = 3;
    label(&scene, 0, 592); /* and all of it is where it was, in whatever pieces */
    expect_counts(&scene, 10, 0, 0, 0);
    scene_end(&scene);
}

/* ---- everything is where the labels say ---- */

#define SPACE 8192u

struct storage {
    uint8_t bytes[4][ADDRESS + 4 * GRANULE]; /* of sources */
};
static struct storage storage;

/* A random past of one granule, and what it says the granule held. */
static void make_past(struct scene *scene, uint8_t *before) {
    for (uint32_t at = 0; at < GRANULE;) {
        uint32_t kind = edits_draw(3), source = edits_draw(2) ? 0 : 3, unit = edits_draw(3) ? scene->fine.chunk : 16;
        uint32_t left = GRANULE - at, length = unit * (1 + edits_draw(6));
        length = length < left ? length : left;
        uint64_t address = edits_draw(SPACE / 32) * 32u;
        uint32_t piece = kind == VV_ORIGIN_REPEATED ? unit * (1 + edits_draw(2)) : 0;
        piece = piece < length ? piece : length;
        past_add(scene, kind, at, length, source, address, kind == VV_ORIGIN_REPEATED ? piece : 0);
        for (uint32_t i = 0; i < length; i++)
            before[at + i] = kind == VV_ORIGIN_ZERO       ? 0
                             : kind == VV_ORIGIN_REPEATED ? storage.bytes[source][address + i % piece]
                                                          : storage.bytes[source][address + i];
        at += length;
    }
}

static void see_some(struct scene *scene) {
    for (uint32_t n = edits_draw(200); n > 0; n--) {
        uint32_t source = edits_draw(4), address = edits_draw(SPACE / 32) * 32;
        const uint8_t *data = &storage.bytes[source][address];
        struct vv_hash128 ids[VV_FINE_MOST];
        vv_fine_name(&scene->fine, data, scene->fine.chunk, ids);
        if (!vv_hash128_is_zero(ids[0]))
            vv_fine_index_put(&scene->seen, ids[0], (struct vv_fine_index_spot){source, address});
    }
}

/* Of some chunks it is known what they were. */
static void mark_some(struct scene *scene, const uint8_t *before) {
    struct vv_hash128 ids[VV_FINE_MOST];
    struct vv_origins nowhere = {0};
    struct vv_fine fine = scene->fine;
    fine.past = &nowhere;
    vv_fine_restore(&fine, 0, GRANULE, ids, vv_fine_name(&fine, before, GRANULE, ids));
    for (uint32_t at = 0; at < GRANULE; at += fine.chunk)
        if (edits_draw(3) == 0)
            vv_fine_forget(&fine, at, fine.chunk);
}

/* The runs laid over what was there. */
static void apply(const struct scene *scene, uint32_t count, uint8_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        const struct vv_fine_run *run = &scene->runs[i];
        if (run->label == VV_LABEL_ZERO) {
            memset(out + run->offset, 0, run->length);
            continue;
        }
        assert_true(run->label == VV_LABEL_FIRST || scene->is_usable[run->place.source]);
        uint8_t *stored = &storage.bytes[run->place.source][run->place.address];
        if (run->label == VV_LABEL_FIRST) {
            assert_int_equal(run->place.address, ADDRESS + run->offset);
            memcpy(stored, scene->data + run->offset, run->length);
        }
        memcpy(out + run->offset, stored, run->length);
    }
}

static void try_once(uint32_t chunk, uint32_t size) {
    static struct scene scene;
    uint8_t now[GRANULE];
    scene_make(&scene, chunk);
    make_past(&scene, now);
    see_some(&scene);
    mark_some(&scene, now);
    for (uint32_t at = 0; at < GRANULE; at += chunk) { /* as it was, new, zero, or from anywhere */
        uint32_t kind = edits_draw(4);
        if (kind == 0)
            memcpy(scene.data + at, now + at, chunk);
        else if (kind == 1)
            memset(scene.data + at, 0, chunk);
        else if (kind == 2)
            memcpy(scene.data + at, &storage.bytes[edits_draw(4)][edits_draw(SPACE / 32) * 32], chunk);
    }
    uint32_t count = label(&scene, 0, size);
    apply(&scene, count, now);
    assert_memory_equal(now, scene.data, size);
    for (uint32_t i = 1; i < count; i++) { /* ascending, and nothing that could be one run is two */
        const struct vv_fine_run *a = &scene.runs[i - 1], *b = &scene.runs[i];
        assert_true(a->offset + a->length <= b->offset);
        assert_false(a->offset + a->length == b->offset && a->label == b->label &&
                     (a->label == VV_LABEL_ZERO ||
                      (a->place.source == b->place.source && a->place.address + a->length == b->place.address)));
    }
    scene_end(&scene);
}

static void labels_bring_the_bytes_back(void **unused) {
    (void)unused;
    edits_seed(first_seed);
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t source = 0; source < 4; source++)
            for (uint32_t i = 0; i < SPACE + GRANULE; i++)
                storage.bytes[source][i] = (uint8_t)(i / 32 % 5 == 0 ? 0 : edits_draw(256));
        for (uint32_t chunk = VV_FINE_LEAST; chunk <= GRANULE; chunk *= 2)
            try_once(chunk, edits_draw(2) ? GRANULE : 1 + edits_draw(GRANULE));
    }
}

/* Places that repeat with any period are one origin, also when it ends and goes on within a piece. */
static void repeats_join(void **state) {
    (void)state;
    struct vv_origins origins = {0};
    uint64_t offset = 0;
    static const struct {
        uint64_t address;
        uint32_t length;
    } parts[] = {{4096, 128}, {4096, 64}, {4160, 64}, {4096, 32}, {4128, 96}, {4096, 128}, {4096, 64}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct vv_origin origin = {offset, parts[i].length, parts[i].address, 3, 0, VV_ORIGIN_FROM, 0};
        assert_int_equal(vv_origins_add(&origins, &origin), 0);
        offset += parts[i].length;
    }
    assert_int_equal(origins.count, 1);
    assert_int_equal(origins.list[0].kind, VV_ORIGIN_REPEATED);
    assert_int_equal(origins.list[0].piece, 128);
    assert_int_equal(origins.list[0].length, offset);
    struct vv_origin inside = {192, 64, 4160, 3, 0, VV_ORIGIN_FROM, 0},
                     elsewhere = {192, 64, 4096, 3, 0, VV_ORIGIN_FROM, 0};
    assert_true(vv_origins_say(&origins, &inside));
    assert_false(vv_origins_say(&origins, &elsewhere));
    struct vv_origin wrong = {offset, 64, 4096, 3, 0, VV_ORIGIN_FROM, 0}; /* it should go on at 4160 */
    assert_int_equal(vv_origins_add(&origins, &wrong), 0);
    assert_int_equal(origins.count, 2);
    vv_origins_clear(&origins);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_join),
        cmocka_unit_test(what_does_not_fit_is_not_remembered),
        cmocka_unit_test(the_memory_is_used_and_not_exceeded),
        cmocka_unit_test(equal_beginnings_are_told_apart),
        cmocka_unit_test(only_what_is_alive_is_kept),
        cmocka_unit_test(places_that_cannot_be_packed_are_ignored),
        cmocka_unit_test(without_memory_less_is_remembered),
        cmocka_unit_test(the_life_of_a_granule),
        cmocka_unit_test(zeros),
        cmocka_unit_test(the_end_of_a_region),
        cmocka_unit_test(the_lowest_of_equal_chunks_is_stored),
        cmocka_unit_test(marks_tell_what_is_fixed),
        cmocka_unit_test(runs_have_one_source),
        cmocka_unit_test(what_has_failed_is_stored_again),
        cmocka_unit_test(beyond_the_bound_each_one_is_first),
        cmocka_unit_test(basic_knows_places),
        cmocka_unit_test(asking_changes_nothing),
        cmocka_unit_test(restored_chunks_are_seen),
        cmocka_unit_test(labels_bring_the_bytes_back),
    };
    first_seed = edits_first_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
