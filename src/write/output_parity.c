/* Parity instead of copies: parity=k+m (docs/format.md 6). What a rank that writes by itself has to do for it.
 *
 * Consecutive nodes form groups, as even as they can be. Within a group the ranks of the same number on their nodes
 * work together; where nodes have different numbers of ranks, one of them also answers for others of its node. When all
 * packs are sealed, each reads its stream once for each parity, from the cache as a rule, and sends each piece to the
 * rank that has parity of its row: all windows of a row meet there at the same time, so memory does not grow with the
 * packs. The record comes after it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "encode/erasure.h"
#include "store/pack_reader.h"
#include "store/parity_writer.h"
#include "write/output.h"

#define WINDOW (8 * VV_PARITY_SLICE)

/* ---- groups ---- */

static int knows_nodes(const struct varve_comm *comm) {
    return comm->nodes > 0 && comm->ops->node_size && comm->ops->rank_of;
}

static uint32_t ranks_on(struct varve_comm *comm, uint32_t node) {
    return knows_nodes(comm) ? comm->ops->node_size(comm, node) : 1;
}

static uint32_t rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    return knows_nodes(comm) ? comm->ops->rank_of(comm, node, local) : node;
}

/* Consecutive nodes. */
struct nodes {
    uint32_t first, count;
};

/* As many groups as are needed for none to be larger than wanted, but each has to have data beside its parity. */
static struct nodes nodes_of_group(uint32_t nodes, uint32_t node, uint32_t data, uint32_t parity) {
    uint32_t groups = (nodes + data + parity - 1) / (data + parity);
    while (groups > 1 && nodes / groups < parity + 1)
        groups--;
    for (uint32_t i = 0;; i++) {
        uint32_t first = (uint32_t)((uint64_t)nodes * i / groups), end = (uint32_t)((uint64_t)nodes * (i + 1) / groups);
        if (node < end)
            return (struct nodes){first, end - first};
    }
}

/* Ranks of this node that have no partners of their own number go with one that has. */
static int cover(struct vv_outputs *outputs, const struct nodes *nodes) {
    struct varve_comm *comm = outputs->job->comm;
    struct vv_parity_group *group = &outputs->group;
    uint32_t node = knows_nodes(comm) ? comm->node : comm->rank, local = knows_nodes(comm) ? comm->local : 0;
    uint32_t ours = ranks_on(comm, node), least = ours;
    for (uint32_t i = 0; i < nodes->count; i++)
        if (ranks_on(comm, nodes->first + i) < least)
            least = ranks_on(comm, nodes->first + i);
    if (local >= least)
        return 0;
    group->covered = vv_calloc(ours, sizeof *group->covered);
    if (!group->covered)
        return -ENOMEM;
    for (uint32_t i = local; i < ours; i += least)
        group->covered[group->covered_count++] = rank_of(comm, node, i);
    for (uint32_t i = 0; i < nodes->count; i++)
        group->ranks[i] = rank_of(comm, nodes->first + i, local);
    group->member = node - nodes->first;
    return 0;
}

static int open_group(struct vv_outputs *outputs, const struct nodes *nodes, uint32_t parity) {
    struct vv_parity_group *group = &outputs->group;
    uint32_t others[VV_PARITY_MEMBERS_MAX], count = 0;
    int rc = cover(outputs, nodes);
    if (rc || group->covered_count == 0)
        return rc;
    group->parity = parity < nodes->count ? parity : nodes->count - 1;
    group->data = nodes->count - group->parity;
    for (uint32_t i = 0; i < nodes->count; i++)
        if (i != group->member)
            others[count++] = group->ranks[i];
    return vv_rounds_open(&group->rounds, others, count, others, count);
}

/* Ranks that share a disk are no help to each other: where the group does not know the nodes, their stores tell.
 * Collective. */
static int is_each_alone(struct vv_outputs *outputs) {
    uint64_t is_leader = outputs->job->is_leader;
    return outputs->job->comm->ops->reduce_min(outputs->job->comm, &is_leader, 1) == 0 && is_leader;
}

