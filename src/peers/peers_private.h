/* What the files of peers share. */
#ifndef VV_PEERS_PRIVATE_H
#define VV_PEERS_PRIVATE_H

#include <pthread.h>

#include "base/cache.h"
#include "base/sort.h"
#include "comm/hops.h"
#include "peers/peers.h"
#include "store/block_parts.h"

#define VV_SLICE (64u << 10)   /* what is kept at a time */
#define VV_QUESTION (1u << 20) /* nothing that is asked for crosses such a boundary */
#define VV_QUESTION_SLICES (VV_QUESTION / VV_SLICE)
#define VV_PARTS_MOST 4096u /* that one question asks for */
#define VV_HOLDERS_MAX 16   /* all of a group of parity */
#define VV_HOLDER_SIZE 8u   /* on the way: rank, writer */

/* ---- slice_cache.c: slices of objects that were read, each once, until room is needed for others. Any thread. ---- */
struct vv_slice_cache;
struct vv_slice {
    struct vv_cache_entry entry; /* first */
    uint8_t *data;
    size_t size; /* less than VV_SLICE at the end of the object */
};
/* At most `budget` bytes, and what is borrowed. 0 or -ENOMEM. */
int vv_slice_cache_create(struct varve_backend *backend, size_t budget, struct vv_slice_cache **out);
void vv_slice_cache_destroy(struct vv_slice_cache *slices); /* nothing is borrowed; accepts NULL */
/* Borrow slices first, first + 1, ...; those that are not there and follow each other are read together. out becomes
 * NULLs on failure. */
int vv_slice_cache_acquire(struct vv_slice_cache *slices, const char *key, uint64_t first, size_t count,
                           struct vv_slice **out);
void vv_slice_cache_release(struct vv_slice_cache *slices, struct vv_slice **list, size_t count); /* accepts NULLs */
/* Copy from slices that begin at `start` of the object: how many bytes there are, at most size. */
size_t vv_slice_cache_copy(struct vv_slice *const *list, size_t count, uint64_t start, uint64_t offset, void *data,
                           size_t size);
/* Like a backend's get. */
int64_t vv_slice_cache_get(struct vv_slice_cache *slices, const char *key, uint64_t offset, void *data, size_t size);

/* ---- block_cache.c: blocks that were decoded, each once, until room is needed for others. Any thread. ---- */
struct vv_block_cache;
struct vv_whole {
    struct vv_cache_entry entry; /* first */
    uint8_t *data;               /* of the raw length of the block */
};
/* At most `budget` bytes, and what is borrowed. Stored bytes come from the slices. 0 or -ENOMEM. */
int vv_block_cache_create(struct vv_slice_cache *slices, struct vv_read_costs *costs, size_t budget,
                          struct vv_block_cache **out);
void vv_block_cache_destroy(struct vv_block_cache *wholes); /* nothing is borrowed; accepts NULL */
/* Which block: all that decides what its bytes are. */
struct vv_hash128 vv_block_cache_id(const char *key, const struct vv_block *block);
/* Borrow a block, which has been checked as an entry (vv_block_parse). Several threads that want the same one wait
 * until it is decoded. out becomes NULL on failure. */
int vv_block_cache_acquire(struct vv_block_cache *wholes, const char *key, const struct vv_block *block,
                           struct vv_whole **out);
void vv_block_cache_release(struct vv_block_cache *wholes, struct vv_whole *whole); /* accepts NULL */
uint64_t vv_block_cache_decoded(struct vv_block_cache *wholes);                     /* how many so far */

/* ---- questions: 16 bytes (kind, length of the answer, offset), 16 bits for the length of the key, the key; for parts
 * the block's entry and the list of parts (block_parts.c) ---- */
enum vv_asked_kind { VV_ASKED_BYTES, VV_ASKED_SIZE, VV_ASKED_HOLDERS, VV_ASKED_PARTS };
#define VV_QUESTION_HEAD 18u

/* Lives with whoever waits for it. */
struct vv_asking {
    struct vv_hash128 id;
    uint32_t home;
    uint32_t size;       /* of data */
    size_t at;           /* where that begins among all that were made together */
    const uint8_t *data; /* from when it is put */
    void *out;
    /* instead of out, for parts: from these bytes of this part on */
    const struct vv_block_wish *wish;
    size_t part;
    uint32_t skip;
    uint32_t capacity; /* bytes that are wanted */
    int64_t result;    /* how many came, or an error */
    int is_answered;
};

struct vv_lender;

