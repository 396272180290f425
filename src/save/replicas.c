/* Replicas: what the partners of a rank hold themselves need not be sent to them (write/output_replicas.c).
 *
 * A partner that holds the same content takes it from its own memory. So chunks that are on many nodes anyway cost no
 * messages, and unique ones travel once per copy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "save/save_private.h"

/* ---- messages: chunks with their bytes ---- */

struct chunk_head {
    struct vv_hash128 id;
    uint64_t address;
    uint64_t size;
};

static int nonsense(uint32_t rank, struct varve_error *error) {
    return vv_error(error, -EPROTO, "rank %u sent copies that make no sense", rank);
}

/* ---- chunks ---- */

static const struct vv_local_replica *local_replica_of(const struct vv_offers *offers, uint32_t offer) {
    size_t at;
    VV_SEARCH(at, 0, offers->local_replica_count, offers->local_replicas[at].offer < offer);
    return &offers->local_replicas[at];
}

int vv_replicas_write(struct vv_save *save, uint32_t number, const void *data) {
    const struct vv_offer *offer = &save->offers.unique[number];
    unsigned dispositions = save->offers.dispositions[number];
    int rc = 0;
    struct vv_new_chunk chunk = {.owner = save->job->comm->rank,
                                 .address = offer->address,
                                 .size = offer->size,
                                 .id = offer->id,
                                 .is_shared = (dispositions & VV_DISPOSITION_SHARED) != 0,
                                 .held = dispositions / VV_DISPOSITION_HELD_BY};
    if (dispositions & VV_DISPOSITION_STORE)
        rc = save->output->ops->add(save->output, &chunk, data);
    if (rc == 0 && (dispositions & VV_DISPOSITION_LOCAL_REPLICA)) {
        const struct vv_local_replica *local_replica = local_replica_of(&save->offers, number);
        save->sums.copied += offer->size;
        chunk.owner = local_replica->owner;
        chunk.address = local_replica->address;
        chunk.held = 0;
        rc = save->output->ops->add(save->output, &chunk, data);
    }
    return rc;
}

/* ---- who has what already ---- */

/* Our chunks, told to the partners; they answer with one byte each. */
static void tell_stored(struct vv_save *save) {
    const struct vv_offers *offers = &save->offers;
    vv_rounds_begin(&save->outputs->replicas.rounds);
    for (uint32_t j = 0; j < save->outputs->replicas.count; j++)
        for (size_t i = 0; i < offers->offer_count; i++) {
            struct chunk_head head = {offers->unique[i].id, offers->unique[i].address, offers->unique[i].size};
            if (offers->dispositions[i] & VV_DISPOSITION_STORE)
                vv_buf_append(&save->outputs->replicas.rounds.sending[j], &head, sizeof head);
        }
}

struct agreeing {
    struct vv_taking taking;   /* first */
    struct vv_buf *answers;    /* per rank that we keep copies of */
    struct varve_message *out; /* the same, on their way */
    size_t capacity;           /* of stand-ins */
};

static int add_local_replica(struct agreeing *agreeing, uint32_t offer, uint32_t owner, uint64_t address) {
    struct vv_offers *offers = &((struct vv_save *)agreeing->taking.arg)->offers;
    if (VV_GROW(offers->local_replicas, offers->local_replica_count, agreeing->capacity) != 0)
        return -ENOMEM;
    offers->local_replicas[offers->local_replica_count++] = (struct vv_local_replica){offer, owner, address};
    offers->dispositions[offer] |= VV_DISPOSITION_LOCAL_REPLICA;
    return 0;
}

/* One content has one owner, so a chunk of ours stands in for one rank at most. */
static int take_list(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct agreeing *agreeing = (struct agreeing *)taking;
    struct vv_offers *offers = &((struct vv_save *)taking->arg)->offers;
    struct vv_buf *answer = &agreeing->answers[vv_rounds_from(taking->rounds, rank)];
    if (size % sizeof(struct chunk_head) != 0)
        return nonsense(rank, taking->error);
    for (size_t at = 0; at < size; at += sizeof(struct chunk_head)) {
        struct chunk_head head;
        memcpy(&head, data + at, sizeof head);
        uint32_t offer = vv_offers_find(offers, head.id);
        uint8_t has = offer != UINT32_MAX && offers->unique[offer].size == head.size && !offers->dispositions[offer];
        if (has && add_local_replica(agreeing, offer, rank, head.address) != 0)
            return vv_error(taking->error, -ENOMEM, "no memory to keep copies of rank %u", rank);
        vv_buf_append(answer, &has, 1);
    }
    return answer->failed;
}

