/* Damage (damages.h) to a store that jobs of several ranks have made. A restart on all ranks gives the newest
 * checkpoint that is whole on all of them, names those it passed over, or fails; never a wrong byte, and never another
 * answer on another rank.
 *
 * With JOB_MOVED the data is the job's (placed.h). The second life of a series has other ranks than the first, and who
 * restarts from what is damaged has others than either, or as many as one of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/fault.h"
#include "campaign.h"
#include "damages.h"
#include "group.h"
#include "job.h"
#include "world.h"

#define SETTINGS                                                                                                       \
    "keep=all,dedup=exact,block_size=64K,part_size=1M,threads=0,beat_seconds=1,dead_seconds=2,takeover_seconds=20"
#define FORGOTTEN 2 /* this version of every series */
#define BULKY 1     /* the rank that has enough for several parts */

static const struct series {
    const char *name;
    const char *codec;
    uint32_t ranks, moved; /* of the first life and, with JOB_MOVED, of the second */
    int64_t newest;
} series[] = {{"four", "size", 4, 3, 6}, {"two", "auto", 2, 5, 5}};
#define SERIES (sizeof series / sizeof *series)

static struct campaign campaign;
static struct objects objects;
static struct job_board *board;

/* ---- one rank ---- */

struct trial {
    const struct damage *damage; /* NULL while the store is made */
    const char *folder;
    const struct series *series;
    uint32_t ranks; /* that restart from it */
};

struct rank {
    const struct trial *trial;
    struct varve_comm *comm;
    struct varve_session *session;
    struct world world;
    char skipped[16384]; /* what the log said */
};

static void note_line(void *arg, int level, const char *line) {
    struct rank *rank = arg;
    size_t used = strlen(rank->skipped);
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "rank %u [%d] %s\n", rank->comm->rank, level, line);
    if (level <= 1)
        snprintf(rank->skipped + used, sizeof rank->skipped - used, "%s\n", line);
}

/* What this rank was told goes to the board, and is compared with the others' afterwards. */
static int told(struct rank *rank, enum job_call call, int code, int64_t version, const struct varve_error *error) {
    uint64_t *count = &board->ranks[rank->comm->rank].count;
    struct job_answer *answer = &board->ranks[rank->comm->rank].list[(*count)++];
    *answer = (struct job_answer){.call = (int32_t)call, .code = code, .version = version, .rank = -1};
    if (code < 0 && error && code != VARVE_NO_CHECKPOINT)
        answer->rank = error->rank;
    if (code < 0 && error && strlen(error->text) < 12)
        group_fail(rank->comm, "%s: %s without a word", rank->trial->series->name, varve_error_name(code));
    return code;
}

static int rank_open(struct rank *rank, struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    const struct series *of = rank->trial->series;
    char settings[256];
    snprintf(settings, sizeof settings, SETTINGS ",codec=%s", of->codec);
    options.settings = settings;
    options.log = note_line;
    options.log_arg = rank;
    rank->world = (struct world){.salt = (uint64_t)(of - series) * 100 + rank->comm->rank + 1,
                                 .common = (uint64_t)(of - series) + 1000,
                                 .is_fixed = 1,
                                 .is_small = rank->comm->rank != BULKY};
    if (placed_is_wanted())
        rank->world.placed = (struct placed){
            .rank = rank->comm->rank, .ranks = rank->comm->ranks, .is_fixed = 1, .salt = (uint64_t)(of - series)};
    int rc = varve_open_comm(group_comm(rank->comm), rank->trial->folder, of->name, &options, &rank->session, error);
    rank->world.session = rank->session;
    return told(rank, JOB_OPEN, rc, -2, error);
}

static void rank_close(struct rank *rank) {
    varve_close(rank->session);
    world_clear(&rank->world);
}

static void must_work(const struct rank *rank, int rc, const char *what, const struct varve_error *error) {
    if (rc < 0)
        group_fail(rank->comm, "%s: %s: %s: %s", rank->trial->series->name, what, varve_error_name(rc),
                   error ? error->text : "");
}

static int save(struct rank *rank, int64_t version) {
    must_work(rank, world_set(&rank->world, version), "protect", varve_session_error(rank->session));
    int rc = varve_checkpoint(rank->session, version);
    if (rc == 0)
        rc = varve_wait(rank->session);
    return told(rank, JOB_CHECKPOINT, rc, -2, varve_session_error(rank->session));
}

static int restart(struct rank *rank, int64_t *got) {
    must_work(rank, world_garbage(&rank->world, 1), "protect", varve_session_error(rank->session));
    int rc = varve_restart(rank->session, VARVE_LATEST, got);
    return told(rank, JOB_RESTART, rc, *got, varve_session_error(rank->session));
}

