/* Claims and heartbeats: one wins, the dead are replaced, the living are left alone, sleepers are fenced. */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "store_hook.h"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/varve-life-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* ---- races ---- */

struct racer {
    const char *uri;
    struct vv_store *store;
    struct vv_lease *lease;
    int rc;
};

static void *race(void *arg) {
    struct racer *racer = arg;
    struct vv_lease_options options = {.ranks = 1, .beat_seconds = 1, .dead_seconds = 60, .program = "racer"};
    struct varve_error own;
    racer->rc = vv_lease_take(racer->store, NAME, &options, &racer->lease, &own);
    return NULL;
}

static void test_race(void **state) {
    (void)state;
    for (int round = 0; round < 30; round++) {
        struct racer racers[4];
        pthread_t threads[4];
        int won = 0;
        char uri[64];
        snprintf(uri, sizeof uri, "%s", fresh_uri());
        for (int i = 0; i < 4; i++)
            racers[i] = (struct racer){.uri = uri, .store = open_store(uri, VV_STORE_WRITE)};
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < 4; i++) {
            won += racers[i].rc == 0;
            assert_true(racers[i].rc == 0 || racers[i].rc == VARVE_BUSY);
            if (racers[i].rc == 0)
                assert_int_equal(vv_lease_generation(racers[i].lease), 1);
        }
        assert_int_equal(won, 1);
        for (int i = 0; i < 4; i++) {
            if (racers[i].rc == 0)
                vv_lease_release(racers[i].lease);
            vv_store_close(racers[i].store);
        }
    }
}

/* ---- a session after another ---- */

static void test_follow(void **state) {
    (void)state;
    struct vv_store *store = open_store(fresh_uri(), VV_STORE_WRITE);
    struct vv_lease *lease = NULL, *other = NULL;
    struct vv_attempt refers;
    int life;
    ok(take(store, 60, 0, &lease));
    ok(vv_life_look(store, NAME, 1, 0, &life, &refers, &error));
    assert_int_equal(life, VV_LIFE_MAYBE);
    assert_int_equal(refers.generation, 0);
    ok(vv_lease_refer(lease, &(struct vv_attempt){.generation = 1, .version = 5}, &error));
    ok(vv_life_look(store, NAME, 1, 0, &life, &refers, &error));
    assert_true(refers.generation == 1 && refers.version == 5);
    assert_int_equal(take(store, 60, 30, &other), VARVE_BUSY); /* at once: it is our own */
    assert_non_null(strstr(error.text, "process"));
    assert_non_null(strstr(error.text, "host"));
    ok(vv_lease_check(lease, &error));
    vv_lease_release(lease);
    ok(vv_life_look(store, NAME, 1, 0, &life, NULL, &error));
    assert_int_equal(life, VV_LIFE_DEAD);
    ok(take(store, 60, 0, &lease));
    assert_int_equal(vv_lease_generation(lease), 2);
    ok(vv_lease_advance(lease, &error));
    assert_int_equal(vv_lease_generation(lease), 3);
    ok(vv_life_look(store, NAME, 2, 0, &life, NULL, &error));
    assert_int_equal(life, VV_LIFE_DEAD);
    ok(vv_life_look(store, NAME, 3, 0, &life, NULL, &error));
    assert_int_equal(life, VV_LIFE_MAYBE);
    ok(vv_lease_check(lease, &error));
    assert_int_equal(take(store, 60, 0, &other), VARVE_BUSY);
    vv_lease_release(lease);
    vv_lease_release(NULL);
    vv_store_close(store);
}

/* What the heartbeat thread does beside its beats takes longer than the time between two of them. */
struct slow {
    _Atomic int calls;
    uint64_t end_ns, least_ns; /* between two calls: a beat, and what the thread has waited */
};

static void be_slow(void *arg) {
    struct slow *slow = arg;
    uint64_t now = vv_clock_ns();
    if (slow->end_ns && now - slow->end_ns < slow->least_ns)
        slow->least_ns = now - slow->end_ns;
    vv_sleep_ms(1500);
    slow->end_ns = vv_clock_ns();
    slow->calls++;
}

