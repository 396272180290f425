/* A restart reads each block that it needs once, however scattered the runs are over the blocks of many packs: with
 * room to keep book of all runs, with too little (then only blocks of a single pack that has too many runs are read
 * again), and on several ranks together.
 *
 * The program is linked with --wrap=vv_backend_get, so that every read of the storage is seen; what is needed comes
 * from the manifest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "base/log.h"
#include "folder.h"
#include "group.h"
#include "read/view_private.h"
#include "storage/storage.h"
#include "store/block_decode.h"
#include "test.h"

#define SIZE (2u << 20)
#define CHUNK 64u
#define CHUNKS (SIZE / CHUNK)
#define VERSIONS 8
#define EDITS 2500
#define READS_MOST 65536u
#define NEEDS_MOST 4096u
#define RANKS_MOST 4
#define BLOCKS "block_size=64K,space=0,keep=0,fine=64,fine_share=1,"

struct read {
    char key[VV_KEY_CAPACITY];
    uint64_t offset, size;
};

/* Shared with the ranks. */
struct board {
    int is_watched;
    unsigned reads, decodes;
    struct read read[READS_MOST];
    uint8_t content[RANKS_MOST][SIZE]; /* of the last version */
};

static struct board *board;
static char folder[64];

__typeof__(vv_backend_get) __real_vv_backend_get, __wrap_vv_backend_get;
__typeof__(vv_block_decode) __real_vv_block_decode, __wrap_vv_block_decode;

/* Wrappers, and what asks other ranks, call it again or not at all: calls of the folder itself count. */
static const struct varve_backend_ops *folder_ops;

int64_t __wrap_vv_backend_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data,
                              size_t size) {
    int64_t got = __real_vv_backend_get(backend, key, offset, data, size);
    if (got > 0 && board->is_watched && backend->ops == folder_ops) {
        unsigned at = __atomic_fetch_add(&board->reads, 1, __ATOMIC_RELAXED);
        if (at < READS_MOST) {
            snprintf(board->read[at].key, sizeof board->read[at].key, "%s", key);
            board->read[at].offset = offset;
            board->read[at].size = (uint64_t)got;
        }
    }
    return got;
}

int __wrap_vv_block_decode(struct vv_coders *coders, const char *key, const struct vv_block *block, const void *stored,
                           void *raw, struct varve_error *error) {
    if (board->is_watched)
        __atomic_fetch_add(&board->decodes, 1, __ATOMIC_RELAXED);
    return __real_vv_block_decode(coders, key, block, stored, raw, error);
}

/* ---- a store ---- */

struct random {
    uint64_t state;
};

static uint64_t draw(struct random *random) {
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return random->state >> 24;
}

static void draw_chunk(struct random *random, uint8_t *chunk) {
    for (unsigned i = 0; i < CHUNK; i++)
        chunk[i] = (uint8_t)(draw(random) % 23); /* something to compress */
}

/* Chunks all over the region get new bytes, or those of another chunk. */
static void edit(struct random *random, uint8_t *memory, unsigned edits) {
    for (unsigned i = 0; i < edits; i++) {
        uint8_t *to = memory + draw(random) % CHUNKS * CHUNK;
        if (i % 8 == 0)
            memmove(to, memory + draw(random) % CHUNKS * CHUNK, CHUNK);
        else
            draw_chunk(random, to);
    }
}

struct job {
    uint32_t ranks;
    unsigned edits; /* per version */
    int is_restart;
    const char *settings;
};

#define need(session, expression)                                                                                      \
    do {                                                                                                               \
        if ((expression) != 0)                                                                                         \
            return #expression;                                                                                        \
    } while (0)

/* What one process does; NULL, or what failed. */
static const char *live(const struct job *job, struct varve_session *session, uint32_t rank, uint8_t *memory) {
    struct random common = {7}, own = {rank + 100};
    need(session, varve_protect(session, "field", memory, SIZE));
    if (job->is_restart) {
        need(session, varve_restart(session, VARVE_LATEST, NULL));
        return memcmp(memory, board->content[rank], SIZE) ? "the bytes are not those of the checkpoint" : NULL;
    }
    for (size_t at = 0; at < SIZE; at += CHUNK)
        draw_chunk(&common, memory + at);
    for (int version = 0; version < VERSIONS; version++) {
        if (version)
            edit(&own, memory, job->edits);
        need(session, varve_checkpoint(session, version));
        need(session, varve_wait(session));
    }
    memcpy(board->content[rank], memory, SIZE);
    return NULL;
}

