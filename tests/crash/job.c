#include "job.h"
#include "details.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "campaign.h"
#include "world.h"

#define NAME "job"
#define SETTINGS "keep=all,dedup=exact,block_size=64K,part_size=1M,beat_seconds=1,dead_seconds=2,takeover_seconds=60"
#define KIND_RECORD 7
#define KIND_TOMBSTONE 8
#define BULKY 1 /* the rank that has enough for several parts */

struct run {
    const struct job_way *way;
    const struct job_plan *plan;
    struct job_board *board;
    struct world world;
    struct varve_session *session;
    const char *settings;
    int rank;
    int step;
    int64_t last_saved; /* -1: none */
    struct world_shown shown;
};

static int is_talkative(void) {
    return getenv("CRASH_LOG") != NULL;
}

static void note_line(void *arg, int level, const char *line) {
    const struct run *run = arg;
    if (is_talkative())
        fprintf(stderr, "rank %d [%d] %s\n", run->rank, level, line);
}

static void rank_fail(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void rank_fail(const struct run *run, const char *format, ...) {
    char text[1500];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    child_fail("rank %d, step %d: %s", run->rank, run->step, text);
}

static uint32_t hash_text(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash;
}

/* ---- answers ---- */

static void note(struct run *run, enum job_call call, int code, int64_t version, const struct varve_error *error) {
    uint64_t *count = &run->board->ranks[run->rank].count;
    if (*count == JOB_ANSWERS_MAX)
        rank_fail(run, "more answers than the board has room for");
    struct job_answer *answer = &run->board->ranks[run->rank].list[*count];
    *answer = (struct job_answer){.call = (int32_t)call, .code = code, .version = version, .rank = -1};
    if (code < 0 && error) {
        answer->rank = code == VARVE_NO_CHECKPOINT ? -1 : error->rank; /* that is nobody's failure */
        answer->text = hash_text(error->text);
    }
    __atomic_store_n(count, *count + 1, __ATOMIC_RELEASE); /* a rank killed in between has not noted it */
}

/* Another rank is dead, and the group knows it: all there is to do is to end. Somebody will kill us, or nobody
 * will. */
static void give_up(struct run *run) __attribute__((noreturn));
static void give_up(struct run *run) {
    if (run->session)
        varve_close(run->session);
    if (run->way->ends_alone)
        _exit(1);
    for (;;)
        pause();
}

/* In a restart ranks read for each other: the error is of the rank that needs the data, and says who could not read it.
 */
static int is_read_for_another(const struct varve_error *error, int faulty_rank) {
    char who[64];
    snprintf(who, sizeof who, "(rank %d was asked to read it)", faulty_rank);
    return strstr(error->text, who) != NULL;
}

/* A call failed. That is all right where faults are to be lived with, if it says what happened, and where. */
static void tolerate(struct run *run, const char *what, int rc, const struct varve_error *error) {
    const struct job_plan *plan = run->plan;
    if (is_talkative())
        fprintf(stderr, "rank %d, step %d: %s: %s: %s\n", run->rank, run->step, what, varve_error_name(rc),
                error ? error->text : "");
    if (!plan->is_tolerant)
        rank_fail(run, "%s failed: %s: %s", what, varve_error_name(rc), error ? error->text : "");
    if (error && (strlen(error->text) < 12 || error->code != rc))
        rank_fail(run, "%s failed with %s, but the text is \"%s\" and its code %d", what, varve_error_name(rc),
                  error->text, error->code);
    /* Data that seems damaged leads to an older checkpoint, which may not fit the memory of any rank. */
    if (error && error->rank != plan->faulty_rank && !plan->may_lie && !is_read_for_another(error, plan->faulty_rank))
        rank_fail(run, "%s failed on rank %d, but is said to have failed on rank %d: %s: %s", what, plan->faulty_rank,
                  error->rank, varve_error_name(rc), error->text);
    if (rc == VARVE_FENCED || rc == VARVE_DISAGREED || (rc == VARVE_CORRUPT && !plan->may_lie))
        rank_fail(run, "%s: one failure of the storage was taken for something else: %s: %s", what,
                  varve_error_name(rc), error ? error->text : "");
}

/* Note what a call on the session returned. */
static int answered(struct run *run, enum job_call call, int code, int64_t version) {
    if (code == -ECOMM && !run->plan->is_tolerant)
        give_up(run);
    note(run, call, code, version, varve_session_error(run->session));
    return code;
}

static void arm(struct run *run, const char *point) {
    if (run->way->arm && run->rank == run->plan->faulty_rank)
        run->way->arm(point);
}

static void next_step(struct run *run) {
    run->step++;
    if (run->way->step)
        run->way->step(run->step);
    if (run->plan->step > 0)
        arm(run, run->step == run->plan->step ? run->plan->point : NULL);
}

/* ---- the session ---- */

/* Neighbours share a node. */
static int ranks_of_node(const struct run *run) {
    return (run->way->ranks + run->plan->nodes - 1) / run->plan->nodes;
}

static int is_first_on_node(const struct run *run) {
    return run->rank == 0 || (run->plan->nodes > 0 && run->rank % ranks_of_node(run) == 0);
}

static void make_folder(const struct run *run, char *out, size_t capacity) {
    if (run->plan->nodes > 0)
        snprintf(out, capacity, "%s/node%d", run->plan->folder, run->rank / ranks_of_node(run));
    else
        snprintf(out, capacity, "%s", run->plan->folder);
}

static void make_address(const struct run *run, int handle, int is_clean, char *out, size_t capacity) {
    const struct job_plan *plan = run->plan;
    char folder[JOB_FOLDER + 16];
    int has_fault = handle == plan->handle && run->rank == plan->faulty_rank && plan->fault[0] && !is_clean;
    make_folder(run, folder, sizeof folder);
    snprintf(out, capacity, "file://%s%s%s", folder, has_fault ? "?fault=" : "", has_fault ? plan->fault : "");
}

static void open_session(struct run *run, int handle, int is_clean) {
    char address[JOB_FOLDER + 128], settings[256];
    struct varve_error error = {0};
    struct varve_options options = VARVE_OPTIONS_INIT;
    snprintf(settings, sizeof settings, SETTINGS ",threads=%d,on_error=%s%s%s", run->plan->threads,
             run->plan->on_error[0] ? run->plan->on_error : "fail", run->settings,
             run->plan->nodes > 0 ? ",storage=local" : "");
    options.settings = settings;
    options.log = note_line;
    options.log_arg = run;
    next_step(run);
    for (int tries = 0; tries < 3; tries++) {
        make_address(run, handle, is_clean || tries > 0, address, sizeof address);
        int rc = run->way->open(run->way->arg, address, NAME, &options, &run->session, &error);
        if (rc < 0)
            run->session = NULL;
        if (rc == -ECOMM && !run->plan->is_tolerant)
            give_up(run);
        note(run, JOB_OPEN, rc, -2, &error);
        if (rc == 0) {
            run->world = (struct world){
                .session = run->session, .salt = (uint64_t)run->rank + 1, .common = 77, .is_small = run->rank != BULKY};
            if (placed_is_wanted())
                run->world.placed = (struct placed){.rank = (uint32_t)run->rank, .ranks = (uint32_t)run->way->ranks};
            return;
        }
        tolerate(run, "open", rc, &error);
        arm(run, NULL);
    }
    rank_fail(run, "the session cannot be opened although nothing is wrong any more: %s", error.text);
}

static void close_session(struct run *run) {
    next_step(run);
    int rc = varve_close(run->session);
    run->session = NULL;
    world_clear(&run->world);
    if (rc == -ECOMM && !run->plan->is_tolerant)
        give_up(run);
    note(run, JOB_CLOSE, rc, -2, NULL);
    if (rc < 0)
        tolerate(run, "close", rc, NULL);
}

/* Memory is protected; where it was short for a moment, the second time. */
static void prepare_world(struct run *run, int (*prepare)(struct world *world, int64_t version), int64_t version) {
    int rc = prepare(&run->world, version);
    if (rc == -ENOMEM && run->plan->is_tolerant)
        rc = prepare(&run->world, version);
    if (rc < 0)
        rank_fail(run, "protect: %s", varve_session_error(run->session)->text);
}

/* 0, or the version is not saved and the reason was told. */
static int try_save(struct run *run, int64_t version) {
    struct vv_details stats = {0};
    prepare_world(run, world_set, version);
    int rc = answered(run, JOB_CHECKPOINT, varve_checkpoint(run->session, version), -2);
    if (rc < 0)
        tolerate(run, "checkpoint", rc, varve_session_error(run->session));
    int waited = answered(run, JOB_WAIT, varve_wait(run->session), -2);
    if (waited < 0)
        tolerate(run, "wait", waited, varve_session_error(run->session));
    if (rc < 0 && waited != rc)
        rank_fail(run, "checkpoint returns %s, and wait %s", varve_error_name(rc), varve_error_name(waited));
    if (vv_details_get(run->session, &stats) < 0 || stats.result != waited || stats.version != version)
        rank_fail(run, "the statistics are of version %" PRId64 ", not %" PRId64 ", and say %s", stats.version, version,
                  varve_error_name(stats.result));
    if (rc == 0 && waited < 0 && strcmp(run->plan->on_error, "warn") != 0 && strcmp(stats.capture, "sync") == 0)
        rank_fail(run, "checkpoint %" PRId64 " failed without a word: %s", version, varve_error_name(waited));
    if (waited == 0) {
        world_shown_add(&run->shown, &stats);
        note(run, JOB_SAVED, 0, version, NULL);
        run->last_saved = version;
    }
    return waited;
}

/* Ask what there is, make room for it and read it back. */
static int try_restart(struct run *run, int64_t wanted, int64_t *got) {
    int64_t version = -1;
    int rc = varve_stored(run->session, wanted, NULL, NULL, &version);
    answered(run, JOB_STORED, rc, version);
    if (rc < 0)
        return rc;
    prepare_world(run, world_garbage, version);
    rc = varve_restart(run->session, wanted, got);
    answered(run, JOB_RESTART, rc, *got);
    if (rc == 0 && *got != version)
        rank_fail(run, "version %" PRId64 " was announced, %" PRId64 " came back", version, *got);
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
            arm(run, NULL);
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
            rank_fail(run, "WRONG BYTES: %s", text);
        return got;
    }
    rank_fail(run, "restart fails again and again: %s", varve_session_error(run->session)->text);
}

