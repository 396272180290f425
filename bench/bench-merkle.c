/* How little fine chunks store of a program that changes a few bytes in many places: graphlet degree vectors
 * (graphlets.h) of four kinds of graph (graphs.h), as in Tan et al., "Scalable Incremental Checkpointing using
 * GPU-Accelerated De-Duplication", ICPP 2023.
 *
 *   bench-merkle [--json] [--check] [--vertices N] [--graphs NAME,...] [--methods NAME,...] [--chunks BYTES,...]
 *                [--checkpoints N,...] [--layout vertex|orbit] [--most 2..5] [--seed N] [--settings TEXT]
 *
 * Counters lie orbit by orbit, as in the paper's program, whose array of two indices has the layout that is usual on
 * GPUs; or vertex by vertex.
 *
 * Methods, each with every chunk size and every number of checkpoints:
 *
 * full       every checkpoint holds everything. Counted; measured with the setting fine_method=full, and five
 *            checkpoints at the most, since they stay in memory.
 * basic      chunks that are as they were are not stored. The smaller one of what the library stores with
 *            fine_method=basic and the paper's formula: changed chunks, and a bit for each chunk.
 * list       nor are chunks that were seen anywhere. Counted by the paper's formula: new chunks, 4 bytes for each of
 *            them, and 12 for each that was seen. Varve's manifests hold runs, so it is never written that way.
 * tree       the library: the same chunks, with runs instead of lists.
 * tree-auto  the same with codec=auto.
 * zstd       full checkpoints, each compressed by zstd at level 3.
 *
 * ratio: full over stored, metadata included, without the first checkpoint. metadata_over_stored: the part of it that
 * is not data. throughput_over_memcpy: protected bytes over the time until they are stored (in memory), over the
 * speed of memcpy, measured in turns. base_over_metadata: the part of the metadata that is manifests written as a
 * whole again. runs: of the manifests. greedy_runs: maximal runs found by an oracle that forgets nothing
 * (labels.h), plain_runs: the same without repetition; metadata_over_greedy: runs over greedy_runs. paper_roots,
 * paper_ratio: what the paper's tree would need (paper_tree.h).
 *
 * --check fails when one of the bounds that hold for a graph of a million vertices is passed; --bounds chooses which:
 * smallest (tree stores at most 1.02 of the least of full, basic and list), greedy (at most 1.2 of the greedy runs),
 * list (5 times as good as list, message-race, chunks of 64), full (67 times smaller than full on the best graph, 20
 * checkpoints), zstd (tree-auto, with the chunk size that suits it, stores less than zstd on every graph, 20
 * checkpoints). */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "merkle.h"
#include "options.h"

#define BOUND_SMALLEST 1.02
#define BOUND_GREEDY 1.2
#define BOUND_LIST 5.0
#define BOUND_FULL 67.0

static uint32_t vertices = 1 << 20;
static const char *only_graphs = "message-race,unstructured-mesh,road,bubbles";
static const char *only_methods = "full,basic,list,tree,tree-auto,zstd";
static struct numbers chunks = {{32, 64, 128, 256, 512, 4096}, 6}, counts = {{5, 10, 20}, 3};
static const char *bounds = "smallest,greedy,list,full,zstd";
static const char *layout_name = "orbit", *more_settings = "";
static unsigned most = 5, seed = 1;
static int is_json, is_check, has_failed;
static double best_ratio; /* of tree with 20 checkpoints, on any graph */

static void judge(const char *bound, int is_kept, const char *text, const struct program *program, unsigned chunk,
                  double value) {
    if (!options_has(bounds, bound))
        return;
    fprintf(stderr, "%s: %s, %u checkpoints, chunks of %u: %.4g %s\n", is_kept ? "kept" : "NOT KEPT", program->kind,
            program->checkpoints, chunk, value, text);
    has_failed |= !is_kept;
}

/* ---- lines ---- */

struct line {
    const char *method;
    unsigned chunk;
    double stored, metadata, over_memcpy; /* the last two: below 0 if there is no such thing */
    const struct outcome *outcome;        /* of the library, to compare with the oracle; else NULL */
    const struct oracle *oracle;
};

static void print_number(const char *name, double value, int is_there) {
    if (is_there)
        printf(",\"%s\":%.6g", name, value);
}

