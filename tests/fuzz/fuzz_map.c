/* The map of an import: what is accepted can be written and read again, and is the same; each file is covered. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "files/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct files_plan *plan) {
    uint64_t *bytes = calloc(plan->files.count + 1, sizeof *bytes);
    for (size_t i = 0; bytes && i < plan->piece_count; i++) {
        const struct files_piece *piece = &plan->pieces[i];
        if (piece->region >= plan->region_count || piece->file >= plan->files.count ||
            piece->region_offset + piece->length > plan->regions[piece->region].length)
            abort();
        bytes[piece->file] += piece->length;
    }
    for (size_t i = 0; bytes && i < plan->files.count; i++)
        if (bytes[i] != plan->files.list[i].size || !files_is_path(plan->files.list[i].path))
            abort();
    free(bytes);
}

static void check_again(const struct files_plan *plan) {
    struct files_plan again;
    struct varve_error error;
    uint8_t *data;
    size_t size;
    if (files_map_encode(plan, &data, &size) < 0)
        return;
    if (files_map_parse(data, size, &again, &error) != 0 || again.piece_count != plan->piece_count ||
        again.files.count != plan->files.count || again.files.bytes != plan->files.bytes)
        abort();
    for (size_t i = 0; i < plan->files.count; i++) {
        const char *one = plan->files.list[i].target, *other = again.files.list[i].target;
        if (!one != !other || (one && (strcmp(one, other) != 0 || plan->files.list[i].size > 0)))
            abort();
    }
    if (plan->piece_count && memcmp(again.pieces, plan->pieces, plan->piece_count * sizeof *plan->pieces) != 0)
        abort();
    files_plan_clear(&again);
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct files_plan plan;
    struct varve_error error;
    int rc = files_map_parse(data, size, &plan, &error);
    if (rc == 0) {
        check(&plan);
        check_again(&plan);
        files_plan_clear(&plan);
    } else if (rc != VARVE_CORRUPT && rc != VARVE_UNKNOWN_FORMAT && rc != -ENOMEM) {
        abort();
    }
    return 0;
}
