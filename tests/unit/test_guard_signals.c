/* The program's own handlers of SIGSEGV get the faults that are the program's, as if the mprotect guard were not there.
 * Each case is a child: handlers belong to the whole process. */
#include <errno.h>
#include <signal.h>
#include <ucontext.h>

#include "guard_help.h"

static const struct kind mprotect_kind = {"mprotect", vv_guard_mprotect};

static uint8_t *volatile nowhere = (uint8_t *)16; /* nothing is ever mapped there */
static sigjmp_buf back;
static volatile sig_atomic_t seen_count, seen_number, seen_code, was_on_other_stack, had_segv_blocked, had_usr1_blocked;
static void *volatile seen_address;
static uint8_t *other_stack;
#define OTHER_STACK (64u << 10)
static struct sigaction found; /* what the program found when it installed its handler */

static void note_fault(int number, const siginfo_t *info) {
    sigset_t mask;
    char here;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen_count++;
    seen_number = number;
    seen_code = info ? info->si_code : 0;
    seen_address = info ? info->si_addr : NULL;
    was_on_other_stack = (uintptr_t)&here - (uintptr_t)other_stack < OTHER_STACK;
    had_segv_blocked = sigismember(&mask, SIGSEGV);
    had_usr1_blocked = sigismember(&mask, SIGUSR1);
}

static void jump_back(int number, siginfo_t *info, void *context) {
    (void)context;
    note_fault(number, info);
    siglongjmp(back, 1);
}

static void jump_back_plain(int number) {
    note_fault(number, NULL);
    siglongjmp(back, 1);
}

/* The usual way of libraries: not mine, so to the one I found. */
static void pass_to_found(int number, siginfo_t *info, void *context) {
    note_fault(number, info);
    MUST(seen_count < 100); /* not called by itself, through ours */
    if (found.sa_flags & SA_SIGINFO)
        found.sa_sigaction(number, info, context);
    else if (found.sa_handler == SIG_DFL)
        sigaction(number, &found, NULL);
    else
        found.sa_handler(number);
}

static void install(void (*fn)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = fn, .sa_flags = SA_SIGINFO | flags};
    sigaddset(&action.sa_mask, SIGUSR1);
    MUST(sigaction(SIGSEGV, &action, &found) == 0);
}

static void use_other_stack(void) {
    other_stack = map_pages(OTHER_STACK / PAGE);
    stack_t stack = {.ss_sp = other_stack, .ss_size = OTHER_STACK};
    MUST(sigaltstack(&stack, NULL) == 0);
}

/* The guard still works, and is not noticed. */
static void check_guarded(struct world *world) {
    int calls = world->calls, faults = seen_count;
    MUST(arm(world, 0, 4) == 0);
    world->memory[PAGE]++;
    MUST(world->calls == calls + 1);
    MUST(seen_count == faults);
    MUST(disarm(world, 0, 4) == 0);
}

static void check_fault(uint8_t *address, int code) {
    int faults = seen_count;
    if (sigsetjmp(back, 1) == 0) {
        *(volatile uint8_t *)address = 1;
        MUST(!"the write passed");
    }
    MUST(seen_count == faults + 1);
    MUST(seen_number == SIGSEGV);
    MUST(seen_code == code);
    MUST(code == 0 || seen_address == address);
}

/* Faults of the program's own, twice each, while pages are armed. */
static void check_own_faults(struct world *world) {
    uint8_t *none = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(mprotect(none + PAGE, PAGE, PROT_READ) == 0);
    MUST(arm(world, 0, 4) == 0);
    for (int i = 0; i < 2; i++) {
        check_fault(none + 5, SEGV_ACCERR);
        check_fault(none + PAGE + 8, SEGV_ACCERR);
        check_fault(nowhere, SEGV_MAPERR);
        check_fault(none + 5, SEGV_ACCERR);
    }
    MUST(world->calls == 0 || world->verdict == 1);
    check_guarded(world);
}

static void open_letting(struct world *world) {
    open_world(&mprotect_kind, world, 4);
    world->verdict = 1;
}

static void child_before(void *arg) {
    struct world world;
    (void)arg;
    use_other_stack();
    install(jump_back, SA_ONSTACK);
    open_letting(&world);
    check_guarded(&world);
    check_own_faults(&world);
    MUST(was_on_other_stack && had_segv_blocked && had_usr1_blocked);
    close_world(&world);
    check_fault(nowhere, SEGV_MAPERR); /* also when the guard is gone */
}

