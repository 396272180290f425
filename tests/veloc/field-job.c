/* The program of ../field, made of VELOC's calls: the same acts, the same log. STORE must end with /varve, for the
 * layer keeps its store in a folder of that name. Settings and address parameters cannot be given. */
#include "veloc.h"

#include <stdio.h>
#include <stdlib.h>

static char job_name[80];
static const struct varve_error job_error = {.rank = -1, .text = "the output tells"};

static int job_open(const char *store, const char *name, const struct varve_options *options,
                    struct varve_session **out, struct varve_error *error) {
    char persistent[1024];
    if (options->settings)
        return VARVE_SETTING;
    snprintf(persistent, sizeof persistent, "%.*s", (int)(strrchr(store, '/') - store), store);
    snprintf(job_name, sizeof job_name, "%s", name);
    setenv("VELOC_PERSISTENT", persistent, 1);
    setenv("VELOC_MODE", "sync", 1);
    *out = (struct varve_session *)job_name; /* there is one */
    *error = job_error;
    return VELOC_Init(MPI_COMM_WORLD, NULL);
}

static int job_restart(int64_t version, int64_t *version_out) {
    int found = version == VARVE_LATEST ? VELOC_Restart_test(job_name, 0) : (int)version;
    *version_out = found;
    return found == VELOC_FAILURE ? VARVE_NO_CHECKPOINT : VELOC_Restart(job_name, found);
}

#define varve_open_mpi(mpi, store, name, options, out, error) job_open(store, name, options, out, error)
#define varve_protect(session, region, ptr, size) VELOC_Mem_protect(strcmp(region, "state") == 0, ptr, size, 1)
#define varve_checkpoint(session, version) VELOC_Checkpoint(job_name, (int)(version))
#define varve_wait(session) VELOC_Checkpoint_wait()
#define varve_restart(session, version, out) job_restart(version, out)
#define varve_close(session) VELOC_Finalize(1)
#define varve_session_error(session) (&job_error)
#include "../field/field-job.c"
