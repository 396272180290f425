/* Damage to a store that is at rest: a bit that flips, an object that ends early, is missing, is longer, or lies under another's
 * key. Verify must find every one, and a restart must never give a wrong byte: it gives the newest whole
 * checkpoint, says which newer ones it passed over, or fails.
 *
 * Each point works on a copy made of hard links; only the object that is damaged is a file of its own. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/fault.h"
#include "campaign.h"
#include "format/key.h"
#include "world.h"

#define SETTINGS "block_size=64K,part_size=1M,threads=0,beat_seconds=1,dead_seconds=2,takeover_seconds=20"
#define KINDS (VV_KIND_COPY + 1)
#define FORGOTTEN 2 /* this version of every series */

/* ---- the store ---- */

static const struct series {
    const char *name;
    const char *codec;
    int is_small;
    int64_t newest;
} series[] = {{"alpha", "lz4", 0, 7}, {"b%eta /x", "zstd", 0, 7}, {"gamma", "none", 0, 7}, {"many", "zstd", 1, 70}};
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
    if (varve_checkpoint(job->session, version) == 0)
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

/* ---- its objects ---- */

struct object {
    char key[VV_KEY_ROOM];
    size_t size;
    int kind;
    int series; /* -1: of the whole store */
};

static struct object *objects;
static size_t object_count;
static const char *root;

static int series_of(const struct vv_key *key) {
    for (size_t i = 0; i < SERIES; i++)
        if (!strcmp(series[i].name, key->name))
            return (int)i;
    return -1;
}

static int add_object(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    const char *text = path + strlen(root) + 1;
    struct vv_key key;
    uint16_t kind = 0;
    (void)ftw;
    if (type != FTW_F || !strncmp(text, "tmp/", 4) || vv_key_parse(text, &key) < 0)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &kind, sizeof kind, 10) != (ssize_t)sizeof kind)
        return -1;
    close(fd);
    struct object *list = realloc(objects, (object_count + 1) * sizeof *objects);
    if (!list)
        abort();
    objects = list;
    struct object *object = &objects[object_count++];
    *object = (struct object){.size = (size_t)st->st_size, .kind = kind, .series = series_of(&key)};
    snprintf(object->key, sizeof object->key, "%s", text);
    return 0;
}

static int compare_objects(const void *a, const void *b) {
    return strcmp(((const struct object *)a)->key, ((const struct object *)b)->key);
}

static const struct object *find_object(const char *key) {
    for (size_t i = 0; i < object_count; i++)
        if (!strcmp(objects[i].key, key))
            return &objects[i];
    return NULL;
}

static const struct object *random_object(struct campaign *campaign, int kind) {
    size_t count = 0;
    for (size_t i = 0; i < object_count; i++)
        count += objects[i].kind == kind;
    if (count == 0)
        return NULL;
    size_t at = campaign_random(campaign, count);
    for (size_t i = 0;; i++)
        if (objects[i].kind == kind && at-- == 0)
            return &objects[i];
}

/* ---- the damage ---- */

enum damage_kind { FLIP, CUT, REMOVE, SWAP, APPEND };
static const char *const damage_names[] = {"flip", "cut", "remove", "swap", "append"};

struct damage {
    enum damage_kind kind;
    const struct object *object;
    const struct object *other; /* of a swap */
    uint64_t at;                /* byte to flip, new length, or bytes to append */
    int bit;
};

static void damage_print(const struct damage *damage, char *text, size_t room) {
    snprintf(text, room, "%s,%" PRIu64 ",%d,%s,%s", damage_names[damage->kind], damage->at, damage->bit,
             damage->object->key, damage->other ? damage->other->key : "-");
}

static int damage_parse(const char *text, struct damage *out) {
    char kind[16], key[VV_KEY_ROOM], other[VV_KEY_ROOM];
    *out = (struct damage){0};
    if (sscanf(text, "%15[^,],%" SCNu64 ",%d,%511[^,],%511s", kind, &out->at, &out->bit, key, other) != 5)
        return -1;
    for (size_t i = 0; i < sizeof damage_names / sizeof *damage_names; i++)
        if (!strcmp(kind, damage_names[i]))
            out->kind = (enum damage_kind)i;
    out->object = find_object(key);
    out->other = find_object(other);
    return out->object && (out->kind != SWAP || out->other) ? 0 : -1;
}

static const char *link_to;

