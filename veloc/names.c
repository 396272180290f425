/* Init and finalize, and the sessions of the names. */
#include "layer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct layer vl_layer = {.comm = MPI_COMM_NULL};

int vl_fail(const char *call, const char *format, ...) {
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "varve: %s: rank %d: %s\n", call, vl_layer.rank, text);
    return VELOC_FAILURE;
}

int vl_is_teller(void) {
    return vl_layer.rank == 0 || vl_layer.comm == MPI_COMM_NULL;
}

int vl_result(const char *call, const struct name *name, int version, int rc) {
    if (rc >= 0)
        return VELOC_SUCCESS;
    const char *text = varve_session_error(name->session)->text;
    if (vl_is_teller())
        fprintf(stderr, "varve: %s: %s@%d: %s\n", call, name->name, version, *text ? text : varve_error_text(rc));
    return VELOC_FAILURE;
}

int vl_on_all(int is_so) {
    int all = is_so;
    if (vl_layer.comm != MPI_COMM_NULL)
        MPI_Allreduce(&is_so, &all, 1, MPI_INT, MPI_MIN, vl_layer.comm);
    return all;
}

void *vl_grow(void *array, size_t count, size_t size) {
    if ((count & (count - 1)) != 0) /* room is a power of two */
        return array;
    return realloc(array, (count ? 2 * count : 1) * size);
}

/* ---- names ---- */

static int is_name(const char *text) {
    size_t length = text ? strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") : 0;
    return length > 0 && text[length] == 0;
}

static void free_name(struct name *name) {
    if (name) {
        free(name->name);
        free(name->own);
        free(name->known);
        free(name->bad);
        free(name->file);
        free(name);
    }
}

static struct name *make_name(const char *text) {
    struct name **names = vl_grow(vl_layer.names, vl_layer.name_count, sizeof *names);
    struct name *name = calloc(1, sizeof *name);
    size_t size = strlen(text) + 16;
    if (names)
        vl_layer.names = names;
    if (name) {
        name->name = strdup(text);
        name->own = malloc(size);
        name->tried = -1;
    }
    if (!names || !name || !name->name || !name->own) {
        free_name(name);
        return NULL;
    }
    /* VELOC allows no '-' in a name, so no other name is the same. */
    if (vl_layer.comm == MPI_COMM_NULL)
        snprintf(name->own, size, "%s-%d", text, vl_layer.rank);
    else
        snprintf(name->own, size, "%s", text);
    return name;
}

int vl_open(const char *call, struct name *name) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    int rc;
    if (name->session)
        return 0;
    options.settings = vl_layer.settings;
    if (vl_layer.comm == MPI_COMM_NULL)
        rc = varve_open(vl_layer.store, name->own, &options, &name->session, &error);
    else
        rc = varve_open_mpi(vl_layer.comm, vl_layer.store, name->own, &options, &name->session, &error);
    if (rc != 0 && vl_is_teller())
        vl_fail(call, "%s", error.text);
    return rc;
}

static struct name *add_name(const char *call, const char *text) {
    struct name *name = make_name(text);
    if (vl_on_all(name != NULL))
        return vl_layer.names[vl_layer.name_count++] = name;
    vl_fail(call, "there is no memory for the name %s", text);
    free_name(name);
    return NULL;
}

struct name *vl_name(const char *call, const char *text, int version, int is_right) {
    int is_good = is_name(text) && version >= 0;
    if (!vl_layer.is_open) {
        vl_fail(call, "VELOC_Init comes first");
        return NULL;
    }
    if (!is_good)
        vl_fail(call, "a name has letters, digits, _ and . only, and versions are not negative");
    if (!vl_on_all(is_good && is_right))
        return NULL;
    for (size_t i = 0; i < vl_layer.name_count; i++)
        if (strcmp(vl_layer.names[i]->name, text) == 0)
            return vl_layer.names[i];
    return add_name(call, text);
}

/* ---- init and finalize ---- */

static int open_layer(const char *call, int rank, int ranks, const char *cfg_file) {
    vl_layer.rank = rank;
    vl_layer.ranks = ranks;
    int is_mine = vl_configure(cfg_file) == 0;
    if (!vl_on_all(is_mine))
        return is_mine ? vl_fail(call, "another rank did not accept its configuration") : VELOC_FAILURE;
    vl_layer.is_open = 1;
    return VELOC_SUCCESS;
}

static void close_layer(void) {
    vl_forget_regions();
    free(vl_layer.names);
    free(vl_layer.store);
    free(vl_layer.scratch);
    if (vl_layer.comm != MPI_COMM_NULL)
        MPI_Comm_free(&vl_layer.comm);
    memset(&vl_layer, 0, sizeof vl_layer);
    vl_layer.comm = MPI_COMM_NULL;
}

int varve_veloc_init(const struct varve_mpi_kind *kind, const void *mpi, const char *cfg_file) {
    int rank, ranks;
    MPI_Comm comm;
    if (vl_layer.is_open)
        return vl_fail("VELOC_Init", "it was called before");
    if (kind->comm_size != sizeof comm || strcmp(kind->family, VARVE_MPI_FAMILY) != 0)
        return vl_fail("VELOC_Init", "the program is compiled with %s %s, libvarve_veloc with %s %s", kind->family,
                       kind->version, VARVE_MPI_FAMILY, VARVE_MPI_VERSION);
    memcpy(&comm, mpi, sizeof comm);
    if (MPI_Comm_dup(comm, &vl_layer.comm) != MPI_SUCCESS)
        return vl_fail("VELOC_Init", "MPI_Comm_dup failed");
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    if (open_layer("VELOC_Init", rank, ranks, cfg_file) == VELOC_SUCCESS)
        return VELOC_SUCCESS;
    close_layer();
    return VELOC_FAILURE;
}

int VELOC_Init_single(unsigned int id, const char *cfg_file) {
    if (vl_layer.is_open)
        return vl_fail("VELOC_Init_single", "VELOC was initialised before");
    if (id > INT32_MAX)
        return vl_fail("VELOC_Init_single", "the id %u is above %d", id, INT32_MAX);
    if (open_layer("VELOC_Init_single", (int)id, 1, cfg_file) == VELOC_SUCCESS)
        return VELOC_SUCCESS;
    close_layer();
    return VELOC_FAILURE;
}

void vl_close_phase(struct phase *phase) {
    free(phase->chosen);
    free(phase->stored);
    memset(phase, 0, sizeof *phase);
}

int VELOC_Finalize(int drain) {
    int rc = VELOC_SUCCESS;
    (void)drain; /* what stores is in this process: not to wait would lose the last checkpoint */
    if (!vl_layer.is_open)
        return vl_fail("VELOC_Finalize", "VELOC_Init comes first");
    vl_close_phase(&vl_layer.saving);
    vl_file_remove(&vl_layer.restoring);
    vl_close_phase(&vl_layer.restoring);
    for (size_t i = 0; i < vl_layer.name_count; i++)
        vl_layer.names[i]->is_told = 0; /* the last word: the newest checkpoint is there, or not */
    if (VELOC_Checkpoint_wait() != VELOC_SUCCESS)
        rc = VELOC_FAILURE;
    for (size_t i = 0; i < vl_layer.name_count; i++) {
        varve_close(vl_layer.names[i]->session); /* its result is that of the wait */
        free_name(vl_layer.names[i]);
    }
    close_layer();
    return rc;
}
