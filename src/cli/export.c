#include "export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

enum file_state { NOT_WANTED, BEGUN, WRITTEN, DONE, FAILED };

/* ---- the map ---- */

static int on_map(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct exporting *exporting = arg;

    if (total > FILES_MAP_MOST)
        return files_error(&exporting->error, VARVE_CORRUPT, "the map of the files is too large");
    if (!exporting->map) {
        exporting->map = malloc((size_t)total + 1);
        exporting->map_size = (size_t)total;
    }
    if (!exporting->map || offset > exporting->map_size || size > exporting->map_size - offset)
        return -ENOMEM;
    memcpy(exporting->map + offset, data, size);
    return progress_update(0, 0);
}

static int on_region(void *arg, const struct varve_stored_region *region) {
    struct exporting *exporting = arg;

    exporting->has_map |= region->rank == 0 && !strcmp(region->name, FILES_MAP_REGION);
    exporting->has_recipes |= region->rank == 0 && !strcmp(region->name, ARCHIVE_REGION);
    return 0;
}

/* All bytes of a region of ours become exporting->map. */
static int read_own(struct exporting *exporting, const char *name, struct varve_error *error) {
    free(exporting->map);
    exporting->map = NULL;
    exporting->map_size = 0;
    int rc = varve_store_read(exporting->cli->store, &exporting->which, 0, name, 0, on_map, exporting, error);
    if (rc < 0 && exporting->error.text[0])
        *error = exporting->error;
    return rc;
}

/* Packed files get their own names back, unless somebody asks for their content. */
static int read_recipes(struct exporting *exporting, struct varve_error *error) {
    const struct cli *cli = exporting->cli;
    int rc = read_own(exporting, ARCHIVE_REGION, error);

    rc = rc ? rc
            : archive_recipes_parse(exporting->map, exporting->map_size, &exporting->plan.files, &exporting->packed,
                                    error);
    if (rc == 0)
        archive_name_packed(&exporting->packed, &exporting->plan.files, cli->args + 1, cli->arg_count - 1);
    return rc;
}

/* NAME, or PID/NAME where several processes were dumped at once. */
static int is_image(const char *path) {
    const char *slash = strchr(path, '/');
    return !slash || (slash > path && strspn(path, "0123456789") == (size_t)(slash - path) && !strchr(slash + 1, '/'));
}

static int read_map(struct exporting *exporting, struct varve_error *error) {
    struct varve_store *store = exporting->cli->store;
    struct varve_checkpoint_detail detail;

    int rc = varve_store_resolve(store, &exporting->which, error);
    rc = rc ? rc : varve_store_show(store, &exporting->which, &detail, on_region, exporting, error);
    if (rc == 0 && !exporting->has_map)
        return files_error(error, -ENOENT,
                           "%s@%" PRId64 " holds no files: it was not made by `varve import`; see `varve restore`",
                           exporting->which.name, exporting->which.version);
    rc = rc ? rc : read_own(exporting, FILES_MAP_REGION, error);
    rc = rc ? rc : files_map_parse(exporting->map, exporting->map_size, &exporting->plan, error);
    if (rc == 0 && exporting->has_recipes)
        rc = read_recipes(exporting, error);
    for (size_t i = 0; i < exporting->plan.files.count && rc == 0 && exporting->is_flat; i++)
        if (!is_image(exporting->plan.files.list[i].path) || exporting->plan.files.list[i].target)
            rc = files_error(error, -EINVAL,
                             "%s@%" PRId64 " has folders or links: it is no process that `varve dump` stored",
                             exporting->which.name, exporting->which.version);
    return rc;
}

/* ---- which files ---- */

/* The path itself, or a folder above it. */
static int is_below(const char *path, const char *wanted) {
    while (wanted[0] == '.' && wanted[1] == '/')
        wanted += 2 + strspn(wanted + 2, "/");
    size_t length = strlen(wanted);
    if (length == 0 || !strcmp(wanted, "."))
        return 1;
    while (length > 1 && wanted[length - 1] == '/')
        length--;
    return !strncmp(path, wanted, length) && (path[length] == '\0' || path[length] == '/');
}

