/* Signals that ask for checkpoints. The handler only counts, and calls the one that was there before: the program sees
 * its signals as ever. Sessions of a process share the handler; each compares the count with what it has seen. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "session/asked.h"

/* In the order of the words of the setting. */
static const int numbers[] = {0, SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGTERM, SIGXCPU};

static struct taken {
    atomic_uint count;
    struct sigaction former; /* written before our handler can run */
    unsigned users;          /* sessions */
    _Atomic pid_t process;   /* whose sessions they are; not that of a child of fork */
    int was_replaced;        /* the program has put a handler of its own in the place of ours */
} taken[_NSIG];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int vv_signal_number(int choice) {
    return numbers[choice];
}

/* As if ours had never been there: the signal ends the process. All calls are safe in handlers. */
static void do_default(int number) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)sigaction(number, &action, NULL);
    (void)raise(number);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

/* A child of fork inherits it, but has no session that would end the child. */
static void on_signal(int number, siginfo_t *info, void *context) {
    const struct sigaction *former = &taken[number].former;
    int before = errno;
    int is_child = atomic_load_explicit(&taken[number].process, memory_order_relaxed) != getpid();
    if (!is_child)
        atomic_fetch_add_explicit(&taken[number].count, 1, memory_order_relaxed);
    if (former->sa_flags & SA_SIGINFO)
        former->sa_sigaction(number, info, context);
    else if (former->sa_handler == SIG_DFL && is_child)
        do_default(number);
    else if (former->sa_handler != SIG_DFL && former->sa_handler != SIG_IGN)
        former->sa_handler(number);
    errno = before;
}

static int is_ours(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_signal;
}

/* Over `now`, whose mask and stack go on to hold for it. A handler that took the place of ours may call ours: ours must
 * not be put above that one, or the two would call each other for ever. */
static int install(int number, const struct sigaction *now) {
    struct taken *one = &taken[number];
    struct sigaction own = {.sa_sigaction = on_signal, .sa_mask = now->sa_mask};
    if (one->was_replaced && now->sa_handler != one->former.sa_handler)
        return -EBUSY;
    int is_handled = (now->sa_flags & SA_SIGINFO) || (now->sa_handler != SIG_DFL && now->sa_handler != SIG_IGN);
    int kept = SA_ONSTACK | (is_handled ? SA_RESTART | SA_NODEFER : 0); /* a call that it interrupts still is */
    own.sa_flags = SA_SIGINFO | (is_handled ? 0 : SA_RESTART) | (now->sa_flags & kept);
    one->former = *now;
    one->was_replaced = 0;
    return sigaction(number, &own, NULL) == 0 ? 0 : -errno;
}

int vv_signal_take(int number) {
    struct taken *one = &taken[number];
    struct sigaction now;
    pthread_mutex_lock(&lock);
    int rc = sigaction(number, NULL, &now) == 0 ? 0 : -errno;
    if (one->process != getpid()) /* the sessions of the parent are not ours */
        one->users = 0;
    one->process = getpid();
    if (rc == 0 && !is_ours(&now)) {
        one->was_replaced |= one->users > 0;
        rc = install(number, &now);
    }
    if (rc == 0)
        one->users++;
    pthread_mutex_unlock(&lock);
    return rc;
}

void vv_signal_leave(int number) {
    struct taken *one = &taken[number];
    struct sigaction now;
    pthread_mutex_lock(&lock);
    if (--one->users == 0 && sigaction(number, NULL, &now) == 0) {
        one->was_replaced |= !is_ours(&now);
        if (is_ours(&now))
            (void)sigaction(number, &one->former, NULL);
    }
    pthread_mutex_unlock(&lock);
}

unsigned vv_signal_count(int number) {
    return atomic_load_explicit(&taken[number].count, memory_order_relaxed);
}
