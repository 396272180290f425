/* Random checkpoints of several writers and owners, with every kind of run, layers, parts and partner copies: what
 * is read back is what a model in memory says. */
#include "read/view_private.h"
#include "store_data.h"

#define RANKS 3
#define WRITERS 2
#define REGIONS 4
#define CHECKPOINTS 9
#define STORED_MAX 4096
#define CAPACITY (64u << 10)

struct region {
    int is_there;
    uint64_t number;
    uint64_t address;
    uint64_t length;
    uint64_t lower_length; /* in the layer below */
    uint64_t lower_address;
    int is_in_lower;
    uint8_t bytes[CAPACITY];
};
struct stored {
    unsigned checkpoint;
    uint32_t owner;
    uint64_t address;
    uint64_t length;
    uint8_t *bytes;
    int is_last; /* of its region */
};
struct model {
    struct vv_store *store;
    struct vv_dependency dependencies[CHECKPOINTS];
    struct region regions[RANKS][REGIONS];
    struct stored stored[STORED_MAX];
    unsigned stored_count;
    unsigned layers; /* of the newest checkpoint */
    struct vv_hash128 digests[CHECKPOINTS][RANKS];
    uint64_t layout[RANKS];
};
static struct model model;

static uint32_t home_of(uint32_t owner) {
    return owner < 2 ? 0 : 1;
}

static struct stored *remember(unsigned checkpoint, uint32_t owner, uint64_t address, const uint8_t *bytes,
                               uint64_t length) {
    assert_true(model.stored_count < STORED_MAX);
    struct stored *stored = &model.stored[model.stored_count++];
    *stored = (struct stored){checkpoint, owner, address, length, malloc(length), 0};
    memcpy(stored->bytes, bytes, length);
    return stored;
}

/* Blocks of a few extents each, in any order, to the home writer and to its partner. */
static void store_new(struct vv_pack_writer *pack, uint32_t writer, unsigned first) {
    unsigned count = model.stored_count - first, order[STORED_MAX];
    uint8_t *raw = malloc((size_t)8 * CAPACITY);
    for (unsigned i = 0; i < count; i++) {
        unsigned j = (unsigned)random_below(i + 1);
        order[i] = order[j];
        order[j] = first + i;
    }
    (void)writer;
    for (unsigned i = 0; i < count;) {
        struct vv_extent extents[8];
        unsigned n = 0, want = 1 + (unsigned)random_below(8);
        int is_aligned = 1;
        size_t size = 0;
        for (; n < want && i < count; n++, i++) {
            const struct stored *stored = &model.stored[order[i]];
            extents[n] = (struct vv_extent){stored->owner, stored->address, (uint32_t)stored->length};
            memcpy(raw + size, stored->bytes, stored->length);
            size += stored->length;
            is_aligned &= stored->address % VV_GRANULE == 0 && (stored->is_last || stored->length % VV_GRANULE == 0);
        }
        put_block(model.store, pack, extents, n, raw, (int)random_below(3), is_aligned);
    }
    free(raw);
}

static void fill_bytes(uint8_t *out, size_t size) {
    int is_dull = random_below(2) == 0;
    for (size_t i = 0; i < size; i++)
        out[i] = is_dull ? (uint8_t)(i / 64) : (uint8_t)random_below(256);
}

static struct vv_place place_of(const struct stored *stored, unsigned checkpoint, uint64_t delta) {
    return (struct vv_place){.dependency = stored->checkpoint == checkpoint ? 0 : stored->checkpoint + 1,
                             .owner = stored->owner,
                             .address = stored->address + delta};
}

