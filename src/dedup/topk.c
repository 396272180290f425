/* The collective of Nicolae, "Towards Scalable Checkpoint Restart: A Collective Inline Memory Contents Deduplication
 * Proposal" (IPDPS 2013), algorithms 1 and 2: lists of (id, frequency, owner) are merged two by two, keeping the k most
 * frequent ids, and every rank gets the last list.
 *
 * In a merge, ids that only one of the lists has keep their owner and count as its load; then an id that both have goes
 * to the owner with less load. Loads are counted anew in every merge, in bytes, for the owners that occur.
 *
 * The result depends on the order of the merges. So the lists go up one tree, whatever the number of ranks: in round i,
 * a rank whose number is an odd multiple of 2^i gives its list to the rank 2^i below; rank 0's is sent to all. Among
 * ids of the same frequency those with the lesser number stay, so that different parts of the tree drop the same.
 *
 * As in the paper, a list is cut only after a merge: what a rank offers may be more than k. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/sort.h"
#include "dedup/exchange.h"
#include "dedup/loads.h"

#define ENTRY 40 /* bytes in a message: id 16, address 8, frequency 4, owner 4, size 4, 4 zeros */

struct entry {
    struct vv_hash128 id;
    uint64_t address; /* in the owner's layout */
    uint32_t frequency, owner, size;
};

/* Ids ascending. */
struct list {
    struct entry *entries;
    size_t count;
    int is_cut; /* something has fallen off, here or in a list that was merged into this one */
};

struct topk {
    struct vv_exchange base;
    struct varve_comm *comm;
    size_t k;
};

/* One exchange. */
struct run {
    struct topk *topk;
    struct vv_hops_sums *sums;
    struct list list;
    uint32_t *order; /* of our offers, by id */
    int code;        /* what went wrong on this rank */
    int is_marked;   /* or on another, below it in the tree */
};

static int is_well(const struct run *run) {
    return run->code == 0 && !run->is_marked;
}

static void fail(struct run *run, int code) {
    if (run->code == 0)
        run->code = code;
}

static void drop(struct list *list) {
    vv_free(list->entries);
    *list = (struct list){0};
}

static int make(struct list *list, size_t count) {
    *list = (struct list){vv_calloc(count + 1, sizeof *list->entries), count, 0};
    return list->entries ? 0 : -ENOMEM;
}

/* ---- merge ---- */

static int add_load(struct vv_loads *loads, const struct entry *entry) {
    uint64_t *load = vv_loads_of(loads, entry->owner, 0);
    if (!load)
        return -ENOMEM;
    *load += entry->size;
    return 0;
}

/* Of two entries for the same id: left becomes the one for both. */
static int choose_entry(struct vv_loads *loads, struct entry *left, const struct entry *right) {
    uint64_t *load = vv_loads_of(loads, left->owner, 0);
    if (!load)
        return -ENOMEM;
    uint64_t left_load = *load;
    load = vv_loads_of(loads, right->owner, 0);
    if (!load)
        return -ENOMEM;
    uint64_t frequency = (uint64_t)left->frequency + right->frequency;
    if (left_load >= *load) {
        left->owner = right->owner;
        left->address = right->address;
    }
    left->frequency = frequency < UINT32_MAX ? (uint32_t)frequency : UINT32_MAX;
    return add_load(loads, left);
}

/* All entries of both, one per id. rivals[i]: the entry of right for the same id as out.entries[i], or NULL. */
static int join(const struct list *left, const struct list *right, struct list *out, const struct entry **rivals,
                struct vv_loads *loads) {
    size_t l = 0, r = 0, count = 0;
    int rc = 0;
    while ((l < left->count || r < right->count) && rc == 0) {
        int order = l == left->count    ? 1
                    : r == right->count ? -1
                                        : vv_hash128_compare(left->entries[l].id, right->entries[r].id);
        rivals[count] = order == 0 ? &right->entries[r] : NULL;
        out->entries[count] = order <= 0 ? left->entries[l] : right->entries[r];
        if (order)
            rc = add_load(loads, &out->entries[count]);
        count++;
        l += order <= 0;
        r += order >= 0;
    }
    out->count = count;
    return rc;
}