static void test_slow_listener(void **state) {
    (void)state;
    struct vv_store *store = open_store(fresh_uri(), VV_STORE_WRITE);
    struct vv_lease *lease = NULL;
    struct slow slow = {.least_ns = UINT64_MAX};
    ok(take(store, 60, 0, &lease));
    vv_lease_on_heartbeat(lease, be_slow, &slow);
    for (int i = 0; i < 300 && slow.calls < 3; i++)
        vv_sleep_ms(100);
    vv_lease_on_heartbeat(lease, NULL, NULL);
    assert_true(slow.calls >= 3);
    assert_true(slow.least_ns < 900000000); /* else it has waited for a second, as after a call that took no time */
    vv_lease_release(lease);
    vv_store_close(store);
}

/* An abandoned lease of this very process has nobody to renew it. */
static void test_abandoned(void **state) {
    (void)state;
    struct vv_store *store = open_store(fresh_uri(), VV_STORE_WRITE);
    struct vv_lease *lease = NULL;
    ok(take(store, 1, 0, &lease));
    vv_lease_abandon(lease);
    assert_int_equal(take(store, 1, 0, &lease), VARVE_BUSY);
    ok(take(store, 1, 5, &lease));
    assert_int_equal(vv_lease_generation(lease), 2);
    vv_lease_release(lease);
    vv_store_close(store);
}

/* A claim whose heartbeat was never written, and a claim that cannot be read. */
static void test_no_heartbeat(void **state) {
    (void)state;
    for (int is_damaged = 0; is_damaged < 2; is_damaged++) {
        struct vv_store *store = open_store(fresh_uri(), VV_STORE_WRITE);
        struct vv_lease *lease = NULL;
        char text[VV_KEY_CAPACITY];
        int life;
        ok(take(store, 1, 0, &lease));
        vv_lease_abandon(lease);
        key_text(at(1, 0, 0), VV_KIND_HEARTBEAT, 0, 0, text);
        assert_int_equal(vv_backend_remove(store->backend, text), 0);
        key_text(at(1, 0, 0), VV_KIND_CLAIM, 0, 0, text);
        if (is_damaged)
            damage(store, text, 130);
        ok(vv_life_look(store, NAME, 1, 0, &life, NULL, &error));
        assert_int_equal(life, VV_LIFE_MAYBE);
        ok(vv_life_look(store, NAME, 1, 1, &life, NULL, &error));
        assert_int_equal(life, VV_LIFE_DEAD);
        assert_int_equal(take(store, 1, 0, &lease), VARVE_BUSY);
        uint64_t before = vv_clock_ns();
        ok(take(store, 1, 10, &lease));
        assert_true(vv_clock_ns() - before >= 1000000000u);
        vv_lease_release(lease);
        vv_store_close(store);
    }
}

/* ---- somebody else's claim and heartbeat ---- */

static struct vv_store *other_store;
static struct vv_lease *other_lease;

static int other_is_faster(int verb, const char *key, uint64_t offset, int is_after) {
    (void)offset, (void)is_after;
    if (verb != VV_VERB_CREATE || !is_key(key, at(1, 0, 0), VV_KIND_CLAIM))
        return 0;
    ok(take(other_store, 60, 0, &other_lease));
    return -ENOSPC;
}

/* A claim fails while another session gets it: the other one's heartbeat is not touched. */
static void test_failed_claim(void **state) {
    (void)state;
    char uri[64];
    snprintf(uri, sizeof uri, "%s", fresh_uri());
    struct vv_store *store = open_hooked(uri);
    struct vv_lease *lease = NULL;
    struct vv_heartbeat heartbeat;
    int life;
    other_store = open_store(uri, VV_STORE_WRITE);
    hook = other_is_faster;
    assert_int_equal(take(store, 60, 0, &lease), -ENOSPC);
    hook = NULL;
    ok(vv_heartbeat_load(store, NAME, 1, &heartbeat, &error));
    assert_int_equal(heartbeat.state, VV_HEARTBEAT_RUNNING);
    ok(vv_life_look(store, NAME, 1, 0, &life, NULL, &error));
    assert_int_equal(life, VV_LIFE_MAYBE);
    ok(vv_lease_check(other_lease, &error));
    vv_lease_release(other_lease);
    vv_store_close(other_store);
    vv_store_close(store);
}