/* A rank that answers for others of its node reads their packs, which it cannot if VARVE_DOMAIN joins hosts. There is a
 * leader for each store. 1, 0, or an error. Collective. */
static int has_stores_apart(struct vv_outputs *outputs, struct varve_error *error) {
    struct varve_comm *comm = outputs->job->comm;
    uint64_t is_leader = outputs->job->is_leader, leaders = 0;
    int is_even = 1;
    for (uint32_t i = 1; knows_nodes(comm) && i < comm->nodes; i++)
        is_even &= ranks_on(comm, i) == ranks_on(comm, 0);
    int rc = is_even ? 0 : vv_comm_sums(comm, &is_leader, 1, &leaders);
    return rc ? vv_error_sys(error, rc, "the stores of the job cannot be counted") : leaders > comm->nodes;
}

static const char *why_not(struct vv_outputs *outputs, uint32_t nodes, int is_apart) {
    const struct varve_comm *comm = outputs->job->comm;
    if (!knows_nodes(comm) && !is_each_alone(outputs))
        return "the group of processes does not say which ranks share a node";
    if (!comm->ops->exchange)
        return "the group of processes cannot exchange messages";
    if (is_apart)
        return "VARVE_DOMAIN joins hosts with stores of their own, and domains have different numbers of ranks";
    return nodes < 2 ? "there is one node" : NULL;
}

static void tell_group(const struct vv_outputs *outputs, uint32_t nodes, const struct nodes *group, uint32_t data,
                       uint32_t parity) {
    uint32_t groups = (nodes + group->count - 1) / group->count, left = group->count > parity ? parity : 1;
    const struct vv_log *log = &outputs->job->log;
    if (!vv_comm_is_root(outputs->job->comm))
        return;
    if (group->count == data + parity && nodes % group->count == 0)
        vv_log(log, VV_LOG_INFO, "parity %u+%u in %u groups: any %u nodes of a group may be lost", data, parity, groups,
               parity);
    else
        vv_log(log, VV_LOG_WARN,
               "parity=%u+%u needs a multiple of %u nodes, and there are %u: groups are of about %u, so parity takes "
               "more than %u%% of the data; %u nodes of a group may be lost",
               data, parity, data + parity, nodes, group->count, 100 * parity / data, left);
}

static int check_wanted(const struct vv_outputs *outputs, uint32_t data, uint32_t parity, struct varve_error *error) {
    const struct vv_job *job = outputs->job;
    if (!vv_is_local(job))
        return vv_error(error, -EINVAL,
                        "parity=%u+%u is for node-local stores, and %.200s is one store for all nodes: unset parity, "
                        "or make the store with storage=local",
                        data, parity, job->address);
    return job->settings.copies > 1
               ? vv_error(error, -EINVAL, "parity=%u+%u and copies=%d exclude each other: set one of them", data,
                          parity, job->settings.copies)
               : 0;
}

int vv_parity_group_open(struct vv_outputs *outputs, struct varve_error *error) {
    struct varve_comm *comm = outputs->job->comm;
    uint32_t data = 0, parity = vv_settings_parity(&outputs->job->settings, &data);
    uint32_t nodes = knows_nodes(comm) ? comm->nodes : comm->ranks, node = knows_nodes(comm) ? comm->node : comm->rank;
    int rc = parity ? check_wanted(outputs, data, parity, error) : 0;
    if (rc || !parity)
        return rc;
    int is_apart = has_stores_apart(outputs, error);
    if (is_apart < 0)
        return is_apart;
    const char *why = why_not(outputs, nodes, is_apart);
    if (why) {
        if (vv_comm_is_root(comm))
            vv_log(&outputs->job->log, VV_LOG_WARN, "no parity is made, so no node may be lost: %s", why);
        return 0;
    }
    struct nodes group = nodes_of_group(nodes, node, data, parity);
    rc = open_group(outputs, &group, parity);
    outputs->lost_most = parity < nodes ? parity : nodes - 1;
    tell_group(outputs, nodes, &group, data, parity);
    return rc ? vv_error(error, rc, "no memory for a session") : 0;
}