static int choose_files(struct exporting *exporting, struct varve_error *error) {
    const struct cli *cli = exporting->cli;
    const struct files_list *files = &exporting->plan.files;

    exporting->states = calloc(files->count + 1, sizeof *exporting->states);
    exporting->pending = calloc(files->count + 1, sizeof *exporting->pending);
    if (!exporting->states || !exporting->pending)
        return -ENOMEM;
    for (int i = 1; i < cli->arg_count; i++) {
        size_t found = 0;
        for (size_t j = 0; j < files->count; j++) {
            int is_wanted = is_below(files->list[j].path, cli->args[i]);
            found += (size_t)is_wanted;
            exporting->states[j] = is_wanted ? BEGUN : exporting->states[j];
        }
        if (!found)
            return files_error(error, -ENOENT, "%s@%" PRId64 " has no file %s", exporting->which.name,
                               exporting->which.version, cli->args[i]);
    }
    if (cli->arg_count == 1)
        memset(exporting->states, BEGUN, files->count);
    return 0;
}

static int is_run_start(const struct files_plan *plan, const struct files_region *region, size_t piece) {
    return piece == region->first || plan->pieces[piece].file != plan->pieces[piece - 1].file;
}

/* What each file waits for, and how much is to be read. A region is read as a whole if any file needs it. */
static void count_needs(struct exporting *exporting) {
    const struct files_plan *plan = &exporting->plan;

    for (size_t i = 0; i < plan->region_count; i++) {
        const struct files_region *region = &plan->regions[i];
        int is_needed = 0;
        for (size_t j = region->first; j < region->first + region->count; j++) {
            is_needed |= exporting->states[plan->pieces[j].file] == BEGUN;
            exporting->pending[plan->pieces[j].file] += (uint32_t)is_run_start(plan, region, j);
        }
        exporting->total += is_needed ? region->length : 0;
    }
}

/* ---- giving back ---- */

static void give_up_file(struct exporting *exporting, uint32_t number) {
    if (exporting->states[number] == BEGUN || exporting->states[number] == WRITTEN) {
        files_place_drop(&exporting->place, number);
        exporting->states[number] = FAILED;
        exporting->failed++;
    }
}

/* It cannot be given back, and this says why. */
static void spoil_file(struct exporting *exporting, uint32_t number, int code, const struct varve_error *error) {
    struct varve_error told = {.text = ""};

    snprintf(told.text, sizeof told.text, "%.200s cannot be given back: %.250s",
             exporting->plan.files.list[number].path, error->text[0] ? error->text : varve_error_text(code));
    progress_clear();
    cli_fail(exporting->cli, code, &told);
    give_up_file(exporting, number);
}

static void tell_file(const struct exporting *exporting, const struct files_file *file) {
    if (exporting->cli->is_json) {
        json_begin("file");
        json_text("path", file->path);
        json_u64("bytes", file->size);
        json_end();
    }
}

static void on_named(void *arg, uint32_t number) {
    struct exporting *exporting = arg;
    const struct files_file *file = &exporting->plan.files.list[number];

    exporting->states[number] = DONE;
    exporting->files++;
    exporting->bytes += file->size;
    tell_file(exporting, file);
}

static int finish_file(struct exporting *exporting, uint32_t number, struct varve_error *error) {
    int rc = archive_place(&exporting->packed, &exporting->place, &exporting->plan.files.list[number], number,
                           progress_callback, error);

    if (rc == VARVE_UNSUPPORTED) { /* the others may still be well */
        spoil_file(exporting, number, rc, error);
        return 0;
    }
    exporting->states[number] = WRITTEN;
    return rc ? rc : files_place_finish(&exporting->place, number, error);
}

static int begin_files(struct exporting *exporting, struct varve_error *error) {
    const struct files_list *files = &exporting->plan.files;
    int rc = 0;

    for (uint32_t i = 0; i < files->count && rc == 0; i++) {
        if (exporting->states[i] != BEGUN)
            continue;
        rc = files_place_begin(&exporting->place, i, error);
        if (rc < 0) /* those behind it were not begun either */
            for (uint32_t j = i; j < files->count; j++)
                exporting->states[j] = NOT_WANTED;
        else
            rc = progress_update(0, exporting->total);
    }
    for (uint32_t i = 0; i < files->count && rc == 0; i++)
        if (exporting->states[i] == BEGUN && exporting->pending[i] == 0)
            rc = finish_file(exporting, i, error); /* empty */
    return rc;
}

static int write_piece(struct exporting *exporting, const struct files_piece *piece, uint64_t offset,
                       const uint8_t *data, uint64_t end) {
    uint64_t from = piece->region_offset > offset ? piece->region_offset : offset;
    uint64_t to = piece->region_offset + piece->length < end ? piece->region_offset + piece->length : end;

    if (exporting->states[piece->file] != BEGUN)
        return 0;
    return files_place_write(&exporting->place, piece->file, piece->file_offset + (from - piece->region_offset),
                             data + (from - offset), (size_t)(to - from), &exporting->error);
}

