/* varve export --arrays: the arrays of a checkpoint, each put together from all ranks, in one HDF5 file. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export_arrays.h"
#include "files/hdf5_write.h"
#include "files/output.h"
#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

struct array_export {
    struct cli *cli;
    const struct varve_which *which;
    struct array_entry {
        char *name;
        struct varve_array array;
        uint64_t bytes;
    } * list;
    size_t count, left_out;
    uint64_t done, total; /* bytes of all */
    uint64_t before;      /* the array at hand */
    struct files_h5 *file;
    int failed_write;
    struct varve_error error; /* of a write */
};

/* ---- which ---- */

static int is_asked_for(const struct cli *cli, const char *name) {
    for (int i = 1; i < cli->arg_count; i++)
        if (!strcmp(cli->args[i], name))
            return 1;
    return cli->arg_count == 1;
}

/* What is asked for by name must be whole; of the others, those that are. */
static int on_array(void *arg, const struct varve_global_array *array) {
    struct array_export *export = arg;
    const char *why = array->is_private ? "each rank has one of its own" : array->problem;
    if (!is_asked_for(export->cli, array->name))
        return 0;
    if (!array->is_whole && export->cli->arg_count > 1)
        return files_error(&export->error, VARVE_MISMATCH, "array %s: %.300s", array->name, why);
    if (!array->is_whole) {
        export->left_out++;
        cli_note("left out: array %s: %s", array->name, why);
        return 0;
    }
    struct array_entry *list = realloc(export->list, (export->count + 1) * sizeof *list);
    if (!list)
        return -ENOMEM;
    export->list = list;
    list[export->count] = (struct array_entry){strdup(array->name), *array->array, array->bytes};
    export->total += array->bytes;
    return list[export->count++].name ? 0 : -ENOMEM;
}

static int choose_arrays(struct array_export *export, struct varve_error *error) {
    const struct cli *cli = export->cli;
    int rc = varve_store_arrays(cli->store, export->which, NULL, on_array, export, error);
    if (rc < 0 && export->error.text[0])
        *error = export->error;
    for (int i = 1; i < cli->arg_count && rc == 0; i++) {
        size_t j = 0;
        while (j < export->count && strcmp(export->list[j].name, cli->args[i]) != 0)
            j++;
        if (j == export->count)
            rc = files_error(error, VARVE_MISMATCH,
                             "%s@%" PRId64 " has no array \"%s\"; `varve show` tells what "
                             "there is",
                             export->which->name, export->which->version, cli->args[i]);
    }
    if (rc == 0 && export->count == 0)
        rc = files_error(error, VARVE_MISMATCH, "%s@%" PRId64 " has no array that is whole; see `varve show`",
                         export->which->name, export->which->version);
    return rc;
}

/* ---- writing ---- */

static int on_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct array_export *export = arg;
    (void)total;
    export->failed_write = files_h5_write(export->file, offset, data, size, &export->error);
    export->done = export->before + offset + size;
    return export->failed_write ? export->failed_write : progress_update(export->done, export->total);
}

static int on_attribute(void *arg, const char *name, const char *value) {
    struct array_export *export = arg;
    export->failed_write = files_h5_text(export->file, name, value, &export->error);
    return export->failed_write;
}

static int describe_file(struct array_export *export, struct varve_error *error) {
    struct varve_checkpoint_detail detail;
    char version[32], time[TIME_CAPACITY];
    int rc = varve_store_show(export->cli->store, export->which, &detail, NULL, NULL, error);
    if (rc < 0)
        return rc;
    snprintf(version, sizeof version, "%" PRId64, detail.info.version);
    text_time_utc(time, detail.info.time_ns);
    rc = files_h5_text(export->file, "varve_name", detail.info.name, error);
    rc = rc ? rc : files_h5_text(export->file, "varve_version", version, error);
    rc = rc ? rc : files_h5_text(export->file, "varve_time", time, error);
    rc = rc ? rc : files_h5_text(export->file, "varve_program", detail.program, error);
    rc = rc ? rc : varve_store_attributes(export->cli->store, export->which, on_attribute, export, error);
    if (export->failed_write)
        *error = export->error;
    return rc;
}

static int write_arrays(struct array_export *export, struct varve_error *error) {
    int rc = describe_file(export, error);
    for (size_t i = 0; i < export->count && rc == 0; i++) {
        const struct array_entry *entry = &export->list[i];
        char called[FILES_H5_NAME];
        rc = files_h5_array(export->file, entry->name, &entry->array, called, error);
        if (rc == 0 && strcmp(called, entry->name) != 0)
            cli_note("array %s is called %s in the file", entry->name, called);
        if (rc == 0)
            rc = varve_store_read_array(export->cli->store, export->which, entry->name, NULL, 0, on_bytes, export,
                                        error);
        if (export->failed_write)
            *error = export->error;
        export->before += entry->bytes;
    }
    return rc;
}

static int write_file(struct array_export *export, struct varve_error *error) {
    struct files_output output;
    struct varve_error closing = {.text = ""};
    int rc = files_output_open(&output, export->cli->arrays, has_option(export->cli, OPTION_FORCE), error);
    rc = rc ? rc : files_h5_create(output.fd, &export->file, error);
    rc = rc ? rc : write_arrays(export, error);
    int closed = files_h5_close(export->file, &closing);
    if (rc == 0 && closed < 0) {
        rc = closed;
        *error = closing;
    }
    return files_output_close(&output, rc, error);
}

/* ---- the command ---- */

static void summary(const struct array_export *export) {
    const struct cli *cli = export->cli;
    char size[SIZE_CAPACITY];
    if (cli->is_json) {
        json_begin("summary");
        json_checkpoint(export->which->name, export->which->version, export->which->generation);
        json_text("output", cli->arrays);
        json_u64("arrays", export->count);
        json_u64("left_out", export->left_out);
        json_u64("bytes", export->done);
        json_number("seconds", progress_seconds());
        json_end();
        return;
    }
    text_size(size, export->done);
    cli_note("exported %zu array%s of %s@%" PRId64 " to %s: %s, all checked", export->count, plural(export->count),
             export->which->name, export->which->version, cli->arrays, size);
}

int export_arrays(struct cli *cli, struct varve_which *which) {
    struct array_export export = {.cli = cli, .which = which, .error = {.text = ""}};
    struct varve_error error = {.text = ""};
    int rc = varve_store_resolve(cli->store, which, &error);
    rc = rc ? rc : choose_arrays(&export, &error);
    progress_begin("exporting", cli->is_json);
    rc = rc ? rc : write_file(&export, &error);
    progress_end();
    if (rc == 0)
        summary(&export);
    for (size_t i = 0; i < export.count; i++)
        free(export.list[i].name);
    free(export.list);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}
