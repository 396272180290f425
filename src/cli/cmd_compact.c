/* varve compact: let the checkpoints of names at rest take what they need, and no more. */
#include <inttypes.h>
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

struct compaction {
    struct cli *cli;
    const char *name; /* at hand */
};

static void on_checkpoint(void *arg, int is_forgotten, uint32_t generation, uint64_t version) {
    struct compaction *compaction = arg;

    if (compaction->cli->is_json) {
        json_begin("action");
        json_text("action", is_forgotten ? "forget" : "move");
        json_checkpoint(compaction->name, (int64_t)version, generation);
        json_end();
        return;
    }
    progress_clear();
    printf("%s ", is_forgotten ? "forget" : "write again");
    text_put(compaction->name);
    printf("@%" PRIu64 " of generation %" PRIu32 "\n", version, generation);
    fflush(stdout);
}

static void tell_result(const struct compaction *compaction, const struct varve_compact_result *result) {
    char before[SIZE_CAPACITY], after[SIZE_CAPACITY], live[SIZE_CAPACITY];

    if (compaction->cli->is_json) {
        json_begin("space");
        json_text("name", compaction->name);
        json_u64("moved", result->moved);
        json_u64("forgotten", result->forgotten);
        json_u64("bytes_before", result->bytes_before);
        json_u64("bytes_after", result->bytes_after);
        json_u64("bytes_live", result->bytes_live);
        json_u64("bytes_written", result->bytes_written);
        json_number("seconds", progress_seconds());
        json_end();
        return;
    }
    text_size(before, result->bytes_before);
    text_size(after, result->bytes_after);
    text_size(live, result->bytes_live);
    text_put(compaction->name);
    printf(": %s before, %s now, %s needed", before, after, live);
    printf("%s\n", result->moved ? "" : "; nothing to gain by writing checkpoints again");
}

static int compact_name(struct compaction *compaction, const char *name) {
    struct cli *cli = compaction->cli;
    struct varve_compact_result result = {.size = sizeof result};
    struct varve_error error = {.text = ""};
    struct varve_compact_options options = {
        .size = sizeof options,
        .keep = has_option(cli, OPTION_KEEP_LAST) ? cli->keep_last : 0,
        .report = on_checkpoint,
        .progress = progress_callback,
        .arg = compaction,
    };

    compaction->name = name;
    progress_begin("compacting", cli->is_json);
    int rc = varve_store_compact(cli->store, name, &options, &result, &error);
    progress_end();
    if (rc == 0) {
        tell_result(compaction, &result);
        return EXIT_OK;
    }
    int exit_code = cli_fail(cli, rc, &error);
    if (rc != VARVE_BUSY && rc != VARVE_UNSUPPORTED && result.bytes_before > 0)
        cli_note("nothing of \"%s\" is lost; run it again, or `varve prune` to free what is not needed", name);
    return exit_code;
}

/* A name that cannot be compacted does not keep the others from it, an interrupt does. */
static int run_compact(struct cli *cli) {
    struct compaction compaction = {.cli = cli};
    struct name_list names = {0};
    struct varve_error error = {.text = ""};
    int exit_code = EXIT_OK;

    if (has_option(cli, OPTION_KEEP_LAST) && cli->arg_count == 0)
        return cli_usage(cli, "--keep-last goes with a NAME: it makes checkpoints be forgotten");
    int rc = cli->arg_count ? 0 : varve_store_list(cli->store, NULL, take_name, &names, &error);
    if (rc < 0)
        exit_code = cli_fail(cli, rc, &error);
    else if (cli->arg_count)
        exit_code = compact_name(&compaction, cli->args[0]);
    for (size_t i = 0; i < names.count; i++) {
        int code = rc < 0 || exit_code == EXIT_INTERRUPTED ? EXIT_OK : compact_name(&compaction, names.list[i]);
        exit_code = exit_code ? exit_code : code;
    }
    clear_names(&names);
    return exit_code;
}

const struct command command_compact = {
    .name = "compact",
    .summary = "store what is needed again, so that the rest can go",
    .usage = "compact STORE [NAME [--keep-last N]]",
    .help = "Write the checkpoints of a name again, with what they need and no more, read them back, and remove the "
            "old data.\n"
            "They keep their versions. Refused while a program writes the name. Needs room for the new data beside the "
            "old.\n"
            "Stopped or killed anywhere, all checkpoints are there. `varve stats` tells what there is to gain.\n\n"
            "  --keep-last N   only the newest N checkpoints; the others are forgotten, and named\n\n"
            "example: varve compact /scratch/ck heat2d\n",
    .options = OPTION_KEEP_LAST,
    .most_args = 1,
    .run = run_compact,
};
