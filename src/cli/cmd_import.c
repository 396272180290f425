/* varve import: a set of files becomes a checkpoint. Each variable of HDF5 and netCDF files is a region with its type,
 * what is left of a file another one, and a map says how to put the files together again. First all files are looked
 * into, in child processes; only then is the store opened, which starts threads. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve.h>

#include "cli.h"
#include "files/look.h"
#include "files/map.h"
#include "files/source.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"
#include "whole.h"

#define TABLE_BYTES 120e6 /* for the ids of known chunks, at the most */
#define TABLE_SHARE 0.04  /* otherwise of all bytes: room for the ids of several versions */
#define TABLE_LEAST 4e6
#define THREADS_MOST 8
/* PATH:VARIABLE. Colons are more frequent in paths, such as those with times of day, than in variables. */
#define MATCH ":([^:]*)$"

struct importing;

/* What a region's callbacks know: which one it is, and how much of it was asked for. */
struct feed {
    struct importing *importing;
    size_t region; /* of the plan; behind the last: the map */
    uint64_t given;
};

struct importing {
    struct cli *cli;
    struct varve_which which;
    int64_t parent; /* the version to go on from, -1: none */
    struct files_plan plan;
    struct files_source source;
    struct feed *feeds;
    uint8_t *map;
    size_t map_size;
    int folder;
    uint64_t total, given;
    uint64_t notes;
    uint64_t bytes_stored, bytes_known; /* with what goes to storage beside the data; found in the store already */
};

/* ---- the plan ---- */

/* About a "path" or a "name". In JSON it is told here, and 1 returned. */
static int note_json(struct importing *importing, const char *about, const char *which, const char *note) {
    importing->notes++;
    progress_clear();
    if (importing->cli->is_json) {
        json_begin("note");
        json_text(about, which);
        json_text("message", note);
        json_end();
    }
    return importing->cli->is_json;
}

static void tell_note(struct importing *importing, const char *path, const char *note) {
    if (!note_json(importing, "path", path, note))
        cli_note("%s: %s; what was not found is stored as plain bytes", path, note);
}

static int find_files(struct importing *importing, struct varve_error *error) {
    struct cli *cli = importing->cli;
    struct files_list files = {.count = 0};
    int rc = 0;

    for (int i = 1; i < cli->arg_count && rc == 0; i++)
        rc = files_walk(&files, importing->folder, cli->args[i], error);
    if (rc == 0 && files.count == 0)
        rc = files_error(error, -ENOENT, "there are no files in what was given");
    files_settle(&files);
    files_plan_begin(&importing->plan, &files);
    return rc;
}

static int look_into(struct importing *importing, uint32_t number, struct varve_error *error) {
    const struct files_file *file = &importing->plan.files.list[number];
    struct files_found found = {.count = 0};
    char note[FILES_NOTE_CAPACITY] = "";

    int fd = openat(importing->folder, file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return files_system_error(error, "open", file->path);
    int rc = files_look(fd, file->size, files_kind_of(fd, file->size), &found, note);
    close(fd);
    if (note[0])
        tell_note(importing, file->path, note);
    if (rc == 0)
        rc = files_plan_add(&importing->plan, number, &found);
    if (rc == 1) {
        tell_note(importing, file->path, "there are too many variables and pieces already");
        rc = 0;
    }
    files_found_clear(&found);
    return rc;
}

static int make_plan(struct importing *importing, struct varve_error *error) {
    struct files_plan *plan = &importing->plan;
    uint64_t seen = 0;
    int rc = find_files(importing, error);

    for (size_t i = 0; i < plan->files.count && rc == 0; i++) {
        rc = look_into(importing, (uint32_t)i, error);
        seen += plan->files.list[i].size;
        rc = rc ? rc : progress_update(seen, plan->files.bytes);
    }
    rc = rc ? rc : files_plan_settle(plan);
    rc = rc ? rc : files_map_encode(plan, &importing->map, &importing->map_size);
    if (rc == -E2BIG && !error->text[0]) {
        snprintf(error->text, sizeof error->text,
                 "there are too many files with too long names for one import; "
                 "import them in several parts, under different names");
    }
    for (size_t i = 0; i < plan->region_count; i++)
        importing->total += plan->regions[i].length;
    importing->total += importing->map_size;
    return rc;
}

/* ---- what the library asks for ---- */

static int on_length(void *arg, uint64_t *bytes_out) {
    struct feed *feed = arg;
    struct importing *importing = feed->importing;

    importing->given -= feed->given; /* it is asked again when an attempt is repeated */
    feed->given = 0;
    *bytes_out = feed->region < importing->plan.region_count ? importing->plan.regions[feed->region].length
                                                             : importing->map_size;
    return 0;
}

/* Whoever gives out the last byte sees whether all files are still as they were: after that it is stored. */
static int on_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    struct feed *feed = arg;
    struct importing *importing = feed->importing;
    int rc = 0;

    if (feed->region < importing->plan.region_count)
        rc = files_source_read(&importing->source, feed->region, offset, buffer, size);
    else
        memcpy(buffer, importing->map + offset, size);
    feed->given += size;
    importing->given += size;
    if (rc == 0 && importing->given == importing->total)
        rc = files_source_check(&importing->source);
    return rc ? rc : progress_update(importing->given, importing->total);
}

