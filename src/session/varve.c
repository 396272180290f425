/* The public session functions: check arguments, own the session, carry errors to the caller. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_comm.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "format/attributes.h"
#include "session/session.h"

struct varve_session {
    struct vv_session *inner;
    struct varve_error error; /* of the last call */
    int is_warned;            /* on_error=warn: varve_checkpoint only logs a failure; varve_wait still tells it */
};

/* The error of the last call carries the rank where it happened: in collective calls that may be another one. */
static int end(struct varve_session *session, int rc) {
    if (rc < 0) {
        vv_error_default(&session->error, rc, "%s", varve_error_text(rc));
        if (rc != VARVE_EARLIER_FAILED) /* it tells why the earlier one failed */
            session->error.code = rc;
        if (session->error.rank < 0)
            session->error.rank = (int)session->inner->job.comm->rank;
    }
    return rc;
}

/* A program that did not look at what open returned has no session: that is an error of its next call, not its end.
 * call: its name, or NULL if it may be made while a restart is under way. */
static int begin(struct varve_session *session, const char *call) {
    if (!session)
        return -EINVAL;
    vv_error_clear(&session->error);
    if (!call || !session->inner->under_way.begun)
        return 0;
    return end(session, vv_error(&session->error, -EBUSY,
                                 "%s: a restart is under way on this session; call varve_restart_end first", call));
}

static int check_region_name(struct varve_session *session, const char *region) {
    size_t length = region ? strlen(region) : 0;
    if (length >= 1 && vv_is_ours(region))
        return vv_error(&session->error, -EINVAL,
                        "region %s: names that begin with " VV_ABOUT " or " VV_HEAP
                        " are the library's own: choose another",
                        region);
    if (length >= 1 && length <= VV_REGION_NAME_MAX)
        return 0;
    return vv_error(&session->error, -EINVAL, "a region's name has 1 to %d bytes, and this one %zu: choose another",
                    VV_REGION_NAME_MAX, length);
}

/* A program built with an older, shorter struct gives fewer fields; the rest are defaults. A longer one asks for what
 * we do not know. */
static int take_options(const struct varve_options *given, struct varve_options *out, struct varve_error *error) {
    memset(out, 0, sizeof *out);
    if (!given)
        return 0;
    if (given->size < sizeof given->size || given->size > sizeof *out)
        return vv_error(error, -EINVAL, "varve_options has size %zu: initialise it with VARVE_OPTIONS_INIT",
                        given->size);
    memcpy(out, given, given->size);
    return 0;
}

/* What a rank can say before it talks to the others. */
static int take_arguments(const char *store, const char *name, const struct varve_options *options,
                          struct varve_session **out, struct varve_options *given, struct vv_settings *settings,
                          struct vv_log *log, struct varve_error *error) {
    if (!store || !name || !out)
        return vv_error(error, -EINVAL,
                        "varve_open needs a store, a name and a place for the session, and none of them may be NULL");
    int rc = take_options(options, given, error);
    if (rc)
        return rc;
    *log = (struct vv_log){.level = VV_LOG_WARN, .rank = log->rank, .fn = given->log, .arg = given->log_arg};
    rc = vv_settings_load(settings, given->settings, log, error);
    if (rc)
        return rc;
    *out = vv_calloc(1, sizeof **out);
    return *out ? 0 : vv_error(error, -ENOMEM, "no memory for a session");
}

static int check_comm(const struct varve_comm *comm, struct varve_error *error) {
    const struct varve_comm_ops *ops = comm ? comm->ops : NULL;
    if (ops && ops->size >= sizeof *ops && ops->reduce_min && ops->broadcast && ops->gather && ops->close &&
        comm->rank < comm->ranks)
        return 0;
    return vv_error(error, -EINVAL, "varve_open_comm needs a group with all its operations and a rank below ranks");
}

