/* What the files of peers share. */
#ifndef VV_PEERS_PRIVATE_H
#define VV_PEERS_PRIVATE_H

#include <pthread.h>

#include "comm/hops.h"
#include "peers/peers.h"

#define VV_SLICE (64u << 10)    /* what is kept at a time */
#define VV_QUESTION (1u << 20) /* nothing that is asked for crosses such a boundary */
#define VV_QUESTION_SLICES (VV_QUESTION / VV_SLICE)
#define VV_HOLDERS_MAX 4

/* ---- slices.c: slices of objects that were read, each once, until room is needed for others. Any thread. ---- */
struct vv_slices;
struct vv_slice {
    struct vv_hash128 id;
    uint8_t *data;
    size_t size; /* less than VV_SLICE at the end of the object */
    unsigned refs;
    int is_loading;
    struct vv_slice *chain, *newer, *older;
};
/* At most `budget` bytes, and what is borrowed. 0 or -ENOMEM. */
int vv_slices_create(struct varve_backend *backend, size_t budget, struct vv_slices **out);
void vv_slices_destroy(struct vv_slices *slices); /* nothing is borrowed; accepts NULL */
/* Borrow slices first, first + 1, ...; those that are not there and follow each other are read together. out becomes
 * NULLs on failure. */
int vv_slices_acquire(struct vv_slices *slices, const char *key, uint64_t first, size_t count, struct vv_slice **out);
void vv_slices_release(struct vv_slices *slices, struct vv_slice **list, size_t count); /* accepts NULLs */
/* Copy from slices that begin at `start` of the object: how many bytes there are, at most size. */
size_t vv_slices_copy(struct vv_slice *const *list, size_t count, uint64_t start, uint64_t offset, void *data,
                      size_t size);
/* Like a backend's get. */
int64_t vv_slices_get(struct vv_slices *slices, const char *key, uint64_t offset, void *data, size_t size);

/* ---- questions ---- */
enum vv_asked { VV_ASKED_BYTES, VV_ASKED_SIZE, VV_ASKED_HOLDERS };

/* Lives with whoever waits for it. */
struct vv_asking {
    struct vv_hash128 id;
    uint32_t home;
    uint32_t size; /* of data */
    uint8_t data[16 + VV_KEY_ROOM];
    void *out;
    uint32_t room; /* bytes that are wanted at out */
    int64_t result; /* how many came, or an error */
    int is_answered;
};

/* Which ranks can read an object. */
struct vv_holders {
    struct vv_hash128 id; /* of its key */
    uint32_t count;
    uint32_t ranks[VV_HOLDERS_MAX];
};

enum vv_peers_mode {
    VV_PEERS_DIRECT, /* the storage itself */
    VV_PEERS_SHARED, /* packs belong to ranks */
    VV_PEERS_LOCAL   /* what is missing here is looked for elsewhere */
};

struct vv_peers {
    struct varve_backend backend; /* first: of store */
    struct varve_comm *comm;
    struct vv_store *own; /* the one of this rank */
    const char *name;     /* of the checkpoints */
    int is_keeper;        /* answers for its node */
    struct vv_store store;
    struct vv_hops *hops; /* NULL: the group cannot trade */
    struct vv_slices *slices;
    struct vv_pool *readers;
    size_t window; /* bytes that this rank asks for, and answers with, in one round */
    int mode;
    int is_alone;   /* no rounds yet: nobody is known to need them */
    int is_running; /* in rounds */

    /* what the threads tell each other */
    pthread_mutex_t lock;
    pthread_cond_t is_asked;    /* for the calling thread */
    pthread_cond_t is_answered; /* for those that wait */
    struct vv_buf waiting;      /* struct vv_asking * */
    int broken;                 /* the group can talk no more: why */
    int is_done;                /* the work */
    int is_free;                /* it may begin (1), or shall not (-1) */
    int (*call)(void *arg);     /* what the calling thread shall do, or NULL */
    void *call_arg;
    int call_result;

    vv_work_fn work;
    void *work_arg;
    int work_result;
    struct varve_error work_error;

    struct vv_buf directory; /* struct vv_holders, ids ascending: those of which this rank is the home */
    struct vv_buf known;     /* the same, of those that this rank has asked for; with the lock */
};

/* ---- backend.c ---- */
extern const struct varve_backend_ops vv_peers_backend_ops;
struct vv_hash128 vv_peers_key_id(const char *key);

/* ---- peers.c: put the questions, and wait for the answers ---- */
int vv_peers_ask(struct vv_peers *peers, struct vv_asking *list, size_t count);

/* ---- answer.c ---- */
extern const struct vv_hops_ops vv_peers_ask_ops; /* arg is a struct vv_peers_round */
struct vv_peers_round {
    struct vv_peers *peers;
    struct vv_asking **asked;
    struct vv_question *questions;
    size_t count, room;
};
/* In an ordered list of holders; NULL if it is not there. */
const struct vv_holders *vv_holders_find(const struct vv_buf *list, struct vv_hash128 id);

#endif
