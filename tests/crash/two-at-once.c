/* Several processes on one name at the same time. Whatever any of them was promised stays restorable, a reader never
 * gets a wrong byte, and a session that was declared dead learns it.
 *
 * Kinds of rounds: "beside": a session saves while others forget, prune and read. "second": two sessions open at once,
 * one gets the name; it is killed, the next one takes over. "stopped": a session stands still (SIGSTOP) past its
 * heartbeat, another takes over, then the first goes on. "late": a prune sleeps between two of its steps, while a
 * session adopts what the prune takes for waste, goes on from it, and it is forgotten. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/fault.h"
#include "campaign.h"
#include "details.h"
#include "world.h"

#define NAME "shared"
#define GENERATIONS 8
#define VERSIONS 400
#define WINDOW_MS 400
#define LATE_VERSION 5 /* what is adopted and forgotten */

/* In memory that all processes of a round share. */
struct board {
    atomic_int saved[GENERATIONS][VERSIONS]; /* varve_wait returned 0 */
    atomic_int forgetting[VERSIONS];         /* somebody is trying to forget it: how many */
    atomic_int forgotten[VERSIONS];
    atomic_int generations; /* sessions opened */
    atomic_int newest;      /* saved by anybody */
    atomic_int is_over;     /* helpers shall end */
    atomic_int reads;
    atomic_int is_at_window; /* the first session is about to be met at the chosen fault point */
};

struct round {
    struct campaign *campaign;
    struct board *board;
    char folder[FOLDER_CAPACITY + 16];
    char text[128];
    int is_keeping;
};

struct writer {
    struct round *round;
    int takeover_seconds;
    int count;    /* versions to save; 0: until something happens */
    int may_lose; /* this one may be fenced, or find the name taken */
    unsigned pause_us;
    const char *window;     /* a fault point where it sleeps, once, so that it can be stopped there; or NULL */
    int64_t window_version; /* while it saves this version */
    int is_killed_there;    /* killed, not stopped */
};

enum { WRITER_DONE = 0, WRITER_BUSY = 3, WRITER_FENCED = 4 };

static void note_line(void *arg, int level, const char *line) {
    (void)arg;
    if (getenv("CRASH_LOG"))
        fprintf(stderr, "%d [%d] %s\n", (int)getpid(), level, line);
}

/* Who did what in this round, for people who look for the reason of a failure. */
static void note(const struct round *round, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const struct round *round, const char *format, ...) {
    char path[FOLDER_CAPACITY + 32], text[600];
    struct timespec now;
    va_list list;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int used = snprintf(text, sizeof text, "%ld.%06ld %d ", (long)now.tv_sec, now.tv_nsec / 1000, (int)getpid());
    va_start(list, format);
    used += vsnprintf(text + used, sizeof text - (size_t)used - 1, format, list);
    va_end(list);
    if (used > (int)sizeof text - 2)
        used = sizeof text - 2;
    text[used++] = '\n';
    snprintf(path, sizeof path, "%s/actions", round->campaign->folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, (size_t)used) != used)
        child_fail("cannot write %s", path);
    close(fd);
}

static int may_be_gone(struct board *board, int64_t version) {
    return atomic_load(&board->forgetting[version]) || atomic_load(&board->forgotten[version]);
}

static int is_saved(struct board *board, int64_t version) {
    for (int generation = 1; generation < GENERATIONS; generation++)
        if (atomic_load(&board->saved[generation][version]))
            return 1;
    return 0;
}

/* ---- a session ---- */

static struct varve_session *open_session(const struct writer *writer) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    char settings[160], pid[32];
    snprintf(settings, sizeof settings, "threads=0,beat_seconds=1,dead_seconds=2,takeover_seconds=%d,log=warn%s",
             writer->takeover_seconds, writer->round->is_keeping ? ",keep=3" : ",keep=all");
    options.settings = settings;
    options.log = note_line;
    int rc = varve_open(writer->round->folder, NAME, &options, &session, &error);
    if (rc == VARVE_BUSY && writer->may_lose) {
        snprintf(pid, sizeof pid, "process %d", (int)getpid());
        if (!strstr(error.text, "process ") || strstr(error.text, pid))
            child_fail("BUSY, but the text does not name the other one: %s", error.text);
        _exit(WRITER_BUSY);
    }
    if (rc < 0)
        child_fail("open: %s: %s", varve_error_name(rc), error.text);
    return session;
}

