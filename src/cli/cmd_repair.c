/* varve repair: rebuild what can be rebuilt. Every change is named. */
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

static void on_action(void *arg, const char *key, uint64_t bytes, const char *text) {
    struct cli *cli = arg;

    (void)bytes;
    if (cli->is_json) {
        json_begin("action");
        json_text("action", "repair");
        json_bool("is_dry_run", has_option(cli, OPTION_DRY_RUN));
        json_text("key", key);
        json_text("message", text);
        json_end();
        return;
    }
    progress_clear();
    text_put(key);
    fputs(*key ? ": " : "", stdout);
    text_put(text);
    putchar('\n');
    fflush(stdout);
}

static int run_repair(struct cli *cli) {
    struct varve_error error = {.text = ""};
    int is_dry_run = has_option(cli, OPTION_DRY_RUN);

    varve_store_progress(cli->store, progress_steps, NULL);
    progress_begin("repairing", cli->is_json);
    int rc = varve_store_repair(cli->store, is_dry_run, on_action, cli, &error);
    progress_end();
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    if (cli->is_json) {
        json_begin("summary");
        json_bool("is_dry_run", is_dry_run);
        json_i64("repairs", rc);
        json_end();
    } else if (rc == 0) {
        printf("nothing to rebuild (damaged data cannot be: `varve verify` names it, `varve forget` gives it up)\n");
    } else {
        printf("%d object%s %s\n", rc, plural((uint64_t)rc), is_dry_run ? "would be rebuilt" : "rebuilt");
    }
    if (rc && !is_dry_run)
        cli_note("`varve verify` tells whether everything is whole now");
    return EXIT_OK;
}

const struct command command_repair = {
    .name = "repair",
    .summary = "rebuild lists and records that are lost or damaged",
    .usage = "repair STORE [-n]",
    .help = "Rebuild what can be rebuilt from the rest: the store object, catalogues, writers lists, and records of\n"
            "checkpoints whose data is all there. Data itself cannot be rebuilt; `varve verify` names what is damaged, "
            "`varve forget` gives it up.\n\n"
            "  -n, --dry-run   only tell what would be rebuilt\n\n"
            "example: varve repair /scratch/ck -n\n",
    .options = OPTION_DRY_RUN,
    .run = run_repair,
};
