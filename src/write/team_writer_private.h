/* What the files of a team's writer share: team_writer.c (what it hears, step by step), team_writer_balance.c (who
 * stores how much), team_writer_pack.c (its pack). All in the writer's thread. */
#ifndef VV_WRITER_PRIVATE_H
#define VV_WRITER_PRIVATE_H

#include <stdatomic.h>

#include "base/details.h"
#include "write/writing.h"

#define VV_NO_TARGET UINT32_MAX

/* A rank of the team, or another writer of the node who forwards to us. */
struct vv_sender {
    struct vv_channel in;
    struct vv_channel out; /* back to it; for writers: what we forward */
    uint32_t rank;         /* of a rank of the team */
    uint32_t local;        /* in whose process it runs */
    int has_begun, has_amount, is_data_over, are_dependencies_over, is_last;
    uint64_t amount;
    struct vv_variable variable;
    struct vv_buf dependencies;
    uint64_t left;   /* bytes until it is decided anew where its chunks go */
    uint32_t target; /* the team they go to; VV_NO_TARGET: they stay */
    /* of another writer */
    struct vv_variable forwarded; /* the last variable that we told it */
};

struct vv_team_writer {
    struct vv_outputs *outputs;
    struct vv_team *team;
    struct vv_pool *pool;
    unsigned threads;
    pthread_t thread;
    struct vv_doorbell *bell;
    atomic_int is_closing;
    struct vv_known_order *orders;
    struct vv_sender *ranks, *others; /* team->count, and team->teams: ourselves is not used */
    struct vv_share *shares;          /* of the others */

    /* the attempt under way */
    uint64_t number;
    struct vv_say_begin begin;
    int is_writing; /* a pack is begun */
    struct vv_writing writing;
    int is_load_told, is_balanced, are_others_told, are_dependencies_sent;
    uint64_t load, seen;    /* bytes expected, and received */
    uint64_t held_until_ns; /* no longer is data held back until loads are known */
    struct vv_buf moved;    /* struct vv_moved */
    uint64_t bytes_moved;
    uint32_t turn; /* the rank whose manifest is next */
    uint64_t protected_bytes, regions;
    int has_failed;
    struct varve_error error;
};

/* The first failure is the one that is told, to all ranks, at once; it happened on the rank of the writer unless the
 * error knows better. */
void vv_writer_fail(struct vv_team_writer *writer, int code, const struct varve_error *why);

/* ---- team_writer_balance.c ---- */
/* As soon as all ranks have told how much they have, and all writers of the node: who gives how much to whom. */
void vv_writer_balance(struct vv_team_writer *writer);
/* Shall data wait, since the other writers of the node have not told yet how much they have? Not for ever. */
int vv_writer_must_wait(struct vv_team_writer *writer);
/* We have failed: nobody shall wait for our load. */
void vv_writer_tell_nothing(struct vv_team_writer *writer);
/* A chunk of the team: to another writer of the node? 1 then, 0 if it stays, or an error. */
int vv_writer_forward(struct vv_team_writer *writer, struct vv_sender *sender, const struct vv_say_chunk *chunk);
/* A rank has passed a chunk on to another node. */
int vv_writer_note_moved(struct vv_team_writer *writer, uint32_t owner, uint64_t address, uint32_t size, uint32_t by);

/* ---- team_writer_pack.c: each fails the attempt if it fails ---- */
void vv_writer_begin_pack(struct vv_team_writer *writer);
void vv_writer_store(struct vv_team_writer *writer, const struct vv_sender *sender, const struct vv_say_chunk *chunk);
/* All data is here: blocks and tables are written, and the ranks get the list they need for their manifests. */
void vv_writer_end_data(struct vv_team_writer *writer);
void vv_writer_manifest(struct vv_team_writer *writer, const struct vv_sender *sender, uint64_t kind,
                        const uint8_t *message, size_t size);
/* All manifests are there: our yes. 1 if it was said. */
int vv_writer_seal(struct vv_team_writer *writer, struct vv_details *stats);
void vv_writer_end_pack(struct vv_team_writer *writer);

#endif
