#include "files/hdf5.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t files_hdf5_signature(int fd, uint64_t file_size) {
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    uint8_t got[8];
    for (uint64_t at = 0; at < file_size && file_size - at >= sizeof got; at = at ? at * 2 : 512)
        if (pread(fd, got, sizeof got, (off_t)at) == sizeof got && !memcmp(got, signature, sizeof got))
            return (int64_t)at;
    return -1;
}

#ifndef VARVE_HAS_HDF5

int files_has_hdf5(void) {
    return 0;
}

int files_hdf5(int fd, struct files_found *found) {
    (void)fd;
    (void)found;
    return -ENOSYS;
}

#else

#define H5_USE_110_API /* the same names with every later version */
#include <hdf5.h>

#include "files/hdf5_index.h"

/* The library counts through the chunks to tell where one lies. So many may be counted for a file: it takes seconds. */
#define CHUNKS_COUNTED_MOST 200000000u

struct looking {
    struct files_found *found;
    int fd;
    uint64_t user_block;
    size_t offset_size, length_size;
    uint64_t counted; /* chunks, by the library */
    int rc;
};

int files_has_hdf5(void) {
    return 1;
}

/* ---- types ---- */

static int integer_type(hid_t type, size_t size) {
    static const int types[2][9] = {{[1] = VARVE_U8, [2] = VARVE_U16, [4] = VARVE_U32, [8] = VARVE_U64},
                                    {[1] = VARVE_I8, [2] = VARVE_I16, [4] = VARVE_I32, [8] = VARVE_I64}};
    if (size > 8 || H5Tget_precision(type) != 8 * size || H5Tget_offset(type) != 0 ||
        (size > 1 && H5Tget_order(type) != H5T_ORDER_LE))
        return VARVE_BYTES;
    return types[H5Tget_sign(type) == H5T_SGN_2][size];
}

static int float_type(hid_t type, size_t size) {
    size_t sign, exponent, exponent_bits, fraction, fraction_bits;
    if (H5Tequal(type, H5T_IEEE_F64LE) > 0)
        return VARVE_F64;
    if (H5Tequal(type, H5T_IEEE_F32LE) > 0)
        return VARVE_F32;
    if (size != 2 || H5Tget_order(type) != H5T_ORDER_LE ||
        H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) < 0 || sign != 15 ||
        fraction != 0)
        return VARVE_BYTES;
    if (exponent_bits == 5 && fraction_bits == 10)
        return VARVE_F16;
    return exponent_bits == 8 && fraction_bits == 7 ? VARVE_BF16 : VARVE_BYTES;
}

/* Two floats of the same kind, as everybody writes complex numbers. */
static int complex_type(hid_t type, size_t size) {
    int kinds[2] = {VARVE_BYTES, VARVE_BYTES};
    if (H5Tget_nmembers(type) != 2)
        return VARVE_BYTES;
    for (unsigned i = 0; i < 2; i++) {
        hid_t member = H5Tget_member_type(type, i);
        if (member >= 0 && H5Tget_class(member) == H5T_FLOAT && H5Tget_member_offset(type, i) == i * size / 2)
            kinds[i] = float_type(member, H5Tget_size(member));
        if (member >= 0)
            H5Tclose(member);
    }
    if (kinds[0] != kinds[1])
        return VARVE_BYTES;
    return kinds[0] == VARVE_F32 && size == 8    ? VARVE_C64
           : kinds[0] == VARVE_F64 && size == 16 ? VARVE_C128
                                                 : VARVE_BYTES;
}

static int type_of(hid_t dataset) {
    hid_t type = H5Dget_type(dataset);
    size_t size = type >= 0 ? H5Tget_size(type) : 0;
    int kind = VARVE_BYTES;
    switch (type >= 0 ? H5Tget_class(type) : H5T_NO_CLASS) {
    case H5T_INTEGER:
        kind = integer_type(type, size);
        break;
    case H5T_FLOAT:
        kind = float_type(type, size);
        break;
    case H5T_COMPOUND:
        kind = complex_type(type, size);
        break;
    default:
        break;
    }
    if (type >= 0)
        H5Tclose(type);
    return kind;
}

/* ---- places ---- */

struct chunk {
    uint64_t place; /* position in the grid, in logical order */
    uint64_t offset, length;
};

struct grid {
    hid_t space; /* of the data set; not every version takes H5S_ALL for it */
    int rank;
    hsize_t lengths[H5S_MAX_RANK], chunk[H5S_MAX_RANK];
};

