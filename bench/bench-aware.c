/* What it is worth that the same variable of many ranks meets before it is compressed.
 *
 *   mpirun -n RANKS bench-aware --dumps FOLDER [--make] [--data NAME,...] [--scheme NAME,...] [--group N,...]
 *          [--block BYTES,...] [--codec NAME,...] [--dedup NAME,...] [--time N,...] [--limit MB] [--settings TEXT]
 *          [--check] [FOLDER]
 *
 * Each state (aware_data.h) is there at four times. For each of them, for each scheme, size of a group and codec: a new
 * store, a session, one checkpoint of everything, with the settings aggregate (the size of the groups), grouping (the
 * scheme), group_block (the bytes of a turn; only the schemes with turns have several), codec and dedup (none, unless
 * told: only compression counts). The first one is restored into other memory and compared: one wrong byte ends the
 * program. --limit: storage held to so many MB/s for all ranks together, for codec=auto, which does without compression
 * on fast storage.
 *
 * One line of JSON for each of these, sums over the times:
 *   ratio          bytes of the arrays, over what was stored of them and its metadata
 *   ratios         the same at each time
 *   folder         bytes of the store's files; the statistics must say the same but for some hundred bytes a rank
 *   grouping_gain  ratio over that of groups of 1, where every rank writes by itself: scheme "alone"
 * and for each state one line more:
 *   gzip6_ratio          the dumps of all ranks one after another through gzip -6, the baseline of mcrEngine's paper
 *   aware_over_agnostic  the best ratio of aware and aware-block with any codec that was tried, over that
 *   auto_over_best       ratio of scheme auto over the best scheme, with codec=size and the largest groups
 *
 * --make: make those states that are made here, if they are not there.
 * --check fails when a bound is not kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aware_data.h"
#include "bench.h"
#include "options.h"
#include "ranks.h"
#include "together.h"

#define LIST_MAX 16
#define RUNS_MAX 512
#define BOUND_AWARE 1.2      /* aware_over_agnostic of states in floating point, at least, */
#define BOUND_AWARE_ONE 2.15 /* and of one of them */
#define BOUND_AUTO 0.97      /* auto_over_best */
#define SLACK_RANK 1024.0    /* bytes of a store's folder that no statistics tell, per rank */
#define SLACK 65536.0        /* and for all of them */

/* The words or numbers of an option. */
struct list {
    const char *text;
    char words[OPTIONS_LONGEST];
    const char *word[LIST_MAX];
    size_t count;
};

struct run {
    const char *scheme, *codec, *dedup;
    unsigned group, block; /* block: 0 where there are no turns */
    double bytes[AWARE_TIMES], stored[AWARE_TIMES], metadata[AWARE_TIMES], folder[AWARE_TIMES];
    char grouping_used[32], codec_reason[160];
};

static struct list data_list = {.text = "hydro,storm,float32,counters,text,random"};
static struct list schemes = {.text = "agnostic,agnostic-block,aware,aware-block,auto"};
static struct list groups = {.text = "1,32"}, blocks = {.text = "4096"}, codecs = {.text = "size"};
static struct list dedups = {.text = "none"}, times = {.text = "0,1,2,3"};
static const char *dumps = "", *folder = ".", *more_settings = "";
static char store[3100], limit_file[3100];
static double limit;
static int is_make, is_check, failed;
static struct run runs[RUNS_MAX];
static size_t run_count;
static double gzip_bytes[AWARE_TIMES], gzip_raw[AWARE_TIMES];
static double most_aware; /* aware_over_agnostic of the best state */

static double sum(const double *list) {
    double all = 0;
    for (unsigned i = 0; i < AWARE_TIMES; i++)
        all += list[i];
    return all;
}

static double ratio_of(const struct run *run) {
    return sum(run->bytes) / (sum(run->stored) + sum(run->metadata));
}

/* ---- a checkpoint ---- */

static struct varve_session *open_session(const struct run *run, const struct arrays *arrays) {
    char settings[1024], address[4400];
    snprintf(settings, sizeof settings, "aggregate=%u,grouping=%s,codec=%s,dedup=%s", run->group,
             strcmp(run->scheme, "alone") == 0 ? "auto" : run->scheme, run->codec, run->dedup);
    if (run->block)
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings), ",group_block=%u", run->block);
    if (*more_settings)
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings), ",%s", more_settings);
    snprintf(address, sizeof address, limit > 0 ? "%s?limit=%gMB&limit_file=%s" : "%s", store, limit, limit_file);
    struct varve_session *session = together_open(address, "aware", settings);
    for (size_t i = 0; i < arrays->count; i++) {
        const struct array *from = &arrays->list[i];
        struct varve_array array = {.size = sizeof array, .type = from->type, .dims = from->dims};
        for (unsigned d = 0; d < from->dims; d++)
            array.dim[d].local = from->dim[d];
        together_check(session, varve_protect_array(session, from->name, from->data, &array), "protect");
    }
    return session;
}

