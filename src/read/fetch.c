/* Fetching: from runs to bytes in memory.
 *
 *   want   a range of a run and where it shall go; made by vv_fetch_add
 *   piece  the part of a want that lies in one extent of one block; wants become pieces by looking places up
 *   job    pieces of blocks that lie next to each other in one object: one read, then checked, decoded, placed
 *
 * Nothing is looked up before vv_fetch_run, which takes the wants source by source: neighbouring runs may come from
 * packs as many as there are checkpoints, and the tables of all of them need not be in memory together. It sorts the
 * pieces by pack and block, so that every block is read and decoded once, and gives the jobs to the pool. A block
 * without codec that one piece wants as a whole is read straight into its destination. Pieces of a block that could
 * not be read become wants again, for the run's next place or a partner's copy, until nothing is left to try.
 *
 * From pieces on: fetch_jobs.c. */
#include "read/fetch_private.h"

#include "base/alloc.h"

#include <errno.h>
#include <string.h>

#define PORTION (1u << 18)       /* pieces that are enough for one go, if those of a source are together */
#define KEEP_CAPACITY (1u << 20) /* bytes of a list that are kept for the next batch */

/* After the batch, the first `piece` bytes at out are repeated up to size. */
struct repeat {
    uint8_t *out;
    uint64_t piece;
    uint64_t size;
    uint32_t source;
};

int vv_fetch_create(struct vv_view *view, struct vv_pool *pool, struct vv_fetch **out) {
    struct vv_fetch *fetch = vv_calloc(1, sizeof *fetch);
    if (!fetch)
        return -ENOMEM;
    fetch->view = view;
    fetch->pool = pool;
    vv_seeker_init(&fetch->seeker, view);
    vv_scratch_init(&fetch->scratch);
    vv_scratch_init(&fetch->ids);
    vv_coders_init(&fetch->coders);
    pthread_mutex_init(&fetch->lock, NULL);
    *out = fetch;
    return 0;
}

void vv_fetch_destroy(struct vv_fetch *fetch) {
    if (!fetch)
        return;
    vv_scratch_clear(&fetch->scratch);
    vv_scratch_clear(&fetch->ids);
    vv_coders_clear(&fetch->coders);
    vv_buf_clear(&fetch->places);
    vv_buf_clear(&fetch->wants);
    vv_buf_clear(&fetch->pieces);
    vv_buf_clear(&fetch->repeats);
    vv_seeker_clear(&fetch->seeker);
    pthread_mutex_destroy(&fetch->lock);
    vv_free(fetch);
}

void vv_fetch_tell(struct vv_fetch *fetch, vv_placed_fn placed, void *tag) {
    fetch->placed = placed;
    fetch->tag = tag;
}

void *vv_fetch_failed(const struct vv_fetch *fetch) {
    return fetch->failed_tag;
}

/* ---- wants and pieces ---- */

static struct vv_want *want_at(const struct vv_fetch *fetch, size_t index) {
    return (struct vv_want *)fetch->wants.data + index;
}

static size_t want_count(const struct vv_fetch *fetch) {
    return fetch->wants.size / sizeof(struct vv_want);
}

static struct vv_place place_of(const struct vv_fetch *fetch, const struct vv_want *want, uint32_t number) {
    if (want->list == VV_NO_LIST)
        return (struct vv_place){.dependency = want->source, .owner = want->owner, .address = want->address};
    const struct vv_place *list = (const struct vv_place *)fetch->places.data + want->list;
    struct vv_place place = list[number];
    place.address += want->address - list[0].address;
    return place;
}

/* The place to try for a want: first the places as they are listed, then copy 1, 2, 3 of each that is no copy
 * itself. 1, 0 when this number means none, or an error. */
static int pick_place(struct vv_fetch *fetch, const struct vv_want *want, uint32_t candidate, struct vv_place *out,
                      struct varve_error *error) {
    uint32_t copy = candidate / want->place_count;
    *out = place_of(fetch, want, candidate % want->place_count);
    if (copy == 0)
        return 1;
    uint32_t partners = 0;
    int rc = out->copy ? 0 : vv_seek_partners(&fetch->seeker, out, &partners, error);
    out->copy = copy;
    return rc < 0 ? rc : copy <= partners;
}

