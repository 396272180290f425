#include "scenario.h"
#include "details.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "world.h"

#define NAME "job"
#define SETTINGS "keep=all,block_size=64K,part_size=1M,beat_seconds=1,dead_seconds=2,takeover_seconds=20"

struct run {
    const struct scenario *scenario;
    struct world world;
    struct varve_session *session;
    struct varve_store *store;
    const char *settings;
    int step;
    int64_t last_saved; /* -1: none */
    int warnings;
    struct world_shown shown;
};

static void note_line(void *arg, int level, const char *line) {
    struct run *run = arg;
    if (run && level <= 1)
        run->warnings++;
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "[%d] %s\n", level, line);
}

/* A call failed. That is all right where faults are to be lived with, if it says what happened. */
static void tolerate(const struct run *run, const char *what, int rc, const struct varve_error *error) {
    const struct scenario *scenario = run->scenario;
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "step %d: %s: %s: %s\n", run->step, what, varve_error_name(rc), error ? error->text : "");
    if (!scenario->is_tolerant)
        child_fail("step %d: %s failed: %s: %s", run->step, what, varve_error_name(rc), error ? error->text : "");
    if (error && (strlen(error->text) < 12 || error->code != rc))
        child_fail("step %d: %s failed with %s, but the text is \"%s\" and its code %d", run->step, what,
                   varve_error_name(rc), error->text, error->code);
    if (rc == VARVE_FENCED || (rc == VARVE_CORRUPT && !scenario->may_lie))
        child_fail("step %d: %s: one failure of the storage was taken for something else: %s: %s", run->step, what,
                   varve_error_name(rc), error ? error->text : "");
}

static void next_step(struct run *run) {
    const struct scenario *scenario = run->scenario;
    run->step++;
    if (scenario->step > 0)
        vv_fault_set(run->step == scenario->step ? scenario->point : NULL);
}

static void make_address(const struct run *run, int handle, int is_clean, char *out, size_t capacity) {
    const struct scenario *scenario = run->scenario;
    int has_fault = handle == scenario->handle && scenario->fault[0] && !is_clean;
    snprintf(out, capacity, "%s%s%s%s", strstr(scenario->folder, "://") ? "" : "file://", scenario->folder,
             has_fault ? "?fault=" : "", has_fault ? scenario->fault : "");
}

/* ---- the session ---- */

static void open_session(struct run *run, int handle, int is_clean) {
    char address[FOLDER_CAPACITY + 128], settings[256];
    struct varve_error error = {0};
    struct varve_options options = VARVE_OPTIONS_INIT;
    snprintf(settings, sizeof settings, SETTINGS ",threads=%d,on_error=%s%s", run->scenario->threads,
             run->scenario->on_error[0] ? run->scenario->on_error : "fail", run->settings);
    options.settings = settings;
    options.log = note_line;
    options.log_arg = run;
    next_step(run);
    for (int tries = 0; tries < 3; tries++) {
        make_address(run, handle, is_clean || tries > 0, address, sizeof address);
        int rc = varve_open(address, NAME, &options, &run->session, &error);
        if (rc == 0) {
            run->world.session = run->session;
            return;
        }
        run->session = NULL;
        tolerate(run, "open", rc, &error);
        vv_fault_set(NULL);
    }
    child_fail("step %d: the session cannot be opened although nothing is wrong any more: %s", run->step, error.text);
}

static void close_session(struct run *run) {
    next_step(run);
    int rc = varve_close(run->session);
    if (rc < 0)
        tolerate(run, "close", rc, NULL);
    run->session = NULL;
    world_clear(&run->world);
}

static void set_world(struct run *run, int64_t version) {
    int rc = world_set(&run->world, version);
    if (rc < 0)
        tolerate(run, "protect", rc, varve_session_error(run->session));
    if (rc < 0 && (rc = world_set(&run->world, version)) < 0)
        child_fail("step %d: protect fails twice: %s", run->step, varve_session_error(run->session)->text);
}