static int64_t come_back_to_latest(struct run *run, int handle) {
    int64_t got = come_back(run, handle, VARVE_LATEST);
    if (got < run->last_saved)
        rank_fail(run, "version %" PRId64 " was saved, but %" PRId64 " came back", run->last_saved, got);
    return got;
}

/* When it fails, the job goes on, or goes back to what there is and comes by once more: then nothing is in its way,
 * unless the storage failed for good. */
static void save(struct run *run, int handle, int64_t version) {
    const struct job_plan *plan = run->plan;
    next_step(run);
    int rc = try_save(run, version);
    if (rc == 0 || !plan->is_coming_again || run->last_saved < 0)
        return;
    arm(run, NULL);
    if (come_back_to_latest(run, handle) >= version)
        return; /* it exists all the same */
    rc = try_save(run, version);
    if (rc < 0 && !plan->is_lasting)
        rank_fail(run, "version %" PRId64 " cannot be saved a second time: %s", version, varve_error_name(rc));
}

static void go_back(struct run *run, int handle, int64_t version) {
    run->last_saved = come_back(run, handle, version);
}

/* The newest is not good enough: take one that is at least `least`. Returns what came back. */
static int64_t reject(struct run *run, int handle, int64_t least) {
    next_step(run);
    int rc = answered(run, JOB_REJECT, varve_reject(run->session, run->last_saved), -2);
    if (rc < 0) {
        tolerate(run, "reject", rc, varve_session_error(run->session));
        return run->last_saved;
    }
    int64_t rejected = run->last_saved;
    run->last_saved = least;
    int64_t got = come_back_to_latest(run, handle);
    if (!run->plan->is_tolerant && got != rejected - 1)
        rank_fail(run, "version %" PRId64 " was rejected, and %" PRId64 " came back", rejected, got);
    return got;
}