static void child_before_usual_stack(void *arg) {
    struct world world;
    (void)arg;
    use_other_stack();
    install(jump_back, SA_NODEFER);
    open_letting(&world);
    check_own_faults(&world);
    MUST(!was_on_other_stack && !had_segv_blocked && had_usr1_blocked);
}

static void child_plain_handler(void *arg) {
    struct world world;
    (void)arg;
    struct sigaction action = {.sa_handler = jump_back_plain};
    MUST(sigaction(SIGSEGV, &action, NULL) == 0);
    open_letting(&world);
    check_fault(nowhere, 0);
    check_guarded(&world);
    check_fault(nowhere, 0);
}

static void child_after(void *arg) {
    struct world world;
    (void)arg;
    use_other_stack();
    open_letting(&world);
    check_guarded(&world);
    for (int i = 0; i < 20; i++) { /* again and again */
        install(jump_back, SA_ONSTACK);
        check_guarded(&world);
        check_own_faults(&world);
        MUST(was_on_other_stack);
    }
}

/* Two of the program's, one found before and one after, both polite: each sees the fault once, then it is fatal or
 * not. */
static void child_between(void *arg) {
    struct world world;
    (void)arg;
    install(jump_back, 0);
    open_letting(&world);
    check_guarded(&world);
    install(pass_to_found, 0); /* finds ours */
    check_guarded(&world);     /* which goes on top again */
    int faults = seen_count;
    if (sigsetjmp(back, 1) == 0) {
        *nowhere = 1;
        MUST(!"the write passed");
    }
    MUST(seen_count == faults + 2);
    sigaction(SIGSEGV, &found, NULL); /* it goes away and puts ours back */
    check_guarded(&world);
    check_fault(nowhere, SEGV_MAPERR); /* so only the first is left */
}

static void child_dies_behind_polite(void *arg) {
    struct world world;
    (void)arg;
    open_letting(&world);
    install(pass_to_found, 0);
    check_guarded(&world);
    *nowhere = 1;
}

/* Installed twice, it takes ours for what it lies on, and ours lies on it. */
static void child_dies_installed_twice(void *arg) {
    struct world world;
    (void)arg;
    open_letting(&world);
    install(pass_to_found, 0);
    check_guarded(&world);
    install(pass_to_found, 0);
    check_guarded(&world);
    *nowhere = 1;
}

static void child_dies_by_default(void *arg) {
    struct world world;
    open_letting(&world);
    check_guarded(&world);
    MUST(arm(&world, 0, 4) == 0);
    if (arg == NULL)
        *nowhere = 1;
    else
        raise(SIGSEGV);
}

static void child_dies_though_ignored(void *arg) {
    struct world world;
    (void)arg;
    signal(SIGSEGV, SIG_IGN);
    open_letting(&world);
    check_guarded(&world);
    raise(SIGSEGV); /* this is ignored */
    *nowhere = 1;
}

static void child_dies_the_second_time(void *arg) {
    struct world world;
    (void)arg;
    install(jump_back, SA_RESETHAND);
    open_letting(&world);
    check_guarded(&world);
    check_fault(nowhere, SEGV_MAPERR);
    *nowhere = 1;
}