static int compare_frequencies(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* Only the k most frequent stay. */
static int cut(struct list *list, size_t k) {
    size_t more = 0, kept = 0;
    if (list->count <= k)
        return 0;
    list->is_cut = 1;
    uint32_t *frequencies = vv_malloc(list->count * sizeof *frequencies);
    if (!frequencies)
        return -ENOMEM;
    for (size_t i = 0; i < list->count; i++)
        frequencies[i] = list->entries[i].frequency;
    qsort(frequencies, list->count, sizeof *frequencies, compare_frequencies);
    uint32_t least = k ? frequencies[k - 1] : UINT32_MAX;
    vv_free(frequencies);
    for (size_t i = 0; i < list->count; i++)
        more += list->entries[i].frequency > least;
    size_t equal = k - more; /* so many of the least frequent that stay */
    for (size_t i = 0; i < list->count && kept < k; i++) {
        const struct entry *entry = &list->entries[i];
        if (entry->frequency < least || (entry->frequency == least && equal == 0))
            continue;
        equal -= entry->frequency == least;
        list->entries[kept++] = *entry;
    }
    list->count = kept;
    return 0;
}

/* What only one rank holds is of no use to the others. After a cut, though, nobody knows that it is only one. */
static void drop_single(struct list *list) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].frequency > 1)
            list->entries[kept++] = list->entries[i];
    list->count = kept;
}

static int merge(const struct list *left, const struct list *right, size_t k, struct list *out) {
    size_t capacity = left->count + right->count;
    struct vv_loads loads = {0};
    const struct entry **rivals = vv_calloc(capacity + 1, sizeof *rivals);
    int rc = rivals ? make(out, capacity) : -ENOMEM;
    if (rc == 0)
        rc = join(left, right, out, rivals, &loads);
    for (size_t i = 0; rc == 0 && i < out->count; i++)
        if (rivals[i])
            rc = choose_entry(&loads, &out->entries[i], rivals[i]);
    out->is_cut = left->is_cut || right->is_cut;
    if (rc == 0)
        rc = cut(out, k);
    vv_free(rivals);
    vv_loads_clear(&loads);
    return rc;
}

/* ---- messages: one byte that says how the sender is, and entries ---- */

enum { WHOLE, CUT, FAILED };

static int encode(const struct list *list, struct vv_buf *out) {
    vv_buf_u8(out, list->is_cut ? CUT : WHOLE);
    uint8_t *at = vv_buf_extend(out, list->count * ENTRY);
    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < list->count; i++, at += ENTRY) {
        const struct entry *entry = &list->entries[i];
        vv_hash128_put(at, entry->id);
        vv_put64(at + 16, entry->address);
        vv_put32(at + 24, entry->frequency);
        vv_put32(at + 28, entry->owner);
        vv_put32(at + 32, entry->size);
        vv_put32(at + 36, 0);
    }
    return 0;
}

static int decode(const uint8_t *data, size_t size, uint32_t ranks, struct list *out) {
    if (size == 0 || (size - 1) % ENTRY || *data > CUT)
        return -EPROTO;
    if (make(out, (size - 1) / ENTRY))
        return -ENOMEM;
    out->is_cut = *data == CUT;
    const uint8_t *at = data + 1;
    for (size_t i = 0; i < out->count; i++, at += ENTRY) {
        out->entries[i] = (struct entry){vv_hash128_get(at), vv_get64(at + 16), vv_get32(at + 24), vv_get32(at + 28),
                                         vv_get32(at + 32)};
        if (out->entries[i].owner >= ranks ||
            (i && vv_hash128_compare(out->entries[i - 1].id, out->entries[i].id) >= 0))
            return -EPROTO;
    }
    return 0;
}

/* ---- up the tree ---- */

static int give(struct run *run, uint32_t to) {
    static const uint8_t mark = FAILED;
    struct varve_comm *comm = run->topk->comm;
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = is_well(run) ? encode(&run->list, &buf) : 0;
    if (rc)
        fail(run, rc);
    struct varve_message message = {to, is_well(run) ? buf.data : &mark, is_well(run) ? buf.size : 1};
    rc = comm->ops->exchange(comm, &message, 1, NULL, 0, NULL, NULL);
    run->sums->messages++;
    run->sums->bytes += message.size;
    vv_buf_clear(&buf);
    return rc;
}

static int take_entries(void *arg, uint32_t rank, const void *data, size_t size) {
    struct run *run = arg;
    struct list other = {0}, merged = {0};
    (void)rank;
    if (size == 1 && *(const uint8_t *)data == FAILED)
        run->is_marked = 1;
    if (!is_well(run))
        return 0;
    int rc = decode(data, size, run->topk->comm->ranks, &other);
    if (rc == 0)
        rc = merge(&run->list, &other, run->topk->k, &merged);
    drop(&other);
    if (rc) {
        drop(&merged);
        fail(run, rc);
        return 0;
    }
    drop(&run->list);
    run->list = merged;
    return 0;
}

static int reduce(struct run *run) {
    struct varve_comm *comm = run->topk->comm;
    int rc = 0;
    for (uint64_t step = 1; step < comm->ranks && rc == 0; step *= 2) {
        if (comm->rank & step)
            return give(run, comm->rank - (uint32_t)step);
        uint32_t from = comm->rank + (uint32_t)step;
        if (from < comm->ranks)
            rc = comm->ops->exchange(comm, NULL, 0, &from, 1, take_entries, run);
    }
    return rc;
}