/* ---- the store ---- */

static void forget(const struct rank *rank) {
    struct varve_which which = {rank->trial->series->name, 0, FORGOTTEN};
    struct varve_store *store;
    struct varve_error error = {0};
    if (rank->comm->rank != 0)
        return;
    must_work(rank, varve_store_open(rank->trial->folder, NULL, &store, &error), "look", &error);
    must_work(rank, varve_store_forget(store, &which, &error), "forget", &error);
    varve_store_close(store);
}

/* Two lives; a checkpoint that was forgotten; an attempt that was given up because of the last rank. */
static void first_life(struct varve_comm *comm, void *arg) {
    struct rank rank = {.trial = arg, .comm = comm};
    struct varve_error error = {0};
    must_work(&rank, rank_open(&rank, &error), "open", &error);
    for (int64_t version = 1; version <= rank.trial->series->newest - 2; version++)
        must_work(&rank, save(&rank, version), "checkpoint", varve_session_error(rank.session));
    varve_reject(rank.session, -1); /* waits for the upkeep: until then the heartbeat may name an older one */
    forget(&rank);
    rank_close(&rank);
}

static void second_life(struct varve_comm *comm, void *arg) {
    struct rank rank = {.trial = arg, .comm = comm};
    struct varve_error error = {0};
    int64_t version, newest = rank.trial->series->newest;
    must_work(&rank, rank_open(&rank, &error), "open", &error);
    must_work(&rank, restart(&rank, &version), "restart", varve_session_error(rank.session));
    for (version++; version <= newest; version++)
        must_work(&rank, save(&rank, version), "checkpoint", varve_session_error(rank.session));
    if (comm->rank == comm->ranks - 1)
        vv_fault_set("engine.save.before_seal=error:5");
    if (save(&rank, version) == 0)
        group_fail(comm, "a checkpoint was expected to fail");
    vv_fault_set(NULL);
    rank_close(&rank);
}

static void make_store(const char *folder) {
    for (size_t i = 0; i < SERIES; i++) {
        struct trial trial = {.folder = folder, .series = &series[i]};
        memset(board, 0, sizeof *board);
        if (group_run(series[i].ranks, first_life, &trial, NULL, NULL) != 0 ||
            group_run(placed_is_wanted() ? series[i].moved : series[i].ranks, second_life, &trial, NULL, NULL) != 0)
            campaign_fail(&campaign, "none", "the store could not be made");
    }
}

/* ---- what must hold ---- */

/* Every version between what came back and the newest must be named by rank 0, but for the one that was forgotten. */
static void check_skipped(const struct rank *rank, int64_t got) {
    char wanted[160];
    for (int64_t version = got + 1; version <= rank->trial->series->newest && rank->comm->rank == 0; version++) {
        if (version == FORGOTTEN)
            continue;
        snprintf(wanted, sizeof wanted, "@%" PRId64 " ", version);
        if (!strstr(rank->skipped, wanted))
            group_fail(rank->comm,
                       "%s: version %" PRId64 " came back, and nobody said why not %" PRId64 "; the log: %.500s",
                       rank->trial->series->name, got, version, rank->skipped);
    }
}

static int check_restart(struct rank *rank) {
    const struct series *of = rank->trial->series;
    const struct damage *damage = rank->trial->damage;
    char text[256];
    int64_t got = -1;
    int rc = restart(rank, &got), is_hurt = damage_hurts(damage, of->name);
    if (rc < 0 && !is_hurt)
        must_work(rank, rc, "restart", varve_session_error(rank->session));
    if (rc < 0)
        return rc;
    if (world_compare(&rank->world, got, text, sizeof text) < 0)
        group_fail(rank->comm, "WRONG BYTES: %s: %s", of->name, text);
    if (got > of->newest || (got < of->newest && !is_hurt))
        group_fail(rank->comm, "%s: version %" PRId64 " came back", of->name, got);
    /* A record that is gone cannot be named. */
    if (got < of->newest && !(damage->kind == DAMAGE_REMOVE && damage->object->kind == VV_KIND_RECORD))
        check_skipped(rank, got);
    return 0;
}

/* What is saved after the damage must come back. */
static void check_going_on(struct rank *rank) {
    char text[256];
    struct varve_error error = {0};
    int64_t got = -1, next = rank->trial->series->newest + 3;
    int rc = save(rank, next);
    rank_close(rank);
    if (rc < 0)
        return;
    must_work(rank, rank_open(rank, &error), "open once more", &error);
    must_work(rank, restart(rank, &got), "restart once more", varve_session_error(rank->session));
    if (got != next || world_compare(&rank->world, got, text, sizeof text) < 0)
        group_fail(rank->comm, "what was saved after the damage did not come back: version %" PRId64 " of %" PRId64,
                   got, next);
    rank_close(rank);
}

