/* Fetching, from pieces on: jobs of blocks that lie next to each other in one object, each one read; then checked,
 * decoded and placed.
 *
 * Where others read the same blocks, and only parts of some are wanted here, the store's helper is asked for those
 * (block_parts.h); a job of that kind is of blocks anywhere in one object, and what the helper does not give is read as
 * above. */
#include "read/fetch_private.h"

#include "base/alloc.h"
#include "store/block_decode.h"
#include "store/block_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define JOB_BYTES (1u << 20) /* stored bytes read at once, unless one block has more; or bytes asked for at once */
#define JOB_WISHES 64u       /* blocks asked for at once */

/* ---- one job ---- */

static void fail_pieces(struct vv_fetch *fetch, struct vv_fetch_piece *pieces, size_t count,
                        const struct varve_error *why) {
    for (size_t i = 0; i < count; i++)
        pieces[i].has_failed = 1;
    pthread_mutex_lock(&fetch->lock);
    int is_first = !fetch->error.code; /* of many that may follow when an object is gone */
    if (is_first)
        fetch->error = *why;
    pthread_mutex_unlock(&fetch->lock);
    vv_log(fetch->view->store->log, is_first ? VV_LOG_WARN : VV_LOG_DEBUG, "%s", why->text);
}

/* The blocks of its pack: those tables that the piece was found in. */
static int use_tables(struct vv_fetch *fetch, const struct vv_fetch_piece *piece, struct vv_cached **out,
                      struct varve_error *error) {
    struct vv_view *view = fetch->view;
    return vv_view_tables_of(view, piece->source, piece->writer, piece->is_own ? view->reader : VV_ALL_OWNERS, out,
                             error);
}

static size_t pieces_of_block(const struct vv_fetch_piece *pieces, size_t count) {
    size_t n = 1;
    while (n < count && pieces[n].block == pieces[0].block)
        n++;
    return n;
}

/* Every block of the job wanted whole by one piece, as it is stored, and the destinations in one row. */
static int is_direct(const struct vv_fetch_job *job, const struct vv_pack_tables *tables) {
    const uint8_t *next = job->pieces[0].out;
    for (size_t i = 0; i < job->count; i++) {
        const struct vv_fetch_piece *piece = &job->pieces[i];
        const struct vv_block *block = &tables->blocks[piece->block];
        if (block->codec != VV_CODEC_NONE || piece->length != block->raw || piece->out != next ||
            (i && piece->block == piece[-1].block))
            return 0;
        next += piece->length;
    }
    return 1;
}

int vv_fetch_check_sum(struct vv_fetch *fetch, const char *key, const struct vv_block *block, uint32_t number,
                       const void *stored, struct varve_error *error) {
    struct vv_read_costs *costs = fetch->view->store->costs;
    uint64_t begin = vv_clock_ns();
    int is_right = vv_sum64(stored, block->stored) == block->sum;
    vv_cost(&costs->checking_ns, begin);
    costs->blocks++;
    costs->bytes_raw += block->raw;
    if (is_right)
        return 0;
    return vv_error(error, VARVE_CORRUPT, "%s: block %u at byte %llu is damaged: its sum does not match", key, number,
                    (unsigned long long)block->offset);
}

void vv_fetch_copy(struct vv_fetch *fetch, const struct vv_fetch_piece *pieces, size_t count, const uint8_t *raw) {
    uint64_t begin = vv_clock_ns();
    for (size_t i = 0; i < count; i++)
        memcpy(pieces[i].out, raw + pieces[i].raw, pieces[i].length);
    vv_cost(&fetch->view->store->costs->copying_ns, begin);
}

int vv_fetch_decode(struct vv_fetch *fetch, const char *key, const struct vv_block *block, const uint8_t *stored,
                    uint8_t *raw, struct varve_error *error) {
    uint64_t begin = vv_clock_ns();
    int rc = vv_block_decode(&fetch->coders, key, block, stored, raw, error);
    vv_cost(&fetch->view->store->costs->decoding_ns, begin);
    return rc;
}

static int is_decoded(const struct vv_decoded *decoded, const char *key, const struct vv_block *block) {
    return decoded->block.raw == block->raw && decoded->block.offset == block->offset &&
           decoded->block.sum == block->sum && strcmp(decoded->key, key) == 0;
}

