/* A job of three ranks with all kinds of regions, and how a copy of its checkpoints is compared with them. */
#ifndef COPIED_H
#define COPIED_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define COPIED_RANKS 3
#define COPIED_SETTINGS "part_size=1M,codec=lz4,log=error" /* a copy has several packs then */

struct copied_memory {
    uint8_t own[1 << 20];
    uint8_t common[256 << 10];
    double field[32][33];
    double lossy[64][100];
    uint8_t small[13], short_end[10001], zeros[65536], pattern[40000];
};

static inline void copied_change(struct copied_memory *memory, uint32_t rank, int step) {
    uint64_t state = 77 + (uint64_t)step;
    for (size_t i = 0; i < sizeof memory->common; i += 8) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        if (step == 0 || i / 4096 % 13 == (size_t)step % 13)
            memcpy(memory->common + i, &state, 8);
    }
    state += (uint64_t)rank * 1000;
    for (size_t i = 0; i < sizeof memory->own; i += 8) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        if (step == 0 || i / 4096 % 17 == (size_t)step % 17)
            memcpy(memory->own + i, &state, 8);
    }
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 100; j++)
            memory->lossy[i][j] = step * 0.25 + i * 0.5 + j / 7.0 + rank;
    memory->field[step % 32][step % 33] = step + 0.5;
    memory->small[step % 13]++;
    memory->short_end[10000 - step % 7] = (uint8_t)(step + 1);
    memory->zeros[(step * 4099) % 65536] = (uint8_t)step;
    for (size_t i = 0; i < sizeof memory->pattern; i++)
        memory->pattern[i] = (uint8_t)((i % 64) * 3 + (size_t)(step / 5));
}