static int add_contiguous(struct looking *looking, const char *name, hid_t dataset, const struct grid *grid,
                          struct files_variable *like) {
    haddr_t offset = H5Dget_offset(dataset);
    uint64_t bytes = H5Dget_storage_size(dataset);
    if (offset == HADDR_UNDEF || bytes == 0)
        return 0;
    like->dims = grid->rank <= VARVE_DIMS_MAX ? (unsigned)grid->rank : 0;
    for (unsigned i = 0; i < like->dims; i++)
        like->dim[i] = grid->lengths[i];
    int rc = files_found_variable(looking->found, name, like);
    return rc ? rc : files_found_extent(looking->found, offset, bytes);
}

static int compare_chunks(const void *a, const void *b) {
    const struct chunk *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static uint64_t place_of(const struct grid *grid, const hsize_t *first) {
    uint64_t place = 0;
    for (int i = 0; i < grid->rank; i++)
        place = place * ((grid->lengths[i] + grid->chunk[i] - 1) / grid->chunk[i]) + first[i] / grid->chunk[i];
    return place;
}

/* Some versions of the library leave the user block out when they tell where a chunk lies: see which is true. */
static int is_shifted(struct looking *looking, hid_t dataset, const hsize_t *first, const struct chunk *chunk) {
    uint32_t mask;
    char *told = malloc(chunk->length), *there = malloc(chunk->length);
    int result = -EBADMSG;
    if (told && there && H5Dread_chunk(dataset, H5P_DEFAULT, first, &mask, told) >= 0)
        for (int shifted = 0; shifted < 2 && result < 0; shifted++) {
            uint64_t offset = chunk->offset + (shifted ? looking->user_block : 0);
            if (pread(looking->fd, there, chunk->length, (off_t)offset) == (ssize_t)chunk->length &&
                !memcmp(told, there, chunk->length))
                result = shifted;
        }
    free(told);
    free(there);
    return result;
}

struct chunks {
    const struct grid *grid;
    struct chunk *list;
    hsize_t count, most;
};

static int on_chunk(void *arg, const struct files_hdf5_chunk *chunk) {
    struct chunks *chunks = arg;
    hsize_t first[H5S_MAX_RANK];
    if (chunks->count == chunks->most)
        return -EBADMSG;
    for (int i = 0; i < chunks->grid->rank; i++)
        first[i] = chunk->first[i];
    chunks->list[chunks->count++] = (struct chunk){place_of(chunks->grid, first), chunk->offset, chunk->length};
    return 0;
}

/* From the file itself. */
static int read_chunks(struct looking *looking, hid_t dataset, struct chunks *chunks) {
    H5O_info_t info;
    if (H5Oget_info2(dataset, &info, H5O_INFO_BASIC) < 0)
        return -EBADMSG;
    struct files_hdf5_place place = {.fd = looking->fd,
                                     .base = looking->user_block,
                                     .header = info.addr,
                                     .offset_size = (unsigned)looking->offset_size,
                                     .length_size = (unsigned)looking->length_size,
                                     .rank = (unsigned)chunks->grid->rank};
    int rc = files_hdf5_index(&place, on_chunk, chunks);
    return rc == 0 && chunks->count != chunks->most ? -EBADMSG : rc;
}

/* From the library. */
static int ask_chunks(struct looking *looking, hid_t dataset, struct chunks *chunks) {
    int shifted = 0;
    for (chunks->count = 0; chunks->count < chunks->most; chunks->count++) {
        struct chunk *chunk = &chunks->list[chunks->count];
        hsize_t first[H5S_MAX_RANK], length;
        unsigned mask;
        haddr_t offset;
        if (H5Dget_chunk_info(dataset, chunks->grid->space, chunks->count, first, &mask, &offset, &length) < 0)
            return -EBADMSG;
        *chunk = (struct chunk){place_of(chunks->grid, first), offset, length};
        if (chunks->count == 0 && looking->user_block)
            shifted = is_shifted(looking, dataset, first, chunk);
        if (shifted < 0)
            return shifted;
        chunk->offset += shifted ? looking->user_block : 0;
    }
    return 0;
}

static int list_chunks(struct looking *looking, hid_t dataset, struct chunks *chunks) {
    int rc = read_chunks(looking, dataset, chunks);
    if (rc < 0 && rc != -ENOMEM) {
        looking->counted += chunks->most * chunks->most; /* below 2^40: the list was allocated */
        rc = looking->counted > CHUNKS_COUNTED_MOST ? -E2BIG : ask_chunks(looking, dataset, chunks);
    }
    if (rc == 0)
        qsort(chunks->list, chunks->count, sizeof *chunks->list, compare_chunks);
    return rc;
}

/* The bytes are those of the chunks, one after another: so this is its shape, too. */
static void shape_chunks(struct files_variable *like, const struct grid *grid, hsize_t count) {
    like->dims = grid->rank < VARVE_DIMS_MAX ? (unsigned)grid->rank + 1 : 0;
    like->dim[0] = count;
    for (unsigned i = 1; i < like->dims; i++)
        like->dim[i] = grid->chunk[i - 1];
}

static int add_chunked(struct looking *looking, const char *name, hid_t dataset, const struct grid *grid,
                       struct files_variable *like) {
    struct chunks chunks = {.grid = grid};
    if (H5Dget_num_chunks(dataset, grid->space, &chunks.most) < 0)
        return -EBADMSG;
    if (chunks.most == 0)
        return 0;
    if (chunks.most > FILES_EXTENTS_MOST)
        return -E2BIG;
    chunks.list = calloc(chunks.most, sizeof *chunks.list);
    int rc = chunks.list ? list_chunks(looking, dataset, &chunks) : -ENOMEM;
    shape_chunks(like, grid, chunks.most);
    rc = rc ? rc : files_found_variable(looking->found, name, like);
    for (hsize_t i = 0; i < chunks.count && rc == 0; i++)
        rc = files_found_extent(looking->found, chunks.list[i].offset, chunks.list[i].length);
    free(chunks.list);
    return rc;
}

/* ---- data sets ---- */

static int read_grid(hid_t plist, H5D_layout_t layout, struct grid *grid) {
    grid->rank = H5Sget_simple_extent_ndims(grid->space);
    if (grid->rank < 0 || H5Sget_simple_extent_dims(grid->space, grid->lengths, NULL) < 0)
        return -EBADMSG;
    if (layout == H5D_CHUNKED && H5Pget_chunk(plist, H5S_MAX_RANK, grid->chunk) != grid->rank)
        return -EBADMSG;
    for (int i = 0; i < grid->rank && layout == H5D_CHUNKED; i++)
        if (grid->chunk[i] == 0)
            return -EBADMSG;
    return 0;
}

static int add_laid_out(struct looking *looking, const char *name, hid_t dataset, hid_t plist) {
    struct files_variable like = {.type = VARVE_BYTES};
    struct grid grid = {.rank = 0};
    H5D_layout_t layout = H5Pget_layout(plist);
    if (layout != H5D_CHUNKED && (layout != H5D_CONTIGUOUS || H5Pget_external_count(plist) != 0))
        return 0; /* not here, or too small: part of the rest */
    like.type = type_of(dataset);
    like.is_filtered = layout == H5D_CHUNKED && H5Pget_nfilters(plist) > 0;
    grid.space = H5Dget_space(dataset);
    if (grid.space < 0)
        return -EBADMSG;
    int rc = read_grid(plist, layout, &grid);
    if (rc == 0)
        rc = layout == H5D_CHUNKED ? add_chunked(looking, name, dataset, &grid, &like)
                                   : add_contiguous(looking, name, dataset, &grid, &like);
    H5Sclose(grid.space);
    return rc;
}

static herr_t on_object(hid_t root, const char *name, const H5O_info_t *info, void *arg) {
    struct looking *looking = arg;
    char full[FILES_NAME_MOST + 1];
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    hid_t dataset = H5Dopen2(root, name, H5P_DEFAULT);
    hid_t plist = dataset >= 0 ? H5Dget_create_plist(dataset) : -1;
    snprintf(full, sizeof full, "/%s", name);
    size_t before = looking->found->count;
    int rc = plist >= 0 ? add_laid_out(looking, full, dataset, plist) : -EBADMSG;
    if (rc < 0 && looking->found->count > before)
        files_found_undo(looking->found);
    if (plist >= 0)
        H5Pclose(plist);
    if (dataset >= 0)
        H5Dclose(dataset);
    if (rc == -ENOMEM)
        looking->rc = rc;
    else if (rc < 0 && looking->rc == 0)
        looking->rc = rc; /* this one is left out, the others may be well */
    return rc == -ENOMEM ? -1 : 0;
}

/* What is in it is read only, no plugin is loaded for it, and nobody else's lock matters. */
static hid_t open_quietly(int fd) {
    char path[64];
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5PLset_loading_state(0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
}

int files_hdf5(int fd, struct files_found *found) {
    struct looking looking = {.found = found, .fd = fd};
    hsize_t user_block = 0;
    hid_t file = open_quietly(fd);
    if (file < 0)
        return -EBADMSG;
    hid_t plist = H5Fget_create_plist(file);
    if (plist < 0 || H5Pget_userblock(plist, &user_block) < 0 ||
        H5Pget_sizes(plist, &looking.offset_size, &looking.length_size) < 0)
        return -EBADMSG;
    looking.user_block = user_block;
    int visited = H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, on_object, &looking, H5O_INFO_BASIC);
    return looking.rc ? looking.rc : visited < 0 ? -EBADMSG : 0;
}

#endif
