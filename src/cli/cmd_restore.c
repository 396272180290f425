/* varve restore: the bytes of one region, or of an array that many ranks hold, into a file. They go to a file of
 * another name beside it, which becomes FILE when all of it was right; to stdout only after a first pass has checked
 * them, because what is in a pipe cannot be taken back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files/found.h"
#include "files/npy.h"
#include "files/output.h"
#include "files/slice.h"
#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

struct restoration {
    struct cli *cli;
    int fd;
    int failed_write; /* -errno of a write to the output */
    uint64_t bytes;
    int is_npy;
    struct npy_head head; /* what comes before the bytes; size 0: nothing, or it is written */
    int is_array;         /* of all ranks, not a region of one */
    struct varve_slice slice;
};

static int write_head(struct restoration *restoration) {
    restoration->failed_write = files_write_all(restoration->fd, restoration->head.data, restoration->head.size);
    restoration->head.size = 0;
    return restoration->failed_write;
}

static int on_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct restoration *restoration = arg;

    if (data) {
        if (write_head(restoration) < 0)
            return restoration->failed_write;
        restoration->failed_write = files_write_all(restoration->fd, data, size);
        if (restoration->failed_write)
            return restoration->failed_write;
        restoration->bytes += size;
    }
    return progress_update(offset + size, total);
}

static int read_region(struct restoration *restoration, const struct varve_which *which, int is_checked_first,
                       struct varve_error *error) {
    struct cli *cli = restoration->cli;

    progress_begin("restoring", cli->is_json);
    int rc = restoration->is_array ? varve_store_read_array(cli->store, which, cli->args[1], &restoration->slice,
                                                            is_checked_first, on_bytes, restoration, error)
                                   : varve_store_read(cli->store, which, (uint32_t)cli->rank, cli->args[1],
                                                      is_checked_first, on_bytes, restoration, error);
    if (rc == 0) /* of a region without any byte nothing was told */
        rc = write_head(restoration);
    progress_end();
    if (restoration->failed_write) {
        snprintf(error->text, sizeof error->text, "cannot write to %s: %s", cli->output,
                 strerror(-restoration->failed_write));
    }
    return rc;
}

static int restore_file(struct restoration *restoration, const struct varve_which *which, struct varve_error *error) {
    struct files_output output;
    int rc = files_output_open(&output, restoration->cli->output, has_option(restoration->cli, OPTION_FORCE), error);

    restoration->fd = output.fd;
    rc = rc ? rc : read_region(restoration, which, 0, error);
    return files_output_close(&output, rc, error);
}

static int restore_stdout(struct restoration *restoration, const struct varve_which *which, struct varve_error *error) {
    restoration->fd = STDOUT_FILENO;
    return read_region(restoration, which, 1, error);
}

/* ---- NumPy files ---- */

static int is_npy_wanted(struct cli *cli, int *out) {
    size_t length = strlen(cli->output);

    *out = length > 4 && !strcmp(cli->output + length - 4, ".npy");
    if (!cli->format)
        return 0;
    if (strcmp(cli->format, "npy") != 0 && strcmp(cli->format, "raw") != 0)
        return cli_usage(cli, "there is no format \"%s\"; there are raw and npy", cli->format);
    *out = !strcmp(cli->format, "npy");
    return 0;
}

/* error: what our callback refuses; the library tells its own in another. */
struct search {
    struct restoration *restoration;
    struct varve_error error;
};

static int on_region(void *arg, const struct varve_stored_region *region) {
    struct search *search = arg;
    struct restoration *restoration = search->restoration;

    if (region->rank != restoration->cli->rank || strcmp(region->name, restoration->cli->args[1]) != 0)
        return 0;
    int rc = npy_make(region, &restoration->head, &search->error);
    return rc < 0 ? rc : 1;
}

/* A region that is not found is told of when it is read. */
static int make_head(struct restoration *restoration, const struct varve_which *which, struct varve_error *error) {
    struct search search = {.restoration = restoration, .error = {.text = ""}};

    int rc = varve_store_show(restoration->cli->store, which, NULL, on_region, &search, error);
    if (rc < 0 && search.error.text[0])
        *error = search.error;
    return rc;
}

/* ---- arrays of all ranks ---- */

static int on_array(void *arg, const struct varve_global_array *array) {
    struct search *search = arg;
    struct restoration *restoration = search->restoration;
    const struct cli *cli = restoration->cli;
    struct varve_array shape;

    if (array->is_private && !cli->slice)
        return 1; /* a region of some rank is meant */
    int rc = files_slice_parse(cli->slice, array->array, &restoration->slice, &shape, &search->error);
    struct varve_stored_region like = {.name = array->name, .type = array->type, .array = &shape};
    like.bytes = array->bytes;
    for (unsigned i = 0; i < array->array->dims && like.bytes > 0; i++)
        like.bytes = like.bytes / array->array->dim[i].global * restoration->slice.count[i];
    if (rc == 0 && restoration->is_npy && (array->is_whole || array->bytes > 0))
        rc = npy_make(&like, &restoration->head, &search->error);
    restoration->is_array = 1;
    return rc < 0 ? rc : 1;
}

