/* varve show: the arrays that the ranks of a job hold together. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "show_arrays.h"
#include "terminal/cli.h"
#include "terminal/json.h"
#include "terminal/text.h"

#define SHAPE_CAPACITY 400 /* 16 dimensions of 20 digits fit */

struct arrays_shown {
    const struct cli *cli;
    struct table *table;
    uint64_t count;
};

static const char *state_of(const struct varve_global_array *array) {
    return array->is_whole ? "whole" : array->is_private ? "one for each rank" : array->problem;
}

static void array_json(const struct varve_global_array *array) {
    uint64_t sizes[VARVE_DIMS_MAX];

    for (unsigned i = 0; i < array->array->dims; i++)
        sizes[i] = array->array->dim[i].global;
    json_begin("array");
    json_text("array", array->name);
    json_text("type", array->type);
    json_array("shape", sizes, array->array->dims);
    json_u64("bytes", array->bytes);
    json_u64("blocks", array->blocks);
    json_bool("is_whole", array->is_whole);
    json_bool("is_private", array->is_private);
    json_text("problem", array->problem);
    json_end();
}

static int on_array(void *arg, const struct varve_global_array *array) {
    struct arrays_shown *shown = arg;
    char shape[SHAPE_CAPACITY] = "";
    size_t used = 0;

    shown->count++;
    if (shown->cli->is_json) {
        array_json(array);
        return 0;
    }
    for (unsigned i = 0; i < array->array->dims && used < sizeof shape; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRIu64, i ? "x" : "",
                                 array->array->dim[i].global);
    table_text(shown->table, array->name);
    table_text(shown->table, array->type);
    table_text(shown->table, shape);
    table_size(shown->table, array->bytes);
    table_number(shown->table, array->blocks);
    table_text(shown->table, state_of(array));
    return 0;
}

int show_arrays(const struct cli *cli, const struct varve_which *which, struct varve_error *error) {
    static const char *const titles[] = {"<ARRAY", "<TYPE", "<SHAPE", "SIZE", "BLOCKS", "<STORED"};
    struct arrays_shown shown = {.cli = cli, .table = table_create(titles, 6)};

    if (!shown.table)
        return -ENOMEM;
    int rc = varve_store_arrays(cli->store, which, NULL, on_array, &shown, error);
    if (rc == 0 && !cli->is_json && shown.count > 0) {
        putchar('\n');
        rc = table_print(shown.table) < 0 ? -ENOMEM : 0;
    }
    table_destroy(shown.table);
    return rc;
}
