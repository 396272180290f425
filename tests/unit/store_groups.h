/* A store whose packs serve several ranks each, as the packs of a job that shares writers: ranks lie in turns in some
 * blocks and one after another in others, and one writer has given bytes away. Six ranks, two writers, two regions.
 * Version 1 is whole; version 2 has one granule of "u" anew, in turns smaller than a granule, and depends on 1. */
#ifndef TEST_STORE_GROUPS_H
#define TEST_STORE_GROUPS_H

#include "store_data.h"

#define GROUP 3u
#define GROUPS 2u
#define RANKS (GROUP * GROUPS)
#define G VV_GRANULE
#define U_BYTES (5u * G)
#define V_BYTES (3u * G + 100u)
#define LAYOUT (U_BYTES + V_BYTES)
#define TURN 1024u
#define CHANGED 2u /* the granule of "u" that version 2 has anew */

static uint8_t state_of[3][RANKS][LAYOUT]; /* by version */

static UNUSED void make_states(void) {
    random_state = 5;
    random_fill(&state_of[1][0][0], sizeof state_of[1]);
    for (uint32_t rank = 0; rank < RANKS; rank++) /* something to compress */
        memset(&state_of[1][rank][U_BYTES], (int)rank + 1, G);
    memcpy(state_of[2], state_of[1], sizeof state_of[2]);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        random_fill(&state_of[2][rank][CHANGED * G], G);
}

/* What is given away: all "v" of rank 1, and the second granule of rank 2's. */
static const struct vv_moved given[] = {
    {.extent = {1, U_BYTES, V_BYTES}, .length = V_BYTES, .writer = 1},
    {.extent = {2, U_BYTES + G, G}, .length = G, .writer = 1},
};

static int is_given_kept = 1; /* or the other writer has not stored it */

struct layout {
    struct vv_extent list[64];
    uint32_t count;
    uint8_t raw[64 * G];
    uint32_t size;
};

static UNUSED void lay(struct layout *layout, int version, uint32_t rank, uint32_t address, uint32_t length) {
    layout->list[layout->count++] = (struct vv_extent){rank, address, length};
    memcpy(layout->raw + layout->size, &state_of[version][rank][address], length);
    layout->size += length;
}

static UNUSED void put_layout(struct vv_store *store, struct vv_pack_writer *pack, struct layout *layout, int has_ids) {
    put_block(store, pack, layout->list, layout->count, layout->raw, VV_CODEC_ZSTD, has_ids);
    layout->count = layout->size = 0;
}

static UNUSED void put_whole(struct vv_store *store, struct vv_pack_writer *pack, uint32_t writer) {
    static struct layout layout;
    uint32_t first = writer * GROUP;
    for (uint32_t granule = 0; granule < U_BYTES / G; granule++)
        for (uint32_t i = 0; i < GROUP; i++)
            lay(&layout, 1, first + i, granule * G, G);
    put_layout(store, pack, &layout, 1);
    if (writer == 0) {
        lay(&layout, 1, 0, U_BYTES, V_BYTES);
        lay(&layout, 1, 2, U_BYTES, G);
        lay(&layout, 1, 2, U_BYTES + 2 * G, V_BYTES - 2 * G);
        put_layout(store, pack, &layout, 1);
        return;
    }
    for (uint32_t i = 0; i < GROUP; i++)
        lay(&layout, 1, first + i, U_BYTES, V_BYTES);
    put_layout(store, pack, &layout, 1);
    if (!is_given_kept)
        return;
    lay(&layout, 1, 2, U_BYTES + G, G);
    lay(&layout, 1, 1, U_BYTES, V_BYTES);
    put_layout(store, pack, &layout, 1);
}

static UNUSED void put_change(struct vv_store *store, struct vv_pack_writer *pack, uint32_t writer) {
    static struct layout layout;
    for (uint32_t at = 0; at < G; at += TURN)
        for (uint32_t i = 0; i < GROUP; i++)
            lay(&layout, 2, writer * GROUP + i, CHANGED * G + at, TURN);
    put_layout(store, pack, &layout, 0);
}

static UNUSED void put_recipe(struct vv_store *store, struct vv_pack_writer *pack, int version, uint32_t rank) {
    const uint8_t *state = state_of[version][rank];
    struct vv_place place = {.dependency = 1, .owner = rank};
    struct mf mf;
    mf_begin(&mf, rank, LAYOUT);
    mf_region(&mf, 1, "u", 0, U_BYTES, VV_REGION_DESCRIBED);
    if (version == 1) {
        mf_run(&mf, VV_RUN_HERE, U_BYTES, NULL, 0);
    } else {
        mf_run(&mf, VV_RUN_FROM, CHANGED * G, &place, 0);
        mf_run(&mf, VV_RUN_HERE, G, NULL, 0);
        place.address = (CHANGED + 1) * G;
        mf_run(&mf, VV_RUN_FROM, U_BYTES - (CHANGED + 1) * G, &place, 0);
    }
    vv_manifest_region_end(&mf.writer, region_digest(store, state, U_BYTES));
    mf_region(&mf, 2, "v", U_BYTES, V_BYTES, VV_REGION_DESCRIBED);
    place.address = U_BYTES;
    mf_run(&mf, version == 1 ? VV_RUN_HERE : VV_RUN_FROM, V_BYTES, version == 1 ? NULL : &place, 0);
    vv_manifest_region_end(&mf.writer, region_digest(store, state + U_BYTES, V_BYTES));
    mf.head.regions = 2;
    mf.head.protected_bytes = LAYOUT;
    mf_store(&mf, pack, NULL);
}

/* The packs of one version; dependency: of version 1, for version 2. */
static UNUSED void write_groups(struct vv_store *store, int version, const struct vv_dependency *dependency) {
    for (uint32_t writer = 0; writer < GROUPS; writer++) {
        struct vv_pack_options options = {.writer = writer,
                                          .writers = GROUPS,
                                          .ranks = RANKS,
                                          .first_owner = writer * GROUP,
                                          .owners = GROUP,
                                          .part_size = 1u << 30,
                                          .program = "groups"};
        if (dependency)
            options.parent = dependency->attempt;
        struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, (uint64_t)version), &options);
        if (version == 1)
            put_whole(store, pack, writer);
        else
            put_change(store, pack, writer);
        assert_ok(vv_pack_dependencies(pack, dependency, dependency ? 1 : 0, &failure));
        if (version == 1 && writer == 0)
            assert_ok(vv_pack_moved(pack, given, sizeof given / sizeof given[0], &failure));
        for (uint32_t i = 0; i < GROUP; i++)
            put_recipe(store, pack, version, writer * GROUP + i);
        assert_ok(vv_pack_seal(pack, GROUP * LAYOUT, GROUP * 2, NULL, &failure));
    }
}

#endif
