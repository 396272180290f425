/* Each time ours is put on top of a handler of the program's, that is a new level, with an entry point of its own: who
 * is called at level k passes on to what level k lies on. So it does not matter how the others treat what they found:
 * a handler above us that passes faults on to our level k, or one that goes away and puts back our level k, reaches
 * what came before it, never itself. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "memory/signals.h"

#define LEVELS 8

struct level {
    struct sigaction below;
    atomic_int is_used_up; /* it wanted to be called once (SA_RESETHAND) */
};

static struct level levels[LEVELS];
static int level_count;
static pthread_mutex_t levels_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(vv_signals_fn) ours;

void vv_signals_block(sigset_t *old_out) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, old_out);
}

void vv_signals_restore(const sigset_t *old) {
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* The instruction is tried again, or the signal comes again, and then the kernel does what it does by itself. */
static void die(int number, const siginfo_t *info) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    if (info->si_code <= 0)
        syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), number);
}

/* Block what would be blocked had the kernel called it. The kernel fills only its own few bytes of uc_sigmask. */
static void set_mask(const struct sigaction *action, int number, const ucontext_t *context) {
    sigset_t mask;
    sigemptyset(&mask);
    memcpy(&mask, &context->uc_sigmask, _NSIG / 8);
    sigorset(&mask, &mask, &action->sa_mask);
    if (!(action->sa_flags & SA_NODEFER))
        sigaddset(&mask, number);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void pass_on(struct level *level, int number, siginfo_t *info, void *context) {
    const struct sigaction *action = &level->below;
    int was_sent = info->si_code <= 0;
    int has_siginfo = (action->sa_flags & SA_SIGINFO) != 0;
    if (!has_siginfo && action->sa_handler == SIG_IGN && was_sent)
        return;
    int is_handler = has_siginfo || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
    if (!is_handler || ((action->sa_flags & SA_RESETHAND) && atomic_exchange(&level->is_used_up, 1))) {
        die(number, info);
        return;
    }
    set_mask(action, number, context);
    if (has_siginfo)
        action->sa_sigaction(number, info, context);
    else
        action->sa_handler(number);
}

/* At the end of the kernel's siginfo_t, which it fills with zeros: the levels that this fault has passed already. A
 * handler that was installed twice, and took ours for what it lies on, would otherwise be called for ever. */
struct passed {
    uint32_t magic, levels;
};
#define MAGIC 0x56617276u

static struct passed *find_passed(siginfo_t *info) {
    struct passed *passed = (struct passed *)((char *)info + sizeof *info - sizeof *passed);
    if (passed->magic != MAGIC)
        *passed = (struct passed){MAGIC, 0};
    return passed;
}

static void on_fault(int k, int number, siginfo_t *info, void *context) {
    int saved = errno;
    struct passed *passed = find_passed(info);
    vv_signals_fn fn = passed->levels == 0 ? atomic_load(&ours) : NULL;
    int is_done = fn && fn(info);
    errno = saved;
    if (is_done)
        return;
    while (k >= 0 && passed->levels >> k & 1)
        k--;
    if (k < 0) {
        die(number, info);
        return;
    }
    passed->levels |= 1u << k;
    pass_on(&levels[k], number, info, context); /* errno is the other handler's business */
}

#define ENTRY(k)                                                                                                       \
    static void entry_##k(int number, siginfo_t *info, void *context) {                                                \
        on_fault(k, number, info, context);                                                                            \
    }
ENTRY(0)
ENTRY(1)
ENTRY(2)
ENTRY(3)
ENTRY(4)
ENTRY(5)
ENTRY(6)
ENTRY(7)

typedef void (*entry_fn)(int number, siginfo_t *info, void *context);
static const entry_fn entries[LEVELS] = {entry_0, entry_1, entry_2, entry_3, entry_4, entry_5, entry_6, entry_7};

static int is_ours(const struct sigaction *action) {
    for (int k = 0; (action->sa_flags & SA_SIGINFO) && k < LEVELS; k++)
        if (action->sa_sigaction == entries[k])
            return 1;
    return 0;
}

static int is_same(const struct sigaction *a, const struct sigaction *b) {
    if (a->sa_flags != b->sa_flags || a->sa_handler != b->sa_handler)
        return 0;
    for (int number = 1; number < _NSIG; number++)
        if (sigismember(&a->sa_mask, number) != sigismember(&b->sa_mask, number))
            return 0;
    return 1;
}

/* One who comes again gets its old level; when there are more than we can count, the last one gives way. */
static int choose_level(const struct sigaction *below) {
    for (int k = 0; k < level_count; k++)
        if (is_same(&levels[k].below, below) && !atomic_load(&levels[k].is_used_up))
            return k;
    return level_count < LEVELS ? level_count++ : LEVELS - 1;
}

static int put_on_top(const struct sigaction *below) {
    int k = choose_level(below);
    levels[k].below = *below;
    atomic_store(&levels[k].is_used_up, 0);
    struct sigaction action = {.sa_sigaction = entries[k]};
    sigfillset(&action.sa_mask);
    /* On the stack that the one below wants to be called on: it may need the other stack (the usual one overflowed), or
     * more room than that has. */
    int is_handler = (below->sa_flags & SA_SIGINFO) || (below->sa_handler != SIG_DFL && below->sa_handler != SIG_IGN);
    action.sa_flags = SA_SIGINFO | (is_handler ? below->sa_flags & (SA_ONSTACK | SA_RESTART) : SA_ONSTACK);
    return sigaction(SIGSEGV, &action, NULL) == 0 ? 0 : -errno;
}

int vv_signals_take(vv_signals_fn fn) {
    struct sigaction now;
    sigset_t old;
    atomic_store(&ours, fn);
    if (sigaction(SIGSEGV, NULL, &now) != 0)
        return -errno;
    if (is_ours(&now))
        return 0;
    vv_signals_block(&old);
    pthread_mutex_lock(&levels_lock);
    int rc = sigaction(SIGSEGV, NULL, &now) == 0 ? 0 : -errno;
    if (rc == 0 && !is_ours(&now))
        rc = put_on_top(&now);
    pthread_mutex_unlock(&levels_lock);
    vv_signals_restore(&old);
    return rc;
}
