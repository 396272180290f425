#include "files/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT_TO 230u /* bytes of a name that is too long; the rest is for what makes it unique */
#define ROUNDS_MOST 8

void files_plan_begin(struct files_plan *plan, struct files_list *files) {
    memset(plan, 0, sizeof *plan);
    plan->files = *files;
    memset(files, 0, sizeof *files);
    plan->shared = -1;
}

void files_plan_clear(struct files_plan *plan) {
    for (size_t i = 0; i < plan->region_count; i++) {
        free(plan->regions[i].name);
        free(plan->regions[i].full);
        free(plan->regions[i].dim);
    }
    free(plan->regions);
    free(plan->pieces);
    files_list_clear(&plan->files);
    memset(plan, 0, sizeof *plan);
}

int files_plan_piece(struct files_plan *plan, const struct files_piece *piece) {
    struct files_piece *last = plan->piece_count ? &plan->pieces[plan->piece_count - 1] : NULL;
    if (last && last->file == piece->file && last->region == piece->region &&
        last->file_offset + last->length == piece->file_offset &&
        last->region_offset + last->length == piece->region_offset) {
        last->length += piece->length;
        return 0;
    }
    if (plan->piece_count >= FILES_PIECES_MOST)
        return -E2BIG;
    if (files_grow((void **)&plan->pieces, &plan->piece_capacity, plan->piece_count, sizeof *plan->pieces) < 0)
        return -ENOMEM;
    plan->pieces[plan->piece_count++] = *piece;
    return 0;
}

int files_plan_region(struct files_plan *plan, char *name, char *full) {
    int rc =
        name ? files_grow((void **)&plan->regions, &plan->region_capacity, plan->region_count, sizeof *plan->regions)
             : -ENOMEM;
    if (rc < 0) {
        free(name);
        free(full);
        return rc;
    }
    plan->regions[plan->region_count++] = (struct files_region){.name = name, .full = full};
    return 0;
}

/* ---- names ---- */