static int on_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size, (void)total;
    return -ENOTSUP; /* nothing is restored here */
}

static int protect(struct importing *importing, struct varve_session *session, size_t number) {
    const struct varve_callbacks callbacks = {sizeof callbacks, on_length, on_save, on_load, VARVE_LARGE};
    const struct files_plan *plan = &importing->plan;
    const struct files_region *region = number < plan->region_count ? &plan->regions[number] : NULL;
    const char *name = region ? region->name : FILES_MAP_REGION;
    struct feed *feed = &importing->feeds[number];

    *feed = (struct feed){.importing = importing, .region = number};
    int rc = varve_protect_callback(session, name, &callbacks, feed);
    if (rc == 0 && region && region->dims > 0) {
        struct varve_array array = {.size = sizeof array, .type = region->type, .dims = region->dims};
        for (unsigned i = 0; i < region->dims; i++)
            array.dim[i].local = region->dim[i];
        rc = varve_describe(session, name, &array);
    }
    return rc;
}

/* ---- the checkpoint ---- */

/* What the user has said. */
struct wishes {
    int is_match_set; /* which variables belong together */
    char keep[24];    /* of the environment; "": nothing was said there */
};

static int on_setting(void *arg, const struct varve_setting_info *setting) {
    struct wishes *wishes = arg;

    if (strcmp(setting->name, "match") == 0)
        wishes->is_match_set = strcmp(setting->origin, "default") != 0;
    if (strcmp(setting->name, "keep") == 0 && strcmp(setting->origin, "environment") == 0)
        snprintf(wishes->keep, sizeof wishes->keep, "%s", setting->value);
    return 0;
}

/* Imported versions are an archive: none of them goes because of a default, or of a file that was written for programs.
 * The environment is for this command, and what it does is said. */
static void tell_keep(const struct importing *importing, const struct wishes *wishes) {
    if (wishes->keep[0] && strcmp(wishes->keep, "all") != 0 && !importing->cli->is_json) {
        cli_note("VARVE_KEEP is set: all but the newest %s versions of %s are forgotten", wishes->keep,
                 importing->which.name);
    }
}

/* Small whatever there is to import. */
static void choose_settings(char *out, size_t size, uint64_t bytes, int is_match_set) {
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double all = (double)bytes < memory ? (double)bytes : memory;
    double table = all * TABLE_SHARE;
    long threads = sysconf(_SC_NPROCESSORS_ONLN);

    table = table > TABLE_BYTES ? TABLE_BYTES : table < TABLE_LEAST ? TABLE_LEAST : table;
    double share = all > 0 ? table / all : 0.5;
    threads = threads < 2 ? 2 : threads > THREADS_MOST ? THREADS_MOST : threads;
    snprintf(out, size, "keep=all,codec=size,capture=sync,dedup=local,staging=16M,threads=%ld,table_share=%.6f%s",
             threads, share > 0.5 ? 0.5 : share, is_match_set ? "" : ",match=" MATCH);
}

/* Which versions there are: the highest, and whether there is the one that is wanted. */
struct versions {
    int64_t highest;
    int64_t wanted;
    int is_taken;
};

static int on_checkpoint(void *arg, const struct varve_checkpoint_info *info) {
    struct versions *versions = arg;

    versions->highest = info->version > versions->highest ? info->version : versions->highest;
    versions->is_taken |= info->version == versions->wanted;
    return 0;
}

