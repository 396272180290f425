/* Whoever asks a session for a checkpoint: signals, a file, `varve trigger`, the end of the job. The test moves the
 * clocks, and can make removals and commits fail. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <varve/varve_inspect.h>

#include "base/thread.h"
#include "folder.h"
#include "job/job.h"
#include "lifecycle/trigger.h"
#include "test.h"

#define SECOND INT64_C(1000000000)
#define NAME "asked"

static _Atomic int64_t moved, wall_moved;
static atomic_int cannot_remove, cannot_commit, commits_wait;
static char folder[256], log_text[8192];
static unsigned char data[65536];
static int64_t version;

/* Of the types of what they wrap, so that a change there is seen here. */
__typeof__(vv_clock_ns) __real_vv_clock_ns, __wrap_vv_clock_ns;
uint64_t __wrap_vv_clock_ns(void) {
    return __real_vv_clock_ns() + (uint64_t)moved;
}
__typeof__(vv_clock_wall_ns) __real_vv_clock_wall_ns, __wrap_vv_clock_wall_ns;
uint64_t __wrap_vv_clock_wall_ns(void) {
    return __real_vv_clock_wall_ns() + (uint64_t)wall_moved;
}
__typeof__(vv_backend_remove) __real_vv_backend_remove, __wrap_vv_backend_remove;
int __wrap_vv_backend_remove(struct varve_backend *backend, const char *key) {
    return cannot_remove && strstr(key, "/trigger") ? -EACCES : __real_vv_backend_remove(backend, key);
}
__typeof__(vv_leaders_commit) __real_vv_leaders_commit, __wrap_vv_leaders_commit;
int __wrap_vv_leaders_commit(struct vv_job *job, const struct vv_attempt *attempt, const struct vv_writers_map *map,
                             struct vv_tally *tally, struct vv_hash128 *digest_out, struct varve_error *error) {
    while (commits_wait)
        usleep(1000);
    if (cannot_commit)
        return vv_error(error, -EIO, "the test says no");
    return __real_vv_leaders_commit(job, attempt, map, tally, digest_out, error);
}

static void pass(double seconds) {
    moved += (int64_t)(seconds * 1e9);
    wall_moved += (int64_t)(seconds * 1e9);
}

static void keep_log(void *arg, int level, const char *line) {
    (void)arg, (void)level;
    strncat(log_text, line, sizeof log_text - strlen(log_text) - 2);
    strcat(log_text, "\n");
}

static size_t count_in_log(const char *text) {
    size_t count = 0;
    for (const char *p = log_text; (p = strstr(p, text)); p++)
        count++;
    return count;
}

static struct varve_session *open_as(const char *name, const char *settings) {
    struct varve_session *s;
    struct varve_error error = {.text = ""};
    struct varve_options options = VARVE_OPTIONS_INIT;
    char text[700];
    snprintf(text, sizeof text, "log=info,%s", settings);
    options.settings = text;
    options.log = keep_log;
    log_text[0] = '\0';
    if (varve_open(folder, name, &options, &s, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(varve_protect(s, "data", data, sizeof data), 0);
    return s;
}

static struct varve_session *open_session(const char *settings) {
    return open_as(NAME, settings);
}

/* Somebody has asked: a checkpoint is wanted until there is one, and once. */
static void expect_one(struct varve_session *s) {
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_need(s), 1);
    data[0]++;
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_need(s), 0);
    pass(1.1);
    assert_int_equal(varve_need(s), 0);
}

/* ---- signals ---- */

static volatile sig_atomic_t calls, infos;

static void plain_handler(int number) {
    (void)number;
    calls++;
}

static void info_handler(int number, siginfo_t *info, void *context) {
    (void)context;
    infos += info->si_signo == number;
}

static struct sigaction action_of(int number) {
    struct sigaction now;
    assert_int_equal(sigaction(number, NULL, &now), 0);
    return now;
}

