/* A job of four ranks (job.h), in which one rank is killed at each operation of its storage and at each occurrence of
 * each named fault point, or its storage fails there and the job goes on. A rank that dies takes the others with it, as
 * under mpirun. Afterwards another job of four ranks looks at what there is: everything that varve_wait promised to any
 * rank comes back, to all ranks the same version, byte for byte.
 *
 * Compiled with JOB_NODES=2 it is a job on two nodes, each with a store of its own (storage=local). Compiled with
 * JOB_ALLOC it is allocations of one rank that fail, each once.
 *
 * With JOB_LOSE that many nodes lose their disks before somebody looks afterwards: with parity nothing is lost by it.
 *
 * With VARVE_AGGREGATE the ranks share writers: all the storage and most fault points are then met in the process of
 * the first rank of each team, by the thread that writes for the others.
 *
 * With JOB_MOVED each session is a job of another number of ranks than the one before (job.h), and so is the job that
 * looks afterwards.
 *
 * The ranks are processes that talk through shared memory (tests/group); tests/mpi/job-kill does a sample of it under
 * mpirun. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "campaign.h"
#include "group.h"
#include "job.h"
#include "placed.h"
#include "steps.h"

#ifndef JOB_NODES
#define JOB_NODES 0 /* all ranks have one store; else each node has one of its own */
#endif
#ifndef CAMPAIGN
#define CAMPAIGN "job-steps"
#endif
#ifndef JOB_ALLOC
#define JOB_ALLOC 0
#endif
#ifndef JOB_LOSE
#define JOB_LOSE 0
#endif

/* `handle` of a struct point holds both the rank and the handle. */
#define WHERE(faulty_rank, handle) ((faulty_rank)*10 + (handle))
#define FAULTY_RANK(where) ((where) / 10)
#define HANDLE(where) ((where) % 10)

static struct campaign campaign;
static struct job_board *board; /* of the job */
static char store[FOLDER_CAPACITY + 32], prepared[FOLDER_CAPACITY + 32], lived[FOLDER_CAPACITY + 32],
    board_path[FOLDER_CAPACITY + 32], list_path[FOLDER_CAPACITY + 32];
static uint64_t allocation;     /* of the victim's, the one that fails; 0: none */
static const char *teams_after; /* how many ranks share a writer in the job that looks; NULL: as before */

/* ---- running a job ---- */

static int open_in_group(void *arg, const char *address, const char *name, const struct varve_options *options,
                         struct varve_session **out, struct varve_error *error) {
    return varve_open_comm(group_comm(arg), address, name, options, out, error);
}

static struct job_way way_of(struct varve_comm *comm) {
    return (struct job_way){
        .open = open_in_group, .arm = vv_fault_set, .arg = comm, .rank = (int)comm->rank, .ranks = (int)comm->ranks};
}

static void run_rank(struct varve_comm *comm, void *arg) {
    struct job_way way = way_of(comm);
    const struct job_plan *plan = arg;
    int files = count_files(), threads = count_threads();
    if ((int)comm->rank == plan->faulty_rank)
        vv_alloc_fail_at(allocation);
    job_run(&way, plan, board);
    int left = threads_left(threads);
    if (count_files() != files || left != 0)
        child_fail("rank %u: %d files and %d threads are left open", comm->rank, count_files() - files, left);
}

static void check_rank(struct varve_comm *comm, void *arg) {
    struct job_way way = way_of(comm);
    if (teams_after)
        setenv("VARVE_AGGREGATE", teams_after, 1);
    job_after_check(&way, arg, board);
}

/* Among the names of the fault points go lines with the number of the step that begins. */
static char own_list[sizeof list_path + 16];

static void list_step(int number) {
    FILE *file = fopen(own_list, "ae");
    if (!file || fprintf(file, "%d\n", number) < 0 || fclose(file) != 0)
        child_fail("%s: %s", own_list, strerror(errno));
}

static void list_rank(struct varve_comm *comm, void *arg) {
    struct job_way way = way_of(comm);
    snprintf(own_list, sizeof own_list, "%s.%u", list_path, comm->rank);
    setenv("VARVE_FAULT_LIST", own_list, 1);
    way.step = list_step;
    job_run(&way, arg, board);
}