/* An earlier version that is damaged is no reason to refuse a new one. */
static void tell_distrust(struct importing *importing, const char *why) {
    if (!note_json(importing, "name", importing->which.name, why))
        cli_note("what %s has already cannot be built upon, so everything is stored anew: %s", importing->which.name,
                 why);
}

/* The newest version, if all of it is whole: what is damaged there would be damaged in the new one, too. */
static int choose_parent(struct importing *importing, struct varve_store *store, struct varve_error *error) {
    struct varve_which newest = {.name = importing->which.name, .version = -1};

    progress_begin("checking what is there,", importing->cli->is_json);
    int rc = varve_store_resolve(store, &newest, error);
    struct varve_which same = {.name = newest.name, .version = newest.version};
    rc = rc ? rc : varve_store_resolve(store, &same, error);
    if (rc == 0 && same.generation != newest.generation) { /* it is the one that would be gone on from */
        rc = files_error(error, VARVE_CORRUPT, "%s@%" PRId64 " of generation %" PRIu32 " is damaged", same.name,
                         same.version, same.generation);
    }
    rc = rc ? rc : whole_check(store, &newest, error);
    importing->parent = rc == 0 ? newest.version : -1;
    if (rc < 0 && rc != -EINTR && rc != -ENOMEM && rc != -EEXIST && rc != VARVE_NO_CHECKPOINT) {
        tell_distrust(importing, error->text[0] ? error->text : varve_error_text(rc));
        rc = 0;
    }
    progress_end();
    return rc == VARVE_NO_CHECKPOINT ? 0 : rc;
}

static int choose_version(struct importing *importing, struct varve_store *store, struct varve_error *error) {
    struct versions versions = {.highest = -1, .wanted = importing->which.version};

    int rc = store ? varve_store_list(store, importing->which.name, on_checkpoint, &versions, error) : 0;
    if (rc < 0)
        return rc;
    if (versions.is_taken && !has_option(importing->cli, OPTION_FORCE))
        return files_error(
            error, -EEXIST,
            "%s@%" PRId64 " is there already; choose another version, or --force to store it again as a new generation",
            importing->which.name, importing->which.version);
    if (importing->which.version < 0)
        importing->which.version = versions.highest + 1;
    return versions.highest < 0 ? 0 : choose_parent(importing, store, error);
}

static int look_at_store(struct importing *importing, struct varve_error *error) {
    struct varve_store *store = NULL;

    importing->parent = -1;
    int rc = varve_store_open(importing->cli->address, NULL, &store, error);
    if (rc == 0 || rc == VARVE_NO_STORE) {
        error->text[0] = '\0';
        rc = choose_version(importing, rc == 0 ? store : NULL, error);
    }
    varve_store_close(store);
    if (rc == 0)
        error->text[0] = '\0';
    return rc;
}

/* Go on from an earlier version, so that what is there already is not stored again. */
static int go_on(struct importing *importing, struct varve_session *session) {
    int rc = importing->parent < 0 ? 0 : varve_continue(session, importing->parent, NULL);

    if (rc == VARVE_CORRUPT || rc == VARVE_MISMATCH || rc == -ENOENT) { /* -ENOENT: forgotten meanwhile */
        tell_distrust(importing, varve_session_error(session)->text);
        return 0;
    }
    return rc;
}

static void on_stat(void *arg, const struct varve_stat *stat) {
    struct importing *importing = arg;

    if (strcmp(stat->name, "bytes_stored") == 0 || strcmp(stat->name, "bytes_metadata") == 0)
        importing->bytes_stored += (uint64_t)stat->value;
    if (strcmp(stat->name, "bytes_known") == 0)
        importing->bytes_known = (uint64_t)stat->value;
}

static int store_all(struct importing *importing, struct varve_session *session) {
    int rc = 0;

    for (size_t i = 0; i <= importing->plan.region_count && rc == 0; i++)
        rc = protect(importing, session, i);
    rc = rc ? rc : go_on(importing, session);
    rc = rc ? rc : varve_checkpoint(session, importing->which.version);
    rc = rc ? rc : varve_wait(session);
    if (rc == 0)
        varve_stats_each(session, on_stat, importing);
    return rc;
}