/* ---- the lives ---- */

static void first_life(struct run *run) {
    run->settings = "";
    open_session(run, 0, 0);
    save(run, 0, 1);
    save(run, 0, 2);
    int64_t base = run->last_saved;
    save(run, 0, 3);
    if (base >= 0)
        go_back(run, 0, base);
    else
        base = 3;
    save(run, 0, base + 1);
    save(run, 0, base + 2);
    close_session(run);
}

static void second_life(struct run *run) {
    run->settings = ",keep=3";
    open_session(run, 1, 0);
    note(run, JOB_KEEPING, 0, -2, NULL);
    int64_t base = come_back_to_latest(run, 1);
    save(run, 1, base + 1);
    if (base >= 0)
        go_back(run, 1, base);
    else
        base++;
    save(run, 1, base + 1);
    save(run, 1, base + 2);
    save(run, 1, base + 3);
    int64_t newest = base + 3;
    if (run->last_saved == newest)
        newest = reject(run, 1, base);
    save(run, 1, newest + 1);
    close_session(run);
}

/* Killed at its third record: two checkpoints, and one that has all packs. */
static void dying_life(struct run *run) {
    run->settings = "";
    open_session(run, 0, 0);
    save(run, 0, 1);
    save(run, 0, 2);
    save(run, 0, 3);
    rank_fail(run, "it should not have come so far");
}