/* All ranks come back with a session, or none. */
static int open_together(struct varve_comm *comm, const char *store, const char *name,
                         const struct varve_options *options, struct varve_session **out, struct varve_error *error) {
    struct varve_options given = {0};
    struct vv_settings settings;
    struct vv_log log = {.level = VV_LOG_WARN, .rank = comm->ranks > 1 ? (int)comm->rank : -1};
    struct varve_session *session = NULL;
    vv_settings_init(&settings);
    int rc = take_arguments(store, name, options, out ? &session : NULL, &given, &settings, &log, error);
    settings.end_time = vv_end_time(settings.end_time, secure_getenv("SLURM_JOB_END_TIME"));
    vv_heap_settle(&settings);
    rc = vv_comm_agree(comm, rc, error);
    if (rc == 0) /* what is decided together must be decided by the same settings */
        rc = vv_comm_follow(comm, 0, &settings, sizeof settings, VV_COMM_ROOT, error);
    log.level = settings.log;
    if (rc == 0)
        rc = vv_session_open(store, name, &settings, &log, comm, &session->inner, error);
    if (rc) {
        vv_free(session);
        return vv_error_default(error, rc, "%s could not be opened: %s", store ? store : "?", varve_error_text(rc));
    }
    unsigned retries;
    session->is_warned = vv_settings_on_error(&settings, &retries) == VV_ON_ERROR_WARN;
    *out = session;
    return 0;
}

int varve_open_comm(struct varve_comm *comm, const char *store, const char *name, const struct varve_options *options,
                    struct varve_session **out, struct varve_error *error) {
    struct varve_error why;
    vv_error_clear(&why);
    if (out)
        *out = NULL;
    int rc = check_comm(comm, &why);
    if (rc == 0 && (rc = open_together(comm, store, name, options, out, &why)) < 0)
        comm->ops->close(comm);
    if (rc == 0)
        vv_error_clear(&why); /* of looks that did not find something at once */
    if (error)
        *error = why;
    return rc;
}

int varve_open(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
               struct varve_error *error) {
    return varve_open_comm(&vv_comm_single, store, name, options, out, error);
}

int varve_close(struct varve_session *session) {
    if (!session)
        return 0;
    struct varve_comm *comm = session->inner->job.given;
    vv_session_restart_abandon(session->inner);
    session->inner->background.is_closing = 1;
    int rc = varve_wait(session);
    vv_session_close(session->inner);
    vv_free(session);
    comm->ops->close(comm);
    return rc;
}

const struct varve_error *varve_session_error(const struct varve_session *session) {
    static const struct varve_error no_session = {-EINVAL, -1, "there is no session: look at what varve_open returned"};
    return session ? &session->error : &no_session;
}

/* ---- regions ---- */

static int protect(struct varve_session *session, const char *name, void *ptr, size_t size, unsigned flags) {
    int rc = check_region_name(session, name);
    if (rc)
        return rc;
    if (!ptr && size > 0)
        return vv_error(&session->error, -EINVAL,
                        "region %s: its address is NULL, and it has %zu bytes: check the allocation", name, size);
    rc = vv_region_flags_check(name, flags, &session->error);
    if (rc)
        return rc;
    rc = vv_session_protect(session->inner, name, ptr, size, flags);
    return rc ? vv_error(&session->error, rc, "no memory to protect region %s", name) : 0;
}

int varve_protect_flags(struct varve_session *session, const char *name, void *ptr, size_t size, unsigned flags) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    return end(session, protect(session, name, ptr, size, flags));
}

int varve_protect(struct varve_session *session, const char *name, void *ptr, size_t size) {
    int rc = begin(session, __func__);
    return rc ? rc : end(session, protect(session, name, ptr, size, 0));
}

int varve_protect_array(struct varve_session *session, const char *name, void *ptr, const struct varve_array *array) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    if (rc == 0)
        rc = vv_array_check(array, name, &session->error);
    if (rc == 0)
        rc = protect(session, name, ptr, vv_array_bytes(array), array->flags);
    if (rc == 0 && (rc = vv_session_describe(session->inner, name, array)) < 0)
        vv_error(&session->error, rc, "no memory to protect region %s", name);
    return end(session, rc);
}

