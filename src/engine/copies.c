/* Everything is kept on several nodes: copies=k.
 *
 * The partners of a rank are the ranks with the same number on the next k - 1 nodes, in a ring. A partner stores what the rank stores, under the rank's own
 * addresses, in its own pack; readers find it there through the writers list. It also keeps the tables of the rank's pack, as an object of their own kind, so that the pack can be
 * done without.
 *
 * A partner that holds the same content itself takes it from its own memory; only what it does not have is sent. So chunks that are on many nodes anyway cost no
 * messages, and unique ones travel once per copy.
 *
 * Bytes travel in rounds (rounds.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_private.h"
#include "store/pack_copy.h"

/* ---- who with whom ---- */

static uint32_t wanted(const struct vv_session *session) {
    if (session->settings.copies > 0)
        return (uint32_t)session->settings.copies;
    return vv_is_local(session) ? 2 : 1;
}

/* Does the group know where its ranks run? Otherwise every rank counts as a node. */
static int knows_nodes(const struct varve_comm *comm) {
    return comm->nodes > 0 && comm->ops->node_size && comm->ops->rank_of;
}

static uint32_t size_of(struct varve_comm *comm, uint32_t node) {
    return knows_nodes(comm) ? comm->ops->node_size(comm, node) : 1;
}

static uint32_t rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    return knows_nodes(comm) ? comm->ops->rank_of(comm, node, local) : node;
}

/* Ranks that share a disk are no help to each other: where the group does not know the nodes, their stores tell. Collective. */
static int is_each_alone(struct vv_session *session) {
    uint64_t is_keeper = session->is_keeper;
    return session->comm->ops->least(session->comm, &is_keeper, 1) == 0 && is_keeper;
}

/* How many partners each rank has. Collective, the same everywhere. */
static uint32_t partners_of(struct vv_session *session, uint32_t nodes) {
    const struct varve_comm *comm = session->comm;
    uint32_t more = wanted(session) - 1;
    const char *why = !comm->ops->trade ? "the group of processes cannot trade" : "there are not so many nodes";
    if (more > 0 && vv_is_local(session) && !knows_nodes(comm) && !is_each_alone(session)) {
        nodes = 1;
        why = "the group of processes does not say which ranks share a node";
    }
    uint32_t most = comm->ops->trade ? nodes - 1 : 0, given = more < most ? more : most;
    if (given < more && vv_comm_is_root(comm)) /* who asked for it is warned, and who may believe to have it */
        vv_log(&session->log, session->settings.copies > 0 || comm->ranks > 1 ? VV_LOG_WARN : VV_LOG_INFO,
               "data is kept on %u node%s, not on %u: %s", given + 1, given ? "s" : "", more + 1, why);
    return given;
}

/* The ranks on the node `back` behind ours whose partner we are. */
static int add_kept(struct vv_session *session, uint32_t nodes, uint32_t node, uint32_t local, uint32_t back) {
    struct vv_copies *copies = &session->copies;
    uint32_t from = (node + nodes - back) % nodes, ours = size_of(session->comm, node);
    uint32_t theirs = size_of(session->comm, from);
    uint32_t *kept = vv_realloc(copies->kept, (copies->kept_count + theirs + 1) * sizeof *kept);
    if (!kept)
        return -ENOMEM;
    copies->kept = kept;
    for (uint32_t i = local; i < theirs; i += ours)
        kept[copies->kept_count++] = rank_of(session->comm, from, i);
    return 0;
}

int vv_copies_open(struct vv_session *session, struct varve_error *error) {
    struct varve_comm *comm = session->comm;
    struct vv_copies *copies = &session->copies;
    int is_known = knows_nodes(comm);
    uint32_t nodes = is_known ? comm->nodes : comm->ranks, node = is_known ? comm->node : comm->rank;
    uint32_t local = is_known ? comm->local : 0, more = partners_of(session, nodes);
    int rc = 0;
    for (uint32_t j = 1; j <= more && rc == 0; j++) {
        uint32_t to = (node + j) % nodes;
        copies->partners[copies->count++] = rank_of(comm, to, local % size_of(comm, to));
        rc = add_kept(session, nodes, node, local, j);
    }
    if (rc == 0)
        rc = vv_rounds_open(&copies->rounds, copies->partners, copies->count, copies->kept, copies->kept_count);
    return rc == 0 ? 0 : vv_error(error, -ENOMEM, "no memory for a session");
}

void vv_copies_close(struct vv_session *session) {
    vv_free(session->copies.kept);
    vv_rounds_close(&session->copies.rounds);
    memset(&session->copies, 0, sizeof session->copies);
}

/* ---- messages: chunks with their bytes ---- */

struct chunk_head {
    struct vv_hash128 id;
    uint64_t address;
    uint64_t size;
};

static int nonsense(uint32_t rank, struct varve_error *error) {
    return vv_error(error, -EPROTO, "rank %u sent copies that make no sense", rank);
}