/* 0, or the version is not saved and the reason was told. */
static int try_save(struct run *run, int64_t version) {
    struct vv_details stats = {0};
    set_world(run, version);
    int warnings = run->warnings;
    int rc = varve_checkpoint(run->session, version);
    if (rc == 0)
        rc = varve_wait(run->session);
    if (rc < 0) {
        tolerate(run, "checkpoint", rc, varve_session_error(run->session));
        return rc;
    }
    if (vv_details_get(run->session, &stats) < 0 || stats.version != version)
        child_fail("step %d: the statistics are of version %" PRId64 ", not %" PRId64, run->step, stats.version,
                   version);
    if (stats.result == 0) {
        world_shown_add(&run->shown, &stats);
        child_tell(EVENT_SAVED, version);
        run->last_saved = version;
        return 0;
    }
    if (strcmp(run->scenario->on_error, "warn") != 0 || run->warnings == warnings)
        child_fail("step %d: checkpoint %" PRId64 " failed (%s) without a word", run->step, version,
                   varve_error_name(stats.result));
    tolerate(run, "checkpoint", stats.result, NULL);
    return stats.result;
}

/* Ask what there is, make room for it and read it back. */
static int try_restart(struct run *run, int64_t wanted, int64_t *got) {
    int64_t version = -1;
    int rc = varve_stored(run->session, wanted, NULL, NULL, &version);
    if (rc == 0)
        rc = world_garbage(&run->world, version);
    if (rc == 0)
        rc = varve_restart(run->session, wanted, got);
    if (rc == 0 && *got != version)
        child_fail("step %d: version %" PRId64 " was announced, %" PRId64 " came back", run->step, version, *got);
    return rc;
}

/* Returns the version, or -1 if there is none and none was saved. */
static int64_t come_back(struct run *run, int handle, int64_t wanted) {
    char text[256];
    int64_t got = -1;
    next_step(run);
    for (int tries = 0; tries < 4; tries++) {
        if (tries == 2) { /* this handle does not work any more */
            close_session(run);
            vv_fault_set(NULL);
            open_session(run, handle, 1);
        }
        int rc = try_restart(run, wanted, &got);
        if (rc == VARVE_NO_CHECKPOINT && run->last_saved < 0)
            return -1;
        if (rc < 0) {
            tolerate(run, "restart", rc, varve_session_error(run->session));
            continue;
        }
        if (world_compare(&run->world, got, text, sizeof text) < 0)
            child_fail("step %d: WRONG BYTES: %s", run->step, text);
        if (wanted == VARVE_LATEST && got < run->last_saved)
            child_fail("step %d: version %" PRId64 " was saved, but %" PRId64 " came back", run->step, run->last_saved,
                       got);
        return got;
    }
    child_fail("step %d: restart fails again and again: %s", run->step, varve_session_error(run->session)->text);
}

/* When it fails, the program goes on, or goes back to what there is and comes by once more: then nothing is in its way,
 * unless the storage failed for good. */
static void save(struct run *run, int handle, int64_t version) {
    const struct scenario *scenario = run->scenario;
    next_step(run);
    int rc = try_save(run, version);
    if (rc == 0 || !scenario->is_coming_again || run->last_saved < 0)
        return;
    vv_fault_set(NULL);
    if (come_back(run, handle, VARVE_LATEST) >= version)
        return; /* it exists all the same */
    rc = try_save(run, version);
    if (rc < 0 && !scenario->is_lasting)
        child_fail("step %d: version %" PRId64 " cannot be saved a second time: %s", run->step, version,
                   varve_error_name(rc));
}

/* ---- looking at the store ---- */

