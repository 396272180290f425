/* What reading costs on simulated ranks, by the linker's --wrap: mem:// is as it is, and then the bytes pass the link
 * of the node, and the file system that all nodes share. Each is a line on which a transfer reserves its time. The
 * delay of a request is the store's own, latency in its address.
 *
 * The store's own limit would do for neither: it lets the first MiB pass for nothing. */
#include "scale_storage.h"

#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend_parts.h"
#include "storage/storage.h"

#define LINK_BYTES_PER_S 12.5e9 /* of a node */
#define ALL_BYTES_PER_S 1e12    /* of the file system */
#define RANKS_MAX 65536
#define BUCKETS 4096u
#define KEY_MAX 256

static struct varve_backend *opened[RANKS_MAX];

/* ---- objects ---- */

struct object {
    struct object *next;
    uint64_t reads;
    char key[];
};

static struct object *objects[BUCKETS];

static void note_read(const char *key) {
    uint64_t hash = 0;
    for (const char *at = key; *at; at++)
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    struct object **link = &objects[hash >> 32 & (BUCKETS - 1)];
    while (*link && strcmp((*link)->key, key) != 0)
        link = &(*link)->next;
    if (!*link) {
        *link = calloc(1, sizeof **link + strlen(key) + 1);
        if (!*link)
            abort();
        strcpy((*link)->key, key);
    }
    (*link)->reads++;
}

uint64_t scale_hottest(const char **key_out) {
    static char hottest[KEY_MAX];
    uint64_t reads = 0;
    hottest[0] = '\0';
    *key_out = hottest;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct object *object; (object = objects[i]); free(object)) {
            objects[i] = object->next;
            if (object->reads > reads) {
                reads = object->reads;
                snprintf(hottest, sizeof hottest, "%s", object->key);
            }
        }
    return reads;
}

/* ---- bytes ---- */

/* When these bytes have passed a line that is taken up to then. */
static double reserve(double *taken_until, double bytes, double bytes_per_s) {
    double begin = simgrid_get_clock();
    begin = *taken_until > begin ? *taken_until : begin;
    return *taken_until = begin + bytes / bytes_per_s;
}

static double *link_of_node(void) {
    sg_host_t host = sg_host_self();
    if (!sg_host_get_data(host))
        sg_host_set_data(host, calloc(1, sizeof(double)));
    if (!sg_host_get_data(host))
        abort();
    return sg_host_get_data(host);
}

static struct varve_backend_ops mem_ops, priced_ops;

static int64_t get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    static double all;
    int64_t got = mem_ops.get(backend, key, offset, data, size);
    note_read(key);
    if (got <= 0)
        return got;
    double node = reserve(link_of_node(), (double)got, LINK_BYTES_PER_S);
    double system = reserve(&all, (double)got, ALL_BYTES_PER_S);
    sg_actor_sleep_until(node > system ? node : system);
    return got;
}

int __real_vv_mem_open(const char *name, int may_create, struct varve_backend **out, struct varve_error *error);
int __wrap_vv_mem_open(const char *name, int may_create, struct varve_backend **out, struct varve_error *error);
int __wrap_vv_mem_open(const char *name, int may_create, struct varve_backend **out, struct varve_error *error) {
    int rc = __real_vv_mem_open(name, may_create, out, error);
    if (rc)
        return rc;
    mem_ops = *(*out)->ops;
    priced_ops = mem_ops;
    priced_ops.get = get;
    (*out)->ops = &priced_ops;
    return 0;
}

/* ---- requests ---- */

int __real_vv_backend_open(const char *uri, const struct vv_backend_options *options, struct varve_backend **out,
                           struct varve_error *error);
int __wrap_vv_backend_open(const char *uri, const struct vv_backend_options *options, struct varve_backend **out,
                           struct varve_error *error);
int __wrap_vv_backend_open(const char *uri, const struct vv_backend_options *options, struct varve_backend **out,
                           struct varve_error *error) {
    int rank, rc = __real_vv_backend_open(uri, options, out, error);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank >= RANKS_MAX)
        abort();
    if (rc == 0)
        opened[rank] = *out;
    return rc;
}

struct scale_asked scale_asked(uint32_t rank) {
    struct vv_backend_counts counts;
    struct scale_asked asked = {0};
    if (vv_count_get(opened[rank], &counts) != 0)
        abort();
    for (int verb = 0; verb < VV_VERB_COUNT; verb++)
        asked.requests += counts.calls[verb];
    asked.reads = counts.calls[VV_VERB_GET];
    asked.bytes = counts.bytes_read;
    return asked;
}
