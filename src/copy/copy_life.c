/* A job whose first store was away may have gone on elsewhere. Then two lines of its checkpoints meet in one store, and
 * the numbers of their versions do not tell which is the later one: the time at which they were saved does. */
#include "base/error.h"
#include "copy/copy.h"
#include "lifecycle/commit.h"

struct search {
    struct vv_store *store;
    const char *name;
    uint64_t version, time_ns;
    struct varve_error *error;
};

static int compare(void *arg, uint32_t generation, uint64_t version) {
    struct search *search = arg;
    struct vv_record record;
    if (version != search->version)
        return 0;
    int rc = vv_record_load(search->store, search->name, generation, version, &record, search->error);
    if (rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT) { /* it may be the one */
        vv_error_clear(search->error);
        return 1;
    }
    if (rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT) {
        vv_error_clear(search->error);
        return 0;
    }
    if (rc < 0)
        return rc;
    int is_it = record.time_ns == search->time_ns;
    vv_record_clear(&record);
    return is_it;
}

int vv_copy_is_here(struct vv_store *store, const char *name, uint64_t version, uint64_t time_ns,
                    struct varve_error *error) {
    struct search search = {store, name, version, time_ns, error};
    return vv_records_list_whole(store, name, compare, &search, error);
}