/* 1 if the block was the last one to be decoded. */
static int copy_decoded(struct vv_fetch *fetch, const char *key, const struct vv_block *block,
                        const struct vv_fetch_piece *pieces, size_t count) {
    struct vv_decoded *decoded = &fetch->view->decoded;
    if (!decoded->is_wanted)
        return 0;
    pthread_mutex_lock(&decoded->lock);
    int found = is_decoded(decoded, key, block);
    if (found)
        vv_fetch_copy(fetch, pieces, count, decoded->data);
    pthread_mutex_unlock(&decoded->lock);
    return found;
}

/* Without memory it is not kept. */
static void keep_decoded(struct vv_decoded *decoded, const char *key, const struct vv_block *block,
                         const uint8_t *raw) {
    if (!decoded->is_wanted)
        return;
    pthread_mutex_lock(&decoded->lock);
    if (decoded->capacity < block->raw) {
        vv_free(decoded->data);
        decoded->data = vv_malloc(block->raw);
        decoded->capacity = decoded->data ? block->raw : 0;
    }
    decoded->block = (struct vv_block){.raw = 0};
    if (decoded->data) {
        memcpy(decoded->data, raw, block->raw);
        decoded->block = *block;
        memcpy(decoded->key, key, strlen(key) + 1); /* both are VV_KEY_CAPACITY */
    }
    pthread_mutex_unlock(&decoded->lock);
}

/* One block whose stored bytes are in memory. */
static int place_block(struct vv_fetch *fetch, const char *key, const struct vv_block *block,
                       const struct vv_fetch_piece *pieces, size_t count, const uint8_t *stored,
                       struct varve_error *error) {
    int rc = vv_fetch_check_sum(fetch, key, block, pieces[0].block, stored, error);
    if (rc < 0)
        return rc;
    if (block->codec == VV_CODEC_NONE) {
        vv_fetch_copy(fetch, pieces, count, stored);
        return 0;
    }
    if (count == 1 && pieces[0].length == block->raw)
        return vv_fetch_decode(fetch, key, block, stored, pieces[0].out, error);
    if (copy_decoded(fetch, key, block, pieces, count))
        return 0;
    struct vv_scratch *raw = vv_scratch_acquire(&fetch->scratch, block->raw);
    if (!raw)
        return vv_error_sys(error, -ENOMEM, "decode a block");
    rc = vv_fetch_decode(fetch, key, block, stored, raw->data, error);
    if (rc == 0) {
        vv_fetch_copy(fetch, pieces, count, raw->data);
        keep_decoded(&fetch->view->decoded, key, block, raw->data);
    }
    vv_scratch_release(&fetch->scratch, raw);
    return rc;
}

static void tell_placed(struct vv_fetch *fetch, const struct vv_fetch_piece *pieces, size_t count) {
    const struct vv_want *wants = (const struct vv_want *)fetch->wants.data;
    uint64_t begin = vv_clock_ns();
    for (size_t i = 0; i < count && fetch->placed; i++)
        fetch->placed(wants[pieces[i].want].tag, pieces[i].out, pieces[i].length, NULL);
    vv_cost(&fetch->view->store->costs->checking_ns, begin);
}

void vv_fetch_place(struct vv_fetch_job *job, const uint8_t *raw) {
    vv_fetch_copy(job->fetch, job->pieces, job->count, raw);
    tell_placed(job->fetch, job->pieces, job->count);
}

/* A block that its sum refuses: damage beside the parts that are asked for is no matter to their ids. */
static int place_by_ids(struct vv_fetch_job *job, const struct vv_pack_tables *tables, struct vv_fetch_piece *pieces,
                        size_t count) {
    struct vv_fetch_job alone = {.fetch = job->fetch, .pieces = pieces, .count = count};
    struct varve_error ignored;
    vv_error_clear(&ignored);
    return job->is_by_sum ? vv_fetch_block(&alone, tables, &ignored) : -ENOTSUP;
}

static void place_blocks(struct vv_fetch_job *job, const char *key, const struct vv_pack_tables *tables,
                         const uint8_t *stored, int are_placed) {
    uint64_t base = tables->blocks[job->pieces[0].block].offset;
    size_t n;
    for (size_t i = 0; i < job->count; i += n) {
        struct vv_fetch_piece *pieces = &job->pieces[i];
        const struct vv_block *block = &tables->blocks[pieces->block];
        const uint8_t *bytes = stored + (block->offset - base);
        struct varve_error why;
        n = pieces_of_block(pieces, job->count - i);
        vv_error_clear(&why);
        int rc = are_placed ? vv_fetch_check_sum(job->fetch, key, block, pieces->block, bytes, &why)
                            : place_block(job->fetch, key, block, pieces, n, bytes, &why);
        if (rc == 0)
            tell_placed(job->fetch, pieces, n);
        else if (place_by_ids(job, tables, pieces, n) < 0)
            fail_pieces(job->fetch, pieces, n, &why);
    }
}

