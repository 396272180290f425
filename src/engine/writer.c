/* The writer of a team: a thread in the process of its first rank. What it hears and says is in team.h.
 *
 * One loop: look at every rank's ring and at those of the other writers, take a few messages from each, see whether all have got so far that the next
 * step can be made, and sleep when there was nothing. Ranks take turns in short messages, so that what comes into a block is of all of them. Manifests stand in a
 * pack in the order of the ranks: those of later ranks stay in their rings until it is their turn.
 *
 * After a failure everybody is told at once; what still comes is dropped, until all have said their last word. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "engine/engine_private.h"

#define TURN (64u << 10)     /* bytes taken from a rank before the next one's turn */
#define DECIDE (64u << 10)   /* bytes of a rank that go the same way: kept, or forwarded to the same writer */
#define LOOK_MS 1000
#define NOBODY UINT32_MAX

/* A rank of the team, or another writer of the node who forwards to us. */
struct sender {
    struct vv_way in;
    struct vv_way out;  /* back to it; for writers: what we forward */
    uint32_t rank;      /* of a rank of the team */
    uint32_t local;     /* in whose process it runs */
    int has_begun, has_amount, is_data_over, are_leans_over, is_last;
    uint64_t amount;
    struct vv_variable variable;
    struct vv_buf leans;
    uint64_t left;      /* bytes until it is decided anew where its chunks go */
    uint32_t target;    /* the team they go to; NOBODY: they stay */
    /* of another writer */
    struct vv_variable forwarded; /* the last variable that we told it */
    uint64_t share, sent;         /* bytes that shall be, and were, forwarded to it */
};

struct vv_team_writer {
    struct vv_session *session;
    struct vv_team *team;
    struct vv_pool *pool;
    unsigned threads;
    pthread_t thread;
    struct vv_bell *bell;
    atomic_int is_closing;
    struct vv_known_order *orders;
    struct sender *ranks, *others; /* team->count, and team->teams: ourselves is not used */

    /* the attempt under way */
    uint64_t number;
    struct vv_say_begin begin;
    int is_writing; /* a pack is begun */
    struct vv_writing writing;
    int is_load_told, is_levelled, are_others_told, are_leans_sent;
    uint64_t load, seen; /* bytes expected, and received */
    struct vv_buf moved; /* struct vv_moved */
    uint64_t bytes_moved;
    uint32_t turn;       /* the rank whose manifest is next */
    uint64_t protected_bytes, regions;
    int has_failed;
    struct varve_error error;
};

/* ---- the end of an attempt ---- */

static void tell_result(struct vv_team_writer *writer, const struct varve_stats *stats) {
    struct vv_say_result result = {.kind = VV_SAY_RESULT, .number = writer->number, .error = writer->error};
    for (uint32_t i = 0; i < writer->team->count; i++) {
        if (stats && i == 0)
            result.stats = *stats;
        else
            memset(&result.stats, 0, sizeof result.stats);
        vv_post_send(&writer->ranks[i].out, &result, sizeof result, NULL, 0); /* who has died needs none */
    }
}

static void tell_others(struct vv_team_writer *writer) {
    uint64_t end = VV_SAY_DATA_END;
    for (uint32_t i = 0; i < writer->team->teams && !writer->are_others_told; i++)
        if (i != writer->team->team)
            vv_post_send(&writer->others[i].out, &end, sizeof end, NULL, 0);
    writer->are_others_told = 1;
}

static void end_writing(struct vv_team_writer *writer) {
    if (writer->is_writing)
        vv_writing_end(&writer->writing);
    writer->is_writing = 0;
}

/* The first failure is the one that is told. rank: where it happened. */
static void fail(struct vv_team_writer *writer, int code, const struct varve_error *why, int rank) {
    if (writer->has_failed)
        return;
    writer->has_failed = 1;
    writer->error = *why;
    vv_error_default(&writer->error, code, "the writer of rank %u failed: %s", writer->team->first, varve_error_text(code));
    writer->error.code = code;
    if (writer->error.rank < 0)
        writer->error.rank = rank;
    end_writing(writer);
    tell_result(writer, NULL);
    tell_others(writer);
}