static void open_store(struct run *run, int handle) {
    char address[FOLDER_CAPACITY + 128];
    struct varve_error error = {0};
    next_step(run);
    for (int tries = 0; tries < 3; tries++) {
        make_address(run, handle, tries > 0, address, sizeof address);
        int rc = varve_store_open(address, "threads=0,log=error", &run->store, &error);
        if (rc == 0)
            return;
        run->store = NULL;
        tolerate(run, "open to look", rc, &error);
        vv_fault_set(NULL);
    }
    child_fail("step %d: the store cannot be opened although nothing is wrong any more: %s", run->step, error.text);
}

static void close_store(struct run *run) {
    varve_store_close(run->store);
    run->store = NULL;
}

static void forget(struct run *run, int64_t version) {
    struct varve_which which = {NAME, 0, version};
    struct varve_error error = {0};
    next_step(run);
    child_tell(EVENT_FORGETTING, version);
    int rc = varve_store_forget(run->store, &which, &error);
    if (rc < 0)
        tolerate(run, "forget", rc, &error);
}

static void prune(struct run *run) {
    struct varve_prune_result result;
    struct varve_error error = {0};
    next_step(run);
    int rc = varve_store_prune(run->store, NAME, 0, NULL, NULL, &result, &error);
    if (rc < 0 && rc != VARVE_NO_CHECKPOINT) /* before the name was claimed there is nothing to prune */
        tolerate(run, "prune", rc, &error);
}

struct found {
    int64_t versions[EVENTS_MAX];
    size_t count;
    int damage;
    int lost;
    char text[1024];
};

static int take_checkpoint(void *arg, const struct varve_checkpoint_info *checkpoint) {
    struct found *found = arg;
    if (found->count < EVENTS_MAX)
        found->versions[found->count++] = checkpoint->version;
    return checkpoint->is_damaged ? -EBADMSG : 0;
}

static int take_region(void *arg, const struct varve_stored_region *region) {
    (void)region;
    ++*(int *)arg;
    return 0;
}

static int take_difference(void *arg, const struct varve_difference *difference) {
    *(int *)arg += difference->what != 0;
    return 0;
}

struct reading {
    uint8_t *data;
    uint64_t size;
};

static int take_read(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct reading *reading = arg;
    if (!data)
        return 0;
    if (total != reading->size || offset > total || size > total - offset)
        return -ERANGE;
    memcpy(reading->data + offset, data, size);
    return 0;
}

static void take_finding(void *arg, int level, const char *key, const char *text) {
    struct found *found = arg;
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "finding %d %s: %s\n", level, key, text);
    found->damage += level == 0;
    found->lost += level == 1;
    size_t used = strlen(found->text);
    if (level < 2)
        snprintf(found->text + used, sizeof found->text - used, "%s: %s; ", key, text);
}

static void read_region(struct run *run, int64_t version) {
    const struct world *world = &run->world;
    struct varve_which which = {NAME, 0, version};
    struct varve_error error = {0};
    int64_t size = world_size(world, WORLD_GROW, version);
    struct reading reading = {malloc((size_t)size), (uint64_t)size};
    uint8_t *wanted = malloc((size_t)size);
    int rc = varve_store_read(run->store, &which, 0, "grow", 1, take_read, &reading, &error);
    if (rc < 0)
        tolerate(run, "read", rc, &error);
    world_fill(world, WORLD_GROW, version, wanted);
    if (rc == 0 && memcmp(wanted, reading.data, (size_t)size) != 0)
        child_fail("step %d: WRONG BYTES were read of version %" PRId64, run->step, version);
    free(wanted);
    free(reading.data);
}

static void look_closely(struct run *run, int64_t version, int64_t before) {
    struct varve_which which = {NAME, 0, version}, other = {NAME, 0, before};
    struct varve_checkpoint_detail detail;
    struct varve_store_totals totals;
    struct varve_error error = {0};
    int count = 0;
    next_step(run);
    int rc = varve_store_show(run->store, &which, &detail, take_region, &count, &error);
    if (rc < 0)
        tolerate(run, "show", rc, &error);
    next_step(run);
    read_region(run, version);
    next_step(run);
    if ((rc = varve_store_diff(run->store, &which, &other, take_difference, &count, &error)) < 0)
        tolerate(run, "diff", rc, &error);
    next_step(run);
    if ((rc = varve_store_stats(run->store, NAME, &totals, &error)) < 0)
        tolerate(run, "stats", rc, &error);
}