/* Restart if there is anything; returns the version, or 0. */
static int64_t come_back(struct writer *writer, struct world *world) {
    char text[256];
    int64_t announced = 0, got = 0;
    int tries = 0;
    int newest = atomic_load(&writer->round->board->newest);
    int rc;
    do {
        rc = varve_stored(world->session, VARVE_LATEST, NULL, NULL, &announced);
        if (rc == 0)
            rc = world_garbage(world, announced);
        if (rc == 0)
            rc = varve_restart(world->session, VARVE_LATEST, &got);
        /* What was announced may be forgotten before it is read, or meanwhile, and the older one has other sizes. */
    } while ((rc == VARVE_MISMATCH || rc == VARVE_CORRUPT) && announced > 0 &&
             may_be_gone(writer->round->board, announced) && ++tries < 50);
    if (rc < 0 && rc != VARVE_NO_CHECKPOINT)
        child_fail("restart: %s: %s", varve_error_name(rc), varve_session_error(world->session)->text);
    if (rc == 0 && world_compare(world, got, text, sizeof text) < 0)
        child_fail("WRONG BYTES: %s", text);
    for (int64_t version = newest; version > got && version > newest - 2; version--)
        if (is_saved(writer->round->board, version) && !may_be_gone(writer->round->board, version))
            child_fail("version %" PRId64 " was saved, but %" PRId64 " came back", version, got);
    return got > newest ? got : newest; /* versions are not used twice, so that the board is right */
}

/* The session was told that it is over: it must stay so, and say so. */
static void check_fenced(struct world *world, int64_t version, int rc) {
    const struct varve_error *error = varve_session_error(world->session);
    if (rc != VARVE_FENCED && rc != VARVE_FORGOTTEN)
        child_fail("a session that was declared dead got %s: %s", varve_error_name(rc), error->text);
    rc = varve_checkpoint(world->session, version + 1);
    if (rc == 0)
        rc = varve_wait(world->session);
    error = varve_session_error(world->session);
    if (rc != VARVE_FENCED || strlen(error->text) < 20)
        child_fail("a session that was declared dead goes on with %s: %s", varve_error_name(rc), error->text);
    rc = varve_close(world->session);
    if (rc != VARVE_FENCED)
        child_fail("closing a session that was declared dead gives %s", varve_error_name(rc));
    _exit(WRITER_FENCED);
}

static void save(struct writer *writer, struct world *world, int generation, int64_t version, int is_first) {
    struct board *board = writer->round->board;
    struct vv_details stats = {0};
    int rc = world_set(world, version);
    if (rc < 0)
        child_fail("protect: %s", varve_session_error(world->session)->text);
    if (writer->window && version == writer->window_version) {
        char point[128];
        if (writer->is_killed_there)
            snprintf(point, sizeof point, "%s=kill", writer->window);
        else
            snprintf(point, sizeof point, "%s=sleep:%d", writer->window, WINDOW_MS);
        vv_fault_set(point);
        atomic_store(&board->is_at_window, 1);
    }
    rc = varve_checkpoint(world->session, version);
    if (rc == 0)
        rc = varve_wait(world->session);
    vv_fault_set(NULL);
    if (rc < 0 && writer->may_lose)
        check_fenced(world, version, rc);
    if (rc < 0)
        child_fail("checkpoint %" PRId64 ": %s: %s", version, varve_error_name(rc),
                   varve_session_error(world->session)->text);
    /* Only what is restarted from may be forgotten at the last moment; what a session has saved, its heartbeat
     * protects. */
    if (vv_details_get(world->session, &stats) < 0 || (stats.attempts > 1 && !is_first))
        child_fail("checkpoint %" PRId64 " took %" PRIu64 " attempts: its parent was forgotten", version,
                   stats.attempts);
    atomic_store(&board->saved[generation][version], 1);
    note(writer->round, "saved generation %d version %" PRId64 ", attempts %" PRIu64, generation, version,
         stats.attempts);
    if (atomic_load(&board->newest) < version) /* one session at a time is not fenced */
        atomic_store(&board->newest, (int)version);
}

