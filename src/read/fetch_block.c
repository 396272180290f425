/* Fetching one block by itself: it is lent to the ranks of this node, or only parts of it are read.
 *
 * Of a block that is stored as it is, and that has the ids of its granules, only the stretches are read that somebody
 * wants, and each granule is checked by its id. Any other block is read as a whole, and checked by its sum. */
#include <errno.h>
#include <string.h>

#include "base/content_id.h"
#include "read/fetch_private.h"
#include "store/block_lend.h"

#define GAP (64u << 10) /* bytes that cost less to read than another request does */

/* Bytes [from, to) of a decoded block; from is a multiple of VV_GRANULE, and so is to, or it is the block's end. */
struct stretch {
    uint32_t from, to;
};

/* The block of a job, while it is fetched. */
struct fetched {
    struct vv_fetch_job *job;
    const struct vv_pack_tables *tables;
    const struct vv_block *block;
    uint32_t number;
    uint32_t lead; /* the block's offset, modulo VV_READ_ALIGN */
    int has_ids;   /* its pieces are checked by them, not the whole by its sum */
    int is_lent;   /* it is read for other ranks of this node, too */
    char key[VV_KEY_CAPACITY];
};

/* ---- stretches ---- */

static struct stretch stretch_of(const struct vv_fetch_piece *piece, uint32_t raw) {
    uint64_t to = ((uint64_t)piece->raw + piece->length + VV_GRANULE - 1) / VV_GRANULE * VV_GRANULE;
    return (struct stretch){piece->raw / VV_GRANULE * VV_GRANULE, to < raw ? (uint32_t)to : raw};
}

/* The stretch that begins with the first of these pieces, which ascend, and how many of them are in it. */
static size_t next_stretch(const struct vv_fetch_piece *pieces, size_t count, uint32_t raw, struct stretch *out) {
    size_t n = 1;
    *out = stretch_of(&pieces[0], raw);
    for (; n < count; n++) {
        struct stretch next = stretch_of(&pieces[n], raw);
        if (next.from > out->to && next.from - out->to > GAP)
            break;
        out->to = next.to > out->to ? next.to : out->to;
    }
    return n;
}

/* With so many bytes more for each stretch. */
static uint64_t stretch_bytes(const struct vv_fetch_piece *pieces, size_t count, uint32_t raw, uint32_t more) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count;) {
        struct stretch stretch;
        i += next_stretch(pieces + i, count - i, raw, &stretch);
        sum += stretch.to - stretch.from + more;
    }
    return sum;
}

uint32_t vv_fetch_saved(const struct vv_fetch *fetch, const struct vv_block *block, const struct vv_fetch_piece *pieces,
                        size_t count) {
    if (!vv_fetch_has_ids(fetch, block, pieces, count))
        return 0;
    uint64_t sum = stretch_bytes(pieces, count, block->raw, 0);
    return sum < block->raw / 8 * UINT64_C(7) ? block->raw - (uint32_t)sum : 0; /* else its sum is the shorter way */
}

/* ---- placing ---- */

/* Are these whole granules of the block? */
static int is_aligned(const struct vv_fetch_piece *piece, uint32_t raw) {
    uint32_t end = piece->raw + piece->length;
    return piece->raw % VV_GRANULE == 0 && (end % VV_GRANULE == 0 || end == raw);
}

int vv_fetch_has_ids(const struct vv_fetch *fetch, const struct vv_block *block, const struct vv_fetch_piece *pieces,
                     size_t count) {
    int has_ids = block->codec == VV_CODEC_NONE && block->is_even && !fetch->view->is_trusted && !fetch->has_lost_ids;
    for (size_t i = 0; i < count && has_ids; i++)
        has_ids = is_aligned(&pieces[i], block->raw);
    return has_ids;
}

/* A piece is at its place: are its granules those that were stored? */
static int check_piece(const struct fetched *fetched, const struct vv_fetch_piece *piece,
                       const struct vv_hash128 *stored, struct varve_error *error) {
    uint32_t first = piece->raw / VV_GRANULE, count = (uint32_t)vv_granules(piece->length);
    uint64_t seed = vv_view_seed(fetched->job->fetch->view);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i * VV_GRANULE, left = piece->length - at;
        struct vv_hash128 id = vv_id(seed, piece->out + at, left < VV_GRANULE ? left : VV_GRANULE);
        if (!vv_hash128_equal(id, stored[first + i]))
            return vv_error(error, VARVE_CORRUPT, "%s: block %u at byte %llu is damaged: its chunk %u has another id",
                            fetched->key, fetched->number, (unsigned long long)fetched->block->offset, first + i);
    }
    return 0;
}

