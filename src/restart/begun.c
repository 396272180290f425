/* A restart that was begun and goes on while the program works with the regions that are there already.
 *
 * The ranks have agreed on the candidate before the thread starts; it reads and checks the regions of this rank, and
 * talks to nobody. So it needs no group of its own. What the program expects in its own thread, or what needs rounds
 * between ranks (peers.h), was read before. */
#include <errno.h>
#include <pthread.h>

#include "base/alloc.h"
#include "restart/elastic_private.h"
#include "restart/reading.h"

#define TOGETHER_BLOCKS 16u /* small regions share blocks, and are read together up to so many */

struct vv_begun {
    struct vv_restart_context context;
    struct vv_restart_options options;
    struct vv_restart restart;
    struct vv_elastic elastic; /* instead, if other parts are stored than are protected now */
    int is_elastic;
    pthread_t thread;
    int has_thread;
    pthread_mutex_t lock; /* of is_read of the targets, and of what follows */
    pthread_cond_t changed;
    size_t first;     /* all targets before this one are read */
    size_t wish;      /* the target that was waited for last */
    int is_abandoned; /* nobody wants the rest */
    int is_done;
    int result; /* then: 0, or why not all of it was read */
    struct varve_error error;
};

struct vv_begun *vv_begun_create(const struct vv_restart_context *context, const struct vv_restart_options *options) {
    struct vv_begun *begun = vv_calloc(1, sizeof *begun);
    if (!begun)
        return NULL;
    begun->context = *context;
    begun->options = *options;
    vv_error_clear(&begun->error);
    pthread_mutex_init(&begun->lock, NULL);
    pthread_cond_init(&begun->changed, NULL);
    return begun;
}

void vv_begun_destroy(struct vv_begun *begun) {
    if (!begun)
        return;
    pthread_mutex_destroy(&begun->lock);
    pthread_cond_destroy(&begun->changed);
    vv_free(begun);
}

/* ---- the thread ---- */

/* With the lock: the next regions to read together, 1; or 0 when all are read. Whoever waits comes first. */
static int choose_targets(struct vv_begun *begun) {
    struct vv_restart *restart = &begun->restart;
    uint64_t bytes = 0, most = TOGETHER_BLOCKS * (uint64_t)begun->context.job->settings.block_size;
    while (begun->first < restart->target_count && restart->targets[begun->first].is_read)
        begun->first++;
    int is_wished = begun->wish < restart->target_count && !restart->targets[begun->wish].is_read;
    size_t i = restart->now_from = is_wished ? begun->wish : begun->first;
    for (; i < restart->target_count && bytes < most; i++) {
        struct vv_target *target = &restart->targets[i];
        target->is_now = !target->is_read;
        bytes += target->is_now ? target->stored_length : 0;
    }
    restart->now_to = i;
    return begun->first < restart->target_count;
}

static void hand_out(struct vv_begun *begun, int is_right) {
    pthread_mutex_lock(&begun->lock);
    for (size_t i = begun->restart.now_from; i < begun->restart.now_to; i++) {
        struct vv_target *target = &begun->restart.targets[i];
        target->is_read |= target->is_now && is_right;
        target->is_now = 0;
    }
    pthread_cond_broadcast(&begun->changed);
    pthread_mutex_unlock(&begun->lock);
}

static int read_now(struct vv_begun *begun, struct varve_error *error) {
    int rc = vv_read_targets(&begun->restart, error);
    hand_out(begun, rc == 0);
    return rc;
}

static int choose_next(struct vv_begun *begun) {
    pthread_mutex_lock(&begun->lock);
    int rc = begun->is_abandoned ? -ECANCELED : choose_targets(begun);
    pthread_mutex_unlock(&begun->lock);
    return rc;
}

static int read_all(struct vv_begun *begun, struct varve_error *error) {
    int rc = 0;
    vv_read_ahead(&begun->restart);
    while (rc == 0 && (rc = choose_next(begun)) > 0)
        rc = read_now(begun, error);
    return rc ? rc : vv_restart_remember(&begun->restart, error);
}

static void *read_behind(void *arg) {
    struct vv_begun *begun = arg;
    struct varve_error error;
    vv_error_clear(&error);
    int rc = read_all(begun, &error);
    vv_peers_rest(begun->restart.peers);
    pthread_mutex_lock(&begun->lock);
    begun->result = rc;
    if (rc)
        begun->error = error;
    begun->is_done = 1;
    pthread_cond_broadcast(&begun->changed);
    pthread_mutex_unlock(&begun->lock);
    return NULL;
}

/* ---- beginning ---- */

/* Without threads, or where ranks answer each other, everything is read inside the call. */
static int is_read_inside(const struct vv_begun *begun) {
    return begun->context.job->settings.threads == 0 || !vv_peers_is_direct(begun->restart.peers);
}