void vv_parity_group_close(struct vv_outputs *outputs) {
    vv_free(outputs->group.covered);
    vv_rounds_close(&outputs->group.rounds);
    memset(&outputs->group, 0, sizeof outputs->group);
}

/* ---- making ---- */

struct making {
    struct vv_taking taking; /* first */
    struct vv_output *output;
    const struct vv_parity_group *group;
    struct vv_parity parity;
    size_t capacity;  /* of its list */
    uint32_t heard;   /* members that have sent something in this round */
    uint8_t *windows; /* WINDOW bytes for each data of the row, then for the parity */
    uint8_t *reading; /* and for what we send */
    struct vv_parity_writer *writer;
    uint32_t number; /* the parity that is made: of this row, and from here in its pieces */
    uint64_t at;
};

static struct vv_pack_id pack_of(const struct making *making, uint32_t writer) {
    const struct vv_job *job = making->output->outputs->job;
    return (struct vv_pack_id){job->store, job->name, making->output->plan.attempt, writer};
}

static int add_covered(struct making *making, const struct vv_covered *covered) {
    struct vv_parity *parity = &making->parity;
    size_t count = parity->count;
    if (count >= VV_PARITY_OBJECTS_MAX)
        return vv_error(making->taking.error, -EFBIG, "a group of parity has more than %u packs and parts",
                        VV_PARITY_OBJECTS_MAX);
    if (VV_GROW(parity->list, count, making->capacity) != 0)
        return vv_error(making->taking.error, -ENOMEM, "no memory to make parity");
    parity->list[parity->count++] = *covered;
    return 0;
}

/* What a writer of ours has stored: earlier parts, then the pack. */
static int add_writer(struct making *making, uint32_t writer) {
    struct vv_pack_id id = pack_of(making, writer);
    struct vv_footer footer;
    struct vv_covered covered = {.member = making->group->member, .writer = writer};
    uint64_t length = 0;
    int rc = vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, &length, making->taking.error);
    if (rc)
        return rc;
    for (; rc == 0 && covered.part < footer.parts; covered.part++) {
        covered.length = footer.part_lengths[covered.part];
        rc = add_covered(making, &covered);
    }
    covered.is_pack = 1;
    covered.length = length;
    vv_footer_clear(&footer);
    return rc ? rc : add_covered(making, &covered);
}

static int add_writers(struct making *making) {
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < making->group->covered_count; i++)
        rc = add_writer(making, making->group->covered[i]);
    return rc;
}

static uint32_t member_of(const struct making *making, uint32_t rank) {
    uint32_t member = 0;
    while (member + 1 < vv_parity_members(&making->parity) && making->group->ranks[member] != rank)
        member++;
    return member;
}

static int nonsense(const struct vv_taking *taking, uint32_t rank) {
    return vv_error(taking->error, -EPROTO, "rank %u sent data for parity that makes no sense", rank);
}

/* All ranks run the same program, so structs travel as they are. */
static int take_list(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct making *making = (struct making *)taking;
    uint32_t member = member_of(making, rank);
    int rc = size % sizeof(struct vv_covered) == 0 ? 0 : nonsense(taking, rank);
    for (size_t at = 0; rc == 0 && at < size; at += sizeof(struct vv_covered)) {
        struct vv_covered covered;
        memcpy(&covered, data + at, sizeof covered);
        rc = covered.member == member ? add_covered(making, &covered) : nonsense(taking, rank);
    }
    return rc;
}

static int compare_covered(const void *a, const void *b) {
    const struct vv_covered *x = a, *y = b;
    if (x->member != y->member)
        return x->member < y->member ? -1 : 1;
    if (x->writer != y->writer)
        return x->writer < y->writer ? -1 : 1;
    return x->part < y->part ? -1 : x->part > y->part;
}