static int on_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct exporting *exporting = arg;
    const struct files_plan *plan = &exporting->plan;
    const struct files_region *region = &plan->regions[exporting->region];
    uint64_t end = offset + size;

    if (total != region->length)
        return files_error(&exporting->error, VARVE_CORRUPT, "the region %s has another size than the map says",
                           region->name);
    while (exporting->piece < region->first + region->count) {
        const struct files_piece *piece = &plan->pieces[exporting->piece];
        if (piece->region_offset >= end)
            break;
        exporting->failed_write = write_piece(exporting, piece, offset, data, end);
        if (exporting->failed_write)
            return exporting->failed_write;
        if (piece->region_offset + piece->length > end)
            break;
        exporting->piece++;
    }
    exporting->done += size;
    return progress_update(exporting->done, exporting->total);
}

static int is_needed(const struct exporting *exporting, const struct files_region *region) {
    for (size_t i = region->first; i < region->first + region->count; i++)
        if (exporting->states[exporting->plan.pieces[i].file] == BEGUN)
            return 1;
    return 0;
}

/* A region that cannot be read spoils its files; the others may still be well. */
static int spoil(struct exporting *exporting, const struct files_region *region, int code, struct varve_error *error) {
    const struct files_plan *plan = &exporting->plan;

    for (size_t i = region->first; i < region->first + region->count; i++) {
        uint32_t number = plan->pieces[i].file;
        if (exporting->states[number] == BEGUN)
            spoil_file(exporting, number, code, error);
    }
    return 0;
}

static int export_region(struct exporting *exporting, size_t number, struct varve_error *error) {
    const struct files_plan *plan = &exporting->plan;
    const struct files_region *region = &plan->regions[number];
    int rc = 0;

    if (!is_needed(exporting, region))
        return 0;
    exporting->region = number;
    exporting->piece = region->first;
    exporting->failed_write = 0;
    exporting->error.text[0] = '\0';
    rc = varve_store_read(exporting->cli->store, &exporting->which, 0, region->name, 0, on_bytes, exporting, error);
    if (rc < 0 && exporting->error.text[0])
        *error = exporting->error;
    if (rc == -EINTR || exporting->failed_write)
        return rc;
    if (rc < 0)
        return spoil(exporting, region, rc, error);
    for (size_t i = region->first; i < region->first + region->count && rc == 0; i++) {
        uint32_t file = plan->pieces[i].file;
        if (is_run_start(plan, region, i) && --exporting->pending[file] == 0 && exporting->states[file] == BEGUN)
            rc = finish_file(exporting, file, error);
    }
    return rc;
}

static int give_back(struct exporting *exporting, struct varve_error *error) {
    int rc = begin_files(exporting, error);

    for (size_t i = 0; i < exporting->plan.region_count && rc == 0; i++)
        rc = export_region(exporting, i, error);
    rc = rc ? rc : files_place_settle(&exporting->place, error);
    for (uint32_t i = 0; i < exporting->plan.files.count; i++)
        give_up_file(exporting, i);
    return rc;
}

static int export(struct exporting *exporting, struct varve_error *error) {
    int rc = read_map(exporting, error);

    rc = rc ? rc : choose_files(exporting, error);
    if (rc < 0)
        return rc;
    count_needs(exporting);
    rc = files_place_open(&exporting->place, &exporting->plan.files, error);
    rc = rc ? rc : give_back(exporting, error);
    files_place_close(&exporting->place);
    return rc;
}

int export_files(struct exporting *exporting, struct varve_error *error) {
    exporting->place.named = on_named;
    exporting->place.arg = exporting;
    progress_begin("exporting", exporting->cli->is_json);
    int rc = export(exporting, error);
    progress_end();
    return rc;
}

void export_summary(const struct exporting *exporting) {
    char size[SIZE_CAPACITY];

    if (exporting->cli->is_json) {
        json_begin("summary");
        json_checkpoint(exporting->which.name, exporting->which.version, exporting->which.generation);
        json_u64("files", exporting->files);
        json_u64("failed", exporting->failed);
        json_u64("bytes", exporting->bytes);
        json_number("seconds", progress_seconds());
        json_end();
        return;
    }
    text_size(size, exporting->bytes);
    cli_note("exported %" PRIu64 " file%s of %s@%" PRId64 ": %s, all checked", exporting->files,
             plural(exporting->files), exporting->which.name, exporting->which.version, size);
}

void export_clear(struct exporting *exporting) {
    files_plan_clear(&exporting->plan);
    free(exporting->states);
    free(exporting->pending);
    free(exporting->map);
    archive_packed_clear(&exporting->packed);
}
