/* The ranks that share a writer: a team.
 *
 * On shared storage, consecutive ranks of a node form teams. The writer of a team is a thread in the process of its
 * first rank (team_writer.c); every rank of the team, the first too, is its client (team_client.c). In each attempt
 * that is shared this way a rank says, through rings in the node's memory (gather/post.h):
 *
 *   BEGIN                     the attempt; the first rank also what its pack is like
 *   AMOUNT                    how much it expects to send, so that writers can be levelled
 *   VARIABLE CHUNK CHUNK ...  new data
 *   DATA_END
 *   DEPENDENCIES... DEPENDENCIES_END        the attempts its manifest will refer to
 *   MANIFEST BYTES... MANIFEST_END   in the numbers of the list that the writer has made of all ranks' dependencies and
 * sent back
 *
 * or, at any time and as its last word, FAILED. The writer answers with the list, and as its last word with RESULT,
 * exactly once per attempt and rank: at the end, or as soon as anything has failed. A client whose attempt has failed
 * says FAILED and waits for its RESULT, so that both ends are empty when the next attempt begins. The rings need no
 * MPI: all this goes on in the background, whatever the program does.
 *
 * Writers of one node level their loads: one that has more than its share forwards chunks to one that has less, and
 * lists them as moved in its own pack. Every writer ends what it sends to each other one by DATA_END. Between nodes,
 * ranks pass chunks on to ranks (output_team.c).
 *
 * Bounded: the rings, and the writer's blocks. A writer that waits for the storage lets the rings fill, and the ranks
 * wait, as they would wait for the storage. */
#ifndef VV_TEAM_H
#define VV_TEAM_H

#include "base/details.h"
#include "format/manifest.h"
#include "format/object.h"
#include "gather/post.h"
#include "write/blocks.h"

struct vv_outputs;
struct vv_team_writer;

struct vv_team {
    uint32_t first, count;         /* its ranks; count 1: each writes by itself */
    uint32_t writer, writers;      /* its number, and how many there are in the job */
    uint32_t teams, team;          /* on this node, and which of them this is */
    uint32_t local_first;          /* the number on the node of its first rank */
    struct vv_post *post;          /* NULL: every rank writes by itself */
    struct vv_team_writer *thread; /* on the first rank */
    uint64_t attempts;             /* that were shared, so far */
    /* does it pay? Rank 0 decides */
    int is_measured;
    double ns_shared, ns_alone; /* per byte, lately; 0: not known */
    int is_warm;                /* a first checkpoint was made */
    unsigned checkpoints, next_trial, trial_gap;
    char reason[128];
};

/* The first rank of team number `team` of a node with so many ranks, as its number on the node; `teams` for team gives
 * the end. */
uint32_t vv_team_begin(uint32_t ranks, uint32_t teams, uint32_t team);

/* How many teams a node has; and the number of the writer of a rank, by its place. */
uint32_t vv_team_count_of(const struct vv_outputs *outputs, uint32_t node);
uint32_t vv_team_writer_of(const struct vv_outputs *outputs, uint32_t node, uint32_t local);

/* ---- team.c. Collective, the same code everywhere ---- */
int vv_team_open(struct vv_outputs *outputs, struct varve_error *error);
void vv_team_close(struct vv_outputs *outputs); /* each rank for itself */
/* Rank 0, which protects so much: shall the ranks share writers in the attempt that begins? */
int vv_team_wants(struct vv_outputs *outputs, uint64_t protected_bytes);
/* All ranks have sealed: how long did it take for how much new data? Collective. */
int vv_team_learn(struct vv_outputs *outputs, int is_shared, uint64_t took_ns, uint64_t fresh,
                  struct varve_error *error);

