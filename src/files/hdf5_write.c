#include "files/hdf5_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/error.h"

#ifndef VARVE_HAS_HDF5

int files_h5_create(int fd, struct files_h5 **out, struct varve_error *error) {
    (void)fd;
    *out = NULL;
    return files_error(error, VARVE_UNSUPPORTED,
                       "this tool was built without HDF5: install libhdf5-dev and build it again");
}

int files_h5_text(struct files_h5 *file, const char *name, const char *value, struct varve_error *error) {
    (void)file, (void)name, (void)value, (void)error;
    return VARVE_UNSUPPORTED;
}

int files_h5_array(struct files_h5 *file, const char *name, const struct varve_array *array, char called[FILES_H5_NAME],
                   struct varve_error *error) {
    (void)file, (void)name, (void)array, (void)called, (void)error;
    return VARVE_UNSUPPORTED;
}

int files_h5_write(struct files_h5 *file, uint64_t offset, const void *data, size_t size, struct varve_error *error) {
    (void)file, (void)offset, (void)data, (void)size, (void)error;
    return VARVE_UNSUPPORTED;
}

int files_h5_close(struct files_h5 *file, struct varve_error *error) {
    (void)file, (void)error;
    return 0;
}

#else

#include <errno.h>

#define H5_USE_110_API /* the same names with every later version */
#include <hdf5.h>
#ifdef VARVE_HAS_HDF5_HL
#include <hdf5_hl.h>
#endif

#define TRIES 100
#define ORDER (H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) /* netCDF wants it */

struct files_h5 {
    hid_t file;
    /* the array at hand */
    hid_t set, type; /* H5I_INVALID_HID: none */
    unsigned dims;
    hsize_t size[VARVE_DIMS_MAX];
    uint64_t element; /* bytes */
    char name[FILES_H5_NAME];
};

static int refuse(struct varve_error *error, const char *what, const char *name) {
    return files_error(error, -EIO, "cannot %s %.200s in the HDF5 file", what, name);
}

/* ---- types ---- */

/* A float of 16 bits, by its fields. */
static hid_t small_float(size_t exponent, size_t mantissa, size_t bias) {
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    if (type >= 0 && H5Tset_fields(type, 15, mantissa, exponent, 0, mantissa) >= 0 && H5Tset_precision(type, 16) >= 0 &&
        H5Tset_size(type, 2) >= 0 && H5Tset_ebias(type, bias) >= 0)
        return type;
    H5Tclose(type);
    return H5I_INVALID_HID;
}

/* As h5py and others write them. */
static hid_t complex_type(hid_t part, size_t size) {
    hid_t type = H5Tcreate(H5T_COMPOUND, 2 * size);
    if (type >= 0 && H5Tinsert(type, "r", 0, part) >= 0 && H5Tinsert(type, "i", size, part) >= 0)
        return type;
    H5Tclose(type);
    return H5I_INVALID_HID;
}

static hid_t type_of(int type) {
    switch (type) {
    case VARVE_I8:
        return H5Tcopy(H5T_STD_I8LE);
    case VARVE_I16:
        return H5Tcopy(H5T_STD_I16LE);
    case VARVE_U16:
        return H5Tcopy(H5T_STD_U16LE);
    case VARVE_I32:
        return H5Tcopy(H5T_STD_I32LE);
    case VARVE_U32:
        return H5Tcopy(H5T_STD_U32LE);
    case VARVE_I64:
        return H5Tcopy(H5T_STD_I64LE);
    case VARVE_U64:
        return H5Tcopy(H5T_STD_U64LE);
    case VARVE_F32:
        return H5Tcopy(H5T_IEEE_F32LE);
    case VARVE_F64:
        return H5Tcopy(H5T_IEEE_F64LE);
    case VARVE_F16:
        return small_float(5, 10, 15);
    case VARVE_BF16:
        return small_float(8, 7, 127);
    case VARVE_C64:
        return complex_type(H5T_IEEE_F32LE, 4);
    case VARVE_C128:
        return complex_type(H5T_IEEE_F64LE, 8);
    default:
        return H5Tcopy(H5T_STD_U8LE);
    }
}