static inline struct varve_session *copied_open(struct varve_comm *comm, const char *store, const char *settings,
                                                struct copied_memory *memory) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    struct varve_array field = {.size = sizeof field,
                                .type = VARVE_F64,
                                .dims = 2,
                                .dim = {{32, 32 * comm->rank, 32 * COPIED_RANKS}, {33, 0, 33}}};
    struct varve_array lossy = {.size = sizeof lossy,
                                .type = VARVE_F64,
                                .dims = 2,
                                .dim = {{64, 64 * comm->rank, 64 * COPIED_RANKS}, {100, 0, 100}},
                                .lossy = "zfp",
                                .bound = 1e-3};
    options.settings = settings;
    if (varve_open_comm(group_comm(comm), store, "job", &options, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    int rc = varve_protect(session, "own", memory->own, sizeof memory->own);
    rc = rc ? rc : varve_protect(session, "common", memory->common, sizeof memory->common);
    rc = rc ? rc : varve_protect_array(session, "field", memory->field, &field);
    rc = rc ? rc : varve_protect_array(session, "lossy", memory->lossy, &lossy);
    rc = rc ? rc : varve_protect(session, "small", memory->small, sizeof memory->small);
    rc = rc ? rc : varve_protect(session, "short", memory->short_end, sizeof memory->short_end);
    rc = rc ? rc : varve_protect(session, "zeros", memory->zeros, sizeof memory->zeros);
    rc = rc ? rc : varve_protect(session, "pattern", memory->pattern, sizeof memory->pattern);
    if (rc)
        group_fail(comm, "protect: %s", varve_session_error(session)->text);
    return session;
}

struct copied_job {
    const char *store, *settings;
    int count; /* of checkpoints, from version 0 on */
};

static inline void copied_rank(struct varve_comm *comm, void *arg) {
    const struct copied_job *job = arg;
    static struct copied_memory memory;
    struct varve_session *session = copied_open(comm, job->store, job->settings, &memory);
    for (int step = 0; step < job->count; step++) {
        char text[16];
        copied_change(&memory, comm->rank, step);
        snprintf(text, sizeof text, "%d", step);
        if (varve_attribute(session, "step", text) != 0 || varve_checkpoint(session, step) != 0 ||
            varve_wait(session) != 0)
            group_fail(comm, "checkpoint %d: %s", step, varve_session_error(session)->text);
    }
    varve_close(session);
}

static inline void copied_make(const char *store, const char *settings, int count) {
    struct copied_job job = {store, settings, count};
    group_must_run(COPIED_RANKS, copied_rank, &job, NULL, settings);
}

static inline struct varve_store *copied_tool(const char *address) {
    struct varve_store *tool = NULL;
    struct varve_error error;
    if (varve_store_open(address, COPIED_SETTINGS, &tool, &error) != 0)
        fail_msg("cannot open %s: %s", address, error.text);
    return tool;
}

struct copied_text {
    char bytes[1 << 15];
    size_t used;
};

static inline void copied_say(struct copied_text *text, const char *word, uint64_t number) {
    text->used += (size_t)snprintf(text->bytes + text->used, sizeof text->bytes - text->used, "%s %llu, ", word,
                                   (unsigned long long)number);
    assert_true(text->used < sizeof text->bytes);
}

static inline int copied_region(void *arg, const struct varve_stored_region *region) {
    struct copied_text *text = arg;
    copied_say(text, region->name, region->rank);
    copied_say(text, region->type, region->bytes);
    copied_say(text, region->array->lossy ? region->array->lossy : "exact", (uint64_t)(region->array->bound * 1e6));
    copied_say(text, "distribution", (uint64_t)region->distribution);
    for (unsigned i = 0; i < region->array->dims; i++) {
        copied_say(text, "of", region->array->dim[i].global);
        copied_say(text, "from", region->array->dim[i].first);
        copied_say(text, "has", region->array->dim[i].local);
    }
    return 0;
}

static inline int copied_attribute(void *arg, const char *name, const char *value) {
    copied_say(arg, name, strtoull(value, NULL, 10));
    return 0;
}

static inline void copied_tell(struct varve_store *tool, const struct varve_which *which, struct copied_text *text) {
    struct varve_checkpoint_detail detail;
    struct varve_error error = {.text = ""};
    text->used = 0;
    if (varve_store_show(tool, which, &detail, copied_region, text, &error) != 0 ||
        varve_store_attributes(tool, which, copied_attribute, text, &error) != 0)
        fail_msg("show: %s", error.text);
    copied_say(text, detail.program, detail.info.time_ns);
    copied_say(text, "ranks", detail.info.ranks);
}

/* The same bytes, regions, types, arrays, attributes, ranks, time and program. */
static inline void copied_check(const char *one, const char *other, const char *name, int version, const char *when) {
    static struct copied_text texts[2];
    struct varve_store *tools[2] = {copied_tool(one), copied_tool(other)};
    struct varve_which which = {.name = "job", .version = version}, copy = {.name = name, .version = version};
    struct varve_compare_options options = {.size = sizeof options, .second = tools[1]};
    struct varve_error error = {.text = ""};
    copied_tell(tools[0], &which, &texts[0]);
    copied_tell(tools[1], &copy, &texts[1]);
    if (strcmp(texts[0].bytes, texts[1].bytes) != 0)
        fail_msg("%s: %s\nis not %s", when, texts[1].bytes, texts[0].bytes);
    int rc = varve_store_compare(tools[0], &which, &copy, &options, NULL, &error);
    if (rc != 0)
        fail_msg("%s: version %d differs: %d %s", when, version, rc, error.text);
    varve_store_close(tools[0]);
    varve_store_close(tools[1]);
}

static inline int copied_count_one(void *arg, const struct varve_checkpoint_info *info) {
    (void)info;
    ++*(int *)arg;
    return 0;
}

/* Checkpoints of the name that are there, and no object is damaged. 0 also if there is no store yet. (An attempt that
 * lacks only its record counts as lost for verify; the next copy, or repair, makes the record.) */
static inline int copied_count(const char *address, const char *name, const char *when) {
    struct varve_verify_options options = {.size = sizeof options};
    struct varve_verify_result result;
    struct varve_store *tool = NULL;
    struct varve_error error = {.text = ""};
    int count = 0, rc = varve_store_open(address, COPIED_SETTINGS, &tool, &error);
    if (rc == VARVE_NO_STORE)
        return 0;
    rc = rc ? rc : varve_store_list(tool, name, copied_count_one, &count, &error);
    if (rc == VARVE_NO_CHECKPOINT)
        rc = 0;
    rc = rc ? rc : varve_store_verify(tool, &options, &result, &error);
    if (rc != 0 || result.damaged_objects > 0)
        fail_msg("%s: %s: %d %s", when, address, rc, error.text);
    varve_store_close(tool);
    return count;
}

#endif