static void print_compared(const struct outcome *outcome, const struct oracle *oracle, double full) {
    double greedy = (double)oracle->counts.runs;
    printf(",\"runs\":%.0f,\"greedy_runs\":%.0f,\"paper_roots\":%.0f", outcome->runs, greedy, oracle->paper_roots);
    print_number("metadata_over_greedy", outcome->runs / greedy, greedy > 0);
    printf(",\"plain_runs\":%.0f", (double)oracle->counts.plain_runs);
    print_number("paper_ratio", full / oracle->paper_bytes, oracle->paper_bytes > 0);
    print_number("base_over_metadata", outcome->base / outcome->metadata, outcome->metadata > 0);
    printf(",\"first\":%.0f,\"shifted\":%.0f,\"tracker\":\"%s\"", outcome->first, outcome->shifted, outcome->tracker);
}

static void print_line(const struct program *program, const struct line *line) {
    double full = (double)program->bytes * (program->checkpoints - 1), ratio = full / line->stored;
    if (!is_json) {
        printf("%-18s %-9s %5u %3u  ratio %8.2f  metadata %6.4f  throughput %6.3f\n", program->kind, line->method,
               line->chunk, program->checkpoints, ratio, line->metadata / line->stored, line->over_memcpy);
        fflush(stdout);
        return;
    }
    printf("{\"bench\":\"merkle\",\"graph\":\"%s\",\"method\":\"%s\",\"chunk\":%u,\"checkpoints\":%u,\"ratio\":%.6g",
           program->kind, line->method, line->chunk, program->checkpoints, ratio);
    print_number("metadata_over_stored", line->metadata / line->stored, line->metadata >= 0);
    print_number("throughput_over_memcpy", line->over_memcpy, line->over_memcpy >= 0);
    if (line->outcome)
        print_compared(line->outcome, line->oracle, full);
    printf(",\"stored\":%.0f,\"vertices\":%u,\"protected\":%zu,\"layout\":\"%s\"}\n", line->stored,
           program->graph->vertices, program->bytes, layout_name);
    fflush(stdout);
}

/* ---- methods ---- */

static int is_wanted(const char *method) {
    return options_has(only_methods, method);
}

static void do_full(const struct program *program) {
    struct program few = *program;
    struct outcome outcome;
    struct line line = {.method = "full", .stored = (double)program->bytes * (program->checkpoints - 1)};
    few.checkpoints = program->checkpoints < 5 ? program->checkpoints : 5; /* the first of them */
    save_with_varve(&few, "full", "none", 4096, more_settings, &outcome);
    line.over_memcpy = outcome.over_memcpy;
    line.metadata = line.stored * (outcome.metadata / outcome.stored);
    print_line(program, &line);
}

static double do_zstd(const struct program *program) {
    struct outcome outcome;
    save_with_zstd(program, &outcome);
    print_line(
        program,
        &(struct line){.method = "zstd", .stored = outcome.stored, .metadata = -1, .over_memcpy = outcome.over_memcpy});
    return outcome.stored;
}

static double do_basic(const struct program *program, unsigned chunk, const struct oracle *oracle) {
    struct outcome outcome;
    save_with_varve(program, "basic", "none", chunk, more_settings, &outcome);
    struct line line = {.method = "basic",
                        .chunk = chunk,
                        .stored = outcome.stored,
                        .metadata = outcome.metadata,
                        .over_memcpy = outcome.over_memcpy};
    if (oracle->basic_bytes < line.stored) {
        line.stored = oracle->basic_bytes;
        line.metadata = oracle->basic_bytes - (double)oracle->counts.changed_bytes;
    }
    print_line(program, &line);
    return line.stored;
}

static double do_tree(const struct program *program, const char *method, const char *codec, unsigned chunk,
                      const struct oracle *oracle) {
    struct outcome outcome;
    save_with_varve(program, "tree", codec, chunk, more_settings, &outcome);
    print_line(program, &(struct line){.method = method,
                                       .chunk = chunk,
                                       .stored = outcome.stored,
                                       .metadata = outcome.metadata,
                                       .over_memcpy = outcome.over_memcpy,
                                       .outcome = &outcome,
                                       .oracle = oracle});
    if (strcmp(method, "tree") == 0) {
        double share = outcome.runs / (double)oracle->counts.runs;
        judge("greedy", share <= BOUND_GREEDY, "of the greedy runs", program, chunk, share);
    }
    return outcome.stored;
}

/* ---- bounds ---- */

