/* varve verify: look at every object and every checkpoint. */
#include <inttypes.h>
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

static void on_finding(void *arg, int level, const char *key, const char *text) {
    static const char *const names[] = {"damage", "lost", "note"};
    const struct cli *cli = arg;
    const char *name = names[level >= 0 && level < 3 ? level : 0];

    if (cli->is_json) {
        json_begin("finding");
        json_text("level", name);
        json_text("key", key);
        json_text("message", text);
        json_end();
        return;
    }
    progress_clear();
    printf("%s: ", name);
    if (*key) {
        text_put(key);
        fputs(": ", stdout);
    }
    text_put(text);
    putchar('\n');
    fflush(stdout);
}

static void verify_summary(const struct cli *cli, const struct varve_verify_result *result) {
    char size[SIZE_CAPACITY];

    if (cli->is_json) {
        json_begin("summary");
        json_u64("objects", result->objects);
        json_u64("bytes", result->bytes);
        json_u64("checkpoints", result->checkpoints);
        json_u64("damaged_objects", result->damaged_objects);
        json_u64("lost_checkpoints", result->lost_checkpoints);
        json_number("seconds", progress_seconds());
        json_end();
        return;
    }
    text_size(size, result->bytes);
    printf("%" PRIu64 " checkpoint%s, %" PRIu64 " object%s, %s: ", result->checkpoints, plural(result->checkpoints),
           result->objects, plural(result->objects), size);
    if (result->damaged_objects || result->lost_checkpoints)
        printf("%" PRIu64 " damaged, %" PRIu64 " without record\n", result->damaged_objects, result->lost_checkpoints);
    else
        printf("no damage found\n");
}

static int run_verify(struct cli *cli) {
    struct varve_verify_result result = {0};
    struct varve_error error = {.text = ""};
    struct varve_verify_options options = {
        .size = sizeof options,
        .name = cli->arg_count ? cli->args[0] : NULL,
        .is_quick = has_option(cli, OPTION_QUICK),
        .finding = on_finding,
        .progress = progress_callback,
        .arg = cli,
    };

    progress_begin("verifying", cli->is_json);
    int rc = varve_store_verify(cli->store, &options, &result, &error);
    progress_end();
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    verify_summary(cli, &result);
    if (result.damaged_objects || result.lost_checkpoints) {
        cli_note("restore what is whole before anything else; `varve repair -n` tells what can be rebuilt, `varve "
                 "forget` gives up what cannot");
        return EXIT_CORRUPT;
    }
    return EXIT_OK;
}

const struct command command_verify = {
    .name = "verify",
    .alias = "check",
    .summary = "look at every object and every checkpoint for damage",
    .usage = "verify STORE [NAME] [--quick]",
    .help = "Read everything and check it: every byte of every object, and that every checkpoint can be restored.\n"
            "Changes nothing. The exit code is 20 when damage is found.\n\n"
            "  -q, --quick   look at tables only, not at data\n\n"
            "example: varve verify /scratch/ck --quick\n",
    .options = OPTION_QUICK,
    .most_args = 1,
    .run = run_verify,
};
