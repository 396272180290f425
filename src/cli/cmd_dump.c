/* varve dump: running processes, each with all below it, become a checkpoint. criu freezes them and hands their images
 * over through pipes; they are kept in memory, and the processes run on while they are stored. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "process/dump.h"
#include "terminal/progress.h"

#define MEMORY_LEAST (UINT64_C(4) << 20)
#define STREAM_MAP (16u << 20) /* what the map may become, where memory is full before all is there */

struct dumping {
    struct importing importing;
    struct process_dump dump;
};

/* ---- memory was full ---- */

static int on_stream(void *arg, uint64_t offset, void *buffer, size_t size, struct varve_error *error) {
    struct dumping *dumping = arg;
    return process_dump_read(&dumping->dump, offset, buffer, size, error);
}

static int on_stream_end(void *arg, struct varve_error *error) {
    struct dumping *dumping = arg;
    struct importing *importing = &dumping->importing;
    uint8_t *map = NULL;
    size_t size = 0;

    int rc = process_dump_complete(&dumping->dump, &importing->plan, error);
    rc = rc ? rc : files_map_encode(&importing->plan, &map, &size);
    if (rc == 0 && size > importing->map_size)
        rc = files_error(error, -E2BIG, "the processes have too many images; give them more --memory");
    importing->map = rc == 0 ? calloc(1, importing->map_size) : NULL;
    rc = rc == 0 && !importing->map ? -ENOMEM : rc;
    if (rc == 0)
        memcpy(importing->map, map, size);
    free(map);
    return rc;
}

static int store_stream(struct dumping *dumping, struct varve_error *error) {
    const struct import_stream stream = {dumping, on_stream, on_stream_end};
    struct importing *importing = &dumping->importing;

    int rc = process_dump_begin(&dumping->dump, &importing->plan);
    if (rc < 0)
        return rc;
    importing->map_size = STREAM_MAP;
    importing->total = importing->plan.regions[0].length + STREAM_MAP;
    importing->stream = &stream;
    rc = import_store(importing, "dumping and storing", error);
    importing->stream = NULL;
    return rc;
}

/* ---- the command ---- */

static int take_images(struct dumping *dumping, struct varve_error *error) {
    const struct cli *cli = dumping->importing.cli;
    uint64_t memory = has_option(cli, OPTION_MEMORY) ? cli->memory : process_memory_share();

    progress_begin("dumping", cli->is_json); /* an interrupt waits until criu has ended */
    int rc = process_dump_take(&dumping->dump, memory < MEMORY_LEAST ? MEMORY_LEAST : memory, error);
    rc = rc ? rc : progress_update(0, 0);
    progress_end();
    return rc;
}

static int store_images(struct dumping *dumping, struct varve_error *error) {
    struct importing *importing = &dumping->importing;

    int rc = process_dump_plan(&dumping->dump, &importing->plan, error);
    rc = rc ? rc : import_settle(importing, error);
    importing->fds = dumping->dump.fds;
    return rc ? rc : import_store(importing, "storing", error);
}

/* What is there is looked at before anything is stopped. */
static int dump(struct dumping *dumping, struct varve_error *error) {
    struct varve_error left = {.text = ""};

    int rc = process_dump_prepare(&dumping->dump, error);
    rc = rc ? rc : import_look(&dumping->importing, error);
    rc = rc ? rc : take_images(dumping, error);
    rc = rc < 0 ? rc : rc > 0 ? store_stream(dumping, error) : store_images(dumping, error);
    int let = process_dump_end(&dumping->dump, rc == 0, &left);
    if (rc == 0 && let < 0)
        *error = left;
    return rc ? rc : let;
}

static int run_dump(struct cli *cli) {
    int is_stopping = has_option(cli, OPTION_STOP);
    struct dumping dumping = {.importing = {.cli = cli, .codec = "auto", .folder = -1},
                              .dump = {.pids = cli->pids,
                                       .count = (size_t)cli->pid_count,
                                       .program = cli->criu,
                                       .options = cli->args + 1,
                                       .option_count = cli->arg_count - 1,
                                       .is_stopping = is_stopping}};
    struct varve_error error = {.text = ""};

    int rc = cli_which(cli, cli->args[0], &dumping.importing.which);
    if (rc)
        return rc;
    if (cli->pid_count == 0)
        return cli_usage(cli, "say which process with --pid");
    if (dumping.importing.which.generation)
        return cli_usage(cli, "a new checkpoint gets its generation by itself; give a version only");
    rc = dump(&dumping, &error);
    if (rc == 0)
        import_summary(&dumping.importing, is_stopping ? "dumped and ended" : "dumped");
    import_clear(&dumping.importing);
    process_dump_clear(&dumping.dump);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_dump = {
    .name = "dump",
    .summary = "store running processes and all below them",
    .usage = "dump STORE NAME[@VERSION] --pid PID... [--stop] [--memory SIZE] [-- CRIU-OPTION...]",
    .help =
        "Store a process, and all processes below it, as a checkpoint from which `varve undump` brings them back.\n"
        "criu takes them down; it needs root. They stand still while criu copies their memory, and run on while\n"
        "it is stored. Pages that the newest version of NAME has already are not stored again. Several processes\n"
        "become one checkpoint of one moment, or none; pages that they share are stored once.\n\n"
        "  --pid PID            the process; several times for several\n"
        "  --stop               end them when the checkpoint is durable; if it cannot be stored, they run on\n"
        "  --memory SIZE        for images that are not stored yet, such as 2G; default half of what is available.\n"
        "                       Where that is less than the processes have, they stand still while the rest is stored\n"
        "  --criu PROGRAM       instead of the criu that is found in PATH\n"
        "  -f, --force          store a version that is there already once more, as a new generation\n\n"
        "example: varve dump /scratch/ck editor --pid 4711 -- --shell-job\n",
    .options = OPTION_PID | OPTION_STOP | OPTION_MEMORY | OPTION_CRIU | OPTION_FORCE,
    .makes_store = 1,
    .least_args = 1,
    .most_args = 1 + PROCESS_OPTIONS_MOST,
    .run = run_dump,
};
