/* Allocates by chance, before and after varve_restart, in several threads; all chance comes from a seed. What each of
 * its large blocks must hold at each step follows from the seed, so every byte is compared after a restart.
 *
 *     preload-chance STORE SEED KILL_AT TWIST
 *
 * TWIST makes this run another one than the seed says: 1 a block has another size, 2 one block more, 3 one less, 4 two
 * blocks of different size in another order, 5 a block that is made after the restart stays until the checkpoint, 6 a
 * thread beside the first keeps two blocks. Exit code: 0 done; 4 the restart was refused; 5 a checkpoint was; 9 a byte
 * was wrong. It kills itself at step KILL_AT, if there is one. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve.h>

#define BLOCKS 24
#define STEPS 8

static uint64_t seed;
static int twist;

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15u)) + 0x632be59bd9b4e019u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t next(uint64_t *state) {
    return *state = mix(*state, 1);
}

struct block {
    unsigned char *ptr;
    size_t size;
};

static struct block blocks[BLOCKS];
static int block_count;

/* When the block was last written at or before this step; -1: at the start. */
static int last_written(int k, int step) {
    for (; step >= 0; step--)
        if (mix(mix(seed, (uint64_t)k), 1000 + (uint64_t)step) % 3 == 0)
            return step;
    return -1;
}

static uint64_t word_at(int k, int step, size_t i) {
    return mix(mix(seed ^ 77, (uint64_t)k), mix((uint64_t)(step + 1), i));
}

static void write_block(int k, int step) {
    for (size_t i = 0; i < blocks[k].size; i += 8) {
        uint64_t word = word_at(k, step, i);
        memcpy(blocks[k].ptr + i, &word, blocks[k].size - i < 8 ? blocks[k].size - i : 8);
    }
}

static void compare_block(int k, int step) {
    for (size_t i = 0; i < blocks[k].size; i += 8) {
        uint64_t word = word_at(k, last_written(k, step), i);
        if (memcmp(blocks[k].ptr + i, &word, blocks[k].size - i < 8 ? blocks[k].size - i : 8) == 0)
            continue;
        fprintf(stderr, "block %d, byte %zu of %zu is wrong at step %d\n", k, i, blocks[k].size, step);
        exit(9);
    }
}

/* ---- allocating ---- */

/* Twice: what threads allocate at a place of the first thread cannot be told from its blocks. */
#define TAKE(name, other)                                                                                              \
    static __attribute__((noinline)) void *name(uint64_t *chance, size_t size) {                                       \
        void *ptr = NULL;                                                                                              \
        switch ((next(chance) + other) % 6) { /* or they would be folded into one */                                   \
        case 0:                                                                                                        \
            return malloc(size);                                                                                       \
        case 1:                                                                                                        \
            return calloc(1, size);                                                                                    \
        case 2:                                                                                                        \
            return posix_memalign(&ptr, (size_t)64 << (next(chance) % 11), size) == 0 ? ptr : NULL;                    \
        case 3:                                                                                                        \
            return realloc(malloc(size / 2 + 1), size);                                                                \
        case 4:                                                                                                        \
            return realloc(malloc(size + 100000), size);                                                               \
        default:                                                                                                       \
            return aligned_alloc(4096, (size + 4095) / 4096 * 4096);                                                   \
        }                                                                                                              \
    }
TAKE(take, 0)
TAKE(take_in_thread, 1)

static size_t size_of(uint64_t *chance) {
    return next(chance) % 4 == 0 ? 1000 + next(chance) % 60000 : 65536 + next(chance) % 300000;
}

static void keep(uint64_t *chance) {
    size_t size = size_of(chance);
    void *ptr = take(chance, size);
    for (int i = 0; i < 3; i++) /* others come and go */
        free(take(chance, size_of(chance)));
    if (!ptr)
        exit(8);
    blocks[block_count++] = (struct block){ptr, size};
}

