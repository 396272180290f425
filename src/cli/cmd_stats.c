/* varve stats: what a store holds and what it takes. */
#include <inttypes.h>
#include <stdio.h>

#include "cli.h"
#include "json.h"
#include "text.h"

static double ratio_of(const struct varve_store_totals *totals) {
    return totals->bytes ? (double)totals->bytes_protected / (double)totals->bytes : 0;
}

static void tell_json(const struct varve_store_totals *totals) {
    json_begin("summary");
    json_u64("names", totals->names);
    json_u64("checkpoints", totals->checkpoints);
    json_u64("objects", totals->objects);
    json_u64("bytes", totals->bytes);
    json_u64("bytes_protected", totals->bytes_protected);
    json_u64("bytes_stored", totals->bytes_stored);
    json_u64("bytes_metadata", totals->bytes_metadata);
    json_number("ratio", ratio_of(totals));
    json_end();
}

static void put_size(const char *what, uint64_t bytes, const char *remark) {
    char size[SIZE_ROOM];
    text_size(size, bytes);
    printf("%-12s %10s  %s\n", what, size, remark);
}

static void tell_text(const struct varve_store_totals *totals) {
    printf("%-12s %10" PRIu64 "\n%-12s %10" PRIu64 "\n%-12s %10" PRIu64 "\n", "names", totals->names, "checkpoints",
           totals->checkpoints, "objects", totals->objects);
    put_size("protected", totals->bytes_protected, "what the checkpoints hold, each counted in full");
    put_size("stored", totals->bytes_stored, "new data they brought, as stored");
    put_size("metadata", totals->bytes_metadata, "tables and manifests beside it");
    put_size("on storage", totals->bytes, "all objects, also those that prune would remove");
    if (totals->bytes && totals->checkpoints) {
        printf("%-12s %10.1f  protected over on storage\n", "ratio", ratio_of(totals));
    }
}

static int run(struct cli *cli) {
    struct varve_store_totals totals;
    struct varve_error error = {.text = ""};

    int rc = varve_store_stats(cli->store, cli->arg_count ? cli->args[0] : NULL, &totals, &error);
    if (rc < 0) {
        return cli_fail(cli, rc, &error);
    }
    if (cli->arg_count && totals.objects == 0) {
        snprintf(error.text, sizeof error.text, "%s has nothing called \"%s\"; `varve ls` lists all names",
                 cli->address, cli->args[0]);
        return cli_fail(cli, VARVE_NO_CHECKPOINT, &error);
    }
    if (cli->is_json) {
        tell_json(&totals);
    } else {
        tell_text(&totals);
    }
    return EXIT_OK;
}

const struct command command_stats = {
    .name = "stats",
    .summary = "tell what a store holds and what it takes",
    .usage = "stats STORE [NAME]",
    .help = "Count checkpoints, objects and bytes of a store, or of one name in it.\n\n"
            "example: varve stats /scratch/ck\n",
    .most_args = 1,
    .run = run,
};
