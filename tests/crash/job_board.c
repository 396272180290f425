/* What the ranks were told, in a file they share with whoever looks at it afterwards. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job.h"

static const char *const names[] = {"nothing", "open",   "checkpoint", "wait",  "stored",
                                    "restart", "reject", "close",      "saved", "keeping"};

static struct job_board *map(const char *path, int flags) {
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    struct job_board *board = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof *board) == 0)
        board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    close(fd);
    return board;
}

struct job_board *job_board_create(const char *path) {
    return map(path, O_CREAT | O_TRUNC);
}

struct job_board *job_board_open(const char *path) {
    return map(path, 0);
}

void job_board_close(struct job_board *board) {
    munmap(board, sizeof *board);
}

static void print_answer(const struct job_answer *answer, char *text, size_t capacity) {
    snprintf(text, capacity, "%s: %s, version %" PRId64 ", error of rank %d, text %08x", names[answer->call % 10],
             varve_error_name(answer->code), answer->version, answer->rank, answer->text);
}

int job_board_compare(const struct job_board *board, char *text, size_t capacity) {
    for (int rank = 1; rank < JOB_RANKS_MAX; rank++) {
        uint64_t count = board->ranks[rank].count;
        if (count > board->ranks[0].count)
            count = board->ranks[0].count;
        for (uint64_t i = 0; i < count; i++) {
            const struct job_answer *first = &board->ranks[0].list[i], *other = &board->ranks[rank].list[i];
            char one[160], two[160];
            if (memcmp(first, other, sizeof *first) == 0)
                continue;
            print_answer(first, one, sizeof one);
            print_answer(other, two, sizeof two);
            snprintf(text, capacity, "answer %" PRIu64 ": rank 0 got %s; rank %d got %s", i, one, rank, two);
            return -1;
        }
    }
    return 0;
}

/* ---- what it promises ---- */

/* The rank that got furthest knows of everything that was promised: all others have the beginning of its list. */
static int furthest(const struct job_board *board) {
    int best = 0;
    for (int rank = 1; rank < JOB_RANKS_MAX; rank++)
        if (board->ranks[rank].count > board->ranks[best].count)
            best = rank;
    return best;
}

void job_after_from(const struct job_board *board, const struct job_plan *plan, struct job_after *out) {
    int rank = furthest(board), is_keeping = 0;
    *out = (struct job_after){.nodes = plan->nodes, .newest = -1};
    memcpy(out->folder, plan->folder, sizeof out->folder);
    for (uint64_t i = 0; i < board->ranks[rank].count; i++) {
        const struct job_answer *answer = &board->ranks[rank].list[i];
        if (answer->call == JOB_KEEPING)
            is_keeping = 1;
        if (answer->call == JOB_SAVED)
            out->newest = out->must[out->count++] = answer->version;
    }
    for (size_t i = 0; i < out->count; i++) {
        if (is_keeping &&
            i + 2 < out->count) /* keep=3 counts the record of a checkpoint that nobody was told about, too */
            out->must[i] = -1;
        for (size_t k = i + 1; k < out->count; k++) /* saved again after going back: look at it once */
            if (out->must[k] == out->must[i])
                out->must[i] = -1;
    }
}
