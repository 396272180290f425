/* varve analyze: what Varve would make of files or of running processes, before anybody changes a line. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "analyze/report.h"
#include "import.h"
#include "process/live.h"
#include "terminal/progress.h"

static const char *const type_names[] = {"bytes", "i8",  "u8",  "i16", "u16",  "i32", "u32", "i64",
                                         "u64",   "f32", "f64", "f16", "bf16", "c64", "c128"};

static int on_step(void *arg, uint64_t done) {
    const struct analyze_source *source = *(struct analyze_source **)arg;
    return progress_update(done, source->bytes);
}

/* ---- files, taken apart as `varve import` does ---- */

struct plan_source {
    const struct analyze_source *source; /* first: on_step */
    struct importing importing;
};

/* Of a file that was named itself only the variable counts: versions have names of their own. */
static void plan_region(void *arg, size_t number, struct analyze_region *out) {
    struct plan_source *plan = arg;
    const struct importing *importing = &plan->importing;
    const struct files_plan *all = &importing->plan;

    *out = (struct analyze_region){.name = FILES_MAP_REGION, .kind = "map", .file = UINT32_MAX};
    out->length = importing->map_size;
    if (number == all->region_count)
        return;
    const struct files_region *region = &all->regions[number];
    const char *full = region->full ? region->full : region->name;
    out->name = region->name;
    out->place = all->files.count > 1 ? full : region->variable ? full + region->variable : ":";
    out->type = region->dims ? region->type : VARVE_BYTES;
    out->kind = type_names[out->type];
    out->row = region->dims > 1 ? region->dim[region->dims - 1] : 0;
    out->length = region->length;
    out->file = region->count ? all->pieces[region->first].file : 0;
    int is_alone = all->files.count == 1 && importing->cli->arg_count == 1; /* nothing may have moved */
    out->is_plain = !importing->is_cut && !is_alone && region->count == 1 && region->variable == 0;
}

static int plan_read(void *arg, size_t number, uint64_t offset, void *buffer, size_t size, struct varve_error *error) {
    struct plan_source *plan = arg;
    struct importing *importing = &plan->importing;

    if (number == importing->plan.region_count) {
        memcpy(buffer, importing->map + offset, size);
        return 0;
    }
    int rc = files_source_read(&importing->source, number, offset, buffer, size);
    if (rc < 0)
        *error = importing->source.error;
    return rc;
}

