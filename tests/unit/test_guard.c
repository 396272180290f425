/* What both guards promise: writes wait, whatever the program does nobody hangs, and who took the memory away is found
 * out. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

#include "guard_help.h"

static const struct kind uffd = {"uffd", vv_guard_uffd};
static const struct kind mprotect_kind = {"mprotect", vv_guard_mprotect};

static int is_uffd(void **state) {
    return *state == &uffd;
}

static void a_write_waits_until_disarmed(void **state) {
    struct world world;
    struct writer writer;
    open_world(*state, &world, 4);
    assert_int_equal(arm(&world, 0, 4), 0);
    start_writer(&writer, write_two, world.memory + PAGE);
    wait_for_calls(&world, 1);
    assert_int_equal(world.last_page, world.memory + PAGE);
    usleep(20000);
    assert_int_equal(look(&world.memory[PAGE]), 1);
    assert_false(writer.is_done);
    assert_int_equal(disarm(&world, 0, 1), 0); /* another page wakes nobody here */
    usleep(5000);
    assert_int_equal(look(&world.memory[PAGE]), 1);
    assert_false(writer.is_done);
    assert_int_equal(disarm(&world, 1, 1), 0);
    join_writer(&writer);
    assert_int_equal(look(&world.memory[PAGE]), 2);
    assert_int_equal(world.calls, 1);
    world.memory[0] = world.memory[PAGE] = 3; /* not armed any more */
    assert_int_equal(world.calls, 1);
    close_world(&world);
}

static void the_callback_lets_go(void **state) {
    struct world world;
    open_world(*state, &world, 100);
    world.verdict = 1;
    for (int round = 1; round <= 3; round++) {
        assert_int_equal(arm(&world, 10, 80), 0);
        errno = 1234;
        for (size_t i = 0; i < 100; i++) {
            world.memory[i * PAGE]++;
            world.memory[i * PAGE + 100]++;
        }
        assert_int_equal(errno, 1234);
        assert_int_equal(world.calls, 80 * round);
        assert_int_equal(disarm(&world, 0, 100), 0); /* what the callback let go is no surprise */
    }
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(look(&world.memory[i * PAGE]), 4);
    close_world(&world);
}

struct stripe {
    struct world *world;
    size_t first, step;
    size_t byte; /* of the page */
};

static void write_stripe(void *arg) {
    struct stripe *stripe = arg;
    for (size_t i = stripe->first; i < stripe->world->pages; i += stripe->step)
        add_one(&stripe->world->memory[i * PAGE + stripe->byte]);
}

static void several_threads(void **state) {
    struct world world;
    struct writer writers[6];
    struct stripe stripes[6];
    open_world(*state, &world, 400);
    world.verdict = 1;
    assert_int_equal(arm(&world, 0, 400), 0);
    for (int i = 0; i < 6; i++) { /* each page by two of them */
        stripes[i] = (struct stripe){&world, (size_t)i % 3, 3, (size_t)i / 3};
        start_writer(&writers[i], write_stripe, &stripes[i]);
    }
    for (int i = 0; i < 6; i++)
        join_writer(&writers[i]);
    for (size_t i = 0; i < 400; i++) {
        assert_int_equal(look(&world.memory[i * PAGE]), 2);
        assert_int_equal(look(&world.memory[i * PAGE + 1]), 1);
    }
    assert_true(world.calls >= 400);
    close_world(&world);
}

/* How the wait ends. */
enum { BY_DISARM, BY_DETACH, BY_CLOSE };

static void wake_all(void **state, int how) {
    struct world world;
    struct writer writers[10];
    open_world(*state, &world, 64);
    assert_int_equal(arm(&world, 0, 64), 0);
    for (size_t i = 0; i < 10; i++) /* two at each page */
        start_writer(&writers[i], write_two, world.memory + i / 2 * 12 * PAGE);
    wait_for_calls(&world, 10);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(look(&world.memory[i * PAGE]), 1);
    if (how == BY_DISARM)
        assert_int_equal(disarm(&world, 0, 64), 0);
    else if (how == BY_DETACH)
        world.guard->ops->detach(world.guard, (uintptr_t)world.memory, 64 * PAGE);
    else
        world.guard->ops->close(world.guard);
    for (int i = 0; i < 10; i++)
        join_writer(&writers[i]);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(look(&world.memory[i * 12 * PAGE]), 2);
    if (how == BY_CLOSE)
        munmap(world.memory, 64 * PAGE);
    else
        close_world(&world);
}

