/* Sockets: those that listen, and what everybody who connects has to prove. */
#ifndef VARVE_ENV_DOOR_H
#define VARVE_ENV_DOOR_H

#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "wire.h"

/* ---- sockets.c ---- */

/* How long to try: until a time of vv_env_now, or until somebody sets stop (which may be NULL). */
struct vv_env_limit {
    int64_t until;
    const atomic_int *stop;
};

int64_t vv_env_now(void); /* nanoseconds of a clock that only goes on */
#define VV_ENV_SECOND INT64_C(1000000000)

/* File descriptors of this folder: a child of fork closes them at once, so that the death of its parent is seen. */
int vv_env_keep_fd(int fd); /* returns fd, or -1 when it is that, or without memory (then it is closed) */
void vv_env_close_fd(int fd);
unsigned vv_env_forks(void); /* between this process and the one that loaded the library */

/* A socket, or -errno: one that listens at this address; or at any, or any that only this host reaches. Port 0: any. */
int vv_env_listen(const struct sockaddr *address, socklen_t size);
int vv_env_listen_any(int is_loopback, uint16_t port);
/* One that is connected to this address. */
int vv_env_dial(const struct sockaddr_storage *address, int peer_seconds, const struct vv_env_limit *limit);
uint16_t vv_env_port_of(const struct sockaddr_storage *address);
void vv_env_set_port(struct sockaddr_storage *address, uint16_t port);
socklen_t vv_env_address_size(const struct sockaddr_storage *address);
int vv_env_is_loopback(const struct sockaddr_storage *address);
void vv_env_tune(int fd, int peer_seconds);
void vv_env_tune_notes(int fd, int peer_seconds); /* a connection whose other side always reads */

/* All bytes, or -errno: -ETIMEDOUT, -ECANCELED, -ECONNRESET at the end of the connection. */
int vv_env_send_all(int fd, const void *data, size_t size, const struct vv_env_limit *limit);
int vv_env_receive_all(int fd, void *data, size_t size, const struct vv_env_limit *limit);
void vv_env_pause(int64_t nanoseconds);

/* ---- key.c ---- */

struct vv_env_part {
    const void *data;
    size_t size;
};
/* HMAC-SHA256 over the parts; -EIO where the library for it fails. */
int vv_env_mac(const uint8_t key[VV_ENV_KEY], const char *word, const struct vv_env_part *parts, size_t count,
               uint8_t out[VV_ENV_KEY]);
int vv_env_mac_of(const void *key, size_t key_size, const void *data, size_t size, uint8_t out[VV_ENV_KEY]);
int vv_env_is_same(const uint8_t *a, const uint8_t *b, size_t size); /* in a time that tells nothing */
int vv_env_random(void *out, size_t size);

/* ---- hello.c ---- */

struct vv_env_call {
    struct sockaddr_storage address;
    uint32_t purpose, from, to, ranks;
    const uint8_t *key;
    const struct vv_env_card *card; /* its ip is filled here; may be NULL */
    uint8_t *proof;                 /* out: the MAC that this side has sent, which names the connection; may be NULL */
    int peer_seconds;
};
/* A connection whose other side has the key and took us for what we say; or -errno: -EACCES for one without the key,
 * -EPROTO for one that speaks another language, -EREMOTEIO with a verdict. */
int vv_env_connect(const struct vv_env_call *call, const struct vv_env_limit *limit, struct vv_env_answer *answer);
/* The same, again and again: strangers at its port may be too many for the other rank at a moment. */
int vv_env_connect_again(const struct vv_env_call *call, const struct vv_env_limit *limit,
                         struct vv_env_answer *answer);
int vv_env_mac_hello(const uint8_t *key, const char *word, const struct vv_env_hello *hello,
                     const struct vv_env_challenge *challenge, const struct vv_env_card *card, uint8_t out[VV_ENV_KEY]);

/* ---- door.c: the other side ---- */

#define VV_ENV_GUESTS 128 /* that have proved nothing yet; the oldest of those without a hello gives way */

struct vv_env_guest {
    int fd;
    int64_t until;
    int is_challenged;
    size_t got;
    union {
        struct vv_env_hello hello;
        struct vv_env_proof proof;
    } in;
    struct vv_env_hello hello;
    struct vv_env_challenge challenge;
};

struct vv_env_door {
    int listener; /* -1: closed */
    const uint8_t *key;
    uint32_t rank, ranks;
    int peer_seconds;
    /* A guest that has proved itself: the verdict; and, after it was told that it is welcome, its connection. */
    enum vv_env_verdict (*judge)(void *arg, const struct vv_env_hello *hello);
    void (*welcome)(void *arg, const struct vv_env_hello *hello, const struct vv_env_proof *proof, int fd);
    void *arg;
    struct vv_env_guest guests[VV_ENV_GUESTS];
    size_t guest_count;
};

/* To be polled: fills at most VV_ENV_GUESTS + 1 and returns how many. */
size_t vv_env_door_poll(const struct vv_env_door *door, struct pollfd *out);
/* After poll, with what it has filled. */
void vv_env_door_serve(struct vv_env_door *door, const struct pollfd *polled, size_t count);
void vv_env_door_close(struct vv_env_door *door);

#endif
