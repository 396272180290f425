/* The whole library against a model: random regions that grow, shrink, move, come and go, get duplicates, zeros and
 * scattered changes; checkpoints that fail now and then; restarts from any version. The model keeps every version's
 * bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "backend/backend.h"
#include "base/fault.h"
#include "test.h"

#define REGIONS 6
#define VERSIONS 64
#define LARGEST (96 * 1024)

struct bytes {
    uint8_t *data; /* NULL: not protected */
    size_t size;
};
struct model {
    struct bytes now[REGIONS];
    struct bytes then[VERSIONS][REGIONS];
    int is_saved[VERSIONS];
    int64_t last;
};

static uint64_t state;

static uint32_t draw(uint32_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static const char *name_of(int region) {
    static const char *const names[REGIONS] = {"a", "b", "c", "d", "e", "f"};
    return names[region];
}

static void scribble(struct bytes *b) {
    if (b->size == 0)
        return;
    uint32_t kind = draw(6);
    size_t at = draw((uint32_t)b->size), size = 1 + draw((uint32_t)(b->size - at));
    if (kind == 0)
        memset(b->data + at, 0, size);
    else if (kind == 1) /* one value again and again: repeated chunks */
        memset(b->data + at, (int)draw(256), size);
    else if (kind == 2) { /* a piece moves within the region */
        size_t to = draw((uint32_t)b->size);
        size_t most = b->size - (at > to ? at : to);
        memmove(b->data + to, b->data + at, size < most ? size : most);
    } else
        for (size_t i = 0; i < size && i < 20000; i += 1 + draw(kind == 3 ? 1 : 5000))
            b->data[at + i] = (uint8_t)draw(256);
}

/* Another size, at another place, the old bytes kept as far as they fit, the rest arbitrary. */
static void resize(struct bytes *b, size_t size) {
    size_t slack = draw(64);
    uint8_t *data = malloc(size + 64);
    memset(data, (int)draw(2) * 7, size + 64);
    if (b->data)
        memcpy(data, b->data, size < b->size ? size : b->size);
    (void)slack;
    free(b->data);
    b->data = data;
    b->size = size;
}

/* Sometimes it is said what a region holds, right or wrong: all bytes must come back whatever was said. */
static void describe(struct varve_session *session, int region, size_t size) {
    static const struct {
        int type;
        uint32_t element;
    } types[] = {{VARVE_U8, 1}, {VARVE_I16, 2}, {VARVE_F32, 4}, {VARVE_F64, 8}, {VARVE_U64, 8}, {VARVE_C128, 16}};
    uint32_t which = draw(12);
    if (which >= sizeof types / sizeof types[0])
        return;
    uint64_t row = draw(3) != 0 ? 1 : 1 + draw(200);
    struct varve_array array = {.size = sizeof array,
                                .type = types[which].type,
                                .dims = 2,
                                .dim = {{size / types[which].element / row, 0, 0}, {row, 0, 0}}};
    assert_int_equal(varve_describe(session, name_of(region), &array), 0);
}

static void change(struct model *model, struct varve_session *session) {
    for (uint32_t n = draw(5); n > 0; n--) {
        int r = (int)draw(REGIONS);
        struct bytes *b = &model->now[r];
        uint32_t what = draw(10);
        if (what == 0 && b->data) {
            assert_int_equal(varve_unprotect(session, name_of(r)), 0);
            free(b->data);
            b->data = NULL;
            continue;
        }
        if (!b->data || what == 1)
            resize(b, draw(3) ? draw(LARGEST) : draw(5) * 4096);
        else if (what == 2) { /* a copy of another region */
            const struct bytes *other = &model->now[draw(REGIONS)];
            if (other->data && other != b) {
                resize(b, other->size);
                memcpy(b->data, other->data, other->size);
            }
        } else
            scribble(b);
        assert_int_equal(varve_protect(session, name_of(r), b->data, b->size), 0);
        describe(session, r, b->size);
    }
}

static void remember(struct model *model, int64_t version) {
    for (int r = 0; r < REGIONS; r++) {
        struct bytes *b = &model->then[version][r];
        free(b->data);
        *b = (struct bytes){NULL, 0};
        if (!model->now[r].data)
            continue;
        b->size = model->now[r].size;
        b->data = malloc(b->size + 1);
        memcpy(b->data, model->now[r].data, b->size);
    }
    model->is_saved[version] = 1;
    model->last = version;
}

static int protect_stored(void *arg, const struct varve_region_info *info) {
    struct model *model = arg;
    int r = info->name[0] - 'a';
    resize(&model->now[r], info->bytes);
    return 0;
}

/* Protect what the version holds, fill it, compare. */
static void restore(struct model *model, struct varve_session *session, int64_t version, int64_t expect) {
    int64_t got = -7;
    for (int r = 0; r < REGIONS; r++) {
        varve_unprotect(session, name_of(r));
        free(model->now[r].data);
        model->now[r] = (struct bytes){NULL, 0};
    }
    assert_int_equal(varve_stored(session, version, protect_stored, model, &got), 0);
    assert_int_equal(got, expect);
    for (int r = 0; r < REGIONS; r++)
        if (model->now[r].data)
            assert_int_equal(varve_protect(session, name_of(r), model->now[r].data, model->now[r].size), 0);
    got = -7;
    if (varve_restart(session, version, &got) != 0)
        fail_msg("restart of %lld: %s", (long long)version, varve_session_error(session)->text);
    assert_int_equal(got, expect);
    for (int r = 0; r < REGIONS; r++) {
        const struct bytes *b = &model->then[expect][r];
        assert_int_equal(b->data != NULL, model->now[r].data != NULL);
        if (!b->data)
            continue;
        assert_int_equal(b->size, model->now[r].size);
        assert_memory_equal(b->data, model->now[r].data, b->size);
    }
}

static void save(struct model *model, struct varve_session *session, int64_t version) {
#ifdef VARVE_FAULTS
    static const char *const points[] = {"engine.save.after_blocks=error:5", "engine.save.before_seal=error:28",
                                         "engine.save.before_commit=error:5"};
    int is_failing = draw(4) == 0;
    if (is_failing)
        vv_fault_set(points[draw(3)]);
    int rc = varve_checkpoint(session, version);
    if (rc == 0)
        rc = varve_wait(session);
    vv_fault_set(NULL);
    if (is_failing) {
        assert_true(rc < 0);
        assert_true(strlen(varve_session_error(session)->text) > 0);
        return;
    }
#else
    int rc = varve_checkpoint(session, version);
#endif
    if (rc)
        fail_msg("checkpoint %lld: %s", (long long)version, varve_session_error(session)->text);
    assert_int_equal(varve_wait(session), 0);
    remember(model, version);
}

static void count_findings(void *arg, int level, const char *key, const char *text) {
    if (level < 2) {
        print_error("verify: %s: %s\n", key, text);
        ++*(int *)arg;
    }
}

static void verify(const char *uri) {
    struct varve_store *store;
    struct varve_error error = {0};
    int findings = 0;
    struct varve_verify_options options = {.size = sizeof options, .finding = count_findings, .arg = &findings};
    struct varve_verify_result result;
    assert_int_equal(varve_store_open(uri, NULL, &store, &error), 0);
    if (varve_store_verify(store, &options, &result, &error) != 0)
        fail_msg("verify: %s", error.text);
    assert_int_equal(findings, 0);
    varve_store_close(store);
}

static void run(const char *uri, const char *settings) {
    static struct model model;
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error = {0};
    char all[128];
    snprintf(all, sizeof all, "keep=all,%s", settings); /* any version may be wanted back */
    options.settings = all;
    memset(&model, 0, sizeof model);
    model.last = -1;
    if (varve_open(uri, "model", &options, &session, &error) != 0)
        fail_msg("open: %s", error.text);
    int64_t next = 0;
    while (next < VERSIONS) {
        change(&model, session);
        if (draw(3))
            save(&model, session, next++);
        if (draw(12) == 0 && model.last >= 0) { /* die and come back */
            varve_close(session);
            assert_int_equal(varve_open(uri, "model", &options, &session, &error), 0);
            restore(&model, session, VARVE_LATEST, model.last);
        } else if (draw(25) == 0 && model.last >= 0) { /* go back in the middle of a session */
            int64_t version = draw((uint32_t)model.last + 1);
            if (model.is_saved[version])
                restore(&model, session, version, version);
        }
    }
    for (int64_t v = 0; v < VERSIONS; v++)
        if (model.is_saved[v])
            restore(&model, session, v, v);
    varve_close(session); /* reports the last checkpoint, which may have been made to fail */
    verify(uri);
    for (int r = 0; r < REGIONS; r++) {
        free(model.now[r].data);
        for (int v = 0; v < VERSIONS; v++)
            free(model.then[v][r].data);
    }
}

static void model_holds(void **unused) {
    static const char *const settings[] = {"",
                                           "codec=none,threads=0",
                                           "codec=zstd,block_size=64K",
                                           "codec=lz4,part_size=1M",
                                           "table_share=0",
                                           "block_size=64K",
                                           "codec=size,block_size=64K",
                                           "codec=fpzip",
                                           "codec=zfp,block_size=64K",
                                           "codec=bitshuffle-zstd,threads=0",
                                           "codec=delta-lz4",
                                           "codec=xor-zstd"};
    (void)unused;
    unsigned rounds = 24;
    const char *scale = getenv("TEST_SCALE");
    if (scale && atoi(scale) > 0)
        rounds = rounds * (unsigned)atoi(scale) / 100 + 1;
    const char *seed = getenv("TEST_SEED");
    uint64_t first = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)first);
    for (unsigned i = 0; i < rounds; i++) {
        char uri[64];
        state = first + i;
        snprintf(uri, sizeof uri, "mem://model-%u", i);
        run(uri, settings[i % (sizeof settings / sizeof settings[0])]);
        vv_mem_drop(uri + strlen("mem://"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(model_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
