/* A program of one process with two stores, and what it hears from the log; and a job that restarts from them.
 * TIERS_TO=ADDRESS takes another storage than files for the second store, with a prefix of its own each time. */
#ifndef TIERED_H
#define TIERED_H

#include <pthread.h>

#include "copied.h"
#include "details.h"

#define TIERED_BYTES (4u << 20)
#define TIERED_ALWAYS "block_size=64K,part_size=1M,codec=none," /* what is written can be stopped at many places */

static char folder[64], first[120], second[160];
static uint8_t memory[TIERED_BYTES];
static char heard[1 << 16]; /* all lines of the log */

static inline void tiered_hear(void *arg, int level, const char *line) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)arg, (void)level;
    pthread_mutex_lock(&lock);
    size_t used = strlen(heard);
    snprintf(heard + used, sizeof heard - used, "%s\n", line);
    pthread_mutex_unlock(&lock);
}

static inline void tiered_fill(uint8_t *bytes, size_t size, int step) {
    uint64_t state = 4711 + (uint64_t)step;
    for (size_t i = 0; i < size; i += 8) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        memcpy(bytes + i, &state, 8);
    }
}

static inline int tiered_try_open(const char *settings, struct varve_session **session, struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    options.settings = settings;
    options.log = tiered_hear;
    *session = NULL;
    int rc = varve_open(first, "job", &options, session, error);
    return rc ? rc : varve_protect(*session, "memory", memory, sizeof memory);
}

/* format: settings; %s in them is the address of the second store. */
static inline struct varve_session *tiered_open(const char *format, ...) {
    struct varve_session *session;
    struct varve_error error = {.text = ""};
    char settings[512];
    va_list args;
    va_start(args, format);
    vsnprintf(settings, sizeof settings, format, args);
    va_end(args);
    heard[0] = '\0';
    if (tiered_try_open(settings, &session, &error) != 0)
        fail_msg("open with %s: %s", settings, error.text);
    return session;
}

static inline void tiered_save(struct varve_session *session, int step) {
    tiered_fill(memory, sizeof memory, step);
    if (varve_checkpoint(session, step) != 0 || varve_wait(session) != 0)
        fail_msg("checkpoint %d: %s", step, varve_session_error(session)->text);
}

static inline int tiered_take(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    if (total != TIERED_BYTES)
        return -EINVAL;
    memcpy((uint8_t *)arg + offset, data, size);
    return 0;
}

/* Does this store have it, with the bytes of this step? All bytes are read and checked. */
static inline int tiered_has(const char *address, int version, int step) {
    static uint8_t wanted[TIERED_BYTES], found[TIERED_BYTES];
    struct varve_which which = {.name = "job", .version = version};
    struct varve_store *tool = NULL;
    struct varve_error error = {.text = ""};
    int rc = varve_store_open(address, COPIED_SETTINGS, &tool, &error);
    if (rc == 0)
        rc = varve_store_read(tool, &which, 0, "memory", 0, tiered_take, found, &error);
    varve_store_close(tool);
    if (rc == VARVE_NO_STORE || rc == VARVE_NO_CHECKPOINT)
        return 0;
    if (rc < 0)
        fail_msg("version %d in %s: %s", version, address, error.text);
    tiered_fill(wanted, sizeof wanted, step);
    return memcmp(wanted, found, sizeof found) == 0;
}

/* The newest version comes back with the bytes of this step. */
static inline void tiered_restart(struct varve_session *session, int version, int step) {
    static uint8_t wanted[TIERED_BYTES];
    int64_t found = -1;
    memset(memory, 1, sizeof memory);
    if (varve_restart(session, VARVE_LATEST, &found) != 0)
        fail_msg("restart: %s", varve_session_error(session)->text);
    assert_int_equal(found, version);
    tiered_fill(wanted, sizeof wanted, step);
    assert_memory_equal(memory, wanted, sizeof memory);
}

/* What a rank finds, and whether it came back from a further tier. */
struct tiered_job {
    const char *settings;
    int version, is_back;
};

/* All ranks restart from the newest checkpoint, and save the next one. */
static inline void tiered_rank(struct varve_comm *comm, void *arg) {
    static struct copied_memory found, wanted;
    const struct tiered_job *job = arg;
    int64_t version = -1;
    for (int step = 0; step <= job->version; step++)
        copied_change(&wanted, comm->rank, step);
    struct varve_session *session = copied_open(comm, first, job->settings, &found);
    if (varve_restart(session, VARVE_LATEST, &version) != 0 || version != job->version)
        group_fail(comm, "restart of %d: %s", (int)version, varve_session_error(session)->text);
    if (memcmp(wanted.own, found.own, sizeof found.own) != 0 ||
        memcmp(wanted.common, found.common, sizeof found.common) != 0 ||
        memcmp(wanted.field, found.field, sizeof found.field) != 0 ||
        memcmp(wanted.pattern, found.pattern, sizeof found.pattern) != 0)
        group_fail(comm, "what came back is something else");
    struct vv_details all;
    if (vv_details_get(session, &all) != 0 || all.tiers_back != (uint64_t)(job->is_back && comm->rank == 0))
        group_fail(comm, "%d came back", (int)all.tiers_back);
    copied_change(&found, comm->rank, job->version + 1);
    if (varve_checkpoint(session, job->version + 1) != 0 || varve_wait(session) != 0)
        group_fail(comm, "checkpoint: %s", varve_session_error(session)->text);
    varve_close(session);
}

/* The second store is gone, or it is another one. */
static inline void tiered_lose_second(void) {
    static unsigned count;
    const char *to = getenv("TIERS_TO");
    if (to)
        snprintf(second, sizeof second, "%s/%d-%u", to, (int)getpid(), count++);
    else
        folder_remove(second);
}

static inline int tiered_setup(void **state) {
    (void)state;
    if (folder_make(NULL, "test-tiers", folder, sizeof folder) != 0)
        return -1;
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    tiered_lose_second();
    return 0;
}

static inline int tiered_teardown(void **state) {
    (void)state;
    folder_remove(folder);
    return 0;
}

static inline void tiered_clear(void) {
    folder_remove(first);
    tiered_lose_second();
}

#endif
