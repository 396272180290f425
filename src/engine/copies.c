/* Everything is kept on several nodes: copies=k.
 *
 * The partners of a rank are the ranks with the same number on the next k - 1 nodes, in a ring. A partner stores what the rank stores, under the rank's own
 * addresses, in its own pack; readers find it there through the writers list. It also keeps the tables of the rank's pack, as an object of their own kind, so that the pack can be
 * done without.
 *
 * A partner that holds the same content itself takes it from its own memory; only what it does not have is sent. So chunks that are on many nodes anyway cost no
 * messages, and unique ones travel once per copy.
 *
 * Bytes travel in rounds: a rank consumes what it captured until some are waiting, sends them, and takes those of the ranks whose partner it is, until everybody has said
 * that this was all. A rank that has failed goes on taking, so that nobody waits for it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_private.h"
#include "store/pack_copy.h"

#define ROUND (1u << 20) /* bytes that wait before they are sent */

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
    uint64_t is_keeper = session->lease != NULL;
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
    copies->from = vv_calloc(copies->kept_count + 1, sizeof *copies->from);
    copies->is_over = vv_calloc(copies->kept_count + 1, 1);
    return rc == 0 && copies->from && copies->is_over ? 0 : vv_error(error, -ENOMEM, "no memory for a session");
}

void vv_copies_close(struct vv_session *session) {
    vv_free(session->copies.kept);
    vv_free(session->copies.from);
    vv_free(session->copies.is_over);
    memset(&session->copies, 0, sizeof session->copies);
}

/* ---- messages: a head, then chunks with their bytes; all ranks run the same program, so structs travel as they are ---- */

struct head {
    uint32_t is_last;
    uint32_t has_failed;
};

struct chunk_head {
    struct vv_hash128 id;
    uint64_t address;
    uint64_t size;
};

static const struct head failure = {1, 1};

struct taking {
    struct vv_save *save;
    int rc; /* of the first message that could not be taken; nothing is taken then, but everybody heard */
    struct varve_error *error;
    int (*take)(struct taking *taking, uint32_t rank, const uint8_t *data, size_t size);
};

static size_t kept_index(const struct vv_session *session, uint32_t rank) {
    size_t i = 0;
    while (i + 1 < session->copies.kept_count && session->copies.kept[i] != rank)
        i++;
    return i;
}

static int nonsense(uint32_t rank, struct varve_error *error) {
    return vv_error(error, -EPROTO, "rank %u sent copies that make no sense", rank);
}

static int take_message(void *arg, uint32_t rank, const void *data, size_t size) {
    struct taking *taking = arg;
    struct vv_session *session = taking->save->session;
    struct head head = failure;
    if (size >= sizeof head)
        memcpy(&head, data, sizeof head);
    session->copies.is_over[kept_index(session, rank)] = head.is_last != 0;
    if (!head.has_failed && taking->rc == 0) /* if it has, the agreement that follows will tell */
        taking->rc = taking->take(taking, rank, (const uint8_t *)data + sizeof head, size - sizeof head);
    return 0;
}

static void begin_message(struct vv_save *save) {
    struct head head = {0, 0};
    for (uint32_t j = 0; j < save->session->copies.count; j++) {
        save->sending[j].size = 0;
        vv_buf_append(&save->sending[j], &head, sizeof head);
    }
}

static void clear_messages(struct vv_save *save) {
    for (uint32_t j = 0; j < save->session->copies.count; j++)
        vv_buf_clear(&save->sending[j]);
}

static void check_messages(struct taking *taking) {
    for (uint32_t j = 0; j < taking->save->session->copies.count; j++)
        if (taking->save->sending[j].failed && taking->rc == 0)
            taking->rc = vv_error(taking->error, -ENOMEM, "no memory to send copies");
}