static void disarm_wakes_all(void **state) {
    wake_all(state, BY_DISARM);
}

static void detach_wakes_all(void **state) {
    wake_all(state, BY_DETACH);
}

static void close_wakes_all(void **state) {
    wake_all(state, BY_CLOSE);
}

/* ---- a decision that is out of date ---- */

struct slow {
    struct vv_guard *guard;
    atomic_int calls, is_late;
};

/* The first answer takes long, and is meant for the time before. */
static int answer_late(void *arg, uintptr_t page) {
    struct slow *slow = arg;
    if (atomic_fetch_add(&slow->calls, 1) > 0)
        return 0;
    usleep(50000);
    atomic_store(&slow->is_late, 1);
    slow->guard->ops->disarm(slow->guard, page, PAGE);
    return 1;
}

static void armed_anew_while_deciding(void **state) {
    const struct kind *kind = *state;
    struct slow slow = {0};
    struct writer first, second;
    char why[200] = "";
    if (kind->open(answer_late, &slow, &slow.guard, why, sizeof why) != 0)
        skip();
    const struct vv_guard_ops *ops = slow.guard->ops;
    uint8_t *memory = map_pages(1);
    *memory = 1;
    assert_int_equal(ops->attach(slow.guard, (uintptr_t)memory, PAGE), 0);
    assert_int_equal(ops->arm(slow.guard, (uintptr_t)memory, PAGE), 0);
    start_writer(&first, write_two, memory);
    while (atomic_load(&slow.calls) == 0)
        usleep(1000);
    assert_int_equal(ops->disarm(slow.guard, (uintptr_t)memory, PAGE), 0);
    assert_int_equal(ops->arm(slow.guard, (uintptr_t)memory, PAGE), 0);
    assert_true(slow.is_late); /* arming has waited for it */
    int before = look(memory); /* the first writer may have passed or not */
    start_writer(&second, write_two, memory);
    usleep(30000);
    assert_false(second.is_done); /* the old answer has not opened the page */
    assert_int_equal(look(memory), before);
    assert_int_equal(ops->disarm(slow.guard, (uintptr_t)memory, PAGE), 0);
    join_writer(&first);
    join_writer(&second);
    ops->close(slow.guard);
    munmap(memory, PAGE);
}

/* ---- the bytes at the moment of arming ---- */

struct truth {
    struct vv_guard *guard;
    uint8_t *memory;
    atomic_int held[64];
    atomic_int may_run, running, stop;
    atomic_int writers;
};

static int hold_or_not(void *arg, uintptr_t page) {
    struct truth *truth = arg;
    return !atomic_load(&truth->held[(page - (uintptr_t)truth->memory) / PAGE]);
}

static void scribble(void *arg) {
    struct truth *truth = arg;
    size_t own = (size_t)atomic_fetch_add(&truth->writers, 1); /* byte of every page */
    unsigned random = (unsigned)own;
    while (!atomic_load(&truth->stop)) {
        atomic_fetch_add(&truth->running, 1);
        while (atomic_load(&truth->may_run)) {
            random = random * 1103515245 + 12345;
            add_one(truth->memory + (random >> 16) % 64 * PAGE + own);
        }
        atomic_fetch_sub(&truth->running, 1);
        while (!atomic_load(&truth->may_run) && !atomic_load(&truth->stop))
            sched_yield();
    }
}

static uint32_t counter_of(const struct truth *truth, size_t page) {
    const uint8_t *at = truth->memory + page * PAGE;
    return (uint32_t)(look(at) | look(at + 1) << 8 | look(at + 2) << 16);
}

static void one_snapshot(struct truth *truth) {
    uint32_t then[64];
    atomic_store(&truth->may_run, 0);
    while (atomic_load(&truth->running) != 0)
        sched_yield();
    for (size_t i = 0; i < 64; i++) {
        then[i] = counter_of(truth, i);
        atomic_store(&truth->held[i], 1);
    }
    assert_int_equal(truth->guard->ops->arm(truth->guard, (uintptr_t)truth->memory, 64 * PAGE), 0);
    atomic_store(&truth->may_run, 1);
    for (size_t i = 0; i < 64; i += 4) {
        for (size_t j = i; j < i + 4; j++) {
            assert_int_equal(counter_of(truth, j), then[j]);
            atomic_store(&truth->held[j], 0);
        }
        assert_int_equal(truth->guard->ops->disarm(truth->guard, (uintptr_t)truth->memory + i * PAGE, 4 * PAGE), 0);
    }
}