/* Where the ranks run; with JOB_ASIDE their sessions may talk in the background, too. JOB_PER_NODE: so many on a node,
 * and one store for all. */
static struct group_options usual(uint32_t ranks) {
    const char *per_node = getenv("JOB_PER_NODE");
    return (struct group_options){.ranks_per_node = JOB_NODES  ? (ranks + JOB_NODES - 1) / (JOB_NODES + !JOB_NODES)
                                                    : per_node ? (uint32_t)strtoul(per_node, NULL, 10)
                                                               : 0,
                                  .has_second = getenv("JOB_ASIDE") != NULL};
}

static void clear_board(void) {
    memset(board, 0, sizeof *board);
}

/* The session of a handle, and what it finds in its store: what another job has left, or nothing. */
static enum job_start start_of(int handle) {
    return handle == 2 ? JOB_ADOPTING : !placed_is_wanted() ? JOB_FRESH : handle == 1 ? JOB_SECOND : JOB_FIRST;
}

static uint32_t ranks_of(int handle) {
    return placed_is_wanted() && handle > 0 ? JOB_RANKS_MOVED : JOB_RANKS;
}

static int run_job(group_fn fn, struct job_plan *plan, const struct group_options *more, struct group_end *end) {
    uint32_t ranks = ranks_of(plan->handle);
    struct group_options options = usual(ranks);
    if (more) {
        options.seconds = more->seconds;
        options.is_noticed = more->is_noticed;
        options.grace_ms = more->grace_ms;
    }
    return group_run(ranks, fn, plan, &options, end);
}

/* The store as the job finds it. */
static void lay_out(struct job_plan *plan) {
    snprintf(plan->folder, sizeof plan->folder, "%s", store);
    plan->nodes = JOB_NODES;
    plan->start = start_of(plan->handle);
    if (plan->start == JOB_ADOPTING || plan->start == JOB_SECOND)
        folder_copy(plan->start == JOB_SECOND ? lived : prepared, store);
    else if (plan->nodes > 0)
        mkdir(store, 0777);
    clear_board();
}

static void prepare_in(struct job_plan *plan, const char *folder, struct group_end *end) {
    plan->nodes = JOB_NODES;
    if (plan->nodes > 0)
        mkdir(folder, 0777);
    snprintf(plan->folder, sizeof plan->folder, "%s", folder);
    run_job(run_rank, plan, NULL, end);
}

/* A job that died between its last pack and its record; and, if another is to go on, one that did not. */
static void prepare(void) {
    struct job_plan dying = {.start = JOB_DYING, .handle = -1}, first = {.start = JOB_FIRST, .faulty_rank = -1};
    struct group_end end;
    snprintf(dying.point, sizeof dying.point, "store.record.before_create=kill:3");
    prepare_in(&dying, prepared, &end);
    if (end.first != 0 || !WIFSIGNALED(end.status[0]) || WTERMSIG(end.status[0]) != SIGKILL)
        campaign_fail(&campaign, "none", "the store with something to adopt could not be made");
    clear_board();
    if (start_of(1) != JOB_SECOND)
        return;
    prepare_in(&first, lived, &end);
    if (end.first >= 0)
        campaign_fail(&campaign, "none", "the store to go on with could not be made");
}

/* Nothing goes wrong but a kill; 1 if it was met. */
static int is_met(int faulty_rank, int handle, uint64_t k) {
    struct job_plan plan = {.faulty_rank = faulty_rank, .handle = handle};
    struct group_end end;
    snprintf(plan.fault, sizeof plan.fault, "kill:%" PRIu64, k);
    lay_out(&plan);
    int rc = run_job(run_rank, &plan, NULL, &end);
    folder_remove(store);
    if (rc < 0 && (end.first != faulty_rank || !WIFSIGNALED(end.status[faulty_rank])))
        campaign_fail(&campaign, "none", "the job fails when nothing goes wrong");
    return rc < 0;
}