static void write_versions(void *arg) {
    struct writer *writer = arg;
    struct world world = {.is_small = 1};
    world.session = open_session(writer);
    int generation = atomic_fetch_add(&writer->round->board->generations, 1) + 1;
    note(writer->round, "opened generation %d", generation);
    if (generation >= GENERATIONS)
        child_fail("too many sessions");
    int64_t version = come_back(writer, &world);
    for (int i = 0; writer->count == 0 || i < writer->count; i++) {
        if (++version >= VERSIONS)
            break;
        save(writer, &world, generation, version, i == 0);
        if (writer->pause_us)
            usleep(writer->pause_us);
    }
    int rc = varve_close(world.session);
    if (rc < 0)
        child_fail("close: %s", varve_error_name(rc));
    world_clear(&world);
}

/* ---- beside it ---- */

static struct varve_store *open_store(const struct round *round) {
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    int rc = varve_store_open(round->folder, "threads=0,log=error", &store, &error);
    if (rc < 0 && rc != VARVE_NO_STORE)
        child_fail("look: %s: %s", varve_error_name(rc), error.text);
    return rc < 0 ? NULL : store;
}

static void note_removal(void *arg, const char *key, uint64_t bytes, const char *text) {
    (void)bytes;
    (void)text;
    note(arg, "removes %s", key);
}

/* Forget one of the newest, unless keep=3 forgets already, and prune. */
static void clean_up(void *arg) {
    struct round *round = arg;
    struct board *board = round->board;
    struct varve_prune_result result;
    struct varve_error error;
    uint64_t chance = round->campaign->random ^ (uint64_t)getpid();
    while (!atomic_load(&board->is_over)) {
        struct varve_store *store = open_store(round);
        if (!store) {
            usleep(1000);
            continue;
        }
        int newest = atomic_load(&board->newest);
        chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407u;
        int version = newest - (int)((chance >> 40) % 4);
        if (!round->is_keeping && version > 0 && !atomic_load(&board->is_over)) {
            struct varve_which which = {NAME, 0, version};
            /* It may be the newest: a session refers to it and BUSY is the answer. */
            atomic_fetch_add(&board->forgetting[version], 1);
            note(round, "forgets version %d", version);
            int rc = varve_store_forget(store, &which, &error);
            note(round, "version %d: %s", version, rc == 0 ? "forgotten" : varve_error_name(rc));
            if (rc == 0)
                atomic_store(&board->forgotten[version], 1);
            atomic_fetch_sub(&board->forgetting[version], 1);
            if (rc < 0 && rc != VARVE_BUSY && rc != VARVE_FORGOTTEN && rc != VARVE_NO_CHECKPOINT)
                child_fail("forget: %s: %s", varve_error_name(rc), error.text);
        }
        note(round, "prunes");
        int rc = varve_store_prune(store, NAME, 0, note_removal, round, &result, &error);
        note(round, "pruned");
        if (rc < 0 && rc != VARVE_NO_CHECKPOINT) /* the first session has not claimed the name yet */
            child_fail("prune: %s: %s", varve_error_name(rc), error.text);
        varve_store_close(store);
    }
}

struct reading {
    uint8_t *data;
    uint64_t capacity, size;
};

static int take_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct reading *reading = arg;
    if (total > reading->capacity || offset > total || size > total - offset)
        return -ERANGE;
    memcpy(reading->data + offset, data, size);
    reading->size = total;
    return 0;
}

/* Read all regions of a checkpoint and compare; 0, or the error that reading gave. */
static int read_all(struct varve_store *store, const struct varve_which *which, struct varve_error *error) {
    struct world world = {.is_small = 1};
    struct reading reading = {.capacity = 1 << 20};
    uint8_t *wanted = malloc(reading.capacity);
    reading.data = malloc(reading.capacity);
    int rc = 0;
    for (int region = 0; region < WORLD_REGIONS && rc == 0; region++) {
        int64_t size = world_size(&world, region, which->version);
        if (size < 0)
            continue;
        rc = varve_store_read(store, which, 0, world_name(region), 0, take_bytes, &reading, error);
        if (rc < 0)
            break;
        world_fill(&world, region, which->version, wanted);
        if (reading.size != (uint64_t)size || memcmp(wanted, reading.data, (size_t)size) != 0)
            child_fail("WRONG BYTES were read: generation %u, version %" PRId64 ", region %s", which->generation,
                       which->version, world_name(region));
    }
    free(reading.data);
    free(wanted);
    return rc;
}

