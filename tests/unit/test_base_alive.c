/* Is a process still there? Only a certain "gone" may be told as such. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "test.h"

/* A child that waits to be killed, and who it is. */
static pid_t start_child(struct vv_alive_id *id) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct vv_alive_id self;
        vv_alive_self(&self);
        if (write(ends[1], &self, sizeof self) == (ssize_t)sizeof self)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ends[0], id, sizeof *id), sizeof *id);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(id->pid, pid);
    return pid;
}

static void knows_itself(void **state) {
    struct vv_alive_id self;
    (void)state;
    vv_alive_self(&self);
    assert_int_equal(self.pid, getpid());
    if (self.start == 0)
        skip(); /* /proc counts differently here: nothing can be told */
    assert_int_equal(vv_alive_look(&self), VV_ALIVE_YES);
}

static void sees_who_has_died(void **state) {
    struct vv_alive_id id;
    siginfo_t info;
    (void)state;
    pid_t pid = start_child(&id);
    if (id.start == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        skip();
    }
    assert_int_equal(vv_alive_look(&id), VV_ALIVE_YES);
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(kill(pid, 0), 0); /* its number is still taken */
    assert_int_equal(vv_alive_look(&id), VV_ALIVE_NO);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(vv_alive_look(&id), VV_ALIVE_NO);
}

static void *take_its_end(void *pid) {
    return waitpid(*(pid_t *)pid, NULL, 0) < 0 ? pid : NULL;
}

/* Its number may go away between two of our looks at it. */
static void the_dead_stay_dead(void **state) {
    (void)state;
    for (int round = 0; round < 500; round++) {
        struct vv_alive_id id;
        siginfo_t info;
        pthread_t thread;
        pid_t pid = start_child(&id);
        kill(pid, SIGKILL);
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(pthread_create(&thread, NULL, take_its_end, &pid), 0);
        for (int i = 0; i < 20 && id.start; i++)
            assert_int_equal(vv_alive_look(&id), VV_ALIVE_NO);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void another_with_its_number_is_not_it(void **state) {
    struct vv_alive_id self;
    (void)state;
    vv_alive_self(&self);
    if (self.start == 0)
        skip();
    self.start--;
    assert_int_equal(vv_alive_look(&self), VV_ALIVE_NO);
}

static void what_cannot_be_told_is_unknown(void **state) {
    struct vv_alive_id self, other;
    (void)state;
    vv_alive_self(&self);
    other = self;
    other.pid_space++; /* numbers of another namespace mean nothing here; that nobody is in it can perhaps be seen */
    assert_int_not_equal(vv_alive_look(&other), VV_ALIVE_YES);
    other = self;
    other.pid_space = 0;
    assert_int_equal(vv_alive_look(&other), VV_ALIVE_UNKNOWN);
    other = self;
    other.start = 0;
    assert_int_equal(vv_alive_look(&other), VV_ALIVE_UNKNOWN);
    static const uint64_t none[] = {0, UINT64_C(1) << 31, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        other = self;
        other.pid = none[i];
        assert_int_equal(vv_alive_look(&other), VV_ALIVE_UNKNOWN);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_itself),
        cmocka_unit_test(sees_who_has_died),
        cmocka_unit_test(the_dead_stay_dead),
        cmocka_unit_test(another_with_its_number_is_not_it),
        cmocka_unit_test(what_cannot_be_told_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
