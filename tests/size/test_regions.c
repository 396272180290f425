/* A million small regions in one session: save them, change one in a hundred, save again, restart. */
#include "details.h"
#include "size.h"

#include <sys/wait.h>

#define BYTES 100u

static size_t count;
static char store[256];

static void fill(uint8_t *memory, size_t i, uint64_t round) {
    uint64_t words[(BYTES + 7) / 8];
    for (size_t k = 0; k < sizeof words / 8; k++)
        words[k] = mix(round << 48 ^ (uint64_t)i << 8 ^ k);
    memcpy(memory + i * BYTES, words, BYTES);
}

static uint8_t *fill_all(uint64_t round) {
    uint8_t *memory = malloc(count * BYTES);
    assert_non_null(memory);
    for (size_t i = 0; i < count; i++)
        fill(memory, i, i % 100 == 0 ? round : 0);
    return memory;
}

static void protect_all(struct varve_session *session, uint8_t *memory) {
    char name[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "region-%zu", i);
        need_session(session, varve_protect(session, name, memory + i * BYTES, BYTES));
    }
}

static void save(void **state) {
    double begin, took[4];
    struct vv_details stats = {0};
    (void)state;
    struct varve_session *session = open_session(store, "regions");
    uint8_t *memory = fill_all(0);
    begin = seconds();
    protect_all(session, memory);
    took[0] = seconds() - begin;
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < count && round > 0; i += 100)
            fill(memory, i, round);
        begin = seconds();
        need_session(session, varve_checkpoint(session, round));
        need_session(session, varve_wait(session));
        took[1 + round] = seconds() - begin;
        need_session(session, vv_details_get(session, &stats));
        assert_int_equal(stats.bytes_protected, count * BYTES);
        assert_int_equal(stats.bytes_changed, (round ? (count + 99) / 100 : count) * BYTES);
    }
    assert_int_equal(varve_close(session), 0);
    free(memory);
    printf("%zu regions: protect %.2f s, checkpoint %.2f s, 1 %% changed %.2f and %.2f s, peak %.0f MiB\n", count,
           took[0], took[1], took[2], took[3], peak_mib());
    if (may_time()) {
        assert_true(took[1] < 20);
        assert_true(took[2] < 10);
        assert_true(peak_mib() < 3000);
    }
}

static void restart(void **state) {
    (void)state;
    struct varve_session *session = open_session(store, "regions");
    uint8_t *memory = calloc(count, BYTES);
    assert_non_null(memory);
    protect_all(session, memory);
    double begin = seconds();
    need_session(session, varve_restart(session, VARVE_LATEST, NULL));
    double took = seconds() - begin;
    printf("%zu regions: restart %.2f s, peak %.0f MiB\n", count, took, peak_mib());
    uint8_t *expected = fill_all(2);
    assert_memory_equal(memory, expected, count * BYTES);
    /* And it goes on from there. */
    fill(memory, 0, 3);
    need_session(session, varve_checkpoint(session, 3));
    need_session(session, varve_wait(session));
    struct vv_details stats = {0};
    need_session(session, vv_details_get(session, &stats));
    assert_int_equal(stats.bytes_changed, BYTES);
    assert_int_equal(varve_close(session), 0);
    free(memory);
    free(expected);
    if (may_time()) {
        assert_true(took < 20);
        assert_true(peak_mib() < 3000);
    }
}

/* Each in a process of its own, so that peaks are its own. */
static int run_alone(const struct CMUnitTest *test) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(_cmocka_run_group_tests(test->name, test, 1, NULL, NULL));
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(save), cmocka_unit_test(restart)};
    count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000u;
    count = count * scale() / 100;
    folder_make(store);
    int failed = run_alone(&tests[0]) || run_alone(&tests[1]);
    folder_remove(store);
    return failed;
}