static int take_chunks(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct vv_save *save = taking->save;
    int rc = vv_outlet_open(save, taking->error);
    if (rc == 0)
        vv_outlet_region(save, NULL);
    while (size > 0 && rc == 0) {
        struct chunk_head head;
        if (size < sizeof head)
            return nonsense(rank, taking->error);
        memcpy(&head, data, sizeof head);
        if (!vv_is_chunk(head.address, head.size, head.id) || head.size > size - sizeof head)
            return nonsense(rank, taking->error);
        rc = vv_outlet_add(save, rank, head.address, data + sizeof head, (uint32_t)head.size, head.id);
        save->sums.copied += head.size;
        data += sizeof head + head.size;
        size -= sizeof head + (size_t)head.size;
    }
    return rc;
}

int vv_copies_consume(struct vv_save *save, int rc, vv_step_fn step, struct varve_error *error) {
    struct vv_taking taking = {save, &save->session->copies.rounds, rc, error, take_chunks};
    return vv_rounds_run(&taking, step);
}

/* ---- chunks ---- */

static void send_chunk(struct vv_save *save, uint64_t address, const void *data, uint32_t size, struct vv_hash128 id,
                       unsigned fates) {
    struct chunk_head head = {id, address, size};
    for (uint32_t j = 0; j < save->session->copies.count; j++) {
        if (fates & (unsigned)VV_FATE_HELD_BY << j)
            continue;
        vv_buf_append(&save->session->copies.rounds.sending[j], &head, sizeof head);
        vv_buf_append(&save->session->copies.rounds.sending[j], data, size);
    }
}

int vv_copies_store(struct vv_save *save, uint64_t address, const void *data, uint32_t size, struct vv_hash128 id) {
    send_chunk(save, address, data, size, id, 0);
    return vv_outlet_add(save, save->session->comm->rank, address, data, size, id);
}

static const struct vv_stand_in *stand_in_of(const struct vv_naming *naming, uint32_t offer) {
    size_t low = 0, high = naming->stand_in_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (naming->stand_ins[middle].offer < offer)
            low = middle + 1;
        else
            high = middle;
    }
    return &naming->stand_ins[low];
}

int vv_copies_write(struct vv_save *save, uint32_t number, const void *data) {
    const struct vv_offer *offer = &save->naming.offers[number];
    unsigned fates = save->naming.fates[number];
    int rc = 0;
    if (fates & VV_FATE_STORE) {
        send_chunk(save, offer->address, data, offer->size, offer->id, fates);
        rc = vv_outlet_add(save, save->session->comm->rank, offer->address, data, offer->size, offer->id);
    }
    if (rc == 0 && (fates & VV_FATE_STAND_IN)) {
        const struct vv_stand_in *stand_in = stand_in_of(&save->naming, number);
        save->sums.copied += offer->size;
        rc = vv_outlet_add(save, stand_in->owner, stand_in->address, data, offer->size, offer->id);
    }
    return rc;
}

/* ---- who has what already ---- */

/* Our chunks, told to the partners; they answer with one byte each. */
static void tell_stored(struct vv_save *save) {
    const struct vv_naming *naming = &save->naming;
    vv_rounds_begin(&save->session->copies.rounds);
    for (uint32_t j = 0; j < save->session->copies.count; j++)
        for (size_t i = 0; i < naming->offer_count; i++) {
            struct chunk_head head = {naming->offers[i].id, naming->offers[i].address, naming->offers[i].size};
            if (naming->fates[i] & VV_FATE_STORE)
                vv_buf_append(&save->session->copies.rounds.sending[j], &head, sizeof head);
        }
}

struct agreeing {
    struct vv_taking taking; /* first */
    struct vv_buf *answers; /* per rank that we keep copies of */
    struct varve_parcel *out; /* the same, on their way */
    size_t room;            /* of stand-ins */
};

static int add_stand_in(struct agreeing *agreeing, uint32_t offer, uint32_t owner, uint64_t address) {
    struct vv_naming *naming = &agreeing->taking.save->naming;
    if (naming->stand_in_count == agreeing->room) {
        agreeing->room = agreeing->room ? agreeing->room * 2 : 256;
        struct vv_stand_in *list = vv_realloc(naming->stand_ins, agreeing->room * sizeof *list);
        if (!list)
            return -ENOMEM;
        naming->stand_ins = list;
    }
    naming->stand_ins[naming->stand_in_count++] = (struct vv_stand_in){offer, owner, address};
    naming->fates[offer] |= VV_FATE_STAND_IN;
    return 0;
}

