/* varve prune: remove the objects that no checkpoint needs. Every one is named. */
#include <inttypes.h>
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

static void on_action(void *arg, const char *key, uint64_t bytes, const char *text) {
    struct cli *cli = arg;
    int is_dry_run = has_option(cli, OPTION_DRY_RUN);
    char size[SIZE_CAPACITY];

    if (cli->is_json) {
        json_begin("action");
        json_text("action", "remove");
        json_bool("is_dry_run", is_dry_run);
        json_text("key", key);
        json_u64("bytes", bytes);
        json_text("message", text);
        json_end();
        return;
    }
    progress_clear();
    text_size(size, bytes);
    printf("%s ", is_dry_run ? "would remove" : "remove");
    text_put(key);
    printf(", %s\n", size);
    fflush(stdout);
}

static void prune_summary(const struct cli *cli, const struct varve_prune_result *result) {
    int is_dry_run = has_option(cli, OPTION_DRY_RUN);
    char size[SIZE_CAPACITY];

    if (cli->is_json) {
        json_begin("summary");
        json_bool("is_dry_run", is_dry_run);
        json_u64("objects", result->objects);
        json_u64("bytes", result->bytes);
        json_u64("kept_attempts", result->kept_attempts);
        json_end();
        return;
    }
    text_size(size, result->bytes);
    printf("%" PRIu64 " object%s %s, %s\n", result->objects, plural(result->objects),
           is_dry_run ? "would be removed" : "removed", size);
    if (result->kept_attempts) {
        cli_note("left alone because its program may be running: %" PRIu64 " unfinished checkpoint%s",
                 result->kept_attempts, plural(result->kept_attempts));
    }
}

static int run_prune(struct cli *cli) {
    struct varve_prune_result result = {0};
    struct varve_error error = {.text = ""};

    varve_store_progress(cli->store, progress_steps, NULL);
    progress_begin("pruning", cli->is_json);
    int rc = varve_store_prune(cli->store, cli->arg_count ? cli->args[0] : NULL, has_option(cli, OPTION_DRY_RUN),
                               on_action, cli, &result, &error);
    progress_end();
    int exit_code = rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
    if (rc == 0 || result.objects)
        prune_summary(cli, &result);
    return exit_code && exit_code != EXIT_INTERRUPTED && result.objects ? EXIT_PARTIAL : exit_code;
}

const struct command command_prune = {
    .name = "prune",
    .alias = "gc",
    .summary = "remove data that no checkpoint needs",
    .usage = "prune STORE [NAME] [-n]",
    .help = "Remove what no checkpoint needs: data of forgotten checkpoints and what dead programs left. Safe beside\n"
            "running programs. A name with a damaged record is left alone: repair it, or forget the checkpoint.\n\n"
            "  -n, --dry-run   only tell what would be removed\n\n"
            "example: varve prune /scratch/ck -n\n",
    .options = OPTION_DRY_RUN,
    .most_args = 1,
    .run = run_prune,
};