/* ---- rank 0's result is everybody's ---- */

static int spread(struct run *run, struct varve_error *error) {
    struct varve_comm *comm = run->topk->comm;
    struct vv_buf buf;
    vv_buf_init(&buf);
    if (vv_comm_is_root(comm) && is_well(run)) {
        if (!run->list.is_cut)
            drop_single(&run->list);
        fail(run, encode(&run->list, &buf));
    }
    uint64_t size = is_well(run) ? buf.size : 0;
    int rc = comm->ops->broadcast(comm, &size, sizeof size, VV_COMM_ROOT);
    if (rc) {
        vv_buf_clear(&buf);
        return vv_comm_broken(comm, rc, error);
    }
    if (!vv_comm_is_root(comm) && is_well(run) && !vv_buf_extend(&buf, size))
        fail(run, -ENOMEM);
    rc = vv_comm_agree(comm, run->code, error);
    if (rc == 0) {
        rc = comm->ops->broadcast(comm, buf.data, size, VV_COMM_ROOT);
        if (rc)
            vv_comm_broken(comm, rc, error);
    }
    drop(&run->list);
    if (rc == 0) /* topk_run agrees on it */
        fail(run, decode(buf.data, size, comm->ranks, &run->list));
    vv_buf_clear(&buf);
    return rc;
}

/* ---- verdicts ---- */

static int own_list(struct run *run, const struct vv_exchange_in *in) {
    run->order = vv_malloc((in->count + 1) * sizeof *run->order);
    int rc = run->order ? make(&run->list, in->count) : -ENOMEM;
    if (rc == 0 && in->count)
        rc = vv_order_by_id(&in->offers->id, sizeof *in->offers, in->count, run->order);
    for (size_t i = 0; i < in->count && rc == 0; i++) {
        const struct vv_offer *offer = &in->offers[run->order[i]];
        run->list.entries[i] = (struct entry){offer->id, offer->address, 1, run->topk->comm->rank, offer->size};
    }
    return rc;
}

/* Both the list and our offers are in the order of their ids. */
static void judge(const struct run *run, const struct vv_exchange_in *in, struct vv_verdict *verdicts,
                  struct vv_exchange_sums *sums) {
    const struct entry *entry = run->list.entries, *end = entry + run->list.count;
    uint32_t own = run->topk->comm->rank;
    for (size_t i = 0; i < in->count; i++) {
        const struct vv_offer *offer = &in->offers[run->order[i]];
        struct vv_verdict *verdict = &verdicts[run->order[i]];
        while (entry < end && vv_hash128_compare(entry->id, offer->id) < 0)
            entry++;
        *verdict = (struct vv_verdict){.kind = VV_MINE, .owner = own, .address = offer->address};
        if (entry < end && vv_hash128_equal(entry->id, offer->id)) {
            verdict->is_shared = entry->frequency > 1;
            if (entry->owner != own)
                *verdict = (struct vv_verdict){.kind = VV_THERE, .owner = entry->owner, .address = entry->address};
        }
        *(verdict->kind == VV_MINE ? &sums->mine : &sums->there) += offer->size;
    }
}

static int topk_run(struct vv_exchange *exchange, const struct vv_exchange_in *in, struct vv_verdict *verdicts,
                    struct vv_exchange_sums *sums, struct varve_error *error) {
    struct topk *topk = (struct topk *)exchange;
    struct varve_error unused = {0};
    struct run run = {.topk = topk, .sums = &sums->hops};
    if (!error)
        error = &unused;
    fail(&run, own_list(&run, in));
    int rc = reduce(&run);
    rc = rc ? vv_comm_broken(topk->comm, rc, error) : spread(&run, error);
    if (rc == 0)
        rc = vv_comm_agree(topk->comm, run.code, error);
    if (rc == 0)
        judge(&run, in, verdicts, sums);
    drop(&run.list);
    vv_free(run.order);
    return rc;
}

/* ---- life ---- */

static void topk_close(struct vv_exchange *exchange) {
    vv_free(exchange);
}

static const struct vv_exchange_ops topk_ops = {"top-k", topk_run, topk_close};

int vv_exchange_topk(struct varve_comm *comm, size_t k, struct vv_exchange **out, struct varve_error *error) {
    if (comm->ops->size < offsetof(struct varve_comm_ops, exchange) + sizeof comm->ops->exchange ||
        !comm->ops->exchange)
        return -ENOTSUP;
    struct topk *topk = vv_calloc(1, sizeof *topk);
    int rc = topk ? 0 : vv_error(error, -ENOMEM, "no memory for deduplication between ranks");
    rc = vv_comm_agree(comm, rc, error);
    if (rc) {
        vv_free(topk);
        return rc;
    }
    *topk = (struct topk){{&topk_ops}, comm, k};
    *out = &topk->base;
    return 0;
}
