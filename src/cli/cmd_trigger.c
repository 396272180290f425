/* varve trigger: ask a running program for a checkpoint. */
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/text.h"

static int run_trigger(struct cli *cli) {
    struct varve_error error = {.text = ""};
    int is_exit = has_option(cli, OPTION_EXIT);

    int rc = varve_store_trigger(cli->store, cli->args[0], is_exit ? VARVE_TRIGGER_EXIT : 0, &error);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    if (!cli->is_json) {
        text_put(cli->args[0]);
        printf(" is asked for a checkpoint%s%s\n", is_exit ? ", and to end after it" : "",
               rc == 1 ? ": it was before, and has not taken notice yet" : "");
        return EXIT_OK;
    }
    json_begin("action");
    json_text("action", "trigger");
    json_text("name", cli->args[0]);
    json_bool("is_exit", is_exit);
    json_bool("is_changed", rc == 0);
    json_end();
    return EXIT_OK;
}

const struct command command_trigger = {
    .name = "trigger",
    .summary = "ask a running program for a checkpoint",
    .usage = "trigger STORE NAME [--exit]",
    .help = "Ask the program that has NAME open for a checkpoint. It takes notice at its next varve_need.\n\n"
            "  --exit   and to end after it: varve_should_exit says so when the checkpoint is durable\n\n"
            "example: varve trigger /scratch/ck heat2d\n",
    .options = OPTION_EXIT,
    .least_args = 1,
    .most_args = 1,
    .run = run_trigger,
};
