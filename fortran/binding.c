/* The C side of the Fortran module. Fortran hands over descriptors: type, size of an element, extents, and whether the
 * elements lie one after the other. From them the array of varve.h is made, with its dimensions turned round: the last
 * index of Fortran is the slowest, and Varve has the slowest first. */
#include "binding.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* It is protected where it lies here, so a checkpoint still has it. */
struct held {
    struct held *next;
    char *region;
    void *ptr;
    size_t bytes;
    int how; /* enum varve_distribution */
    char lossy[16];
    struct varve_array array;
};

#define FAIL(error, code, ...) (snprintf((error)->text, sizeof(error)->text, __VA_ARGS__), fail(error, code))

static int fail(struct varve_error *error, int code) {
    error->code = code;
    error->rank = -1;
    return code;
}

/* The result of a call, and the session's text with it. */
static int result(struct fortran_session *self, int rc, struct varve_error *error) {
    if (rc < 0) {
        *error = *varve_session_error(self->session);
        error->code = rc;
    }
    return rc;
}

/* ---- open and close ---- */

/* A session that is open stays: it would hold its name, and nobody could close it. */
int varve_fortran_check_closed(struct fortran_session *self, struct varve_error *error) {
    if (self->session)
        return FAIL(error, -EBUSY, "this session is open already; close it, or use another variable");
    return 0;
}

int varve_fortran_open(const char *store, const char *name, const char *settings, struct fortran_session *self,
                       struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    int rc = varve_fortran_check_closed(self, error);
    options.settings = settings;
    return rc ? rc : varve_open(store, name, &options, &self->session, error);
}

static void destroy_held(struct held *held) {
    if (held) {
        free(held->region);
        free(held->ptr);
        free(held);
    }
}

static struct held **find_held(struct fortran_session *self, const char *region) {
    struct held **at = &self->held;
    while (*at && strcmp((*at)->region, region) != 0)
        at = &(*at)->next;
    return at;
}

/* The region lies elsewhere now, or is not protected. */
static void forget_held(struct fortran_session *self, const char *region) {
    struct held **at = find_held(self, region), *held = *at;
    if (held) {
        *at = held->next;
        destroy_held(held);
    }
}

int varve_fortran_close(struct fortran_session *self, struct varve_error *error) {
    if (!self->session)
        return 0;
    int rc = result(self, varve_wait(self->session), error); /* varve_close would tell the code, but no text */
    int closed = varve_close(self->session);
    while (self->held)
        forget_held(self, self->held->region);
    self->session = NULL;
    if (rc == 0 && closed != 0)
        return FAIL(error, closed, "varve_close: %s", varve_error_text(closed));
    return rc;
}

/* ---- from Fortran's description of an array to ours ---- */

/* Integers are signed in Fortran. A logical is what its processor makes of it, an integer of its size. What has no type
 * of ours is bytes. */
static int type_of(const CFI_cdesc_t *array) {
    size_t size = array->elem_len;
    switch (array->type & CFI_type_mask) {
    case CFI_type_Integer:
    case CFI_type_Logical:
        return size == 1   ? VARVE_I8
               : size == 2 ? VARVE_I16
               : size == 4 ? VARVE_I32
               : size == 8 ? VARVE_I64
                           : VARVE_BYTES;
    case CFI_type_Real:
        return size == 4 ? VARVE_F32 : size == 8 ? VARVE_F64 : VARVE_BYTES;
    case CFI_type_Complex:
        return size == 8 ? VARVE_C64 : size == 16 ? VARVE_C128 : VARVE_BYTES;
    default:
        return VARVE_BYTES;
    }
}

static int is_character(const CFI_cdesc_t *array) {
    return (array->type & CFI_type_mask) == CFI_type_Character;
}

/* Only intrinsic types come here. What says that it is another, or larger than an element, is a part of each element
 * of something larger. */
static int check_array(const char *region, const CFI_cdesc_t *array, size_t element, struct varve_error *error) {
    if (!array->base_addr)
        return FAIL(error, -EINVAL, "region %s: the array is not allocated; allocate it before varve_protect", region);
    if ((type_of(array) == VARVE_BYTES && !is_character(array)) || array->elem_len != element ||
        (array->rank > 0 && !CFI_is_contiguous(array)))
        return FAIL(error, -EINVAL,
                    "region %s: the elements of this section are not contiguous; protect the whole array, or sections "
                    "that are",
                    region);
    return 0;
}