/* Everybody in the group learns what all of it have stored. */
static void share_lists(struct making *making) {
    struct vv_rounds *rounds = making->taking.rounds;
    making->taking.take = take_list;
    making->taking.rc = add_writers(making);
    vv_rounds_begin(rounds);
    for (uint32_t i = 0; i < rounds->to_count; i++)
        vv_buf_append(&rounds->sending[i], making->parity.list, making->parity.count * sizeof *making->parity.list);
    int broken = vv_rounds_once(&making->taking);
    if (broken && making->taking.rc == 0)
        making->taking.rc = broken;
    if (making->taking.rc)
        return;
    qsort(making->parity.list, making->parity.count, sizeof *making->parity.list, compare_covered);
    making->taking.rc = vv_parity_check(&making->parity, "the list of a group", making->taking.error);
}

/* ---- a window of a row ---- */

static size_t window_of(const struct making *making, uint64_t length) {
    uint64_t left = length > making->at ? length - making->at : 0;
    return left < WINDOW ? (size_t)left : WINDOW;
}

/* Where byte x of a member's stream is. */
static const struct vv_covered *find_covered(const struct vv_parity *parity, uint32_t member, uint64_t *x) {
    for (uint32_t i = 0; i < parity->count; i++) {
        if (parity->list[i].member != member)
            continue;
        if (*x < parity->list[i].length)
            return &parity->list[i];
        *x -= parity->list[i].length;
    }
    return NULL;
}

/* Bytes of our own stream; zeros behind its end. */
static int read_stream(struct making *making, uint64_t from, uint8_t *data, size_t size) {
    const struct vv_job *job = making->output->outputs->job;
    for (size_t done = 0, part; done < size; done += part) {
        uint64_t x = from + done;
        char key[VV_KEY_CAPACITY];
        const struct vv_covered *covered = find_covered(&making->parity, making->group->member, &x);
        part = size - done;
        if (!covered) {
            memset(data + done, 0, part);
            continue;
        }
        struct vv_pack_id id = pack_of(making, covered->writer);
        part = covered->length - x < part ? (size_t)(covered->length - x) : part;
        vv_pack_key(&id, covered->is_pack ? VV_KIND_PACK : VV_KIND_PART, covered->is_pack ? 0 : covered->part, key);
        int rc = vv_pack_get(job->store, key, x, data + done, part, making->taking.error);
        if (rc)
            return rc;
    }
    return 0;
}

/* The window of each of our pieces, to whoever has this parity of its row. */
static int send_pieces(struct making *making) {
    const struct vv_parity *parity = &making->parity;
    struct vv_rounds *rounds = making->taking.rounds;
    uint64_t piece = vv_parity_piece(parity, parity->member);
    size_t size = window_of(making, piece);
    for (uint32_t d = 0; size && d < parity->data; d++) {
        uint32_t to = vv_parity_member(parity, vv_parity_data_row(parity, parity->member, d), making->number), i = 0;
        int rc = read_stream(making, piece * d + making->at, making->reading, size);
        if (rc)
            return rc;
        while (rounds->to[i] != making->group->ranks[to])
            i++;
        vv_buf_append(&rounds->sending[i], making->reading, size);
    }
    return 0;
}

static int take_window(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct making *making = (struct making *)taking;
    const struct vv_parity *parity = &making->parity;
    uint32_t row = vv_parity_row(parity, parity->member, making->number), member = member_of(making, rank), d = 0;
    while (d < parity->data && vv_parity_data_member(parity, row, d) != member)
        d++;
    size_t expected = d < parity->data ? window_of(making, vv_parity_piece(parity, member)) : 0;
    if (size != expected)
        return nonsense(taking, rank);
    if (size)
        memcpy(making->windows + (size_t)d * WINDOW, data, size);
    making->heard++;
    return 0;
}

