/* Sockets and waiting, with a limit of time on everything, no signal, and none left to children of fork. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "door.h"

#define SLICE_MS 100 /* how often a wait looks whether it is still wanted */
#define BACKLOG 4096 /* the kernel takes less where it allows less */

int64_t vv_env_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * VV_ENV_SECOND + time.tv_nsec;
}

void vv_env_pause(int64_t nanoseconds) {
    struct timespec time = {nanoseconds / VV_ENV_SECOND, nanoseconds % VV_ENV_SECOND};
    nanosleep(&time, NULL); /* a signal makes it shorter, which harms nobody */
}

/* ---- file descriptors, and fork ---- */

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;
static int *kept;
static size_t kept_count, kept_capacity;
static unsigned forks;

static void before_fork(void) {
    pthread_mutex_lock(&kept_lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&kept_lock);
}

/* The connections are the parent's: while a child has them open, nobody would see the parent die. */
static void in_child(void) {
    for (size_t i = 0; i < kept_count; i++)
        close(kept[i]);
    kept_count = 0;
    forks++;
    pthread_mutex_unlock(&kept_lock);
}

static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork, in_child);
}

int vv_env_keep_fd(int fd) {
    if (fd < 0)
        return -1;
    pthread_once(&kept_once, watch_forks);
    pthread_mutex_lock(&kept_lock);
    if (kept_count == kept_capacity) {
        size_t capacity = kept_capacity ? 2 * kept_capacity : 64;
        int *more = realloc(kept, capacity * sizeof *more);
        if (more) {
            kept = more;
            kept_capacity = capacity;
        }
    }
    int has_room = kept_count < kept_capacity;
    if (has_room)
        kept[kept_count++] = fd;
    pthread_mutex_unlock(&kept_lock);
    if (has_room)
        return fd;
    close(fd);
    errno = ENOMEM;
    return -1;
}

void vv_env_close_fd(int fd) {
    if (fd < 0)
        return;
    pthread_mutex_lock(&kept_lock);
    for (size_t i = 0; i < kept_count; i++)
        if (kept[i] == fd) {
            kept[i] = kept[--kept_count];
            close(fd); /* in a child of fork it is not in the list, and may be another file by now */
            break;
        }
    pthread_mutex_unlock(&kept_lock);
}

unsigned vv_env_forks(void) {
    return forks;
}

/* ---- addresses ---- */

uint16_t vv_env_port_of(const struct sockaddr_storage *address) {
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

void vv_env_set_port(struct sockaddr_storage *address, uint16_t port) {
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

socklen_t vv_env_address_size(const struct sockaddr_storage *address) {
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

int vv_env_is_loopback(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *ip = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == 127);
}

/* ---- sockets ---- */

/* A host that is switched off says nothing: the kernel then ends the connection by itself. */
void vv_env_tune(int fd, int peer_seconds) {
    int on = 1, idle = peer_seconds > 4 ? peer_seconds / 2 : 2, interval = idle / 3 + 1, count = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* Also while something is on its way, which is when the kernel does not ask. Not for messages of channels: a receiver
 * that computes takes none, which the kernel would count as silence, though its host answers. */
void vv_env_tune_notes(int fd, int peer_seconds) {
    unsigned limit_ms = (unsigned)peer_seconds * 1000;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

int vv_env_listen(const struct sockaddr *address, socklen_t size) {
    int on = 1, off = 0;
    int fd = vv_env_keep_fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* the job before may have used the port just now */
    if (address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address, size) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int rc = -errno;
    vv_env_close_fd(fd);
    return rc;
}

/* IPv6 takes IPv4, too, where the host has it. */
int vv_env_listen_any(int is_loopback, uint16_t port) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    four.sin_addr.s_addr = htonl(is_loopback ? INADDR_LOOPBACK : INADDR_ANY);
    int fd = is_loopback ? -EAFNOSUPPORT : vv_env_listen((struct sockaddr *)&six, sizeof six);
    return fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL ? vv_env_listen((struct sockaddr *)&four, sizeof four) : fd;
}

/* Until something can be done with fd: 0, or why there is no more time. */
static int await(int fd, short events, const struct vv_env_limit *limit) {
    for (;;) {
        int64_t left = limit->until - vv_env_now();
        if (limit->stop && atomic_load(limit->stop))
            return -ECANCELED;
        if (left <= 0)
            return -ETIMEDOUT;
        struct pollfd one = {.fd = fd, .events = events};
        int64_t ms = left / 1000000 + 1;
        int rc = poll(&one, 1, ms < SLICE_MS ? (int)ms : SLICE_MS);
        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return -errno;
    }
}

int vv_env_send_all(int fd, const void *data, size_t size, const struct vv_env_limit *limit) {
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            at += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            int rc = await(fd, POLLOUT, limit);
            if (rc)
                return rc;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int vv_env_receive_all(int fd, void *data, size_t size, const struct vv_env_limit *limit) {
    char *at = data;
    while (size > 0) {
        ssize_t got = recv(fd, at, size, MSG_DONTWAIT);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        } else if (got == 0) {
            return -ECONNRESET;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            int rc = await(fd, POLLIN, limit);
            if (rc)
                return rc;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int vv_env_dial(const struct sockaddr_storage *address, int peer_seconds, const struct vv_env_limit *limit) {
    int error = 0;
    socklen_t size = sizeof error;
    int fd = vv_env_keep_fd(socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return -errno;
    vv_env_tune(fd, peer_seconds);
    int rc = connect(fd, (const struct sockaddr *)address, vv_env_address_size(address)) == 0 ? 0 : -errno;
    if (rc == -EINPROGRESS || rc == -EINTR) {
        rc = await(fd, POLLOUT, limit);
        if (rc == 0)
            rc = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? -error : -errno;
    }
    if (rc == 0)
        return fd;
    vv_env_close_fd(fd);
    return rc;
}