/* One run at the writer's offset; changes the model's bytes to what the run means. */
static void random_run(struct mf *mf, struct region *region, uint32_t owner, unsigned checkpoint,
                       unsigned stored_before, int is_overlay) {
    uint64_t at = mf->writer.offset, left = region->length - at;
    uint64_t length = 1 + random_below(left < 9000 ? left : 9000);
    if (random_below(2) && left >= VV_GRANULE)
        length = (1 + random_below(left < 12288 ? left / VV_GRANULE : 3)) * VV_GRANULE;
    uint8_t *bytes = region->bytes + at;
    const struct stored *from = stored_before ? &model.stored[random_below(stored_before)] : NULL;
    struct vv_run run = {.offset = at};
    switch (random_below(8)) {
    case 0:
        memset(bytes, 0, length);
        mf_run(mf, VV_RUN_ZERO, length, NULL, 0);
        return;
    case 1:
        if (from) {
            uint64_t delta = random_below(from->length), rest = from->length - delta;
            length = length < rest ? length : rest;
            memcpy(bytes, from->bytes + delta, length);
            struct vv_place place = place_of(from, checkpoint, delta);
            mf_run(mf, VV_RUN_FROM, length, &place, 0);
            return;
        }
        break;
    case 2:
        if (from) {
            length = length < from->length ? length : from->length;
            memcpy(bytes, from->bytes, length);
            run.kind = VV_RUN_FROM_ANY;
            run.length = length;
            run.place_count = 2;
            run.places[0] = run.places[1] = place_of(from, checkpoint, 0);
            run.places[random_below(2)].copy = 1;
            vv_manifest_run(&mf->writer, &run);
            return;
        }
        break;
    case 3:
        if (from) {
            uint64_t piece = 1 + random_below(from->length < length ? from->length : length);
            for (uint64_t i = 0; i < length; i++)
                bytes[i] = from->bytes[i % piece];
            struct vv_place place = place_of(from, checkpoint, 0);
            mf_run(mf, VV_RUN_REPEATED, length, &place, piece);
            return;
        }
        break;
    case 4:
    case 5:
    case 6:
        if (is_overlay && region->is_in_lower && at < region->lower_length) {
            uint64_t rest = region->lower_length - at;
            mf_run(mf, VV_RUN_KEEP, length < rest ? length : rest, NULL, 0);
            return;
        }
        break;
    }
    fill_bytes(bytes, length);
    remember(checkpoint, owner, region->address + at, bytes, length)->is_last = length == left;
    mf_run(mf, VV_RUN_HERE, length, NULL, 0);
}

static void describe(struct mf *mf, struct region *region, uint32_t owner, unsigned checkpoint, unsigned before,
                     int is_overlay, unsigned index) {
    char name[32];
    if (is_overlay && region->is_in_lower && region->is_there && random_below(4) == 0)
        return; /* unchanged */
    if (is_overlay && region->is_in_lower && random_below(8) == 0 && region->is_there) {
        struct vv_region_entry entry = {.number = region->number, .flags = VV_REGION_REMOVED};
        vv_manifest_region(&mf->writer, &entry, 0);
        region->is_there = region->is_in_lower = 0;
        return;
    }
    int is_new = !region->is_there;
    if (is_new) {
        region->is_there = 1;
        region->number += 100; /* never used before */
    }
    int is_moved = is_new || !is_overlay || random_below(4) == 0;
    if (is_moved) { /* to an address that was never used */
        region->address = model.layout[owner];
        model.layout[owner] += CAPACITY;
    }
    region->length = 1 + random_below(CAPACITY);
    snprintf(name, sizeof name, "region %u of %llu", index, (unsigned long long)region->number);
    mf_region(mf, region->number, name, region->address, region->length, is_moved ? VV_REGION_DESCRIBED : 0);
    while (mf->writer.offset < region->length)
        random_run(mf, region, owner, checkpoint, before, is_overlay);
    vv_manifest_region_end(&mf->writer, region_digest(model.store, region->bytes, region->length));
}

static int by_number(const void *a, const void *b) {
    const struct region *const *x = a, *const *y = b;
    return (*x)->number < (*y)->number ? -1 : (*x)->number > (*y)->number;
}

static void write_owner(struct mf *mf, uint32_t owner, unsigned checkpoint, unsigned before, int is_overlay) {
    struct region *order[REGIONS];
    mf_begin(mf, owner, 0);
    for (unsigned i = 0; i < REGIONS; i++) {
        order[i] = &model.regions[owner][i];
        if (!order[i]->is_there && !order[i]->is_in_lower)
            order[i]->number = order[i]->number ? order[i]->number : i + 1;
    }
    /* New numbers are one hundred higher: entries in the order they will have. */
    for (unsigned i = 0; i < REGIONS; i++)
        order[i]->number += order[i]->is_there ? 0 : 100;
    qsort(order, REGIONS, sizeof order[0], by_number);
    for (unsigned i = 0; i < REGIONS; i++) {
        order[i]->number -= order[i]->is_there ? 0 : 100;
        describe(mf, order[i], owner, checkpoint, before, is_overlay, (unsigned)(order[i] - model.regions[owner]));
    }
    for (unsigned i = 0; i < REGIONS; i++) {
        struct region *region = &model.regions[owner][i];
        region->is_in_lower = region->is_there;
        region->lower_length = region->length;
        mf->head.regions += (uint64_t)region->is_there;
        mf->head.protected_bytes += region->is_there ? region->length : 0;
    }
    mf->head.layout_bytes = model.layout[owner];
    mf->head.lower_count = is_overlay ? model.layers : 0;
    for (unsigned i = 0; i < mf->head.lower_count; i++) {
        unsigned lower = checkpoint - model.layers + i;
        mf->head.lower[i] = (struct vv_layer_ref){lower + 1, home_of(owner), model.digests[lower][owner]};
    }
}

