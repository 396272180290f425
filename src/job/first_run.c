/* No checkpoint was found. That is a first run, or a mistyped name or path: one line tells what was looked for, and
 * what is there instead. */
#include <stdio.h>
#include <string.h>

#include "job/job.h"

#define NAMES_SHOWN 5u
#define NAMES_COUNTED 1000u /* a store may have very many; nobody waits for their number */

struct neighbours {
    const char *own;
    unsigned count;
    char shown[NAMES_SHOWN * (VV_NAME_MAX + 2) + 1];
};

static int note_name(void *arg, const char *name) {
    struct neighbours *neighbours = arg;
    if (strcmp(name, neighbours->own) == 0)
        return 0; /* our own claim */
    if (neighbours->count++ < NAMES_SHOWN) {
        size_t used = strlen(neighbours->shown);
        snprintf(neighbours->shown + used, sizeof neighbours->shown - used, "%s%s", used ? ", " : "", name);
    }
    return neighbours->count >= NAMES_COUNTED;
}

static void describe_names(struct vv_job *job, char *out, size_t capacity) {
    struct neighbours neighbours = {.own = job->name};
    struct varve_error ignored = {0};
    if (job->is_store_new)
        snprintf(out, capacity, "the store is new");
    else if (vv_store_names(job->store, note_name, &neighbours, &ignored) < 0)
        snprintf(out, capacity, "what else is there could not be listed");
    else if (neighbours.count == 0)
        snprintf(out, capacity, "no other names are there");
    else if (neighbours.count <= NAMES_SHOWN)
        snprintf(out, capacity, "names there: %s", neighbours.shown);
    else
        snprintf(out, capacity, "names there: %s and %s%u more", neighbours.shown,
                 neighbours.count < NAMES_COUNTED ? "" : "at least ", neighbours.count - NAMES_SHOWN);
}

void vv_tell_first_run(struct vv_job *job) {
    char names[sizeof((struct neighbours *)NULL)->shown + 64];
    /* A program that has rejected checkpoints knows that they are there. */
    if (job->is_first_run_told || job->lineage.rejected_count > 0 || !vv_comm_is_root(job->comm) || !job->store)
        return;
    job->is_first_run_told = 1;
    describe_names(job, names, sizeof names);
    vv_log(&job->log, VV_LOG_WARN, "no checkpoint of %s in %.300s: a first run (%s)", job->name, job->address, names);
}