static void nothing_is_asked(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("interval=asked");
    for (int i = 0; i < 5; i++) {
        pass(1e5);
        assert_int_equal(varve_need(s), 0);
        assert_int_equal(varve_should_exit(s), 0);
    }
    assert_true(isinf(varve_time_left(s)));
    assert_true(action_of(SIGUSR1).sa_handler == SIG_DFL && action_of(SIGTERM).sa_handler == SIG_DFL);
    assert_int_equal(varve_close(s), 0);
    assert_int_equal(varve_should_exit(NULL), -EINVAL);
    assert_true(isinf(varve_time_left(NULL)));
}

static void signals(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("interval=asked,signal=USR1");
    assert_int_equal(varve_need(s), 0);
    raise(SIGUSR1);
    expect_one(s);
    raise(SIGUSR1); /* two before anybody looks are one */
    raise(SIGUSR1);
    expect_one(s);
    assert_int_equal(varve_should_exit(s), 0);
    assert_int_equal(varve_close(s), 0);
    assert_true(action_of(SIGUSR1).sa_handler == SIG_DFL);
}

static void former_handlers(void **unused) {
    (void)unused;
    struct sigaction info = {.sa_sigaction = info_handler, .sa_flags = SA_SIGINFO};
    struct sigaction plain = {.sa_handler = plain_handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &plain, NULL);
    sigaction(SIGUSR2, &info, NULL);
    signal(SIGHUP, SIG_IGN);
    struct varve_session *a = open_session("interval=asked,signal=USR1,exit_signal=USR2");
    struct varve_session *b = open_as("other", "interval=asked,signal=USR1,exit_signal=HUP");
    assert_true(action_of(SIGUSR1).sa_flags & SA_RESTART);  /* as it was */
    assert_false(action_of(SIGUSR2).sa_flags & SA_RESTART); /* and a call that this one interrupts still is */
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGHUP);
    assert_int_equal(calls, 1);
    assert_int_equal(infos, 1);
    assert_int_equal(varve_need(a), 1); /* each session has its own count */
    assert_int_equal(varve_need(b), 1);
    assert_int_equal(varve_close(a), 0);
    raise(SIGUSR1);
    assert_int_equal(calls, 2);
    assert_true(action_of(SIGUSR2).sa_sigaction == info_handler);
    assert_int_equal(varve_close(b), 0);
    assert_true(action_of(SIGUSR1).sa_handler == plain_handler);
    assert_true(action_of(SIGHUP).sa_handler == SIG_IGN);
    for (int i = 0; i < 3; i++)
        signal(((int[]){SIGUSR1, SIGUSR2, SIGHUP})[i], SIG_DFL);
}

/* Ours must not be put above one that may call ours. */
static void later_handlers(void **unused) {
    (void)unused;
    struct varve_session *s, *other;
    struct varve_error error = {.text = ""};
    struct varve_options options = VARVE_OPTIONS_INIT;
    s = open_session("interval=asked,signal=USR1");
    signal(SIGUSR1, plain_handler);
    options.settings = "signal=USR1,log=error";
    assert_int_equal(varve_open(folder, "other", &options, &other, &error), -EBUSY);
    assert_non_null(strstr(error.text, "before varve_open"));
    assert_int_equal(varve_close(s), 0);
    assert_true(action_of(SIGUSR1).sa_handler == plain_handler); /* it stays */
    signal(SIGUSR1, SIG_DFL);
    s = open_session("interval=asked,signal=USR1");
    raise(SIGUSR1);
    expect_one(s);
    assert_int_equal(varve_close(s), 0);
}

static void leave_by_signal(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("interval=asked,signal=USR1,exit_signal=TERM");
    raise(SIGTERM);
    assert_int_equal(varve_should_exit(s), 0); /* nobody has noticed */
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_should_exit(s), 0); /* there is no checkpoint */
    expect_one(s);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_need(s), 0);
    raise(SIGUSR1); /* a program that does not go */
    expect_one(s);
    assert_int_equal(varve_should_exit(s), 1);
    raise(SIGTERM);
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_should_exit(s), 0); /* not before there is a new one */
    expect_one(s);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_close(s), 0);
}