static void write_checkpoint(unsigned checkpoint, uint64_t part_size) {
    struct vv_attempt attempt = attempt_at(1 + checkpoint / 4, 10 + checkpoint);
    int is_overlay = model.layers > 0 && model.layers < 4 && random_below(8) != 0;
    unsigned before = model.stored_count;
    static struct mf mf[RANKS];
    uint64_t bytes[WRITERS] = {0}, regions[WRITERS] = {0};
    for (uint32_t owner = 0; owner < RANKS; owner++) {
        write_owner(&mf[owner], owner, checkpoint, before, is_overlay);
        bytes[home_of(owner)] += mf[owner].head.protected_bytes;
        regions[home_of(owner)] += mf[owner].head.regions;
    }
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        struct vv_pack_options options = {.writer = writer,
                                          .writers = WRITERS,
                                          .ranks = RANKS,
                                          .first_owner = writer ? 2 : 0,
                                          .owners = writer ? 1 : 2,
                                          .partner_count = 1,
                                          .partners = {1 - writer},
                                          .part_size = part_size};
        struct vv_pack_writer *pack = begin_pack(model.store, attempt, &options);
        store_new(pack, writer, before);
        assert_ok(vv_pack_dependencies(pack, model.dependencies, checkpoint, &failure));
        for (uint32_t owner = options.first_owner; owner < options.first_owner + options.owners; owner++)
            mf_store(&mf[owner], pack, &model.digests[checkpoint][owner]);
        assert_ok(vv_pack_seal(pack, bytes[writer], regions[writer], NULL, &failure));
    }
    commit(model.store, attempt, &model.dependencies[checkpoint]);
    model.layers = is_overlay ? model.layers + 1 : 1;
}

static void check_windows(struct vv_fetch *fetch, const struct vv_run *run, const uint8_t *expected) {
    uint64_t skip = random_below(run->length), size = 1 + random_below(run->length - skip);
    uint8_t *out = malloc(size + 2);
    memset(out, 0xa5, size + 2);
    assert_ok(vv_fetch_add(fetch, run, skip, size, out + 1, 0, &failure));
    assert_true(run->kind == VV_RUN_ZERO || vv_fetch_pending(fetch) > 0);
    assert_ok(vv_fetch_run(fetch, &failure));
    assert_memory_equal(out + 1, expected + skip, size);
    assert_int_equal(out[0], 0xa5);
    assert_int_equal(out[size + 1], 0xa5);
    free(out);
}

static void check_owner(struct vv_view *view, struct vv_fetch *fetch, uint32_t owner) {
    struct vv_recipe *recipe;
    struct vv_recipe_region region;
    struct vv_recipe_layers layers;
    uint8_t *out = malloc(CAPACITY);
    unsigned found = 0;
    int rc;
    for (int windows = 0; windows < 2; windows++) {
        assert_ok(vv_recipe_open(view, owner, &recipe, &failure));
        vv_recipe_layers(recipe, &layers);
        assert_int_equal(layers.count, model.layers);
        assert_int_equal(layers.layout_bytes, model.layout[owner]);
        while ((rc = vv_recipe_next_region(recipe, &region, &failure)) > 0) {
            struct region *expected = NULL;
            struct vv_run run;
            for (unsigned i = 0; i < REGIONS; i++)
                if (model.regions[owner][i].is_there && model.regions[owner][i].number == region.number)
                    expected = &model.regions[owner][i];
            assert_non_null(expected);
            assert_true(region.number < layers.next_number);
            assert_int_equal(region.length, expected->length);
            assert_int_equal(region.address, expected->address);
            found++;
            if (!windows) {
                memset(out, 0x5a, CAPACITY);
                read_region(recipe, fetch, region.length, out);
                assert_ok(vv_fetch_run(fetch, &failure));
                assert_memory_equal(out, expected->bytes, region.length);
                struct vv_hash128 digest = region_digest(model.store, out, region.length);
                assert_true(vv_hash128_equal(digest, region.digest));
                continue;
            }
            while ((rc = vv_recipe_next_run(recipe, &run, &failure)) > 0 && random_below(10))
                check_windows(fetch, &run, expected->bytes + run.offset);
            assert_ok(rc);
        }
        assert_ok(rc);
        vv_recipe_close(recipe);
    }
    unsigned there = 0;
    for (unsigned i = 0; i < REGIONS; i++)
        there += (unsigned)model.regions[owner][i].is_there;
    assert_int_equal(found, 2 * there);
    free(out);
}