/* ---- the file ---- */

int files_h5_create(int fd, struct files_h5 **out, struct varve_error *error) {
    struct files_h5 *file = *out = calloc(1, sizeof *file);
    char path[64];
    if (!file)
        return -ENOMEM;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    hid_t how = H5Pcreate(H5P_FILE_CREATE);
    *file = (struct files_h5){.file = H5I_INVALID_HID, .set = H5I_INVALID_HID, .type = H5I_INVALID_HID};
    if (how >= 0 && H5Pset_link_creation_order(how, ORDER) >= 0 && H5Pset_attr_creation_order(how, ORDER) >= 0)
        file->file = H5Fcreate(path, H5F_ACC_TRUNC, how, H5P_DEFAULT);
    H5Pclose(how);
    if (file->file >= 0)
        return 0;
    free(file);
    *out = NULL;
    return refuse(error, "make", "anything");
}

/* One that has a name of ours, as varve_name, gets a number behind it. */
int files_h5_text(struct files_h5 *file, const char *name, const char *value, struct varve_error *error) {
    char called[FILES_H5_NAME];
    snprintf(called, sizeof called, "%.1000s%s", name, H5Aexists(file->file, name) > 0 ? "~2" : "");
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5I_INVALID_HID;
    int is_written = 0;
    if (type >= 0 && H5Tset_size(type, H5T_VARIABLE) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0)
        attribute = H5Acreate2(file->file, called, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute >= 0)
        is_written = H5Awrite(attribute, type, &value) >= 0;
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    return is_written ? 0 : refuse(error, "write the attribute", name);
}

static int end_array(struct files_h5 *file) {
    int is_right = file->set < 0 || H5Dclose(file->set) >= 0;
    if (file->type >= 0)
        H5Tclose(file->type);
    file->set = file->type = H5I_INVALID_HID;
    return is_right;
}

int files_h5_close(struct files_h5 *file, struct varve_error *error) {
    if (!file)
        return 0;
    int is_right = end_array(file);
    is_right &= H5Fflush(file->file, H5F_SCOPE_GLOBAL) >= 0;
    is_right &= H5Fclose(file->file) >= 0;
    free(file);
    return is_right ? 0 : refuse(error, "write", "everything");
}

/* ---- arrays ---- */

/* Groups on the way are made; the order in which things were made is remembered. */
static hid_t make_set(struct files_h5 *file, const char *name, hid_t type, hid_t space) {
    hid_t link = H5Pcreate(H5P_LINK_CREATE), how = H5Pcreate(H5P_DATASET_CREATE), set = H5I_INVALID_HID;
    if (link >= 0 && how >= 0 && H5Pset_create_intermediate_group(link, 1) >= 0 &&
        H5Pset_char_encoding(link, H5T_CSET_UTF8) >= 0 && H5Pset_attr_creation_order(how, ORDER) >= 0)
        set = H5Dcreate2(file->file, name, type, space, link, how, H5P_DEFAULT);
    H5Pclose(how);
    H5Pclose(link);
    return set;
}

/* Under this name; or without groups; or with a number behind it. `called` says which. */
static hid_t make_named(struct files_h5 *file, const char *name, hid_t type, hid_t space, char called[FILES_H5_NAME]) {
    hid_t set = H5I_INVALID_HID;
    snprintf(called, FILES_H5_NAME, "%s", name);
    for (int i = 0; i < TRIES && set < 0; i++) {
        if (i == 1)
            for (char *at = called; *at; at++)
                *at = *at == '/' ? '.' : *at;
        if (i > 1)
            snprintf(called + strcspn(called, "~"), 8, "~%d", i);
        set = make_set(file, called, type, space);
    }
    return set;
}