/* A pack that is not there has no blocks to offer; where it has copies, one of them is taken without trying it. Parts
 * may be there without it. */
static int has_block(const struct vv_fetch *fetch, const struct vv_place *place, const struct vv_spot *spot,
                     struct varve_error *error) {
    if (!spot->tables->is_lost || spot->tables->blocks[spot->block].part != spot->tables->parts)
        return 0;
    struct vv_pack_id id = vv_view_pack(fetch->view, place->dependency, spot->writer);
    char key[VV_KEY_CAPACITY];
    vv_pack_key(&id, VV_KIND_PACK, 0, key);
    return vv_error(error, -ENOENT, "%s is missing", key);
}

/* Pieces from the start of the want on, as far as this place has them. covered_out counts on failure, too. */
static int add_pieces(struct vv_fetch *fetch, const struct vv_want *want, uint32_t want_index, struct vv_place place,
                      uint64_t *covered_out, struct varve_error *error) {
    uint64_t done = 0;
    int rc = 0;
    while (done < want->size) {
        struct vv_spot spot;
        rc = vv_seek(&fetch->seeker, &place, &spot, error);
        if (rc == 0)
            rc = has_block(fetch, &place, &spot, error);
        if (rc < 0)
            break;
        uint64_t left = want->size - done;
        struct vv_fetch_piece piece = {.out = want->out + done,
                                       .source = place.dependency,
                                       .writer = spot.writer,
                                       .is_own = place.owner == fetch->view->reader,
                                       .block = spot.block,
                                       .raw = spot.raw,
                                       .length = spot.length < left ? spot.length : (uint32_t)left,
                                       .want = want_index};
        vv_buf_append(&fetch->pieces, &piece, sizeof piece);
        if (fetch->pieces.failed) {
            rc = vv_error_sys(error, -ENOMEM, "pieces to fetch");
            break;
        }
        done += piece.length;
        place.address += piece.length;
    }
    *covered_out = done;
    return rc;
}

/* Turn the want into pieces, from its first candidate on that has its first bytes. If that has only some of them, the
 * want is cut there. */
static int resolve(struct vv_fetch *fetch, struct vv_want *want, uint32_t want_index, struct varve_error *error) {
    struct varve_error first = {0}, why;
    for (; want->candidate < want->place_count * (1 + VV_PARTNERS_MAX); want->candidate++) {
        struct vv_place place;
        uint64_t covered = 0;
        vv_error_clear(&why);
        int rc = pick_place(fetch, want, want->candidate, &place, &why);
        if (rc == 0)
            continue;
        if (rc > 0)
            rc = add_pieces(fetch, want, want_index, place, &covered, &why);
        int is_over = rc == -ENOMEM || rc == VARVE_FORGOTTEN;
        if (rc == 0 || (covered && !is_over)) {
            want->size = covered;
            if (want->candidate)
                fetch->view->used_copies = 1;
            return 0;
        }
        if (!first.code)
            first = why;
        if (is_over) {
            first = why;
            break;
        }
    }
    if (!first.code) /* every candidate was tried before */
        first = fetch->error;
    int rc = vv_error(error, first.code ? first.code : VARVE_CORRUPT, "%s", first.text);
    return vv_view_missing(fetch->view, rc, error);
}

static int add_want(struct vv_fetch *fetch, const struct vv_want *want, struct varve_error *error) {
    if (want_count(fetch) == UINT32_MAX)
        return vv_error(error, -EOVERFLOW, "too many runs in one batch");
    vv_buf_append(&fetch->wants, want, sizeof *want);
    return fetch->wants.failed ? vv_error_sys(error, -ENOMEM, "bytes to fetch") : 0;
}

