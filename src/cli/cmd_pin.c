/* varve pin, varve unpin: checkpoints that nobody forgets. */
#include <inttypes.h>
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/text.h"

static void tell_pinning(struct cli *cli, const char *action, const struct varve_which *which, int is_old) {
    if (cli->is_json) {
        json_begin("action");
        json_text("action", action);
        json_checkpoint(which->name, which->version, which->generation);
        json_bool("is_changed", !is_old);
        json_end();
        return;
    }
    printf("%s ", action);
    text_put(which->name);
    printf("@%" PRId64 " of generation %" PRIu32 "%s\n", which->version, which->generation,
           is_old ? ": it was pinned before, nothing has changed" : "");
}

static int run_pinning(struct cli *cli, int is_pin) {
    struct varve_error error = {.text = ""};
    struct varve_which which;

    int rc = cli_which(cli, cli->args[0], &which);
    if (rc)
        return rc;
    if (!is_pin && which.version < 0)
        return cli_usage(cli, "which version of %s? Give %s@VERSION", which.name, which.name);
    rc = varve_store_resolve(cli->store, &which, &error);
    if (rc == 0)
        rc = is_pin ? varve_store_pin(cli->store, &which, cli->reason, &error)
                    : varve_store_unpin(cli->store, &which, &error);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    tell_pinning(cli, is_pin ? "pin" : "unpin", &which, rc == 1);
    return EXIT_OK;
}

static int run_pin(struct cli *cli) {
    return run_pinning(cli, 1);
}

static int run_unpin(struct cli *cli) {
    return run_pinning(cli, 0);
}

const struct command command_pin = {
    .name = "pin",
    .summary = "keep a checkpoint from being forgotten",
    .usage = "pin STORE NAME[@VERSION] [--reason TEXT]",
    .help =
        "Pin a checkpoint: neither a job with its setting keep nor `varve forget` forgets it, until it is unpinned.\n"
        "Safe beside running jobs: when this ends with 0, the checkpoint stays. Without a version, or with @latest,\n"
        "the newest one whose tables are whole. Where each node has a store of its own, one of them is enough.\n\n"
        "  --reason TEXT        for people, at most 255 bytes; `varve show` tells it\n"
        "  -g, --generation G   of this generation, when several have the version\n\n"
        "example: varve pin /scratch/ck heat2d@400 --reason 'figure 3'\n",
    .options = OPTION_REASON | OPTION_GENERATION,
    .least_args = 1,
    .most_args = 1,
    .run = run_pin,
};

const struct command command_unpin = {
    .name = "unpin",
    .summary = "let a pinned checkpoint be forgotten again",
    .usage = "unpin STORE NAME@VERSION",
    .help =
        "Take the pin of a checkpoint away, also a damaged one. The checkpoint stays until the next one who forgets:\n"
        "a job that keeps the newest (setting keep), or `varve forget`.\n\n"
        "  -g, --generation G   of this generation, when several have the version\n\n"
        "example: varve unpin /scratch/ck heat2d@400\n",
    .options = OPTION_GENERATION,
    .least_args = 1,
    .most_args = 1,
    .run = run_unpin,
};
