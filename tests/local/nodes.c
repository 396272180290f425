#include "nodes.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "test.h"

static uint32_t placement[RANKS] = {0, 0, 1, 1};

void nodes_place(int a, int b, int c, int d) {
    placement[0] = (uint32_t)a;
    placement[1] = (uint32_t)b;
    placement[2] = (uint32_t)c;
    placement[3] = (uint32_t)d;
    ranks_place(placement);
}

int node_of(int rank) {
    return (int)placement[rank];
}

/* ---- in the ranks ---- */

int node_open(struct ranks_job *job, const char *settings) {
    char folder[256], address[512], all[256];
    const char *fault = job->is_faulty ? job->plan->fault : NULL, *more = job->plan->settings;
    node_folder(node_of(job->rank), folder, sizeof folder);
    snprintf(address, sizeof address, "file://%s%s%s", folder, fault ? "?fault=" : "", fault ? fault : "");
    snprintf(all, sizeof all, "storage=local%s%s%s%s", more && *more ? "," : "", more ? more : "",
             settings && *settings ? "," : "", settings ? settings : "");
    return rank_open_as(job, address, NULL, all);
}

void node_make_store(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    for (int64_t version = 1; version <= job->plan->value; version++)
        rank_checkpoint(job, version);
    rank_close(job);
}

void node_come_back(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    if (rank_restart(job, VARVE_LATEST) == 0 && job->plan->value > 0)
        rank_checkpoint(job, job->plan->value);
    rank_close(job);
}

/* ---- jobs ---- */

static struct board *other; /* of jobs that ranks_run does not run */

static struct board *other_board(void) {
    if (!other)
        other = group_memory(sizeof *other);
    return other;
}

void nodes_run_dying(const struct plan *plan, int rank) {
    struct group_end end;
    char text[256];
    ranks_run_on(other_board(), plan, &end);
    group_describe(&end, text, sizeof text);
    if (end.first < 0 || (rank >= 0 && end.first != rank) || !WIFSIGNALED(end.status[end.first]) ||
        WTERMSIG(end.status[end.first]) != SIGKILL)
        fail_msg("not the rank that was to be killed: %s", text[0] ? text : "all ended well");
}

int nodes_start(const struct plan *plan) {
    struct board *of = other_board();
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(ranks_run_on(of, plan, NULL) == 0 ? 0 : 1);
    return pid;
}

const struct board *nodes_end(int job, const struct plan *plan) {
    int status = 0;
    assert_int_equal(waitpid(job, &status, 0), job);
    assert_int_equal(status, 0);
    ranks_compare(other, plan);
    return other;
}

/* ---- what lies on a node ---- */

void node_folder(int node, char *out, size_t capacity) {
    snprintf(out, capacity, "%s/node%d", ranks_folder(), node);
}

void node_record_path(int node, uint32_t generation, int64_t version, char *out, size_t capacity) {
    snprintf(out, capacity, "%s/node%d/n/job/record/%08" PRIx32 "%016" PRIx64, ranks_folder(), node, ~generation,
             ~(uint64_t)version);
}

void node_writers_path(int node, uint32_t generation, int64_t version, uint32_t attempt, char *out, size_t capacity) {
    snprintf(out, capacity, "%s/node%d/n/job/data/%08" PRIx32 "/%016" PRIx64 "/%08" PRIx32 "/writers", ranks_folder(),
             node, generation, (uint64_t)version, attempt);
}

void node_pack_path(int node, uint32_t generation, int64_t version, uint32_t attempt, int writer, char *out,
                    size_t capacity) {
    snprintf(out, capacity, "%s/node%d/n/job/data/%08" PRIx32 "/%016" PRIx64 "/%08" PRIx32 "/%08x", ranks_folder(),
             node, generation, (uint64_t)version, attempt, (unsigned)writer);
}

int is_there(const char *path) {
    return access(path, F_OK) == 0;
}

static size_t read_file(const char *path, uint8_t *out, size_t capacity) {
    FILE *file = fopen(path, "rbe");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    size_t size = fread(out, 1, capacity, file);
    fclose(file);
    return size;
}

int node_has_record(int node, uint32_t generation, int64_t version) {
    char path[512];
    uint8_t head[12];
    node_record_path(node, generation, version, path, sizeof path);
    return is_there(path) && read_file(path, head, sizeof head) == sizeof head && head[10] == 7;
}

void remove_file(const char *path) {
    if (unlink(path) != 0)
        fail_msg("%s: %s", path, strerror(errno));
}

void flip_bit(const char *path, long at) {
    FILE *file = fopen(path, "r+be");
    if (!file || fseek(file, at, SEEK_SET) != 0)
        fail_msg("%s: %s", path, strerror(errno));
    int byte = fgetc(file);
    if (byte == EOF || fseek(file, at, SEEK_SET) != 0 || fputc(byte ^ 4, file) == EOF || fclose(file) != 0)
        fail_msg("%s: no byte %ld", path, at);
}

void node_lose(int node) {
    char folder[512];
    node_folder(node, folder, sizeof folder);
    assert_true(is_there(folder));
    assert_int_equal(folder_remove(folder), 0);
}

void node_move(int from, int to) {
    char a[512], b[512];
    node_folder(from, a, sizeof a);
    node_folder(to, b, sizeof b);
    if (rename(a, b) != 0)
        fail_msg("%s: %s", a, strerror(errno));
}

int is_same_file(const char *a, const char *b) {
    static uint8_t one[1 << 16], two[1 << 16];
    size_t size = read_file(a, one, sizeof one);
    return size == read_file(b, two, sizeof two) && memcmp(one, two, size) == 0;
}