int varve_describe(struct varve_session *session, const char *name, const struct varve_array *array) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    if (rc == 0 && array)
        rc = vv_array_check(array, name, &session->error);
    if (rc == 0 && (rc = vv_session_describe(session->inner, name, array)) < 0)
        vv_error(&session->error, rc,
                 rc == -ENOENT    ? "no region %s is protected: protect it before varve_describe"
                 : rc == -ENOTSUP ? "region %s lies in a device's memory: a bound cannot be applied there"
                                  : "no memory to describe region %s",
                 name);
    return end(session, rc);
}

int varve_fine(struct varve_session *session, const char *name, uint32_t chunk) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    if (rc == 0 && !vv_settings_is_fine(chunk))
        rc = vv_error(&session->error, -EINVAL,
                      "region %s: %u is no size of fine chunks: 0, 1, or a power of two from 32 to 4096", name, chunk);
    if (rc == 0 && (rc = vv_session_fine(session->inner, name, chunk)) < 0)
        vv_error(&session->error, rc,
                 rc == -ENOENT ? "no region %s is protected: protect it before varve_fine"
                               : "region %s lies in a device's memory, which is always looked at finely",
                 name);
    return end(session, rc);
}

int varve_distribute(struct varve_session *session, const char *name, enum varve_distribution how) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    if (rc == 0 && (unsigned)how > VARVE_DROPPED)
        rc = vv_error(&session->error, -EINVAL, "region %s: %d is no distribution: give one of enum varve_distribution",
                      name, (int)how);
    if (rc == 0 && (rc = vv_session_distribute(session->inner, name, how)) < 0)
        vv_error(&session->error, rc, "no region %s is protected: protect it before varve_distribute", name);
    return end(session, rc);
}

int varve_attribute(struct varve_session *session, const char *name, const char *value) {
    int rc = begin(session, __func__);
    return rc ? rc : end(session, vv_session_attribute(session->inner, name, value, &session->error));
}

/* A program built before there were flags gives a struct without them. */
static int take_callbacks(struct varve_session *session, const char *name, const struct varve_callbacks *given,
                          struct varve_callbacks *out) {
    memset(out, 0, sizeof *out);
    if (given && given->size >= offsetof(struct varve_callbacks, flags))
        memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (!out->length || !out->save || !out->load)
        return vv_error(&session->error, -EINVAL, "region %s: give all three callbacks: length, save and load", name);
    if (out->flags & ~VARVE_LARGE)
        return vv_error(&session->error, -EINVAL, "region %s: unknown flags %#x: only VARVE_LARGE is allowed here",
                        name, out->flags);
    return 0;
}

int varve_protect_callback(struct varve_session *session, const char *name, const struct varve_callbacks *callbacks,
                           void *arg) {
    struct varve_callbacks taken;
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    if (rc == 0)
        rc = take_callbacks(session, name, callbacks, &taken);
    if (rc == 0 && (rc = vv_session_protect_callback(session->inner, name, &taken, arg)) < 0)
        vv_error(&session->error, rc, "no memory to protect region %s", name);
    return end(session, rc);
}

int varve_protect_moving(struct varve_session *session, const char *name, varve_memory_fn fn, void *arg) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    if (rc == 0 && !fn)
        rc = vv_error(&session->error, -EINVAL,
                      "region %s: varve_protect_moving needs a function that tells where it is", name);
    if (rc == 0 && (rc = vv_session_protect_moving(session->inner, name, fn, arg)) < 0)
        vv_error(&session->error, rc, "no memory to protect region %s", name);
    return end(session, rc);
}

