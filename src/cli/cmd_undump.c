/* varve undump: processes that `varve dump` stored come back; or their images, for criu alone. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "export.h"
#include "files/error.h"
#include "process/dump.h"
#include "terminal/progress.h"

/* All images, each byte checked, into this folder. Only a whole set is of use. */
static int fetch(struct exporting *exporting, const char *folder, struct varve_error *error) {
    struct cli *cli = exporting->cli;
    int count = cli->arg_count;

    exporting->place.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (exporting->place.folder < 0)
        return files_system_error(error, "open the folder", folder);
    cli->arg_count = 1; /* those behind it are for criu */
    int rc = export_files(exporting, error);
    cli->arg_count = count;
    close(exporting->place.folder);
    return rc ? rc : exporting->failed ? VARVE_CORRUPT : 0;
}

static int start_again(struct exporting *exporting, struct varve_error *error) {
    const struct cli *cli = exporting->cli;
    static const char *const arguments[] = {"--restore-detached", NULL};
    struct process_criu criu;

    int rc = process_criu_open(&criu, cli->criu, error);
    rc = rc ? rc : process_criu_check(&criu, error);
    rc = rc ? rc : fetch(exporting, criu.folder, error);
    progress_begin("starting again", cli->is_json); /* an interrupt waits until criu has ended */
    if (rc == 0 && exporting->plan.files.count > 0 && strchr(exporting->plan.files.list[0].path, '/'))
        rc = process_restore(&criu, &exporting->plan.files, cli->args + 1, cli->arg_count - 1, error);
    else if (rc == 0)
        rc = process_criu_run(&criu, "restore", arguments, cli->args + 1, cli->arg_count - 1, error);
    progress_end();
    process_criu_close(&criu);
    return rc;
}

static int run_undump(struct cli *cli) {
    struct exporting exporting = {.cli = cli, .is_flat = 1};
    struct varve_error error = {.text = ""};

    int rc = cli_which(cli, cli->args[0], &exporting.which);
    if (rc)
        return rc;
    rc = cli->to ? fetch(&exporting, cli->to, &error) : start_again(&exporting, &error);
    if (rc == 0 && (cli->to || cli->is_json))
        export_summary(&exporting);
    else if (rc == 0)
        cli_note("%s@%" PRId64 " runs again", exporting.which.name, exporting.which.version);
    export_clear(&exporting);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_undump = {
    .name = "undump",
    .summary = "bring a process back that `varve dump` stored",
    .usage = "undump STORE NAME[@VERSION] [--to DIR | -- CRIU-OPTION...]",
    .help =
        "Bring the processes of a checkpoint back: with their memory, open files, pipes and process ids, which "
        "must be free.\n"
        "Files are not in it: they must be where they were. Every byte is checked before criu begins. Of several "
        "processes\n"
        "that were dumped at once, all come back and go on together, or none.\n\n"
        "  --to DIR             write criu's images to DIR, for `criu restore`, and start nothing; those of several\n"
        "                       processes to DIR/PID\n"
        "  --criu PROGRAM       instead of the criu that is found in PATH\n"
        "  -g, --generation G   of this generation, when several have the version\n\n"
        "example: varve undump /scratch/ck editor@3 -- --shell-job\n",
    .options = OPTION_TO | OPTION_CRIU | OPTION_GENERATION,
    .least_args = 1,
    .most_args = 1 + PROCESS_OPTIONS_MOST,
    .run = run_undump,
};