static const char *open_and_live(const struct job *job, struct varve_comm *comm, uint32_t rank) {
    static char text[512];
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    uint8_t *memory = calloc(1, SIZE);
    char settings[256];
    snprintf(settings, sizeof settings, BLOCKS "%s", job->settings);
    options.settings = settings;
    int rc = comm ? varve_open_comm(group_comm(comm), folder, "fine", &options, &session, &error)
                  : varve_open(folder, "fine", &options, &session, &error);
    if (rc) {
        snprintf(text, sizeof text, "%s", error.text);
        return text;
    }
    const char *failed = live(job, session, rank, memory);
    if (failed) {
        snprintf(text, sizeof text, "%s: %.300s", failed, varve_session_error(session)->text);
        return text;
    }
    free(memory);
    return varve_close(session) ? "close" : NULL;
}

static void be_rank(struct varve_comm *comm, void *arg) {
    const char *failed = open_and_live(arg, comm, comm->rank);
    if (failed)
        group_fail(comm, "%s", failed);
}

static void run(const struct job *job) {
    board->is_watched = job->is_restart;
    board->reads = board->decodes = 0;
    if (job->ranks == 1) {
        const char *failed = open_and_live(job, NULL, 0);
        if (failed)
            fail_msg("%s", failed);
    } else
        group_must_run(job->ranks, be_rank, job, NULL, NULL);
    board->is_watched = 0;
    assert_in_range(board->reads, 0, READS_MOST);
}

/* ---- what is needed ---- */

struct block {
    char key[VV_KEY_CAPACITY];
    uint64_t offset, size;
    uint64_t version; /* of its pack */
    int is_coded;
    unsigned times; /* it was read */
};

struct needs {
    struct vv_view *view;
    uint64_t runs;
    size_t count;
    struct block block[NEEDS_MOST];
};

static int add_need(void *arg, const struct vv_block_piece *piece) {
    struct needs *needs = arg;
    struct vv_pack_id id = vv_view_pack(needs->view, piece->source, piece->writer);
    char key[VV_KEY_CAPACITY];
    vv_pack_key(&id, VV_KIND_PACK, 0, key);
    for (size_t i = 0; i < needs->count; i++)
        if (needs->block[i].offset == piece->block->offset && strcmp(needs->block[i].key, key) == 0)
            return 0;
    assert_in_range(needs->count, 0, NEEDS_MOST - 1);
    struct block *block = &needs->block[needs->count++];
    *block = (struct block){.offset = piece->block->offset,
                            .size = piece->block->stored,
                            .version = id.attempt.version,
                            .is_coded = piece->block->codec != 0};
    snprintf(block->key, sizeof block->key, "%s", key);
    return 0;
}

static void look_up_needs(struct needs *needs, uint32_t ranks) {
    struct vv_log log = {.level = VV_LOG_ERROR, .rank = -1};
    struct varve_error error = {0};
    struct varve_backend *backend = NULL;
    struct vv_store *store = NULL;
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    struct vv_run run;
    assert_int_equal(vv_backend_open(folder, NULL, &backend, &error), 0);
    assert_int_equal(vv_store_open(backend, VV_STORE_READ, &log, &store, &error), 0);
    assert_int_equal(vv_view_open(store, "fine", 1, VERSIONS - 1, &needs->view, &error), 0);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        assert_int_equal(vv_recipe_open(needs->view, rank, &recipe, &error), 0);
        while (vv_recipe_next_region(recipe, &region, &error) > 0)
            while (vv_recipe_next_run(recipe, &run, &error) > 0) {
                needs->runs++;
                assert_int_equal(vv_view_blocks(needs->view, &run, add_need, needs, &error), 0);
            }
        vv_recipe_close(recipe);
    }
    vv_view_close(needs->view);
    vv_store_close(store);
}

/* The end of every pack is read for its footer, with some bytes before it that may be a block: that does not count. */
static uint64_t end_of(const char *key) {
    uint64_t end = 0;
    for (unsigned i = 0; i < board->reads; i++) {
        uint64_t to = board->read[i].offset + board->read[i].size;
        end = to > end && strcmp(board->read[i].key, key) == 0 ? to : end;
    }
    return end;
}

