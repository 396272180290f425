/* The MPI program of the tests in this folder: does what its arguments say, one after the other, and notes what came of
 * it.
 *
 *     field-job LOG STORE ACT...
 *
 * What the memory holds follows from (version, rank) alone, so that any wrong byte is found: 4 KiB pages, of which the
 * even ones are the same on all ranks and some change with each version. Every rank appends its lines to its own file,
 * LOG.RANK: nothing is lost when it is killed. The acts:
 *
 *     size:KIB            memory per rank, besides a few odd bytes (3,072 unless told)
 *     change:PERCENT      pages that change with each version (20 unless told)
 *     store:ADDRESS       another store, for the next open
 *     set:SETTINGS        for the next open
 *     fault:RANK:FAULT    VARVE_FAULT for one rank; before the first open
 *     kill:RANK:VERSION:MS  SIGKILL of a rank so many milliseconds into the checkpoint of that version
 *     open:NAME           line: "open CODE"
 *     save:FIRST-LAST     lines: "begin VERSION", "# MILLISECONDS", "saved VERSION CODE"
 *     more:COUNT          the same for versions after the present one
 *     restart:VERSION     or restart:latest; line: "restart CODE VERSION STEP whole", or "... wrong" with the first
 * wrong byte again               protect the memory's name a second time, elsewhere; line: "again CODE" close line:
 * "close CODE"
 *
 * An error is followed by a line "why RANK TEXT". Ends with 0 when every call succeeded and no byte was wrong, else
 * with 1. */
#include <inttypes.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <varve/varve_mpi.h>

#define PAGE 4096u
#define ODD 100u /* bytes at the end that do not fill a page */

struct job {
    FILE *log;
    int rank;
    char store[1024], settings[256];
    struct varve_session *session;
    uint8_t *memory;
    size_t size;
    unsigned change;
    int64_t step; /* protected too */
    int kill_rank;
    int64_t kill_version;
    double kill_ms;
    int is_failed;
};

static void note(struct job *job, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(job->log, format, list);
    va_end(list);
    fputc('\n', job->log);
    fflush(job->log);
}

static void note_error(struct job *job, int code, const struct varve_error *error) {
    if (code == 0)
        return;
    note(job, "why %d %s", error->rank, error->text);
    job->is_failed = 1;
}

/* ---- the memory ---- */

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int64_t last_change(const struct job *job, uint64_t page, int64_t version) {
    while (version > 0 && mix(page * 1000003 + (uint64_t)version) % 100 >= job->change)
        version--;
    return version;
}

/* A quarter of the bits is random: something is left to do for a codec. */
static void fill_page(const struct job *job, uint64_t page, int64_t version, uint64_t *words) {
    uint64_t owner = page % 2 ? (uint64_t)job->rank + 1 : 0;
    uint64_t seed = mix(page) ^ mix((uint64_t)last_change(job, page, version) << 20) ^ mix(owner << 40);
    for (size_t i = 0; i < PAGE / sizeof *words; i++)
        words[i] = mix(seed + i) & UINT64_C(0xffff);
}

static size_t page_size(const struct job *job, uint64_t page) {
    size_t at = page * PAGE;
    return job->size - at < PAGE ? job->size - at : PAGE;
}

static void fill(struct job *job, int64_t version) {
    uint64_t words[PAGE / sizeof(uint64_t)];
    for (uint64_t page = 0; page * PAGE < job->size; page++) {
        fill_page(job, page, version, words);
        memcpy(job->memory + page * PAGE, words, page_size(job, page));
    }
    job->step = version;
}

/* The offset of the first wrong byte, or -1. */
static int64_t compare(const struct job *job, int64_t version) {
    uint64_t words[PAGE / sizeof(uint64_t)];
    for (uint64_t page = 0; page * PAGE < job->size; page++) {
        const uint8_t *is = job->memory + page * PAGE, *must = (const uint8_t *)words;
        fill_page(job, page, version, words);
        for (size_t i = 0; i < page_size(job, page); i++)
            if (is[i] != must[i])
                return (int64_t)(page * PAGE + i);
    }
    return -1;
}

static void renew_memory(struct job *job) {
    if (job->memory)
        memset(job->memory, 0x5a, job->size);
    free(job->memory);
    job->memory = malloc(job->size);
    if (!job->memory)
        abort();
    memset(job->memory, 0xa5, job->size);
}

/* ---- acts ---- */

static void do_open(struct job *job, const char *name) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    options.settings = job->settings[0] ? job->settings : NULL;
    int rc = varve_open_mpi(MPI_COMM_WORLD, job->store, name, &options, &job->session, &error);
    note(job, "open %s", varve_error_name(rc));
    note_error(job, rc, &error);
    if (rc != 0) {
        job->session = NULL;
        return;
    }
    renew_memory(job);
    rc = varve_protect(job->session, "state", job->memory, job->size);
    if (rc == 0)
        rc = varve_protect(job->session, "step", &job->step, sizeof job->step);
    note_error(job, rc, varve_session_error(job->session));
}