static void fail_here(struct vv_team_writer *writer, int code, const struct varve_error *why) {
    fail(writer, code, why, (int)writer->team->first);
}

static void nonsense(struct vv_team_writer *writer, const struct sender *sender) {
    struct varve_error why = {0};
    vv_error(&why, -EPROTO, "what rank %u passed on makes no sense", sender->rank);
    fail_here(writer, -EPROTO, &why);
}

/* ---- what a rank says ---- */

static void begin_pack(struct vv_team_writer *writer) {
    const struct vv_team *team = writer->team;
    struct varve_error why = {.rank = -1};
    struct vv_writing_plan plan = {
        .attempt = writer->begin.attempt,
        .parent = writer->begin.parent,
        .writer = team->writer,
        .writers = team->writers,
        .first_owner = team->first,
        .owners = team->count,
        .block_size = (uint32_t)writer->begin.block_size,
        .blocks = writer->threads + 2,
        .pool = writer->pool,
        .threads = writer->threads,
        .orders = writer->orders,
    };
    int rc = VV_FAULT("engine.writer.begin");
    if (rc == 0) {
        rc = vv_writing_begin(&writer->writing, writer->session, &plan, &why);
        writer->is_writing = 1;
    }
    if (rc)
        fail_here(writer, rc, &why);
}

static void hear_begin(struct vv_team_writer *writer, struct sender *sender, const struct vv_say_begin *begin) {
    sender->has_begun = 1;
    if (begin->number != writer->number)
        nonsense(writer, sender);
    if (sender != &writer->ranks[0] || writer->has_failed)
        return;
    writer->begin = *begin;
    begin_pack(writer);
}

static int is_of_team(const struct vv_team_writer *writer, const struct sender *sender) {
    return sender >= writer->ranks && sender < writer->ranks + writer->team->count;
}

static int is_valid_chunk(const struct vv_team_writer *writer, const struct sender *sender, const struct vv_say_chunk *chunk,
                          size_t size) {
    return size == sizeof *chunk + chunk->size && chunk->size > 0 && chunk->size <= VV_CHUNK &&
           chunk->address % VV_CHUNK == 0 && chunk->owner == sender->variable.owner &&
           chunk->owner < writer->session->comm->ranks;
}

/* ---- levelling ---- */

/* How much all writers of the node have, as soon as that is known. */
static void level(struct vv_team_writer *writer) {
    struct vv_team *team = writer->team;
    uint64_t *loads = vv_malloc(3 * team->teams * sizeof *loads);
    int is_known = loads != NULL;
    for (uint32_t i = 0; i < team->teams && is_known; i++)
        is_known = vv_post_ask_load(team->post, i, writer->number, &loads[i]);
    if (is_known) {
        uint64_t *shares = loads + team->teams;
        vv_level(loads, team->teams, team->team, shares, shares + team->teams);
        for (uint32_t i = 0; i < team->teams; i++)
            writer->others[i].share = shares[i];
        writer->is_levelled = 1;
    }
    vv_free(loads);
}

static void tell_load(struct vv_team_writer *writer) {
    writer->load = 0;
    for (uint32_t i = 0; i < writer->team->count; i++) {
        if (!writer->ranks[i].has_amount)
            return;
        writer->load += writer->ranks[i].amount;
    }
    writer->is_load_told = 1;
    vv_post_tell_load(writer->team->post, writer->team->team, writer->number, writer->load);
    vv_post_ring_all(writer->team->post);
}

/* Where the next chunks of a rank go: to whom most is missing of what should have been forwarded by now. */
static uint32_t choose_target(const struct vv_team_writer *writer) {
    double done = writer->load > 0 ? (double)writer->seen / (double)writer->load : 1;
    double most = DECIDE / 2.0;
    uint32_t target = NOBODY;
    for (uint32_t i = 0; i < writer->team->teams && writer->is_levelled; i++) {
        const struct sender *other = &writer->others[i];
        double missing = (double)other->share * (done < 1 ? done : 1) + DECIDE - (double)other->sent;
        if (other->sent + DECIDE <= other->share && missing > most) {
            most = missing;
            target = i;
        }
    }
    return target;
}

