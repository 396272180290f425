/* A job that keeps two checkpoints, and somebody who pins what it has, at any moment: what was reported is there in the
 * end, whole. Also with somebody else who forgets by hand. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "folder.h"
#include "test.h"

#define WORDS 3000
#define CHECKPOINTS 200
#define PINNED_MOST 24 /* at a time: each pass looks at all of them */

static char folder[128];

static void fill(uint64_t *words, uint64_t version) {
    for (size_t i = 0; i < WORDS; i++)
        words[i] = (version * 1000003 + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static int checkpoints(void) {
    const char *scale = getenv("TEST_SCALE");
    int percent = scale ? atoi(scale) : 100;
    return percent >= 10 && percent < 100 ? CHECKPOINTS * percent / 100 : CHECKPOINTS;
}

/* ---- in children ---- */

static void run_job(void) {
    static uint64_t words[WORDS];
    struct varve_options options = {.size = sizeof options, .settings = "keep=2,log=error,direct=off"};
    struct varve_session *session = NULL;
    struct varve_error why = {0};
    if (varve_open(folder, "job", &options, &session, &why) != 0 ||
        varve_protect(session, "words", words, sizeof words) != 0) {
        fprintf(stderr, "the job cannot begin: %s\n", why.text);
        _exit(2);
    }
    for (int version = 1; version <= checkpoints(); version++) {
        fill(words, (uint64_t)version);
        if (varve_checkpoint(session, version) != 0 || varve_wait(session) != 0) {
            fprintf(stderr, "checkpoint %d: %s\n", version, varve_session_error(session)->text);
            _exit(2);
        }
    }
    varve_close(session);
    _exit(0);
}

static struct varve_store *open_tool(void) {
    struct varve_store *tool = NULL;
    while (varve_store_open(folder, "log=error", &tool, NULL) != 0)
        usleep(1000); /* the job makes it */
    return tool;
}

/* All but the newest, again and again; what is refused is refused. */
static void run_forgetting(void) {
    struct varve_store *tool = open_tool();
    for (int64_t version = 1;; version = version % checkpoints() + 1) {
        struct varve_which which = {.name = "job", .version = version};
        (void)varve_store_forget(tool, &which, NULL);
        if (version % 16 == 0)
            (void)varve_store_prune(tool, "job", 0, NULL, NULL, NULL, NULL);
    }
}

static pid_t start(void (*fn)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        fn();
    }
    return pid;
}

/* ---- the one who pins ---- */

struct found {
    struct varve_which list[16];
    size_t count;
};

static int take(void *arg, const struct varve_checkpoint_info *info) {
    struct found *found = arg;
    if (!info->is_pinned && found->count < 16)
        found->list[found->count++] =
            (struct varve_which){.name = "job", .generation = info->generation, .version = info->version};
    return 0;
}

static int compare(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    (void)total;
    return memcmp((const uint8_t *)arg + offset, data, size) == 0 ? 0 : -EIO;
}

static void expect_whole(struct varve_store *tool, int64_t version) {
    static uint64_t words[WORDS];
    struct varve_which which = {.name = "job", .version = version};
    struct varve_error why = {0};
    fill(words, (uint64_t)version);
    int rc = varve_store_read(tool, &which, 0, "words", 0, compare, words, &why);
    if (rc != 0)
        fail_msg("version %" PRId64 " was said to be pinned, and cannot be read: %d %s", version, rc, why.text);
}

struct outcome {
    int64_t pinned[PINNED_MOST];
    int count, rounds, refused;
};

static int has_ended(pid_t job) {
    int status = 0;
    pid_t ended = waitpid(job, &status, WNOHANG);
    if (ended == 0)
        return 0;
    assert_true(ended == job && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 1;
}

/* Mostly the oldest: it is the one that goes next. When there are many, an older pin is looked at and taken away. */
static void pin_some(struct varve_store *tool, unsigned *seed, struct outcome *out) {
    struct found found = {0};
    if (varve_store_list(tool, "job", take, &found, NULL) != 0 || found.count == 0)
        return;
    out->rounds++;
    struct varve_which which = found.list[rand_r(seed) % 4 ? found.count - 1 : 0];
    struct varve_error why = {0};
    usleep((useconds_t)rand_r(seed) % 2000);
    int rc = varve_store_pin(tool, &which, "by chance", &why);
    if (rc == 0 && out->count == PINNED_MOST) {
        int64_t *old = &out->pinned[(unsigned)rand_r(seed) % PINNED_MOST];
        struct varve_which gone = {.name = "job", .version = *old};
        expect_whole(tool, *old);
        assert_int_equal(varve_store_unpin(tool, &gone, &why), 0);
        *old = which.version;
    } else if (rc == 0)
        out->pinned[out->count++] = which.version;
    else if (rc < 0)
        out->refused++;
    if (rc < 0 && rc != VARVE_FORGOTTEN && rc != VARVE_NO_CHECKPOINT)
        fail_msg("pinning failed: %d %s", rc, why.text);
}

static void chance(int has_forgetting) {
    struct outcome *outcome = calloc(1, sizeof *outcome);
    unsigned seed = (unsigned)getpid();
    assert_non_null(outcome);
    assert_int_equal(folder_make(NULL, "varve-pins", folder, sizeof folder), 0);
    pid_t job = start(run_job), other = has_forgetting ? start(run_forgetting) : 0;
    struct varve_store *tool = open_tool();
    while (!has_ended(job))
        pin_some(tool, &seed, outcome);
    if (other) {
        usleep(50000);
        kill(other, SIGKILL);
        assert_int_equal(waitpid(other, NULL, 0), other);
    }
    print_message("%d checkpoints, %d tries to pin one, %d refused\n", checkpoints(), outcome->rounds,
                  outcome->refused);
    assert_int_equal(varve_store_prune(tool, NULL, 0, NULL, NULL, NULL, NULL), 0);
    for (int i = 0; i < outcome->count; i++)
        expect_whole(tool, outcome->pinned[i]);
    assert_true(outcome->count > 0);
    varve_store_close(tool);
    assert_int_equal(folder_remove(folder), 0);
    free(outcome);
}

static void test_job(void **state) {
    (void)state;
    chance(0);
}

static void test_job_and_tool(void **state) {
    (void)state;
    chance(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_job_and_tool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