/* The signal comes from the kernel's own timer: nothing in the process can hold it back. */
static void arm_kill(const struct job *job) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {0};
    timer_t timer;
    int64_t ns = (int64_t)(job->kill_ms * 1e6);
    when.it_value.tv_sec = ns / 1000000000;
    when.it_value.tv_nsec = ns % 1000000000 ? ns % 1000000000 : 1;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, NULL) != 0)
        abort();
}

static void save_one(struct job *job, int64_t version) {
    fill(job, version);
    note(job, "begin %" PRId64, version);
    MPI_Barrier(MPI_COMM_WORLD); /* the time of a kill counts from a common beginning, which every rank has noted */
    if (job->kill_rank == job->rank && job->kill_version == version)
        arm_kill(job);
    double begun = MPI_Wtime();
    int rc = varve_checkpoint(job->session, version);
    if (rc == 0)
        rc = varve_wait(job->session);
    note(job, "# %.3f ms", (MPI_Wtime() - begun) * 1e3);
    note(job, "saved %" PRId64 " %s", version, varve_error_name(rc));
    note_error(job, rc, varve_session_error(job->session));
}

static void do_restart(struct job *job, const char *which) {
    int64_t wanted = strcmp(which, "latest") == 0 ? VARVE_LATEST : atoll(which), version = -1;
    memset(job->memory, 0xa5, job->size);
    job->step = -1;
    int rc = varve_restart(job->session, wanted, &version);
    if (rc != 0) {
        note(job, "restart %s", varve_error_name(rc));
        note_error(job, rc, varve_session_error(job->session));
        return;
    }
    int64_t wrong = compare(job, version);
    note(job, "restart %s %" PRId64 " %" PRId64 " %s", varve_error_name(rc), version, job->step,
         wrong < 0 && job->step == version ? "whole" : "wrong");
    if (wrong >= 0)
        note(job, "why %d byte %" PRId64 " of version %" PRId64 " is wrong", job->rank, wrong, version);
    job->is_failed |= wrong >= 0 || job->step != version;
    printf("rank %d restored iteration %" PRId64 "\n", job->rank, job->step);
    fflush(stdout);
}

static void do_again(struct job *job) {
    renew_memory(job);
    int rc = varve_protect(job->session, "state", job->memory, job->size);
    note(job, "again %s", varve_error_name(rc));
    note_error(job, rc, varve_session_error(job->session));
}

static void do_close(struct job *job) {
    int rc = varve_close(job->session);
    note(job, "close %s", varve_error_name(rc));
    job->is_failed |= rc != 0;
    job->session = NULL;
}

static int read_setup(struct job *job, const char *act) {
    int64_t first, second;
    int used = 0;
    if (sscanf(act, "size:%" SCNd64, &first) == 1)
        job->size = (size_t)first * 1024 + ODD;
    else if (sscanf(act, "change:%" SCNd64, &first) == 1)
        job->change = (unsigned)first;
    else if (strncmp(act, "store:", 6) == 0)
        snprintf(job->store, sizeof job->store, "%s", act + 6);
    else if (strncmp(act, "set:", 4) == 0)
        snprintf(job->settings, sizeof job->settings, "%s", act + 4);
    else if (sscanf(act, "fault:%" SCNd64 ":%n", &first, &used) == 1 && used > 0)
        return first == job->rank ? setenv("VARVE_FAULT", act + used, 1) : 0;
    else if (sscanf(act, "kill:%" SCNd64 ":%" SCNd64 ":%lf", &first, &second, &job->kill_ms) == 3) {
        job->kill_rank = (int)first;
        job->kill_version = second;
    } else
        return -1;
    return 0;
}

static int do_act(struct job *job, const char *act) {
    int64_t first, last;
    if (strncmp(act, "open:", 5) == 0)
        do_open(job, act + 5);
    else if (read_setup(job, act) == 0)
        return 0;
    else if (!job->session)
        note(job, "passed over %s: nothing is open", act);
    else if (sscanf(act, "save:%" SCNd64 "-%" SCNd64, &first, &last) == 2)
        for (int64_t version = first; version <= last; version++)
            save_one(job, version);
    else if (sscanf(act, "more:%" SCNd64, &first) == 1)
        for (int64_t i = 0; i < first; i++)
            save_one(job, job->step + 1);
    else if (strncmp(act, "restart:", 8) == 0)
        do_restart(job, act + 8);
    else if (strcmp(act, "again") == 0)
        do_again(job);
    else if (strcmp(act, "close") == 0)
        do_close(job);
    else
        return -1;
    return 0;
}

int main(int argc, char **argv) {
    struct job job = {.size = 3072 * 1024 + ODD, .change = 20, .kill_rank = -1};
    char path[1100];
    if (argc < 4) {
        fprintf(stderr, "usage: field-job LOG STORE ACT...\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    snprintf(path, sizeof path, "%s.%d", argv[1], job.rank);
    snprintf(job.store, sizeof job.store, "%s", argv[2]);
    job.log = fopen(path, "a");
    if (!job.log)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 3; i < argc && job.log; i++) {
        if (do_act(&job, argv[i]) == 0)
            continue;
        note(&job, "cannot do %s", argv[i]);
        job.is_failed = 1;
        break;
    }
    if (job.session)
        do_close(&job);
    free(job.memory);
    MPI_Finalize();
    return job.is_failed;
}
