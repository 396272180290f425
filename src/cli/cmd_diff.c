/* varve diff: what changed from one checkpoint to another. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli.h"
#include "json.h"
#include "text.h"

struct comparison {
    struct cli *cli;
    struct table *table;
    uint64_t regions;
    uint64_t bytes_changed;
};

static const char *what_name(int what) {
    static const char *const names[] = {"same", "changed", "removed", "added", "resized"};
    return what >= 0 && what < 5 ? names[what] : "unknown";
}

static int on_difference(void *arg, const struct varve_difference *difference) {
    struct comparison *comparison = arg;

    comparison->regions++;
    comparison->bytes_changed += difference->bytes_changed;
    if (comparison->cli->is_json) {
        json_begin("difference");
        json_u64("rank", difference->rank);
        json_text("region", difference->region);
        json_text("what", what_name(difference->what));
        json_u64("bytes_first", difference->bytes_first);
        json_u64("bytes_second", difference->bytes_second);
        json_u64("bytes_changed", difference->bytes_changed);
        json_end();
    } else if (difference->what != 0) {
        table_number(comparison->table, difference->rank);
        table_text(comparison->table, difference->region);
        table_text(comparison->table, what_name(difference->what));
        table_size(comparison->table, difference->bytes_first);
        table_size(comparison->table, difference->bytes_second);
        table_size(comparison->table, difference->bytes_changed);
    }
    return 0;
}

static void finish(const struct comparison *comparison, int differing) {
    char size[SIZE_ROOM];

    if (comparison->cli->is_json) {
        json_begin("summary");
        json_u64("regions", comparison->regions);
        json_i64("differing", differing);
        json_u64("bytes_changed", comparison->bytes_changed);
        json_end();
        return;
    }
    text_size(size, comparison->bytes_changed);
    if (differing) {
        printf("\n%d of %" PRIu64 " region%s differ, in at most %s\n", differing, comparison->regions,
               plural(comparison->regions), size);
    } else {
        printf("no difference in %" PRIu64 " region%s\n", comparison->regions, plural(comparison->regions));
    }
}

static int run(struct cli *cli) {
    static const char *const titles[] = {"RANK", "<REGION", "<WHAT", "FIRST", "SECOND", "CHANGED"};
    struct varve_error error = {.text = ""};
    struct varve_which first;
    struct varve_which second;

    int rc = cli_which(cli, cli->args[0], &first);
    rc = rc ? rc : cli_which(cli, cli->args[1], &second);
    if (rc) {
        return rc;
    }
    struct comparison comparison = {.cli = cli, .table = table_create(titles, 6)};
    rc = comparison.table ? varve_store_diff(cli->store, &first, &second, on_difference, &comparison, &error) : -ENOMEM;
    int differing = rc;
    if (rc >= 0 && table_print(comparison.table) < 0) {
        rc = -ENOMEM;
    }
    table_destroy(comparison.table);
    if (rc < 0) {
        return cli_fail(cli, rc, &error);
    }
    finish(&comparison, differing);
    return EXIT_OK;
}

const struct command command_diff = {
    .name = "diff",
    .summary = "tell which regions changed between two checkpoints",
    .usage = "diff STORE NAME@VERSION NAME@VERSION",
    .help = "Compare two checkpoints region by region, without reading their data. CHANGED is an upper bound,\n"
            "counted in pieces of 4 KiB. NAME@VERSION:GENERATION picks one of several of the same version.\n"
            "The exit code is 0 whether or not they differ.\n\n"
            "  --json   one \"difference\" line per region, also for those that are the same\n\n"
            "example: varve diff /scratch/ck heat2d@400 heat2d@500\n",
    .least_args = 2,
    .most_args = 2,
    .run = run,
};
