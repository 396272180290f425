/* varve copy: a checkpoint of one store becomes one of another. */
#include <inttypes.h>
#include <stdio.h>

#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

static void tell_json(const char *name, int is_dry_run, const struct varve_copy_result *result) {
    json_begin("summary");
    json_checkpoint(name, result->version, result->generation);
    json_bool("dry_run", is_dry_run);
    json_bool("was_there", result->is_there);
    json_u64("ranks", result->ranks);
    json_u64("regions", result->regions);
    json_u64("bytes_protected", result->bytes_protected);
    json_u64("bytes_new", result->bytes_new);
    json_u64("bytes_resumed", result->bytes_resumed);
    json_u64("bytes_written", result->bytes_written);
    json_number("seconds", progress_seconds());
    json_end();
}

static void tell_text(const char *name, int is_dry_run, const struct varve_copy_result *result) {
    char protected_bytes[SIZE_CAPACITY], new_bytes[SIZE_CAPACITY], written[SIZE_CAPACITY], resumed[SIZE_CAPACITY];

    text_size(protected_bytes, result->bytes_protected);
    text_size(new_bytes, result->bytes_new);
    text_size(written, result->bytes_written);
    text_size(resumed, result->bytes_resumed);
    text_put(name);
    printf("@%" PRId64, result->version);
    if (result->is_there)
        printf(" was there already: both were read and are the same, %s\n", protected_bytes);
    else if (is_dry_run)
        printf(": %s of %s are not there, before compression\n", new_bytes, protected_bytes);
    else if (result->bytes_resumed)
        printf(" copied: %s of %s were new, of which an earlier try had stored %s; %s written\n", new_bytes,
               protected_bytes, resumed, written);
    else
        printf(" copied: %s of %s were new; %s written\n", new_bytes, protected_bytes, written);
}

static int run_copy(struct cli *cli) {
    struct varve_which which = {0};
    struct varve_error error = {.text = ""};
    struct varve_copy_result result = {.size = sizeof result};
    struct varve_copy_options options = {
        .size = sizeof options, .is_dry_run = has_option(cli, OPTION_DRY_RUN), .progress = progress_callback};

    int rc = cli_which(cli, cli->args[0], &which);
    if (rc)
        return rc;
    const char *name = cli->arg_count > 2 ? cli->args[2] : which.name;
    progress_begin("copying", cli->is_json);
    rc = varve_store_copy(cli->store, &which, cli->args[1], name, &options, &result, &error);
    progress_end();
    if (rc < 0) {
        int exit_code = cli_fail(cli, rc, &error);
        if (result.bytes_written > 0)
            cli_note("what is there stays; run it again to go on, or `varve prune` to free it");
        return exit_code;
    }
    (cli->is_json ? tell_json : tell_text)(name, options.is_dry_run, &result);
    return EXIT_OK;
}

const struct command command_copy = {
    .name = "copy",
    .summary = "make a checkpoint one of another store, too",
    .usage = "copy STORE NAME[@VERSION] TO [NAME2] [--dry-run]",
    .help = "Copy a checkpoint to the store TO, which is made if it is missing, under its name or NAME2. It keeps its "
            "version,\n"
            "ranks, regions and attributes. What the newest checkpoint of that name has already is not sent. All is "
            "checked\n"
            "as it is read, and read back before the copy becomes a checkpoint. Killed anywhere, run it again: it goes "
            "on.\n"
            "Killed as it reads back, a program that opens the name takes the copy as it is: `varve verify` reads it.\n"
            "Refused while a program writes that name there, and if the name has the version, or a later one, from "
            "elsewhere.\n"
            "With encrypt=on a new store is encrypted. What is encrypted is not copied to a store that is not.\n\n"
            "  --dry-run   say how much is not there; reads all of the checkpoint\n\n"
            "example: varve copy /scratch/ck heat2d@400 s3://archive/run7\n",
    .options = OPTION_DRY_RUN,
    .is_source = 1,
    .least_args = 2,
    .most_args = 3,
    .run = run_copy,
};
