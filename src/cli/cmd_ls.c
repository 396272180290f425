/* varve ls: the checkpoints of a store, newest first. */
#include <errno.h>
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

struct listing {
    struct cli *cli;
    struct table *table;
    uint64_t count;
    uint64_t damaged;
    uint64_t unreadable;
};

static void ls_json(const struct varve_checkpoint_info *info) {
    json_begin("checkpoint");
    json_checkpoint(info->name, info->version, info->generation);
    json_time("time", info->time_ns);
    json_u64("ranks", info->ranks);
    json_u64("regions", info->regions);
    json_u64("bytes_protected", info->bytes_protected);
    json_u64("bytes_stored", info->bytes_stored);
    json_u64("bytes_metadata", info->bytes_metadata);
    json_bool("is_pinned", info->is_pinned);
    json_bool("is_damaged", info->is_damaged && !info->is_unreadable);
    json_bool("is_unreadable", info->is_unreadable);
    if (info->is_damaged)
        json_text("reason", info->reason);
    json_end();
}

static void add_row(struct table *table, const struct varve_checkpoint_info *info) {
    char time[TIME_CAPACITY];

    text_time_local(time, info->time_ns);
    table_text(table, info->name);
    table_number(table, (uint64_t)info->version);
    table_number(table, info->generation);
    if (info->is_damaged) {
        table_alarm(table, info->is_unreadable ? "unreadable" : "damaged");
        for (int i = 0; i < 4; i++)
            table_text(table, "-");
    } else {
        table_text(table, time);
        table_number(table, info->ranks);
        table_number(table, info->regions);
        table_size(table, info->bytes_protected);
        table_size(table, info->bytes_stored);
    }
    table_text(table, info->is_pinned ? "pinned" : "");
}

/* The attributes of a checkpoint, as far as they fit a line. */
struct attributes {
    const struct varve_checkpoint_info *info;
    int is_json;
    char text[400];
    size_t used;
};

static int on_attribute(void *arg, const char *name, const char *value) {
    struct attributes *all = arg;
    if (all->is_json) {
        json_attribute(all->info->name, all->info->version, all->info->generation, name, value);
    } else if (all->used < sizeof all->text) {
        all->used += (size_t)snprintf(all->text + all->used, sizeof all->text - all->used, "%s%s=%s",
                                      all->used ? ", " : "", name, value);
    }
    return 0;
}

static void add_attributes(struct listing *listing, const struct varve_checkpoint_info *info) {
    struct attributes all = {.info = info, .is_json = listing->cli->is_json, .text = ""};
    struct varve_which which = {.name = info->name, .version = info->version, .generation = info->generation};
    struct varve_error error = {.text = ""};
    if (!info->is_damaged && varve_store_attributes(listing->cli->store, &which, on_attribute, &all, &error) < 0)
        cli_note("the attributes of %s@%lld are left out: %s", info->name, (long long)info->version, error.text);
    if (!listing->cli->is_json)
        table_text(listing->table, all.text);
}

static int on_checkpoint(void *arg, const struct varve_checkpoint_info *info) {
    struct listing *listing = arg;

    listing->count++;
    listing->damaged += info->is_damaged && !info->is_unreadable;
    listing->unreadable += info->is_unreadable != 0;
    int is_long = has_option(listing->cli, OPTION_LONG);
    if (listing->cli->is_json) {
        ls_json(info);
    } else {
        add_row(listing->table, info);
        if (info->is_damaged) {
            cli_note("%s@%lld of generation %lu %s: %s", info->name, (long long)info->version,
                     (unsigned long)info->generation,
                     info->is_unreadable ? "may be whole, but nothing is known of it" : "is damaged", info->reason);
        }
    }
    if (is_long)
        add_attributes(listing, info);
    return progress_count(listing->count, 0, "checkpoints");
}

static int finish_listing(struct cli *cli, const struct listing *listing, const char *name) {
    struct varve_error error = {.text = ""};

    if (name && listing->count == 0) {
        snprintf(error.text, sizeof error.text, "%s has no checkpoint of \"%s\"; `varve ls` alone lists all names",
                 cli->address, name);
        return cli_fail(cli, VARVE_NO_CHECKPOINT, &error);
    }
    if (cli->is_json) {
        json_begin("summary");
        json_u64("checkpoints", listing->count);
        json_u64("damaged", listing->damaged);
        json_u64("unreadable", listing->unreadable);
        json_end();
    } else if (listing->count == 0) {
        cli_note("%s has no checkpoints yet", cli->address);
    } else if (listing->damaged) {
        cli_note("%llu damaged; `varve verify` tells more, `varve repair -n` what can be rebuilt",
                 (unsigned long long)listing->damaged);
    }
    if (listing->unreadable && !cli->is_json)
        cli_note("%llu not read; that says nothing about the data", (unsigned long long)listing->unreadable);
    return listing->damaged ? EXIT_CORRUPT : listing->unreadable ? cli->exit_failed : EXIT_OK;
}

static int run_ls(struct cli *cli) {
    static const char *const titles[] = {"<NAME",   "VERSION",   "GENERATION", "TIME", "RANKS",
                                         "REGIONS", "PROTECTED", "STORED",     "<PIN", "<ATTRIBUTES"};
    struct listing listing = {.cli = cli, .table = table_create(titles, has_option(cli, OPTION_LONG) ? 10 : 9)};
    struct varve_error error = {.text = ""};
    const char *name = cli->arg_count ? cli->args[0] : NULL;

    progress_begin("listing", cli->is_json);
    int rc = listing.table ? varve_store_list(cli->store, name, on_checkpoint, &listing, &error) : -ENOMEM;
    progress_end();
    if (rc == 0 && table_print(listing.table) < 0)
        rc = -ENOMEM;
    table_destroy(listing.table);
    return rc < 0 ? cli_fail(cli, rc, &error) : finish_listing(cli, &listing, name);
}

const struct command command_ls = {
    .name = "ls",
    .alias = "list",
    .summary = "list checkpoints, newest first",
    .usage = "ls STORE [NAME]",
    .help = "List the checkpoints of a store, or of one name in it, newest first.\n"
            "PROTECTED is what the program saved, STORED the new data it took to store that. PIN tells which ones\n"
            "`varve pin` keeps from being forgotten.\n\n"
            "  -L, --long   with the attributes of each\n"
            "  --json       one \"checkpoint\" line each (with --long, an \"attribute\" line for each), then a\n"
            "               \"summary\"\n\n"
            "example: varve ls /scratch/ck heat2d\n",
    .options = OPTION_LONG,
    .most_args = 1,
    .run = run_ls,
};