static void check(struct varve_comm *comm, void *arg) {
    struct rank rank = {.trial = arg, .comm = comm};
    const struct damage *damage = rank.trial->damage;
    struct varve_error error = {0};
    if (comm->rank == 0 && rank.trial->series == &series[0])
        damage_verify(damage, rank.trial->folder);
    int rc = rank_open(&rank, &error);
    if (rc < 0 && !damage_hurts(damage, rank.trial->series->name))
        must_work(&rank, rc, "open", &error);
    if (rc < 0)
        return;
    if (check_restart(&rank) == 0)
        check_going_on(&rank);
    else
        rank_close(&rank);
}

/* ---- the campaign ---- */

static void try_series(const struct trial *trial, const char *text) {
    struct group_end end;
    char why[512];
    struct trial copy = *trial;
    memset(board, 0, sizeof *board);
    if (group_run(trial->ranks, check, &copy, NULL, &end) != 0) {
        group_describe(&end, why, sizeof why);
        campaign_fail(&campaign, text, "damage of a %s: %s", vv_kind_name(trial->damage->object->kind), why);
    }
    for (uint32_t rank = 0; rank < trial->ranks; rank++)
        if (board->ranks[rank].count != board->ranks[0].count)
            campaign_fail(&campaign, text, "rank %u got another number of answers", rank);
    if (job_board_compare(board, why, sizeof why) != 0)
        campaign_fail(&campaign, text, "THE RANKS DISAGREE: %s", why);
}

static uint32_t ranks_after(const struct damage *damage, const struct series *of) {
    static const uint32_t others[] = {2, 1, 6, 4, 3};
    uint64_t chance = damage->at + (uint64_t)damage->bit;
    for (const char *c = damage->object->key; *c; c++)
        chance += (uint8_t)*c;
    return placed_is_wanted() ? others[chance % (sizeof others / sizeof *others)] : of->ranks;
}

/* The first series looks for all of them whether verify finds it; the other one matters only when it is hurt, and now
 * and then. */
static void try_damage(const struct damage *damage) {
    char folder[FOLDER_CAPACITY + 16], text[DAMAGE_TEXT];
    snprintf(folder, sizeof folder, "%s/try", campaign.folder);
    damage_print(damage, text);
    campaign.tried++;
    if (damage_copy(&objects, damage, folder) != 0)
        campaign_fail(&campaign, text, "cannot link the store: %s", strerror(errno));
    for (size_t i = 0; i < SERIES; i++) {
        struct trial trial = {damage, folder, &series[i], ranks_after(damage, &series[i])};
        if (i == 0 || damage_hurts(damage, series[i].name) || damage->at % 8 == 0)
            try_series(&trial, text);
    }
    folder_remove(folder);
}

static void try_others(size_t most) {
    struct damage *all = calloc(objects.count * 16, sizeof *all);
    size_t count = 0;
    if (!all)
        abort();
    for (size_t i = 0; i < objects.count; i++)
        count += damage_others(&campaign, &objects, &objects.list[i], all + count);
    campaign_shuffle(&campaign, all, count, sizeof *all);
    printf("job-damage: %zu of %zu cuts, removals, swaps and additions\n", most < count ? most : count, count);
    for (size_t i = 0; i < count && i < most; i++)
        if (damage_is_taken(&campaign, "other", i))
            try_damage(&all[i]);
    free(all);
}

static void try_all(void) {
    uint64_t flips = campaign.points ? (campaign.points + 1) / 2 : 3000;
    for (uint64_t i = 0; i < flips; i++) {
        struct damage damage = damage_flip(&campaign, &objects);
        if (damage_is_taken(&campaign, "flip", i))
            try_damage(&damage);
    }
    try_others(campaign.points ? (size_t)(campaign.points / 2) : SIZE_MAX);
}

int main(int argc, char **argv) {
    struct damage damage;
    char folder[FOLDER_CAPACITY + 16];
    campaign_begin(&campaign, "job-damage", argc, argv);
    board = group_memory(sizeof *board);
    snprintf(folder, sizeof folder, "%s/store", campaign.folder);
    make_store(folder);
    if (objects_list(folder, &objects) != 0)
        campaign_fail(&campaign, "none", "the store could not be listed");
    objects_print(&objects, "job-damage");
    if (!campaign.replay)
        try_all();
    else if (damage_parse(&objects, campaign.replay, &damage) < 0)
        campaign_fail(&campaign, campaign.replay, "this is not a point");
    else
        try_damage(&damage);
    objects_clear(&objects);
    group_memory_free(board, sizeof *board);
    return campaign_end(&campaign);
}
