/* Who comes in. Any host may connect to a port that listens: scanners, strangers, ranks of other jobs. They get a few
 * seconds to prove that they belong here, never wait for each other, and nobody waits for them. */
#include <errno.h>
#include <string.h>

#include "door.h"

#define GUEST_SECONDS 10

static void dismiss(struct vv_env_door *door, size_t which) {
    vv_env_close_fd(door->guests[which].fd);
    door->guests[which] = door->guests[--door->guest_count];
}

/* The oldest of those that have not said hello, if there are any: ranks do so at once. */
static void dismiss_one(struct vv_env_door *door) {
    const struct vv_env_guest *guests = door->guests;
    size_t which = 0;
    for (size_t i = 1; i < door->guest_count; i++)
        if (guests[i].is_challenged != guests[which].is_challenged ? guests[which].is_challenged
                                                                   : guests[i].until < guests[which].until)
            which = i;
    dismiss(door, which);
}

static void admit(struct vv_env_door *door, int fd) {
    if (door->guest_count == VV_ENV_GUESTS)
        dismiss_one(door);
    vv_env_tune(fd, door->peer_seconds);
    door->guests[door->guest_count++] =
        (struct vv_env_guest){.fd = fd, .until = vv_env_now() + GUEST_SECONDS * VV_ENV_SECOND};
}

/* No more files can be open. */
static void make_place(struct vv_env_door *door) {
    if (door->guest_count > 0)
        dismiss_one(door);
    else
        vv_env_pause(10000000); /* the connection stays in the queue, so poll would return at once */
}

static void accept_some(struct vv_env_door *door) {
    for (int i = 0; i < VV_ENV_GUESTS / 2; i++) {
        int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        fd = vv_env_keep_fd(fd);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
                make_place(door);
            return;
        }
        admit(door, fd);
    }
}

/* What is this short is taken by the buffer of a new connection, or it is no connection of a rank. */
static int send_now(int fd, const void *data, size_t size) {
    return send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size ? 0 : -EPIPE;
}

static int challenge_guest(struct vv_env_door *door, struct vv_env_guest *guest) {
    guest->hello = guest->in.hello;
    if (guest->hello.magic != VV_ENV_MAGIC)
        return -EPROTO;
    guest->challenge.magic = VV_ENV_MAGIC;
    int rc = vv_env_random(guest->challenge.nonce, sizeof guest->challenge.nonce);
    if (rc == 0)
        rc = vv_env_mac_hello(door->key, "called", &guest->hello, &guest->challenge, NULL, guest->challenge.mac);
    if (rc == 0)
        rc = send_now(guest->fd, &guest->challenge, sizeof guest->challenge);
    guest->is_challenged = 1;
    guest->got = 0;
    return rc;
}

static enum vv_env_verdict judge(const struct vv_env_door *door, const struct vv_env_hello *hello) {
    if (hello->ranks != door->ranks)
        return VV_ENV_OTHER_SIZE;
    if (hello->from >= door->ranks || hello->from == door->rank)
        return VV_ENV_NO_SUCH_RANK;
    if (hello->to != door->rank)
        return VV_ENV_NOT_HERE;
    return door->judge(door->arg, hello);
}

/* 1: it came in, and its connection is not the door's any more. */
static int check_proof(struct vv_env_door *door, struct vv_env_guest *guest) {
    uint8_t mac[VV_ENV_KEY];
    const struct vv_env_proof *proof = &guest->in.proof;
    int rc = vv_env_mac_hello(door->key, "caller", &guest->hello, &guest->challenge, &proof->card, mac);
    if (rc || !vv_env_is_same(mac, proof->mac, sizeof mac))
        return -EACCES;
    struct vv_env_answer answer = {.verdict = judge(door, &guest->hello), .ranks = door->ranks};
    rc = send_now(guest->fd, &answer, sizeof answer);
    if (rc || answer.verdict != VV_ENV_WELCOME)
        return -EACCES;
    door->welcome(door->arg, &guest->hello, proof, guest->fd);
    return 1;
}

/* 0: go on; 1: it came in; or it is to be dismissed. */
static int hear_guest(struct vv_env_door *door, struct vv_env_guest *guest) {
    size_t whole = guest->is_challenged ? sizeof guest->in.proof : sizeof guest->in.hello;
    ssize_t got = recv(guest->fd, (char *)&guest->in + guest->got, whole - guest->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (got <= 0)
        return -ECONNRESET;
    guest->got += (size_t)got;
    if (guest->got < whole)
        return 0;
    return guest->is_challenged ? check_proof(door, guest) : challenge_guest(door, guest);
}

size_t vv_env_door_poll(const struct vv_env_door *door, struct pollfd *out) {
    for (size_t i = 0; i < door->guest_count; i++)
        out[i] = (struct pollfd){.fd = door->guests[i].fd, .events = POLLIN};
    out[door->guest_count] = (struct pollfd){.fd = door->listener, .events = POLLIN};
    return door->guest_count + 1;
}

void vv_env_door_serve(struct vv_env_door *door, const struct pollfd *polled, size_t count) {
    int64_t now = vv_env_now();
    for (size_t i = count - 1; i-- > 0;) { /* from behind: the last takes the place of one that goes */
        int rc = polled[i].revents ? hear_guest(door, &door->guests[i]) : 0;
        if (rc == 1)
            door->guests[i] = door->guests[--door->guest_count];
        else if (rc < 0 || door->guests[i].until < now)
            dismiss(door, i);
    }
    if (polled[count - 1].revents)
        accept_some(door);
}

void vv_env_door_close(struct vv_env_door *door) {
    while (door->guest_count > 0)
        dismiss(door, door->guest_count - 1);
    vv_env_close_fd(door->listener);
    door->listener = -1;
}