/* With keep: an attempt that was given up when its record was to be made stays complete, and is named by verify, until
 * it is pruned. */
static void adopting_life(struct run *run) {
    run->settings = ",keep=3";
    open_session(run, 2, 0);
    note(run, JOB_KEEPING, 0, -2, NULL);
    int64_t base = come_back_to_latest(run, 2);
    if (base != 3 && !run->plan->may_lie)
        rank_fail(run, "version 3 was not adopted: the newest is %" PRId64, base);
    note(run, JOB_SAVED, 0, base, NULL); /* what came back must stay */
    save(run, 2, 4);
    save(run, 2, 5);
    close_session(run);
}

void job_run(const struct job_way *way, const struct job_plan *plan, struct job_board *board) {
    struct run run = {.way = way, .plan = plan, .board = board, .rank = way->rank, .last_saved = -1};
    arm(&run, plan->point[0] && plan->step == 0 ? plan->point : NULL);
    switch (plan->start) {
    case JOB_FRESH:
        first_life(&run);
        second_life(&run);
        if (!plan->is_tolerant && world_shown_missing(&run.shown))
            rank_fail(&run, "there was no %s", world_shown_missing(&run.shown));
        break;
    case JOB_FIRST:
        first_life(&run);
        break;
    case JOB_SECOND:
        run.last_saved = JOB_FIRST_SAVED;
        for (int64_t version = 1; version <= JOB_FIRST_SAVED; version++)
            note(&run, JOB_SAVED, 0, version, NULL); /* before our time */
        second_life(&run);
        break;
    case JOB_DYING:
        dying_life(&run);
        break;
    case JOB_ADOPTING:
        run.last_saved = 2;
        note(&run, JOB_SAVED, 0, 1, NULL); /* before our time */
        note(&run, JOB_SAVED, 0, 2, NULL);
        adopting_life(&run);
    }
}

