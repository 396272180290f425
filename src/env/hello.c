/* To connect to a rank, and prove to each other that both have the key. Nothing that is sent lets a stranger compute
 * it, and what one connection has proved is of no use for another: both sides draw a number by lot. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "door.h"

#define RETRY_NS 20000000

int vv_env_mac_hello(const uint8_t *key, const char *word, const struct vv_env_hello *hello,
                     const struct vv_env_challenge *challenge, const struct vv_env_card *card,
                     uint8_t out[VV_ENV_KEY]) {
    const struct vv_env_part parts[] = {
        {hello, sizeof *hello}, {challenge->nonce, sizeof challenge->nonce}, {card, card ? sizeof *card : 0}};
    return vv_env_mac(key, word, parts, card ? 3 : 2, out);
}

/* The one that was called answers first: a rank tells nothing to a stranger that has taken the port. */
static int hear_challenge(int fd, const struct vv_env_call *call, const struct vv_env_hello *hello,
                          struct vv_env_challenge *challenge, const struct vv_env_limit *limit) {
    uint8_t mac[VV_ENV_KEY];
    int rc = vv_env_receive_all(fd, challenge, sizeof *challenge, limit);
    if (rc)
        return rc;
    if (challenge->magic != VV_ENV_MAGIC)
        return -EPROTO;
    rc = vv_env_mac_hello(call->key, "called", hello, challenge, NULL, mac);
    return rc ? rc : vv_env_is_same(mac, challenge->mac, sizeof mac) ? 0 : -EACCES;
}

/* The address that we have on the way to rank 0: others reach us there, too. */
static int fill_address(int fd, struct vv_env_card *card) {
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &size) != 0)
        return -errno;
    card->family = own.ss_family == AF_INET6 ? 6 : 4;
    card->is_loopback = (uint8_t)vv_env_is_loopback(&own);
    if (own.ss_family == AF_INET6)
        memcpy(card->ip, &((struct sockaddr_in6 *)&own)->sin6_addr, 16);
    else
        memcpy(card->ip, &((struct sockaddr_in *)&own)->sin_addr, 4);
    return 0;
}

static int greet(int fd, const struct vv_env_call *call, const struct vv_env_limit *limit,
                 struct vv_env_answer *answer) {
    struct vv_env_hello hello = {
        .magic = VV_ENV_MAGIC, .purpose = call->purpose, .from = call->from, .to = call->to, .ranks = call->ranks};
    struct vv_env_challenge challenge;
    struct vv_env_proof proof = {{{0}, 0, 0, 0, 0, 0, 0}, {0}};
    int rc = vv_env_random(hello.nonce, sizeof hello.nonce);
    if (rc == 0)
        rc = vv_env_send_all(fd, &hello, sizeof hello, limit);
    if (rc == 0)
        rc = hear_challenge(fd, call, &hello, &challenge, limit);
    if (rc)
        return rc;
    if (call->card) {
        proof.card = *call->card;
        rc = fill_address(fd, &proof.card);
    }
    if (rc == 0)
        rc = vv_env_mac_hello(call->key, "caller", &hello, &challenge, &proof.card, proof.mac);
    if (rc == 0)
        rc = vv_env_send_all(fd, &proof, sizeof proof, limit);
    if (rc == 0)
        rc = vv_env_receive_all(fd, answer, sizeof *answer, limit);
    if (rc == 0 && call->proof)
        memcpy(call->proof, proof.mac, sizeof proof.mac);
    return rc ? rc : answer->verdict == VV_ENV_WELCOME ? 0 : -EREMOTEIO;
}

int vv_env_connect(const struct vv_env_call *call, const struct vv_env_limit *limit, struct vv_env_answer *answer) {
    int fd = vv_env_dial(&call->address, call->peer_seconds, limit);
    int rc = fd < 0 ? fd : greet(fd, call, limit, answer);
    if (rc == 0)
        return fd;
    vv_env_close_fd(fd);
    return rc;
}

int vv_env_connect_again(const struct vv_env_call *call, const struct vv_env_limit *limit,
                         struct vv_env_answer *answer) {
    int fd = vv_env_connect(call, limit, answer);
    while ((fd == -ECONNRESET || fd == -EPIPE || fd == -ETIMEDOUT) && vv_env_now() < limit->until &&
           !(limit->stop && atomic_load(limit->stop))) {
        vv_env_pause(RETRY_NS);
        fd = vv_env_connect(call, limit, answer);
    }
    return fd;
}
