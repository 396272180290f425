#include "files/found.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/walk.h"

#define MAGIC UINT64_C(0x4d56466f756e6431)
#define PASSES_MOST 16 /* of looking for overlaps; a file that needs more is not worth it */

static const unsigned element_sizes[] = {
    [VARVE_BYTES] = 1, [VARVE_I8] = 1,  [VARVE_U8] = 1,   [VARVE_I16] = 2, [VARVE_U16] = 2,
    [VARVE_I32] = 4,   [VARVE_U32] = 4, [VARVE_I64] = 8,  [VARVE_U64] = 8, [VARVE_F32] = 4,
    [VARVE_F64] = 8,   [VARVE_F16] = 2, [VARVE_BF16] = 2, [VARVE_C64] = 8, [VARVE_C128] = 16,
};
#define TYPE_COUNT (sizeof element_sizes / sizeof element_sizes[0])

size_t files_element_size(int type) {
    return type >= 0 && (size_t)type < TYPE_COUNT ? element_sizes[type] : 1;
}

void files_found_clear(struct files_found *found) {
    for (size_t i = 0; i < found->count; i++)
        free(found->variables[i].name);
    free(found->variables);
    free(found->extents);
    memset(found, 0, sizeof *found);
}

int files_found_variable(struct files_found *found, const char *name, const struct files_variable *like) {
    if (found->count >= FILES_VARIABLES_MOST)
        return -E2BIG;
    if (files_grow((void **)&found->variables, &found->capacity, found->count, sizeof *found->variables) < 0)
        return -ENOMEM;
    struct files_variable *variable = &found->variables[found->count];
    *variable = *like;
    variable->first = found->extent_count;
    variable->count = 0;
    variable->name = strndup(name, FILES_NAME_MOST);
    if (!variable->name)
        return -ENOMEM;
    found->count++;
    return 0;
}

int files_found_extent(struct files_found *found, uint64_t offset, uint64_t length) {
    struct files_variable *variable = &found->variables[found->count - 1];
    struct files_extent *last = variable->count ? &found->extents[found->extent_count - 1] : NULL;
    if (length == 0)
        return 0;
    if (last && !variable->is_filtered && last->offset + last->length == offset) {
        last->length += length;
        return 0;
    }
    if (found->extent_count >= FILES_EXTENTS_MOST)
        return -E2BIG;
    if (files_grow((void **)&found->extents, &found->extent_capacity, found->extent_count, sizeof *found->extents) < 0)
        return -ENOMEM;
    found->extents[found->extent_count++] = (struct files_extent){offset, length};
    variable->count++;
    return 0;
}

void files_found_undo(struct files_found *found) {
    struct files_variable *variable = &found->variables[--found->count];
    found->extent_count = variable->first;
    free(variable->name);
}

uint64_t files_variable_bytes(const struct files_found *found, const struct files_variable *variable) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < variable->count; i++)
        bytes += found->extents[variable->first + i].length;
    return bytes;
}

/* ---- through the pipe ---- */

/* Both ends are the same program: numbers go as they are in memory. */
struct wire_head {
    uint64_t magic, variables, extents;
};
struct wire_variable {
    int32_t type;
    uint32_t dims, is_filtered, name;
    uint64_t extents;
    uint64_t dim[VARVE_DIMS_MAX];
};

int files_write_all(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            at += written;
            size -= (size_t)written;
        }
    }
    return 0;
}

int files_found_write(const struct files_found *found, int fd) {
    struct wire_head head = {MAGIC, found->count, found->extent_count};
    int rc = files_write_all(fd, &head, sizeof head);
    for (size_t i = 0; i < found->count && rc == 0; i++) {
        const struct files_variable *variable = &found->variables[i];
        struct wire_variable wire = {variable->type,
                                     variable->dims,
                                     (uint32_t)variable->is_filtered,
                                     (uint32_t)strlen(variable->name),
                                     variable->count,
                                     {0}};
        memcpy(wire.dim, variable->dim, sizeof wire.dim);
        rc = files_write_all(fd, &wire, sizeof wire);
        rc = rc ? rc : files_write_all(fd, variable->name, wire.name);
    }
    return rc || found->extent_count == 0
               ? rc
               : files_write_all(fd, found->extents, found->extent_count * sizeof *found->extents);
}

struct cursor {
    const char *at;
    size_t left;
};

static int take_bytes(struct cursor *cursor, void *out, size_t size) {
    if (cursor->left < size)
        return -EBADMSG;
    memcpy(out, cursor->at, size);
    cursor->at += size;
    cursor->left -= size;
    return 0;
}

static int read_variable(struct files_found *found, struct cursor *cursor, uint64_t *expected) {
    struct wire_variable wire;
    char name[FILES_NAME_MOST + 1];
    if (take_bytes(cursor, &wire, sizeof wire) < 0 || wire.name > FILES_NAME_MOST ||
        take_bytes(cursor, name, wire.name) < 0)
        return -EBADMSG;
    name[wire.name] = '\0';
    if (wire.type < 0 || (size_t)wire.type >= TYPE_COUNT || wire.dims > VARVE_DIMS_MAX ||
        wire.extents > FILES_EXTENTS_MOST)
        return -EBADMSG;
    struct files_variable like = {.type = wire.type, .dims = wire.dims, .is_filtered = wire.is_filtered != 0};
    memcpy(like.dim, wire.dim, sizeof like.dim);
    int rc = files_found_variable(found, name, &like);
    if (rc == 0) {
        found->variables[found->count - 1].first = (size_t)*expected;
        found->variables[found->count - 1].count = (size_t)wire.extents;
        *expected += wire.extents;
    }
    return rc;
}