static void judge_tree(const struct program *program, unsigned chunk, double tree, double basic, double list) {
    double full = (double)program->bytes * (program->checkpoints - 1);
    double least = basic < full ? basic : full;
    least = list < least ? list : least;
    judge("smallest", tree <= BOUND_SMALLEST * least, "of the smallest other", program, chunk, tree / least);
    if (strcmp(program->kind, "message-race") == 0 && chunk == 64)
        judge("list", list >= BOUND_LIST * tree, "times as good as list", program, chunk, list / tree);
    if (program->checkpoints == 20 && full / tree > best_ratio)
        best_ratio = full / tree;
}

/* One chunk size; returns what tree-auto stores, 0 if it was not wanted. */
static double do_chunk(const struct program *program, unsigned chunk) {
    struct oracle oracle;
    double basic = 1e300, tree = 0, packed = 0;
    ask_oracle(program, chunk, &oracle);
    if (is_wanted("basic"))
        basic = do_basic(program, chunk, &oracle);
    if (is_wanted("list"))
        print_line(program, &(struct line){.method = "list",
                                           .chunk = chunk,
                                           .stored = oracle.list_bytes,
                                           .metadata = oracle.list_bytes - (double)oracle.counts.first_bytes,
                                           .over_memcpy = -1});
    if (is_wanted("tree"))
        tree = do_tree(program, "tree", "none", chunk, &oracle);
    if (is_wanted("tree-auto"))
        packed = do_tree(program, "tree-auto", "auto", chunk, &oracle);
    if (tree > 0)
        judge_tree(program, chunk, tree, basic, oracle.list_bytes);
    return packed;
}

static void do_count(const struct program *program) {
    double zstd = 0, least = 0;
    unsigned best = 0;
    if (is_wanted("full"))
        do_full(program);
    if (is_wanted("zstd"))
        zstd = do_zstd(program);
    for (size_t i = 0; i < chunks.count; i++) {
        unsigned chunk = (unsigned)chunks.value[i];
        double packed = do_chunk(program, chunk);
        if (packed > 0 && (best == 0 || packed < least))
            best = chunk, least = packed;
    }
    if (zstd > 0 && best > 0 && program->checkpoints == 20)
        judge("zstd", least < zstd, "times as good as zstd", program, best, zstd / least);
}

static void do_graph(const char *kind) {
    struct program program = {.kind = kind, .most = most};
    program.graph = graph_make(kind, vertices, seed);
    bench_check(program.graph != NULL, kind);
    program.layout = strcmp(layout_name, "orbit") == 0 ? BY_ORBIT : BY_VERTEX;
    program.bytes = (size_t)program.graph->vertices * graphlets_orbits(most) * sizeof *program.vectors;
    program.vectors = bench_pages(program.bytes);
    for (size_t i = 0; i < counts.count; i++) {
        program.checkpoints = (unsigned)counts.value[i];
        program_record(&program);
        do_count(&program);
        program_forget(&program);
    }
    munmap(program.vectors, program.bytes);
    graph_free(program.graph);
}

/* ---- start ---- */

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--check", .flag = &is_check},
    {"--bounds", "smallest,greedy,list,full,zstd", .list = &bounds},
    {"--vertices", .number = &vertices, .least = 1000, .most = 100000000},
    {"--graphs", "message-race,unstructured-mesh,road,bubbles,delaunay", .list = &only_graphs},
    {"--methods", "full,basic,list,tree,tree-auto,zstd", .list = &only_methods},
    {"--chunks", "BYTES,...", .numbers = &chunks, .least = 1},
    {"--checkpoints", "N,...", .numbers = &counts, .least = 2, .most = CHECKPOINTS_MAX},
    {"--layout", "vertex|orbit", .choice = &layout_name},
    {"--most", .number = &most, .least = 2, .most = 5},
    {"--seed", .number = &seed},
    {"--settings", "TEXT", .text = &more_settings},
    {0},
};

int main(int argc, char **argv) {
    options_read(command_line, argc, argv);
    for (size_t i = 0; i < sizeof graph_kinds / sizeof graph_kinds[0]; i++)
        if (options_has(only_graphs, graph_kinds[i]))
            do_graph(graph_kinds[i]);
    if (best_ratio > 0 && options_has(bounds, "full")) {
        fprintf(stderr, "%s: 20 checkpoints: %.4g times smaller than full on the best graph\n",
                best_ratio >= BOUND_FULL ? "kept" : "NOT KEPT", best_ratio);
        has_failed |= best_ratio < BOUND_FULL;
    }
    return is_check && has_failed;
}