static int store_checkpoint(struct importing *importing, struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    char settings[256];
    struct wishes wishes = {0};

    importing->feeds = calloc(importing->plan.region_count + 1, sizeof *importing->feeds);
    if (!importing->feeds)
        return -ENOMEM;
    int rc = varve_settings_list(NULL, on_setting, &wishes, error);
    if (rc < 0)
        return rc;
    tell_keep(importing, &wishes);
    choose_settings(settings, sizeof settings, importing->total, wishes.is_match_set);
    options.settings = settings;
    rc = varve_open(importing->cli->address, importing->which.name, &options, &session, error);
    if (rc < 0)
        return rc;
    files_source_open(&importing->source, &importing->plan, importing->folder);
    rc = store_all(importing, session);
    if (rc < 0)
        *error = importing->source.error.text[0] ? importing->source.error : *varve_session_error(session);
    files_source_close(&importing->source);
    int closed = varve_close(session);
    return rc ? rc : closed;
}

/* ---- the command ---- */

static void import_summary(const struct importing *importing) {
    uint64_t bytes = importing->plan.files.bytes, stored = importing->bytes_stored;
    double ratio = stored ? (double)bytes / (double)stored : 0;
    char size[SIZE_CAPACITY];
    char stored_size[SIZE_CAPACITY];

    if (importing->cli->is_json) {
        json_begin("summary");
        json_text("name", importing->which.name);
        json_i64("version", importing->which.version);
        json_u64("files", importing->plan.files.count);
        json_u64("regions", importing->plan.region_count + 1);
        json_u64("bytes", bytes);
        json_u64("bytes_known", importing->bytes_known);
        json_u64("bytes_stored", stored);
        json_number("ratio", ratio);
        json_number("seconds", progress_seconds());
        json_u64("notes", importing->notes);
        json_end();
        return;
    }
    text_size(size, bytes);
    text_size(stored_size, stored);
    cli_note("imported %zu file%s as %s@%" PRId64 ": %s, stored in %s", importing->plan.files.count,
             plural(importing->plan.files.count), importing->which.name, importing->which.version, size, stored_size);
}

static int import(struct importing *importing, struct varve_error *error) {
    struct cli *cli = importing->cli;

    importing->folder = cli_open_folder(cli, error);
    if (importing->folder < 0)
        return importing->folder;
    progress_begin("looking into files,", cli->is_json);
    int rc = make_plan(importing, error);
    progress_end();
    rc = rc ? rc : look_at_store(importing, error);
    if (rc == 0) {
        progress_begin("importing", cli->is_json);
        rc = store_checkpoint(importing, error);
        progress_end();
    }
    close(importing->folder);
    return rc;
}

static int run_import(struct cli *cli) {
    struct importing importing = {.cli = cli};
    struct varve_error error = {.text = ""};

    int rc = cli_which(cli, cli->args[0], &importing.which);
    if (rc)
        return rc;
    if (importing.which.generation)
        return cli_usage(cli, "a new checkpoint gets its generation by itself; give a version only");
    rc = import(&importing, &error);
    if (rc == 0)
        import_summary(&importing);
    files_plan_clear(&importing.plan);
    free(importing.feeds);
    free(importing.map);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_import = {
    .name = "import",
    .summary = "store a set of files as a checkpoint",
    .usage = "import STORE NAME[@VERSION] [-C DIR] FILE|DIR...",
    .help =
        "Store files, and all files below directories, as one checkpoint; `varve export` gives them back byte for "
        "byte.\n"
        "In HDF5 and netCDF files the variables are found and stored apart, with their types if they are "
        "little-endian\n"
        "numbers; everything else is stored as plain bytes. What the newest version of NAME has already is not stored "
        "again; all of that\n"
        "is read and checked before. Without a version it is the newest one plus 1, or 0.\n"
        "Paths are stored as they are given, and must be relative, without \"..\". Only plain files can be stored. If "
        "size,\n"
        "times or identity of one change meanwhile, nothing is stored. Changes through memory mappings may stay "
        "unnoticed.\n\n"
        "  -C, --directory DIR  paths are relative to DIR\n"
        "  -f, --force          store a version that is there already once more, as a new generation\n\n"
        "example: varve import /scratch/ck run7@400 -C /scratch/run7/step400 .\n",
    .options = OPTION_FOLDER | OPTION_FORCE,
    .makes_store = 1,
    .least_args = 2,
    .most_args = -1,
    .run = run_import,
};