size_t vv_fetch_readable_behind(const struct vv_pack_tables *tables, uint64_t number) {
    const struct vv_block *block = &tables->blocks[number], *next = block + 1;
    size_t missing = (size_t)(-(block->offset + block->stored) % VV_READ_ALIGN);
    return number + 1 < tables->block_count && next->part == block->part && next->stored >= missing ? missing : 0;
}

/* A bounced read begins and ends at multiples of VV_READ_ALIGN where it can: the backend then needs no copy of its own.
 */
static int read_job(struct vv_fetch_job *job, const struct vv_pack_tables *tables, struct varve_error *error) {
    struct vv_view *view = job->fetch->view;
    const struct vv_fetch_piece *first = &job->pieces[0];
    const struct vv_block *begin = &tables->blocks[first->block];
    const struct vv_block *end = &tables->blocks[job->pieces[job->count - 1].block];
    uint64_t lead = begin->offset % VV_READ_ALIGN;
    size_t size = (size_t)(end->offset + end->stored - begin->offset);
    char key[VV_KEY_CAPACITY];
    int rc = vv_view_block_key(view, first->source, first->writer, begin->part, tables->parts, key, error);
    if (rc < 0)
        return rc;
    int direct = is_direct(job, tables);
    struct vv_scratch *bounce = direct ? NULL : vv_scratch_acquire(&job->fetch->scratch, lead + size + VV_READ_ALIGN);
    if (!direct && !bounce)
        return vv_error_sys(error, -ENOMEM, "read blocks");
    uint8_t *stored = direct ? first->out : bounce->data + lead;
    rc = direct ? vv_pack_get(view->store, key, begin->offset, stored, size, error)
                : vv_pack_get(view->store, key, begin->offset - lead, bounce->data,
                              lead + size + vv_fetch_readable_behind(tables, job->pieces[job->count - 1].block), error);
    if (rc == 0)
        place_blocks(job, key, tables, stored, direct);
    vv_scratch_release(&job->fetch->scratch, bounce);
    return vv_view_missing(view, rc, error);
}

static void read_or_fail(struct vv_fetch_job *job, const struct vv_pack_tables *tables) {
    struct varve_error why;
    vv_error_clear(&why);
    if (read_job(job, tables, &why) < 0)
        fail_pieces(job->fetch, job->pieces, job->count, &why);
}

/* ---- parts of blocks from others ---- */

static size_t make_wishes(const struct vv_fetch_job *job, const struct vv_pack_tables *tables,
                          struct vv_block_part *parts, struct vv_block_wish *wishes) {
    size_t count = 0, n;
    for (size_t i = 0; i < job->count; i += n) {
        const struct vv_fetch_piece *pieces = &job->pieces[i];
        n = pieces_of_block(pieces, job->count - i);
        for (size_t k = 0; k < n; k++)
            parts[i + k] = (struct vv_block_part){pieces[k].out, pieces[k].raw, pieces[k].length};
        wishes[count++] = (struct vv_block_wish){
            .block = &tables->blocks[pieces->block], .parts = &parts[i], .count = n, .result = -ENOTSUP};
    }
    return count;
}

/* Blocks that did not come are read one by one: something is wrong with them, or with whoever was asked. */
static void take_wishes(struct vv_fetch_job *job, const struct vv_pack_tables *tables,
                        const struct vv_block_wish *wishes, size_t count) {
    struct vv_fetch_piece *pieces = job->pieces;
    for (size_t i = 0; i < count; pieces += wishes[i++].count) {
        if (wishes[i].result == 0) {
            tell_placed(job->fetch, pieces, wishes[i].count);
        } else {
            struct vv_fetch_job alone = {.fetch = job->fetch, .pieces = pieces, .count = wishes[i].count};
            read_or_fail(&alone, tables);
        }
    }
}