static void list(struct run *run, struct found *found) {
    struct varve_error error = {0};
    next_step(run);
    int rc = varve_store_list(run->store, NULL, take_checkpoint, found, &error);
    if (rc < 0)
        tolerate(run, "list", rc, rc == -EBADMSG ? NULL : &error);
}

static void verify(struct run *run) {
    struct found found = {0};
    struct varve_verify_options options = {.size = sizeof options, .finding = take_finding, .arg = &found};
    struct varve_verify_result result = {0};
    struct varve_error error = {0};
    next_step(run);
    int rc = varve_store_verify(run->store, &options, &result, &error);
    if (rc < 0)
        tolerate(run, "verify", rc, &error);
    /* A failure of the storage or of memory during the look is not damage. */
    if ((found.damage || found.lost) && !run->scenario->may_lie && !run->scenario->is_tolerant)
        child_fail("step %d: verify found damage where there is none: %s", run->step, found.text);
}

/* ---- the life ---- */

static void first_life(struct run *run) {
    run->settings = "";
    open_session(run, 0, 0);
    save(run, 0, 1);
    save(run, 0, 2);
    save(run, 0, 3);
    open_store(run, 1);
    forget(run, 1);
    save(run, 0, 4);
    prune(run);
    forget(run, 2);
    save(run, 0, 5);
    prune(run);
    close_store(run);
    close_session(run);
}

static void second_life(struct run *run) {
    run->settings = ",keep=3";
    open_session(run, 2, 0);
    child_tell(EVENT_KEEPING, 3);
    int64_t base = come_back(run, 2, VARVE_LATEST);
    save(run, 2, base + 1);
    if (base >= 0)
        come_back(run, 2, base);
    save(run, 2, base + 1);
    save(run, 2, base + 2);
    save(run, 2, base + 3);
    close_session(run);
}

static void last_look(struct run *run) {
    struct found found = {0};
    struct varve_error error = {0};
    open_store(run, 3);
    list(run, &found);
    if (found.count >= 2)
        look_closely(run, found.versions[0], found.versions[1]);
    verify(run);
    prune(run);
    next_step(run);
    int rc = varve_store_repair(run->store, 1, NULL, NULL, &error);
    if (rc < 0)
        tolerate(run, "repair", rc, &error);
    close_store(run);
}

void scenario_run(void *arg) {
    const struct scenario *scenario = arg;
    struct run run = {.scenario = scenario, .last_saved = -1};
    int files = count_files(), threads = count_threads();
    vv_fault_set(scenario->point[0] && scenario->step == 0 ? scenario->point : NULL);
    vv_alloc_fail_at(scenario->allocation);
    first_life(&run);
    second_life(&run);
    last_look(&run);
    child_tell(EVENT_COUNT, (int64_t)vv_alloc_count());
    child_tell(EVENT_COUNT, run.step);
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "fine chunks: %" PRIu64 " fixed, %" PRIu64 " zero, %" PRIu64 " first, %" PRIu64 " shifted\n",
                run.shown.fixed, run.shown.zero, run.shown.first, run.shown.shifted);
    const char *missing = scenario->is_tolerant ? NULL : world_shown_missing(&run.shown);
    if (missing)
        child_fail("there was no %s", missing);
    int left = threads_left(threads);
    if (count_files() != files || left != 0)
        child_fail("%d files and %d threads are left open", count_files() - files, left);
}

/* ---- afterwards ---- */