static int is_same_variable(const struct vv_variable *a, const struct vv_variable *b) {
    return a->owner == b->owner && a->region == b->region && a->key == b->key && a->length == b->length;
}

static int forward(struct vv_team_writer *writer, const struct sender *from, uint32_t target, const struct vv_say_chunk *chunk) {
    struct sender *to = &writer->others[target];
    struct vv_moved moved = {.extent = {chunk->owner, chunk->address, chunk->size},
                             .length = chunk->size,
                             .writer = writer->team->writer - writer->team->team + target};
    int rc = 0;
    if (!is_same_variable(&to->forwarded, &from->variable)) {
        struct vv_say_variable say = {VV_SAY_VARIABLE, from->variable};
        rc = vv_post_send(&to->out, &say, sizeof say, NULL, 0);
        to->forwarded = from->variable;
    }
    if (rc == 0)
        rc = vv_post_send(&to->out, chunk, sizeof *chunk, chunk + 1, chunk->size);
    to->sent += chunk->size;
    writer->bytes_moved += chunk->size;
    vv_buf_append(&writer->moved, &moved, sizeof moved);
    return rc ? rc : writer->moved.failed;
}

/* A rank has passed a chunk on to another node. */
static void hear_moved(struct vv_team_writer *writer, const struct sender *sender, const struct vv_say_moved *said) {
    struct vv_moved moved = {
        .extent = {sender->rank, said->address, said->size}, .length = said->size, .writer = said->writer};
    struct varve_error why = {.rank = -1};
    writer->bytes_moved += said->size;
    vv_buf_append(&writer->moved, &moved, sizeof moved);
    if (writer->moved.failed)
        fail_here(writer, writer->moved.failed, &why);
}

static void hear_chunk(struct vv_team_writer *writer, struct sender *sender, const struct vv_say_chunk *chunk) {
    struct varve_error why = {.rank = -1};
    int is_own = is_of_team(writer, sender) && chunk->owner == sender->rank, rc; /* what was moved here stays */
    if (is_own) {
        writer->seen += chunk->size;
        if (sender->left < chunk->size) {
            sender->target = choose_target(writer);
            sender->left = DECIDE;
        }
        sender->left -= chunk->size;
    }
    if (is_own && sender->target != NOBODY)
        rc = forward(writer, sender, sender->target, chunk);
    else {
        vv_blocks_variable(writer->writing.blocks, &sender->variable);
        rc = vv_blocks_add(writer->writing.blocks, chunk->owner, chunk->address, chunk + 1, chunk->size, chunk->id);
        int finished = rc ? vv_blocks_finish(writer->writing.blocks, &why) : 0;
        if (finished) /* the block that failed knows more */
            rc = finished;
    }
    if (rc)
        fail_here(writer, rc, &why);
}

/* ---- leans and manifests ---- */

static int compare_leans(const void *a, const void *b) {
    return vv_attempt_compare(&((const struct vv_lean *)a)->attempt, &((const struct vv_lean *)b)->attempt);
}

/* The union of what the ranks lean on. */
static int merge_leans(struct vv_team_writer *writer, struct vv_buf *out, struct varve_error *error) {
    for (uint32_t i = 0; i < writer->team->count; i++) {
        struct vv_buf *leans = &writer->ranks[i].leans;
        if (leans->size)
            vv_buf_append(out, leans->data, leans->size);
        vv_buf_clear(leans);
    }
    struct vv_lean *list = (struct vv_lean *)out->data;
    size_t count = out->size / sizeof *list, kept = 0;
    if (out->failed || count == 0)
        return out->failed;
    qsort(list, count, sizeof *list, compare_leans);
    for (size_t i = 0; i < count; i++) {
        int is_new = kept == 0 || compare_leans(&list[kept - 1], &list[i]) != 0;
        if (!is_new && !vv_hash128_equal(list[kept - 1].writers_digest, list[i].writers_digest))
            return vv_error(error, VARVE_DISAGREED, "ranks lean on different writers lists of the same attempt");
        if (is_new)
            list[kept++] = list[i];
    }
    out->size = kept * sizeof *list;
    return 0;
}

