/* Damage to a store that is at rest: a bit that flips, an object that ends early, is missing, is longer, or lies under
 * another's key. Verify must find every one, and a restart must never give a wrong byte: it gives the newest whole
 * checkpoint, says which newer ones it passed over, or fails. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/fault.h"
#include "campaign.h"
#include "damages.h"
#include "world.h"

#define SETTINGS "keep=all,block_size=64K,part_size=1M,threads=0,beat_seconds=1,dead_seconds=2,takeover_seconds=20"
#define FORGOTTEN 2 /* this version of every series */

/* ---- the store ---- */

static const struct series {
    const char *name;
    const char *codec;
    int is_small;
    int64_t newest;
} series[] = {{"alpha", "auto", 0, 7}, {"b%eta /x", "size", 0, 7}, {"gamma", "none", 0, 7}, {"many", "zstd", 1, 70}};
#define SERIES (sizeof series / sizeof *series)

struct job {
    const char *folder;
    size_t series;
    struct varve_session *session;
    struct world world;
    char skipped[65536]; /* what the log said */
};

static void note_line(void *arg, int level, const char *line) {
    struct job *job = arg;
    size_t used = strlen(job->skipped);
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "[%d] %s\n", level, line);
    if (level <= 1)
        snprintf(job->skipped + used, sizeof job->skipped - used, "%s\n", line);
}

static int job_open(struct job *job, struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    char settings[256];
    snprintf(settings, sizeof settings, SETTINGS ",codec=%s", series[job->series].codec);
    options.settings = settings;
    options.log = note_line;
    options.log_arg = job;
    job->world = (struct world){.salt = job->series + 1, .is_fixed = 1, .is_small = series[job->series].is_small};
    int rc = varve_open(job->folder, series[job->series].name, &options, &job->session, error);
    job->world.session = job->session;
    return rc;
}

static void job_close(struct job *job) {
    varve_close(job->session);
    world_clear(&job->world);
}

static void must_work(int rc, const char *what, const struct varve_error *error) {
    if (rc < 0)
        child_fail("%s: %s: %s", what, varve_error_name(rc), error ? error->text : "");
}

static void save(struct job *job, int64_t version) {
    must_work(world_set(&job->world, version), "protect", varve_session_error(job->session));
    must_work(varve_checkpoint(job->session, version), "checkpoint", varve_session_error(job->session));
    must_work(varve_wait(job->session), "wait", varve_session_error(job->session));
}

/* Two lives; a checkpoint that was forgotten; an attempt that was given up. */
static void build_series(struct job *job) {
    struct varve_which which = {series[job->series].name, 0, FORGOTTEN};
    struct varve_store *store;
    struct varve_error error = {0};
    int64_t version, newest = series[job->series].newest;
    must_work(job_open(job, &error), "open", &error);
    for (version = 1; version <= newest - 3; version++)
        save(job, version);
    must_work(varve_store_open(job->folder, NULL, &store, &error), "look", &error);
    must_work(varve_store_forget(store, &which, &error), "forget", &error);
    varve_store_close(store);
    job_close(job);
    must_work(job_open(job, &error), "open", &error);
    must_work(world_garbage(&job->world, version - 1), "protect", varve_session_error(job->session));
    must_work(varve_restart(job->session, VARVE_LATEST, &version), "restart", varve_session_error(job->session));
    for (version++; version <= newest; version++)
        save(job, version);
    must_work(world_set(&job->world, version), "protect", NULL);
    vv_fault_set("engine.save.before_seal=error:5");
    if (varve_checkpoint(job->session, version) == 0 && varve_wait(job->session) == 0)
        child_fail("a checkpoint was expected to fail");
    vv_fault_set(NULL);
    job_close(job);
}

static void build(void *arg) {
    for (size_t i = 0; i < SERIES; i++) {
        struct job job = {.folder = arg, .series = i};
        build_series(&job);
    }
}

/* ---- what must hold ---- */

struct trial {
    const struct damage *damage;
    const char *folder;
};

/* Every version between what came back and the newest must be named, but for the one that was forgotten. */
static void check_skipped(const struct job *job, int64_t got) {
    char wanted[160];
    for (int64_t version = got + 1; version <= series[job->series].newest; version++) {
        if (version == FORGOTTEN)
            continue;
        snprintf(wanted, sizeof wanted, "@%" PRId64 " ", version);
        if (!strstr(job->skipped, wanted))
            child_fail("%s: version %" PRId64 " came back, and nobody said why not %" PRId64 "; the log: %s",
                       series[job->series].name, got, version, job->skipped);
    }
}

static int is_hurt(const struct damage *damage, size_t of) {
    return damage_hurts(damage, series[of].name);
}

static int check_restart(struct job *job, const struct damage *damage) {
    char text[256];
    int64_t got = -1;
    must_work(world_garbage(&job->world, 1), "protect", varve_session_error(job->session));
    int rc = varve_restart(job->session, VARVE_LATEST, &got);
    if (rc < 0) {
        if (!is_hurt(damage, job->series) || strlen(varve_session_error(job->session)->text) < 12)
            child_fail("restart of %s: %s: %s", series[job->series].name, varve_error_name(rc),
                       varve_session_error(job->session)->text);
        return -1;
    }
    if (world_compare(&job->world, got, text, sizeof text) < 0)
        child_fail("WRONG BYTES: %s: %s", series[job->series].name, text);
    if (got > series[job->series].newest || (got < series[job->series].newest && !is_hurt(damage, job->series)))
        child_fail("%s: version %" PRId64 " came back", series[job->series].name, got);
    /* A record that is gone cannot be named. */
    if (got < series[job->series].newest && !(damage->kind == DAMAGE_REMOVE && damage->object->kind == VV_KIND_RECORD))
        check_skipped(job, got);
    return 0;
}