static int ask_job(struct vv_fetch_job *job, const struct vv_pack_tables *tables, struct varve_error *error) {
    struct vv_view *view = job->fetch->view;
    const struct vv_fetch_piece *first = &job->pieces[0];
    struct vv_block_wish wishes[JOB_WISHES];
    char key[VV_KEY_CAPACITY];
    int rc = vv_view_block_key(view, first->source, first->writer, tables->blocks[first->block].part, tables->parts,
                               key, error);
    if (rc < 0)
        return rc;
    struct vv_block_part *parts = vv_malloc(job->count * sizeof *parts);
    if (!parts)
        return vv_error_sys(error, -ENOMEM, "ask for blocks");
    size_t count = make_wishes(job, tables, parts, wishes);
    view->store->parts->get(view->store->parts_arg, key, wishes, count);
    take_wishes(job, tables, wishes, count);
    vv_free(parts);
    return 0;
}

/* Failures are noted in the pieces: there may be another place for them. */
static int run_job(void *arg) {
    struct vv_fetch_job *job = arg;
    struct vv_view *view = job->fetch->view;
    struct vv_cached *tables = NULL;
    struct varve_error why;
    job->is_left = job->is_lent && job->turn == 0 && job->fetch->is_ahead;
    if (job->is_left)
        return 0;
    vv_error_clear(&why);
    int rc = use_tables(job->fetch, &job->pieces[0], &tables, &why);
    if (rc == 0)
        rc = job->is_in_parts ? ask_job(job, tables->object, &why)
             : job->is_alone  ? vv_fetch_block(job, tables->object, &why)
                              : read_job(job, tables->object, &why);
    vv_view_release(view, tables);
    if (rc > 0) {
        job->is_left = 1;
        job->fetch->is_ahead = 1;
    }
    if (rc < 0)
        fail_pieces(job->fetch, job->pieces, job->count, &why);
    return 0;
}

/* ---- a batch ---- */

static int order(uint32_t a, uint32_t b) {
    return a < b ? -1 : a > b;
}

static int compare_pieces(const void *a, const void *b) {
    const struct vv_fetch_piece *x = a, *y = b;
    int first = order(x->source, y->source), second = order(x->writer, y->writer), third = order(x->block, y->block);
    return first ? first : second ? second : third ? third : order(x->raw, y->raw);
}

static void sort_range(struct vv_fetch_piece *pieces, size_t count) {
    size_t i = 1;
    while (i < count && compare_pieces(&pieces[i - 1], &pieces[i]) <= 0)
        i++;
    if (i < count)
        qsort(pieces, count, sizeof pieces[0], compare_pieces);
}

/* Pieces come source by source, and within one mostly in the order of its blocks: then nothing is left to sort. */
static void sort_pieces(struct vv_fetch *fetch) {
    struct vv_fetch_piece *pieces = (struct vv_fetch_piece *)fetch->pieces.data;
    size_t count = fetch->pieces.size / sizeof *pieces, n;
    for (size_t i = 1; i < count; i++) {
        if (pieces[i - 1].source > pieces[i].source) { /* second tries */
            sort_range(pieces, count);
            return;
        }
    }
    for (size_t i = 0; i < count; i += n) {
        for (n = 1; i + n < count && pieces[i + n].source == pieces[i].source; n++) {
        }
        sort_range(pieces + i, n);
    }
}

/* The pieces of one block, of all that are there. */
struct group {
    size_t count;
    uint64_t bytes; /* that are wanted; what is wanted twice counts twice */
};

static struct group group_at(const struct vv_fetch_piece *pieces, size_t count) {
    struct group group = {0};
    while (group.count < count && pieces[group.count].source == pieces->source &&
           pieces[group.count].writer == pieces->writer && pieces[group.count].block == pieces->block)
        group.bytes += pieces[group.count++].length;
    return group;
}

/* A part of the block is wanted: less than three quarters, since with more the stored bytes are the shorter way. */
static int is_part(const struct vv_pack_tables *tables, const struct vv_fetch_piece *pieces,
                   const struct group *group) {
    return group->bytes < tables->blocks[pieces->block].raw / 4 * UINT64_C(3);
}

/* Does the block of `next` follow that of `last` in its object, and is the read that began at `begin` still short
 * enough? */
static int follows(const struct vv_pack_tables *tables, const struct vv_fetch_piece *begin,
                   const struct vv_fetch_piece *last, const struct vv_fetch_piece *next) {
    const struct vv_block *a = &tables->blocks[begin->block], *b = &tables->blocks[next->block];
    return next->block == last->block + 1 && a->part == b->part && b->offset + b->stored - a->offset <= JOB_BYTES;
}