/* ---- afterwards ---- */

struct found {
    const struct run *run;
    int damage, forgotten;
    char text[1024];
};

/* A node has nothing of it any more: it has forgotten it, and pruned. Another one could not do so, and does it when a
 * session forgets again; until then its share looks like a checkpoint that has lost its record. */
static int is_forgotten(const struct run *run, const char *key) {
    char path[JOB_FOLDER + 400];
    const char *name = strrchr(key, '/');
    uint32_t generation;
    uint64_t version;
    if (!name || sscanf(name, "/%8" SCNx32 "%16" SCNx64, &generation, &version) != 2)
        return 0;
    for (int i = 0; i < run->plan->nodes; i++) {
        snprintf(path, sizeof path, "%s/node%d/n/" NAME "/record%s", run->plan->folder, i, name);
        int has_record = access(path, F_OK) == 0;
        snprintf(path, sizeof path, "%s/node%d/n/" NAME "/data/%08" PRIx32 "/%016" PRIx64, run->plan->folder, i,
                 ~generation, ~version);
        if (!has_record && access(path, F_OK) != 0)
            return 1;
    }
    return 0;
}

static void take_finding(void *arg, int level, const char *key, const char *text) {
    struct found *found = arg;
    size_t used = strlen(found->text);
    if (is_talkative())
        fprintf(stderr, "finding %d %s: %s\n", level, key, text);
    if (level == 1 && is_forgotten(found->run, key)) {
        found->forgotten++;
        return;
    }
    found->damage += level == 0;
    if (level < 2)
        snprintf(found->text + used, sizeof found->text - used, "%s: %s; ", key, text);
}

enum { AT_FIRST, ADOPTED, AT_THE_END };

/* The kind of an object stands at offset 10 (docs/format.md 4); 0 if there is none. */
static int kind_of(const char *path) {
    uint8_t head[12] = {0};
    FILE *file = fopen(path, "re");
    if (file && fread(head, sizeof head, 1, file) != 1)
        head[10] = 0;
    if (file)
        fclose(file);
    return head[10];
}

/* One node has forgotten it: then it is forgotten. Some have it: a job has died while its nodes committed, or forgot,
 * and nobody was promised it. */
static void settle_record(const struct run *run, const char *all, const char *record) {
    char path[JOB_FOLDER + 400], gathered[JOB_FOLDER + 400];
    int count = 0;
    snprintf(gathered, sizeof gathered, "%s/n/" NAME "/record/%s", all, record);
    for (int i = 0; i < run->plan->nodes; i++) {
        snprintf(path, sizeof path, "%s/node%d/n/" NAME "/record/%s", run->plan->folder, i, record);
        int kind = kind_of(path);
        count += kind == KIND_RECORD;
        if (kind == KIND_TOMBSTONE) {
            unlink(gathered);
            if (link(path, gathered) < 0)
                rank_fail(run, "%s: %s", gathered, strerror(errno));
            return;
        }
    }
    if (count != run->plan->nodes)
        unlink(gathered);
}

/* What all nodes have together; each alone misses the packs of the others. */
static void gather_nodes(const struct run *run, char *out, size_t capacity) {
    char path[JOB_FOLDER + 400];
    snprintf(out, capacity, "%s/all", run->plan->folder);
    folder_remove(out);
    for (int i = 0; i < run->plan->nodes; i++) {
        snprintf(path, sizeof path, "%s/node%d", run->plan->folder, i);
        if (access(path, F_OK) == 0)
            folder_link(path, out);
    }
    snprintf(path, sizeof path, "%s/n/" NAME "/record", out);
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.')
            settle_record(run, out, names[i]->d_name);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
}

