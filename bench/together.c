/* Sessions of many ranks, and counting duplicates without the library. */
#include "together.h"
#include "details.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "bench.h"
#include "ranks.h"

/* ---- sessions ---- */

void together_check(const struct varve_session *session, int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "rank %u: %s: %s\n", ranks_own(), what, varve_session_error(session)->text);
        exit(1);
    }
}

void together_make_folder(const char *path) {
    if (ranks_own() == 0) {
        bench_remove(path);
        bench_check(mkdir(path, 0700) == 0, path);
    }
    ranks_meet();
}

void together_remove_folder(const char *path) {
    ranks_meet();
    if (ranks_own() == 0)
        bench_remove(path);
    ranks_meet();
}

double together_folder_bytes(const char *path) {
    ranks_meet();
    double bytes = ranks_own() == 0 ? (double)bench_bytes(path) : 0;
    return ranks_sum(bytes);
}

void together_cool(const char *path) {
    ranks_meet();
    if (ranks_own() == 0)
        bench_cool(path);
    ranks_meet();
}

void together_lock(const char *folder) {
    if (ranks_own() == 0) {
        int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bench_check(fd >= 0, folder);
        bench_check(flock(fd, LOCK_EX | LOCK_NB) == 0, "another benchmark works in this folder");
    }
    ranks_meet();
}

struct varve_session *together_open(const char *store, const char *name, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    options.settings = settings;
    if (ranks_open(store, name, &options, &session, &error) != 0) {
        fprintf(stderr, "rank %u: open: %s\n", ranks_own(), error.text);
        exit(1);
    }
    return session;
}

double together_writers(const struct vv_details *stats) {
    double writers = ranks_most(stats->writers);
    return writers > 0 ? writers : ranks_all();
}

static void sum_up(struct saved *saved) {
    const struct vv_details *stats = &saved->stats;
    saved->changed = ranks_sum((double)stats->bytes_changed);
    saved->fresh = ranks_sum((double)stats->bytes_new);
    saved->data = ranks_sum((double)stats->bytes_stored);
    saved->metadata = ranks_sum((double)stats->bytes_metadata);
    saved->elsewhere = ranks_sum((double)stats->bytes_elsewhere);
    saved->own = (double)(stats->bytes_stored + stats->bytes_metadata);
    saved->written_most = ranks_most(saved->own);
    saved->writers = together_writers(stats);
    double all = ranks_sum(saved->own);
    saved->over_mean = all > 0 ? saved->written_most * saved->writers / all : 1;
    saved->named = ranks_most(stats->seconds_named);
    saved->exchange = ranks_most(stats->seconds_exchange);
    saved->messages = ranks_most((double)stats->exchange_messages);
    saved->bytes = ranks_most((double)stats->exchange_bytes);
}

struct saved together_save(struct varve_session *session, const char *folder, int64_t version) {
    struct saved saved = {0};
    double before = together_folder_bytes(folder), begin = ranks_start(), cpu = bench_cpu();
    together_check(session, varve_checkpoint(session, version), "checkpoint");
    saved.blocked = bench_now() - begin;
    together_check(session, varve_wait(session), "wait");
    saved.durable = ranks_stop(begin);
    saved.cpu = ranks_sum(bench_cpu() - cpu);
    saved.blocked = ranks_most(saved.blocked);
    together_check(session, vv_details_get(session, &saved.stats), "stats");
    saved.growth = together_folder_bytes(folder) - before;
    sum_up(&saved);
    if (saved.growth < saved.data) {
        fprintf(stderr, "the statistics say that %.0f bytes were stored, but the store has grown by %.0f\n", saved.data,
                saved.growth);
        exit(1);
    }
    return saved;
}

/* ---- chunks ---- */

size_t chunks_in(size_t size) {
    return (size + CHUNK - 1) / CHUNK;
}

static uint64_t turn(uint64_t x, unsigned by) {
    return x << by | x >> (64 - by);
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ (x >> 32);
}

/* Two sums that every word goes through; one of both would do. A shorter chunk has another name than one filled up with
 * zeros. */
static struct chunk_name name_chunk(const uint8_t *bytes, size_t size) {
    struct chunk_name name = {size, ~(uint64_t)size};
    uint64_t any = 0;
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, size - at < 8 ? size - at : 8);
        any |= word;
        name.a = turn(name.a ^ word, 29) * UINT64_C(0x9E3779B97F4A7C15);
        name.b = (turn(name.b, 23) + word) * UINT64_C(0xC2B2AE3D27D4EB4F) + at;
    }
    return any ? (struct chunk_name){mix(name.a), mix(name.b) | 1} : (struct chunk_name){0, 0};
}

void chunks_name(const void *memory, size_t size, struct chunk_name *out) {
    const uint8_t *bytes = memory;
    for (size_t at = 0; at < size; at += CHUNK)
        *out++ = name_chunk(bytes + at, size - at < CHUNK ? size - at : CHUNK);
}

void chunks_add(struct chunks *chunks, const struct chunk_name *names, size_t count) {
    if (chunks->count + count > chunks->capacity) {
        chunks->capacity = (chunks->count + count) * 2;
        chunks->names = realloc(chunks->names, chunks->capacity * sizeof *names);
        bench_check(chunks->names != NULL, "memory");
    }
    memcpy(chunks->names + chunks->count, names, count * sizeof *names);
    chunks->count += count;
}

void chunks_clear(struct chunks *chunks) {
    free(chunks->names);
    *chunks = (struct chunks){0};
}

static int compare_names(const void *left, const void *right) {
    const struct chunk_name *x = left, *y = right;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

static void take_names(void *arg, unsigned rank, const void *data, size_t size) {
    (void)rank;
    chunks_add(arg, data, size / sizeof(struct chunk_name));
}

struct chunk_sums chunks_sum(const struct chunks *own) {
    struct chunks all = {0};
    struct chunk_sums sums = {0, 0};
    ranks_collect(own->names, own->count * sizeof *own->names, take_names, &all);
    if (all.count > 0)
        qsort(all.names, all.count, sizeof *all.names, compare_names);
    for (size_t i = 0; i < all.count; i++) {
        const struct chunk_name *name = &all.names[i];
        if ((name->a | name->b) == 0)
            continue;
        sums.total++;
        sums.unique += i == 0 || compare_names(name, name - 1) != 0;
    }
    chunks_clear(&all);
    return (struct chunk_sums){ranks_sum(sums.total), ranks_sum(sums.unique)};
}