/* Only when all are right, they are told. */
static int check_pieces(const struct fetched *fetched, struct varve_error *error) {
    const struct vv_fetch_job *job = fetched->job;
    struct vv_fetch *fetch = job->fetch;
    const struct vv_want *wants = (const struct vv_want *)fetch->wants.data;
    uint32_t count = (uint32_t)vv_granules(fetched->block->raw);
    struct vv_scratch *ids = vv_scratch_acquire(&fetch->ids, count * sizeof(struct vv_hash128));
    if (!ids)
        return vv_error_sys(error, -ENOMEM, "check a block");
    struct vv_hash128 *stored = (struct vv_hash128 *)(void *)ids->data;
    int rc = vv_view_block_ids(fetch->view, job->pieces[0].source, job->pieces[0].writer, fetched->block, 0, count,
                               stored, error);
    fetch->has_lost_ids |= rc < 0;
    for (size_t i = 0; i < job->count && rc == 0; i++)
        rc = check_piece(fetched, &job->pieces[i], stored, error);
    for (size_t i = 0; i < job->count && rc == 0 && fetch->placed; i++)
        fetch->placed(wants[job->pieces[i].want].tag, job->pieces[i].out, job->pieces[i].length,
                      stored + job->pieces[i].raw / VV_GRANULE);
    vv_scratch_release(&fetch->ids, ids);
    return rc;
}

/* The block, or what is wanted of it, is in memory. What its sum has not checked is checked here. */
static int place_parts(const struct fetched *fetched, const uint8_t *raw, struct varve_error *error) {
    struct vv_fetch_job *job = fetched->job;
    if (!fetched->has_ids) {
        vv_fetch_place(job, raw);
        return 0;
    }
    vv_fetch_copy(job->fetch, job->pieces, job->count, raw);
    uint64_t begin = vv_clock_ns();
    int rc = check_pieces(fetched, error);
    vv_cost(&job->fetch->view->store->costs->checking_ns, begin);
    return rc;
}

/* ---- reading ---- */

/* To data + lead + stretch.from. What is read in front of it, up to a multiple of VV_READ_ALIGN, is what belongs there.
 */
static int read_stretch(const struct fetched *fetched, uint8_t *data, struct stretch stretch,
                        struct varve_error *error) {
    uint64_t end = fetched->block->offset + stretch.to, behind = -end % VV_READ_ALIGN;
    if (stretch.to + behind > fetched->block->raw)
        behind = vv_fetch_readable_behind(fetched->tables, fetched->number);
    return vv_pack_get(fetched->job->fetch->view->store, fetched->key,
                       fetched->block->offset + stretch.from - fetched->lead, data + stretch.from,
                       fetched->lead + (stretch.to - stretch.from) + behind, error);
}

static int read_stretches(const struct fetched *fetched, uint8_t *data, struct varve_error *error) {
    const struct vv_fetch_job *job = fetched->job;
    struct vv_read_costs *costs = job->fetch->view->store->costs;
    int rc = 0;
    for (size_t i = 0; i < job->count && rc == 0;) {
        struct stretch stretch;
        i += next_stretch(&job->pieces[i], job->count - i, fetched->block->raw, &stretch);
        rc = read_stretch(fetched, data, stretch, error);
        costs->bytes_raw += stretch.to - stretch.from;
    }
    costs->blocks++;
    return rc;
}

/* The stored block, to data + lead, checked by its sum. */
static int read_stored(const struct fetched *fetched, uint8_t *data, struct varve_error *error) {
    size_t size = fetched->lead + fetched->block->stored + vv_fetch_readable_behind(fetched->tables, fetched->number);
    struct vv_fetch *fetch = fetched->job->fetch;
    int rc = vv_pack_get(fetch->view->store, fetched->key, fetched->block->offset - fetched->lead, data, size, error);
    return rc < 0
               ? rc
               : vv_fetch_check_sum(fetch, fetched->key, fetched->block, fetched->number, data + fetched->lead, error);
}

static int read_decoded(const struct fetched *fetched, uint8_t *data, struct varve_error *error) {
    struct vv_fetch *fetch = fetched->job->fetch;
    struct vv_scratch *bounce =
        vv_scratch_acquire(&fetch->scratch, fetched->lead + fetched->block->stored + VV_READ_ALIGN);
    if (!bounce)
        return vv_error_sys(error, -ENOMEM, "read a block");
    int rc = read_stored(fetched, bounce->data, error);
    if (rc == 0)
        rc = vv_fetch_decode(fetch, fetched->key, fetched->block, bounce->data + fetched->lead, data, error);
    vv_scratch_release(&fetch->scratch, bounce);
    return rc;
}

/* Is it read once for this node, instead of a part of it by each rank? If the others want as much of it as their shares
 * of the whole let expect, the parts that all of them read are more than the block. What each rank of the job wants of
 * it is elsewhere in the block, so not more of them than fit into it. */
static int is_for_all(const struct fetched *fetched) {
    const struct vv_fetch_job *job = fetched->job;
    const struct vv_store *store = job->fetch->view->store;
    uint32_t raw = fetched->block->raw, around = fetched->lead ? VV_READ_ALIGN : 0;
    if (!fetched->is_lent)
        return 0;
    uint64_t read = stretch_bytes(job->pieces, job->count, raw, around), own = 1;
    for (size_t i = 0; i < job->count; i++)
        own += job->pieces[i].length;
    return (double)read * store->lend->wanted(store->lend_arg, (double)raw / own) > 1.1 * raw;
}