static void what_is_held_does_not_change(void **state) {
    const struct kind *kind = *state;
    struct truth truth = {0};
    struct writer writers[3];
    char why[200] = "";
    if (kind->open(hold_or_not, &truth, &truth.guard, why, sizeof why) != 0)
        skip();
    truth.memory = map_pages(64);
    memset(truth.memory, 0, 64 * PAGE);
    assert_int_equal(truth.guard->ops->attach(truth.guard, (uintptr_t)truth.memory, 64 * PAGE), 0);
    for (int i = 0; i < 3; i++)
        start_writer(&writers[i], scribble, &truth);
    for (int round = 0; round < 200; round++)
        one_snapshot(&truth);
    truth.stop = 1;
    truth.may_run = 0;
    for (int i = 0; i < 3; i++)
        join_writer(&writers[i]);
    truth.guard->ops->close(truth.guard);
    munmap(truth.memory, 64 * PAGE);
}

/* ---- the program's signals ---- */

static struct world *alarm_world;
static volatile sig_atomic_t alarms;

static void write_on_alarm(int number) {
    (void)number;
    alarm_world->memory[(size_t)alarms++ % 16 * PAGE]++;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

/* A handler that interrupts us while we arm and disarm, and writes an armed page. */
static void a_signal_handler_may_write(void **state) {
#ifdef __SANITIZE_THREAD__
    if (!is_uffd(state)) {
        print_message("skipped: this tool calls handlers with SIGSEGV blocked\n");
        skip();
    }
#endif
    struct world world;
    struct sigaction action = {.sa_handler = write_on_alarm, .sa_flags = SA_RESTART}, old;
    struct itimerval every = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    open_world(*state, &world, 16);
    world.verdict = 1;
    alarm_world = &world;
    alarms = 0;
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int round = 0; alarms < 500 && round < 2000000; round++) {
        int armed = arm(&world, 0, 16), disarmed = disarm(&world, (size_t)round % 16, 1);
        if (armed != 0 || disarmed != 0)
            fail();
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_true(alarms >= 500);
    assert_true(world.calls > 0);
    close_world(&world);
}

/* ---- fork ---- */

static void write_in_child(void *arg) {
    struct world *world = arg;
    for (size_t i = 0; i < world->pages; i++) {
        MUST(world->memory[i * PAGE] == 1);
        world->memory[i * PAGE] = 9;
    }
    MUST(world->calls == 0);
    MUST(arm(world, 0, 1) == -ECHILD);
    MUST(disarm(world, 0, 1) == -ECHILD);
    world->guard->ops->close(world->guard);
    world->memory[0] = 10;
}

static void fork_while_armed(void **state) {
    struct world world;
    struct writer writer;
    open_world(*state, &world, 8);
    assert_int_equal(arm(&world, 0, 8), 0);
    assert_int_equal(in_child(write_in_child, &world), 0);
    assert_int_equal(world.calls, 0);
    start_writer(&writer, write_two, world.memory + 3 * PAGE); /* the parent's are armed as before */
    wait_for_calls(&world, 1);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(look(&world.memory[i * PAGE]), 1);
    assert_int_equal(disarm(&world, 0, 8), 0);
    join_writer(&writer);
    close_world(&world);
}

static void guard_in_child(void *arg) {
    struct world world;
    open_world(arg, &world, 4);
    world.verdict = 1;
    MUST(arm(&world, 0, 4) == 0);
    world.memory[0] = 5;
    MUST(world.calls == 1);
    close_world(&world);
}

static void a_child_may_have_its_own(void **state) {
#ifdef __SANITIZE_THREAD__
    if (is_uffd(state)) {
        print_message("skipped: this tool knows no threads in a child\n");
        skip();
    }
#endif
    struct world world;
    open_world(*state, &world, 4);
    assert_int_equal(arm(&world, 0, 4), 0);
    assert_int_equal(in_child(guard_in_child, *state), 0);
    assert_int_equal(world.calls, 0);
    close_world(&world);
}

static void sleep_long(void *arg) {
    int *pipes = arg;
    char byte;
    (void)!read(pipes[0], &byte, 1);
}

/* A child that lives on holds the descriptors of its parent. */
static void close_with_a_child_around(void **state) {
    struct world world;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    open_world(*state, &world, 4);
    assert_int_equal(arm(&world, 0, 4), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        sleep_long(pipes);
        _exit(0);
    }
    world.guard->ops->close(world.guard);
    struct writer writer;
    start_writer(&writer, write_two, world.memory);
    join_writer(&writer);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    waitpid(pid, NULL, 0);
    close(pipes[0]);
    close(pipes[1]);
    munmap(world.memory, 4 * PAGE);
}

/* ---- the program takes the memory away ---- */

static void unmapped(void **state) {
    struct world world;
    open_world(*state, &world, 64);
    assert_int_equal(arm(&world, 0, 64), 0);
    assert_int_equal(munmap(world.memory + 16 * PAGE, 16 * PAGE), 0);
    assert_int_equal(disarm(&world, 0, 8), 0); /* elsewhere all is well */
    assert_true(disarm(&world, 20, 1) < 0);
    assert_true(disarm(&world, 8, 50) < 0); /* a part of it */
    assert_int_not_equal(arm(&world, 0, 64), 0);
    for (size_t i = 0; i < 64; i++) /* nothing of it is armed after an error */
        if (i < 16 || i >= 32)
            world.memory[i * PAGE] = 2;
    assert_int_equal(world.calls, 0);
    assert_int_equal(munmap(world.memory, 64 * PAGE), 0);
    assert_true(disarm(&world, 0, 64) < 0 || !is_uffd(state));
    close_world(&world);
}

static void replace(struct world *world) {
    void *other = mmap(world->memory, world->pages * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(other, world->memory);
}

/* Somebody waits for a page, and it is unmapped; then something else is put there, so that the writer finds memory. */
static void replaced_while_somebody_waits(void **state) {
    struct world world;
    struct writer writer;
    open_world(*state, &world, 8);
    assert_int_equal(arm(&world, 0, 8), 0);
    start_writer(&writer, write_two, world.memory + 2 * PAGE);
    wait_for_calls(&world, 1);
    replace(&world);
    int rc = disarm(&world, 2, 1);
    assert_int_equal(rc, is_uffd(state) ? -EFAULT : 0); /* mprotect cannot tell one mapping from another */
    join_writer(&writer);
    assert_int_equal(look(&world.memory[2 * PAGE]), 2);
    close_world(&world);
}

/* The callback says yes, but what it says yes to is not there any more. */
static void let_go_where_it_was_replaced(void **state) {
    struct world world;
    struct writer writer;
    open_world(*state, &world, 8);
    assert_int_equal(arm(&world, 0, 8), 0);
    start_writer(&writer, write_two, world.memory + 2 * PAGE);
    wait_for_calls(&world, 1);
    replace(&world);
    world.guard->ops->detach(world.guard, (uintptr_t)world.memory, 8 * PAGE);
    join_writer(&writer);
    close_world(&world);
}

static void check_moved(void **state, int is_known_place) {
    struct world world;
    open_world(*state, &world, 32);
    uint8_t *place = map_pages(64);
    if (is_known_place) {
        assert_int_equal(world.guard->ops->attach(world.guard, (uintptr_t)place, 64 * PAGE), 0);
        world.guard->ops->detach(world.guard, (uintptr_t)place, 64 * PAGE);
    }
    assert_int_equal(arm(&world, 0, 32), 0);
    uint8_t *now = mremap(world.memory, 32 * PAGE, 32 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    assert_ptr_equal(now, place);
    now[3 * PAGE] = 7; /* before we know, */
    now[3 * PAGE + 1] = 7;
    assert_true(disarm(&world, 0, 32) < 0);
    for (size_t i = 8; i < 32; i++)
        now[i * PAGE] = 7; /* after, */
    world.guard->ops->detach(world.guard, (uintptr_t)world.memory, 32 * PAGE);
    for (size_t i = 0; i < 32; i++)
        now[i * PAGE] = 8; /* and when all is over: no signal */
    munmap(place, 64 * PAGE);
    world.guard->ops->close(world.guard);
}

static void moved(void **state) {
    check_moved(state, 0);
    check_moved(state, 1); /* to where something was attached before */
}

static void thrown_away(void **state) {
    struct world world;
    open_world(*state, &world, 32);
    assert_int_equal(arm(&world, 0, 32), 0);
    assert_int_equal(madvise(world.memory + 4 * PAGE, 4 * PAGE, MADV_DONTNEED), 0);
    assert_int_equal(world.memory[5 * PAGE],
                     0); /* reading puts the page of zeros there, which must not look like ours */
    assert_int_equal(disarm(&world, 0, 4), 0);
    int rc = disarm(&world, 4, 2);
    assert_int_equal(rc, is_uffd(state) ? -EFAULT : 0); /* mprotect does not see it */
    world.verdict = 1;
    world.memory[6 * PAGE] = 2;
    rc = disarm(&world, 0, 32);
    assert_true(rc == 0 || is_uffd(state));
    assert_int_equal(disarm(&world, 0, 32), 0); /* told once */
    close_world(&world);
}

/* ---- sorts of memory ---- */

static void huge_pages(void **state) {
    struct world world;
    size_t huge = 512;
    open_world(*state, &world, 1);
    uint8_t *area = map_pages(3 * huge);
    uint8_t *aligned = (uint8_t *)(((uintptr_t)area + huge * PAGE - 1) & ~(huge * PAGE - 1));
    madvise(aligned, 2 * huge * PAGE, MADV_HUGEPAGE);
    memset(aligned, 1, 2 * huge * PAGE);
    world.verdict = 1;
    const struct vv_guard_ops *ops = world.guard->ops;
    assert_int_equal(ops->attach(world.guard, (uintptr_t)aligned, 2 * huge * PAGE), 0);
    assert_int_equal(ops->arm(world.guard, (uintptr_t)aligned, 2 * huge * PAGE), 0);
    for (size_t i = 0; i < 2 * huge; i += 7)
        aligned[i * PAGE] = 2;
    assert_int_equal(world.calls, (2 * huge + 6) / 7);
    assert_int_equal(ops->disarm(world.guard, (uintptr_t)aligned, huge * PAGE), 0);
    for (size_t i = 0; i < 2 * huge; i++)
        assert_int_equal(aligned[i * PAGE], i % 7 == 0 ? 2 : 1);
    ops->detach(world.guard, (uintptr_t)aligned, 2 * huge * PAGE);
    memset(aligned, 3, 2 * huge * PAGE);
    munmap(area, 3 * huge * PAGE);
    close_world(&world);
}

static void untouched_pages(void **state) {
    struct world world;
    open_world(*state, &world, 1);
    uint8_t *memory = map_pages(64);
    memory[5 * PAGE] = 1;
    world.verdict = 1;
    const struct vv_guard_ops *ops = world.guard->ops;
    assert_int_equal(ops->attach(world.guard, (uintptr_t)memory, 64 * PAGE), 0);
    assert_int_equal(ops->arm(world.guard, (uintptr_t)memory, 64 * PAGE), 0);
    memory[6 * PAGE] = 1; /* may be seen or not */
    int calls = world.calls;
    memory[5 * PAGE] = 2;
    assert_int_equal(world.calls, calls + 1);
    assert_int_equal(ops->disarm(world.guard, (uintptr_t)memory, 64 * PAGE), 0);
    ops->close(world.guard);
    munmap(memory, 64 * PAGE);
    munmap(world.memory, PAGE);
}

static void what_cannot_be_attached(void **state) {
    struct world world;
    open_world(*state, &world, 4);
    const struct vv_guard_ops *ops = world.guard->ops;
    uint8_t *hole = map_pages(4);
    munmap(hole + PAGE, PAGE);
    assert_true(ops->attach(world.guard, (uintptr_t)hole, 4 * PAGE) < 0 || is_uffd(state));
    munmap(hole, 4 * PAGE);
    assert_true(ops->attach(world.guard, (uintptr_t)hole, 4 * PAGE) < 0);
    assert_true(ops->arm(world.guard, (uintptr_t)hole, PAGE) < 0);
    assert_true(ops->disarm(world.guard, (uintptr_t)hole, PAGE) < 0);
    ops->detach(world.guard, (uintptr_t)hole, 4 * PAGE);
    close_world(&world);
}

#define BOTH(test)                                                                                                     \
    {"uffd: " #test, test, NULL, NULL, (void *)&uffd}, {                                                               \
        "mprotect: " #test, test, NULL, NULL, (void *)&mprotect_kind                                                   \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(a_write_waits_until_disarmed),
        BOTH(the_callback_lets_go),
        BOTH(several_threads),
        BOTH(disarm_wakes_all),
        BOTH(detach_wakes_all),
        BOTH(close_wakes_all),
        BOTH(armed_anew_while_deciding),
        BOTH(what_is_held_does_not_change),
        BOTH(a_signal_handler_may_write),
        BOTH(fork_while_armed),
        BOTH(a_child_may_have_its_own),
        BOTH(close_with_a_child_around),
        BOTH(unmapped),
        BOTH(replaced_while_somebody_waits),
        BOTH(let_go_where_it_was_replaced),
        BOTH(moved),
        BOTH(thrown_away),
        BOTH(huge_pages),
        BOTH(untouched_pages),
        BOTH(what_cannot_be_attached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