/* One content has one owner, so a chunk of ours stands in for one rank at most. */
static int take_list(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct agreeing *agreeing = (struct agreeing *)taking;
    struct vv_naming *naming = &taking->save->naming;
    struct vv_buf *answer = &agreeing->answers[vv_rounds_from(taking->rounds, rank)];
    if (size % sizeof(struct chunk_head) != 0)
        return nonsense(rank, taking->error);
    for (size_t at = 0; at < size; at += sizeof(struct chunk_head)) {
        struct chunk_head head;
        memcpy(&head, data + at, sizeof head);
        uint32_t offer = vv_naming_find(naming, head.id);
        uint8_t has = offer != UINT32_MAX && naming->offers[offer].size == head.size && !naming->fates[offer];
        if (has && add_stand_in(agreeing, offer, rank, head.address) != 0)
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
    struct vv_naming *naming = &hearing->save->naming;
    const struct vv_copies *copies = &hearing->save->session->copies;
    const uint8_t *has = data;
    uint32_t j = 0;
    while (j < copies->count && copies->partners[j] != rank)
        j++;
    size_t at = 0;
    for (size_t i = 0; i < naming->offer_count; i++)
        if (naming->fates[i] & VV_FATE_STORE) {
            if (at == size)
                return nonsense(rank, hearing->error);
            naming->fates[i] |= has[at++] ? (uint8_t)(VV_FATE_HELD_BY << j) : 0;
        }
    return at == size ? 0 : nonsense(rank, hearing->error);
}

static int compare_stand_ins(const void *a, const void *b) {
    uint32_t x = ((const struct vv_stand_in *)a)->offer, y = ((const struct vv_stand_in *)b)->offer;
    return x < y ? -1 : x > y;
}

/* The answers go the other way: to those whose partner we are, from our partners. */
static int answer(struct vv_save *save, const struct agreeing *agreeing, struct varve_error *error) {
    const struct vv_copies *copies = &save->session->copies;
    struct hearing hearing = {save, error};
    for (uint32_t i = 0; i < copies->kept_count; i++)
        agreeing->out[i] =
            (struct varve_parcel){copies->kept[i], agreeing->answers[i].data, agreeing->answers[i].size};
    return save->session->comm->ops->trade(save->session->comm, agreeing->out, copies->kept_count, copies->partners,
                                           copies->count, hear_answer, &hearing);
}

static int ask_partners(struct vv_save *save, struct varve_error *error) {
    struct varve_comm *comm = save->session->comm;
    struct vv_rounds *rounds = &save->session->copies.rounds;
    struct agreeing agreeing = {.taking = {save, rounds, 0, error, take_list}};
    uint32_t kept = save->session->copies.kept_count;
    agreeing.answers = vv_calloc(kept + 1, sizeof *agreeing.answers);
    agreeing.out = vv_calloc(kept + 1, sizeof *agreeing.out);
    /* from here on everybody answers everybody, or nobody does */
    int has_room = agreeing.answers && agreeing.out;
    int rc = vv_comm_agree(comm, has_room ? 0 : vv_error(error, -ENOMEM, "no memory to agree on copies"), error);
    if (rc == 0) {
        tell_stored(save);
        rc = vv_rounds_once(&agreeing.taking);
        if (save->naming.stand_in_count > 0)
            qsort(save->naming.stand_ins, save->naming.stand_in_count, sizeof *save->naming.stand_ins,
                  compare_stand_ins);
        rc = vv_comm_agree(comm, rc ? rc : agreeing.taking.rc, error);
    }
    if (rc == 0)
        rc = vv_comm_agree(comm, answer(save, &agreeing, error), error);
    vv_free(agreeing.out);
    for (uint32_t i = 0; agreeing.answers && i < kept; i++)
        vv_buf_clear(&agreeing.answers[i]);
    vv_free(agreeing.answers);
    vv_rounds_clear(rounds);
    return rc;
}

int vv_copies_agree(struct vv_save *save, int rc, struct varve_error *error) {
    rc = vv_comm_agree(save->session->comm, rc, error);
    return rc || save->session->copies.count == 0 ? rc : ask_partners(save, error);
}

/* ---- tables ---- */

static int keep_tables(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct vv_session *session = taking->save->session;
    return vv_pack_copy_create(session->store, session->name, &taking->save->attempt, rank, data, size, taking->error);
}

int vv_copies_tables(struct vv_save *save, int rc, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct vv_rounds *rounds = &session->copies.rounds;
    struct vv_taking taking = {save, rounds, rc, error, keep_tables};
    struct vv_buf tables;
    if (session->copies.count == 0)
        return rc;
    vv_buf_init(&tables);
    if (taking.rc == 0)
        taking.rc = vv_pack_copy_read(session->store, session->name, &save->attempt, session->comm->rank, &tables, error);
    vv_rounds_begin(rounds);
    for (uint32_t j = 0; taking.rc == 0 && j < session->copies.count; j++)
        vv_buf_append(&rounds->sending[j], tables.data, tables.size);
    vv_buf_clear(&tables);
    rc = vv_rounds_once(&taking);
    vv_rounds_clear(rounds);
    return rc ? rc : taking.rc;
}