static void check_verified(struct run *run, int when) {
    static const char *const names[] = {"at first", "beside the next job", "at the end"};
    struct found found = {.run = run};
    struct varve_verify_options options = {
        .size = sizeof options, .is_quick = when != AT_THE_END, .finding = take_finding, .arg = &found};
    struct varve_verify_result result = {0};
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    char folder[JOB_FOLDER + 16];
    if (run->rank != 0)
        return;
    if (run->plan->nodes > 0)
        gather_nodes(run, folder, sizeof folder);
    else
        make_folder(run, folder, sizeof folder);
    int rc = varve_store_open(folder, "threads=0,log=error", &store, &error);
    if (rc == VARVE_NO_STORE && when == AT_FIRST)
        return;
    if (rc == 0)
        rc = varve_store_verify(store, &options, &result, &error);
    if (rc < 0)
        rank_fail(run, "verify %s: %s: %s", names[when], varve_error_name(rc), error.text);
    /* What was wholly written but not recorded is named until a session adopts it; on several nodes, until it restarts
     * from it. If its own session has gone on in another generation, it is named until it is pruned: with other numbers
     * of ranks this comes right after the session that failed. */
    int may_be_lost =
        when == AT_FIRST || run->plan->has_lost || (when == ADOPTED && (run->plan->nodes > 0 || placed_is_wanted()));
    if (found.damage || result.damaged_objects || (!may_be_lost && result.lost_checkpoints > (uint64_t)found.forgotten))
        rank_fail(run, "verify %s found damage: %s", names[when], found.text);
    varve_store_close(store);
}

static void prune(struct run *run) {
    struct varve_prune_result result;
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    char folder[JOB_FOLDER + 16];
    if (!is_first_on_node(run))
        return;
    make_folder(run, folder, sizeof folder);
    int rc = varve_store_open(folder, "threads=0,log=error", &store, &error);
    if (rc == 0)
        rc = varve_store_prune(store, NULL, 0, NULL, NULL, &result, &error);
    if (rc < 0)
        rank_fail(run, "prune: %s: %s", varve_error_name(rc), error.text);
    varve_store_close(store);
}

static int64_t check_restart(struct run *run, int64_t wanted) {
    char text[256];
    int64_t got = -1;
    int rc = try_restart(run, wanted, &got);
    if (rc == VARVE_NO_CHECKPOINT)
        return -1;
    if (rc < 0)
        rank_fail(run, "version %" PRId64 " does not come back: %s: %s", wanted, varve_error_name(rc),
                  varve_session_error(run->session)->text);
    if (world_compare(&run->world, got, text, sizeof text) < 0)
        rank_fail(run, "WRONG BYTES: %s", text);
    return got;
}

static int64_t check_all(struct run *run, const struct job_after *after) {
    for (size_t i = 0; i < after->count; i++)
        if (after->must[i] >= 0 && check_restart(run, after->must[i]) < 0)
            rank_fail(run, "version %" PRId64 " was saved, but is LOST", after->must[i]);
    int64_t newest = check_restart(run, VARVE_LATEST);
    if (newest < after->newest)
        rank_fail(run, "version %" PRId64 " was saved, but the newest is %" PRId64, after->newest, newest);
    return newest;
}

void job_after_check(const struct job_way *way, const struct job_after *after, struct job_board *board) {
    struct job_plan plain = {.nodes = after->nodes, .has_lost = after->has_lost, .faulty_rank = -1, .handle = -1};
    struct run run = {.way = way, .plan = &plain, .board = board, .rank = way->rank, .settings = "", .last_saved = -1};
    snprintf(plain.folder, sizeof plain.folder, "%s", after->folder);
    check_verified(&run, AT_FIRST);
    open_session(&run, 0, 1);
    check_verified(&run, ADOPTED);
    int64_t next = check_all(&run, after) + 1;
    save(&run, 0, next);
    close_session(&run);
    prune(&run);
    open_session(&run, 0, 1);
    int64_t newest = check_all(&run, after);
    if (newest != next)
        rank_fail(&run, "version %" PRId64 " was saved, but the newest is %" PRId64, next, newest);
    close_session(&run);
    check_verified(&run, AT_THE_END);
}
