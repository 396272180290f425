#include "import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/whole.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

#define TABLE_BYTES 120e6 /* for the ids of known chunks, at the most */
#define TABLE_SHARE 0.04  /* otherwise of all bytes: room for the ids of several versions */
#define TABLE_LEAST 4e6
#define THREADS_MOST 8
/* PATH:VARIABLE. Colons are more frequent in paths, such as those with times of day, than in variables. */
#define MATCH ":([^:]*)$"

/* What a region's callbacks know: which one it is, and how much of it was asked for. */
struct feed {
    struct importing *importing;
    size_t region; /* of the plan; behind the last: the map, and the recipes of packed files */
    uint64_t given;
};

int import_note_json(struct importing *importing, const char *about, const char *which, const char *note) {
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

int import_folder(const struct cli *cli, struct varve_error *error) {
    const char *path = cli->folder ? cli->folder : ".";
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? files_system_error(error, "open the folder", path) : fd;
}

int import_settle(struct importing *importing, struct varve_error *error) {
    struct files_plan *plan = &importing->plan;

    int rc = files_plan_settle(plan);
    rc = rc ? rc : files_map_encode(plan, &importing->map, &importing->map_size);
    if (rc == 0 && importing->packed.count)
        rc = archive_recipes_encode(&importing->packed, &importing->recipes, &importing->recipes_size);
    if (rc == -E2BIG && !error->text[0]) {
        snprintf(error->text, sizeof error->text,
                 "there are too many files with too long names for one import; "
                 "import them in several parts, under different names");
    }
    for (size_t i = 0; i < plan->region_count; i++)
        importing->total += plan->regions[i].length;
    importing->total += importing->map_size + importing->recipes_size;
    return rc;
}

/* ---- what the library asks for ---- */

static int on_length(void *arg, uint64_t *bytes_out) {
    struct feed *feed = arg;
    struct importing *importing = feed->importing;

    importing->given -= feed->given; /* it is asked again when an attempt is repeated */
    feed->given = 0;
    size_t count = importing->plan.region_count;
    *bytes_out = feed->region < count    ? importing->plan.regions[feed->region].length
                 : feed->region == count ? importing->map_size
                                         : importing->recipes_size;
    return 0;
}

static int read_region(struct importing *importing, size_t region, uint64_t offset, void *buffer, size_t size) {
    const struct import_stream *stream = importing->stream;

    if (stream)
        return stream->read(stream->arg, offset, buffer, size, &importing->source.error);
    return files_source_read(&importing->source, region, offset, buffer, size);
}

/* The map comes last: a stream is over by then. */
static int read_map(struct importing *importing, uint64_t offset, void *buffer, size_t size) {
    const struct import_stream *stream = importing->stream;
    int rc = 0;

    if (stream && !importing->is_stream_over)
        rc = stream->end(stream->arg, &importing->source.error);
    importing->is_stream_over = rc == 0;
    if (rc == 0)
        memcpy(buffer, importing->map + offset, size);
    return rc;
}

/* Whoever gives out the last byte sees whether all files are still as they were: after that it is stored. */
static int on_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    struct feed *feed = arg;
    struct importing *importing = feed->importing;
    size_t count = importing->plan.region_count;
    int rc = 0;

    if (feed->region < count)
        rc = read_region(importing, feed->region, offset, buffer, size);
    else if (feed->region == count)
        rc = read_map(importing, offset, buffer, size);
    else
        memcpy(buffer, importing->recipes + offset, size);
    feed->given += size;
    importing->given += size;
    if (rc == 0 && !importing->stream && importing->given == importing->total)
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
    const char *name = region ? region->name : number == plan->region_count ? FILES_MAP_REGION : ARCHIVE_REGION;
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
static void choose_settings(char *out, size_t size, const struct importing *importing, int is_match_set) {
    double bytes = (double)importing->total;
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double all = bytes < memory ? bytes : memory;
    double table = all * TABLE_SHARE;
    long threads = sysconf(_SC_NPROCESSORS_ONLN);

    table = table > TABLE_BYTES ? TABLE_BYTES : table < TABLE_LEAST ? TABLE_LEAST : table;
    double share = all > 0 ? table / all : 0.5;
    threads = threads < 2 ? 2 : threads > THREADS_MOST ? THREADS_MOST : threads;
    snprintf(out, size, "keep=all,codec=%s,capture=sync,dedup=local,staging=16M,threads=%ld,table_share=%.6f%s",
             importing->codec, threads, share > 0.5 ? 0.5 : share, is_match_set ? "" : ",match=" MATCH);
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
    if (!import_note_json(importing, "name", importing->which.name, why))
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
    rc = rc ? rc : whole_check(store, &newest, progress_callback, error);
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

int import_look(struct importing *importing, struct varve_error *error) {
    struct varve_store *store = NULL;

    importing->has_looked = 1;
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

    for (size_t i = 0; i <= importing->plan.region_count + (importing->recipes != NULL) && rc == 0; i++)
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

    importing->feeds = calloc(importing->plan.region_count + 2, sizeof *importing->feeds);
    if (!importing->feeds)
        return -ENOMEM;
    int rc = varve_settings_list(NULL, on_setting, &wishes, error);
    if (rc < 0)
        return rc;
    tell_keep(importing, &wishes);
    choose_settings(settings, sizeof settings, importing, wishes.is_match_set);
    options.settings = settings;
    rc = varve_open(importing->cli->address, importing->which.name, &options, &session, error);
    if (rc < 0)
        return rc;
    files_source_open(&importing->source, &importing->plan, importing->folder, importing->fds);
    rc = store_all(importing, session);
    if (rc < 0)
        *error = importing->source.error.text[0] ? importing->source.error : *varve_session_error(session);
    files_source_close(&importing->source);
    int closed = varve_close(session);
    return rc ? rc : closed;
}

int import_store(struct importing *importing, const char *what, struct varve_error *error) {
    int rc = importing->has_looked ? 0 : import_look(importing, error);

    if (rc == 0) {
        progress_begin(what, importing->cli->is_json);
        rc = store_checkpoint(importing, error);
        progress_end();
    }
    return rc;
}

/* Chunks that are cut by content are filled up to 4 KiB, and what fills them counts as known, too. */
static uint64_t known_bytes(const struct importing *importing, uint64_t bytes) {
    double part = importing->total > bytes ? (double)bytes / (double)importing->total : 1;
    return importing->is_cut ? (uint64_t)((double)importing->bytes_known * part) : importing->bytes_known;
}

void import_summary(const struct importing *importing, const char *done) {
    uint64_t bytes = importing->plan.files.bytes - importing->packed.grown, stored = importing->bytes_stored;
    double ratio = stored ? (double)bytes / (double)stored : 0;
    char size[SIZE_CAPACITY];
    char stored_size[SIZE_CAPACITY];

    if (importing->cli->is_json) {
        json_begin("summary");
        json_text("name", importing->which.name);
        json_i64("version", importing->which.version);
        json_u64("files", importing->plan.files.count);
        json_u64("regions", importing->plan.region_count + 1 + (importing->recipes != NULL));
        json_u64("bytes", bytes);
        json_u64("bytes_known", known_bytes(importing, bytes));
        json_u64("bytes_stored", stored);
        json_number("ratio", ratio);
        json_number("seconds", progress_seconds());
        json_u64("notes", importing->notes);
        json_end();
        return;
    }
    text_size(size, bytes);
    text_size(stored_size, stored);
    cli_note("%s %zu file%s as %s@%" PRId64 ": %s, stored in %s", done, importing->plan.files.count,
             plural(importing->plan.files.count), importing->which.name, importing->which.version, size, stored_size);
}

void import_clear(struct importing *importing) {
    files_plan_clear(&importing->plan);
    free(importing->feeds);
    free(importing->map);
    free(importing->recipes);
    archive_packed_clear(&importing->packed);
}