/* Each dimension of each array has one of its own: NAME_0, NAME_1. */
static int name_dimensions(struct files_h5 *file) {
    int is_right = 1;
#ifdef VARVE_HAS_HDF5_HL
    for (unsigned i = 0; i < file->dims && is_right; i++) {
        char name[FILES_H5_NAME], called[FILES_H5_NAME], title[100];
        hsize_t size = file->size[i];
        snprintf(name, sizeof name, "%.1000s_%u", file->name, i);
        snprintf(title, sizeof title, "This is a netCDF dimension but not a netCDF variable.%10llu",
                 (unsigned long long)size);
        hid_t space = H5Screate_simple(1, &size, NULL);
        hid_t scale = make_named(file, name, H5T_IEEE_F32BE, space, called);
        is_right = scale >= 0 && H5DSset_scale(scale, title) >= 0 && H5DSattach_scale(file->set, scale, i) >= 0;
        H5Dclose(scale);
        H5Sclose(space);
    }
#else
    (void)file;
#endif
    return is_right;
}

/* A component "." would be no name, and ~ is ours. Room for a number is left. */
static void choose_name(const char *name, char out[FILES_H5_NAME]) {
    snprintf(out, FILES_H5_NAME - 16, "%s", *name ? name : "_");
    for (char *at = out; *at; at++)
        if (*at == '~' || (*at == '.' && (at == out || at[-1] == '/') && (at[1] == '/' || at[1] == '\0')))
            *at = '_';
}

int files_h5_array(struct files_h5 *file, const char *name, const struct varve_array *array, char called[FILES_H5_NAME],
                   struct varve_error *error) {
    char wanted[FILES_H5_NAME];
    if (!end_array(file))
        return refuse(error, "write", file->name);
    choose_name(name, wanted);
    file->dims = array->dims;
    for (unsigned i = 0; i < array->dims; i++)
        file->size[i] = array->dim[i].local;
    file->type = type_of(array->type);
    hid_t space = H5Screate_simple((int)file->dims, file->size, NULL);
    if (file->type >= 0 && space >= 0)
        file->set = make_named(file, wanted, file->type, space, file->name);
    H5Sclose(space);
    file->element = file->type >= 0 ? H5Tget_size(file->type) : 0;
    snprintf(called, FILES_H5_NAME, "%s", file->name);
    return file->set >= 0 && name_dimensions(file) ? 0 : refuse(error, "make the dataset", name);
}

/* Of these elements, the first that make a block: single indices, then some of one dimension, then all of the rest. */
static uint64_t first_block(const struct files_h5 *file, uint64_t from, uint64_t count, hsize_t *start,
                            hsize_t *extent) {
    uint64_t stride = 1, rest = from;
    unsigned dim = file->dims;
    while (dim > 1 && from % (stride * file->size[dim - 1]) == 0 && stride * file->size[dim - 1] <= count)
        stride *= file->size[--dim];
    for (unsigned i = file->dims; i-- > 0;) {
        start[i] = rest % file->size[i];
        rest /= file->size[i];
        extent[i] = i >= dim ? file->size[i] : 1;
    }
    uint64_t rows = count / stride, left = file->size[dim - 1] - start[dim - 1];
    extent[dim - 1] = rows < left ? rows : left;
    return extent[dim - 1] * stride;
}

static int write_block(struct files_h5 *file, const hsize_t *start, const hsize_t *extent, const void *data) {
    hid_t there = H5Dget_space(file->set), here = H5Screate_simple((int)file->dims, extent, NULL);
    int is_written = there >= 0 && here >= 0 &&
                     H5Sselect_hyperslab(there, H5S_SELECT_SET, start, NULL, extent, NULL) >= 0 &&
                     H5Dwrite(file->set, file->type, here, there, H5P_DEFAULT, data) >= 0;
    H5Sclose(here);
    H5Sclose(there);
    return is_written;
}

int files_h5_write(struct files_h5 *file, uint64_t offset, const void *data, size_t size, struct varve_error *error) {
    const uint8_t *bytes = data;
    uint64_t from = offset / file->element, end = from + size / file->element, count;
    for (; from < end; from += count) {
        hsize_t start[VARVE_DIMS_MAX], extent[VARVE_DIMS_MAX];
        count = first_block(file, from, end - from, start, extent);
        if (!write_block(file, start, extent, bytes))
            return refuse(error, "write", file->name);
        bytes += count * file->element;
    }
    return 0;
}

#endif