/* What came, and its parity, which is written. */
static int write_window(struct making *making) {
    const struct vv_parity *parity = &making->parity;
    size_t size =
        window_of(making, vv_parity_row_length(parity, vv_parity_row(parity, parity->member, making->number)));
    const uint8_t *sources[VV_PARITY_MEMBERS_MAX];
    uint8_t factors[VV_PARITY_MEMBERS_MAX], *out = making->windows + (size_t)parity->data * WINDOW;
    for (uint32_t d = 0; d < parity->data; d++) {
        sources[d] = making->windows + (size_t)d * WINDOW;
        factors[d] = vv_erasure_factor(making->number, d);
    }
    vv_erasure_sum(factors, sources, parity->data, size, out);
    return vv_parity_add(making->writer, parity, sources, out, size, making->taking.error);
}

/* One round of the group. Where a member has failed, the others take part in what is left, and its error is told. */
static int pass_window(struct making *making) {
    struct vv_taking *taking = &making->taking;
    making->heard = 0;
    vv_rounds_begin(taking->rounds);
    if (taking->rc == 0) {
        memset(making->windows, 0, (size_t)making->parity.data * WINDOW);
        taking->rc = send_pieces(making);
    }
    int broken = vv_rounds_once(taking);
    if (broken == 0 && taking->rc == 0 && making->writer) {
        if (making->heard == taking->rounds->from_count)
            taking->rc = write_window(making);
        else { /* what is missing cannot be made up for */
            vv_parity_close(making->writer);
            making->writer = NULL;
        }
    }
    return broken;
}

static int pass_rows(struct making *making) {
    const struct vv_parity *parity = &making->parity;
    uint64_t longest = 0;
    int broken = 0;
    for (uint32_t i = 0; i < vv_parity_members(parity); i++)
        longest = vv_parity_piece(parity, i) > longest ? vv_parity_piece(parity, i) : longest;
    making->taking.take = take_window;
    for (making->number = 0; making->number < parity->parity && broken == 0; making->number++)
        for (making->at = 0; making->at < longest && broken == 0; making->at += WINDOW)
            broken = pass_window(making);
    return broken;
}

/* ---- the object ---- */

static int begin_object(struct making *making) {
    const struct vv_job *job = making->output->outputs->job;
    struct vv_key key = vv_attempt_key(job->name, &making->output->plan.attempt, VV_KIND_PARITY, job->comm->rank, 0);
    making->windows = vv_malloc((size_t)(making->parity.data + 1) * WINDOW);
    making->reading = vv_malloc(WINDOW);
    if (!making->windows || !making->reading)
        return vv_error(making->taking.error, -ENOMEM, "no memory to make parity");
    return vv_parity_begin(job->store, &key, &making->writer, making->taking.error);
}

static int make(struct making *making) {
    int rc = vv_comm_agree(making->taking.comm, making->taking.rc, making->taking.error);
    if (rc || making->group->parity == 0)
        return rc;
    making->taking.rc = begin_object(making);
    rc = pass_rows(making);
    if (rc == 0)
        rc = making->taking.rc;
    return rc == 0 && making->writer
               ? vv_parity_end(making->writer, &making->parity, &making->output->bytes_parity, making->taking.error)
               : rc;
}

int vv_parity_settle(struct vv_output *output, int rc, struct varve_error *error) {
    struct vv_outputs *outputs = output->outputs;
    struct vv_parity_group *group = &outputs->group;
    struct making making = {.taking = {outputs->job->comm, &group->rounds, 0, error, NULL, NULL},
                            .output = output,
                            .group = group,
                            .parity = {.data = group->data, .parity = group->parity, .member = group->member}};
    rc = vv_comm_agree(outputs->job->comm, rc, error); /* only what all have sealed can be read */
    if (rc)
        return rc;
    if (group->parity)
        share_lists(&making);
    rc = make(&making);
    vv_parity_close(making.writer);
    vv_rounds_clear(&group->rounds);
    vv_free(making.windows);
    vv_free(making.reading);
    vv_parity_clear(&making.parity);
    return rc;
}
