/* A region whose manifest has ten million runs: 4 KiB pieces that all occur elsewhere, in an order in which hardly two
 * join.
 *
 * The region is a callback's, so that it needs no memory: 40 GiB are hashed, a megabyte is stored. */
#include "details.h"
#include "size.h"

#include <errno.h>
#include <sys/wait.h>

#define KINDS 251u /* different pieces */

struct source {
    uint64_t count; /* pieces */
    uint64_t round; /* how often one in a hundred was changed */
    uint8_t kinds[KINDS][PAGE];
};

static struct source source;
static char store[256];

static const uint8_t *piece_of(uint64_t i) {
    uint64_t step = i % 100 == 0 ? source.round : 0;
    return source.kinds[(mix(i) + step) % KINDS];
}

static int length(void *arg, uint64_t *bytes_out) {
    (void)arg;
    *bytes_out = source.count * PAGE;
    return 0;
}

static int save(void *arg, uint64_t offset, void *buffer, size_t size) {
    (void)arg;
    for (size_t at = 0; at < size; at += PAGE)
        memcpy((uint8_t *)buffer + at, piece_of((offset + at) / PAGE), PAGE);
    return 0;
}

static int load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg;
    if (total != source.count * PAGE)
        return -EINVAL;
    for (size_t at = 0; at < size; at += PAGE)
        if (memcmp((const uint8_t *)buffer + at, piece_of((offset + at) / PAGE), PAGE) != 0)
            return -EBADMSG;
    return 0;
}

static struct varve_session *begin(void) {
    static const struct varve_callbacks callbacks = {sizeof callbacks, length, save, load, 0};
    struct varve_session *session = open_session(store, "runs");
    for (size_t i = 0; i < KINDS; i++)
        for (size_t k = 0; k < PAGE; k++)
            source.kinds[i][k] = (uint8_t)mix(i << 16 ^ k);
    need_session(session, varve_protect_callback(session, "field", &callbacks, NULL));
    return session;
}

static void test_save(void **state) {
    struct vv_details stats = {0};
    double took[2];
    (void)state;
    struct varve_session *session = begin();
    for (source.round = 0; source.round < 2; source.round++) {
        double start = seconds();
        need_session(session, varve_checkpoint(session, (int64_t)source.round));
        need_session(session, varve_wait(session));
        took[source.round] = seconds() - start;
        need_session(session, vv_details_get(session, &stats));
        if (source.round == 0)
            assert_in_range(stats.runs_changed, source.count / 10 * 9, source.count);
        assert_in_range(stats.bytes_stored, source.round ? 0 : 1, 4u << 20);
    }
    assert_int_equal(varve_close(session), 0);
    printf("%llu runs: checkpoint %.2f s, 1 %% changed %.2f s, peak %.0f MiB\n", (unsigned long long)source.count,
           took[0], took[1], peak_mib());
}

static void test_restart(void **state) {
    (void)state;
    struct varve_session *session = begin();
    source.round = 1;
    double start = seconds();
    need_session(session, varve_restart(session, VARVE_LATEST, NULL));
    printf("%llu runs: restart %.2f s, peak %.0f MiB\n", (unsigned long long)source.count, seconds() - start,
           peak_mib());
    assert_int_equal(varve_close(session), 0);
}

static int run_alone(const struct CMUnitTest *test) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(_cmocka_run_group_tests(test->name, test, 1, NULL, NULL));
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_save), cmocka_unit_test(test_restart)};
    source.count = argc > 1 ? strtoull(argv[1], NULL, 10) : 500000u;
    source.count = source.count * scale() / 100;
    folder_make(store);
    int failed = run_alone(&tests[0]) || run_alone(&tests[1]);
    folder_remove(store);
    return failed;
}
