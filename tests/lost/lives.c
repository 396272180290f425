#include "lives.h"

#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "group.h"
#include "job.h"
#include "test.h"

#define SETTINGS "storage=local,dedup=exact,keep=20,block_size=64K,beat_seconds=1,dead_seconds=2,takeover_seconds=20"

/* What a rank leaves for the test. */
struct told {
    int open_code, restart_code, save_code;
    int64_t version, saved;
    char text[1024];
    char log[8192];
};

static struct told *told; /* LIVES_RANKS of them, shared with the ranks */
static char folder[128];

/* ---- in the ranks ---- */

static void note_line(void *arg, int level, const char *line) {
    struct told *mine = arg;
    size_t used = strlen(mine->log);
    if (getenv("GROUP_LOG"))
        fprintf(stderr, "rank %d [%d] %s\n", (int)(mine - told), level, line);
    if (level <= 1)
        snprintf(mine->log + used, sizeof mine->log - used, "%s\n", line);
}

static void keep_text(struct told *mine, int rc, const struct varve_error *error) {
    if (rc && error)
        snprintf(mine->text, sizeof mine->text, "%s", error->text);
}

static struct varve_session *open_on(const struct life *life, struct varve_comm *comm, struct told *mine) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    char store[256], settings[256];
    snprintf(store, sizeof store, "%s/node%u", folder, life->node_of[comm->rank]);
    snprintf(settings, sizeof settings, SETTINGS ",copies=%d%s%s", life->copies, life->settings ? "," : "",
             life->settings ? life->settings : "");
    options.settings = settings;
    options.log = note_line;
    options.log_arg = mine;
    mine->open_code = varve_open_comm(group_comm(comm), store, "job", &options, &session, &error);
    keep_text(mine, mine->open_code, &error);
    return mine->open_code ? NULL : session;
}

static int come_back(struct lost_job *job, struct varve_comm *comm, struct varve_session *session, struct told *mine) {
    char where[256];
    mine->restart_code = varve_restart(session, VARVE_LATEST, &mine->version);
    keep_text(mine, mine->restart_code, varve_session_error(session));
    if (mine->restart_code == 0 && !lost_job_is(job, mine->version, where, sizeof where))
        group_fail(comm, "%s", where);
    return mine->restart_code;
}

static void *die_later(void *arg) {
    usleep(*(const unsigned *)arg);
    kill(getpid(), SIGKILL);
    return NULL;
}

static int is_sparse(const struct life *life, const struct told *mine) {
    return (int)(life->killed >> life->node_of[mine - told] & 1);
}

static void begin_to_die(const struct life *life, const struct told *mine) {
    pthread_t thread;
    if (life->cut_us && is_sparse(life, mine) &&
        pthread_create(&thread, NULL, die_later, (void *)(uintptr_t)&life->cut_us) != 0)
        abort();
}

static void save(struct lost_job *job, struct varve_session *session, const struct life *life, struct told *mine) {
    for (int64_t version = life->first; version <= life->last && mine->save_code == 0; version++) {
        lost_job_fill(job, version);
        if (version == life->last)
            begin_to_die(life, mine);
        int rc = varve_checkpoint(session, version);
        if (rc == 0 && version > life->first)
            mine->saved = version - 1; /* the call has waited for it */
        if (rc == 0 && (version == life->last || version % 2 == 0)) {
            rc = varve_wait(session);
            mine->saved = rc == 0 ? version : mine->saved;
        }
        keep_text(mine, rc, varve_session_error(session));
        mine->save_code = rc;
    }
}

static void run_rank(struct varve_comm *comm, void *arg) {
    const struct life *life = arg;
    struct told *mine = &told[comm->rank];
    struct lost_job job;
    lost_job_init(&job, comm->rank);
    struct varve_session *session = open_on(life, comm, mine);
    if (session && lost_job_protect(&job, session) != 0)
        group_fail(comm, "protect: %s", varve_session_error(session)->text);
    if (session && (!life->is_back || come_back(&job, comm, session, mine) == 0))
        save(&job, session, life, mine);
    if (is_sparse(life, mine) && session && mine->saved == life->last)
        raise(SIGKILL);
    int rc = session ? varve_close(session) : 0;
    if (rc)
        group_fail(comm, "close: %s", varve_error_name(rc));
    lost_job_clear(&job);
}

/* ---- in the test ---- */

int lives_setup(void **state) {
    (void)state;
    told = group_memory(LIVES_RANKS * sizeof *told);
    return folder_make(NULL, "varve-lost", folder, sizeof folder);
}

int lives_teardown(void **state) {
    (void)state;
    group_memory_free(told, LIVES_RANKS * sizeof *told);
    return folder_remove(folder);
}

int lives_scale(void) {
    const char *percent = getenv("TEST_SCALE");
    return percent && atoi(percent) > 0 && atoi(percent) < 100 ? atoi(percent) : 100;
}

void lives_clean(void) {
    assert_int_equal(folder_remove(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
}

static const char *wanted; /* pattern of whole paths */

static int remove_wanted(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)where;
    return kind == FTW_F && fnmatch(wanted, path, 0) == 0 ? remove(path) : 0;
}

static int damage_wanted(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)where;
    if (kind != FTW_F || fnmatch(wanted, path, 0) != 0)
        return 0;
    FILE *file = fopen(path, "r+e");
    int byte = file && fseek(file, status->st_size / 2, SEEK_SET) == 0 ? fgetc(file) : EOF;
    int rc = byte == EOF || fseek(file, -1, SEEK_CUR) != 0 || fputc(byte ^ 1, file) == EOF;
    return (file && fclose(file) != 0) || rc;
}