/* The program makes pages read-only that we have attached, or had: such faults are its own, and not tried for ever. */
static void child_own_protection(void *arg) {
    struct world world;
    (void)arg;
    install(jump_back, 0);
    open_letting(&world);
    check_guarded(&world);
    MUST(mprotect(world.memory + PAGE, PAGE, PROT_READ) == 0);
    check_fault(world.memory + PAGE + 3, SEGV_ACCERR);
    check_fault(world.memory + PAGE + 3, SEGV_ACCERR);
    MUST(mprotect(world.memory + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    check_guarded(&world);
    world.guard->ops->close(world.guard);
    MUST(mprotect(world.memory + PAGE, PAGE, PROT_READ) == 0);
    check_fault(world.memory + PAGE + 3, SEGV_ACCERR);
}

/* Two sessions in one process. */
static void child_two_guards(void *arg) {
    struct world a, b;
    (void)arg;
    install(jump_back, 0);
    open_letting(&a);
    open_letting(&b);
    check_guarded(&a);
    check_guarded(&b);
    MUST(arm(&b, 0, 4) == 0);
    close_world(&a);
    b.memory[0]++;
    MUST(b.calls == 2);
    check_guarded(&b);
    check_fault(nowhere, SEGV_MAPERR);
}

static void attach_and_detach(void *arg) {
    struct world *world = arg;
    for (int i = 0; i < 2000; i++) {
        uint8_t *memory = map_pages(2);
        uintptr_t start = (uintptr_t)memory;
        MUST(world->guard->ops->attach(world->guard, start, 2 * PAGE) == 0);
        MUST(world->guard->ops->arm(world->guard, start, 2 * PAGE) == 0);
        memory[0] = 1;
        world->guard->ops->detach(world->guard, start, 2 * PAGE);
        memory[PAGE] = 1;
        munmap(memory, 2 * PAGE);
    }
}

/* Faults are looked up while the list of what is attached changes. */
static void child_busy_list(void *arg) {
    struct world world;
    struct writer writers[3];
    (void)arg;
    open_letting(&world);
    for (int i = 0; i < 3; i++)
        start_writer(&writers[i], attach_and_detach, &world);
    for (int i = 0; i < 2000; i++) {
        MUST(arm(&world, 0, 4) == 0);
        world.memory[(size_t)i % 4 * PAGE]++;
    }
    for (int i = 0; i < 3; i++)
        join_writer(&writers[i]);
}

/* A thread writes a page that is armed, disarmed and detached under its hands; whatever it meets, it gets no signal. */
static void write_on_and_on(void *arg) {
    uint8_t *byte = ((void **)arg)[0];
    atomic_int *stop = ((void **)arg)[1];
    while (!atomic_load(stop))
        add_one(byte);
}

static void child_detach_race(void *arg) {
    struct world world;
    struct writer writers[2];
    atomic_int stop = 0;
    (void)arg;
    open_letting(&world);
    uint8_t *memory = map_pages(1);
    void *args[2][2] = {{memory, &stop}, {memory + 1, &stop}};
    for (int i = 0; i < 2; i++)
        start_writer(&writers[i], write_on_and_on, args[i]);
    for (int i = 0; i < 12000; i++) {
        MUST(world.guard->ops->attach(world.guard, (uintptr_t)memory, PAGE) == 0);
        for (int j = 0; j < i % 4; j++) {
            MUST(world.guard->ops->arm(world.guard, (uintptr_t)memory, PAGE) == 0);
            if (i % 3)
                MUST(world.guard->ops->disarm(world.guard, (uintptr_t)memory, PAGE) == 0);
        }
        world.guard->ops->detach(world.guard, (uintptr_t)memory, PAGE);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        join_writer(&writers[i]);
}

struct scene {
    void (*fn)(void *arg);
    void *arg;
};

static void play(void *arg) {
    struct scene *scene = arg;
    signal(SIGSEGV, SIG_DFL); /* cmocka has a handler of its own */
    scene->fn(scene->arg);
}

static int from_scratch(void (*fn)(void *arg), void *arg) {
    struct scene scene = {fn, arg};
    return in_child(play, &scene);
}

#define FINE(name)                                                                                                     \
    static void name(void **unused) {                                                                                  \
        (void)unused;                                                                                                  \
        assert_int_equal(from_scratch(child_##name, NULL), 0);                                                         \
    }
FINE(before)
FINE(before_usual_stack)
FINE(plain_handler)
FINE(after)
FINE(between)
FINE(own_protection)
FINE(two_guards)
FINE(busy_list)
FINE(detach_race)

static void check_death(void (*fn)(void *arg), void *arg) {
    int status = from_scratch(fn, arg);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void default_still_kills(void **unused) {
    (void)unused;
    check_death(child_dies_by_default, NULL);
    check_death(child_dies_by_default, "raised");
    check_death(child_dies_though_ignored, NULL);
    check_death(child_dies_the_second_time, NULL);
    check_death(child_dies_behind_polite, NULL);
    check_death(child_dies_installed_twice, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before),        cmocka_unit_test(before_usual_stack),
        cmocka_unit_test(plain_handler), cmocka_unit_test(after),
        cmocka_unit_test(between),       cmocka_unit_test(own_protection),
        cmocka_unit_test(two_guards),    cmocka_unit_test(busy_list),
        cmocka_unit_test(detach_race),   cmocka_unit_test(default_still_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