/* A thread that allocates, and compares what it has written. */
static void *churn(void *arg) {
    uint64_t chance = mix(seed, (uint64_t)(uintptr_t)arg);
    struct block own[8] = {{NULL, 0}};
    for (int i = 0; i < 20; i++) {
        struct block *b = &own[next(&chance) % 8];
        for (size_t j = 0; b->ptr && j < b->size; j += 997)
            if (b->ptr[j] != (unsigned char)(b->size + j))
                exit(9);
        free(b->ptr);
        b->size = size_of(&chance);
        b->ptr = take_in_thread(&chance, b->size);
        for (size_t j = 0; b->ptr && j < b->size; j += 997)
            b->ptr[j] = (unsigned char)(b->size + j);
    }
    for (int i = 0; i < 8; i++)
        free(own[i].ptr);
    return NULL;
}

static void *keep_here(void *arg) {
    struct block *b = arg;
    b->size = 100000;
    b->ptr = malloc(b->size);
    return NULL;
}

static void run_threads(uint64_t salt) {
    pthread_t threads[2];
    for (uint64_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)(salt * 2 + i));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* One block of another thread is allowed: nothing else is made there. */
static void keep_in_threads(void) {
    static struct block more;
    pthread_t thread;
    for (int i = 0; i < (twist == 6 ? 2 : 1); i++) {
        pthread_create(&thread, NULL, keep_here, i ? &more : &blocks[block_count]);
        pthread_join(thread, NULL);
    }
    block_count++;
}

static void keep_fixed(void *ptr, size_t size) {
    blocks[block_count++] = (struct block){ptr, ptr ? size : 0};
}

static void *volatile one_more; /* stays */

static void make_all(void) {
    uint64_t chance = mix(seed, 5);
    int count = 8 + (int)(next(&chance) % (BLOCKS - 8));
    size_t first = twist == 4 ? 80000 : twist == 1 ? 70001 : 70000, second = twist == 4 ? 70000 : 80000;
    keep_fixed(malloc(first), first);
    keep_fixed(twist == 3 ? NULL : malloc(second), second);
    keep_in_threads();
    while (block_count < count)
        keep(&chance);
    one_more = twist == 2 ? malloc(90000) : NULL;
    for (int k = 0; k < block_count; k++)
        write_block(k, -1);
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    int64_t version = -1;
    if (argc != 5)
        return 2;
    seed = strtoull(argv[2], NULL, 10);
    int kill_at = atoi(argv[3]);
    twist = atoi(argv[4]);
    if (varve_open(argv[1], "chance", NULL, &session, &error) != 0)
        return fprintf(stderr, "open: %s\n", error.text), 3;
    run_threads(1);
    make_all();
    int rc = varve_restart(session, VARVE_LATEST, &version);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return fprintf(stderr, "restart: %s\n", varve_session_error(session)->text), 4;
    fprintf(stderr, "begins at %d\n", (int)version + 1);
    for (int k = 0; k < block_count && rc == 0; k++)
        if (blocks[k].size >= 65536) /* smaller ones are not the library's */
            compare_block(k, (int)version);
        else
            write_block(k, last_written(k, (int)version));
    for (int step = (int)version + 1; step < STEPS; step++) {
        one_more = twist == 5 ? malloc(90000) : one_more;
        run_threads((uint64_t)step + 2);
        for (int k = 0; k < block_count; k++)
            if (last_written(k, step) == step)
                write_block(k, step);
        if (varve_checkpoint(session, step) != 0)
            return fprintf(stderr, "checkpoint: %s\n", varve_session_error(session)->text), 5;
        if (twist == 5)
            free(one_more);
        if (step == kill_at) {
            if (mix(seed, 99) % 2)
                varve_wait(session);
            kill(getpid(), SIGKILL);
        }
    }
    for (int k = 0; k < block_count; k++)
        compare_block(k, STEPS - 1);
    return varve_close(session) == 0 ? 0 : 6;
}