static int link_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    char to[4096];
    (void)st;
    (void)ftw;
    snprintf(to, sizeof to, "%s%s", link_to, path + strlen(root));
    return type == FTW_D ? mkdir(to, 0777) : link(path, to);
}

static void read_object(const struct object *object, uint8_t *out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, object->key);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, out, object->size) != (ssize_t)object->size) {
        perror(path);
        exit(2);
    }
    close(fd);
}

static void write_object(const char *folder, const struct object *object, const uint8_t *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, object->key);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        perror(path);
        exit(2);
    }
    close(fd);
}

static void swap_objects(const struct damage *damage, const char *folder, const uint8_t *data) {
    uint8_t *other = malloc(damage->other->size + 1);
    if (!other)
        abort();
    read_object(damage->other, other);
    write_object(folder, damage->object, other, damage->other->size);
    write_object(folder, damage->other, data, damage->object->size);
    free(other);
}

static void apply(const struct damage *damage, const char *folder) {
    const struct object *object = damage->object;
    char path[4096];
    uint8_t *data = calloc(1, object->size + 8192);
    if (!data)
        abort();
    read_object(object, data);
    switch (damage->kind) {
    case FLIP:
        data[damage->at % object->size] ^= (uint8_t)(1u << damage->bit);
        write_object(folder, object, data, object->size);
        break;
    case CUT:
        write_object(folder, object, data, damage->at < object->size ? damage->at : object->size - 1);
        break;
    case REMOVE:
        snprintf(path, sizeof path, "%s/%s", folder, object->key);
        unlink(path);
        break;
    case SWAP:
        swap_objects(damage, folder, data);
        break;
    case APPEND:
        for (size_t i = 0; i < damage->at; i++)
            data[object->size + i] = (uint8_t)(i * 37 + damage->bit);
        write_object(folder, object, data, object->size + damage->at);
        break;
    }
    free(data);
}

/* May be absent without anything being wrong: a tombstone says "no", and nothing says so as well. */
static int may_be_absent(int kind) {
    return kind == VV_KIND_CLAIM || kind == VV_KIND_BEAT || kind == VV_KIND_CATALOGUE || kind == VV_KIND_TOMBSTONE;
}

/* ---- what must hold ---- */

struct trial {
    const struct damage *damage;
    const char *folder;
};

static void take_finding(void *arg, int level, const char *key, const char *text) {
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "finding %d %s: %s\n", level, key, text);
    *(int *)arg += level < 2;
    if (!text || strlen(text) < 8)
        child_fail("verify reports %s without saying what is wrong", key);
}

static void check_verify(const struct trial *trial) {
    const struct damage *damage = trial->damage;
    int findings = 0;
    struct varve_verify_options options = {.size = sizeof options, .finding = take_finding, .arg = &findings};
    struct varve_verify_result result = {0};
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    int rc = varve_store_open(trial->folder, "threads=0,log=error", &store, &error);
    if (rc == 0)
        rc = varve_store_verify(store, &options, &result, &error);
    varve_store_close(store);
    if (rc < 0 && damage->object->kind != VV_KIND_STORE)
        child_fail("verify does not get to its end: %s: %s", varve_error_name(rc), error.text);
    if (rc == 0 && findings == 0 && !(damage->kind == REMOVE && may_be_absent(damage->object->kind)))
        child_fail("verify found nothing");
    if (rc == 0 && (findings > 0) != (result.damaged_objects + result.lost_checkpoints > 0))
        child_fail("verify has %d findings, but counts %" PRIu64 " and %" PRIu64, findings, result.damaged_objects,
                   result.lost_checkpoints);
}

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
    return damage->object->series < 0 || damage->object->series == (int)of ||
           (damage->other && damage->other->series == (int)of);
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
    if (got < series[job->series].newest && !(damage->kind == REMOVE && damage->object->kind == VV_KIND_RECORD))
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
    check_verify(trial);
    for (size_t i = 0; i < SERIES; i++)
        if (is_hurt(trial->damage, i) || i == trial->damage->at % SERIES)
            check_series(trial, i);
}

/* ---- the campaign ---- */

static void try_damage(struct campaign *campaign, const struct damage *damage) {
    char folder[FOLDER_ROOM + 16], text[2 * VV_KEY_ROOM + 64];
    struct trial trial = {.damage = damage, .folder = folder};
    snprintf(folder, sizeof folder, "%s/try", campaign->folder);
    damage_print(damage, text, sizeof text);
    campaign->tried++;
    link_to = folder;
    if (nftw(root, link_one, 16, FTW_PHYS) != 0)
        campaign_fail(campaign, text, "cannot link the store: %s", strerror(errno));
    apply(damage, folder);
    if (child_run(check, &trial, NULL) != 0)
        campaign_fail(campaign, text, "damage of a %s", vv_kind_name(damage->object->kind));
    folder_remove(folder);
}