int files_found_read(struct files_found *found, const void *data, size_t size) {
    struct cursor cursor = {data, size};
    struct wire_head head;
    uint64_t expected = 0;
    int rc = take_bytes(&cursor, &head, sizeof head);
    if (rc < 0 || head.magic != MAGIC || head.variables > FILES_VARIABLES_MOST || head.extents > FILES_EXTENTS_MOST)
        return -EBADMSG;
    for (uint64_t i = 0; i < head.variables && rc == 0; i++)
        rc = read_variable(found, &cursor, &expected);
    if (rc == 0 && (expected != head.extents || cursor.left != head.extents * sizeof *found->extents))
        rc = -EBADMSG;
    if (rc == 0 && head.extents) {
        found->extents = malloc(cursor.left);
        rc = found->extents ? take_bytes(&cursor, found->extents, cursor.left) : -ENOMEM;
        found->extent_count = found->extent_capacity = (size_t)head.extents;
    }
    if (rc < 0)
        files_found_clear(found);
    return rc;
}

/* ---- is it possible? ---- */

static void drop(struct files_variable *variable) {
    variable->count = 0;
}

static int lies_inside(const struct files_found *found, const struct files_variable *variable, uint64_t file_size) {
    for (size_t i = 0; i < variable->count; i++) {
        const struct files_extent *extent = &found->extents[variable->first + i];
        if (extent->length == 0 || extent->offset > file_size || extent->length > file_size - extent->offset)
            return 0;
    }
    return 1;
}

struct spot {
    uint64_t offset, length;
    uint32_t variable;
};

static int compare_spots(const void *a, const void *b) {
    const struct spot *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->variable < y->variable ? -1 : x->variable > y->variable;
}

static size_t list_spots(const struct files_found *found, struct spot *spots) {
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++)
        for (size_t j = 0; j < found->variables[i].count; j++) {
            const struct files_extent *extent = &found->extents[found->variables[i].first + j];
            spots[count++] = (struct spot){extent->offset, extent->length, (uint32_t)i};
        }
    return count;
}

/* Of two variables that share bytes the later one goes; a variable that meets itself goes, too. */
static size_t drop_overlaps(struct files_found *found, struct spot *spots) {
    size_t count = list_spots(found, spots), dropped = 0;
    uint64_t end = 0;
    uint32_t last = 0;
    if (count)
        qsort(spots, count, sizeof *spots, compare_spots);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && spots[i].offset < end) {
            uint32_t sparse = spots[i].variable > last ? spots[i].variable : last;
            dropped += found->variables[sparse].count > 0;
            drop(&found->variables[sparse]);
        }
        if (spots[i].offset + spots[i].length > end) {
            end = spots[i].offset + spots[i].length;
            last = spots[i].variable;
        }
    }
    return dropped;
}

static size_t part_variables(struct files_found *found) {
    struct spot *spots = malloc((found->extent_count + 1) * sizeof *spots);
    size_t dropped = 0, now = 1;
    for (int pass = 0; spots && pass < PASSES_MOST && now; pass++) {
        now = drop_overlaps(found, spots);
        dropped += now;
    }
    free(spots);
    for (size_t i = 0; i < found->count && now; i++) { /* still not apart, or no memory to tell */
        dropped += found->variables[i].count > 0;
        drop(&found->variables[i]);
    }
    return dropped;
}

/* A shape that does not give the bytes that are there is left out. */
static void check_shape(struct files_variable *variable, uint64_t bytes) {
    uint64_t product = element_sizes[variable->type];
    int fits = variable->dims > 0 && !variable->is_filtered && variable->type != VARVE_BYTES;
    for (unsigned i = 0; i < variable->dims && fits; i++)
        fits = variable->dim[i] > 0 && !__builtin_mul_overflow(product, variable->dim[i], &product);
    if (fits && product == bytes)
        return;
    variable->dims = 0;
    if (variable->is_filtered || bytes % element_sizes[variable->type])
        variable->type = VARVE_BYTES;
    if (variable->type != VARVE_BYTES) {
        variable->dims = 1;
        variable->dim[0] = bytes / element_sizes[variable->type];
    }
}

size_t files_found_check(struct files_found *found, uint64_t file_size) {
    size_t dropped = 0, kept = 0;
    for (size_t i = 0; i < found->count; i++)
        if (!lies_inside(found, &found->variables[i], file_size)) {
            drop(&found->variables[i]);
            dropped++;
        }
    dropped += part_variables(found);
    for (size_t i = 0; i < found->count; i++) {
        struct files_variable *variable = &found->variables[i];
        uint64_t bytes = files_variable_bytes(found, variable);
        if (variable->count == 0 || bytes < FILES_VARIABLE_LEAST || bytes / variable->count < FILES_EXTENT_LEAST) {
            free(variable->name);
            continue;
        }
        check_shape(variable, bytes);
        found->variables[kept++] = *variable;
    }
    found->count = kept;
    return dropped;
}