/* How many operations its storage does; when only a sample is wanted, nearly. */
static uint64_t count_operations_of(int faulty_rank, int handle) {
    uint64_t low = 0, high = 32;
    while (is_met(faulty_rank, handle, high)) {
        low = high;
        high *= 2;
    }
    while (high - low > 1 + (campaign.points ? 8 + low / 8 : 0)) {
        uint64_t middle = low + (high - low) / 2;
        *(is_met(faulty_rank, handle, middle) ? &low : &high) = middle;
    }
    return low;
}

/* ---- points ---- */

static const char *const policies[] = {"fail", "warn", "retry:2"};

static const struct {
    const char *kind;
    const char *what;
} faults[] = {{"fail", "EIO"},         {"fail", "ENOSPC"}, {"fail-after", "EIO"},
              {"fail-from", "ENOSPC"}, {"short", ""},      {"fail", "ENOMEM"}};
#define FAULTS (sizeof faults / sizeof *faults)

static void add(struct points *points, const char *kind, const char *what, int where, uint64_t k, const char *policy) {
    struct point point = {.handle = where, .k = k, .threads = k % 5 == 4 ? 2 : 0};
    snprintf(point.kind, sizeof point.kind, "%s", kind);
    snprintf(point.what, sizeof point.what, "%s", what);
    snprintf(point.on_error, sizeof point.on_error, "%s", policy);
    points_add(points, &point);
}

/* Every operation: killed before and after it; and failing in two ways, others for the next operation. */
static void add_operations(struct points *points, int faulty_rank, int handle, uint64_t count) {
    int where = WHERE(faulty_rank, handle);
    for (uint64_t k = 1; k <= count; k++) {
        add(points, "kill", "", where, k, "fail");
        add(points, "kill-after", "", where, k, "fail");
        for (uint64_t i = 0; i < 2; i++) {
            size_t fault = (k * 2 + i) % FAULTS;
            add(points, faults[fault].kind, faults[fault].what, where, k, policies[(k / FAULTS + i) % 3]);
        }
    }
}

/* Rank 3 does what rank 2 does, or, if that one writes for it, what rank 1 does. */
static void add_all_operations(struct points *points) {
    const char *teams = getenv("VARVE_AGGREGATE");
    uint64_t counts[JOB_RANKS];
    for (int handle = 0; handle < JOB_HANDLES; handle++) {
        for (int faulty_rank = 0; faulty_rank < (int)ranks_of(handle); faulty_rank++) {
            counts[faulty_rank] = faulty_rank == 3 ? counts[teams && strcmp(teams, "2") == 0 ? 1 : 2]
                                                   : count_operations_of(faulty_rank, handle);
            printf(CAMPAIGN ": rank %d does %" PRIu64 " operations in session %d\n", faulty_rank, counts[faulty_rank],
                   handle);
            add_operations(points, faulty_rank, handle, counts[faulty_rank]);
        }
    }
    fflush(stdout);
}

/* A name was met once more on this rank: killed at this occurrence, and, when it is the first in its step, failing
 * there. */
static void add_occurrence(struct points *points, size_t from, int where, const char *name, uint64_t step) {
    uint64_t k = 1;
    int is_first = step > 0;
    for (size_t i = from; i < points->count; i++) {
        const struct point *point = &points->list[i];
        if (strcmp(point->what, name) != 0)
            continue;
        k += strcmp(point->kind, "point") == 0;
        is_first &= strcmp(point->kind, "point") == 0 || point->k != step;
    }
    add(points, "point", name, where, k, "fail");
    if (is_first)
        add(points, "point-error", name, where, step, policies[(step + from) % 3]);
}

static void add_names_of(struct points *points, int faulty_rank, int handle) {
    char path[sizeof list_path + 16], line[160];
    size_t from = points->count;
    uint64_t step = 0;
    snprintf(path, sizeof path, "%s.%d", list_path, faulty_rank);
    FILE *file = fopen(path, "re");
    if (!file)
        campaign_fail(&campaign, "none", "no fault point was met on rank %d: %s", faulty_rank, strerror(errno));
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] >= '0' && line[0] <= '9')
            step = strtoull(line, NULL, 10);
        else
            add_occurrence(points, from, WHERE(faulty_rank, handle), line, step);
    }
    fclose(file);
    unlink(path);
}