static int check_device(struct varve_session *session, const char *name, uint64_t bytes, uint32_t chunk,
                        const struct varve_device_ops *ops) {
    if (!ops || ops->size != sizeof *ops || !ops->name || !ops->compare || !ops->settle || !ops->write ||
        !ops->restored || !ops->leave)
        return vv_error(&session->error, -EINVAL, "region %s: a device needs all its functions", name);
    if (bytes == 0)
        return vv_error(&session->error, -EINVAL, "region %s: a device's region cannot be empty", name);
    if (chunk == 1 || !vv_settings_is_fine(chunk))
        return vv_error(&session->error, -EINVAL,
                        "region %s: %u is no size of chunks on a device: 0, or a power of two from 32 to 4096", name,
                        chunk);
    return 0;
}

int varve_protect_device(struct varve_session *session, const char *name, uint64_t bytes, uint32_t chunk,
                         const struct varve_device_ops *ops, void *arg) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    if (rc == 0)
        rc = check_device(session, name, bytes, chunk, ops);
    if (rc == 0 && (rc = vv_session_protect_device(session->inner, name, bytes, chunk, ops, arg)) < 0)
        vv_error(&session->error, rc, "no memory to protect region %s", name);
    return end(session, rc);
}

int varve_device_error(struct varve_session *session, int code, const char *text) {
    int rc = begin(session, NULL);
    if (rc)
        return rc;
    return end(session, vv_error(&session->error, code, "%s", text));
}

void *varve_alloc(struct varve_session *session, const char *name, size_t size) {
    if (begin(session, __func__) != 0)
        return NULL;
    void *ptr = vv_regions_map(&session->inner->memory.regions, size);
    if (!ptr) {
        end(session,
            vv_error(&session->error, -ENOMEM, "no memory: region %s wants %zu bytes", name ? name : "?", size));
        return NULL;
    }
    if (varve_protect(session, name, ptr, size) == 0)
        return ptr;
    vv_regions_unmap(&session->inner->memory.regions, ptr);
    return NULL;
}

/* It has no way to say no: while a restart may still write there, the memory is kept until varve_close. */
void varve_free(struct varve_session *session, void *ptr) {
    if (!session || !ptr)
        return;
    if (!session->inner->under_way.begun)
        vv_session_free(session->inner, ptr);
    else if (begin(session, __func__) != 0)
        vv_log(&session->inner->job.log, VV_LOG_ERROR, "%s", session->error.text);
}

int varve_unprotect(struct varve_session *session, const char *name) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    if (rc)
        return end(session, rc);
    rc = vv_session_unprotect(session->inner, name);
    return end(session, rc ? vv_error(&session->error, rc,
                                      "no region %s is protected, so nothing was unprotected: check the name", name)
                           : 0);
}

/* ---- saving ---- */

int varve_checkpoint(struct varve_session *session, int64_t version) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    uint64_t last_ns = session->inner->request.begun_ns;
    vv_session_note_cost(session->inner);
    rc = vv_session_checkpoint(session->inner, version, &session->error);
    if (rc && session->is_warned && session->inner->request.begun_ns != last_ns) { /* it was begun */
        if (vv_comm_is_root(session->inner->job.comm))
            vv_log(&session->inner->job.log, VV_LOG_WARN, "checkpoint %lld failed on rank %d, the program goes on: %s",
                   (long long)version, session->error.rank, session->error.text);
        return 0;
    }
    return end(session, rc);
}

int varve_wait(struct varve_session *session) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    return end(session, vv_session_wait(session->inner, &session->error));
}

/* Another thread may wait or test meanwhile: what the last call said stays as it is. */
int varve_release(struct varve_session *session) {
    if (!session)
        return -EINVAL;
    vv_background_release(session->inner);
    return 0;
}

int varve_test(struct varve_session *session) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    return end(session, vv_session_test(session->inner, &session->error));
}

int varve_need(struct varve_session *session) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    return end(session, vv_session_is_due(session->inner, &session->error));
}

int varve_should_exit(struct varve_session *session) {
    int rc = begin(session, __func__);
    return rc ? rc : vv_session_should_exit(session->inner);
}

double varve_time_left(const struct varve_session *session) {
    return session ? vv_session_time_left(session->inner) : INFINITY;
}

double varve_best_interval(double cost_seconds, double mtbf_seconds) {
    return vv_interval_best(cost_seconds, mtbf_seconds);
}