void aftermath_from(const struct events *events, const char *folder, struct aftermath *out) {
    int is_keeping = 0;
    *out = (struct aftermath){.folder = folder, .newest = -1};
    for (size_t i = 0; i < events->count; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_KEEPING)
            is_keeping = 1;
        if (event->kind == EVENT_SAVED) {
            out->must[out->count++] = event->version;
            out->newest = event->version;
        }
        for (size_t k = 0; event->kind == EVENT_FORGETTING && k < out->count; k++)
            if (out->must[k] == event->version)
                out->must[k] = -1;
    }
    /* keep=3 counts the record of a checkpoint that nobody was told about, too. */
    for (size_t i = 0; is_keeping && i + 2 < out->count; i++)
        out->must[i] = -1;
}

enum { AT_FIRST, ADOPTED, AT_THE_END };

static void check_verified(const char *folder, int when) {
    int is_adopted = when != AT_FIRST;
    struct found found = {0};
    struct varve_verify_options options = {
        .size = sizeof options, .is_quick = when != AT_THE_END, .finding = take_finding, .arg = &found};
    struct varve_verify_result result = {0};
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    int rc = varve_store_open(folder, "threads=0,log=error", &store, &error);
    if (rc == VARVE_NO_STORE && !is_adopted)
        return;
    if (rc == 0)
        rc = varve_store_verify(store, &options, &result, &error);
    if (rc < 0)
        child_fail("verify: %s: %s", varve_error_name(rc), error.text);
    /* What was wholly written but not recorded is named until a session adopts it. */
    if (found.damage || result.damaged_objects || (is_adopted && (found.lost || result.lost_checkpoints)))
        child_fail("verify %s found damage: %s",
                   when == AT_FIRST  ? "at first"
                   : when == ADOPTED ? "beside the next session"
                                     : "at the end",
                   found.text);
    varve_store_close(store);
}

static void check_pruned(const char *folder) {
    struct varve_prune_result result;
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    int rc = varve_store_open(folder, "threads=0,log=error", &store, &error);
    if (rc == 0)
        rc = varve_store_prune(store, NULL, 0, NULL, NULL, &result, &error);
    if (rc < 0)
        child_fail("prune: %s: %s", varve_error_name(rc), error.text);
    varve_store_close(store);
}

static int64_t check_restart(struct run *run, int64_t wanted) {
    char text[256];
    int64_t got = -1;
    int rc = try_restart(run, wanted, &got);
    if (rc == VARVE_NO_CHECKPOINT)
        return -1;
    if (rc < 0)
        child_fail("version %" PRId64 " does not come back: %s: %s", wanted, varve_error_name(rc),
                   varve_session_error(run->session)->text);
    if (world_compare(&run->world, got, text, sizeof text) < 0)
        child_fail("WRONG BYTES: %s", text);
    return got;
}

static int64_t check_all(struct run *run, const struct aftermath *after) {
    for (size_t i = 0; i < after->count; i++)
        if (after->must[i] >= 0 && check_restart(run, after->must[i]) < 0)
            child_fail("version %" PRId64 " was saved, but is LOST", after->must[i]);
    int64_t newest = check_restart(run, VARVE_LATEST);
    if (newest < after->newest)
        child_fail("version %" PRId64 " was saved, but the newest is %" PRId64, after->newest, newest);
    return newest;
}

void aftermath_check(void *arg) {
    const struct aftermath *after = arg;
    struct scenario plain = {.folder = after->folder, .handle = -1};
    struct run run = {.scenario = &plain, .settings = "", .last_saved = -1};
    check_verified(after->folder, AT_FIRST);
    open_session(&run, 0, 1);
    check_verified(after->folder, ADOPTED);
    int64_t next = check_all(&run, after) + 1;
    save(&run, 0, next);
    close_session(&run);
    check_pruned(after->folder);
    open_session(&run, 0, 1);
    int64_t newest = check_all(&run, after);
    if (newest != next)
        child_fail("version %" PRId64 " was saved, but the newest is %" PRId64, next, newest);
    close_session(&run);
    check_verified(after->folder, AT_THE_END);
}