/* Without --rank, a name may be that of an array whose blocks the ranks hold. */
static int look_for_array(struct restoration *restoration, struct varve_which *which, struct varve_error *error) {
    struct search search = {.restoration = restoration, .error = {.text = ""}};
    const struct cli *cli = restoration->cli;
    struct varve_checkpoint_detail detail;

    int rc = varve_store_resolve(cli->store, which, error);
    rc = rc ? rc : varve_store_show(cli->store, which, &detail, NULL, NULL, error);
    if (rc < 0 || (!cli->slice && (has_option(cli, OPTION_RANK) || detail.info.ranks == 1)))
        return rc;
    rc = varve_store_arrays(cli->store, which, cli->args[1], on_array, &search, error);
    if (rc < 0 && search.error.text[0])
        *error = search.error;
    if (rc == 0 && cli->slice && !restoration->is_array)
        return files_error(error, VARVE_MISMATCH,
                           "%s@%" PRId64 " has no array \"%s\"; `varve show` tells what there is", which->name,
                           which->version, cli->args[1]);
    return rc;
}

static void restore_summary(const struct restoration *restoration, const struct varve_which *which) {
    const struct cli *cli = restoration->cli;
    char size[SIZE_CAPACITY];

    if (cli->is_json) {
        json_begin("summary");
        json_checkpoint(which->name, which->version, which->generation);
        if (!restoration->is_array)
            json_u64("rank", (uint64_t)cli->rank);
        json_text(restoration->is_array ? "array" : "region", cli->args[1]);
        json_text("output", cli->output);
        json_text("format", restoration->is_npy ? "npy" : "raw");
        json_u64("bytes", restoration->bytes);
        json_number("seconds", progress_seconds());
        json_end();
        return;
    }
    text_size(size, restoration->bytes);
    cli_note("restored %s from %s@%" PRId64 " of generation %" PRIu32 " to %s: %s, all checked", cli->args[1],
             which->name, which->version, which->generation, cli->output, size);
}

static int run_restore(struct cli *cli) {
    struct restoration restoration = {.cli = cli, .fd = -1};
    struct varve_error error = {.text = ""};
    struct varve_which which;

    if (!cli->output || !*cli->output)
        return cli_usage(cli, "where to? Give a file with -o, or -o - for stdout");
    int is_stdout = !strcmp(cli->output, "-");
    if (is_stdout && cli->is_json)
        return cli_usage(cli, "-o - and --json both want stdout; give a file");
    if (is_stdout && isatty(STDOUT_FILENO) && !has_option(cli, OPTION_FORCE))
        return cli_usage(cli, "stdout is a terminal; give a file, or --force if you want it there");
    int rc = is_npy_wanted(cli, &restoration.is_npy);
    rc = rc ? rc : cli_which(cli, cli->args[0], &which);
    if (rc)
        return rc;
    if (cli->slice && has_option(cli, OPTION_RANK))
        return cli_usage(cli, "--slice is of the array that all ranks hold together; it does not go with --rank");
    rc = look_for_array(&restoration, &which, &error);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    rc = restoration.is_array ? 0 : cli_choose_rank(cli, &which);
    if (rc)
        return rc;
    rc = restoration.is_npy && !restoration.is_array ? make_head(&restoration, &which, &error) : 0;
    if (rc == 0)
        rc = is_stdout ? restore_stdout(&restoration, &which, &error) : restore_file(&restoration, &which, &error);
    if (rc < 0)
        return cli_fail(cli, rc, &error);
    if (!is_stdout)
        restore_summary(&restoration, &which);
    return EXIT_OK;
}

const struct command command_restore = {
    .name = "restore",
    .summary = "write an array or a region of a checkpoint to a file",
    .usage = "restore STORE NAME[@VERSION] ARRAY|REGION [--slice S | --rank R] [--format raw|npy] -o FILE",
    .help =
        "Write an array to a file, put together from the blocks of all ranks, or a region of one rank. Every byte is\n"
        "checked. The file appears only when all of it is right.\n"
        "Without a version, or with @latest, from the newest checkpoint whose tables are whole; should its data\n"
        "turn out to be damaged, say which older version instead.\n\n"
        "  -o, --output FILE   where to; - for stdout (then the region is read twice, to check it first)\n"
        "  -r, --rank R        the region of this rank, not the array of all ranks\n"
        "  --slice S           a part of the array, such as 10:20,:,5: for each dimension FIRST:END, or one index;\n"
        "                      only that is read\n"
        "  -g, --generation G  of this generation, when several have the version\n"
        "  -f, --force         replace FILE if it is there\n"
        "  --format raw|npy    the bytes alone, or a NumPy file with type and shape; npy if FILE ends in .npy\n\n"
        "example: varve restore /scratch/ck heat2d@latest temperature -o temperature.npy\n",
    .options = OPTION_OUTPUT | OPTION_RANK | OPTION_SLICE | OPTION_GENERATION | OPTION_FORCE | OPTION_FORMAT,
    .least_args = 2,
    .most_args = 2,
    .run = run_restore,
};