/* Pieces for a want; where one candidate has only some of its bytes, the rest becomes a want of its own. */
static int find_want(struct vv_fetch *fetch, size_t index, struct varve_error *error) {
    for (;;) {
        struct vv_want whole = *want_at(fetch, index), part = whole;
        int rc = resolve(fetch, &part, (uint32_t)index, error);
        if (rc < 0) {
            fetch->failed_tag = whole.tag;
            return rc;
        }
        *want_at(fetch, index) = part;
        if (part.size == whole.size)
            return 0;
        whole.address += part.size;
        whole.out += part.size;
        whole.size -= part.size;
        index = want_count(fetch);
        rc = add_want(fetch, &whole, error);
        if (rc < 0)
            return rc;
    }
}

static uint32_t source_of(const struct vv_fetch *fetch, uint32_t index) {
    return want_at(fetch, index)->source;
}

static uint32_t owner_of(const struct vv_fetch *fetch, uint32_t index) {
    return want_at(fetch, index)->owner;
}

/* Indices of wants by a number of theirs, otherwise as they were. `before` is freed; NULL: they were not dealt yet, or
 * there is no memory. */
static uint32_t *deal(const struct vv_fetch *fetch, uint32_t numbers,
                      uint32_t (*number_of)(const struct vv_fetch *, uint32_t), uint32_t *before) {
    size_t count = want_count(fetch);
    uint32_t *order = vv_malloc(count * sizeof *order);
    size_t *begin = order ? vv_calloc((size_t)numbers + 1, sizeof *begin) : NULL;
    for (size_t i = 0; begin && i < count; i++)
        begin[number_of(fetch, (uint32_t)i) + 1]++;
    for (uint32_t i = 1; begin && i <= numbers; i++)
        begin[i] += begin[i - 1];
    for (size_t i = 0; begin && i < count; i++) {
        uint32_t index = before ? before[i] : (uint32_t)i;
        order[begin[number_of(fetch, index)]++] = index;
    }
    if (!begin)
        vv_free(order);
    vv_free(begin);
    vv_free(before);
    return begin ? order : NULL;
}

/* The wants source by source, and inside a source owner by owner: tables change seldom, and a search goes on where the
 * last one was. NULL when there is no memory, or only one of them. */
static uint32_t *deal_wants(const struct vv_fetch *fetch) {
    size_t count = want_count(fetch);
    uint32_t owners = 0, *order = NULL;
    for (uint32_t i = 0; i < count; i++)
        owners = owner_of(fetch, i) >= owners ? owner_of(fetch, i) + 1 : owners;
    if (count < 2)
        return NULL;
    if (owners > 1 && owners <= count) /* else a list of all owners costs more than it gives */
        order = deal(fetch, owners, owner_of, NULL);
    return deal(fetch, fetch->view->record.dependency_count + 1, source_of, order);
}

/* The wants that are still to be looked up. */
struct rest {
    uint32_t *order; /* or NULL: as they were added */
    size_t at, count;
};

static struct rest begin_rest(const struct vv_fetch *fetch) {
    return (struct rest){.order = deal_wants(fetch), .count = want_count(fetch)};
}

/* Pieces for the wants of some sources: of all, unless that would be very many. A block is of one source, so it is read
 * once all the same. */
static int find_some(struct vv_fetch *fetch, struct rest *rest, struct varve_error *error) {
    uint32_t source = 0;
    int rc = 0;
    for (; rest->at < rest->count && rc == 0; rest->at++) {
        size_t index = rest->order ? rest->order[rest->at] : rest->at;
        uint32_t next = want_at(fetch, index)->source;
        if (rest->order && next != source && fetch->pieces.size >= PORTION * sizeof(struct vv_fetch_piece))
            break;
        source = next;
        rc = find_want(fetch, index, error);
    }
    return rc;
}

static int add_range(struct vv_fetch *fetch, const struct vv_run *run, uint64_t delta, uint64_t size, uint8_t *out,
                     struct varve_error *error) {
    const struct vv_place *first = &run->places[0];
    size_t listed = fetch->places.size / sizeof *first;
    struct vv_want want = {.address = first->address + delta,
                           .size = size,
                           .out = out,
                           .tag = fetch->tag,
                           .source = first->dependency,
                           .owner = first->owner,
                           .sharing = (uint8_t)fetch->sharing,
                           .list = VV_NO_LIST,
                           .place_count = (uint8_t)run->place_count};
    if (first->dependency > fetch->view->record.dependency_count)
        return vv_error(error, -EINVAL, "there is no source %u", first->dependency);
    if (run->place_count > 1 || first->copy) {
        if (listed > VV_NO_LIST - VV_PLACES_MAX)
            return vv_error(error, -EOVERFLOW, "too many runs in one batch");
        want.list = (uint32_t)listed;
        vv_buf_append(&fetch->places, run->places, run->place_count * sizeof *first);
    }
    return fetch->places.failed ? vv_error_sys(error, -ENOMEM, "places to fetch from") : add_want(fetch, &want, error);
}