/* The file says that the job left before it was done: not earlier, once, and a failure is told. */
static void word_of_leaving(void **unused) {
    (void)unused;
    char settings[700], path[300];
    snprintf(path, sizeof path, "%s.now", folder);
    snprintf(settings, sizeof settings, "interval=asked,exit_signal=TERM,exit_file=%s", path);
    struct varve_session *s = open_session(settings);
    raise(SIGTERM);
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_should_exit(s), 0);
    cannot_commit = 1;
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_should_exit(s), 0);
    assert_int_equal(varve_wait(s), -EIO);
    cannot_commit = 0;
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(varve_close(s), 0);
}

/* Where its folder is away when the file is to be made; where it was away from the beginning nothing is opened. */
static void word_that_fails(void **unused) {
    (void)unused;
    char settings[700], below[300], path[320];
    struct varve_session *s;
    struct varve_error error = {.text = ""};
    struct varve_options options = VARVE_OPTIONS_INIT;
    snprintf(below, sizeof below, "%s.now", folder);
    snprintf(path, sizeof path, "%s/left", below);
    snprintf(settings, sizeof settings, "interval=asked,exit_signal=TERM,log=warn,exit_file=%s", path);
    options.settings = settings;
    assert_int_equal(varve_open(folder, NAME, &options, &s, &error), -ENOENT);
    assert_non_null(strstr(error.text, below));
    for (int is_closed = 0; is_closed < 2; is_closed++) { /* the next question tries again, or the end */
        assert_int_equal(mkdir(below, 0700), 0);
        s = open_session(settings);
        assert_int_equal(rmdir(below), 0);
        raise(SIGTERM);
        assert_int_equal(varve_need(s), 1);
        assert_int_equal(varve_checkpoint(s, ++version), 0);
        assert_int_equal(varve_should_exit(s), 1);
        assert_int_equal(varve_should_exit(s), 1);
        assert_int_equal(count_in_log("cannot be made"), 1);
        assert_int_equal(mkdir(below, 0700), 0);
        if (!is_closed)
            assert_int_equal(varve_should_exit(s), 1);
        assert_int_equal(access(path, F_OK), is_closed ? -1 : 0);
        assert_int_equal(varve_close(s), 0);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(below), 0);
    }
}

/* ---- a file ---- */