static void add_names(struct points *points, int handle) {
    struct job_plan plan = {.faulty_rank = -1, .handle = handle};
    lay_out(&plan);
    if (run_job(list_rank, &plan, NULL, NULL) != 0)
        campaign_fail(&campaign, "none", "the job fails when nothing goes wrong");
    folder_remove(store);
    for (int faulty_rank = 0; faulty_rank < (int)ranks_of(handle); faulty_rank++)
        add_names_of(points, faulty_rank, handle);
}

/* ---- allocations ---- */

static void count_rank(struct varve_comm *comm, void *arg) {
    struct job_way way = way_of(comm);
    vv_alloc_fail_at(0);
    job_run(&way, arg, board);
    board->allocations[comm->rank] = vv_alloc_count();
}

/* Their number differs a little from run to run: some are made in the background. */
static void add_allocations(struct points *points, int handle) {
    struct job_plan plan = {.faulty_rank = -1, .handle = handle};
    lay_out(&plan);
    if (run_job(count_rank, &plan, NULL, NULL) != 0)
        campaign_fail(&campaign, "none", "the job fails when nothing goes wrong");
    folder_remove(store);
    for (int faulty_rank = 0; faulty_rank < (int)ranks_of(handle); faulty_rank++) {
        uint64_t count = board->allocations[faulty_rank];
        printf(CAMPAIGN ": rank %d makes %" PRIu64 " allocations in session %d\n", faulty_rank, count, handle);
        for (uint64_t k = 1; k <= count; k++)
            add(points, "alloc", "", WHERE(faulty_rank, handle), k, policies[k % 3]);
    }
}

/* ---- trying ---- */

static int is_deadly(const struct point *point) {
    return strncmp(point->kind, "kill", 4) == 0 || strcmp(point->kind, "point") == 0;
}

static void make_plan(const struct point *point, struct job_plan *out) {
    *out = (struct job_plan){.faulty_rank = FAULTY_RANK(point->handle), .handle = HANDLE(point->handle)};
    out->threads = point->threads;
    out->is_tolerant = !is_deadly(point);
    out->is_coming_again = out->is_tolerant && point->k % 2;
    out->is_lasting = strcmp(point->kind, "fail-from") == 0;
    out->may_lie = strcmp(point->kind, "short") == 0;
    snprintf(out->on_error, sizeof out->on_error, "%s", point->on_error);
    if (strcmp(point->kind, "alloc") == 0) {
        allocation = point->k;
    } else if (strcmp(point->kind, "point") == 0) {
        snprintf(out->point, sizeof out->point, "%s=kill:%" PRIu64, point->what, point->k);
    } else if (strcmp(point->kind, "point-error") == 0) {
        snprintf(out->point, sizeof out->point, "%s=error:5", point->what);
        out->step = (int)point->k;
    } else {
        snprintf(out->fault, sizeof out->fault, "%s:%" PRIu64 "%s%.16s", point->kind, point->k,
                 point->what[0] ? ":" : "", point->what);
    }
}

/* Where writers are shared: who looks afterwards shares them in the same way, in others, or not at all. */
static void change_teams(uint64_t k) {
    static const char *const teams[] = {"1", "2", "4"};
    teams_after = getenv("VARVE_AGGREGATE") && k % 2 ? teams[k / 2 % 3] : NULL;
}

/* In every third point the others learn of the death, and have a moment to do something about it. */
static void run_point(const struct point *point, struct job_plan *plan, const char *text) {
    struct group_options options = {.seconds = 300}; /* a session whose end could not be written is watched */
    struct group_end end;
    char why[512];
    if (point->k % 3 == 0) {
        options.is_noticed = 1;
        options.grace_ms = 10;
    }
    lay_out(plan);
    if (run_job(run_rank, plan, &options, &end) != 0) {
        int is_killed = is_deadly(point) && end.first == plan->faulty_rank &&
                        WIFSIGNALED(end.status[plan->faulty_rank]) &&
                        WTERMSIG(end.status[plan->faulty_rank]) == SIGKILL;
        group_describe(&end, why, sizeof why);
        if (!is_killed)
            campaign_fail(&campaign, text, "%s", why);
    }
    if (job_board_compare(board, why, sizeof why) != 0)
        campaign_fail(&campaign, text, "THE RANKS DISAGREE: %s", why);
}

