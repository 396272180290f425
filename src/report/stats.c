/* varve stats: what a store holds and what it takes, and of each name how much of that is needed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "files/error.h"
#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

struct stats {
    struct cli *cli;
    struct table *table;
};

static double ratio_of(const struct varve_store_totals *totals) {
    return totals->bytes ? (double)totals->bytes_protected / (double)totals->bytes : 0;
}

static void stats_json(const struct varve_store_totals *totals) {
    json_begin("summary");
    json_u64("names", totals->names);
    json_u64("checkpoints", totals->checkpoints);
    json_u64("objects", totals->objects);
    json_u64("bytes", totals->bytes);
    json_u64("bytes_protected", totals->bytes_protected);
    json_u64("bytes_stored", totals->bytes_stored);
    json_u64("bytes_metadata", totals->bytes_metadata);
    json_number("ratio", ratio_of(totals));
    if (totals->storage_free != UINT64_MAX) {
        json_u64("storage_free", totals->storage_free);
        json_u64("min_free", totals->min_free);
    }
    json_end();
}

static void put_size(const char *what, uint64_t bytes, const char *remark) {
    char size[SIZE_CAPACITY];
    text_size(size, bytes);
    printf("%-12s %10s  %s\n", what, size, remark);
}

/* Why a checkpoint may have found no room: a job that has died of that leaves no log. */
static void tell_room(const struct varve_store_totals *totals) {
    char least[SIZE_CAPACITY], remark[128];

    if (totals->storage_free == UINT64_MAX)
        return;
    text_size(least, totals->min_free);
    snprintf(remark, sizeof remark,
             totals->storage_free < totals->min_free ? "of the storage: less than %s (min_free), so nothing is saved"
                                                     : "of the storage; programs leave %s of it (min_free)",
             least);
    put_size("free", totals->storage_free, remark);
}

static void tell_text(const struct varve_store_totals *totals) {
    printf("%-12s %10" PRIu64 "\n%-12s %10" PRIu64 "\n%-12s %10" PRIu64 "\n", "names", totals->names, "checkpoints",
           totals->checkpoints, "objects", totals->objects);
    put_size("protected", totals->bytes_protected, "what the checkpoints hold, each counted in full");
    put_size("stored", totals->bytes_stored, "new data they brought, as stored");
    put_size("metadata", totals->bytes_metadata, "tables and manifests beside it");
    put_size("on storage", totals->bytes, "all objects, also those that prune would remove");
    if (totals->bytes && totals->checkpoints)
        printf("%-12s %10.1f  protected over on storage\n", "ratio", ratio_of(totals));
    tell_room(totals);
}

/* ---- of each name ---- */

static double waste_of(const struct varve_usage *usage) {
    return usage->bytes_kept ? (double)(usage->bytes_kept - usage->bytes_live) / (double)usage->bytes_kept : 0;
}

static void tell_usage_json(const char *name, const struct varve_usage *usage) {
    json_begin("space");
    json_text("name", name);
    json_u64("checkpoints", usage->checkpoints);
    json_u64("bytes_live", usage->bytes_live);
    json_u64("bytes_kept", usage->bytes_kept);
    json_u64("bytes_waste", usage->bytes_kept - usage->bytes_live);
    json_number("waste", waste_of(usage));
    json_u64("attempts", usage->attempts);
    json_u64("newest_attempts", usage->newest_attempts);
    json_u64("newest_packs", usage->newest_packs);
    json_u64("objects_free", usage->objects_free);
    json_u64("bytes_free", usage->bytes_free);
    json_end();
}

static void add_row(struct table *table, const char *name, const struct varve_usage *usage) {
    char share[16];

    snprintf(share, sizeof share, "%.0f %%", 100 * waste_of(usage));
    table_text(table, name);
    table_number(table, usage->checkpoints);
    table_size(table, usage->bytes_live);
    table_size(table, usage->bytes_kept);
    table_size(table, usage->bytes_kept - usage->bytes_live);
    table_text(table, share);
    table_number(table, usage->newest_attempts);
    table_number(table, usage->newest_packs);
    table_size(table, usage->bytes_free);
}

/* What cannot be told of one name, since something of it is damaged or elsewhere, is told of the others. */
static int tell_name(struct stats *stats, const char *name) {
    struct varve_usage usage = {.size = sizeof usage};
    struct varve_error error = {.text = ""};

    progress_begin("counting", stats->cli->is_json);
    int rc = varve_store_usage(stats->cli->store, name, progress_callback, NULL, &usage, &error);
    progress_end();
    if (rc == -EINTR)
        return cli_fail(stats->cli, rc, &error);
    if (rc < 0 && stats->cli->is_json) {
        json_begin("space");
        json_text("name", name);
        json_text("reason", error.text);
        json_end();
    } else if (rc < 0) {
        cli_note("how much of the space of \"%s\" is needed cannot be told: %s", name, error.text);
    } else if (stats->cli->is_json) {
        tell_usage_json(name, &usage);
    } else {
        add_row(stats->table, name, &usage);
    }
    return EXIT_OK;
}

static int tell_names(struct cli *cli) {
    static const char *const titles[] = {"<NAME", "CHECKPOINTS", "LIVE",  "KEPT", "WASTE",
                                         "SHARE", "ATTEMPTS",    "PACKS", "FREE"};
    struct stats stats = {.cli = cli, .table = table_create(titles, 9)};
    struct name_list names = {0};
    struct varve_error error = {.text = ""};
    int exit_code = EXIT_OK;

    int rc = stats.table ? varve_store_list(cli->store, cli->arg_count ? cli->args[0] : NULL, take_name, &names, &error)
                         : -ENOMEM;
    for (size_t i = 0; rc == 0 && exit_code == EXIT_OK && i < names.count; i++)
        exit_code = tell_name(&stats, names.list[i]);
    if (rc == 0 && !cli->is_json && names.count && exit_code == EXIT_OK) {
        putchar('\n');
        rc = table_print(stats.table) < 0 ? -ENOMEM : 0;
    }
    table_destroy(stats.table);
    clear_names(&names);
    return rc < 0 ? cli_fail(cli, rc, &error) : exit_code;
}

static int run_stats(struct cli *cli) {
    struct varve_store_totals totals;
    struct varve_error error = {.text = ""};

    int rc = varve_store_stats(cli->store, cli->arg_count ? cli->args[0] : NULL, &totals, &error);
    if (rc == 0 && cli->arg_count && totals.objects == 0)
        rc = files_error(&error, VARVE_NO_CHECKPOINT, "%s has nothing called \"%s\"; `varve ls` lists all names",
                         cli->address, cli->args[0]);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    if (!cli->is_json)
        tell_text(&totals);
    int exit_code = tell_names(cli);
    if (cli->is_json && exit_code == EXIT_OK)
        stats_json(&totals);
    return exit_code;
}

const struct command command_stats = {
    .name = "stats",
    .summary = "tell what a store holds and what it takes",
    .usage = "stats STORE [NAME]",
    .help =
        "Count checkpoints, objects and bytes of a store, or of one name in it. Then, for each name: what its "
        "checkpoints\n"
        "need (live), what they keep on storage, how much of that is waste, on how many attempts with how many packs\n"
        "the newest one depends, and what `varve prune` would free. And how much of the storage is free: with less\n"
        "than the setting min_free no checkpoint is stored.\n\n"
        "example: varve stats /scratch/ck\n",
    .most_args = 1,
    .run = run_stats,
};