/* A folder is looked at from within, a file from where it lies. */
static int open_place(const char *path, char **argument, struct varve_error *error) {
    struct stat stat_of;

    if (stat(path, &stat_of) < 0)
        return files_system_error(error, "look at", path);
    char *copy = strdup(path), *again = strdup(path);
    int is_folder = S_ISDIR(stat_of.st_mode), fd = -ENOMEM;
    *argument = copy && again ? strdup(is_folder ? "." : basename(copy)) : NULL;
    if (*argument) {
        fd = open(is_folder ? path : dirname(again), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fd = fd < 0 ? files_system_error(error, "open the folder of", path) : fd;
    }
    free(copy);
    free(again);
    return fd;
}

static int look_at_plan(struct plan_source *plan, struct analyze *analyze, const char *path,
                        struct varve_error *error) {
    struct importing *importing = &plan->importing;
    struct analyze_source source = {.arg = plan,
                                    .count = importing->plan.region_count + 1,
                                    .bytes = importing->total,
                                    .region = plan_region,
                                    .read = plan_read,
                                    .step = on_step};

    plan->source = &source;
    files_source_open(&importing->source, &importing->plan, importing->folder, importing->fds);
    progress_begin("analyzing", importing->cli->is_json);
    int rc = analyze_look(analyze, path, &source, error);
    if (rc == 0 && files_source_check(&importing->source) < 0) {
        rc = -EAGAIN;
        *error = importing->source.error;
    }
    progress_end();
    files_source_close(&importing->source);
    return rc;
}

static int look_at_files(struct cli *cli, struct analyze *analyze, const char *path, struct varve_error *error) {
    struct plan_source *plan = calloc(1, sizeof *plan);
    char *argument = NULL;

    if (!plan)
        return -ENOMEM;
    plan->importing.cli = cli;
    plan->importing.folder = open_place(path, &argument, error);
    int rc = plan->importing.folder < 0 ? plan->importing.folder : 0;
    if (rc == 0) {
        progress_begin("looking into files,", cli->is_json);
        rc = import_plan(&plan->importing, &argument, 1, error);
        progress_end();
    }
    rc = rc ? rc : look_at_plan(plan, analyze, path, error);
    if (plan->importing.folder >= 0)
        close(plan->importing.folder);
    import_clear(&plan->importing);
    free(argument);
    free(plan);
    return rc;
}

/* ---- processes ---- */

struct live_source {
    const struct analyze_source *source; /* first: on_step */
    struct process_live *lives;
    size_t count;
    char name[96];
};

/* The process that a region belongs to; its part of it. */
static struct process_live *live_of(const struct live_source *live, size_t *number) {
    size_t i = 0;

    for (; *number >= live->lives[i].part_count; i++)
        *number -= live->lives[i].part_count;
    return &live->lives[i];
}

static void live_region(void *arg, size_t number, struct analyze_region *out) {
    struct live_source *live = arg;
    const struct process_live *of = live_of(live, &number);
    const struct process_part *part = &of->parts[number];

    snprintf(live->name, sizeof live->name, "%d:%s", (int)of->pid, part->name);
    *out = (struct analyze_region){.name = live->name,
                                   .place = live->name,
                                   .kind = part->kind->name,
                                   .type = part->kind->type,
                                   .file = (uint32_t)of->pid,
                                   .length = part->length};
}

static int live_read(void *arg, size_t number, uint64_t offset, void *buffer, size_t size, struct varve_error *error) {
    struct live_source *live = arg;
    struct process_live *of = live_of(live, &number);

    return process_live_read(of, number, offset, buffer, size, error);
}

static uint64_t live_place(void *arg, size_t number, uint64_t offset) {
    const struct live_source *live = arg;
    const struct process_live *of = live_of(live, &number);

    return process_live_place(of, number, offset);
}

static int look_at_lives(struct cli *cli, struct live_source *live, struct analyze *analyze, const char *label,
                         struct varve_error *error) {
    struct analyze_source source = {
        .arg = live, .region = live_region, .read = live_read, .place = live_place, .step = on_step};
    uint64_t lost = 0;

    live->source = &source;
    for (size_t i = 0; i < live->count; i++) {
        source.count += live->lives[i].part_count;
        source.bytes += live->lives[i].bytes;
    }
    progress_begin("analyzing", cli->is_json);
    int rc = analyze_look(analyze, label, &source, error);
    progress_end();
    for (size_t i = 0; i < live->count; i++)
        lost += live->lives[i].lost;
    if (rc == 0 && lost && !cli->is_json)
        cli_note("%" PRIu64 " pages went away while they were read; they count as zeros", lost / ANALYZE_PAGE);
    return rc;
}

static int look_at_processes(struct cli *cli, struct analyze *analyze, const char *label, struct varve_error *error) {
    struct live_source live = {.lives = calloc((size_t)cli->pid_count, sizeof *live.lives)};
    int rc = live.lives ? 0 : -ENOMEM;

    while (rc == 0 && live.count < (size_t)cli->pid_count) {
        rc = process_live_open(&live.lives[live.count], cli->pids[live.count], error);
        live.count++;
    }
    rc = rc ? rc : look_at_lives(cli, &live, analyze, label, error);
    for (size_t i = 0; i < live.count; i++)
        process_live_close(&live.lives[i]);
    free(live.lives);
    return rc;
}

/* Sleeps in pieces, so that an interrupt is noticed. */
static int pause_for(double seconds) {
    int rc = 0;

    progress_begin("waiting for the next look,", 0);
    for (double slept = 0; slept < seconds && rc == 0; slept += 0.1) {
        double part = seconds - slept < 0.1 ? seconds - slept : 0.1;
        struct timespec time = {0, (long)(part * 1e9)};
        nanosleep(&time, NULL);
        rc = progress_update(0, 0);
    }
    progress_end();
    return rc;
}

static int look_twice(struct cli *cli, struct analyze *analyze, struct varve_error *error) {
    char label[256];
    size_t used = (size_t)snprintf(label, sizeof label, "process%s", cli->pid_count > 1 ? "es" : "");

    for (int i = 0; i < cli->pid_count && used < sizeof label - 40; i++)
        used += (size_t)snprintf(label + used, sizeof label - used, " %d", (int)cli->pids[i]);
    int rc = look_at_processes(cli, analyze, label, error);
    if (rc == 0 && has_option(cli, OPTION_AGAIN)) {
        rc = pause_for(cli->again);
        snprintf(label + used, sizeof label - used, ", %g s later", cli->again);
        rc = rc ? rc : look_at_processes(cli, analyze, label, error);
    }
    return rc;
}

/* ---- the command ---- */

static int look_at_all(struct cli *cli, struct analyze *analyze, struct varve_error *error) {
    int rc = cli->pid_count ? look_twice(cli, analyze, error) : 0;

    for (int i = 0; i < cli->arg_count && rc == 0; i++)
        rc = look_at_files(cli, analyze, cli->args[i], error);
    return rc;
}

static int run_analyze(struct cli *cli) {
    struct analyze *analyze = NULL;
    struct varve_error error = {.text = ""};
    int looks = cli->pid_count ? 1 + has_option(cli, OPTION_AGAIN) : cli->arg_count;

    if (cli->pid_count && cli->arg_count)
        return cli_usage(cli, "give either files and folders or --pid, not both");
    if (looks == 0)
        return cli_usage(cli, "what is to be analyzed? Give files, folders, or --pid");
    if (has_option(cli, OPTION_AGAIN) && !cli->pid_count)
        return cli_usage(cli, "--again is for processes; give several files or folders for several looks");
    if ((unsigned)looks > ANALYZE_LOOKS)
        return cli_usage(cli, "%u versions can be compared at the most; put files of one version into a folder",
                         ANALYZE_LOOKS);
    int rc = analyze_create(&analyze, (unsigned)looks);
    rc = rc ? rc : look_at_all(cli, analyze, &error);
    rc = rc ? rc : report_analyzed(cli, analyze, &error);
    analyze_destroy(analyze);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}

const struct command command_analyze = {
    .name = "analyze",
    .summary = "tell what Varve would make of files or processes",
    .usage = "analyze FILE|DIR... | --pid PID... [--again SECONDS] [-o PAGE]",
    .help =
        "Tell how much of some data is zero, equal to other data, or new, how small the new part would become, and "
        "what a\n"
        "checkpoint of it would take. Nothing is written. Several files or folders are versions of the same data, in "
        "this\n"
        "order; the files of a folder belong together. Files are taken apart as `varve import` does. Of processes the "
        "memory\n"
        "is read that is theirs alone; they must be yours, and run on meanwhile. Of much data a sample is encoded, "
        "and that\n"
        "is told.\n\n"
        "  --pid PID            a running process; several times for several\n"
        "  --again SECONDS      look once more after so long, to see what changes\n"
        "  -o, --output PAGE    write a page of HTML, too; it must not be there yet\n\n"
        "example: varve analyze step100 step200 step300 -o page.html\n",
    .options = OPTION_PID | OPTION_AGAIN | OPTION_OUTPUT,
    .is_storeless = 1,
    .most_args = -1,
    .run = run_analyze,
};