static void touch(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void file_asks(void **unused) {
    (void)unused;
    char settings[600], path[300];
    snprintf(path, sizeof path, "%s.now", folder);
    snprintf(settings, sizeof settings, "interval=asked,trigger_file=%s", path);
    struct varve_session *s = open_session(settings);
    touch(path);
    assert_int_equal(varve_need(s), 0); /* looks come once a second */
    pass(1.1);
    expect_one(s);
    assert_int_equal(access(path, F_OK), -1);
    touch(path);
    pass(1.1);
    expect_one(s);
    assert_int_equal(mkdir(path, 0700), 0); /* that cannot be removed as a file */
    pass(1.1);
    expect_one(s);
    pass(1.1);
    assert_int_equal(varve_need(s), 0);
    assert_int_equal(count_in_log("cannot be removed"), 1);
    assert_int_equal(rmdir(path), 0);
    pass(1.1);
    assert_int_equal(varve_need(s), 0);
    touch(path);
    pass(1.1);
    expect_one(s);
    assert_int_equal(varve_close(s), 0);
}

/* ---- the store ---- */

static int ask(unsigned flags) {
    struct varve_store *store;
    struct varve_error error = {.text = ""};
    assert_int_equal(varve_store_open(folder, NULL, &store, &error), 0);
    int rc = varve_store_trigger(store, NAME, flags, &error);
    varve_store_close(store);
    return rc;
}

static const char *trigger_path(void) {
    static char path[300];
    snprintf(path, sizeof path, "%s/n/" NAME "/trigger", folder);
    return path;
}

/* The tool, beside this program: its exit code. */
static int run_tool(const char *verb, const char *more) {
    char command[700];
    snprintf(command, sizeof command, "'" VARVE_TOOL "' %s '%s' " NAME " %s >/dev/null 2>&1", verb, folder, more);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void tool_asks(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("interval=asked");
    assert_int_equal(run_tool("trigger", ""), 0);
    assert_int_equal(run_tool("trigger", "--json"), 0);
    assert_int_equal(run_tool("trigger", "--exit"), 11);
    assert_int_equal(run_tool("verify", ""), 0);
    pass(1.1);
    expect_one(s);
    assert_int_equal(run_tool("interval", "--mtbf 1000"), 1); /* nothing tells what it cost */
    assert_int_equal(run_tool("trigger", "--exit"), 0);
    pass(1.1);
    expect_one(s);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_close(s), 0);
    assert_int_equal(run_tool("trigger", ""), 1);
}

static void store_asks(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("interval=asked");
    assert_int_equal(ask(0), 0);
    assert_int_equal(access(trigger_path(), F_OK), 0);
    assert_int_equal(varve_need(s), 0);
    pass(1.1);
    assert_int_equal(ask(0), 1); /* twice before it is seen is once */
    assert_int_equal(ask(VARVE_TRIGGER_EXIT), VARVE_BUSY);
    expect_one(s);
    assert_int_equal(access(trigger_path(), F_OK), -1);
    assert_int_equal(ask(VARVE_TRIGGER_EXIT), 0);
    pass(1.1);
    expect_one(s);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_close(s), 0);
    assert_int_equal(ask(0), -ESRCH);
    s = open_session("interval=asked,trigger=off");
    assert_int_equal(ask(0), 0);
    pass(1.1);
    assert_int_equal(varve_need(s), 0);
    assert_int_equal(access(trigger_path(), F_OK), 0);
    assert_int_equal(varve_close(s), 0);
    assert_int_equal(unlink(trigger_path()), 0);
}

/* Whoever asks once more while the last checkpoint is in flight must not end the next life of the job. */
static void asked_while_leaving(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("interval=asked");
    assert_int_equal(ask(VARVE_TRIGGER_EXIT), 0);
    pass(1.1);
    assert_int_equal(varve_need(s), 1);
    data[0]++;
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(ask(VARVE_TRIGGER_EXIT), 0);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(access(trigger_path(), F_OK), -1);
    assert_int_equal(varve_close(s), 0);
    s = open_session("interval=asked");
    pass(1.1);
    assert_int_equal(varve_need(s), 0);
    assert_int_equal(varve_close(s), 0);
}

/* Made for a session that has ended since, or that cannot be understood or removed. */
static void strange_triggers(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("interval=asked");
    assert_int_equal(ask(VARVE_TRIGGER_EXIT), 0);
    assert_int_equal(varve_close(s), 0);
    pass(6);
    s = open_session("interval=asked");
    pass(1.1);
    assert_int_equal(varve_need(s), 0);
    assert_int_equal(count_in_log("is dropped"), 1);
    assert_int_equal(access(trigger_path(), F_OK), -1);

    FILE *file = fopen(trigger_path(), "w");
    fputs("please", file);
    fclose(file);
    assert_int_equal(ask(0), VARVE_CORRUPT); /* the session removes it: by now it may be another wish */
    assert_int_equal(access(trigger_path(), F_OK), 0);
    for (int i = 0; i < 3; i++) {
        pass(1.1);
        assert_int_equal(varve_need(s), 0);
    }
    assert_int_equal(count_in_log("cannot be read"), 1);
    assert_int_equal(access(trigger_path(), F_OK), -1);
    assert_int_equal(ask(0), 0);
    cannot_remove = 1;
    pass(1.1);
    expect_one(s);
    pass(1.1);
    assert_int_equal(varve_need(s), 0);
    assert_int_equal(count_in_log("stays in the store"), 1);
    cannot_remove = 0;
    pass(1.1);
    assert_int_equal(varve_need(s), 0); /* gone now, and not done twice */
    assert_int_equal(access(trigger_path(), F_OK), -1);
    assert_int_equal(ask(0), 0);
    pass(1.1);
    expect_one(s);
    assert_int_equal(varve_close(s), 0);
}

