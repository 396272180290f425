/* varve import: a set of files becomes a checkpoint. Each variable of HDF5 and netCDF files is a region with its type,
 * what is left of a file another one, and a map says how to put the files together again. First all files are looked
 * into, in child processes; only then is the store opened, which starts threads. */
#include <unistd.h>

#include "import.h"
#include "terminal/progress.h"

static int import(struct importing *importing, struct varve_error *error) {
    struct cli *cli = importing->cli;

    importing->folder = import_folder(cli, error);
    if (importing->folder < 0)
        return importing->folder;
    progress_begin("looking into files,", cli->is_json);
    int rc = import_plan(importing, cli->args + 1, cli->arg_count - 1, error);
    progress_end();
    rc = rc ? rc : import_store(importing, "importing", error);
    close(importing->folder);
    return rc;
}

static int run_import(struct cli *cli) {
    struct importing importing = {.cli = cli, .codec = "size"};
    struct varve_error error = {.text = ""};

    int rc = cli_which(cli, cli->args[0], &importing.which);
    if (rc)
        return rc;
    if (importing.which.generation)
        return cli_usage(cli, "a new checkpoint gets its generation by itself; give a version only");
    rc = import(&importing, &error);
    if (rc == 0)
        import_summary(&importing, "imported");
    import_clear(&importing);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_import = {
    .name = "import",
    .summary = "store a set of files as a checkpoint",
    .usage = "import STORE NAME[@VERSION] [-C DIR] [--exclude PATTERN] FILE|DIR...",
    .help = "Store files, and all files below directories, as one checkpoint; `varve export` gives them back byte for\n"
            "byte. In HDF5 and netCDF files the variables are found and stored apart, with their types if they are\n"
            "little-endian numbers. Images of processes (criu, DMTCP) and archives of them (podman, kubelet) are\n"
            "taken apart, too. Everything else is stored as plain bytes. What the newest version of NAME has already\n"
            "is not stored again; all of that is read and checked before. Without a version it is the newest one plus\n"
            "1, or 0. Paths are stored as they are given, and must be relative, without \"..\". Symbolic links are\n"
            "stored as links. If size, times or identity of one change meanwhile, nothing is stored. Changes through\n"
            "memory mappings may stay unnoticed.\n\n"
            "  -C, --directory DIR  paths are relative to DIR\n"
            "  --exclude PATTERN    leave out what matches: names, or paths if there is a / in it; may be repeated\n"
            "  -f, --force          store a version that is there already once more, as a new generation\n\n"
            "example: varve import /scratch/ck run7@400 -C /scratch/run7/step400 .\n",
    .options = OPTION_FOLDER | OPTION_FORCE | OPTION_EXCLUDE,
    .makes_store = 1,
    .least_args = 2,
    .most_args = -1,
    .run = run_import,
};