static uint64_t mix(uint64_t seed, const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* The start of the name, and a number made from all of it. Cuts no character of UTF-8 in two. */
static char *cut_name(const char *full, uint64_t seed) {
    char *name = NULL;
    size_t length = strlen(full);
    length = length < CUT_TO ? length : CUT_TO;
    while (length > 1 && ((uint8_t)full[length] & 0xc0) == 0x80)
        length--;
    if (asprintf(&name, "%.*s~%016" PRIx64, (int)length, full, mix(seed, full)) < 0)
        return NULL;
    return name;
}

/* Names that begin with a colon are ours. */
static int add_named(struct files_plan *plan, const char *path, const char *variable) {
    char *full = NULL, *name;
    if (asprintf(&full, "%s%s%s%s", path[0] == ':' ? "./" : "", path, variable ? ":" : "", variable ? variable : "") <
        0)
        return -ENOMEM;
    size_t start = variable ? strlen(full) - strlen(variable) : 0;
    if (strlen(full) <= FILES_REGION_NAME_MOST) {
        name = full;
        full = NULL;
    } else {
        name = cut_name(full, 0);
    }
    int rc = files_plan_region(plan, name, full);
    if (rc == 0)
        plan->regions[plan->region_count - 1].variable = start;
    return rc;
}

struct named {
    const char *name;
    size_t region;
};

static int compare_named(const void *a, const void *b) {
    const struct named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->region < y->region ? -1 : x->region > y->region;
}

static int rename_twins(struct files_plan *plan, struct named *list, uint64_t round) {
    int renamed = 0;
    for (size_t i = 0; i < plan->region_count; i++)
        list[i] = (struct named){plan->regions[i].name, i};
    qsort(list, plan->region_count, sizeof *list, compare_named);
    for (size_t i = 1; i < plan->region_count; i++) {
        struct files_region *region = &plan->regions[list[i].region];
        if (strcmp(list[i - 1].name, list[i].name) != 0)
            continue;
        char *name = cut_name(region->full ? region->full : region->name, round * FILES_REGIONS_MOST + i);
        if (!name)
            return -ENOMEM;
        if (region->full)
            free(region->name);
        else
            region->full = region->name;
        region->name = name;
        list[i].name = list[i - 1].name; /* the old one: the next may be a twin, too */
        renamed++;
    }
    return renamed;
}

static int make_unique(struct files_plan *plan) {
    struct named *list = calloc(plan->region_count + 1, sizeof *list);
    int renamed = list ? 1 : -ENOMEM;
    for (uint64_t round = 1; round <= ROUNDS_MOST && renamed > 0; round++)
        renamed = plan->region_count ? rename_twins(plan, list, round) : 0;
    free(list);
    return renamed > 0 ? -EEXIST : renamed;
}

/* ---- order ---- */

static int compare_pieces(const void *a, const void *b) {
    const struct files_piece *x = a, *y = b;
    if (x->region != y->region)
        return x->region < y->region ? -1 : 1;
    return x->region_offset < y->region_offset ? -1 : x->region_offset > y->region_offset;
}

void files_plan_sort(struct files_plan *plan) {
    if (plan->piece_count)
        qsort(plan->pieces, plan->piece_count, sizeof *plan->pieces, compare_pieces);
    for (size_t i = 0; i < plan->region_count; i++)
        plan->regions[i].count = 0;
    for (size_t i = 0; i < plan->piece_count; i++) {
        struct files_region *region = &plan->regions[plan->pieces[i].region];
        if (region->count++ == 0)
            region->first = i;
    }
}

/* A region on its way to its place. */
struct placed {
    const struct files_region *region;
    size_t number; /* where it was */
    size_t kind;   /* that of the first region with the same variable; behind all others without one */
};

static const char *variable_of(const struct files_region *region) {
    return region->variable ? (region->full ? region->full : region->name) + region->variable : "";
}

static int compare_variables(const struct files_region *x, const struct files_region *y) {
    if (!x->variable != !y->variable)
        return x->variable ? -1 : 1;
    int order = strcmp(variable_of(x), variable_of(y));
    if (order || x->type != y->type || x->dims != y->dims)
        return order ? order : x->type != y->type ? x->type - y->type : x->dims < y->dims ? -1 : 1;
    for (unsigned i = 0; i < x->dims; i++)
        if (x->dim[i] != y->dim[i])
            return x->dim[i] < y->dim[i] ? -1 : 1;
    return 0;
}

static int compare_by_variable(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    int order = compare_variables(x->region, y->region);
    return order ? order : x->number < y->number ? -1 : x->number > y->number;
}

static int compare_by_kind(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Everything that knows regions by number learns the new ones. */
static void renumber(struct files_plan *plan, const struct placed *list, struct files_region *regions,
                     uint32_t *numbers) {
    for (size_t i = 0; i < plan->region_count; i++) {
        regions[i] = *list[i].region;
        numbers[list[i].number] = (uint32_t)i;
    }
    memcpy(plan->regions, regions, plan->region_count * sizeof *regions);
    for (size_t i = 0; i < plan->piece_count; i++)
        plan->pieces[i].region = numbers[plan->pieces[i].region];
    if (plan->shared >= 0)
        plan->shared = numbers[plan->shared];
}

static int put_in_order(struct files_plan *plan) {
    size_t count = plan->region_count;
    struct placed *list = calloc(count + 1, sizeof *list);
    struct files_region *regions = calloc(count + 1, sizeof *regions);
    uint32_t *numbers = calloc(count + 1, sizeof *numbers);
    int rc = list && regions && numbers ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && rc == 0; i++)
        list[i] = (struct placed){&plan->regions[i], i, 0};
    if (rc == 0 && count) {
        qsort(list, count, sizeof *list, compare_by_variable);
        for (size_t i = 0; i < count; i++) {
            int is_same = i > 0 && compare_variables(list[i - 1].region, list[i].region) == 0;
            list[i].kind = !list[i].region->variable ? count : is_same ? list[i - 1].kind : list[i].number;
        }
        qsort(list, count, sizeof *list, compare_by_kind);
        renumber(plan, list, regions, numbers);
    }
    free(list);
    free(regions);
    free(numbers);
    return rc;
}

int files_plan_settle(struct files_plan *plan) {
    int rc = make_unique(plan);
    rc = rc ? rc : put_in_order(plan);
    if (rc == 0)
        files_plan_sort(plan);
    return rc;
}

/* ---- files ---- */

static uint64_t round_up(uint64_t at) {
    return (at + FILES_GRANULE - 1) & ~(uint64_t)(FILES_GRANULE - 1);
}

static int describe(struct files_region *region, const struct files_variable *variable) {
    region->type = variable->type;
    if (variable->dims == 0)
        return 0;
    region->dim = calloc(variable->dims, sizeof *region->dim);
    if (!region->dim)
        return -ENOMEM;
    memcpy(region->dim, variable->dim, variable->dims * sizeof *region->dim);
    region->dims = variable->dims;
    return 0;
}

/* Pieces that are compressed each for itself change their sizes from version to version: each begins at a granule, so
 * that one that stays the same is found although those before it have grown. */
static int add_variable(struct files_plan *plan, uint32_t file, const struct files_found *found,
                        const struct files_variable *variable) {
    int rc = add_named(plan, plan->files.list[file].path, variable->name);
    if (rc < 0)
        return rc;
    uint32_t number = (uint32_t)plan->region_count - 1;
    struct files_region *region = &plan->regions[number];
    rc = describe(region, variable);
    for (size_t i = 0; i < variable->count && rc == 0; i++) {
        const struct files_extent *extent = &found->extents[variable->first + i];
        uint64_t at = variable->is_filtered ? round_up(region->length) : region->length;
        struct files_piece piece = {extent->offset, at, extent->length, file, number};
        rc = files_plan_piece(plan, &piece);
        region->length = at + extent->length;
    }
    return rc;
}

static int compare_extents(const void *a, const void *b) {
    const struct files_extent *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Everything that no variable has, in the order of the file. */
static int add_gaps(struct files_plan *plan, uint32_t file, uint32_t number, const struct files_extent *taken,
                    size_t count) {
    struct files_region *region = &plan->regions[number];
    uint64_t at = 0, size = plan->files.list[file].size;
    int rc = 0;
    for (size_t i = 0; i <= count && rc == 0; i++) {
        uint64_t end = i < count ? taken[i].offset : size;
        if (end > at) {
            struct files_piece piece = {at, region->length, end - at, file, number};
            rc = files_plan_piece(plan, &piece);
            region->length += end - at;
        }
        at = i < count ? taken[i].offset + taken[i].length : size;
    }
    return rc;
}

static int rest_region(struct files_plan *plan, uint32_t file, uint32_t *number) {
    int rc = 0;
    if (plan->files.count <= FILES_OWN_RESTS_MOST) {
        rc = add_named(plan, plan->files.list[file].path, NULL);
    } else if (plan->shared < 0) {
        rc = files_plan_region(plan, strdup(FILES_REST_REGION), NULL);
        plan->shared = (int64_t)plan->region_count - 1;
    }
    if (rc < 0)
        return rc;
    *number = (uint32_t)(plan->shared >= 0 ? (size_t)plan->shared : plan->region_count - 1);
    plan->regions[*number].length = round_up(plan->regions[*number].length);
    return 0;
}

static int add_rest(struct files_plan *plan, uint32_t file, const struct files_found *found) {
    struct files_extent *taken = calloc(found->extent_count + 1, sizeof *taken);
    uint64_t bytes = 0;
    size_t count = 0;
    uint32_t number = 0;
    if (!taken)
        return -ENOMEM;
    for (size_t i = 0; i < found->count; i++) {
        const struct files_variable *variable = &found->variables[i];
        memcpy(taken + count, found->extents + variable->first, variable->count * sizeof *taken);
        count += variable->count;
        bytes += files_variable_bytes(found, variable);
    }
    if (count)
        qsort(taken, count, sizeof *taken, compare_extents);
    int rc = 0;
    if (bytes < plan->files.list[file].size) {
        rc = rest_region(plan, file, &number);
        rc = rc ? rc : add_gaps(plan, file, number, taken, count);
    }
    free(taken);
    return rc;
}

/* Every file that is still to come needs room as well. */
static int has_capacity(const struct files_plan *plan, uint32_t file, const struct files_found *found) {
    size_t files = plan->files.count - file;
    size_t rests = plan->files.count <= FILES_OWN_RESTS_MOST ? files : 1;
    return plan->region_count + found->count + rests <= FILES_REGIONS_MOST &&
           plan->piece_count + 2 * found->extent_count + 2 * files <= FILES_PIECES_MOST;
}

int files_plan_add(struct files_plan *plan, uint32_t file, const struct files_found *found) {
    const struct files_found none = {.count = 0};
    int is_left_out = found->count > 0 && !has_capacity(plan, file, found);
    const struct files_found *taken = is_left_out ? &none : found;
    int rc = 0;
    for (size_t i = 0; i < taken->count && rc == 0; i++)
        rc = add_variable(plan, file, taken, &taken->variables[i]);
    rc = rc ? rc : add_rest(plan, file, taken);
    return rc ? rc : is_left_out;
}

size_t files_plan_chunks_most(const struct files_plan *plan, uint32_t file) {
    size_t others = 2 * (plan->files.count - file);
    return plan->piece_count + others < FILES_PIECES_MOST ? FILES_PIECES_MOST - plan->piece_count - others : 0;
}

int files_plan_add_chunks(struct files_plan *plan, uint32_t file, const uint64_t *lengths, size_t count) {
    uint32_t number = 0;
    uint64_t offset = 0;
    int rc = count ? rest_region(plan, file, &number) : 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct files_region *region = &plan->regions[number];
        struct files_piece piece = {offset, round_up(region->length), lengths[i], file, number};
        rc = files_plan_piece(plan, &piece);
        region->length = piece.region_offset + piece.length;
        offset += lengths[i];
    }
    return rc;
}