/* The i-th of a list of integers of any kind; a scalar is a list of one. */
static int read_integer(const CFI_cdesc_t *list, int i, int64_t *out) {
    const char *at = list->base_addr;
    if ((list->type & CFI_type_mask) != CFI_type_Integer || !at)
        return -EINVAL;
    at += list->rank > 0 ? i * list->dim[0].sm : 0;
    switch (list->elem_len) {
    case 4:
        *out = *(const int32_t *)at;
        return 0;
    case 8:
        *out = *(const int64_t *)at;
        return 0;
    default:
        return -EINVAL;
    }
}

static int count_of(const CFI_cdesc_t *list) {
    return list->rank == 0 ? 1 : list->rank == 1 ? (int)list->dim[0].extent : -1;
}

static int place(const char *region, const CFI_cdesc_t *array, const CFI_cdesc_t *first, const CFI_cdesc_t *global,
                 struct varve_array *out, struct varve_error *error) {
    if (!first || !global || count_of(first) != array->rank || count_of(global) != array->rank)
        return FAIL(error, -EINVAL, "region %s has %d dimensions: first and global need an integer for each", region,
                    array->rank);
    for (int i = 0; i < array->rank; i++) {
        int64_t begin, whole, extent = array->dim[i].extent;
        if (read_integer(first, i, &begin) != 0 || read_integer(global, i, &whole) != 0)
            return FAIL(error, -EINVAL, "region %s: first and global are integers of 4 or 8 bytes", region);
        if (begin < 1 || whole < extent || begin - 1 > whole - extent)
            return FAIL(error, -EINVAL, "region %s, dimension %d: %lld elements from %lld on are not within 1 to %lld",
                        region, i + 1, (long long)extent, (long long)begin, (long long)whole);
        out->dim[array->rank - 1 - i].first = (uint64_t)begin - 1;
        out->dim[array->rank - 1 - i].global = (uint64_t)whole;
    }
    return 0;
}

/* A scalar is an array of one. Where an element is bytes, they are one more dimension, the fastest. */
static void describe(const CFI_cdesc_t *array, struct varve_array *out) {
    *out = (struct varve_array){.size = sizeof *out, .type = type_of(array), .dims = (unsigned)array->rank};
    for (int i = 0; i < array->rank; i++)
        out->dim[array->rank - 1 - i].local = (uint64_t)array->dim[i].extent;
    if (out->type == VARVE_BYTES)
        out->dim[out->dims++].local = array->elem_len;
    else if (array->rank == 0)
        out->dim[out->dims++].local = 1;
}

int varve_fortran_protect(struct fortran_session *self, const char *region, const CFI_cdesc_t *array, size_t element,
                          const CFI_cdesc_t *first, const CFI_cdesc_t *global, struct varve_error *error) {
    struct varve_array described;
    int rc = check_array(region, array, element, error);
    if (rc)
        return rc;
    describe(array, &described);
    if (first || global)
        rc = place(region, array, first, global, &described, error);
    if (rc)
        return rc;
    rc = varve_protect_array(self->session, region, array->base_addr, &described);
    if (rc == 0)
        forget_held(self, region);
    return result(self, rc, error);
}

int varve_fortran_protect_bytes(struct fortran_session *self, const char *region, void *ptr, int64_t bytes,
                                struct varve_error *error) {
    if (bytes < 0)
        return FAIL(error, -EINVAL, "region %s: it cannot have %lld bytes", region, (long long)bytes);
    int rc = varve_protect(self->session, region, ptr, (size_t)bytes);
    if (rc == 0)
        forget_held(self, region);
    return result(self, rc, error);
}

int varve_fortran_alloc(struct fortran_session *self, const char *region, int64_t bytes, void **out,
                        struct varve_error *error) {
    if (bytes < 1)
        return FAIL(error, -EINVAL, "region %s: it cannot have %lld bytes", region, (long long)bytes);
    void *ptr = varve_alloc(self->session, region, (size_t)bytes);
    if (!ptr)
        return result(self, varve_session_error(self->session)->code, error);
    forget_held(self, region);
    *out = ptr;
    return 0;
}

void varve_fortran_free(struct fortran_session *self, void *ptr) {
    varve_free(self->session, ptr);
}

int varve_fortran_unprotect(struct fortran_session *self, const char *region, struct varve_error *error) {
    int rc = varve_unprotect(self->session, region);
    if (rc == 0)
        forget_held(self, region);
    return result(self, rc, error);
}

int varve_fortran_distribute(struct fortran_session *self, const char *region, int how, struct varve_error *error) {
    return result(self, varve_distribute(self->session, region, (enum varve_distribution)how), error);
}