/* Kinds alike, although there are few objects of some; half of the places where the tables are. */
static void try_random_flip(struct campaign *campaign) {
    const struct object *object = NULL;
    while (!object)
        object = random_object(campaign, 1 + (int)campaign_random(campaign, KINDS - 1));
    struct damage damage = {.kind = FLIP, .object = object, .bit = (int)campaign_random(campaign, 8)};
    size_t edge = object->size < 4096 ? object->size : 4096;
    switch (campaign_random(campaign, 4)) {
    case 0:
        damage.at = campaign_random(campaign, object->size < 96 ? object->size : 96);
        break;
    case 1:
        damage.at = object->size - 1 - campaign_random(campaign, edge);
        break;
    default:
        damage.at = campaign_random(campaign, object->size);
    }
    try_damage(campaign, &damage);
}

static size_t add_damages(struct campaign *campaign, const struct object *object, struct damage *out) {
    const uint64_t cuts[] = {0, 1, 95, 96, object->size / 2, object->size - 25, object->size - 1};
    const uint64_t extra[] = {1, 24, 4096};
    size_t count = 0;
    out[count++] = (struct damage){.kind = REMOVE, .object = object};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        out[count++] = (struct damage){.kind = CUT, .object = object, .at = cuts[i]};
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
        out[count++] = (struct damage){.kind = APPEND, .object = object, .at = extra[i]};
    for (int tries = 0; tries < 2; tries++) {
        const struct object *other = random_object(campaign, object->kind);
        if (other != object)
            out[count++] = (struct damage){.kind = SWAP, .object = object, .other = other};
    }
    return count;
}

/* Everything else: all of it, or as many as there are flips. The series of many tiny checkpoints counts little. */
static void try_others(struct campaign *campaign, size_t most) {
    struct damage *all = calloc(object_count * 16, sizeof *all);
    size_t count = 0;
    if (!all)
        abort();
    for (size_t i = 0; i < object_count; i++)
        if (objects[i].series != 3 || i % 8 == 0 || objects[i].kind == VV_KIND_CATALOGUE)
            count += add_damages(campaign, &objects[i], all + count);
    campaign_shuffle(campaign, all, count, sizeof *all);
    printf("damage: %zu of %zu cuts, removals, swaps and additions\n", most < count ? most : count, count);
    for (size_t i = 0; i < count && i < most; i++)
        try_damage(campaign, &all[i]);
    free(all);
}

static void print_objects(void) {
    size_t counts[KINDS] = {0};
    for (size_t i = 0; i < object_count; i++)
        if (objects[i].kind < KINDS)
            counts[objects[i].kind]++;
    printf("damage: %zu objects:", object_count);
    for (int kind = 1; kind < KINDS; kind++)
        if (counts[kind])
            printf(" %zu %s", counts[kind], vv_kind_name(kind));
    printf("\n");
}

int main(int argc, char **argv) {
    struct campaign campaign;
    struct damage damage;
    char folder[FOLDER_ROOM + 16];
    campaign_begin(&campaign, "damage", argc, argv);
    snprintf(folder, sizeof folder, "%s/store", campaign.folder);
    root = folder;
    if (child_run(build, folder, NULL) != 0)
        campaign_fail(&campaign, "none", "the store could not be made");
    if (nftw(folder, add_object, 16, FTW_PHYS) != 0)
        campaign_fail(&campaign, "none", "the store could not be listed");
    qsort(objects, object_count, sizeof *objects, compare_objects);
    print_objects();
    if (campaign.replay) {
        if (damage_parse(campaign.replay, &damage) < 0)
            campaign_fail(&campaign, campaign.replay, "this is not a point");
        try_damage(&campaign, &damage);
        free(objects);
        return campaign_end(&campaign);
    }
    uint64_t flips = campaign.points ? (campaign.points + 1) / 2 : 10000;
    for (uint64_t i = 0; i < flips; i++)
        try_random_flip(&campaign);
    try_others(&campaign, campaign.points ? (size_t)(campaign.points / 2) : SIZE_MAX);
    free(objects);
    return campaign_end(&campaign);
}