static int is_same_pack(const struct vv_fetch_piece *a, const struct vv_fetch_piece *b) {
    return a->source == b->source && a->writer == b->writer;
}

static int may_ask(const struct vv_fetch *fetch, const struct vv_fetch_piece *piece) {
    const struct vv_store *store = fetch->view->store;
    return store->parts &&
           store->parts->is_shared(store->parts_arg, vv_view_source(fetch->view, piece->source), piece->writer);
}

/* Is there a lender for the block, and are there others to lend it to? */
static int is_lent(const struct vv_fetch *fetch, const struct vv_block *block, const struct vv_fetch_piece *pieces,
                   const struct group *group) {
    const struct vv_want *wants = (const struct vv_want *)fetch->wants.data;
    int is_shared = (block->flags & VV_BLOCK_SHARED) != 0;
    enum vv_sharing least = group->bytes < block->raw ? VV_SHARING_PARTS : VV_SHARING_ALL;
    for (size_t i = 0; i < group->count && !is_shared; i++)
        is_shared = wants[pieces[i].want].sharing >= least;
    return fetch->view->store->lend && is_shared;
}

static int is_alone(const struct vv_fetch_job *job, const struct vv_block *block, const struct vv_fetch_piece *pieces,
                    const struct group *group) {
    return is_lent(job->fetch, block, pieces, group) ||
           (!job->is_by_sum && vv_fetch_saved(job->fetch, block, pieces, group->count) > 0);
}

/* A section of ids is read as a whole, to check any of them. Where small parts are asked for from outside, nobody needs
 * them later: do they take more than the pieces of this pack save by them? */
static int is_shorter_by_sum(const struct vv_fetch *fetch, const struct vv_fetch_piece *pieces, size_t count,
                             const struct vv_pack_tables *tables) {
    uint64_t ids = 0, saved = 0;
    if (fetch->placed || !fetch->view->decoded.is_wanted)
        return 0;
    for (uint64_t i = tables->block_count; i-- > 0 && ids == 0;)
        if (tables->blocks[i].flags & VV_BLOCK_IDS)
            ids = (tables->blocks[i].first_id + vv_granules(tables->blocks[i].raw)) * sizeof(struct vv_hash128);
    for (size_t i = 0; i < count && is_same_pack(pieces, &pieces[i]);) {
        struct group group = group_at(&pieces[i], count - i);
        saved += vv_fetch_saved(fetch, &tables->blocks[pieces[i].block], &pieces[i], group.count);
        i += group.count;
    }
    return saved <= ids;
}

/* May the block of `next`, which the group is of, be had together with those before it? */
static int may_join(const struct vv_fetch_job *job, const struct vv_pack_tables *tables,
                    const struct vv_fetch_piece *next, const struct group *group, int is_shared) {
    const struct vv_fetch_piece *pieces = job->pieces;
    if (!is_same_pack(pieces, next) || (is_shared && is_part(tables, next, group)) != job->is_in_parts)
        return 0;
    return job->is_in_parts ? tables->blocks[next->block].part == tables->blocks[pieces->block].part
                            : follows(tables, pieces, next - 1, next) &&
                                  !is_alone(job, &tables->blocks[next->block], next, group);
}

/* The pack that jobs are being cut from. */
struct cut {
    struct vv_cached *tables;
    int is_shared; /* parts of its blocks are asked for */
    int is_by_sum;
};

/* The pieces from `pieces` on, all of this pack, that can be had together. */
static struct vv_fetch_job take_job(struct vv_fetch *fetch, struct vv_fetch_piece *pieces, size_t count,
                                    const struct cut *cut) {
    const struct vv_pack_tables *tables = cut->tables->object;
    const struct vv_block *block = &tables->blocks[pieces->block];
    struct group group = group_at(pieces, count);
    struct vv_fetch_job job = {.fetch = fetch,
                               .pieces = pieces,
                               .count = group.count,
                               .is_in_parts = cut->is_shared && is_part(tables, pieces, &group),
                               .is_by_sum = cut->is_by_sum};
    uint64_t bytes = group.bytes;
    job.is_alone = !job.is_in_parts && is_alone(&job, block, pieces, &group);
    job.is_lent = job.is_alone && is_lent(fetch, block, pieces, &group);
    for (size_t wishes = 1; job.count < count && !job.is_alone; wishes++) {
        const struct vv_fetch_piece *next = &pieces[job.count];
        group = group_at(next, count - job.count);
        bytes += group.bytes;
        if (!may_join(&job, tables, next, &group, cut->is_shared) ||
            (job.is_in_parts && (wishes == JOB_WISHES || bytes > JOB_BYTES)))
            break;
        job.count += group.count;
    }
    return job;
}