/* ---- coming back ---- */

int varve_restart_regions(struct varve_session *session, int64_t version, const char *const *regions, size_t count,
                          unsigned flags, int64_t *version_out) {
    struct vv_restart_options options = {
        .version = version, .regions = regions, .region_count = regions ? count : 0, .flags = flags};
    int rc = begin(session, __func__);
    return rc ? rc : end(session, vv_session_restart(session->inner, &options, version_out, &session->error));
}

int varve_restart(struct varve_session *session, int64_t version, int64_t *version_out) {
    struct vv_restart_options options = {.version = version};
    int rc = begin(session, __func__);
    return rc ? rc : end(session, vv_session_restart(session->inner, &options, version_out, &session->error));
}

int varve_restart_begin(struct varve_session *session, int64_t version, int64_t *version_out) {
    struct vv_restart_options options = {.version = version};
    int rc = begin(session, __func__);
    return rc ? rc : end(session, vv_session_restart_begin(session->inner, &options, version_out, &session->error));
}

int varve_restart_wait(struct varve_session *session, const char *name) {
    int rc = begin(session, NULL);
    if (rc)
        return rc;
    rc = check_region_name(session, name);
    return end(session, rc ? rc : vv_session_restart_wait(session->inner, name, &session->error));
}

int varve_restart_end(struct varve_session *session) {
    int rc = begin(session, NULL);
    return rc ? rc : end(session, vv_session_restart_end(session->inner, &session->error));
}

int varve_restart_alloc(struct varve_session *session, int64_t version, const struct varve_allocator *allocator,
                        void *arg, int64_t *version_out) {
    struct vv_restart_options options = {.version = version, .is_allocating = 1, .allocator = allocator, .arg = arg};
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    return end(session, vv_session_restart(session->inner, &options, version_out, &session->error));
}

int varve_continue(struct varve_session *session, int64_t version, int64_t *version_out) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    return end(session, vv_session_continue(session->inner, version, version_out, &session->error));
}

int varve_reject(struct varve_session *session, int64_t version) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    return end(session, vv_session_reject(session->inner, version, &session->error));
}

int varve_stored(struct varve_session *session, int64_t version, varve_region_fn fn, void *arg, int64_t *version_out) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    return end(session, vv_session_stored(session->inner, version, fn, arg, version_out, &session->error));
}

int varve_stats_get(struct varve_session *session, struct varve_stats *stats) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    if (!stats || stats->size < sizeof(size_t) || stats->size > sizeof *stats)
        return end(session, vv_error(&session->error, -EINVAL, "set stats->size to sizeof(struct varve_stats)"));
    struct vv_details all;
    vv_session_stats(session->inner, &all);
    struct varve_stats told = {.size = stats->size,
                               .version = all.version,
                               .result = all.result,
                               .seconds_blocked = all.seconds_blocked,
                               .seconds_durable = all.seconds_durable,
                               .bytes_protected = all.bytes_protected,
                               .bytes_changed = all.bytes_changed,
                               .bytes_stored = all.bytes_stored};
    memcpy(stats, &told, stats->size);
    return 0;
}

#define NUMBER(member) .value = (double)all.member
#define STAT_WIDE(member) NUMBER(member)
#define STAT_SHORT(member) NUMBER(member)
#define STAT_REAL(member) NUMBER(member)
#define STAT_TEXT(member) .text = all.member
#define STAT(kind, member, unit_) {.name = #member, .unit = unit_, STAT_##kind(member)},

int varve_stats_each(struct varve_session *session, varve_stat_fn fn, void *arg) {
    int rc = begin(session, __func__);
    if (rc)
        return rc;
    if (!fn)
        return end(session, vv_error(&session->error, -EINVAL, "varve_stats_each needs a function"));
    struct vv_details all;
    vv_session_stats(session->inner, &all);
    const struct varve_stat list[] = {VV_DETAILS_TABLE(STAT)};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        fn(arg, &list[i]);
    return 0;
}
