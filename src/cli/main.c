/* varve - look at a store and look after it. Each command has a file of its own. */
#include <stddef.h>

#include "terminal/cli.h"

extern const struct command command_ls, command_show, command_diff, command_stats, command_verify, command_restore,
    command_analyze, command_import, command_export, command_dump, command_undump, command_forget, command_pin,
    command_unpin, command_prune, command_compact, command_copy, command_flush, command_repair, command_unlock,
    command_trigger, command_interval, command_key, command_run, command_config, command_report, command_top;

/* clang-format off */
static const struct command *const commands[] = {
    &command_ls, &command_show, &command_diff, &command_stats, &command_report, &command_top, &command_verify,
    &command_restore, &command_analyze, &command_import, &command_export, &command_dump, &command_undump,
    &command_forget, &command_pin, &command_unpin, &command_prune, &command_compact, &command_copy, &command_flush,
    &command_repair, &command_unlock, &command_trigger, &command_interval, &command_key, &command_run, &command_config,
    NULL
};
/* clang-format on */

int main(int argc, char **argv) {
    return cli_run(argc, argv, commands);
}
