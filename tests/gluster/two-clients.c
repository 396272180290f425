/* The promises of varve_backend.h between two hosts that have mounted the same file system.
 *
 *     two-clients FOLDER-A FOLDER-B [ROUNDS]
 *
 * Both are the same empty folder, through two mounts. One mount alone shows nothing: the kernel puts what happens in a
 * folder into one order, and remembers names that it has made itself. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/thread.h"
#include "storage/storage.h"

#define WORKERS 4

static struct varve_backend *hosts[2];
static int rounds = 300;
static atomic_int failures;

static void check(int is_right, const char *what, int round, int result) {
    if (is_right)
        return;
    if (atomic_fetch_add(&failures, 1) < 20)
        printf("wrong: %s, round %d: %d\n", what, round, result);
}

/* ---- one of many creators wins ---- */

struct worker {
    pthread_barrier_t *barrier;
    int number;
    int *results; /* of each round */
};

static void race_key(int round, char out[64]) {
    snprintf(out, 64, "n/x/claim/%08x", (unsigned)round);
}

static void *race(void *arg) {
    struct worker *worker = arg;
    for (int round = 0; round < rounds; round++) {
        char key[64], text[16];
        race_key(round, key);
        snprintf(text, sizeof text, "%d", worker->number);
        struct varve_upload *upload = NULL;
        int result = vv_backend_create(hosts[worker->number % 2], key, strlen(text), &upload);
        int written = result < 0 ? result : vv_backend_upload_write(upload, text, strlen(text));
        pthread_barrier_wait(worker->barrier);
        if (result == 0)
            result = vv_backend_upload_commit(upload);
        worker->results[round] = written < 0 ? written : result;
    }
    return NULL;
}

static void check_winner(const struct worker *workers, int round) {
    int winners = 0, winner = -1;
    char key[64], text[16] = "";
    race_key(round, key);
    for (int i = 0; i < WORKERS; i++) {
        int result = workers[i].results[round];
        check(result == 0 || result == -EEXIST, "neither made nor refused", round, result);
        winners += result == 0;
        winner = result == 0 ? i : winner;
    }
    check(winners == 1, "number of winners", round, winners);
    for (int host = 0; host < 2; host++) {
        int64_t size = vv_backend_get(hosts[host], key, 0, text, sizeof text);
        check(size > 0, "what was made cannot be read", round, (int)size);
        check(size <= 0 || atoi(text) == winner, "the content is not the winner's", round, atoi(text));
    }
}

