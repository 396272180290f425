/* From files to a plan of regions: all are looked into, in child processes, before the store is opened, which starts
 * threads. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "archive/look.h"
#include "files/chunks.h"
#include "files/look.h"
#include "import.h"
#include "terminal/progress.h"

static void tell_note(struct importing *importing, const char *path, const char *note) {
    if (!import_note_json(importing, "path", path, note))
        cli_note("%s: %s; what was not found is stored as plain bytes", path, note);
}

static void tell_packed(void *arg, const char *path, const char *note) {
    if (!import_note_json(arg, "path", path, note))
        cli_note("%s: %s", path, note);
}

static int find_files(struct importing *importing, char *const args[], int count, struct varve_error *error) {
    struct cli *cli = importing->cli;
    struct files_list files = {.excludes = cli->excludes, .exclude_count = cli->exclude_count};
    int rc = 0;

    for (int i = 0; i < count && rc == 0; i++)
        rc = files_walk(&files, importing->folder, args[i], error);
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

int import_plan(struct importing *importing, char *const args[], int count, struct varve_error *error) {
    struct files_plan *plan = &importing->plan;
    int rc = varve_settings_list(NULL, on_chunk_setting, importing, error);

    rc = rc ? rc : find_files(importing, args, count, error);

    for (size_t i = 0; i < plan->files.count && rc == 0; i++) {
        rc = look_into(importing, (uint32_t)i, error);
        importing->seen += plan->files.list[i].size;
        rc = rc ? rc : progress_update(importing->seen, plan->files.bytes);
    }
    return rc ? rc : import_settle(importing, error);
}