/* ---- the end of the job ---- */

static double wall_now(void) {
    return (double)__wrap_vv_clock_wall_ns() * 1e-9;
}

static struct varve_session *open_until(double seconds, const char *more) {
    char settings[200];
    snprintf(settings, sizeof settings, "interval=asked,end_time=%.3f,end_slack=10%s", wall_now() + seconds, more);
    return open_session(settings);
}

/* Nothing tells yet how long one takes, so the last one could come too late. */
static void expect_first(struct varve_session *s) {
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_wait(s), 0);
    assert_int_equal(varve_need(s), 0);
    assert_int_equal(varve_should_exit(s), 0);
}

/* The next life knows it from the checkpoint that comes back. */
static void first_one_tells(void **unused) {
    (void)unused;
    for (int lives = 0; lives < 3; lives++) {
        struct varve_session *s = open_until(1000, "");
        if (lives == 0) {
            expect_first(s);
            data[0]++;
            assert_int_equal(varve_checkpoint(s, ++version), 0);
            assert_int_equal(varve_wait(s), 0);
        } else
            assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
        assert_int_equal(varve_need(s), 0);
        pass(500);
        assert_int_equal(varve_need(s), 1); /* 500 s between two questions, and 10 */
        data[0]++;
        assert_int_equal(varve_checkpoint(s, ++version), 0);
        if (lives > 0) { /* what another run has told is measured first */
            assert_int_equal(varve_should_exit(s), 0);
            assert_int_equal(varve_wait(s), 0);
            assert_int_equal(varve_need(s), 1);
            data[0]++;
            assert_int_equal(varve_checkpoint(s, ++version), 0);
        }
        assert_int_equal(varve_should_exit(s), 1);
        assert_int_equal(varve_close(s), 0);
    }
}

/* It has told nothing: another is due soon, and not at every question. */
static void first_one_fails(void **unused) {
    (void)unused;
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        struct varve_session *s = open_until(1000, is_sync ? ",capture=sync" : "");
        assert_int_equal(varve_need(s), 1);
        cannot_commit = 1;
        data[500]++;
        assert_int_equal(varve_checkpoint(s, ++version), is_sync ? -EIO : 0);
        if (!is_sync)
            assert_int_equal(varve_wait(s), -EIO);
        cannot_commit = 0;
        assert_int_equal(varve_need(s), 0);
        pass(50);
        assert_int_equal(varve_need(s), 0);
        pass(20);
        expect_first(s);
        pass(70);
        assert_int_equal(varve_need(s), 0);
        assert_int_equal(varve_close(s), 0);
    }
}

static void leave_in_time(void **unused) {
    (void)unused;
    struct varve_session *s = open_until(1000, "");
    assert_true(fabs(varve_time_left(s) - 1000) < 5);
    expect_first(s);
    double left = 1000;
    while (varve_need(s) == 0) {
        assert_int_equal(varve_should_exit(s), 0);
        pass(5);
        left = varve_time_left(s);
        assert_true(left > 0);
    }
    assert_true(left <= 30 && left > 9); /* 10 s, and 5 s until the next question */
    assert_int_equal(varve_should_exit(s), 0);
    expect_one(s);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_close(s), 0);
}

static void slurm_says_when(void **unused) {
    (void)unused;
    char text[40];
    snprintf(text, sizeof text, "%.0f", wall_now() + 500);
    setenv("SLURM_JOB_END_TIME", text, 1);
    struct varve_session *s = open_session("interval=asked");
    assert_true(fabs(varve_time_left(s) - 500) < 5);
    assert_int_equal(varve_close(s), 0);
    s = open_until(300, "");
    assert_true(fabs(varve_time_left(s) - 300) < 5);
    assert_int_equal(varve_close(s), 0);
    s = open_session("end_time=off");
    assert_true(isinf(varve_time_left(s)));
    assert_int_equal(varve_close(s), 0);
    unsetenv("SLURM_JOB_END_TIME");
}