/* ---- messages ---- */
enum vv_say {
    VV_SAY_BEGIN = 1,
    VV_SAY_AMOUNT,
    VV_SAY_VARIABLE,
    VV_SAY_CHUNK,
    VV_SAY_MOVED, /* a chunk of this rank was passed on to another node, as struct vv_say_moved */
    VV_SAY_DATA_END,
    VV_SAY_DEPENDENCIES,
    VV_SAY_DEPENDENCIES_END,
    VV_SAY_MANIFEST,
    VV_SAY_BYTES,
    VV_SAY_MANIFEST_END,
    VV_SAY_FAILED,
    VV_SAY_RESULT /* of the writer only */
};
/* Every message begins with its kind in 8 bytes. */
struct vv_say_begin {
    uint64_t kind, number; /* of the attempt, counted by all ranks alike */
    struct vv_attempt attempt, parent;
    uint64_t block_size;
};
struct vv_say_amount {
    uint64_t kind, bytes;
};
struct vv_say_variable {
    uint64_t kind;
    struct vv_variable variable;
};
struct vv_say_chunk {
    uint64_t kind, address;
    struct vv_hash128 id;
    uint32_t owner, size; /* the bytes follow */
    uint64_t is_shared;   /* as in struct vv_new_chunk */
};
struct vv_say_moved {
    uint64_t kind, address;
    uint32_t size, writer;
};
struct vv_say_manifest {
    uint64_t kind;
    struct vv_manifest_head head;
};
struct vv_say_end { /* MANIFEST_END */
    uint64_t kind, protected_bytes, regions, looked;
    struct vv_hash128 digest; /* of the manifest, as the rank has computed it */
};
struct vv_say_failed {
    uint64_t kind;
    struct varve_error error;
};
struct vv_say_result {
    uint64_t kind, number;
    struct varve_error error; /* its code is 0 if all went well */
    struct vv_details stats;  /* of the pack */
};

/* ---- team_client.c: a rank and its writer ---- */
struct vv_client {
    struct vv_team *team;
    struct vv_channel up, down;
    uint64_t number;
    struct vv_variable variable;
    int is_told; /* the writer knows the variable */
    int is_last; /* our last word was said */
    int is_over; /* the writer's was heard: */
    struct vv_say_result result;
};
void vv_client_open(struct vv_client *client, struct vv_team *team, uint32_t local);
int vv_client_begin(struct vv_client *client, const struct vv_say_begin *begin, struct varve_error *error);
int vv_client_amount(struct vv_client *client, uint64_t bytes, struct varve_error *error);
void vv_client_variable(struct vv_client *client, const struct vv_variable *variable);
int vv_client_add(struct vv_client *client, const struct vv_say_chunk *chunk, const void *data,
                  struct varve_error *error);
/* A chunk of ours is stored by this writer of another node. */
int vv_client_moved(struct vv_client *client, const struct vv_say_chunk *chunk, uint32_t writer,
                    struct varve_error *error);
int vv_client_data_end(struct vv_client *client, struct varve_error *error);
/* The merged list goes into out as struct vv_dependency. */
int vv_client_dependencies(struct vv_client *client, const struct vv_dependency *dependencies, uint32_t count,
                           struct vv_buf *out, struct varve_error *error);
int vv_client_manifest(struct vv_client *client, const struct vv_manifest_head *head, struct varve_error *error);
int vv_client_bytes(struct vv_client *client, const void *data, size_t size, struct varve_error *error);
/* And wait for the result. */
int vv_client_end(struct vv_client *client, const struct vv_say_end *end, struct varve_error *error);
/* The attempt has failed, or is over: nothing of it is left in the rings afterwards. */
void vv_client_close(struct vv_client *client, const struct varve_error *why);

/* ---- team_writer.c: the writer of a team ---- */
int vv_team_writer_start(struct vv_outputs *outputs, struct vv_team_writer **out, struct varve_error *error);
void vv_team_writer_stop(struct vv_team_writer *writer); /* nothing is under way; accepts NULL */

/* ---- balance.c: who forwards how much to whom. Pure arithmetic. ---- */
/* loads: bytes of each of `count` writers or nodes. What number `own` gives to each, and takes from each. Little is
 * left as it is. */
void vv_balance(const uint64_t *loads, uint32_t count, uint32_t own, uint64_t *gives, uint64_t *takes);
/* To whom the next stretch of data goes, so that what is given is spread over the whole: to whom most is missing of
 * what should have been sent when `seen` of the expected bytes have come. count: to nobody. */
#define VV_BALANCE_STRETCH (64u << 10)
struct vv_share {
    uint64_t share, sent; /* bytes that shall go there, and did */
};
uint32_t vv_balance_target(const struct vv_share *shares, uint32_t count, uint64_t seen, uint64_t expected);

#endif