/* Which ranks can read an object, and who has written it: of parity, all of its group. */
struct vv_holders {
    struct vv_hash128 id; /* of its key */
    uint32_t count;
    uint32_t ranks[VV_HOLDERS_MAX];
    uint32_t writers[VV_HOLDERS_MAX];
};

enum vv_peers_mode {
    VV_PEERS_DIRECT, /* the storage itself */
    VV_PEERS_SHARED, /* packs belong to ranks */
    VV_PEERS_LOCAL   /* what is missing here is looked for elsewhere */
};

/* Packs of this attempt hold data of several ranks each. */
struct vv_shared_pack {
    struct vv_attempt attempt;
    uint32_t span; /* ranks per pack; 2 or more */
};

struct vv_peers {
    struct varve_backend backend; /* first: of store */
    struct varve_comm *comm;
    struct vv_store *own; /* the one of this rank */
    const char *name;     /* of the checkpoints */
    int is_leader;        /* answers for its node */
    struct vv_store store;
    struct vv_hops *hops; /* NULL: the group cannot exchange messages */
    struct vv_slice_cache *slices;
    struct vv_block_cache *wholes;
    struct vv_lender *lender; /* or NULL */
    int has_lent;             /* it was tried to have one */
    uint64_t lent_most;       /* bytes of a node that it may take */
    struct vv_buf spreads;    /* struct vv_shared_pack */
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
    int refused;         /* the last error with which another rank answered, */
    uint32_t refused_by; /* and which one; of the calling thread */

    struct vv_buf directory; /* struct vv_holders, ids ascending: those of which this rank is the home */
    struct vv_buf known;     /* the same, of those that this rank has asked for; with the lock */

    pthread_mutex_t groups_lock;
    struct vv_group *groups; /* whose parity was looked at (rebuild.c) */
};

/* ---- asking.c ---- */
struct vv_hash128 vv_peers_key_id(const char *key);
/* The beginning of a question; its length is filled in later where it is not known. */
void vv_peers_begin_question(struct vv_buf *buf, int kind, const char *key, uint64_t offset);
/* Shared storage: how many ranks have data in a pack of this attempt, as far as is known; and the rank that reads what
 * is at this offset for all. */
uint32_t vv_peers_span(const struct vv_peers *peers, const struct vv_attempt *attempt);
uint32_t vv_peers_home(const struct vv_peers *peers, const struct vv_key *key, uint64_t offset);
/* Put the questions, whose data is in `data`, and wait for the answers: not if they could not be put. */
int vv_peers_put(struct vv_peers *peers, struct vv_asking *list, size_t count, const struct vv_buf *data);
void vv_peers_wait(struct vv_peers *peers, const struct vv_asking *list, size_t count);

/* ---- holders.c ---- */
/* In an ordered list of holders; NULL if it is not there. */
const struct vv_holders *vv_holders_find(const struct vv_buf *list, struct vv_hash128 id);

/* ---- rebuild.c: what no node has any more ---- */
struct vv_group;
void vv_groups_clear(struct vv_peers *peers);
/* Bytes of a pack or a part from data and parity of the others; the size of one. -ENOENT: it cannot be rebuilt. */
int64_t vv_peers_rebuild(struct vv_peers *peers, const struct vv_key *key, uint64_t offset, void *data, size_t size);
int vv_peers_rebuild_size(struct vv_peers *peers, const struct vv_key *key, uint64_t *out);

/* ---- peers_backend.c ---- */
/* Who has an object; of parity, who has any of the group of this writer. */
int vv_peers_find_holders(struct vv_peers *peers, const struct vv_key *key, struct vv_holders *out);
/* An object of another rank, or of this one's node: as a backend's get and stat. */
int64_t vv_peers_get_from(struct vv_peers *peers, uint32_t rank, const struct vv_key *key, uint64_t offset, void *data,
                          size_t size);
int vv_peers_size_from(struct vv_peers *peers, uint32_t rank, const struct vv_key *key, uint64_t *out);
extern const struct varve_backend_ops vv_peers_backend_ops;

/* ---- block_parts.c ---- */
extern const struct vv_parts_ops vv_peers_parts_ops;
/* An answer of the right length has come: put it where it belongs. */
void vv_parts_place(const struct vv_asking *asking, const uint8_t *data, uint32_t size);

/* ---- answer.c ---- */
extern const struct vv_hops_ops vv_peers_ask_ops; /* arg is a struct vv_peers_round */
struct vv_peers_round {
    struct vv_peers *peers;
    struct vv_asking **asked;
    struct vv_question *questions;
    size_t count, capacity;
};

#endif