static void count_reads(struct needs *needs) {
    for (size_t i = 0; i < needs->count; i++) {
        struct block *block = &needs->block[i];
        uint64_t end = end_of(block->key);
        block->times = 0;
        for (unsigned k = 0; k < board->reads; k++) {
            const struct read *read = &board->read[k];
            uint64_t to = read->offset + read->size;
            block->times += read->offset <= block->offset && block->offset + block->size <= to && to != end &&
                            strcmp(read->key, block->key) == 0;
        }
    }
}

static struct needs *new_needs(uint32_t ranks) {
    struct needs *needs = calloc(1, sizeof *needs);
    assert_non_null(needs);
    look_up_needs(needs, ranks);
    return needs;
}

/* ---- tests ---- */

static int make_folder(void **state) {
    struct varve_backend *backend = NULL;
    struct varve_error error = {0};
    (void)state;
    board = group_memory(sizeof *board);
    if (!board || folder_make("/tmp", "test-fine-restart", folder, sizeof folder) != 0 ||
        vv_backend_open(folder, NULL, &backend, &error) != 0)
        return -1;
    folder_ops = backend->ops;
    vv_backend_close(backend);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    group_memory_free(board, sizeof *board);
    return folder_remove(folder);
}

static void assert_once(const char *settings) {
    struct job job = {.ranks = 1, .edits = EDITS, .settings = settings};
    size_t coded = 0;
    run(&job);
    job.is_restart = 1;
    run(&job);
    struct needs *needs = new_needs(1);
    count_reads(needs);
    assert_in_range(needs->runs, 4 * EDITS, UINT32_MAX); /* they are scattered indeed */
    assert_in_range(needs->count, SIZE / (64u << 10) + VERSIONS, NEEDS_MOST);
    for (size_t i = 0; i < needs->count; i++) {
        coded += needs->block[i].is_coded != 0;
        if (needs->block[i].times != 1)
            fail_msg("%s: block at %llu of %s was read %u times", settings, (unsigned long long)needs->block[i].offset,
                     needs->block[i].key, needs->block[i].times);
    }
    assert_int_equal(board->decodes, coded);
    free(needs);
}

static void once_as_it_is(void **state) {
    (void)state;
    assert_once("codec=none");
}

static void once_compressed(void **state) {
    (void)state;
    assert_once("codec=zstd,threads=0");
}

/* A megabyte to keep book of runs holds some 12000 of them. Packs are taken in turns, each in one batch: only one that
 * alone has more is read in several, here that of the first version, in two or three. */
static void small_window(void **state) {
    (void)state;
    struct job job = {.ranks = 1, .edits = EDITS, .settings = "codec=zstd"};
    unsigned again = 0;
    run(&job);
    job = (struct job){.ranks = 1, .edits = EDITS, .settings = "codec=zstd,restart_window=1M", .is_restart = 1};
    run(&job);
    struct needs *needs = new_needs(1);
    count_reads(needs);
    assert_in_range(needs->runs, 20000, UINT32_MAX); /* they do not fit */
    for (size_t i = 0; i < needs->count; i++) {
        assert_in_range(needs->block[i].times, 1, needs->block[i].version ? 1 : 3);
        again += needs->block[i].times - 1;
    }
    print_message("%llu runs, %zu blocks, %u reads again\n", (unsigned long long)needs->runs, needs->count, again);
    free(needs);
}

/* All ranks begin with the same, and each changes chunks of its own: with few of them, most blocks of the first version
 * are needed by all, and passed on. With many, half of what a rank needs is its own: then ranks read for themselves,
 * since passing on costs time as well, each of them every block once. */
static void assert_once_together(unsigned edits, unsigned most, const char *settings) {
    struct job job = {.ranks = 3, .edits = edits, .settings = settings};
    run(&job);
    job.is_restart = 1;
    run(&job);
    struct needs *needs = new_needs(3);
    count_reads(needs);
    for (size_t i = 0; i < needs->count; i++)
        if (needs->block[i].times > most) /* 0: ranks keep what was read with the footer of a small pack */
            fail_msg("%s: block at %llu of %s was read %u times", settings, (unsigned long long)needs->block[i].offset,
                     needs->block[i].key, needs->block[i].times);
    free(needs);
}

static void once_together(void **state) {
    (void)state;
    assert_once_together(EDITS, 3, "codec=none,dedup=exact");
}

static void once_shared(void **state) {
    (void)state;
    assert_once_together(EDITS / 500, 1, "codec=zstd,dedup=exact");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(once_as_it_is), TEST(once_compressed), TEST(small_window),
                                       TEST(once_together), TEST(once_shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