static void clocks_jump(void **unused) {
    (void)unused;
    struct varve_session *s = open_until(1000, "");
    expect_first(s);
    wall_moved -= 5000 * SECOND;
    assert_true(fabs(varve_time_left(s) - 1000) < 5);
    assert_int_equal(varve_need(s), 0);
    for (int i = 0; i < 99; i++) {
        pass(10);
        assert_int_equal(varve_need(s), varve_time_left(s) < 20.1);
    }
    wall_moved += 5000 * SECOND;
    assert_int_equal(varve_close(s), 0);
    s = open_until(1000, "");
    expect_first(s);
    wall_moved += 3000 * SECOND;
    assert_true(varve_time_left(s) < -1990);
    expect_one(s);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_close(s), 0);
}

/* ---- checkpoints that are in flight, and that fail ---- */

static void leave_only_when_durable(void **unused) {
    (void)unused;
    struct varve_stats stats = {.size = sizeof stats};
    char plain[256];
    strcpy(plain, folder);
    strcat(folder, "?latency=50ms");
    struct varve_session *s = open_session("interval=asked,exit_signal=TERM");
    strcpy(folder, plain);
    assert_int_equal(varve_checkpoint(s, ++version), 0); /* the first one of a session is waited for differently */
    assert_int_equal(varve_wait(s), 0);
    data[100]++;
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    raise(SIGTERM); /* while one is in flight, which was begun before and does not count */
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_should_exit(s), 0);
    data[200]++;
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_stats_get(s, &stats), 0);
    assert_int_equal(stats.result, -EINPROGRESS);
    assert_int_equal(varve_need(s), 0);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_stats_get(s, &stats), 0);
    assert_int_equal(stats.result, 0);
    for (int64_t v = version - 2; v <= version; v++)
        assert_int_equal(varve_stored(s, v, NULL, NULL, NULL), 0);
    assert_int_equal(varve_close(s), 0);
}

/* One is in flight. Another by the interval would wait for it, and the last one for both: not where the end is near. */
static void none_behind_another(void **unused) {
    (void)unused;
    char settings[200];
    snprintf(settings, sizeof settings, "interval_seconds=1,end_time=%.3f,end_slack=10", wall_now() + 1000);
    struct varve_session *s = open_session(settings);
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_wait(s), 0);
    commits_wait = 1;
    data[400]++;
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    pass(100);
    assert_int_equal(varve_need(s), 1); /* 900 s are left, and 3 x 100 + 100 + 10 would do */
    pass(120);
    assert_int_equal(varve_need(s), 0); /* 780 s, and 3 x 220 + 120 + 10 */
    assert_int_equal(varve_should_exit(s), 0);
    pass(75);
    assert_int_equal(varve_need(s), 1); /* 705 s, and 2 x 295 + 120 + 10 for the last one */
    commits_wait = 0;
    data[400]++;
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_should_exit(s), 1);
    assert_int_equal(varve_close(s), 0);
}

static void failures_are_no_leave(void **unused) {
    (void)unused;
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        struct varve_session *s =
            open_session(is_sync ? "interval=asked,exit_signal=TERM,capture=sync" : "interval=asked,exit_signal=TERM");
        raise(SIGTERM);
        assert_int_equal(varve_need(s), 1);
        cannot_commit = 1;
        data[300]++;
        assert_int_equal(varve_checkpoint(s, ++version), is_sync ? -EIO : 0);
        assert_int_equal(varve_should_exit(s), 0);
        assert_int_equal(varve_need(s), 1);
        if (!is_sync) /* should_exit has not taken the error from those that tell it */
            assert_int_equal(varve_wait(s), -EIO);
        cannot_commit = 0;
        assert_int_equal(varve_checkpoint(s, ++version), 0);
        assert_int_equal(varve_should_exit(s), 1);
        assert_int_equal(varve_need(s), 0);
        assert_int_equal(varve_close(s), 0);
    }
}

