/* The thread that watches over the group: it lets connections in, and knows whether the other ranks live.
 *
 * Monitors are connected as a tree: the one above a rank is the rank without its lowest bit. Along it each tells its
 * neighbours now and then that it lives; who leaves says so; and who finds the group broken tells why, which the others
 * pass on. So all ranks hear of a death, of a rank that says nothing any more, and of one that cannot go on, whether
 * they talk at that moment or compute. The monitor never calls into the library, and never waits for a channel. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm_env.h"

#define BEAT_MOST_SECONDS 5
#define LEAVE_SECONDS 10 /* at most, that a rank which closes the group waits for its neighbours to do so, too */

static void ring(int fd) {
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void report(const struct vv_env_group *group, const char *text) {
    char line[320];
    snprintf(line, sizeof line, "rank %u: the group cannot talk any more: %s", group->plan.rank, text);
    if (group->log)
        group->log(group->log_arg, 0, line);
    else
        fprintf(stderr, "varve: error: %s\n", line);
}

int vv_env_break(struct vv_env_group *group, const char *format, ...) {
    char text[sizeof group->reason];
    va_list words;
    va_start(words, format);
    vsnprintf(text, sizeof text, format, words);
    va_end(words);
    for (char *at = text; *at; at++) /* another rank may have written it */
        *at = *at >= ' ' && *at < 127 ? *at : '?';
    pthread_mutex_lock(&group->lock);
    int is_first = !atomic_load(&group->is_broken);
    if (is_first) {
        memcpy(group->reason, text, sizeof text);
        atomic_store(&group->is_broken, 1);
    }
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    if (is_first && !atomic_load(&group->is_leaving))
        report(group, text);
    for (int i = 0; i < VV_ENV_CHANNELS; i++)
        ring(group->bell[i]);
    ring(group->wake);
    return -ECOMM;
}

void vv_env_address_of(const struct vv_env_group *group, uint32_t rank, struct sockaddr_storage *out) {
    const struct vv_env_card *card = &group->cards[rank];
    memset(out, 0, sizeof *out);
    int is_at_root = group->plan.is_loopback || (card->is_loopback && group->plan.rank != 0);
    if (rank == 0 || is_at_root) { /* it runs on rank 0's host */
        *out = group->root;
    } else if (card->family == 6) {
        out->ss_family = AF_INET6;
        memcpy(&((struct sockaddr_in6 *)out)->sin6_addr, card->ip, 16);
    } else {
        out->ss_family = AF_INET;
        memcpy(&((struct sockaddr_in *)out)->sin_addr, card->ip, 4);
    }
    vv_env_set_port(out, card->port);
}

/* ---- the tree ---- */

static struct vv_env_neighbour *neighbour_of(struct vv_env_group *group, uint32_t rank) {
    for (uint32_t i = 0; i < group->neighbour_count; i++)
        if (group->neighbours[i].rank == rank)
            return &group->neighbours[i];
    return NULL;
}

static void list_neighbours(struct vv_env_group *group) {
    uint32_t rank = group->plan.rank, ranks = group->plan.ranks, lowest = rank & (~rank + 1);
    group->neighbour_count = 0;
    if (rank > 0)
        group->neighbours[group->neighbour_count++] = (struct vv_env_neighbour){.rank = rank - lowest, .fd = -1};
    for (uint64_t bit = 1; (rank == 0 || bit < lowest) && rank + bit < ranks; bit *= 2)
        group->neighbours[group->neighbour_count++] = (struct vv_env_neighbour){.rank = rank + (uint32_t)bit, .fd = -1};
    group->missing = group->neighbour_count;
}

static void add_neighbour(struct vv_env_group *group, uint32_t rank, int fd) {
    vv_env_tune_notes(fd, group->plan.peer_seconds);
    pthread_mutex_lock(&group->lock);
    struct vv_env_neighbour *one = neighbour_of(group, rank);
    one->heard = vv_env_now();
    one->fd = fd;
    group->missing--;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    ring(group->wake);
}

/* ---- who comes in ---- */

static enum vv_env_verdict judge_guest(void *arg, const struct vv_env_hello *hello) {
    struct vv_env_group *group = arg;
    enum vv_env_verdict verdict = VV_ENV_NOT_HERE;
    pthread_mutex_lock(&group->lock);
    if (hello->purpose == VV_ENV_TREE) {
        const struct vv_env_neighbour *one = neighbour_of(group, hello->from);
        if (one && hello->from > group->plan.rank)
            verdict = one->fd < 0 && one->heard == 0 ? VV_ENV_WELCOME : VV_ENV_IS_TAKEN;
    } else if (hello->purpose >= VV_ENV_DATA && hello->purpose < VV_ENV_DATA + VV_ENV_CHANNELS) {
        verdict = group->arrived[hello->purpose - VV_ENV_DATA][hello->from] == -1 ? VV_ENV_WELCOME : VV_ENV_IS_TAKEN;
    }
    pthread_mutex_unlock(&group->lock);
    return verdict;
}

static void welcome_guest(void *arg, const struct vv_env_hello *hello, const struct vv_env_proof *proof, int fd) {
    struct vv_env_group *group = arg;
    (void)proof;
    if (hello->purpose == VV_ENV_TREE) {
        add_neighbour(group, hello->from, fd);
        return;
    }
    uint32_t channel = hello->purpose - VV_ENV_DATA;
    pthread_mutex_lock(&group->lock);
    group->arrived[channel][hello->from] = fd;
    pthread_mutex_unlock(&group->lock);
    ring(group->bell[channel]);
}

/* ---- notes ---- */

/* They are so short and so few that the kernel has always room for one; else the connection is of no use. */
static void send_note(struct vv_env_group *group, struct vv_env_neighbour *to, enum vv_env_note_kind kind) {
    struct vv_env_note note = {.kind = kind, .number = to->put};
    if (to->fd < 0)
        return;
    if (kind == VV_ENV_BROKEN) {
        pthread_mutex_lock(&group->lock);
        snprintf(note.text, sizeof note.text, "%.*s", (int)sizeof note.text - 1, group->reason);
        pthread_mutex_unlock(&group->lock);
    }
    ssize_t sent = send(to->fd, &note, sizeof note, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == (ssize_t)sizeof note)
        to->put++;
    else if (sent >= 0)
        shutdown(to->fd, SHUT_RDWR); /* what follows half a note is no note; a full buffer only leaves out a beat */
}

static void lose(struct vv_env_group *group, struct vv_env_neighbour *one, const char *why) {
    vv_env_close_fd(one->fd);
    one->fd = -1;
    if (!one->has_left)
        vv_env_break(group, "rank %u %s", one->rank, why);
}

static void read_note(struct vv_env_group *group, struct vv_env_neighbour *one) {
    struct vv_env_note note;
    memcpy(&note, one->note, sizeof note);
    one->note_bytes = 0;
    one->heard = vv_env_now();
    note.text[sizeof note.text - 1] = 0;
    if (note.number != one->got++ || note.kind < VV_ENV_BEAT || note.kind > VV_ENV_BROKEN) {
        lose(group, one, "has sent what makes no sense");
    } else if (note.kind == VV_ENV_BYE) {
        one->has_left = 1;
    } else if (note.kind == VV_ENV_BROKEN) {
        one->has_left = 1; /* it will go, and is not to blame */
        vv_env_break(group, "%s", note.text);
    }
}

static void hear_neighbour(struct vv_env_group *group, struct vv_env_neighbour *one) {
    while (one->fd >= 0) {
        ssize_t got = recv(one->fd, one->note + one->note_bytes, sizeof one->note - one->note_bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got <= 0) {
            lose(group, one, got == 0 ? "has ended: its connection is closed" : "has gone: its connection is lost");
            return;
        }
        one->note_bytes += (size_t)got;
        if (one->note_bytes == sizeof one->note)
            read_note(group, one);
    }
}

/* ---- the thread ---- */

struct watch {
    struct vv_env_group *group;
    int64_t beat_ns, next_beat, last_look, leave_until;
    int has_told_broken, has_told_bye;
    struct pollfd polled[1 + VV_ENV_TREE_MOST + VV_ENV_GUESTS + 1];
};

static void tell_neighbours(struct watch *watch, enum vv_env_note_kind kind) {
    for (uint32_t i = 0; i < watch->group->neighbour_count; i++)
        send_note(watch->group, &watch->group->neighbours[i], kind);
}

/* A process that was stopped itself has heard nobody: all begin anew. */
static void judge_silence(struct watch *watch, int64_t now) {
    struct vv_env_group *group = watch->group;
    int64_t patience = group->plan.peer_seconds * VV_ENV_SECOND;
    int was_stopped = now - watch->last_look > 2 * watch->beat_ns + VV_ENV_SECOND;
    watch->last_look = now;
    for (uint32_t i = 0; i < group->neighbour_count; i++) {
        struct vv_env_neighbour *one = &group->neighbours[i];
        if (was_stopped)
            one->heard = one->fd >= 0 ? now : one->heard;
        else if (one->fd >= 0 && !one->has_left && now - one->heard > patience) {
            char why[64];
            snprintf(why, sizeof why, "was silent for %d s (VARVE_PEER_SECONDS)", group->plan.peer_seconds);
            lose(group, one, why);
        }
    }
}

static int is_over(struct watch *watch, int64_t now) {
    struct vv_env_group *group = watch->group;
    if (!atomic_load(&group->is_leaving))
        return 0;
    if (!watch->has_told_bye) {
        tell_neighbours(watch, VV_ENV_BYE);
        watch->has_told_bye = 1;
        int seconds = group->plan.peer_seconds < LEAVE_SECONDS ? group->plan.peer_seconds : LEAVE_SECONDS;
        watch->leave_until = now + seconds * VV_ENV_SECOND;
    }
    int is_alone = 1;
    for (uint32_t i = 0; i < group->neighbour_count; i++)
        is_alone = is_alone && (group->neighbours[i].fd < 0 || group->neighbours[i].has_left);
    return is_alone || now > watch->leave_until || atomic_load(&group->is_broken);
}

static void look(struct watch *watch) {
    struct vv_env_group *group = watch->group;
    uint64_t rung;
    size_t tree = group->neighbour_count, guests;
    watch->polled[0] = (struct pollfd){.fd = group->wake, .events = POLLIN};
    for (size_t i = 0; i < tree; i++)
        watch->polled[1 + i] = (struct pollfd){.fd = group->neighbours[i].fd, .events = POLLIN};
    guests = vv_env_door_poll(&group->door, watch->polled + 1 + tree);
    int64_t ms = (watch->next_beat - vv_env_now()) / 1000000 + 1;
    if (poll(watch->polled, 1 + tree + guests, ms > 0 ? (int)ms : 0) < 0)
        return;
    if (watch->polled[0].revents && read(group->wake, &rung, sizeof rung) < 0)
        rung = 0;
    for (size_t i = 0; i < tree; i++)
        if (watch->polled[1 + i].revents && watch->polled[1 + i].fd >= 0)
            hear_neighbour(group, &group->neighbours[i]);
    vv_env_door_serve(&group->door, watch->polled + 1 + tree, guests);
}

static void *keep_watch(void *arg) {
    struct watch watch = {.group = arg};
    int64_t seconds = watch.group->plan.peer_seconds;
    watch.beat_ns = seconds > 4 * BEAT_MOST_SECONDS ? BEAT_MOST_SECONDS * VV_ENV_SECOND : seconds * VV_ENV_SECOND / 4;
    watch.last_look = watch.next_beat = vv_env_now();
    for (;;) {
        int64_t now = vv_env_now();
        if (atomic_load(&watch.group->is_broken) && !watch.has_told_broken) {
            tell_neighbours(&watch, VV_ENV_BROKEN);
            watch.has_told_broken = 1;
        }
        if (is_over(&watch, now))
            return NULL;
        if (now >= watch.next_beat) {
            tell_neighbours(&watch, VV_ENV_BEAT);
            watch.next_beat = now + watch.beat_ns;
        }
        look(&watch);
        judge_silence(&watch, vv_env_now());
    }
}

/* Before the thread begins, so that it alone uses the neighbours. */
static int connect_above(struct vv_env_group *group, const struct vv_env_limit *limit, struct varve_error *error) {
    const struct vv_env_plan *plan = &group->plan;
    uint32_t above = group->neighbours[0].rank;
    struct vv_env_answer answer = {0};
    struct vv_env_call call = {.purpose = VV_ENV_TREE,
                               .from = plan->rank,
                               .to = above,
                               .ranks = plan->ranks,
                               .key = group->key,
                               .peer_seconds = plan->peer_seconds};
    vv_env_address_of(group, above, &call.address);
    int fd = vv_env_connect_again(&call, limit, &answer);
    if (fd < 0)
        return vv_env_refuse(error, -ECOMM, "rank %u cannot connect to rank %u, port %u: %s", plan->rank, above,
                             group->cards[above].port, strerror(-fd));
    add_neighbour(group, above, fd);
    return 0;
}

int vv_env_monitor_start(struct vv_env_group *group, const struct vv_env_limit *limit, struct varve_error *error) {
    sigset_t all, before;
    group->door.key = group->key;
    group->door.rank = group->plan.rank;
    group->door.ranks = group->plan.ranks;
    group->door.peer_seconds = group->plan.peer_seconds;
    group->door.judge = judge_guest;
    group->door.welcome = welcome_guest;
    group->door.arg = group;
    list_neighbours(group);
    int rc = group->plan.rank > 0 ? connect_above(group, limit, error) : 0;
    if (rc)
        return rc;
    sigfillset(&all); /* the program's signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = -pthread_create(&group->monitor, NULL, keep_watch, group);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    group->has_monitor = rc == 0;
    return rc ? vv_env_refuse(error, rc, "rank %u cannot start a thread: %s", group->plan.rank, strerror(-rc)) : 0;
}

int vv_env_monitor_await(struct vv_env_group *group, const struct vv_env_limit *limit, struct varve_error *error) {
    pthread_mutex_lock(&group->lock);
    while (group->missing > 0 && !atomic_load(&group->is_broken) && vv_env_now() < limit->until) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        pthread_cond_timedwait(&group->changed, &group->lock, &until);
    }
    uint32_t missing = group->missing;
    pthread_mutex_unlock(&group->lock);
    if (missing)
        return vv_env_refuse(error, -ECOMM, "%u ranks did not connect to rank %u: %s", missing, group->plan.rank,
                             group->reason[0] ? group->reason : "there was no time left");
    return 0;
}

void vv_env_monitor_stop(struct vv_env_group *group) {
    atomic_store(&group->is_leaving, 1);
    if (group->has_monitor && group->forks == vv_env_forks()) {
        ring(group->wake);
        pthread_join(group->monitor, NULL);
    }
    group->has_monitor = 0;
    vv_env_door_close(&group->door);
    for (uint32_t i = 0; i < group->neighbour_count; i++) {
        vv_env_close_fd(group->neighbours[i].fd);
        group->neighbours[i].fd = -1;
    }
}