static void compare(const struct run *run, const struct arrays *arrays) {
    struct arrays other;
    int64_t version = -1;
    arrays_alike(arrays, &other);
    for (size_t i = 0; i < other.count; i++)
        memset(other.list[i].data, 0xa5, other.list[i].bytes);
    struct varve_session *session = open_session(run, &other);
    together_check(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    for (size_t i = 0; i < other.count; i++)
        if (memcmp(other.list[i].data, arrays->list[i].data, other.list[i].bytes) != 0) {
            fprintf(stderr, "rank %u: %s with %s, groups of %u, codec=%s: what was restored is not what was saved\n",
                    ranks_own(), other.list[i].name, run->scheme, run->group, run->codec);
            exit(1);
        }
    together_check(session, varve_close(session), "close");
    arrays_clear(&other);
}

/* Statistics are only worth something if the files are as large as they say. */
static void check_folder(const struct run *run, unsigned time) {
    double told = run->stored[time] + run->metadata[time], slack = SLACK + SLACK_RANK * ranks_all();
    if (run->folder[time] >= told && run->folder[time] <= told + slack)
        return;
    if (ranks_own() == 0)
        fprintf(stderr, "the statistics say %.0f bytes, the store's files have %.0f\n", told, run->folder[time]);
    exit(1);
}

/* Of the writers' statistics, any that has something to say: rank 0 is one. */
static void save(struct run *run, unsigned time, const struct arrays *arrays, int is_first) {
    together_make_folder(store);
    struct varve_session *session = open_session(run, arrays);
    struct saved saved = together_save(session, store, 0);
    run->bytes[time] = ranks_sum((double)saved.stats.bytes_protected);
    run->stored[time] = saved.data;
    run->metadata[time] = saved.metadata;
    snprintf(run->grouping_used, sizeof run->grouping_used, "%s", saved.stats.grouping);
    snprintf(run->codec_reason, sizeof run->codec_reason, "%s", saved.stats.codec_reason);
    together_check(session, varve_close(session), "close");
    run->folder[time] = together_folder_bytes(store);
    check_folder(run, time);
    if (is_first)
        compare(run, arrays);
    together_remove_folder(store);
}

/* ---- what is said ---- */

static int is_time(unsigned time) {
    for (size_t i = 0; i < times.count; i++)
        if ((unsigned)atoi(times.word[i]) == time)
            return 1;
    return 0;
}

static int is_float(const struct arrays *arrays) {
    size_t bytes = 0;
    for (size_t i = 0; i < arrays->count; i++)
        if (arrays->list[i].type == VARVE_F32 || arrays->list[i].type == VARVE_F64)
            bytes += arrays->list[i].bytes;
    return bytes > arrays->bytes / 2;
}

static const struct run *find_alone(const struct run *run) {
    for (size_t i = 0; i < run_count; i++)
        if (runs[i].group == 1 && strcmp(runs[i].codec, run->codec) == 0 && strcmp(runs[i].dedup, run->dedup) == 0)
            return &runs[i];
    return NULL;
}

static void print_ratios(const char *key, const double *bytes, const double *stored, const double *metadata) {
    const char *comma = "";
    printf(",\"%s\":[", key);
    for (unsigned i = 0; i < AWARE_TIMES; i++)
        if (is_time(i)) {
            printf("%s%.5g", comma, stored[i] > 0 ? bytes[i] / (stored[i] + (metadata ? metadata[i] : 0)) : 0);
            comma = ",";
        }
    printf("]");
}

static void report(const char *name, const struct run *run) {
    const struct run *alone = find_alone(run);
    printf("{\"bench\":\"aware\",\"data\":\"%s\",\"scheme\":\"%s\",\"group\":%u,\"block\":%u,\"codec\":\"%s\","
           "\"dedup\":\"%s\"",
           name, run->scheme, run->group, run->block, run->codec, run->dedup);
    if (limit > 0)
        printf(",\"limit\":%g", limit);
    printf(
        ",\"ranks\":%u,\"times\":%zu,\"bytes\":%.0f,\"stored\":%.0f,\"metadata\":%.0f,\"folder\":%.0f,\"ratio\":%.5g",
        ranks_all(), times.count, sum(run->bytes), sum(run->stored), sum(run->metadata), sum(run->folder),
        ratio_of(run));
    print_ratios("ratios", run->bytes, run->stored, run->metadata);
    if (alone)
        printf(",\"grouping_gain\":%.4f", ratio_of(run) / ratio_of(alone));
    printf(",\"grouping_used\":\"%s\",\"codec_reason\":\"%s\"}\n", run->grouping_used, run->codec_reason);
    fflush(stdout);
}

/* The best that is aware (or any scheme but auto) with the codec, or with any if that is NULL. */
static const struct run *find_best(int is_aware, const char *codec, unsigned group) {
    const struct run *best = NULL;
    for (size_t i = 0; i < run_count; i++) {
        const struct run *run = &runs[i];
        int fits = is_aware ? strncmp(run->scheme, "aware", 5) == 0 : strcmp(run->scheme, "auto") != 0;
        if (fits && (!codec || strcmp(run->codec, codec) == 0) && (!group || run->group == group) &&
            strcmp(run->dedup, dedups.word[0]) == 0 && (!best || ratio_of(run) > ratio_of(best)))
            best = run;
    }
    return best;
}

static const struct run *find_auto(unsigned group) {
    for (size_t i = 0; i < run_count; i++)
        if (strcmp(runs[i].scheme, "auto") == 0 && runs[i].group == group && strcmp(runs[i].codec, "size") == 0 &&
            strcmp(runs[i].dedup, dedups.word[0]) == 0)
            return &runs[i];
    return NULL;
}

static void judge(const char *name, const char *what, double value, double bound) {
    if (!is_check || value >= bound)
        return;
    fprintf(stderr, "%s: %s is %.4f, which is under %.2f\n", name, what, value, bound);
    failed = 1;
}

static unsigned largest_group(void) {
    unsigned most = 1;
    for (size_t i = 0; i < run_count; i++)
        most = runs[i].group > most ? runs[i].group : most;
    return most;
}

/* random is noise on purpose: nothing can be gained there, and nobody must. */
static void report_data(const char *name, int is_floating) {
    double gzip = sum(gzip_bytes) > 0 ? sum(gzip_raw) / sum(gzip_bytes) : 0;
    unsigned group = largest_group();
    const struct run *aware = find_best(1, NULL, 0), *best = find_best(0, "size", group), *auto_run = find_auto(group);
    printf("{\"bench\":\"aware\",\"data\":\"%s\",\"float\":%s,\"ranks\":%u,\"times\":%zu", name,
           is_floating ? "true" : "false", ranks_all(), times.count);
    if (gzip > 0) {
        printf(",\"bytes\":%.0f,\"gzip6_ratio\":%.5g", sum(gzip_raw), gzip);
        print_ratios("gzip6_ratios", gzip_raw, gzip_bytes, NULL);
    }
    if (gzip > 0 && aware) {
        double over = ratio_of(aware) / gzip;
        printf(",\"aware_best\":\"%s\",\"aware_codec\":\"%s\",\"aware_group\":%u,\"aware_over_agnostic\":%.4f",
               aware->scheme, aware->codec, aware->group, over);
        if (is_floating && strcmp(name, "random") != 0)
            judge(name, "aware_over_agnostic", over, BOUND_AWARE);
        if (is_floating && over > most_aware)
            most_aware = over;
    }
    if (auto_run && best) {
        printf(",\"best\":\"%s\",\"best_block\":%u,\"auto_over_best\":%.4f", best->scheme, best->block,
               ratio_of(auto_run) / ratio_of(best));
        judge(name, "auto_over_best", ratio_of(auto_run) / ratio_of(best), BOUND_AUTO);
    }
    printf("}\n");
    fflush(stdout);
}

/* ---- all of it ---- */

static void add_run(const char *scheme, unsigned group, unsigned block, const char *codec, const char *dedup) {
    bench_check(run_count < RUNS_MAX, "too many runs");
    runs[run_count++] = (struct run){.scheme = scheme, .codec = codec, .dedup = dedup, .group = group, .block = block};
}

/* Groups of 1 first: the others are compared with them. */
static void plan_scheme(const char *scheme, const char *codec, const char *dedup) {
    int has_turns = strstr(scheme, "-block") != NULL;
    for (size_t g = 0; g < groups.count; g++) {
        unsigned group = (unsigned)atoi(groups.word[g]);
        for (size_t b = 0; b < (has_turns ? blocks.count : 1) && group > 1; b++)
            add_run(scheme, group, has_turns ? (unsigned)atoi(blocks.word[b]) : 0, codec, dedup);
    }
}

static void plan(void) {
    run_count = 0;
    for (size_t c = 0; c < codecs.count; c++)
        for (size_t d = 0; d < dedups.count; d++) {
            for (size_t g = 0; g < groups.count; g++)
                if (atoi(groups.word[g]) == 1)
                    add_run("alone", 1, 0, codecs.word[c], dedups.word[d]);
            for (size_t s = 0; s < schemes.count; s++)
                plan_scheme(schemes.word[s], codecs.word[c], dedups.word[d]);
        }
}

static void run_data(const char *name) {
    struct arrays arrays[AWARE_TIMES] = {{0}};
    plan();
    memset(gzip_bytes, 0, sizeof gzip_bytes);
    memset(gzip_raw, 0, sizeof gzip_raw);
    unsigned first = AWARE_TIMES;
    for (unsigned time = 0; time < AWARE_TIMES; time++)
        if (is_time(time)) {
            first = first < time ? first : time;
            aware_read(dumps, name, time, &arrays[time]);
            if (ranks_own() == 0)
                gzip_bytes[time] = aware_gzip(dumps, name, time, &gzip_raw[time]);
        }
    for (size_t i = 0; i < run_count; i++) {
        for (unsigned time = 0; time < AWARE_TIMES; time++)
            if (is_time(time))
                save(&runs[i], time, &arrays[time], time == first);
        if (ranks_own() == 0)
            report(name, &runs[i]);
    }
    if (ranks_own() == 0)
        report_data(name, first < AWARE_TIMES && is_float(&arrays[first]));
    for (unsigned time = 0; time < AWARE_TIMES; time++)
        arrays_clear(&arrays[time]);
}

/* ---- the command line ---- */

static const struct bench_option command_line[] = {
    {"--dumps", "FOLDER", .text = &dumps},
    {"--make", .flag = &is_make},
    {"--data", "hydro,storm,float32,counters,text,random,OTHER...", .text = &data_list.text},
    {"--scheme", "agnostic,agnostic-block,aware,aware-block,auto", .list = &schemes.text},
    {"--group", "N,...", .text = &groups.text},
    {"--block", "BYTES,...", .text = &blocks.text},
    {"--codec", "NAME,...", .text = &codecs.text},
    {"--dedup", "NAME,...", .text = &dedups.text},
    {"--time", "N,...", .text = &times.text},
    {"--limit", "MB", .real = &limit},
    {"--settings", "TEXT", .text = &more_settings},
    {"--check", .flag = &is_check},
    {"FOLDER", .text = &folder},
    {0},
};

static void split(struct list *list) {
    char *rest = NULL;
    snprintf(list->words, sizeof list->words, "%s", list->text);
    for (char *word = strtok_r(list->words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        options_demand(command_line, list->count < LIST_MAX, "a list is too long");
        list->word[list->count++] = word;
    }
}

static void parse(int argc, char **argv) {
    struct list *const lists[] = {&data_list, &schemes, &groups, &blocks, &codecs, &dedups, &times};
    options_read(command_line, argc, argv);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        split(lists[i]);
    options_demand(command_line, *dumps && dedups.count > 0, "--dumps is needed, and a way of --dedup");
}

static int run_one(const char *name) {
    if (is_make)
        aware_make(dumps, name);
    if (aware_is_there(dumps, name)) {
        run_data(name);
        return 0;
    }
    if (ranks_own() == 0)
        fprintf(stderr, "%s: there are no dumps of %u ranks in %s\n", name, ranks_all(), dumps);
    return 1;
}

int main(int argc, char **argv) {
    parse(argc, argv);
    ranks_begin(&argc, &argv);
    snprintf(store, sizeof store, "%s/bench-aware.store", folder);
    snprintf(limit_file, sizeof limit_file, "%s/bench-aware.limit", folder);
    together_lock(folder);
    for (size_t i = 0; i < data_list.count; i++)
        failed |= run_one(data_list.word[i]);
    ranks_meet();
    if (ranks_own() == 0)
        bench_remove(limit_file);
    if (data_list.count > 1 && ranks_own() == 0)
        judge("all states", "the largest aware_over_agnostic", most_aware, BOUND_AWARE_ONE);
    ranks_end();
    return failed;
}