/* What goes to partner j; a rank that has failed says only that. */
static struct varve_parcel end_message(struct taking *taking, uint32_t j, int is_last) {
    struct vv_buf *buf = &taking->save->sending[j];
    struct head head = {(uint32_t)is_last, 0};
    uint32_t partner = taking->save->session->copies.partners[j];
    if (taking->rc)
        return (struct varve_parcel){partner, &failure, sizeof failure};
    memcpy(buf->data, &head, sizeof head);
    return (struct varve_parcel){partner, buf->data, buf->size};
}

/* Send to our partners, and take from those whose partner we are and who are not over yet. An error is one of the group; that of a message is in taking. */
static int trade(struct taking *taking, int is_sending, int is_last) {
    struct vv_session *session = taking->save->session;
    struct vv_copies *copies = &session->copies;
    struct varve_parcel out[VV_PARTNERS_MAX];
    uint32_t out_count = 0, from_count = 0;
    for (; is_sending && out_count < copies->count; out_count++)
        out[out_count] = end_message(taking, out_count, is_last);
    for (uint32_t i = 0; i < copies->kept_count; i++)
        if (!copies->is_over[i])
            copies->from[from_count++] = copies->kept[i];
    int rc = session->comm->ops->trade(session->comm, out, out_count, copies->from, from_count, take_message, taking);
    return rc ? vv_error(taking->error, rc, "copies could not be sent: %s", varve_error_text(rc)) : 0;
}

/* ---- rounds ---- */

static int take_chunks(struct taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct vv_save *save = taking->save;
    int rc = vv_outlet_open(save, taking->error);
    if (rc == 0)
        vv_outlet_region(save, NULL);
    while (size > 0 && rc == 0) {
        struct chunk_head head;
        if (size < sizeof head)
            return nonsense(rank, taking->error);
        memcpy(&head, data, sizeof head);
        if (head.size == 0 || head.size > VV_CHUNK || head.size > size - sizeof head || head.address % VV_CHUNK != 0)
            return nonsense(rank, taking->error);
        rc = vv_outlet_add(save, rank, head.address, data + sizeof head, (uint32_t)head.size, head.id);
        save->sums.copied += head.size;
        data += sizeof head + head.size;
        size -= sizeof head + (size_t)head.size;
    }
    return rc;
}

static int has_enough(const struct vv_save *save) {
    for (uint32_t j = 0; j < save->session->copies.count; j++)
        if (save->sending[j].size >= ROUND)
            return 1;
    return 0;
}

static int is_everybody_over(const struct vv_copies *copies) {
    for (uint32_t i = 0; i < copies->kept_count; i++)
        if (!copies->is_over[i])
            return 0;
    return 1;
}

static void begin_rounds(struct vv_copies *copies) {
    memset(copies->is_over, 0, copies->kept_count);
}

static int run_rounds(struct vv_save *save, int rc, vv_step_fn step, struct varve_error *error) {
    struct taking taking = {save, rc, error, take_chunks};
    int more = 1, is_sending = 1, broken = 0;
    begin_rounds(&save->session->copies);
    while (broken == 0 && (is_sending || !is_everybody_over(&save->session->copies))) {
        begin_message(save);
        while (taking.rc == 0 && more > 0 && !has_enough(save))
            taking.rc = (more = step(save, error)) < 0 ? more : 0;
        check_messages(&taking);
        int is_last = taking.rc != 0 || more <= 0;
        broken = trade(&taking, is_sending, is_last);
        is_sending = is_sending && !is_last;
    }
    clear_messages(save);
    return broken ? broken : taking.rc;
}

int vv_copies_consume(struct vv_save *save, int rc, vv_step_fn step, struct varve_error *error) {
    int more = 1;
    if (save->session->copies.count > 0)
        return run_rounds(save, rc, step, error);
    while (rc == 0 && more > 0)
        rc = (more = step(save, error)) < 0 ? more : 0;
    return rc;
}

/* ---- chunks ---- */