/* The heartbeat of a session that does not have the claim says nothing. */
static void test_foreign_heartbeat(void **state) {
    (void)state;
    struct vv_store *store = open_store(fresh_uri(), VV_STORE_WRITE);
    struct vv_heartbeat heartbeat = {
        .session_id = "somebody else's", .counter = 9, .state = VV_HEARTBEAT_ENDED, .refers = at(1, 5, 0)};
    struct vv_key key = vv_generation_key(NAME, 1, VV_KIND_HEARTBEAT);
    struct vv_lease *lease = NULL;
    struct vv_attempt refers;
    struct vv_buf buf;
    char text[VV_KEY_CAPACITY];
    int life;
    ok(take(store, 60, 0, &lease));
    vv_buf_init(&buf);
    vv_heartbeat_encode(&buf, &key, store->id, &heartbeat);
    vv_key_print(&key, text);
    ok(vv_backend_replace(store->backend, text, buf.data, buf.size));
    vv_buf_clear(&buf);
    ok(vv_life_look(store, NAME, 1, 0, &life, &refers, &error));
    assert_int_equal(life, VV_LIFE_MAYBE);
    assert_int_equal(refers.generation, 0);
    ok(vv_life_look(store, NAME, 1, 1, &life, NULL, &error));
    assert_int_equal(life, VV_LIFE_DEAD);
    vv_lease_release(lease);
    vv_store_close(store);
}

static int stale_count;
static int stale_once(int verb, const char *key, uint64_t offset, int is_after) {
    (void)offset, (void)is_after;
    return verb == VV_VERB_GET && is_key(key, at(1, 0, 0), VV_KIND_HEARTBEAT) && !stale_count++ ? -ESTALE : 0;
}

/* The heartbeat was renewed while a network file system read it. */
static void test_stale(void **state) {
    (void)state;
    struct vv_store *store = open_hooked(fresh_uri());
    struct vv_lease *lease = NULL;
    struct vv_heartbeat heartbeat;
    ok(take(store, 60, 0, &lease));
    stale_count = 0;
    hook = stale_once;
    ok(vv_heartbeat_load(store, NAME, 1, &heartbeat, &error));
    hook = NULL;
    assert_true(stale_count > 1);
    vv_lease_release(lease);
    vv_store_close(store);
}

static void test_claim_gone(void **state) {
    (void)state;
    struct vv_store *store = open_store(fresh_uri(), VV_STORE_WRITE);
    struct vv_lease *lease = NULL;
    char text[VV_KEY_CAPACITY];
    ok(take(store, 60, 0, &lease));
    key_text(at(1, 0, 0), VV_KIND_CLAIM, 0, 0, text);
    ok(vv_backend_remove(store->backend, text));
    assert_int_equal(vv_lease_check(lease, &error), VARVE_FENCED);
    assert_non_null(strstr(error.text, "claim 1 of " NAME " is gone"));
    vv_lease_release(lease);
    vv_store_close(store);
}

/* ---- processes ---- */