/* One job: the pieces from `pieces` on that can be had together. */
static int cut_job(struct vv_fetch *fetch, struct vv_fetch_piece *pieces, size_t count, struct cut *cut,
                   struct vv_fetch_job *out, struct varve_error *error) {
    const struct vv_cache_key *key = cut->tables ? &cut->tables->key : NULL;
    if (!key || key->writer != pieces->writer ||
        vv_attempt_compare(&key->attempt, vv_view_source(fetch->view, pieces->source)) != 0) {
        vv_view_release(fetch->view, cut->tables);
        cut->tables = NULL;
        int rc = use_tables(fetch, pieces, &cut->tables, error);
        if (rc < 0)
            return rc;
        cut->is_shared = may_ask(fetch, pieces);
        cut->is_by_sum = is_shorter_by_sum(fetch, pieces, count, cut->tables->object);
    }
    *out = take_job(fetch, pieces, count, cut);
    return 0;
}

static int cut_jobs(struct vv_fetch *fetch, struct vv_buf *jobs, struct varve_error *error) {
    struct vv_fetch_piece *pieces = (struct vv_fetch_piece *)fetch->pieces.data;
    size_t count = fetch->pieces.size / sizeof *pieces;
    struct cut cut = {0};
    int rc = 0;
    sort_pieces(fetch);
    for (size_t i = 0; i < count && rc == 0;) {
        struct vv_fetch_job job;
        rc = cut_job(fetch, &pieces[i], count - i, &cut, &job, error);
        if (rc == 0) {
            vv_buf_append(jobs, &job, sizeof job);
            rc = jobs->failed ? vv_error_sys(error, -ENOMEM, "jobs") : 0;
            i += job.count;
        }
    }
    vv_view_release(fetch->view, cut.tables);
    return rc;
}

/* Run the jobs of a list of which this member is set, or is not. */
enum which { LENT, NOT_LENT, LEFT };

static int is_of(const struct vv_fetch_job *job, enum which which) {
    return which == LEFT ? job->is_left : job->is_lent == (which == LENT);
}

static int run_some(struct vv_fetch *fetch, struct vv_fetch_job *list, size_t count, enum which which) {
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (!is_of(&list[i], which))
            continue;
        list[i].turn = which == LEFT ? i + 1 : 0;
        rc = fetch->pool && count > 1 ? vv_pool_submit(fetch->pool, run_job, &list[i]) : run_job(&list[i]);
    }
    return rc;
}

/* What is lent goes first: all ranks of a node read it in the same order, at about the same time. A rank that is too
 * far ahead leaves the rest of it until it has read what is its own. It leaves out none: if it took later blocks into
 * the room there is, and another rank did so with others, each would wait for what the other has passed by. */
static int run_jobs(struct vv_fetch *fetch, struct vv_buf *jobs, struct varve_error *error) {
    struct vv_fetch_job *list = (struct vv_fetch_job *)jobs->data;
    size_t count = jobs->size / sizeof *list;
    int is_pooled = fetch->pool && count > 1;
    fetch->is_ahead = 0;
    int rc = run_some(fetch, list, count, LENT);
    if (rc == 0)
        rc = run_some(fetch, list, count, NOT_LENT);
    int waited = is_pooled ? vv_pool_wait(fetch->pool) : 0;
    rc = rc < 0 ? rc : waited;
    if (rc == 0)
        rc = run_some(fetch, list, count, LEFT);
    waited = is_pooled ? vv_pool_wait(fetch->pool) : 0;
    rc = rc < 0 ? rc : waited;
    return rc < 0 ? vv_error_sys(error, rc, "reading blocks") : 0;
}

int vv_fetch_pieces(struct vv_fetch *fetch, struct varve_error *error) {
    struct vv_buf jobs;
    vv_buf_init(&jobs);
    int rc = cut_jobs(fetch, &jobs, error);
    if (rc == 0)
        rc = run_jobs(fetch, &jobs, error);
    vv_buf_clear(&jobs);
    return rc;
}
