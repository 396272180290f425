#include "files/whole.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/plan.h"

struct part {
    uint32_t rank;
    char *name;
};

struct checking {
    struct part *parts;
    size_t count, capacity;
    uint64_t done, total;
    varve_progress_fn progress;
    int has_map;
};

static int on_region(void *arg, const struct varve_stored_region *region) {
    struct checking *checking = arg;

    if (files_grow((void **)&checking->parts, &checking->capacity, checking->count, sizeof *checking->parts) < 0)
        return -ENOMEM;
    struct part *part = &checking->parts[checking->count];
    *part = (struct part){.rank = region->rank, .name = strdup(region->name)};
    if (!part->name)
        return -ENOMEM;
    checking->count++;
    checking->has_map |= !strcmp(region->name, FILES_MAP_REGION);
    checking->total += region->bytes;
    return checking->progress(NULL, 0, checking->total);
}

static int on_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct checking *checking = arg;

    (void)offset, (void)data, (void)total;
    checking->done += size;
    return checking->progress(NULL, checking->done, checking->total);
}

int whole_check(struct varve_store *store, const struct varve_which *which, varve_progress_fn progress,
                struct varve_error *error) {
    struct checking checking = {.progress = progress};
    struct varve_checkpoint_detail detail;

    int rc = varve_store_show(store, which, &detail, on_region, &checking, error);
    if (rc == 0 && !checking.has_map)
        rc = files_error(
            error, -EEXIST,
            "%s holds checkpoints of a program, which would find an import where it looks for its own; choose"
            " another name",
            which->name);
    for (size_t i = 0; i < checking.count && rc == 0; i++) {
        rc = varve_store_read(store, which, checking.parts[i].rank, checking.parts[i].name, 0, on_bytes, &checking,
                              error);
    }
    for (size_t i = 0; i < checking.count; i++)
        free(checking.parts[i].name);
    free(checking.parts);
    return rc;
}
