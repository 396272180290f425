/* varve show: one checkpoint and its regions. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli.h"
#include "json.h"
#include "text.h"

struct showing {
    struct cli *cli;
    struct table *table;
};

static int on_region(void *arg, const struct varve_stored_region *region) {
    struct showing *showing = arg;

    if (showing->cli->is_json) {
        json_begin("region");
        json_u64("rank", region->rank);
        json_text("region", region->name);
        json_text("type", region->type);
        json_u64("bytes", region->bytes);
        json_u64("bytes_zero", region->bytes_zero);
        json_u64("runs", region->runs);
        json_text("digest", region->digest);
        json_end();
        return 0;
    }
    table_number(showing->table, region->rank);
    table_text(showing->table, region->name);
    table_text(showing->table, region->type);
    table_size(showing->table, region->bytes);
    table_size(showing->table, region->bytes_zero);
    table_number(showing->table, region->runs);
    table_text(showing->table, region->digest);
    return 0;
}

static void tell_json(const struct varve_checkpoint_detail *detail) {
    const struct varve_checkpoint_info *info = &detail->info;

    json_begin("checkpoint");
    json_text("name", info->name);
    json_i64("version", info->version);
    json_u64("generation", info->generation);
    json_time("time", info->time_ns);
    json_text("program", detail->program);
    json_u64("ranks", info->ranks);
    json_u64("writers", detail->writers);
    json_u64("attempt", detail->attempt);
    json_u64("regions", info->regions);
    json_u64("bytes_protected", info->bytes_protected);
    json_u64("bytes_stored", info->bytes_stored);
    json_u64("bytes_metadata", info->bytes_metadata);
    json_u64("leans", detail->leans);
    if (detail->parent_generation) {
        json_i64("parent_version", detail->parent_version);
        json_u64("parent_generation", detail->parent_generation);
    }
    json_end();
}

static void put_size(const char *what, uint64_t bytes) {
    char size[SIZE_ROOM];
    text_size(size, bytes);
    printf("%-11s %s (%" PRIu64 " bytes)\n", what, size, bytes);
}

static void tell_text(const struct varve_checkpoint_detail *detail) {
    const struct varve_checkpoint_info *info = &detail->info;
    char time[TIME_ROOM];

    text_time_local(time, info->time_ns);
    fputs("name        ", stdout);
    text_put(info->name);
    printf("\nversion     %" PRId64 "\ngeneration  %" PRIu32 "\ntime        %s\nprogram     ", info->version,
           info->generation, time);
    text_put(detail->program);
    printf("\nranks       %" PRIu32 ", written by %" PRIu32 "\n", info->ranks, detail->writers);
    printf("regions     %" PRIu64 "\n", info->regions);
    put_size("protected", info->bytes_protected);
    put_size("stored", info->bytes_stored);
    put_size("metadata", info->bytes_metadata);
    if (detail->parent_generation) {
        printf("parent      version %" PRId64 " of generation %" PRIu32 "\n", detail->parent_version,
               detail->parent_generation);
    } else {
        printf("parent      none\n");
    }
    printf("leans on    %" PRIu32 " other checkpoint%s\n", detail->leans, plural(detail->leans));
    if (detail->attempt) {
        printf("attempt     %" PRIu32 "\n", detail->attempt);
    }
}

/* The details first: they come before the regions in the output, too, and then the very same checkpoint is shown. */
static int show(struct cli *cli, struct varve_which *which, struct showing *showing, struct varve_error *error) {
    struct varve_checkpoint_detail detail;

    int rc = varve_store_resolve(cli->store, which, error);
    rc = rc < 0 ? rc : varve_store_show(cli->store, which, &detail, NULL, NULL, error);
    if (rc < 0) {
        return rc;
    }
    if (cli->is_json) {
        tell_json(&detail);
    } else {
        tell_text(&detail);
    }
    rc = varve_store_show(cli->store, which, NULL, on_region, showing, error);
    if (!cli->is_json && rc == 0) {
        putchar('\n');
        rc = table_print(showing->table) < 0 ? -ENOMEM : 0;
    }
    return rc;
}

static int run(struct cli *cli) {
    static const char *const titles[] = {"RANK", "<REGION", "<TYPE", "SIZE", "ZERO", "RUNS", "DIGEST"};
    struct varve_error error = {.text = ""};
    struct varve_which which;

    int rc = cli_which(cli, cli->args[0], &which);
    if (rc) {
        return rc;
    }
    struct showing showing = {.cli = cli, .table = table_create(titles, 7)};
    rc = showing.table ? show(cli, &which, &showing, &error) : -ENOMEM;
    table_destroy(showing.table);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_show = {
    .name = "show",
    .summary = "show one checkpoint and its regions",
    .usage = "show STORE NAME[@VERSION]",
    .help = "Show a checkpoint and every region of every rank in it. Without a version, or with @latest,\n"
            "the newest one whose tables are whole.\n\n"
            "  --generation G   of this generation, when several have the version\n\n"
            "example: varve show /scratch/ck heat2d@400\n",
    .options = OPTION_GENERATION,
    .least_args = 1,
    .most_args = 1,
    .run = run,
};