static int is_in_stretches(const struct fetched *fetched) {
    const struct vv_fetch_job *job = fetched->job;
    return fetched->has_ids && !is_for_all(fetched) &&
           vv_fetch_saved(job->fetch, fetched->block, job->pieces, job->count) > 0;
}

/* The block, or what is wanted of it, decoded at data + *lead_out. */
static int read_block(const struct fetched *fetched, uint8_t *data, uint32_t *lead_out, struct varve_error *error) {
    int is_plain = fetched->block->codec == VV_CODEC_NONE;
    *lead_out = is_plain ? fetched->lead : 0;
    if (is_in_stretches(fetched))
        return read_stretches(fetched, data, error);
    return is_plain ? read_stored(fetched, data, error) : read_decoded(fetched, data, error);
}

/* ---- lending ---- */

static void mark(uint64_t *granules, struct stretch stretch) {
    for (uint64_t i = stretch.from / VV_GRANULE; i < vv_granules(stretch.to); i++)
        granules[i / VV_LEND_WORD] |= UINT64_C(1) << i % VV_LEND_WORD;
}

/* NULL: the whole block, since nothing but its sum checks it, or since little is left out. */
static const struct vv_loan_parts *parts_of(const struct fetched *fetched, struct vv_loan_parts *out) {
    const struct vv_fetch_job *job = fetched->job;
    uint32_t raw = fetched->block->raw;
    if (!is_in_stretches(fetched))
        return NULL;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < job->count; i++)
        mark(out->needed, stretch_of(&job->pieces[i], raw));
    for (size_t i = 0; i < job->count;) {
        struct stretch stretch;
        i += next_stretch(&job->pieces[i], job->count - i, raw, &stretch);
        mark(out->read, stretch);
    }
    return out;
}

static int read_once(const struct fetched *fetched, struct varve_error *error) {
    struct vv_fetch *fetch = fetched->job->fetch;
    struct vv_scratch *bounce = vv_scratch_acquire(&fetch->scratch, (size_t)fetched->block->raw + VV_LEND_SLACK);
    uint32_t lead;
    if (!bounce)
        return vv_error_sys(error, -ENOMEM, "read a block");
    int rc = read_block(fetched, bounce->data, &lead, error);
    if (rc == 0)
        rc = place_parts(fetched, bounce->data + lead, error);
    vv_scratch_release(&fetch->scratch, bounce);
    return rc;
}

/* The ids may be what is damaged: then the sum of the block decides. */
static int read_alone(const struct fetched *fetched, struct varve_error *error) {
    struct fetched alone = *fetched;
    alone.is_lent = 0;
    int rc = read_once(&alone, error);
    if (rc == 0 || !alone.has_ids)
        return rc;
    alone.has_ids = 0;
    return read_once(&alone, error);
}

/* 1: it shall be tried again when there is nothing else to do. */
static int borrow(const struct fetched *fetched, struct varve_error *error) {
    struct vv_fetch_job *job = fetched->job;
    const struct vv_store *store = job->fetch->view->store;
    struct vv_loan_parts parts;
    struct vv_loan loan;
    uint32_t lead = 0;
    int rc = 0;
    enum vv_loan_state state =
        store->lend->take(store->lend_arg, fetched->key, fetched->block, parts_of(fetched, &parts), job->turn, &loan);
    if (state == VV_LOAN_LATER)
        return 1;
    if (state == VV_LOAN_NONE)
        return read_alone(fetched, error);
    if (state == VV_LOAN_EMPTY) {
        rc = read_block(fetched, loan.data, &lead, error);
        store->lend->filled(store->lend_arg, &loan, lead, rc);
        rc = rc < 0 ? 1 : 0; /* what is wrong shows when it is read without a lender */
    }
    if (rc == 0 && place_parts(fetched, loan.data, error) < 0)
        rc = 1;
    store->lend->give_back(store->lend_arg, &loan);
    return rc > 0 ? read_alone(fetched, error) : rc;
}

int vv_fetch_block(struct vv_fetch_job *job, const struct vv_pack_tables *tables, struct varve_error *error) {
    struct vv_view *view = job->fetch->view;
    const struct vv_fetch_piece *first = &job->pieces[0];
    struct fetched fetched = {.job = job,
                              .tables = tables,
                              .block = &tables->blocks[first->block],
                              .number = first->block,
                              .is_lent = job->is_lent,
                              .lead = (uint32_t)(tables->blocks[first->block].offset % VV_READ_ALIGN)};
    fetched.has_ids = !job->is_by_sum && vv_fetch_has_ids(job->fetch, fetched.block, job->pieces, job->count);
    int rc =
        vv_view_block_key(view, first->source, first->writer, fetched.block->part, tables->parts, fetched.key, error);
    if (rc == 0)
        rc = fetched.is_lent ? borrow(&fetched, error) : read_alone(&fetched, error);
    return rc > 0 ? rc : vv_view_missing(view, rc, error);
}