static int send_leans(struct vv_team_writer *writer, const struct vv_buf *leans) {
    uint64_t kind = VV_SAY_LEANS, end = VV_SAY_LEANS_END;
    size_t unit = sizeof(struct vv_lean), most = (vv_post_longest(writer->team->post) - sizeof kind) / unit * unit;
    int rc = 0;
    for (uint32_t i = 0; i < writer->team->count && rc == 0; i++) {
        for (size_t at = 0; at < leans->size && rc == 0; at += most)
            rc = vv_post_send(&writer->ranks[i].out, &kind, sizeof kind, leans->data + at,
                              leans->size - at < most ? leans->size - at : most);
        if (rc == 0)
            rc = vv_post_send(&writer->ranks[i].out, &end, sizeof end, NULL, 0);
    }
    return rc;
}

static int compare_moved(const void *a, const void *b) {
    const struct vv_extent *x = &((const struct vv_moved *)a)->extent, *y = &((const struct vv_moved *)b)->extent;
    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int write_moved(struct vv_team_writer *writer, struct varve_error *error) {
    struct vv_moved *list = (struct vv_moved *)writer->moved.data;
    size_t count = writer->moved.size / sizeof *list, kept = 0;
    if (count == 0)
        return 0;
    qsort(list, count, sizeof *list, compare_moved);
    for (size_t i = 0; i < count; i++) {
        struct vv_moved *last = kept ? &list[kept - 1] : NULL;
        if (last && last->extent.owner == list[i].extent.owner && last->writer == list[i].writer &&
            last->extent.address + last->length == list[i].extent.address)
            last->length += list[i].length;
        else
            list[kept++] = list[i];
    }
    return vv_pack_moved(writer->writing.pack, list, kept, error);
}

/* All data is here: blocks and tables are written, and the ranks get the list they need for their manifests. */
static void end_data(struct vv_team_writer *writer) {
    struct varve_error why = {.rank = -1};
    struct vv_buf leans;
    vv_buf_init(&leans);
    int rc = vv_writing_finish(&writer->writing, &why);
    if (rc == 0)
        rc = VV_FAULT("engine.writer.after_data");
    if (rc == 0)
        rc = merge_leans(writer, &leans, &why);
    if (rc == 0)
        rc = vv_pack_leans(writer->writing.pack, (const struct vv_lean *)leans.data,
                           (uint32_t)(leans.size / sizeof(struct vv_lean)), &why);
    if (rc == 0)
        rc = write_moved(writer, &why);
    writer->are_leans_sent = 1;
    if (rc == 0)
        rc = send_leans(writer, &leans);
    vv_buf_clear(&leans);
    if (rc)
        fail_here(writer, rc, &why);
}

static void hear_manifest(struct vv_team_writer *writer, struct sender *sender, uint64_t kind, const uint8_t *message,
                          size_t size) {
    struct vv_pack_writer *pack = writer->writing.pack;
    struct varve_error why = {.rank = -1};
    struct vv_hash128 digest;
    int rc = -EPROTO;
    if (kind == VV_SAY_MANIFEST && size == sizeof(struct vv_say_manifest)) {
        const struct vv_say_manifest *manifest = (const void *)message;
        if (manifest->head.owner == sender->rank)
            rc = vv_pack_manifest_begin(pack, &manifest->head, &why);
    } else if (kind == VV_SAY_BYTES) {
        rc = vv_pack_manifest_add(pack, message + sizeof kind, size - sizeof kind, &why);
    } else if (kind == VV_SAY_MANIFEST_END && size == sizeof(struct vv_say_end)) {
        const struct vv_say_end *end = (const void *)message;
        rc = vv_pack_manifest_end(pack, &digest, &why);
        writer->protected_bytes += end->protected_bytes;
        writer->regions += end->regions;
        writer->writing.looked += end->looked;
        writer->turn++;
    }
    if (rc)
        fail_here(writer, rc, &why);
}

static void seal(struct vv_team_writer *writer) {
    struct varve_error why = {.rank = -1};
    struct varve_stats stats = {.bytes_moved = writer->bytes_moved};
    int rc = VV_FAULT("engine.writer.before_seal");
    if (rc == 0)
        rc = vv_writing_seal(&writer->writing, writer->protected_bytes, writer->regions, &stats, &why);
    if (rc == 0)
        rc = VV_FAULT("engine.writer.after_seal");
    if (rc) {
        fail_here(writer, rc, &why);
        return;
    }
    end_writing(writer);
    writer->error = (struct varve_error){.rank = -1};
    tell_result(writer, &stats);
}

/* ---- the loop ---- */

static int is_manifest(uint64_t kind) {
    return kind == VV_SAY_MANIFEST || kind == VV_SAY_BYTES || kind == VV_SAY_MANIFEST_END;
}

/* Of a rank or another writer, whichever; a message of the wrong kind, size or time is nonsense. */
static void take_data(struct vv_team_writer *writer, struct sender *sender, uint64_t kind, const uint8_t *message, size_t size) {
    int is_open = !sender->is_data_over && !writer->are_leans_sent;
    if (kind == VV_SAY_VARIABLE && size == sizeof(struct vv_say_variable) && is_open)
        sender->variable = ((const struct vv_say_variable *)(const void *)message)->variable;
    else if (kind == VV_SAY_CHUNK && size > sizeof(struct vv_say_chunk) && is_open &&
             is_valid_chunk(writer, sender, (const void *)message, size))
        hear_chunk(writer, sender, (const void *)message);
    else if (kind == VV_SAY_DATA_END && is_open)
        sender->is_data_over = 1;
    else
        nonsense(writer, sender);
}

static void take_rank(struct vv_team_writer *writer, struct sender *sender, uint64_t kind, const uint8_t *message, size_t size) {
    if (kind == VV_SAY_BEGIN && size == sizeof(struct vv_say_begin) && !sender->has_begun) {
        hear_begin(writer, sender, (const void *)message);
    } else if (kind == VV_SAY_AMOUNT && size == sizeof(struct vv_say_amount)) {
        sender->amount = ((const struct vv_say_amount *)(const void *)message)->bytes;
        sender->has_amount = 1;
    } else if (kind == VV_SAY_MOVED && size == sizeof(struct vv_say_moved) && !sender->is_data_over) {
        hear_moved(writer, sender, (const void *)message);
    } else if (kind == VV_SAY_LEANS && sender->is_data_over && !sender->are_leans_over) {
        vv_buf_append(&sender->leans, message + sizeof kind, size - sizeof kind);
    } else if (kind == VV_SAY_LEANS_END && sender->is_data_over) {
        sender->are_leans_over = 1;
    } else if (is_manifest(kind) && writer->are_leans_sent) {
        hear_manifest(writer, sender, kind, message, size);
    } else {
        take_data(writer, sender, kind, message, size);
    }
}

static void take_last_word(struct vv_team_writer *writer, struct sender *sender, uint64_t kind, const uint8_t *message,
                           size_t size) {
    struct varve_error why = {.rank = -1};
    sender->is_last = 1;
    if (kind != VV_SAY_FAILED)
        return;
    if (size == sizeof(struct vv_say_failed))
        why = ((const struct vv_say_failed *)(const void *)message)->error;
    fail(writer, why.code < 0 ? why.code : -ECANCELED, &why, (int)sender->rank);
}

/* One message of a rank. 0: there is none that can be taken now. */
static size_t take_message(struct vv_team_writer *writer, struct sender *sender, int is_rank) {
    uint32_t size;
    uint64_t kind;
    int is_broken = 0;
    const uint8_t *message = vv_ring_peek(sender->in.ring, &size, &is_broken);
    if (!message || size < sizeof kind) {
        if (message || is_broken)
            nonsense(writer, sender);
        return 0;
    }
    memcpy(&kind, message, sizeof kind);
    int is_early = !writer->is_writing && sender != &writer->ranks[0]; /* the first rank says what the pack is like */
    int is_late = is_rank && is_manifest(kind) && sender != &writer->ranks[writer->turn];
    if (!writer->has_failed && (is_early || is_late))
        return 0;
    int is_last = is_rank && (kind == VV_SAY_FAILED || kind == VV_SAY_MANIFEST_END);
    if (writer->has_failed) {
        sender->is_data_over |= !is_rank && kind == VV_SAY_DATA_END;
        sender->has_begun = 1;
    } else if (is_rank && kind != VV_SAY_FAILED)
        take_rank(writer, sender, kind, message, size);
    else if (!is_rank)
        take_data(writer, sender, kind, message, size);
    if (is_last)
        take_last_word(writer, sender, kind, message, size);
    vv_ring_drop(sender->in.ring);
    return size;
}

static int take_turns(struct vv_team_writer *writer) {
    int is_any = 0;
    for (uint32_t i = 0; i < writer->team->count + writer->team->teams; i++) {
        int is_rank = i < writer->team->count;
        struct sender *sender = is_rank ? &writer->ranks[i] : &writer->others[i - writer->team->count];
        if (!is_rank && i - writer->team->count == writer->team->team)
            continue;
        for (size_t taken = 0, size; taken < TURN && !sender->is_last && (is_rank || !sender->is_data_over); taken += size) {
            size = take_message(writer, sender, is_rank);
            if (size == 0)
                break;
            is_any = 1;
        }
    }
    return is_any;
}

static int have_all(const struct vv_team_writer *writer, size_t member) {
    for (uint32_t i = 0; i < writer->team->count; i++)
        if (!*(const int *)((const char *)&writer->ranks[i] + member))
            return 0;
    return 1;
}
#define ALL(writer, what) have_all(writer, offsetof(struct sender, what))

static int are_others_over(const struct vv_team_writer *writer) {
    for (uint32_t i = 0; i < writer->team->teams; i++)
        if (i != writer->team->team && !writer->others[i].is_data_over)
            return 0;
    return 1;
}

/* The next step, if all have got so far. */
static void advance(struct vv_team_writer *writer) {
    if (writer->has_failed)
        return;
    if (!writer->is_load_told)
        tell_load(writer);
    if (writer->is_load_told && !writer->is_levelled)
        level(writer);
    if (!writer->are_others_told && ALL(writer, is_data_over))
        tell_others(writer);
    if (!writer->are_leans_sent && writer->are_others_told && ALL(writer, are_leans_over) && are_others_over(writer))
        end_data(writer);
    if (!writer->has_failed && writer->turn == writer->team->count)
        seal(writer);
}

static int is_over(const struct vv_team_writer *writer) {
    return ALL(writer, is_last) && are_others_over(writer);
}

/* Nothing has come for a while: does everybody live whom we wait for? */
static void look_for_dead(struct vv_team_writer *writer) {
    struct vv_team *team = writer->team;
    for (uint32_t i = 0; i < team->count + team->teams; i++) {
        struct sender *sender = i < team->count ? &writer->ranks[i] : &writer->others[i - team->count];
        if ((i >= team->count && i - team->count == team->team) || vv_post_is_alive(team->post, sender->local))
            continue;
        struct varve_error why = {.rank = -1};
        vv_error(&why, -ECOMM, "the process of rank %u has died", sender->rank);
        sender->is_last = sender->is_data_over = 1;
        fail(writer, -ECOMM, &why, (int)sender->rank);
    }
}

static void begin_attempt(struct vv_team_writer *writer) {
    writer->number++;
    for (uint32_t i = 0; i < writer->team->count + writer->team->teams; i++) {
        struct sender *sender =
            i < writer->team->count ? &writer->ranks[i] : &writer->others[i - writer->team->count];
        struct vv_buf leans = sender->leans;
        leans.size = 0;
        *sender = (struct sender){.in = sender->in, .out = sender->out, .rank = sender->rank, .local = sender->local,
                                  .leans = leans, .target = NOBODY, .forwarded = {.owner = NOBODY}};
    }
    writer->is_load_told = writer->is_levelled = writer->are_others_told = writer->are_leans_sent = 0;
    writer->load = writer->seen = writer->bytes_moved = 0;
    writer->moved.size = 0;
    writer->turn = 0;
    writer->protected_bytes = writer->regions = 0;
    writer->has_failed = 0;
    writer->error = (struct varve_error){.rank = -1};
}

static void *run(void *arg) {
    struct vv_team_writer *writer = arg;
    vv_thread_place(&writer->session->where);
    begin_attempt(writer);
    while (!atomic_load(&writer->is_closing)) {
        uint32_t seen = vv_bell_look(writer->bell);
        int is_any = take_turns(writer);
        advance(writer);
        if (is_over(writer))
            begin_attempt(writer);
        else if (!is_any) {
            vv_bell_wait(writer->bell, seen, LOOK_MS);
            int is_under_way = writer->ranks[0].has_begun || writer->has_failed;
            if (is_under_way && vv_bell_look(writer->bell) == seen)
                look_for_dead(writer);
        }
    }
    return NULL;
}

/* ---- its life ---- */

static void set_up(struct vv_team_writer *writer, uint32_t ranks_here) {
    struct vv_team *team = writer->team;
    for (uint32_t i = 0; i < team->count; i++) {
        struct sender *sender = &writer->ranks[i];
        sender->rank = team->first + i;
        sender->local = team->local_first + i;
        sender->in = vv_post_up(team->post, sender->local, team->team, team->local_first);
        sender->out = vv_post_down(team->post, sender->local);
    }
    for (uint32_t i = 0; i < team->teams; i++) {
        struct sender *sender = &writer->others[i];
        sender->local = vv_team_begin(ranks_here, team->teams, i);
        sender->rank = team->first - team->local_first + sender->local;
        sender->in = vv_post_across(team->post, i, team->team, team->local_first);
        sender->out = vv_post_across(team->post, team->team, i, sender->local);
    }
    writer->bell = writer->ranks[0].in.bell;
}

/* As many threads as its ranks would have had together, within the processors that there are. */
static unsigned threads_of(const struct vv_session *session) {
    struct vv_processors processors;
    vv_processors_look(&processors);
    unsigned own = (unsigned)session->settings.threads, all = own * session->team.count;
    unsigned most = processors.count > own ? (unsigned)processors.count : own;
    return all < most ? all : most;
}

int vv_team_writer_start(struct vv_session *session, struct vv_team_writer **out, struct varve_error *error) {
    struct vv_team_writer *writer = vv_calloc(1, sizeof *writer);
    struct vv_team *team = &session->team;
    int rc = writer ? 0 : -ENOMEM;
    if (rc == 0) {
        writer->session = session;
        writer->team = team;
        writer->threads = threads_of(session);
        writer->ranks = vv_calloc(team->count, sizeof *writer->ranks);
        writer->others = vv_calloc(team->teams, sizeof *writer->others);
        writer->orders = vv_calloc(VV_KNOWN_ORDERS, sizeof *writer->orders);
        rc = writer->ranks && writer->others && writer->orders ? 0 : -ENOMEM;
    }
    if (rc == 0)
        rc = vv_pool_create(writer->threads, writer->threads + 2, &session->where, &writer->pool);
    if (rc == 0) {
        set_up(writer, session->comm->ops->node_size(session->comm, session->comm->node));
        rc = vv_thread_start(&writer->thread, run, writer);
        if (rc)
            vv_pool_destroy(writer->pool);
    }
    if (rc) {
        if (writer) {
            vv_free(writer->ranks);
            vv_free(writer->others);
            vv_free(writer->orders);
        }
        vv_free(writer);
        return vv_error(error, rc, "the thread that writes for several ranks could not be started: %s", varve_error_text(rc));
    }
    *out = writer;
    return 0;
}

void vv_team_writer_stop(struct vv_team_writer *writer) {
    if (!writer)
        return;
    atomic_store(&writer->is_closing, 1);
    vv_bell_ring(writer->bell);
    pthread_join(writer->thread, NULL);
    end_writing(writer);
    for (uint32_t i = 0; i < writer->team->count; i++)
        vv_buf_clear(&writer->ranks[i].leans);
    vv_buf_clear(&writer->moved);
    vv_pool_destroy(writer->pool);
    vv_free(writer->ranks);
    vv_free(writer->others);
    vv_free(writer->orders);
    vv_free(writer);
}