static void read_newest(void *arg) {
    const struct round *round = arg;
    struct board *board = round->board;
    while (!atomic_load(&board->is_over)) {
        struct varve_which which = {NAME, 0, -1};
        struct varve_error error = {0};
        struct varve_store *store = open_store(round);
        if (!store) {
            usleep(1000);
            continue;
        }
        int newest = atomic_load(&board->newest);
        int rc = varve_store_resolve(store, &which, &error);
        if (rc == 0 && which.version < newest && !round->is_keeping && !may_be_gone(board, newest))
            child_fail("the newest is %d, but %" PRId64 " was offered", newest, which.version);
        if (rc == 0)
            rc = read_all(store, &which, &error);
        else if (rc == VARVE_NO_CHECKPOINT && (newest == 0 || may_be_gone(board, newest)))
            rc = 0;
        /* It may have been forgotten while we read, but nothing else. */
        int is_excused = which.version > 0 && (may_be_gone(board, which.version) ||
                                               (round->is_keeping && which.version < atomic_load(&board->newest)));
        if (rc < 0 && !(is_excused && (rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT)))
            child_fail("reading generation %u, version %" PRId64 ": %s: %s", which.generation, which.version,
                       varve_error_name(rc), error.text);
        atomic_fetch_add(&board->reads, rc == 0);
        varve_store_close(store);
    }
}

/* ---- afterwards ---- */

static void take_finding(void *arg, int level, const char *key, const char *text) {
    (void)arg;
    if (level < 2)
        fprintf(stderr, "%s: %s\n", key, text);
}

static void check_store(void *arg) {
    struct round *round = arg;
    struct board *board = round->board;
    struct varve_verify_options options = {.size = sizeof options, .finding = take_finding};
    struct varve_verify_result result = {0};
    struct varve_error error = {0};
    struct writer writer = {.round = round, .takeover_seconds = 10, .count = 1};
    write_versions(&writer); /* adopts, restarts and saves one more */
    struct varve_store *store = open_store(round);
    int newest = atomic_load(&board->newest), kept = 0;
    for (int generation = GENERATIONS - 1; generation > 0; generation--)
        for (int version = VERSIONS - 1; version > 0; version--) {
            if (!atomic_load(&board->saved[generation][version]) || may_be_gone(board, version))
                continue;
            if (round->is_keeping && ++kept > 2)
                continue;
            struct varve_which which = {NAME, (uint32_t)generation, version};
            int rc = read_all(store, &which, &error);
            if (rc < 0)
                child_fail("LOST: generation %d, version %d of %d: %s: %s", generation, version, newest,
                           varve_error_name(rc), error.text);
        }
    int rc = varve_store_verify(store, &options, &result, &error);
    if (rc < 0 || result.damaged_objects || result.lost_checkpoints)
        child_fail("verify: %s %s: %" PRIu64 " damaged, %" PRIu64 " lost", varve_error_name(rc), error.text,
                   result.damaged_objects, result.lost_checkpoints);
    varve_store_close(store);
}

static void expect(const struct round *round, const char *who, int status, int wanted) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == wanted)
        return;
    campaign_fail(round->campaign, round->text, "%s ended with %s %d instead of %d", who,
                  WIFSIGNALED(status) ? "signal" : "exit code",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), wanted);
}

/* ---- rounds ---- */

static void start_helpers(struct round *round, pid_t helpers[3]) {
    helpers[0] = child_start(clean_up, round);
    helpers[1] = child_start(read_newest, round);
    helpers[2] = child_start(campaign_random(round->campaign, 2) ? clean_up : read_newest, round);
}

static void end_helpers(struct round *round, const pid_t helpers[3]) {
    atomic_store(&round->board->is_over, 1);
    for (int i = 0; i < 3; i++)
        expect(round, "somebody beside it", child_wait(helpers[i]), 0);
}

/* Wait for the session; meanwhile now one and now another of them stands still for some milliseconds, as on a busy
 * machine. */
static int wait_unevenly(struct round *round, pid_t writer, const pid_t helpers[3]) {
    const pid_t all[4] = {writer, helpers[0], helpers[1], helpers[2]};
    int status = 0;
    for (;;) {
        pid_t chosen = all[campaign_random(round->campaign, 4)];
        kill(chosen, SIGSTOP);
        usleep((useconds_t)campaign_random(round->campaign, 25000));
        kill(chosen, SIGCONT);
        usleep((useconds_t)campaign_random(round->campaign, 3000));
        if (waitpid(writer, &status, WNOHANG) == writer)
            return status;
    }
}

