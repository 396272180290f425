/* A checkpoint of some ranks that comes back on others: what is read, and how long it takes.
 *
 *   mpirun -n N bench-elastic --save FOLDER
 *   mpirun -n M bench-elastic [--json] [--columns] [--size MIB] [--row BYTES] [--settings TEXT] FOLDER
 *
 * One array of numbers that do not repeat, --size MiB in all (512), rows of 64 KiB or --row bytes, stored as it is. The
 * ranks that save it have rows of it; those that restart have rows, or with --columns columns, which is a bad turn:
 * each wants a part of every row. The shorter the rows, the more parts. Save and restart with the same --row.
 *
 *   read_over_needed   bytes read by all ranks, over those of the array; and the same without 1 MiB for each rank
 *   restart            seconds, from when all ranks begin until all are done, opening the store included
 *   cold_read          seconds that as many ranks take to read all files of the store, with nothing but read()
 *   bytes_added        memory of a rank beside its part of the array, at most and of the rank with most; what ranks
 *                      share counts in each that has touched it
 *
 * Every element is compared. The store stays in FOLDER until the next --save. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "cold_files.h"
#include "options.h"
#include "ranks.h"
#include "together.h"

static const char *folder = ".", *more_settings = "";
static size_t size = 512 * BENCH_MIB, row = 65536;
static int is_json, is_saving, is_by_columns;
static char store[3100];

struct block {
    struct varve_array array;
    uint64_t *data;
    size_t bytes;
};

static struct varve_dim share(uint64_t all) {
    uint64_t first = all * ranks_own() / ranks_all(), end = all * (ranks_own() + 1) / ranks_all();
    return (struct varve_dim){.local = end - first, .first = first, .global = all};
}

static struct block new_block(void) {
    struct block block = {.array = {.size = sizeof block.array, .type = VARVE_U64, .dims = 2}};
    uint64_t rows = size / row;
    block.array.dim[0] = is_by_columns ? (struct varve_dim){rows, 0, rows} : share(rows);
    block.array.dim[1] = is_by_columns ? share(row / 8) : (struct varve_dim){row / 8, 0, row / 8};
    block.bytes = block.array.dim[0].local * block.array.dim[1].local * 8;
    block.data = bench_pages(block.bytes + 1);
    return block;
}

/* Fill it, or compare it: how many elements are not what they should be. */
static uint64_t each_element(const struct block *block, int is_filled) {
    const struct varve_dim *rows = &block->array.dim[0], *columns = &block->array.dim[1];
    uint64_t *at = block->data, wrong = 0;
    for (uint64_t y = 0; y < rows->local; y++)
        for (uint64_t x = 0; x < columns->local; x++, at++) {
            uint64_t place = (rows->first + y) * (row / 8) + columns->first + x;
            uint64_t value = place;
            value = bench_random(&value);
            wrong += is_filled && *at != value;
            if (!is_filled)
                *at = value;
        }
    return wrong;
}

static struct varve_session *open_session(const struct block *block) {
    char settings[1024];
    snprintf(settings, sizeof settings, "keep=all,codec=none%s%s", *more_settings ? "," : "", more_settings);
    struct varve_session *session = together_open(store, "elastic", settings);
    together_check(session, varve_protect_array(session, "field", block->data, &block->array), "protect");
    return session;
}

static void save(void) {
    struct block block = new_block();
    together_make_folder(store);
    each_element(&block, 0);
    struct varve_session *session = open_session(&block);
    together_check(session, varve_checkpoint(session, 1), "checkpoint");
    together_check(session, varve_wait(session), "wait");
    together_check(session, varve_close(session), "close");
    munmap(block.data, block.bytes + 1);
}

static void restart(void) {
    struct block block = new_block();
    struct vv_details d;
    double cold = cold_files_read(store);
    together_cool(store);
    double peak = (double)bench_peak_anew(), begin = ranks_start(), cpu = bench_cpu();
    struct varve_session *session = open_session(&block);
    together_check(session, varve_restart(session, VARVE_LATEST, NULL), "restart");
    double seconds = ranks_stop(begin), used = ranks_sum(bench_cpu() - cpu);
    peak = (double)bench_peak() - peak;
    double added = ranks_most(peak - (double)block.bytes);
    peak = ranks_most(peak / (double)(block.bytes ? block.bytes : 1));
    together_check(session, vv_details_get(session, &d), "statistics");
    double read = ranks_sum((double)d.restart_bytes_read), spare = (double)BENCH_MIB * ranks_all();
    bench_check(each_element(&block, 1) == 0, "an element is wrong");
    together_check(session, varve_close(session), "close");
    munmap(block.data, block.bytes + 1);
    if (ranks_own() != 0)
        return;
    printf(is_json ? "{\"bench\":\"elastic\",\"ranks\":%u,\"turn\":\"%s\",\"bytes\":%zu,\"read_over_needed\":%.4f,"
                     "\"read_over_needed_spare\":%.4f,\"seconds_restart\":%.4f,\"seconds_cold_read\":%.4f,"
                     "\"restart_over_cold_read\":%.4f,\"seconds_cpu\":%.4f,\"peak_over_protected\":%.4f,"
                     "\"bytes_added\":%.0f}\n"
                   : "%u ranks, to %s, %zu bytes: read %.3f of them (%.3f without 1 MiB a rank), restart %.3f s, cold "
                     "read %.3f s (%.3f of it), processor %.3f s, memory %.3f of what is protected, %.1f MiB more\n",
           ranks_all(), is_by_columns ? "columns" : "rows", size, read / (double)size, (read - spare) / (double)size,
           seconds, cold, seconds / cold, used, peak, is_json ? added : added / (double)BENCH_MIB);
}

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--save", .flag = &is_saving},
    {"--columns", .flag = &is_by_columns},
    {"--size", .size = &size, .least = BENCH_MIB},
    {"--row", .bytes = &row, .least = 8, .step = 8},
    {"--settings", "TEXT", .text = &more_settings},
    {"FOLDER", .text = &folder},
    {0},
};

int main(int argc, char **argv) {
    ranks_begin(&argc, &argv);
    options_read(command_line, argc, argv);
    options_demand(command_line, size % row == 0, "--size is not a number of whole rows");
    together_lock(folder);
    snprintf(store, sizeof store, "%s/bench-elastic.store", folder);
    (is_saving ? save : restart)();
    ranks_end();
    return 0;
}