void lives_remove(const char *pattern) {
    wanted = pattern;
    assert_int_equal(nftw(folder, remove_wanted, 16, FTW_PHYS), 0);
}

void lives_damage(const char *pattern) {
    wanted = pattern;
    assert_int_equal(nftw(folder, damage_wanted, 16, FTW_PHYS), 0);
}

static uint64_t counted;

static int count_wanted(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)where;
    counted += kind == FTW_F && fnmatch(wanted, path, 0) == 0 ? (uint64_t)status->st_size : 0;
    return 0;
}

uint64_t lives_bytes(const char *pattern) {
    wanted = pattern;
    counted = 0;
    assert_int_equal(nftw(folder, count_wanted, 16, FTW_PHYS), 0);
    return counted;
}

void lose(unsigned nodes, int is_replaced) {
    for (int node = 0; nodes >> node; node++) {
        char path[256];
        snprintf(path, sizeof path, "%s/node%d", folder, node);
        if (!(nodes >> node & 1))
            continue;
        if (access(path, F_OK) != 0 || folder_remove(path) != 0)
            fail_msg("%s: %s", path, strerror(errno));
        if (is_replaced)
            assert_int_equal(mkdir(path, 0700), 0);
    }
}

void place_evenly(struct life *life, uint32_t ranks, unsigned nodes) {
    uint32_t count = (uint32_t)__builtin_popcount(nodes), rank = 0, number = 0;
    life->ranks = ranks;
    for (uint32_t node = 0; nodes >> node; node++)
        if (nodes >> node & 1) {
            number++;
            while (rank < ranks * number / count)
                life->node_of[rank++] = node;
        }
}

unsigned ranks_on(const struct life *life, unsigned nodes) {
    unsigned ranks = 0;
    for (uint32_t rank = 0; rank < life->ranks; rank++)
        ranks |= (nodes >> life->node_of[rank] & 1) << rank;
    return ranks;
}

/* Either all end well, or those are killed that are to be, and the others with them; unless they did not get so far. */
static void check_end(const struct life *life, const struct group_end *end) {
    char text[256];
    group_describe(end, text, sizeof text);
    int is_killed = end->first >= 0 && WIFSIGNALED(end->status[end->first]) &&
                    WTERMSIG(end->status[end->first]) == SIGKILL && life->killed >> life->node_of[end->first] & 1;
    int has_failed = told[0].open_code || told[0].restart_code || told[0].save_code;
    if (life->killed && !has_failed ? !is_killed : end->first >= 0)
        fail_msg("the job did not end as it should: %s: %s", text[0] ? text : "nobody was killed", told[0].text);
}

/* Ranks that were killed may have been so before they had noted what they were told: one that was told most. */
static const struct told *who_was_told(const struct life *life) {
    const struct told *best = &told[0];
    for (uint32_t rank = 1; rank < life->ranks && life->killed; rank++)
        if (told[rank].saved > best->saved || (told[rank].saved == best->saved && told[rank].version > best->version))
            best = &told[rank];
    return best;
}

static void check_same(const struct life *life, const struct told *first) {
    for (uint32_t rank = 1; rank < life->ranks && !life->killed; rank++)
        if (told[rank].open_code != first->open_code || told[rank].restart_code != first->restart_code ||
            told[rank].save_code != first->save_code || told[rank].version != first->version ||
            told[rank].saved != first->saved || strcmp(told[rank].text, first->text) != 0)
            fail_msg("rank 0 was told %d, %d, %d, version %" PRId64 ", saved %" PRId64 ": %s\n"
                     "rank %u: %d, %d, %d, version %" PRId64 ", saved %" PRId64 ": %s",
                     first->open_code, first->restart_code, first->save_code, first->version, first->saved, first->text,
                     rank, told[rank].open_code, told[rank].restart_code, told[rank].save_code, told[rank].version,
                     told[rank].saved, told[rank].text);
}

const struct lived *live(const struct life *life) {
    static struct lived lived;
    struct life copy = *life;
    struct group_options options = {.seconds = 60, .node_of = copy.node_of, .has_second = life->has_second};
    struct group_end end;
    size_t used = 0;
    for (int rank = 0; rank < LIVES_RANKS; rank++)
        told[rank] = (struct told){.version = -1, .saved = -1};
    group_run(life->ranks, run_rank, &copy, &options, &end);
    check_end(life, &end);
    const struct told *first = who_was_told(life);
    check_same(life, first);
    lived = (struct lived){.open_code = first->open_code,
                           .restart_code = first->restart_code,
                           .save_code = first->save_code,
                           .version = first->version,
                           .saved = first->saved};
    memcpy(lived.text, first->text, sizeof lived.text);
    for (uint32_t rank = 0; rank < life->ranks && used < sizeof lived.log; rank++)
        used += (size_t)snprintf(lived.log + used, sizeof lived.log - used, "%s", told[rank].log);
    return &lived;
}