static void one_of_many_creators_wins(void) {
    struct worker workers[WORKERS];
    pthread_t threads[WORKERS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.barrier = &barrier, .number = i, .results = calloc((size_t)rounds, sizeof(int))};
        if (!workers[i].results || pthread_create(&threads[i], NULL, race, &workers[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int round = 0; round < rounds; round++)
        check_winner(workers, round);
    for (int i = 0; i < WORKERS; i++)
        free(workers[i].results);
    pthread_barrier_destroy(&barrier);
}

/* ---- what one host has made, the other one sees ---- */

static int take(void *arg, const char *name, int is_prefix) {
    (void)is_prefix;
    if (strcmp(name, *(const char **)arg) == 0)
        *(const char **)arg = NULL;
    return 0;
}

static void what_is_made_is_seen(void) {
    for (int round = 0; round < rounds; round++) {
        char name[16], key[64];
        uint64_t size = 0;
        const char *wanted = name;
        struct varve_backend *maker = hosts[round % 2], *other = hosts[1 - round % 2];
        snprintf(name, sizeof name, "%08x", (unsigned)round);
        snprintf(key, sizeof key, "n/x/record/%s", name);
        int result = vv_backend_stat(other, key, &size);
        check(result == -ENOENT, "there before it was made", round, result);
        result = vv_backend_put(maker, key, "12345", 5);
        check(result == 0, "put", round, result);
        result = vv_backend_list(other, "n/x/record", NULL, 0, take, &wanted);
        check(result == 0 && !wanted, "not listed by the other", round, result);
        result = vv_backend_stat(other, key, &size);
        check(result == 0 && size == 5, "not found by the other", round, result);
        if (round % 3 == 0) {
            result = vv_backend_remove(other, key);
            check(result == 0, "remove", round, result);
        }
    }
}

/* ---- what is replaced by one host is whole for the other ---- */

static void *replace(void *arg) {
    char data[3000];
    for (int round = 1; round < rounds; round++) {
        memset(data, 'a' + round % 26, sizeof data);
        int result = vv_backend_replace(hosts[0], "n/x/beat/1", data, 1000 + 70 * (size_t)(round % 26));
        check(result == 0, "replace", round, result);
        vv_sleep_ms(round % 7 ? 3 : 200);
    }
    atomic_store((atomic_int *)arg, 1);
    return NULL;
}

static void look_at_heartbeat(int round) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    int result = vv_backend_get_all(hosts[1], "n/x/beat/1", 5000, &buf);
    check(result == 0, "cannot be read while it is replaced", round, result);
    for (size_t i = 0; result == 0 && i < buf.size; i++)
        check(buf.data[i] == buf.data[0], "a mixture", round, (int)i);
    if (result == 0)
        check(buf.size == 1000 + 70 * (size_t)(buf.data[0] - 'a'), "not whole", round, (int)buf.size);
    vv_buf_clear(&buf);
}

static void *look_on(void *arg) {
    for (int round = 0; !atomic_load((atomic_int *)arg); round++) {
        look_at_heartbeat(round);
        vv_sleep_ms(1);
    }
    return NULL;
}

static void what_is_replaced_is_whole(void) {
    static atomic_int is_over;
    char first[1000];
    pthread_t threads[WORKERS];
    memset(first, 'a', sizeof first);
    check(vv_backend_replace(hosts[0], "n/x/beat/1", first, sizeof first) == 0, "replace", 0, 0);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, i == 0 ? replace : look_on, &is_over) != 0)
            exit(2);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- a sweep leaves alone what another host is writing ---- */

static void sweep_spares_the_living(void) {
    for (int round = 0; round < rounds / 10 + 1; round++) {
        struct varve_upload *upload = NULL;
        char key[64];
        int seen = 0;
        const char *none = "";
        snprintf(key, sizeof key, "n/x/data/%08x/00000000", (unsigned)round);
        int result = vv_backend_create(hosts[0], key, 0, &upload);
        check(result == 0, "create", round, result);
        if (result < 0)
            continue;
        result = vv_backend_upload_write(upload, "abc", 3);
        check(result == 0, "write", round, result);
        *strrchr(key, '/') = '\0';
        result = vv_backend_list(hosts[1], key, NULL, 0, take, &none); /* a sweep looks where something was seen */
        check(result == 0, "list", round, result);
        seen = vv_backend_sweep(hosts[1]);
        check(seen == 0, "sweep", round, seen);
        result = vv_backend_upload_commit(upload);
        check(result == 0, "commit after a sweep", round, result);
    }
}

static void run(const char *what, void (*test)(void)) {
    int before = failures;
    uint64_t start = vv_clock_ns();
    test();
    printf("%s: %s, %.1f s\n", failures == before ? "passed" : "FAILED", what, (double)(vv_clock_ns() - start) * 1e-9);
}

int main(int argc, char **argv) {
    struct vv_backend_options options = {.may_create = 1};
    struct varve_error error = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: two-clients FOLDER-A FOLDER-B [ROUNDS]\n");
        return 2;
    }
    if (argc > 3)
        rounds = atoi(argv[3]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 2; i++)
        if (vv_backend_open(argv[1 + i], &options, &hosts[i], &error) < 0) {
            printf("%s\n", error.text);
            return 1;
        }
    run("one of many creators wins", one_of_many_creators_wins);
    run("what one has made the other sees", what_is_made_is_seen);
    run("what is replaced is whole", what_is_replaced_is_whole);
    run("a sweep spares the living", sweep_spares_the_living);
    for (int i = 0; i < 2; i++)
        vv_backend_close(hosts[i]);
    return failures != 0;
}