/* Entered inside the piece, its rest comes first; then one whole piece, which is repeated after the batch. */
static int add_repeated(struct vv_fetch *fetch, const struct vv_run *run, uint64_t skip, uint64_t size, uint8_t *out,
                        struct varve_error *error) {
    uint64_t phase = skip % run->piece, piece = run->piece;
    if (phase) {
        uint64_t rest = piece - phase < size ? piece - phase : size;
        int rc = add_range(fetch, run, phase, rest, out, error);
        if (rc < 0)
            return rc;
        out += rest;
        size -= rest;
    }
    if (size == 0)
        return 0;
    if (size > piece) {
        struct repeat repeat = {.out = out, .piece = piece, .size = size, .source = run->places[0].dependency};
        vv_buf_append(&fetch->repeats, &repeat, sizeof repeat);
        if (fetch->repeats.failed)
            return vv_error_sys(error, -ENOMEM, "repeated runs");
    }
    return add_range(fetch, run, 0, size < piece ? size : piece, out, error);
}

int vv_fetch_add(struct vv_fetch *fetch, const struct vv_run *run, uint64_t skip, uint64_t size, void *out,
                 int is_zeroed, struct varve_error *error) {
    if (skip > run->length || size > run->length - skip) {
        return vv_error(error, -EINVAL, "%llu bytes from %llu on are outside a run of %llu", (unsigned long long)size,
                        (unsigned long long)skip, (unsigned long long)run->length);
    }
    if (size == 0)
        return 0;
    switch (run->kind) {
    case VV_RUN_ZERO:
        if (!is_zeroed)
            memset(out, 0, size);
        return 0;
    case VV_RUN_REPEATED:
        return add_repeated(fetch, run, skip, size, out, error);
    case VV_RUN_FROM:
    case VV_RUN_FROM_ANY:
    case VV_RUN_HERE:
        return add_range(fetch, run, skip, size, out, error);
    default:
        return vv_error(error, -EINVAL, "a run of kind %d cannot be fetched", run->kind);
    }
}

void vv_fetch_share(struct vv_fetch *fetch, enum vv_sharing sharing) {
    fetch->sharing = sharing;
}

size_t vv_fetch_pending(const struct vv_fetch *fetch) {
    size_t count = want_count(fetch); /* and a piece of each, as a rule: at once where all are of one source */
    return fetch->places.size + fetch->wants.size + count * (sizeof(uint32_t) + sizeof(struct vv_fetch_piece)) +
           fetch->repeats.size;
}

/* Up to which source are at most `most` of all wants? At least the lowest one that has any. */
static uint32_t source_within(const size_t *wants_of, uint32_t sources, size_t most) {
    uint32_t last = 0;
    size_t sum = 0;
    for (uint32_t i = 0; i < sources; i++) {
        if (sum && sum + wants_of[i] > most)
            break;
        sum += wants_of[i];
        last = i;
    }
    return last;
}

static void drop_above(struct vv_fetch *fetch, uint32_t last) {
    struct repeat *repeats = (struct repeat *)fetch->repeats.data;
    size_t kept = 0, repeated = 0;
    for (size_t i = 0; i < want_count(fetch); i++)
        if (want_at(fetch, i)->source <= last)
            *want_at(fetch, kept++) = *want_at(fetch, i);
    for (size_t i = 0; i < fetch->repeats.size / sizeof *repeats; i++)
        if (repeats[i].source <= last)
            repeats[repeated++] = repeats[i];
    fetch->wants.size = kept * sizeof(struct vv_want);
    fetch->repeats.size = repeated * sizeof *repeats;
}

