/* What goes over the wire while ranks get to know each other, and between monitors. All ranks have the same byte order:
 * the magic number tells. */
#ifndef VARVE_ENV_WIRE_H
#define VARVE_ENV_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define VV_ENV_MAGIC UINT64_C(0x32564e4545565256)
#define VV_ENV_KEY 32
#define VV_ENV_NONCE 16

/* What a connection is for. ASK: to be refused, by a rank that is still there. */
enum vv_env_purpose { VV_ENV_JOIN = 1, VV_ENV_TREE, VV_ENV_ASK, VV_ENV_DATA }; /* DATA + the number of the channel */

/* About a rank. */
struct vv_env_card {
    uint8_t ip[16];
    uint32_t family; /* 4 or 6 */
    uint16_t port;
    uint8_t is_loopback; /* only ranks of rank 0's host reach ip */
    uint8_t has_domain;
    uint64_t host, domain; /* hashes of what names its node */
};

/* Who connects says hello; both then prove that they have the key: first the one who was called. */
struct vv_env_hello {
    uint64_t magic;
    uint32_t purpose, from, to, ranks;
    uint8_t nonce[VV_ENV_NONCE];
};
struct vv_env_challenge {
    uint64_t magic;
    uint8_t nonce[VV_ENV_NONCE];
    uint8_t mac[VV_ENV_KEY];
};
struct vv_env_proof {
    struct vv_env_card card; /* JOIN: of the rank; else zero */
    uint8_t mac[VV_ENV_KEY];
};
enum vv_env_verdict { VV_ENV_WELCOME = 1, VV_ENV_OTHER_SIZE, VV_ENV_NO_SUCH_RANK, VV_ENV_IS_TAKEN, VV_ENV_NOT_HERE };
struct vv_env_answer {
    uint32_t verdict;
    uint32_t ranks;
};

/* Rank 0 to each that has joined; the cards of all ranks follow, and a MAC of both for this one's connection: whoever
 * passed on the proofs between them can change neither. */
struct vv_env_table {
    uint64_t magic;
    uint32_t ranks;
    uint32_t zero;
    uint8_t token[VV_ENV_KEY];
};
enum { VV_ENV_READY = 0x52, VV_ENV_GO = 0x47 }; /* a byte each */

/* Between monitors. */
enum vv_env_note_kind { VV_ENV_BEAT = 0x42454154, VV_ENV_BYE, VV_ENV_BROKEN };
struct vv_env_note {
    uint32_t kind, number;
    char text[120]; /* BROKEN: why */
};

/* In front of each message of a channel. */
struct vv_env_head {
    uint32_t kind, channel;
    uint64_t number, size;
};

#endif
