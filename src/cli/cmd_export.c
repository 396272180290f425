/* varve export: the files of an import come back, byte for byte; or the arrays of a checkpoint become a file. */
#include <unistd.h>

#include "export.h"
#include "export_arrays.h"
#include "import.h"

static int run_export(struct cli *cli) {
    struct exporting exporting = {.cli = cli};
    struct varve_error error = {.text = ""};

    int rc = cli_which(cli, cli->args[0], &exporting.which);
    if (rc)
        return rc;
    if (cli->arrays && cli->folder)
        return cli_usage(cli, "-C is for files that were imported; --arrays takes a path");
    if (cli->arrays)
        return export_arrays(cli, &exporting.which);
    exporting.place.is_forced = has_option(cli, OPTION_FORCE);
    exporting.place.folder = import_folder(cli, &error);
    if (exporting.place.folder < 0)
        return cli_fail(cli, exporting.place.folder, &error);
    rc = export_files(&exporting, &error);
    close(exporting.place.folder);
    if (rc == 0 && (exporting.files || !exporting.failed))
        export_summary(&exporting);
    export_clear(&exporting);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    return exporting.failed == 0 ? EXIT_OK : exporting.files ? EXIT_PARTIAL : EXIT_CORRUPT;
}

const struct command command_export = {
    .name = "export",
    .summary = "give the files of an import back, or arrays as HDF5",
    .usage = "export STORE NAME[@VERSION] [-C DIR] [PATH...] | --arrays FILE.h5 [ARRAY...]",
    .help = "Write the files that `varve import` stored, byte for byte, every byte checked, with their permissions and "
            "times:\n"
            "all of them, or those named, or below folders that are named. A file appears when all of it is right. "
            "Files that\n"
            "are there already stop it before anything is written.\n\n"
            "With --arrays, write the arrays of a checkpoint, or those named, to one HDF5 file, which is a netCDF-4 "
            "file as\n"
            "well: each put together from the blocks of all ranks.\n\n"
            "  --arrays FILE        the arrays of any checkpoint, into FILE\n"
            "  -C, --directory DIR  below DIR, which must be there, instead of the current folder\n"
            "  -g, --generation G   of this generation, when several have the version\n"
            "  -f, --force          replace files that are there\n\n"
            "example: varve export /scratch/ck run7@400 -C /tmp/back out/fields.h5\n",
    .options = OPTION_FOLDER | OPTION_FORCE | OPTION_GENERATION | OPTION_ARRAYS,
    .least_args = 1,
    .most_args = -1,
    .run = run_export,
};