static void round_beside(struct round *round) {
    struct writer writer = {.round = round, .takeover_seconds = 5, .count = 12};
    int is_uneven = campaign_random(round->campaign, 2) > 0, status = 0;
    pid_t helpers[3];
    writer.pause_us = (unsigned)campaign_random(round->campaign, 3) * 3000;
    start_helpers(round, helpers);
    for (int life = 0; life < 2 && status == 0; life++) {
        pid_t pid = child_start(write_versions, &writer);
        status = is_uneven ? wait_unevenly(round, pid, helpers) : child_wait(pid);
    }
    end_helpers(round, helpers);
    expect(round, "the session", status, WRITER_DONE);
}

static void wait_for(const struct round *round, const atomic_int *value, int at_least) {
    for (int i = 0; atomic_load(value) < at_least; i++) {
        if (i > 20000)
            campaign_fail(round->campaign, round->text, "nothing goes on for 20 s");
        usleep(1000);
    }
}

static void round_second(struct round *round) {
    struct writer first = {.round = round, .may_lose = 1}, second = {.round = round, .takeover_seconds = 5, .count = 3};
    pid_t pids[2] = {child_start(write_versions, &first), child_start(write_versions, &first)};
    int status = 0;
    pid_t loser;
    while ((loser = waitpid(-1, &status, 0)) < 0 && errno == EINTR)
        ;
    pid_t winner = loser == pids[0] ? pids[1] : pids[0];
    expect(round, "the slower of two sessions", status, WRITER_BUSY);
    wait_for(round, &round->board->newest, 1 + (int)campaign_random(round->campaign, 4));
    usleep((useconds_t)campaign_random(round->campaign, 8000));
    status = child_run(write_versions, &first, NULL);
    expect(round, "a session on a name in use", status, WRITER_BUSY);
    kill(winner, SIGKILL);
    child_wait(winner);
    expect(round, "the session that takes over", child_run(write_versions, &second, NULL), WRITER_DONE);
}

/* Between its yes and its record a session is most in the way of the one that takes over. */
static const char *const windows[] = {"engine.save.before_commit",  "store.commit.before_claims",
                                      "store.commit.before_parent", "store.writers.before_create",
                                      "store.writers.after_create", "store.record.before_create",
                                      "store.record.after_create",  "store.pack.before_seal"};

static void round_stopped(struct round *round) {
    struct writer first = {.round = round, .takeover_seconds = 5, .may_lose = 1};
    struct writer second = {.round = round, .takeover_seconds = 15, .count = 12, .pause_us = 20000};
    if (campaign_random(round->campaign, 4)) {
        first.window = windows[campaign_random(round->campaign, sizeof windows / sizeof *windows)];
        first.window_version = 1 + (int64_t)campaign_random(round->campaign, 4);
    }
    pid_t helper = 0, stopped = child_start(write_versions, &first);
    if (first.window) {
        wait_for(round, &round->board->is_at_window, 1);
        usleep(WINDOW_MS * 1000 / 4);
    } else {
        wait_for(round, &round->board->newest, 1 + (int)campaign_random(round->campaign, 4));
        usleep((useconds_t)campaign_random(round->campaign, 8000));
    }
    kill(stopped, SIGSTOP);
    if (campaign_random(round->campaign, 4))
        helper = child_start(clean_up, round);
    pid_t next = child_start(write_versions, &second);
    wait_for(round, &round->board->generations, 2);
    usleep((useconds_t)campaign_random(round->campaign, 100000));
    kill(stopped, SIGCONT);
    int status = child_wait(stopped), other = child_wait(next);
    atomic_store(&round->board->is_over, 1);
    if (helper)
        expect(round, "the one that cleans up", child_wait(helper), 0);
    expect(round, "the session that was stopped", status, WRITER_FENCED);
    expect(round, "the session that took over", other, WRITER_DONE);
}

struct late {
    struct round *round;
    const char *point;
};

static void prune_late(void *arg) {
    const struct late *late = arg;
    struct varve_prune_result result;
    struct varve_error error = {0};
    struct varve_store *store = open_store(late->round);
    char point[128];
    snprintf(point, sizeof point, "%s=sleep:%d", late->point, WINDOW_MS);
    vv_fault_set(point);
    note(late->round, "prunes, sleeping at %s", late->point);
    int rc = varve_store_prune(store, NAME, 0, note_removal, late->round, &result, &error);
    note(late->round, "pruned");
    if (rc < 0)
        child_fail("prune: %s: %s", varve_error_name(rc), error.text);
    varve_store_close(store);
}