/* What is saved after the damage must come back. */
static void check_going_on(struct job *job) {
    char text[256];
    struct varve_error error = {0};
    int64_t got = -1, next = series[job->series].newest + 3;
    must_work(world_set(&job->world, next), "protect", varve_session_error(job->session));
    int rc = varve_checkpoint(job->session, next);
    if (rc == 0)
        rc = varve_wait(job->session);
    if (rc < 0 && strlen(varve_session_error(job->session)->text) < 12)
        child_fail("a checkpoint after the damage fails without saying why");
    job_close(job);
    if (rc < 0)
        return;
    must_work(job_open(job, &error), "open once more", &error);
    must_work(world_garbage(&job->world, 1), "protect", varve_session_error(job->session));
    must_work(varve_restart(job->session, VARVE_LATEST, &got), "restart once more", varve_session_error(job->session));
    if (got != next || world_compare(&job->world, got, text, sizeof text) < 0)
        child_fail("what was saved after the damage did not come back: version %" PRId64 " of %" PRId64, got, next);
    job_close(job);
}

static void check_series(const struct trial *trial, size_t index) {
    struct job job = {.folder = trial->folder, .series = index};
    struct varve_error error = {0};
    int rc = job_open(&job, &error);
    if (rc < 0) {
        if (!is_hurt(trial->damage, index) || strlen(error.text) < 12)
            child_fail("open of %s: %s: %s", series[index].name, varve_error_name(rc), error.text);
        return;
    }
    if (check_restart(&job, trial->damage) == 0)
        check_going_on(&job);
    else
        job_close(&job);
}

static void check(void *arg) {
    const struct trial *trial = arg;
    damage_verify(trial->damage, trial->folder);
    for (size_t i = 0; i < SERIES; i++)
        if (is_hurt(trial->damage, i) || i == trial->damage->at % SERIES)
            check_series(trial, i);
}

/* ---- the campaign ---- */

static struct objects objects;

static void try_damage(struct campaign *campaign, const struct damage *damage) {
    char folder[FOLDER_CAPACITY + 16], text[DAMAGE_TEXT];
    struct trial trial = {.damage = damage, .folder = folder};
    snprintf(folder, sizeof folder, "%s/try", campaign->folder);
    damage_print(damage, text);
    campaign->tried++;
    if (damage_copy(&objects, damage, folder) != 0)
        campaign_fail(campaign, text, "cannot link the store: %s", strerror(errno));
    if (child_run(check, &trial, NULL) != 0)
        campaign_fail(campaign, text, "damage of a %s", vv_kind_name(damage->object->kind));
    folder_remove(folder);
}

/* Everything else: all of it, or as many as there are flips. The series of many tiny checkpoints counts little. */
static void try_others(struct campaign *campaign, size_t most) {
    struct damage *all = calloc(objects.count * 16, sizeof *all);
    size_t count = 0;
    if (!all)
        abort();
    for (size_t i = 0; i < objects.count; i++) {
        const struct object *object = &objects.list[i];
        if (strcmp(object->name, "many") != 0 || i % 8 == 0 || object->kind == VV_KIND_CATALOGUE)
            count += damage_others(campaign, &objects, object, all + count);
    }
    campaign_shuffle(campaign, all, count, sizeof *all);
    printf("damage: %zu of %zu cuts, removals, swaps and additions\n", most < count ? most : count, count);
    for (size_t i = 0; i < count && i < most; i++)
        if (damage_is_taken(campaign, "other", i))
            try_damage(campaign, &all[i]);
    free(all);
}

static void try_all(struct campaign *campaign) {
    uint64_t flips = campaign->points ? (campaign->points + 1) / 2 : 10000;
    for (uint64_t i = 0; i < flips; i++) {
        struct damage damage = damage_flip(campaign, &objects);
        if (damage_is_taken(campaign, "flip", i))
            try_damage(campaign, &damage);
    }
    try_others(campaign, campaign->points ? (size_t)(campaign->points / 2) : SIZE_MAX);
}

int main(int argc, char **argv) {
    struct campaign campaign;
    struct damage damage;
    char folder[FOLDER_CAPACITY + 16];
    campaign_begin(&campaign, "damage", argc, argv);
    snprintf(folder, sizeof folder, "%s/store", campaign.folder);
    if (child_run(build, folder, NULL) != 0)
        campaign_fail(&campaign, "none", "the store could not be made");
    if (objects_list(folder, &objects) != 0)
        campaign_fail(&campaign, "none", "the store could not be listed");
    objects_print(&objects, "damage");
    if (!campaign.replay)
        try_all(&campaign);
    else if (damage_parse(&objects, campaign.replay, &damage) < 0)
        campaign_fail(&campaign, campaign.replay, "this is not a point");
    else
        try_damage(&campaign, &damage);
    objects_clear(&objects);
    return campaign_end(&campaign);
}
