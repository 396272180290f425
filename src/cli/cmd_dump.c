/* varve dump: a running process, and all below it, becomes a checkpoint. criu freezes it and hands its images over
 * through pipes; they are kept in memory, and the process runs on while they are stored. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "import.h"
#include "process/criu.h"
#include "process/images.h"
#include "process/segments.h"
#include "process/tree.h"
#include "terminal/progress.h"

/* ---- from the process into memory ---- */

static int start_criu(struct process_criu *criu, const struct cli *cli, struct varve_error *error) {
    char pid[16];
    const char *after = has_option(cli, OPTION_STOP) ? "--leave-stopped" : "--leave-running";
    const char *const arguments[] = {"--stream", "-t", pid, after, NULL};

    snprintf(pid, sizeof pid, "%" PRIu64, cli->pid);
    return process_criu_start(criu, "dump", arguments, cli->args + 1, cli->arg_count - 1, error);
}

/* All images are whole when criu says that it did well, and not before. */
static int take_images(struct process_criu *criu, const struct cli *cli, struct process_images *images,
                       struct varve_error *error) {
    struct varve_error broken = {.text = ""};

    int rc = process_criu_listen(criu, error);
    rc = rc ? rc : start_criu(criu, cli, error);
    if (rc < 0)
        return rc;
    int taken = process_receive(criu->listener, criu->pid, images, &broken);
    process_criu_deafen(criu); /* criu must not wait for somebody who has given up */
    rc = process_criu_end(criu, "dump", error);
    if (taken < 0 && (rc == 0 || taken != -ECONNABORTED)) { /* else criu knows better */
        *error = broken;
        rc = taken;
    }
    return rc;
}

/* ---- from memory into the store ---- */

static int plan_images(struct importing *importing, const struct process_images *images, int *fds,
                       struct varve_error *error) {
    struct files_list files = {.count = 0};
    struct stat stat;
    int rc = 0;

    for (size_t i = 0; i < images->count && rc == 0; i++) {
        fds[i] = images->list[i].fd;
        rc = fstat(fds[i], &stat) < 0 ? -errno : 0;
        stat.st_mode = 0600;
        rc = rc ? rc : files_add(&files, images->list[i].name, &stat, error);
    }
    files_plan_begin(&importing->plan, &files); /* by name already */
    for (size_t i = 0; i < images->count && rc == 0; i++) {
        struct files_found found = {.count = 0};
        rc = process_segments(images, &images->list[i], &found);
        files_found_check(&found, images->list[i].size);
        if (rc == 0)
            rc = files_plan_add(&importing->plan, (uint32_t)i, &found) < 0 ? -ENOMEM : 0;
        files_found_clear(&found);
    }
    return rc ? rc : import_settle(importing, error);
}

static int store_images(struct importing *importing, const struct process_images *images, struct varve_error *error) {
    int *fds = calloc(images->count, sizeof *fds);
    int rc = fds ? plan_images(importing, images, fds, error) : -ENOMEM;

    importing->fds = fds;
    rc = rc ? rc : import_store(importing, "storing", error);
    free(fds);
    return rc;
}

/* ---- the command ---- */

static int dump(struct importing *importing, struct varve_error *error) {
    const struct cli *cli = importing->cli;
    int is_stopping = has_option(cli, OPTION_STOP);
    struct process_images images = {.count = 0};
    struct process_criu criu;
    struct process_held held;
    struct varve_error left = {.text = ""};

    progress_begin("dumping", cli->is_json); /* an interrupt waits until criu has ended */
    int rc = process_criu_open(&criu, cli->criu, error);
    int is_held = rc == 0 && is_stopping;
    if (is_held) {
        rc = process_hold(&held, (pid_t)cli->pid, error);
        is_held = rc == 0;
    }
    rc = rc ? rc : take_images(&criu, cli, &images, error);
    process_criu_close(&criu);
    if (rc == 0 && is_held)
        rc = process_hold_members(&held, error);
    rc = rc ? rc : progress_update(0, 0);
    progress_end();
    rc = rc ? rc : store_images(importing, &images, error);
    int let = is_held ? process_let_go(&held, rc == 0, &left) : 0;
    if (rc == 0 && let < 0)
        *error = left;
    process_images_clear(&images);
    return rc ? rc : let;
}

static int run_dump(struct cli *cli) {
    struct importing importing = {.cli = cli, .codec = "auto", .folder = -1};
    struct varve_error error = {.text = ""};

    int rc = cli_which(cli, cli->args[0], &importing.which);
    if (rc)
        return rc;
    if (!has_option(cli, OPTION_PID))
        return cli_usage(cli, "say which process with --pid");
    if (importing.which.generation)
        return cli_usage(cli, "a new checkpoint gets its generation by itself; give a version only");
    rc = dump(&importing, &error);
    if (rc == 0)
        import_summary(&importing, has_option(cli, OPTION_STOP) ? "dumped and ended" : "dumped");
    import_clear(&importing);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_dump = {
    .name = "dump",
    .summary = "store a running process and all below it",
    .usage = "dump STORE NAME[@VERSION] --pid PID [--stop] [-- CRIU-OPTION...]",
    .help = "Store a process, and all processes below it, as a checkpoint from which `varve undump` brings them back. "
            "criu\n"
            "takes them down; it needs root. They stand still while criu copies their "
            "memory, and\n"
            "run on while it is stored. Pages that the newest version of NAME has already are not stored again.\n\n"
            "  --pid PID            the process\n"
            "  --stop               end it when the checkpoint is durable; if it cannot be stored, it runs on\n"
            "  --criu PROGRAM       instead of the criu that is found in PATH\n"
            "  -f, --force          store a version that is there already once more, as a new generation\n\n"
            "example: varve dump /scratch/ck editor --pid 4711 -- --shell-job\n",
    .options = OPTION_PID | OPTION_STOP | OPTION_CRIU | OPTION_FORCE,
    .makes_store = 1,
    .least_args = 1,
    .most_args = 1 + PROCESS_OPTIONS_MOST,
    .run = run_dump,
};
