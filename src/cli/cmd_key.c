/* varve key: whether a store is encrypted, and another key for it. */
#include <stdio.h>
#include <string.h>

#include "terminal/cli.h"
#include "terminal/json.h"

static void tell_key(const struct cli *cli, int is_encrypted, int is_changed) {
    if (!cli->is_json) {
        puts(is_changed     ? "the store opens with the new key from now on, and not with the old one"
             : is_encrypted ? "encrypted: both copies of its key open with the key given"
                            : "not encrypted");
        return;
    }
    json_begin("key");
    json_bool("is_encrypted", is_encrypted);
    json_bool("is_changed", is_changed);
    json_end();
}

static int run_key(struct cli *cli) {
    struct varve_error error = {.text = ""};
    int is_change = cli->arg_count > 0;

    if (is_change && (cli->arg_count != 2 || strcmp(cli->args[0], "change") != 0))
        return cli_usage(cli,
                         "to change the key: varve key STORE change NEW, NEW as the setting key, such as file:PATH");
    int rc = is_change ? varve_store_key_change(cli->store, cli->args[1], &error)
                       : varve_store_key_check(cli->store, &error);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    tell_key(cli, is_change || rc == 1, is_change);
    return EXIT_OK;
}

const struct command command_key = {
    .name = "key",
    .summary = "tell whether a store is encrypted, or change its key",
    .usage = "key STORE [change NEW]",
    .help = "Tell whether a store is encrypted, and whether both copies of its key open with the key that the setting\n"
            "key gives. `change NEW` lets it be opened with another one; NEW is what the setting key takes. Data is\n"
            "not written anew. If it is interrupted, one of the two keys opens the store, or both: do it again. A key\n"
            "that has leaked needs a new store.\n\n"
            "example: VARVE_KEY=file:old.key varve key /scratch/ck change file:new.key\n",
    .least_args = 0,
    .most_args = 2,
    .run = run_key,
};