struct hearing {
    struct vv_save *save;
    struct varve_error *error;
};

static int hear_answer(void *arg, uint32_t rank, const void *data, size_t size) {
    struct hearing *hearing = arg;
    struct vv_offers *offers = &hearing->save->offers;
    const struct vv_replicas *replicas = &hearing->save->outputs->replicas;
    const uint8_t *has = data;
    uint32_t j = 0;
    while (j < replicas->count && replicas->partners[j] != rank)
        j++;
    size_t at = 0;
    for (size_t i = 0; i < offers->offer_count; i++)
        if (offers->dispositions[i] & VV_DISPOSITION_STORE) {
            if (at == size)
                return nonsense(rank, hearing->error);
            offers->dispositions[i] |= has[at++] ? (uint8_t)(VV_DISPOSITION_HELD_BY << j) : 0;
        }
    return at == size ? 0 : nonsense(rank, hearing->error);
}

static int compare_local_replicas(const void *a, const void *b) {
    uint32_t x = ((const struct vv_local_replica *)a)->offer, y = ((const struct vv_local_replica *)b)->offer;
    return x < y ? -1 : x > y;
}

/* The answers go the other way: to those whose partner we are, from our partners. */
static int send_answers(struct vv_save *save, const struct agreeing *agreeing, struct varve_error *error) {
    const struct vv_replicas *replicas = &save->outputs->replicas;
    struct hearing hearing = {save, error};
    for (uint32_t i = 0; i < replicas->kept_count; i++)
        agreeing->out[i] =
            (struct varve_message){replicas->kept[i], agreeing->answers[i].data, agreeing->answers[i].size};
    return save->job->comm->ops->exchange(save->job->comm, agreeing->out, replicas->kept_count, replicas->partners,
                                          replicas->count, hear_answer, &hearing);
}

static int ask_partners(struct vv_save *save, struct varve_error *error) {
    struct varve_comm *comm = save->job->comm;
    struct vv_rounds *rounds = &save->outputs->replicas.rounds;
    struct agreeing agreeing = {.taking = {comm, rounds, 0, error, take_list, save}};
    uint32_t kept = save->outputs->replicas.kept_count;
    agreeing.answers = vv_calloc(kept + 1, sizeof *agreeing.answers);
    agreeing.out = vv_calloc(kept + 1, sizeof *agreeing.out);
    /* from here on everybody answers everybody, or nobody does */
    int has_capacity = agreeing.answers && agreeing.out;
    int rc = vv_comm_agree(comm, has_capacity ? 0 : vv_error(error, -ENOMEM, "no memory to agree on copies"), error);
    if (rc == 0) {
        tell_stored(save);
        rc = vv_rounds_once(&agreeing.taking);
        if (save->offers.local_replica_count > 0)
            qsort(save->offers.local_replicas, save->offers.local_replica_count, sizeof *save->offers.local_replicas,
                  compare_local_replicas);
        rc = vv_comm_agree(comm, rc ? rc : agreeing.taking.rc, error);
    }
    if (rc == 0)
        rc = vv_comm_agree(comm, send_answers(save, &agreeing, error), error);
    vv_free(agreeing.out);
    for (uint32_t i = 0; agreeing.answers && i < kept; i++)
        vv_buf_clear(&agreeing.answers[i]);
    vv_free(agreeing.answers);
    vv_rounds_clear(rounds);
    return rc;
}

int vv_replicas_agree(struct vv_save *save, int rc, struct varve_error *error) {
    rc = vv_comm_agree(save->job->comm, rc, error);
    return rc || save->outputs->replicas.count == 0 ? rc : ask_partners(save, error);
}