/* A child that claims, tells so, and then does as it is told. */
static pid_t start_child(int *from) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct vv_store *store = open_store(folder, VV_STORE_WRITE);
        struct vv_lease *lease = NULL;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "odd) R (name");
        char answer = take(store, 2, 0, &lease) == 0 ? 'y' : 'n';
        if (write(pipes[1], &answer, 1) != 1)
            _exit(1);
        for (;;) {
            struct varve_error own;
            int rc = vv_lease_check(lease, &own);
            answer = rc == VARVE_FENCED ? 'f' : rc == 0 ? '.' : 'e';
            if (answer != '.' && write(pipes[1], &answer, 1) == 1)
                _exit(0);
            vv_sleep_ms(50);
        }
    }
    close(pipes[1]);
    char answer;
    assert_int_equal(read(pipes[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    *from = pipes[0];
    return pid;
}

static void test_killed(void **state) {
    (void)state;
    int from, is_reaped;
    for (is_reaped = 0; is_reaped < 2; is_reaped++) {
        struct vv_store *store = open_store(folder, VV_STORE_WRITE);
        struct vv_lease *lease = NULL;
        pid_t pid = start_child(&from);
        assert_int_equal(take(store, 2, 0, &lease), VARVE_BUSY);
        char text[32];
        snprintf(text, sizeof text, "process %d", (int)pid);
        assert_non_null(strstr(error.text, text));
        assert_int_equal(take(store, 2, 4, &lease), VARVE_BUSY); /* its heartbeats are seen */
        kill(pid, SIGKILL);
        if (is_reaped)
            waitpid(pid, NULL, 0);
        else
            assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
        ok(take(store, 2, 0, &lease)); /* at once, from a zombie too */
        vv_lease_release(lease);
        vv_store_close(store);
        waitpid(pid, NULL, 0);
        close(from);
    }
}

static void test_stopped(void **state) {
    (void)state;
    int from;
    struct vv_store *store = open_store(folder, VV_STORE_WRITE);
    struct vv_lease *lease = NULL;
    pid_t pid = start_child(&from);
    kill(pid, SIGSTOP);
    uint64_t before = vv_clock_ns();
    ok(take(store, 2, 20, &lease));
    uint64_t took = vv_clock_ns() - before;
    assert_true(took >= 2000000000u && took < 6000000000u);
    ok(vv_lease_check(lease, &error));
    kill(pid, SIGCONT);
    char answer = 0;
    assert_int_equal(read(from, &answer, 1), 1);
    assert_int_equal(answer, 'f');
    waitpid(pid, NULL, 0);
    close(from);
    vv_lease_release(lease);
    vv_store_close(store);
}

/* Both are stopped, as by a batch system that suspends a node, and the observer wakes up first: the heartbeat it finds
 * is as old as its own sleep. */
static void test_observer_stopped(void **state) {
    (void)state;
    int from, status;
    pid_t pid = start_child(&from);
    pid_t observer = fork();
    if (observer == 0) {
        struct vv_store *store = open_store(folder, VV_STORE_WRITE);
        struct vv_lease *lease = NULL;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(take(store, 2, 5, &lease) == VARVE_BUSY ? 0 : 1);
    }
    vv_sleep_ms(500);
    kill(observer, SIGSTOP);
    kill(pid, SIGSTOP);
    vv_sleep_ms(3000);
    kill(observer, SIGCONT);
    vv_sleep_ms(500);
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(observer, &status, 0), observer);
    assert_int_equal(status, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(from);
}

static void *sleep_on(void *arg) {
    (void)arg;
    vv_sleep_ms(100000);
    return NULL;
}

/* The first thread of a process has exited: /proc calls it a zombie, but another thread may be writing. */
static void test_leader_gone(void **state) {
    (void)state;
    struct vv_claim claim = {0};
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_create(&thread, NULL, sleep_on, NULL);
        pthread_exit(NULL);
    }
    vv_process_self(&claim);
    if (!claim.pid_namespace) {
        kill(pid, SIGKILL);
        skip();
    }
    char path[64], line[1024] = "", *end;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    do {
        vv_sleep_ms(10);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_non_null(fgets(line, sizeof line, file));
        fclose(file);
        end = strrchr(line, ')');
    } while (end[2] != 'Z');
    claim.pid = (uint32_t)pid;
    for (int field = 2; field < 22; field++)
        end = strchr(end + 1, ' ');
    claim.pid_start = strtoull(end, NULL, 10);
    assert_int_equal(vv_process_look(&claim), VV_PROCESS_THERE);
    claim.pid_start++;
    assert_int_equal(vv_process_look(&claim), VV_PROCESS_GONE);
    claim.pid_start--;
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_int_equal(vv_process_look(&claim), VV_PROCESS_GONE);
    waitpid(pid, NULL, 0);
    assert_int_equal(vv_process_look(&claim), VV_PROCESS_GONE);
    claim.pid_namespace++;
    assert_int_not_equal(vv_process_look(&claim), VV_PROCESS_THERE);
}

/* After fork the child has no heartbeat thread; dropping the lease there must neither hang nor end the parent's. */
static void test_fork(void **state) {
    (void)state;
    struct vv_store *store = open_store(folder, VV_STORE_WRITE);
    struct vv_lease *lease = NULL;
    int status, life;
    ok(take(store, 2, 0, &lease));
    pid_t pid = fork();
    if (pid == 0) {
        vv_lease_release(lease);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    ok(vv_life_look(store, NAME, vv_lease_generation(lease), 0, &life, NULL, &error));
    assert_int_equal(life, VV_LIFE_MAYBE);
    vv_lease_release(lease);
    vv_store_close(store);
}

#ifdef VARVE_FAULTS
/* The storage fails for a while: nobody is fenced, and nobody waits for a claim whose session never came to be. */
static void test_trouble(void **state) {
    (void)state;
    struct vv_store *store = open_store(fresh_uri(), VV_STORE_WRITE);
    struct vv_lease *lease = NULL;
    vv_fault_set("store.claim.before_create=error:5");
    assert_int_equal(take(store, 2, 0, &lease), -EIO);
    vv_fault_set("store.claim.after_create=error:5");
    assert_int_equal(take(store, 60, 0, &lease), -EIO);
    vv_fault_set(NULL);
    ok(take(store, 60, 0, &lease));
    vv_fault_set("store.beat.before_refer=error:5");
    assert_int_equal(vv_lease_refer(lease, &(struct vv_attempt){.generation = 1, .version = 5}, &error), -EIO);
    vv_fault_set("store.beat.before_renew=error:5");
    vv_sleep_ms(2500);
    vv_fault_set(NULL);
    ok(vv_lease_check(lease, &error));
    vv_lease_release(lease);
    vv_store_close(store);
}

static int life_of(struct vv_store *store, uint32_t generation) {
    int life;
    ok(vv_life_look(store, NAME, generation, 0, &life, NULL, &error));
    return life;
}

/* An advance fails half-way: the session is not fenced by its own claim, nor does anybody take it for ended. */
static void test_advance_fails(void **state) {
    (void)state;
    static const char *const points[] = {"store.claim.before_create", "store.claim.after_create",
                                         "store.beat.after_first"};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        struct vv_store *store = open_store(fresh_uri(), VV_STORE_WRITE);
        struct vv_lease *lease = NULL;
        struct vv_attempt refers, first;
        char spec[64];
        uint32_t last = i == 0 ? 1 : 2; /* claim */
        snprintf(spec, sizeof spec, "%s=error:5", points[i]);
        ok(take(store, 60, 0, &lease));
        first = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0).attempt;
        vv_fault_set(spec);
        assert_int_equal(vv_lease_advance(lease, &error), -EIO);
        vv_fault_set(NULL);
        assert_int_equal(life_of(store, last), VV_LIFE_MAYBE);
        ok(vv_lease_check(lease, &error));
        assert_int_equal(vv_lease_generation(lease), last);
        ok(vv_life_look(store, NAME, last, 0, &(int){0}, &refers, &error));
        assert_int_equal(vv_attempt_compare(&refers, &first), 0);
        checkpoint(store, lease, at(last, 20, 0), first, NULL, 0);
        ok(vv_lease_advance(lease, &error));
        assert_int_equal(vv_lease_generation(lease), last + 1);
        assert_int_equal(life_of(store, last), VV_LIFE_DEAD);
        vv_fault_set(spec);
        assert_int_equal(vv_lease_advance(lease, &error), -EIO);
        vv_fault_set(NULL);
        vv_lease_release(lease); /* nobody shall wait for the half of it */
        ok(take(store, 60, 0, &lease));
        vv_lease_release(lease);
        vv_store_close(store);
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_slow_listener),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_no_heartbeat),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_leader_gone),
        cmocka_unit_test(test_failed_claim),
        cmocka_unit_test(test_foreign_heartbeat),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_claim_gone),
        cmocka_unit_test(test_observer_stopped),
#ifdef VARVE_FAULTS
        cmocka_unit_test(test_trouble),
        cmocka_unit_test(test_advance_fails),
#endif
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
