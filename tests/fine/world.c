#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_inspect.h>

#include "backend/backend.h"
#include "test.h"

static const char *const names[WORLD_REGIONS] = {"a", "b", "c"};

void world_make(struct world *world, const char *address, const char *settings, size_t spare_size) {
    memset(world, 0, sizeof *world);
    snprintf(world->address, sizeof world->address, "%s", address);
    snprintf(world->settings, sizeof world->settings, "%s", settings);
    world->last = -1;
    world->spare_size = spare_size;
    world->spare = spare_size ? calloc(1, spare_size) : NULL;
    world_fill(world);
    world_open(world);
}

/* Failures are made on purpose. */
static void say_nothing(void *arg, int level, const char *line) {
    (void)arg, (void)level, (void)line;
}

void world_open(struct world *world) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    char all[sizeof world->settings + 16];
    snprintf(all, sizeof all, "keep=all,%s", world->settings);
    options.settings = all;
    options.log = say_nothing;
    if (varve_open(world->address, "fine", &options, &world->session, &error) != 0)
        fail_msg("open %s with %s: %s", world->address, world->settings, error.text);
    world_protect(world);
}

void world_fill(struct world *world) {
    for (unsigned i = 0; i < WORLD_REGIONS; i++) {
        struct piece *piece = &world->pieces[i];
        piece_free(piece);
        piece_make(piece, edits_draw(WORLD_LARGEST + 1), WORLD_LARGEST);
        piece_noise(piece, 0, piece->size);
    }
}

void world_protect(struct world *world) {
    for (unsigned i = 0; i < WORLD_REGIONS; i++) {
        assert_int_equal(varve_protect(world->session, names[i], world->pieces[i].data, world->pieces[i].size), 0);
        assert_int_equal(varve_fine(world->session, names[i], world->chunks[i]), 0);
    }
    if (world->spare)
        assert_int_equal(varve_protect(world->session, "spare", world->spare, world->spare_size), 0);
}

static void remember(struct world *world, int64_t version) {
    struct version *then = &world->then[version];
    for (unsigned i = 0; i < WORLD_REGIONS; i++) {
        piece_free(&then->pieces[i]);
        piece_make(&then->pieces[i], world->pieces[i].size, WORLD_LARGEST);
        memcpy(then->pieces[i].data, world->pieces[i].data, world->pieces[i].size);
    }
    then->is_saved = 1;
    world->last = version;
}

int world_save(struct world *world, int64_t version) {
    int rc = varve_checkpoint(world->session, version);
    if (rc == 0)
        rc = varve_wait(world->session);
    if (rc == 0)
        remember(world, version);
    return rc;
}

void world_restart(struct world *world, int64_t version) {
    const struct version *then = &world->then[version == VARVE_LATEST ? world->last : version];
    int64_t got = -7;
    for (unsigned i = 0; i < WORLD_REGIONS; i++) {
        world->pieces[i].size = then->pieces[i].size;
        memset(world->pieces[i].data, (int)edits_draw(256), WORLD_LARGEST);
    }
    world_protect(world);
    if (varve_restart(world->session, version, &got) != 0)
        fail_msg("restart of %lld (%s): %s", (long long)version, world->settings,
                 varve_session_error(world->session)->text);
    assert_int_equal(got, version == VARVE_LATEST ? world->last : version);
    for (unsigned i = 0; i < WORLD_REGIONS; i++)
        if (memcmp(world->pieces[i].data, then->pieces[i].data, then->pieces[i].size) != 0) {
            size_t at = 0;
            while (world->pieces[i].data[at] == then->pieces[i].data[at])
                at++;
            fail_msg("WRONG BYTES: version %lld, region %s of %zu, from byte %zu on (%s)", (long long)got, names[i],
                     then->pieces[i].size, at, world->settings);
        }
}

void world_close(struct world *world) {
    varve_close(world->session); /* reports the last checkpoint, which may have been made to fail */
    world->session = NULL;
}

/* A checkpoint that ran short of memory at the very end may be complete all the same. */
static void count_findings(void *arg, int level, const char *key, const char *text) {
    if (level < 2 && !strstr(text, "has no record")) {
        print_error("verify: %s: %s\n", key, text);
        ++*(int *)arg;
    }
}

static void verify(const char *address) {
    struct varve_store *store;
    struct varve_error error = {0};
    int findings = 0;
    struct varve_verify_options options = {.size = sizeof options, .finding = count_findings, .arg = &findings};
    struct varve_verify_result result;
    assert_int_equal(varve_store_open(address, NULL, &store, &error), 0);
    if (varve_store_verify(store, &options, &result, &error) != 0)
        fail_msg("verify: %s", error.text);
    assert_int_equal(findings, 0);
    varve_store_close(store);
}

void world_check_all(struct world *world) {
    for (int64_t version = 0; version < WORLD_VERSIONS; version++)
        if (world->then[version].is_saved)
            world_restart(world, version);
}

void world_end(struct world *world) {
    char name[128];
    if (world->session)
        world_close(world);
    verify(world->address);
    snprintf(name, sizeof name, "%s", world->address + strlen("mem://"));
    name[strcspn(name, "?")] = '\0';
    vv_mem_drop(name);
    for (unsigned i = 0; i < WORLD_REGIONS; i++) {
        piece_free(&world->pieces[i]);
        for (int v = 0; v < WORLD_VERSIONS; v++)
            piece_free(&world->then[v].pieces[i]);
    }
    free(world->spare);
}
