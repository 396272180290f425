/* varve import: a set of files becomes a checkpoint. Each variable of HDF5 and netCDF files is a region with its type,
 * what is left of a file another one, and a map says how to put the files together again. First all files are looked
 * into, in child processes; only then is the store opened, which starts threads. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "archive/look.h"
#include "files/chunks.h"
#include "files/look.h"
#include "import.h"
#include "terminal/progress.h"

/* ---- the plan ---- */

static void tell_note(struct importing *importing, const char *path, const char *note) {
    if (!import_note_json(importing, "path", path, note))
        cli_note("%s: %s; what was not found is stored as plain bytes", path, note);
}

static void tell_packed(void *arg, const char *path, const char *note) {
    if (!import_note_json(arg, "path", path, note))
        cli_note("%s: %s", path, note);
}

static int find_files(struct importing *importing, struct varve_error *error) {
    struct cli *cli = importing->cli;
    struct files_list files = {.excludes = cli->excludes, .exclude_count = cli->exclude_count};
    int rc = 0;

    for (int i = 1; i < cli->arg_count && rc == 0; i++)
        rc = files_walk(&files, importing->folder, cli->args[i], error);
    if (rc == 0 && files.count == 0)
        rc = files_error(error, -ENOENT, "there are no files in what was given");
    files_settle(&files);
    if (rc == 0)
        rc = archive_unpack_files(&importing->packed, &files, importing->folder, progress_callback, tell_packed,
                                  importing, error);
    importing->fds = importing->packed.fds;
    files_plan_begin(&importing->plan, &files);
    return rc;
}

static int on_chunk_setting(void *arg, const struct varve_setting_info *setting) {
    struct importing *importing = arg;
    const char *value = setting->value;

    if (strcmp(setting->name, "chunk") == 0)
        importing->is_cut = strcmp(value, "cdc") == 0;
    if (strcmp(setting->name, "chunk_size") == 0)
        importing->chunk_bytes = strcmp(value, "512") == 0 ? 512 : strcmp(value, "4K") == 0 ? 4096 : 32768;
    return 0;
}

static int on_step(void *arg, uint64_t done) {
    const struct importing *importing = arg;

    return progress_update(importing->seen + done, importing->plan.files.bytes);
}

static int look_into(struct importing *importing, uint32_t number, struct varve_error *error) {
    const struct files_file *file = &importing->plan.files.list[number];
    struct files_found found = {.count = 0};
    char note[FILES_NOTE_CAPACITY] = "";

    if (file->target)
        return 0; /* all of it is in the map */
    int content = importing->fds ? importing->fds[number] : -1;
    int fd = content >= 0 ? fcntl(content, F_DUPFD_CLOEXEC, 0)
                          : openat(importing->folder, file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return files_system_error(error, "open", file->path);
    int rc = archive_look(&importing->plan.files, number, importing->folder, fd, &found, note);
    if (rc == 0 && found.count == 0 && !note[0])
        rc = files_look(fd, file->size, files_kind_of(fd, file->size), &found, note);
    if (note[0])
        tell_note(importing, file->path, note);
    int is_cut = importing->is_cut && found.count == 0;
    if (rc == 0 && is_cut)
        rc = files_add_chunks(&importing->plan, number, fd, importing->chunk_bytes, on_step, importing, error);
    close(fd);
    if (rc == 1)
        tell_note(importing, file->path, "there are too many chunks already (a larger chunk_size makes fewer)");
    if (rc == 1 || (rc == 0 && !is_cut))
        rc = files_plan_add(&importing->plan, number, &found);
    if (rc == 1) {
        tell_note(importing, file->path, "there are too many variables and pieces already");
        rc = 0;
    }
    files_found_clear(&found);
    return rc;
}

static int make_plan(struct importing *importing, struct varve_error *error) {
    struct files_plan *plan = &importing->plan;
    int rc = varve_settings_list(NULL, on_chunk_setting, importing, error);

    rc = rc ? rc : find_files(importing, error);

    for (size_t i = 0; i < plan->files.count && rc == 0; i++) {
        rc = look_into(importing, (uint32_t)i, error);
        importing->seen += plan->files.list[i].size;
        rc = rc ? rc : progress_update(importing->seen, plan->files.bytes);
    }
    return rc ? rc : import_settle(importing, error);
}

/* ---- the command ---- */

static int import(struct importing *importing, struct varve_error *error) {
    struct cli *cli = importing->cli;

    importing->folder = import_folder(cli, error);
    if (importing->folder < 0)
        return importing->folder;
    progress_begin("looking into files,", cli->is_json);
    int rc = make_plan(importing, error);
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
    .help =
        "Store files, and all files below directories, as one checkpoint; `varve export` gives them back byte for "
        "byte.\n"
        "In HDF5 and netCDF files the variables are found and stored apart, with their types if they are "
        "little-endian\n"
        "numbers. Images of processes (criu, DMTCP) and archives of them (podman, kubelet) are taken apart, too. "
        "Everything\n"
        "else is stored as plain bytes. What the newest version of NAME has already is not stored "
        "again; all of that\n"
        "is read and checked before. Without a version it is the newest one plus 1, or 0.\n"
        "Paths are stored as they are given, and must be relative, without \"..\". Symbolic links are stored as links. "
        "If "
        "size,\n"
        "times or identity of one change meanwhile, nothing is stored. Changes through memory mappings may stay "
        "unnoticed.\n\n"
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
