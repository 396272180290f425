/* bench-field: restarts, beside cold reads of files written by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "field_run.h"
#include "ranks.h"

/* As the program had it at its `checkpoints`-th checkpoint. */
static void compare(const struct field_setup *setup, const struct field_mode *mode, unsigned checkpoints,
                    uint8_t *memory) {
    struct field field = field_new(setup, mode);
    if (!field_compare(&field, checkpoints, memory))
        exit(1);
    munmap(memory, setup->size);
}

static double page_faults(void) {
    struct rusage usage;
    bench_check(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
    return (double)usage.ru_minflt;
}

static struct field_phases phases_of(struct varve_session *session, const struct field_setup *setup,
                                     const struct field_mode *mode, double faults, double peak) {
    struct vv_details d;
    struct field field = field_new(setup, mode);
    field_check(session, vv_details_get(session, &d), "statistics");
    return (struct field_phases){.needed = ranks_sum((double)field_floor(&field, 0)),
                                 .read = ranks_sum((double)d.restart_bytes_read),
                                 .decoded = ranks_sum((double)d.restart_bytes_decoded),
                                 .reads = ranks_sum((double)d.restart_reads),
                                 .blocks = ranks_sum((double)d.restart_blocks),
                                 .rounds = ranks_most((double)d.restart_rounds),
                                 .faults = ranks_sum(faults),
                                 .peak = ranks_most(peak) / (double)setup->size,
                                 .reading = ranks_sum(d.restart_reading),
                                 .checking = ranks_sum(d.restart_checking),
                                 .decoding = ranks_sum(d.restart_decoding),
                                 .copying = ranks_sum(d.restart_copying),
                                 .waiting = ranks_sum(d.restart_waiting)};
}

static struct field_cost restart(const struct field_setup *setup, const struct field_mode *mode) {
    struct field_cost cost;
    int64_t version = -1;
    uint8_t *memory = bench_pages(setup->size);
    double faults = page_faults(), peak = (double)bench_peak_anew(), begin = ranks_start(), cpu = bench_cpu();
    struct varve_session *session = field_open(setup, mode);
    field_protect(setup, mode, session, memory);
    field_check(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    cost.seconds = ranks_stop(begin);
    cost.cpu = ranks_sum(bench_cpu() - cpu);
    cost.phases = phases_of(session, setup, mode, page_faults() - faults, (double)bench_peak() - peak);
    if (version != (int64_t)setup->checkpoints - 1) {
        fprintf(stderr, "restart gave version %lld instead of %u\n", (long long)version, setup->checkpoints - 1);
        exit(1);
    }
    field_check(session, varve_close(session), "close");
    compare(setup, mode, setup->checkpoints, memory);
    return cost;
}

/* way: NULL for the bare one */
static struct field_cost read_back(const struct field_setup *setup, const struct field_mode *mode,
                                   const struct bench_way *way) {
    struct field_cost cost = {0};
    uint8_t *memory = bench_pages(setup->size);
    double begin = ranks_start(), cpu = bench_cpu();
    if (way)
        bench_direct_read(setup->bare_path, memory, setup->size, way);
    else
        bench_bare_read(setup->bare_path, memory, setup->size);
    cost.seconds = ranks_stop(begin);
    cost.cpu = ranks_sum(bench_cpu() - cpu);
    /* Beside the last checkpoint the program ran on, and the file was written afterwards. */
    compare(setup, mode, setup->checkpoints + (mode->is_async ? 1 : 0), memory);
    return cost;
}

struct field_cost field_bring_back(const struct field_setup *setup, const struct field_mode *mode, const char *what) {
    if (strcmp(what, "restart") == 0)
        return restart(setup, mode);
    return read_back(setup, mode, what[4] ? &bench_ways[what[4] - '0'] : NULL);
}

static void run_child(const struct field_setup *setup, const struct field_mode *mode, const char *what, int out) {
    static const char self[] = "/proc/self/exe";
    char mib[32], count[32];
    snprintf(mib, sizeof mib, "%zu", setup->size / BENCH_MIB);
    snprintf(count, sizeof count, "%u", setup->checkpoints);
    dup2(out, STDOUT_FILENO);
    execl(self, self, "--child", what, "--mode", mode->name, "--pattern", field_pattern(setup), "--size", mib,
          "--checkpoints", count, "--settings", setup->settings, setup->folder, (char *)NULL);
    _exit(127);
}

static struct field_cost in_new_process(const struct field_setup *setup, const struct field_mode *mode,
                                        const char *what) {
    struct field_cost cost = {0};
    int pipes[2], status = 0;
    bench_check(pipe(pipes) == 0, "pipe");
    pid_t pid = fork();
    bench_check(pid >= 0, "fork");
    if (pid == 0) {
        close(pipes[0]);
        run_child(setup, mode, what, pipes[1]);
    }
    close(pipes[1]);
    FILE *answer = fdopen(pipes[0], "r");
    bench_check(answer != NULL, "fdopen");
    size_t got = fread(&cost, sizeof cost, 1, answer);
    fclose(answer);
    waitpid(pid, &status, 0);
    if (status != 0 || got != 1) {
        fprintf(stderr, "bench-field: the child that shall %s failed\n", what);
        exit(1);
    }
    return cost;
}

/* Every rank drops all files: they may be on several machines, each with its page cache. */
static struct field_cost bring_back_cold(const struct field_setup *setup, const struct field_mode *mode,
                                         const char *what) {
    ranks_meet();
    bench_cool(setup->bare_path);
    bench_cool(setup->store_path);
    return ranks_all() == 1 ? in_new_process(setup, mode, what) : field_bring_back(setup, mode, what);
}

static void measure_fast_reads(const struct field_setup *setup, struct field_result *r) {
    for (size_t i = 0; i < bench_way_count; i++) {
        char what[32];
        snprintf(what, sizeof what, "read%zu", i);
        struct field_cost cost = bring_back_cold(setup, r->mode, what);
        if (r->fast_read == 0 || cost.seconds < r->fast_read) {
            r->fast_read = cost.seconds;
            r->fast_read_name = bench_ways[i].name;
        }
    }
}

void field_measure_restart(const struct field_setup *setup, struct field_result *r) {
    for (unsigned i = 0; i < setup->rounds * 2; i++) {
        int is_ours = i % 4 == 0 || i % 4 == 3; /* the first of a pair by turns */
        struct field_cost cost = bring_back_cold(setup, r->mode, is_ours ? "restart" : "read");
        field_add(is_ours ? &r->restart : &r->cold_read, cost.seconds);
        field_add(is_ours ? &r->restart_cpu : &r->cold_cpu, cost.cpu);
        if (is_ours)
            r->phases = cost.phases;
    }
    measure_fast_reads(setup, r);
}