int vv_fetch_postpone(struct vv_fetch *fetch, uint32_t *last_out, struct varve_error *error) {
    uint32_t sources = fetch->view->record.dependency_count + 1;
    size_t count = want_count(fetch);
    size_t *wants_of = vv_calloc(sources, sizeof *wants_of);
    if (!wants_of)
        return vv_error_sys(error, -ENOMEM, "sources to read from");
    for (size_t i = 0; i < count; i++)
        wants_of[want_at(fetch, i)->source]++;
    *last_out = source_within(wants_of, sources, count / 2);
    vv_free(wants_of);
    drop_above(fetch, *last_out);
    return want_count(fetch) < count;
}

/* Pieces that failed become wants for the next candidate. */
static int retry_failed(struct vv_fetch *fetch, struct varve_error *error) {
    struct vv_buf before = fetch->pieces;
    const struct vv_fetch_piece *pieces = (const struct vv_fetch_piece *)before.data;
    int rc = 0;
    vv_buf_init(&fetch->pieces);
    for (size_t i = 0; i < before.size / sizeof *pieces && rc == 0; i++) {
        if (!pieces[i].has_failed)
            continue;
        struct vv_want want = ((const struct vv_want *)fetch->wants.data)[pieces[i].want];
        want.address += (uint64_t)(pieces[i].out - want.out);
        want.out = pieces[i].out;
        want.size = pieces[i].length;
        want.candidate++;
        size_t index = want_count(fetch);
        rc = add_want(fetch, &want, error);
        rc = rc < 0 ? rc : find_want(fetch, index, error);
    }
    vv_buf_clear(&before);
    return rc;
}

/* Read and place what there are pieces for. */
static int run_pieces(struct vv_fetch *fetch, struct varve_error *error) {
    int rc = 0;
    while (rc == 0 && fetch->pieces.size) {
        fetch->error = (struct varve_error){0};
        rc = vv_fetch_pieces(fetch, error);
        if (rc < 0 || !fetch->error.code)
            break;
        rc = fetch->error.code == VARVE_FORGOTTEN ? vv_error(error, VARVE_FORGOTTEN, "%s", fetch->error.text)
                                                  : retry_failed(fetch, error);
    }
    fetch->pieces.size = 0;
    return rc;
}

/* What is found is also read, or is_found_only. */
static int find_all(struct vv_fetch *fetch, int is_found_only, struct varve_error *error) {
    struct rest rest = begin_rest(fetch);
    int rc = 0;
    while (rc == 0 && rest.at < rest.count) {
        rc = find_some(fetch, &rest, error);
        if (is_found_only)
            fetch->pieces.size = 0;
        else if (rc == 0)
            rc = run_pieces(fetch, error);
    }
    vv_free(rest.order);
    return rc;
}

static void repeat_bytes(const struct repeat *repeat) {
    for (uint64_t done = repeat->piece; done < repeat->size;) {
        uint64_t n = repeat->size - done < done ? repeat->size - done : done;
        memcpy(repeat->out + done, repeat->out, n);
        done += n;
    }
}

/* The next batch may be small: what a large one needed is given back. */
static void forget(struct vv_buf *list) {
    list->size = 0;
    list->failed = 0;
    if (list->capacity > KEEP_CAPACITY)
        vv_buf_clear(list);
}

static void forget_all(struct vv_fetch *fetch) {
    forget(&fetch->places);
    forget(&fetch->wants);
    forget(&fetch->pieces);
    forget(&fetch->repeats);
}

int vv_fetch_run(struct vv_fetch *fetch, struct varve_error *error) {
    int rc = find_all(fetch, 0, error);
    const struct repeat *repeats = (const struct repeat *)fetch->repeats.data;
    for (size_t i = 0; i < fetch->repeats.size / sizeof *repeats && rc == 0; i++)
        repeat_bytes(&repeats[i]);
    forget_all(fetch);
    return rc;
}

int vv_fetch_find(struct vv_fetch *fetch, struct varve_error *error) {
    int rc = find_all(fetch, 1, error);
    forget_all(fetch);
    return rc;
}