static void send_chunk(struct vv_save *save, uint64_t address, const void *data, uint32_t size, struct vv_hash128 id,
                       unsigned fates) {
    struct chunk_head head = {id, address, size};
    for (uint32_t j = 0; j < save->session->copies.count; j++) {
        if (fates & (unsigned)VV_FATE_HELD_BY << j)
            continue;
        vv_buf_append(&save->sending[j], &head, sizeof head);
        vv_buf_append(&save->sending[j], data, size);
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
    begin_message(save);
    for (uint32_t j = 0; j < save->session->copies.count; j++)
        for (size_t i = 0; i < naming->offer_count; i++) {
            struct chunk_head head = {naming->offers[i].id, naming->offers[i].address, naming->offers[i].size};
            if (naming->fates[i] & VV_FATE_STORE)
                vv_buf_append(&save->sending[j], &head, sizeof head);
        }
}

struct agreeing {
    struct taking taking; /* first */
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
static int take_list(struct taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct agreeing *agreeing = (struct agreeing *)taking;
    struct vv_naming *naming = &taking->save->naming;
    struct vv_buf *answer = &agreeing->answers[kept_index(taking->save->session, rank)];
    struct head none = {1, 0};
    if (size % sizeof(struct chunk_head) != 0)
        return nonsense(rank, taking->error);
    vv_buf_append(answer, &none, sizeof none);
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
    const uint8_t *has = (const uint8_t *)data + sizeof(struct head);
    uint32_t j = 0;
    while (j < copies->count && copies->partners[j] != rank)
        j++;
    size_t at = 0, count = size >= sizeof(struct head) ? size - sizeof(struct head) : 0;
    for (size_t i = 0; i < naming->offer_count; i++)
        if (naming->fates[i] & VV_FATE_STORE) {
            if (at == count)
                return nonsense(rank, hearing->error);
            naming->fates[i] |= has[at++] ? (uint8_t)(VV_FATE_HELD_BY << j) : 0;
        }
    return at == count ? 0 : nonsense(rank, hearing->error);
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
    struct agreeing agreeing = {.taking = {save, 0, error, take_list}};
    uint32_t kept = save->session->copies.kept_count;
    agreeing.answers = vv_calloc(kept + 1, sizeof *agreeing.answers);
    agreeing.out = vv_calloc(kept + 1, sizeof *agreeing.out);
    /* from here on everybody answers everybody, or nobody does */
    int has_room = agreeing.answers && agreeing.out;
    int rc = vv_comm_agree(comm, has_room ? 0 : vv_error(error, -ENOMEM, "no memory to agree on copies"), error);
    if (rc == 0) {
        tell_stored(save);
        check_messages(&agreeing.taking);
        begin_rounds(&save->session->copies);
        rc = trade(&agreeing.taking, 1, 1);
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
    clear_messages(save);
    return rc;
}

int vv_copies_agree(struct vv_save *save, int rc, struct varve_error *error) {
    rc = vv_comm_agree(save->session->comm, rc, error);
    return rc || save->session->copies.count == 0 ? rc : ask_partners(save, error);
}

/* ---- tables ---- */

static int keep_tables(struct taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct vv_session *session = taking->save->session;
    return vv_pack_copy_create(session->store, session->name, &taking->save->attempt, rank, data, size, taking->error);
}

int vv_copies_tables(struct vv_save *save, int rc, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct taking taking = {save, rc, error, keep_tables};
    struct vv_buf tables;
    if (session->copies.count == 0)
        return rc;
    vv_buf_init(&tables);
    if (taking.rc == 0)
        taking.rc = vv_pack_copy_read(session->store, session->name, &save->attempt, session->comm->rank, &tables, error);
    begin_message(save);
    for (uint32_t j = 0; taking.rc == 0 && j < session->copies.count; j++)
        vv_buf_append(&save->sending[j], tables.data, tables.size);
    vv_buf_clear(&tables);
    check_messages(&taking);
    begin_rounds(&session->copies);
    rc = trade(&taking, 1, 1);
    clear_messages(save);
    return rc ? rc : taking.rc;
}