/* ---- the best interval ---- */

static int find_cost(void *arg, const char *name, const char *value) {
    if (strcmp(name, "varve.cost") == 0)
        *(double *)arg = atof(value);
    return 0;
}

static double stored_cost(void) {
    struct varve_store *store;
    struct varve_error error = {.text = ""};
    struct varve_which which = {.name = NAME, .version = -1};
    double cost = -1;
    assert_int_equal(varve_store_open(folder, NULL, &store, &error), 0);
    assert_int_equal(varve_store_attributes(store, &which, find_cost, &cost, &error), 0);
    varve_store_close(store);
    return cost;
}

static void interval_by_itself(void **unused) {
    (void)unused;
    struct varve_stats stats = {.size = sizeof stats};
    struct varve_session *s = open_session("interval=auto,mtbf=10000");
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_wait(s), 0);
    assert_true(stored_cost() < 0);
    assert_int_equal(varve_stats_get(s, &stats), 0);
    double best = varve_best_interval(stats.seconds_blocked, 10000);
    assert_true(best > 0.1); /* even 1 us of cost means 0.14 s */
    assert_int_equal(varve_need(s), 0);
    pass(best * 0.5);
    assert_int_equal(varve_need(s), 0);
    pass(1e5); /* no cost that this test can have means so much */
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_checkpoint(s, ++version), 0);
    assert_int_equal(varve_wait(s), 0);
    assert_true(stored_cost() >= stats.seconds_blocked * 0.99 && stored_cost() < stats.seconds_blocked + 5);
    assert_int_equal(run_tool("interval", "--mtbf 1000"), 0);
    assert_int_equal(varve_close(s), 0);
}

/* The checkpoint that comes back tells what others have cost, so none is begun at once. */
static void interval_after_a_restart(void **unused) {
    (void)unused;
    for (int way = 0; way < 3; way++) {
        struct varve_session *s = open_session("interval=auto,mtbf=10000");
        assert_int_equal(varve_checkpoint(s, ++version), 0);
        assert_int_equal(varve_checkpoint(s, ++version), 0); /* it says what the one before has cost */
        assert_int_equal(varve_close(s), 0);
        s = open_session("interval=auto,mtbf=10000");
        assert_int_equal(varve_need(s), 1); /* nothing is known yet */
        pass(100);
        if (way == 0)
            assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
        else if (way == 1)
            assert_int_equal(varve_continue(s, VARVE_LATEST, NULL), 0);
        else
            assert_int_equal(varve_restart_begin(s, VARVE_LATEST, NULL) || varve_restart_end(s), 0);
        assert_int_equal(varve_need(s), 0);
        pass(1e5);
        assert_int_equal(varve_need(s), 1);
        assert_int_equal(varve_close(s), 0);
    }
}

static int setup(void **unused) {
    (void)unused;
    cannot_remove = cannot_commit = commits_wait = 0; /* the test before may have failed */
    moved = wall_moved = 0;                           /* storage with a latency sleeps by the kernel's clock */
    return folder_make(getenv("TMPDIR"), "varve-asked", folder, sizeof folder);
}

static int teardown(void **unused) {
    (void)unused;
    char path[300];
    snprintf(path, sizeof path, "%s.now", folder);
    (void)folder_remove(path);
    return folder_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_asked),    TEST(signals),
        TEST(former_handlers),     TEST(later_handlers),
        TEST(leave_by_signal),     TEST(word_of_leaving),
        TEST(word_that_fails),     TEST(asked_while_leaving),
        TEST(file_asks),           TEST(tool_asks),
        TEST(store_asks),          TEST(strange_triggers),
        TEST(leave_in_time),       TEST(slurm_says_when),
        TEST(clocks_jump),         TEST(leave_only_when_durable),
        TEST(none_behind_another), TEST(failures_are_no_leave),
        TEST(interval_by_itself),  TEST(interval_after_a_restart),
        TEST(first_one_tells),     TEST(first_one_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