/* As many as before; or, with JOB_MOVED, a number that has saved nothing of what must come back, or not all of it.
 * Each node must have a rank. */
static uint32_t ranks_after(const struct point *point) {
    static const uint32_t others[] = {2, 5, 6, 1, 3, 4};
    uint32_t ranks = others[point->k % (sizeof others / sizeof *others)];
    if (!placed_is_wanted())
        return JOB_RANKS;
    return ranks <= JOB_NODES || ranks == ranks_of(HANDLE(point->handle)) ? 2 : ranks;
}

/* Other ones from point to point; the first and the second are never the same. */
static void lose_nodes(const struct point *point, const char *text) {
    unsigned first = (unsigned)(point->k % (JOB_NODES + !JOB_NODES)), way = 1 + (unsigned)point->k / 7 % 3;
    for (int i = 0; i < JOB_LOSE; i++) {
        char path[sizeof store + 16];
        snprintf(path, sizeof path, "%s/node%u", store, (first + (unsigned)i * way) % (JOB_NODES + !JOB_NODES));
        folder_remove(path);
        if (mkdir(path, 0777) != 0)
            campaign_fail(&campaign, text, "%s: %s", path, strerror(errno));
    }
}

static void check_point(const struct point *point, const struct job_plan *plan, const char *text) {
    struct job_after after;
    struct group_end end;
    char why[512];
    job_after_from(board, plan, &after);
    clear_board();
    lose_nodes(point, text);
    after.has_lost = JOB_LOSE > 0;
    struct group_options options = usual(ranks_after(point));
    if (group_run(ranks_after(point), check_rank, &after, &options, &end) != 0) {
        group_describe(&end, why, sizeof why);
        campaign_fail(&campaign, text, "afterwards not all was well: %s", why);
    }
    if (job_board_compare(board, why, sizeof why) != 0)
        campaign_fail(&campaign, text, "afterwards THE RANKS DISAGREE: %s", why);
}

static void try_point(const struct point *point) {
    struct job_plan plan;
    char text[256];
    point_print(point, text);
    make_plan(point, &plan);
    campaign.tried++;
    run_point(point, &plan, text);
    change_teams(point->k);
    check_point(point, &plan, text);
    folder_remove(store);
}

static void try_points(struct points *points) {
    points_choose(&campaign, points);
    for (size_t i = 0; i < points->count; i++)
        try_point(&points->list[i]);
}

int main(int argc, char **argv) {
    struct points points = {0};
    struct point point;
    campaign_begin(&campaign, CAMPAIGN, argc, argv);
    snprintf(store, sizeof store, "%s/store", campaign.folder);
    snprintf(prepared, sizeof prepared, "%s/prepared", campaign.folder);
    snprintf(lived, sizeof lived, "%s/lived", campaign.folder);
    snprintf(board_path, sizeof board_path, "%s/board", campaign.folder);
    snprintf(list_path, sizeof list_path, "%s/points", campaign.folder);
    board = job_board_create(board_path);
    prepare();
    if (campaign.replay) {
        if (point_parse(campaign.replay, &point) < 0)
            campaign_fail(&campaign, campaign.replay, "this is not a point");
        try_point(&point);
    } else if (JOB_ALLOC) {
        for (int handle = 0; handle < JOB_HANDLES; handle++)
            if (handle != 1 || start_of(1) == JOB_SECOND)
                add_allocations(&points, handle);
        try_points(&points);
    } else {
        add_all_operations(&points);
        for (int handle = 0; handle < JOB_HANDLES; handle++)
            if (handle != 1 || start_of(1) == JOB_SECOND)
                add_names(&points, handle);
        try_points(&points);
    }
    points_clear(&points);
    job_board_close(board);
    return campaign_end(&campaign);
}