static void forget_one(void *arg) {
    const struct late *late = arg;
    struct board *board = late->round->board;
    struct varve_which which = {NAME, 0, LATE_VERSION};
    struct varve_error error = {0};
    struct varve_store *store = open_store(late->round);
    atomic_store(&board->forgotten[LATE_VERSION], 1);
    int rc = varve_store_forget(store, &which, &error);
    note(late->round, "version %d: %s", LATE_VERSION, rc == 0 ? "forgotten" : varve_error_name(rc));
    varve_store_close(store);
}

static void round_late(struct round *round) {
    static const char *const deaths[] = {"engine.save.before_commit", "store.commit.before_parent",
                                         "store.writers.before_create", "store.record.before_create"};
    static const char *const sleeps[] = {"store.prune.before_data", "store.prune.before_tombstone",
                                         "store.prune.before_remove", "store.prune.before_tombstone_remove"};
    struct writer first = {.round = round, .window_version = LATE_VERSION, .is_killed_there = 1};
    struct writer second = {.round = round, .takeover_seconds = 5, .count = 3};
    struct late late = {round, sleeps[campaign_random(round->campaign, sizeof sleeps / sizeof *sleeps)]};
    first.window = deaths[campaign_random(round->campaign, sizeof deaths / sizeof *deaths)];
    int status = child_run(write_versions, &first, NULL);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        campaign_fail(round->campaign, round->text, "the first session was to be killed at %s", first.window);
    pid_t pruner = child_start(prune_late, &late);
    usleep(WINDOW_MS * 1000 / 4);
    status = child_run(write_versions, &second, NULL);
    int forgotten = child_run(forget_one, &late, NULL);
    expect(round, "the prune", child_wait(pruner), 0);
    expect(round, "the session that adopts", status, WRITER_DONE);
    expect(round, "the one that forgets", forgotten, 0);
}

static const struct {
    const char *name;
    void (*run)(struct round *round);
} kinds[] = {{"beside", round_beside}, {"second", round_second}, {"stopped", round_stopped}, {"late", round_late}};

static void try_round(struct campaign *campaign, unsigned kind, int is_keeping) {
    struct round round = {.campaign = campaign, .is_keeping = is_keeping};
    snprintf(round.folder, sizeof round.folder, "%s/store", campaign->folder);
    snprintf(round.text, sizeof round.text, "%s,%d", kinds[kind].name, is_keeping);
    round.board = mmap(NULL, sizeof *round.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (round.board == MAP_FAILED)
        campaign_fail(campaign, round.text, "no memory");
    campaign->tried++;
    kinds[kind].run(&round);
    expect(&round, "the check afterwards", child_run(check_store, &round, NULL), 0);
    if (kind == 0 && getenv("CRASH_LOG"))
        fprintf(stderr, "%d reads\n", atomic_load(&round.board->reads));
    munmap(round.board, sizeof *round.board);
    folder_remove(round.folder);
    snprintf(round.folder, sizeof round.folder, "%s/actions", campaign->folder);
    unlink(round.folder);
}

/* Chance decides what the processes do to each other, so a point is tried many times when it is replayed. */
static void replay(struct campaign *campaign) {
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        if (!strncmp(campaign->replay, kinds[kind].name, strlen(kinds[kind].name)))
            for (int i = 0; i < 200; i++)
                try_round(campaign, kind, strstr(campaign->replay, ",1") != NULL);
}

int main(int argc, char **argv) {
    struct campaign campaign;
    campaign_begin(&campaign, "two-at-once", argc, argv);
    uint64_t rounds = campaign.points ? campaign.points : 1000;
    if (campaign.replay) {
        replay(&campaign);
        rounds = 0;
    }
    for (uint64_t i = 0; i < rounds; i++) {
        char text[32];
        snprintf(text, sizeof text, "round %" PRIu64, i);
        if (!campaign_takes(&campaign, text))
            continue;
        campaign.random = campaign_hash(&campaign, text); /* the same round in whatever slice */
        uint64_t chance = campaign_random(&campaign, 10);
        unsigned kind = chance < 5 ? 0 : chance < 7 ? 1 : chance < 8 ? 2 : 3; /* "stopped" takes seconds */
        try_round(&campaign, kind, kind == 0 && campaign_random(&campaign, 3) == 0);
    }
    return campaign_end(&campaign);
}