int varve_fortran_attribute(struct fortran_session *self, const char *name, const char *value,
                            struct varve_error *error) {
    return result(self, varve_attribute(self->session, name, value), error);
}

/* ---- saving ---- */

int varve_fortran_checkpoint(struct fortran_session *self, int64_t version, struct varve_error *error) {
    return result(self, varve_checkpoint(self->session, version), error);
}

int varve_fortran_wait(struct fortran_session *self, struct varve_error *error) {
    return result(self, varve_wait(self->session), error);
}

int varve_fortran_release(struct fortran_session *self, struct varve_error *error) {
    return result(self, varve_release(self->session), error);
}

int varve_fortran_test(struct fortran_session *self, struct varve_error *error) {
    return result(self, varve_test(self->session), error);
}

int varve_fortran_need(struct fortran_session *self, struct varve_error *error) {
    return result(self, varve_need(self->session), error);
}

int varve_fortran_should_exit(struct fortran_session *self, struct varve_error *error) {
    return result(self, varve_should_exit(self->session), error);
}

double varve_fortran_time_left(const struct fortran_session *self) {
    return varve_time_left(self->session);
}

/* ---- coming back ---- */

int varve_fortran_restart(struct fortran_session *self, int64_t version, int64_t *version_out,
                          struct varve_error *error) {
    return result(self, varve_restart(self->session, version, version_out), error);
}

int varve_fortran_reject(struct fortran_session *self, int64_t version, struct varve_error *error) {
    return result(self, varve_reject(self->session, version), error);
}

/* What the array points to lives during the call only. */
static void *hold(void *arg, const struct varve_region_info *region) {
    struct fortran_session *self = arg;
    struct held *held = calloc(1, sizeof *held);
    if (!held)
        return NULL;
    held->region = strdup(region->name);
    held->ptr = malloc(region->bytes > 0 ? region->bytes : 1);
    if (!held->region || !held->ptr) {
        destroy_held(held);
        return NULL;
    }
    held->bytes = region->bytes;
    held->how = region->how;
    held->array = *region->array;
    if (region->array->lossy) {
        snprintf(held->lossy, sizeof held->lossy, "%s", region->array->lossy);
        held->array.lossy = held->lossy;
    }
    held->next = self->held;
    self->held = held;
    return held->ptr;
}

static void let_go(void *arg, const char *region, void *ptr) {
    struct held **at = &((struct fortran_session *)arg)->held;
    (void)region;
    while (*at && (*at)->ptr != ptr)
        at = &(*at)->next;
    struct held *held = *at;
    if (held) {
        *at = held->next;
        destroy_held(held);
    }
}

int varve_fortran_restart_alloc(struct fortran_session *self, int64_t version, int64_t *version_out,
                                struct varve_error *error) {
    const struct varve_allocator allocator = {.size = sizeof allocator, .alloc = hold, .release = let_go};
    return result(self, varve_restart_alloc(self->session, version, &allocator, self, version_out), error);
}

static int check_taken(const struct held *held, const CFI_cdesc_t *array, struct varve_error *error) {
    if (array->base_addr)
        return FAIL(error, -EINVAL, "region %s: the array is allocated; varve_take does that", held->region);
    if (held->array.type != type_of(array) || (int)held->array.dims != array->rank)
        return FAIL(error, VARVE_MISMATCH,
                    "region %s is stored with %u dimensions and type %d; the array has %d, and %d", held->region,
                    held->array.dims, held->array.type, array->rank, type_of(array));
    return 0;
}

int varve_fortran_take(struct fortran_session *self, const char *region, CFI_cdesc_t *array,
                       struct varve_error *error) {
    struct held *held = *find_held(self, region);
    CFI_index_t lower[CFI_MAX_RANK], upper[CFI_MAX_RANK];
    if (!held)
        return FAIL(error, -ENOENT, "region %s has not come with varve_restart_alloc, or was taken already", region);
    int rc = check_taken(held, array, error);
    if (rc)
        return rc;
    for (int i = 0; i < array->rank; i++) {
        lower[i] = 1;
        upper[i] = (CFI_index_t)held->array.dim[array->rank - 1 - i].local;
    }
    if (CFI_allocate(array, lower, upper, array->elem_len) != CFI_SUCCESS)
        return FAIL(error, -ENOMEM, "region %s: no memory for its %zu bytes", region, held->bytes);
    memcpy(array->base_addr, held->ptr, held->bytes);
    rc = varve_protect_array(self->session, region, array->base_addr, &held->array);
    if (rc == 0)
        forget_held(self, region);
    return result(self, rc, error);
}