/* Several owners at once over one view, with a cache that can keep nothing that is not in use. */
struct reader {
    struct vv_view *view;
    uint32_t owner;
    pthread_t thread;
};

static void *read_owner(void *arg) {
    struct reader *reader = arg;
    struct vv_recipe *recipe;
    struct vv_recipe_region region;
    struct vv_fetch *fetch;
    struct vv_run run;
    struct varve_error error;
    uint8_t *out = malloc(CAPACITY);
    int is_right = vv_recipe_open(reader->view, reader->owner, &recipe, &error) == 0 &&
                   vv_fetch_create(reader->view, NULL, &fetch) == 0;
    while (is_right && vv_recipe_next_region(recipe, &region, &error) > 0) {
        while (is_right && vv_recipe_next_run(recipe, &run, &error) > 0)
            is_right = vv_fetch_add(fetch, &run, 0, run.length, out + run.offset, 0, &error) == 0;
        is_right = is_right && vv_fetch_run(fetch, &error) == 0;
        struct vv_hash128 digest = region_digest(model.store, out, region.length);
        is_right = is_right && vv_hash128_equal(digest, region.digest);
    }
    vv_fetch_destroy(fetch);
    vv_recipe_close(recipe);
    free(out);
    return is_right ? reader : NULL;
}

static void check_threads(struct vv_view *view) {
    struct reader readers[2 * RANKS];
    void *result;
    for (uint32_t i = 0; i < 2 * RANKS; i++) {
        readers[i] = (struct reader){.view = view, .owner = i % RANKS};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_owner, &readers[i]), 0);
    }
    for (uint32_t i = 0; i < 2 * RANKS; i++) {
        assert_int_equal(pthread_join(readers[i].thread, &result), 0);
        assert_non_null(result);
    }
}

static void check_newest(unsigned checkpoint, struct vv_pool *pool) {
    uint32_t generation = 1 + checkpoint / 4;
    struct vv_pack_cache *cache = NULL;
    struct vv_view *view;
    struct vv_fetch *fetch;
    if (checkpoint % 2)
        assert_ok(vv_pack_cache_create(1, &cache));
    assert_ok(vv_view_open_with(model.store, NAME, generation, 10 + checkpoint, cache, &view, &failure));
    assert_ok(vv_fetch_create(view, pool, &fetch));
    for (uint32_t owner = 0; owner < RANKS; owner++)
        check_owner(view, fetch, owner);
    vv_fetch_destroy(fetch);
    check_threads(view);
    if (cache)
        assert_int_equal(vv_pack_cache_bytes(cache), 0);
    vv_view_close(view);
    vv_pack_cache_destroy(cache);
}

static void one_series(uint64_t part_size, struct vv_pool *pool) {
    memset(&model, 0, sizeof model);
    model.store = new_store();
    for (unsigned i = 0; i < CHECKPOINTS; i++) {
        write_checkpoint(i, part_size);
        check_newest(i, pool);
    }
    assert_sound(model.store, pool);
    for (unsigned i = 0; i < model.stored_count; i++)
        free(model.stored[i].bytes);
    vv_store_close(model.store);
}

static void test_series(void **state) {
    (void)state;
    struct vv_pool *pool;
    assert_ok(vv_pool_create(3, 16, NULL, &pool));
    for (unsigned i = 0; i < 12; i++)

        one_series(i % 3 == 0 ? 1u << 30 : i % 3 == 1 ? 5000 : 1, i % 2 ? pool : NULL);
    vv_pool_destroy(pool);
}

int main(void) {
    random_begin();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_series)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