/* What the thread cannot do. */
static int read_inside(void *arg, struct vv_store *store, struct varve_error *error) {
    struct vv_begun *begun = arg;
    struct vv_restart *restart = &begun->restart;
    int is_all = is_read_inside(begun), is_any = 0;
    (void)store;
    restart->now_to = restart->target_count;
    for (size_t i = 0; i < restart->target_count; i++) {
        struct vv_target *target = &restart->targets[i];
        target->is_now = is_all || begun->context.memory->regions.list[target->slot].is_callback;
        is_any |= target->is_now;
    }
    if (is_all)
        vv_read_ahead(restart);
    int rc = is_any ? read_now(begun, error) : 0;
    if (rc == 0 && is_all) {
        rc = vv_restart_remember(restart, error);
        begun->is_done = 1;
    }
    return rc;
}

/* Ranks read for each other here, so everything is read inside the call. */
static int read_elsewhere(struct vv_begun *begun, struct varve_error *error) {
    int rc = vv_restart_elsewhere(&begun->restart, &begun->elastic, error);
    if (rc == 0)
        rc = vv_comm_agree(begun->context.job->comm, vv_elastic_read(&begun->elastic, error), error);
    if (rc)
        vv_elastic_clear(&begun->elastic, rc);
    else
        begun->is_elastic = begun->is_done = 1;
    return rc;
}

int vv_try_begin(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                 struct varve_error *error) {
    struct vv_begun *begun = *(struct vv_begun *const *)arg;
    (void)context; /* ours lives longer */
    begun->restart = (struct vv_restart){.context = &begun->context,
                                         .options = &begun->options,
                                         .generation = generation,
                                         .version = version,
                                         .given = {.regions = &begun->context.memory->regions}};
    int rc = vv_restart_prepare(&begun->restart, error);
    if (rc == VV_OTHER_PARTS)
        return read_elsewhere(begun, error);
    if (rc == 0)
        rc = vv_peers_run(begun->restart.peers, read_inside, begun, error);
    if (rc) {
        begun->is_done = 0;
        vv_restart_clear(&begun->restart, rc);
        return rc;
    }
    begun->wish = begun->restart.target_count;
    if (begun->is_done)
        return 0;
    begun->has_thread = vv_thread_start(&begun->thread, read_behind, begun) == 0;
    if (!begun->has_thread)
        read_behind(begun); /* later than wanted, and as good */
    return 0;
}

/* ---- while it is under way ---- */

/* Most programs protect in the order in which it is stored, so it is near. */
static struct vv_target *find_target(struct vv_begun *begun, size_t slot) {
    size_t count = begun->restart.target_count;
    for (size_t i = 0; i < count; i++) {
        struct vv_target *target = &begun->restart.targets[(slot + i) % count];
        if (target->slot == slot)
            return target;
    }
    return NULL;
}

/* On other ranks all was read inside the call, but what is dropped, or protected since then. */
static int was_read(const struct vv_begun *begun, size_t slot) {
    const struct vv_elastic *elastic = &begun->elastic;
    return slot < elastic->wanted_count && elastic->wanted[slot].region && elastic->wanted[slot].how != VARVE_DROPPED;
}

int vv_begun_wait(struct vv_begun *begun, const char *name, struct varve_error *error) {
    const struct vv_regions *regions = &begun->context.memory->regions;
    const struct vv_region *region = vv_regions_find(regions, name);
    if (region && begun->is_elastic && was_read(begun, (size_t)(region - regions->list)))
        return 0;
    struct vv_target *target =
        region && !begun->is_elastic ? find_target(begun, (size_t)(region - regions->list)) : NULL;
    if (!target)
        return vv_error(error, -ENOENT, "no region %s is read by this restart: there is nothing to wait for", name);
    pthread_mutex_lock(&begun->lock);
    begun->wish = (size_t)(target - begun->restart.targets);
    while (!target->is_read && !begun->is_done)
        pthread_cond_wait(&begun->changed, &begun->lock);
    int rc = target->is_read ? 0 : begun->result;
    if (rc)
        *error = begun->error;
    pthread_mutex_unlock(&begun->lock);
    return rc;
}

static void join(struct vv_begun *begun) {
    if (begun->has_thread)
        pthread_join(begun->thread, NULL);
    begun->has_thread = 0;
}

static void clear(struct vv_begun *begun, int rc) {
    if (begun->is_elastic)
        vv_elastic_clear(&begun->elastic, rc);
    else
        vv_restart_clear(&begun->restart, rc);
}

int vv_begun_end(struct vv_begun *begun, struct varve_error *error) {
    const struct vv_restart *restart = &begun->restart;
    const struct vv_attempt candidate = {restart->generation, 0, restart->version};
    join(begun);
    *error = begun->error;
    int rc = vv_comm_agree_call(begun->context.job->comm, begun->result, VV_CALL_RESTART_END, 0, error);
    if (rc)
        rc = vv_see_forgotten(&begun->context, &candidate, rc, error);
    else
        rc =
            begun->is_elastic ? vv_elastic_take(&begun->elastic, 0, error) : vv_restart_take(&begun->restart, 0, error);
    clear(begun, rc);
    vv_begun_destroy(begun);
    return rc;
}

void vv_begun_abandon(struct vv_begun *begun) {
    if (!begun)
        return;
    pthread_mutex_lock(&begun->lock);
    begun->is_abandoned = 1;
    pthread_mutex_unlock(&begun->lock);
    join(begun);
    clear(begun, -ECANCELED);
    vv_begun_destroy(begun);
}
