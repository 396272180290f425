/* The writer of a team: a thread in the process of its first rank. What it hears and says is in team.h.
 *
 * One loop: look at every rank's ring and at those of the other writers, take a few messages from each, see whether all
 * have got so far that the next step can be made, and sleep when there was nothing. Ranks take turns in short messages,
 * so that what comes into a block is of all of them. Manifests stand in a pack in the order of the ranks: those of
 * later ranks stay in their rings until it is their turn.
 *
 * After a failure everybody is told at once; what still comes is dropped, until all have said their last word. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "write/team_writer_private.h"

/* Bytes taken from a rank before the next one's turn: what lies together in its memory should come together, unless
 * ranks are to take turns in blocks. */
#define TURN (4u << 20)
#define TURN_SHORT (64u << 10)
#define LOOK_MS 1000

/* ---- the end of an attempt ---- */

static void tell_result(struct vv_team_writer *writer, const struct vv_details *stats) {
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

static void fail_of(struct vv_team_writer *writer, int code, const struct varve_error *why, int rank) {
    if (writer->has_failed)
        return;
    writer->has_failed = 1;
    writer->error = *why;
    vv_error_default(&writer->error, code, "the writer of rank %u failed: %s", writer->team->first,
                     varve_error_text(code));
    writer->error.code = code;
    if (writer->error.rank < 0)
        writer->error.rank = rank;
    vv_writer_end_pack(writer);
    vv_writer_tell_nothing(writer);
    tell_result(writer, NULL);
    tell_others(writer);
}

void vv_writer_fail(struct vv_team_writer *writer, int code, const struct varve_error *why) {
    fail_of(writer, code, why, (int)writer->team->first);
}

static void nonsense_message(struct vv_team_writer *writer, const struct vv_sender *sender) {
    struct varve_error why = {0};
    vv_error(&why, -EPROTO, "what rank %u passed on makes no sense", sender->rank);
    vv_writer_fail(writer, -EPROTO, &why);
}

/* ---- what a rank says ---- */

static void hear_begin(struct vv_team_writer *writer, struct vv_sender *sender, const struct vv_say_begin *begin) {
    sender->has_begun = 1;
    if (begin->number != writer->number)
        nonsense_message(writer, sender);
    if (sender != &writer->ranks[0] || writer->has_failed)
        return;
    writer->begin = *begin;
    vv_writer_begin_pack(writer);
}

static int is_of_team(const struct vv_team_writer *writer, const struct vv_sender *sender) {
    return sender >= writer->ranks && sender < writer->ranks + writer->team->count;
}

static int is_valid_chunk(const struct vv_team_writer *writer, const struct vv_sender *sender,
                          const struct vv_say_chunk *chunk, size_t size) {
    return size == sizeof *chunk + chunk->size && vv_is_chunk(chunk->address, chunk->size, chunk->id) &&
           chunk->owner == sender->variable.owner && chunk->owner < writer->outputs->job->comm->ranks;
}

static void hear_chunk(struct vv_team_writer *writer, struct vv_sender *sender, const struct vv_say_chunk *chunk) {
    struct varve_error why = {.rank = -1};
    int forwarded = is_of_team(writer, sender) ? vv_writer_forward(writer, sender, chunk) : 0;
    if (forwarded < 0)
        vv_writer_fail(writer, forwarded, &why);
    else if (!forwarded)
        vv_writer_store(writer, sender, chunk);
}

static void hear_moved(struct vv_team_writer *writer, const struct vv_sender *sender, const struct vv_say_moved *said) {
    struct varve_error why = {.rank = -1};
    int rc = vv_writer_note_moved(writer, sender->rank, said->address, said->size, said->writer);
    if (rc)
        vv_writer_fail(writer, rc, &why);
}

/* ---- the loop ---- */

static int is_manifest(uint64_t kind) {
    return kind == VV_SAY_MANIFEST || kind == VV_SAY_BYTES || kind == VV_SAY_MANIFEST_END;
}

/* Of a rank or another writer, whichever; a message of the wrong kind, size or time is nonsense. */
static void take_data(struct vv_team_writer *writer, struct vv_sender *sender, uint64_t kind, const uint8_t *message,
                      size_t size) {
    int is_open = !sender->is_data_over && !writer->are_dependencies_sent;
    if (kind == VV_SAY_VARIABLE && size == sizeof(struct vv_say_variable) && is_open)
        sender->variable = ((const struct vv_say_variable *)(const void *)message)->variable;
    else if (kind == VV_SAY_CHUNK && size > sizeof(struct vv_say_chunk) && is_open &&
             is_valid_chunk(writer, sender, (const void *)message, size))
        hear_chunk(writer, sender, (const void *)message);
    else if (kind == VV_SAY_DATA_END && is_open)
        sender->is_data_over = 1;
    else
        nonsense_message(writer, sender);
}

static void hear_dependencies(struct vv_team_writer *writer, struct vv_sender *sender, const void *data, size_t size) {
    struct varve_error why = {.rank = -1};
    if (size % sizeof(struct vv_dependency) != 0) {
        nonsense_message(writer, sender);
        return;
    }
    vv_buf_append(&sender->dependencies, data, size);
    if (sender->dependencies.failed)
        vv_writer_fail(writer, sender->dependencies.failed, &why);
}

static void take_rank(struct vv_team_writer *writer, struct vv_sender *sender, uint64_t kind, const uint8_t *message,
                      size_t size) {
    if (kind == VV_SAY_BEGIN && size == sizeof(struct vv_say_begin) && !sender->has_begun) {
        hear_begin(writer, sender, (const void *)message);
    } else if (kind == VV_SAY_AMOUNT && size == sizeof(struct vv_say_amount)) {
        sender->amount = ((const struct vv_say_amount *)(const void *)message)->bytes;
        sender->has_amount = 1;
    } else if (kind == VV_SAY_MOVED && size == sizeof(struct vv_say_moved) && !sender->is_data_over) {
        hear_moved(writer, sender, (const void *)message);
    } else if (kind == VV_SAY_DEPENDENCIES && sender->is_data_over && !sender->are_dependencies_over) {
        hear_dependencies(writer, sender, message + sizeof kind, size - sizeof kind);
    } else if (kind == VV_SAY_DEPENDENCIES_END && sender->is_data_over) {
        sender->are_dependencies_over = 1;
    } else if (is_manifest(kind) && writer->are_dependencies_sent) {
        vv_writer_manifest(writer, sender, kind, message, size);
    } else {
        take_data(writer, sender, kind, message, size);
    }
}

static void take_last_word(struct vv_team_writer *writer, struct vv_sender *sender, uint64_t kind,
                           const uint8_t *message, size_t size) {
    struct varve_error why = {.rank = -1};
    sender->is_last = 1;
    if (kind != VV_SAY_FAILED)
        return;
    if (size == sizeof(struct vv_say_failed))
        why = ((const struct vv_say_failed *)(const void *)message)->error;
    fail_of(writer, why.code < 0 ? why.code : -ECANCELED, &why, (int)sender->rank);
}

/* One message of a rank. 0: there is none that can be taken now. */
static size_t take_message(struct vv_team_writer *writer, struct vv_sender *sender, int is_rank) {
    uint32_t size;
    uint64_t kind;
    int is_broken = 0;
    const uint8_t *message = vv_ring_peek(sender->in.ring, &size, &is_broken);
    if (!message || size < sizeof kind) {
        if (message || is_broken)
            nonsense_message(writer, sender);
        return 0;
    }
    memcpy(&kind, message, sizeof kind);
    int is_early = !writer->is_writing && sender != &writer->ranks[0]; /* the first rank says what the pack is like */
    int is_late = is_rank && is_manifest(kind) && sender != &writer->ranks[writer->turn];
    int is_held = is_rank && kind == VV_SAY_CHUNK && sender->has_amount && vv_writer_must_wait(writer);
    if (!writer->has_failed && (is_early || is_late || is_held))
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
    int is_any = 0, grouping = writer->outputs->job->settings.grouping;
    int is_short = grouping == VV_CHOOSE_GROUPING_AGNOSTIC_BLOCK || grouping == VV_CHOOSE_GROUPING_AWARE_BLOCK;
    size_t most = is_short ? TURN_SHORT : TURN;
    for (uint32_t i = 0; i < writer->team->count + writer->team->teams; i++) {
        int is_rank = i < writer->team->count;
        struct vv_sender *sender = is_rank ? &writer->ranks[i] : &writer->others[i - writer->team->count];
        if (!is_rank && i - writer->team->count == writer->team->team)
            continue;
        for (size_t taken = 0, size; taken < most && !sender->is_last && (is_rank || !sender->is_data_over);
             taken += size) {
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
#define ALL(writer, what) have_all(writer, offsetof(struct vv_sender, what))

static int are_others_over(const struct vv_team_writer *writer) {
    for (uint32_t i = 0; i < writer->team->teams; i++)
        if (i != writer->team->team && !writer->others[i].is_data_over)
            return 0;
    return 1;
}

static void seal(struct vv_team_writer *writer) {
    struct vv_details stats = {.bytes_moved = writer->bytes_moved};
    if (vv_writer_seal(writer, &stats))
        tell_result(writer, &stats);
}

/* The next step, if all have got so far. */
static void advance(struct vv_team_writer *writer) {
    if (writer->has_failed)
        return;
    vv_writer_balance(writer);
    if (!writer->are_others_told && ALL(writer, is_data_over))
        tell_others(writer);
    if (!writer->are_dependencies_sent && writer->are_others_told && ALL(writer, are_dependencies_over) &&
        are_others_over(writer))
        vv_writer_end_data(writer);
    if (!writer->has_failed && writer->turn == writer->team->count)
        seal(writer);
}

/* Nothing has come for a while: does everybody live whom we wait for? */
static void look_for_dead(struct vv_team_writer *writer) {
    struct vv_team *team = writer->team;
    for (uint32_t i = 0; i < team->count + team->teams; i++) {
        struct vv_sender *sender = i < team->count ? &writer->ranks[i] : &writer->others[i - team->count];
        if ((i >= team->count && i - team->count == team->team) || vv_post_is_alive(team->post, sender->local))
            continue;
        struct varve_error why = {.rank = -1};
        vv_error(&why, -ECOMM, "the process of rank %u has died", sender->rank);
        sender->is_last = sender->is_data_over = 1;
        fail_of(writer, -ECOMM, &why, (int)sender->rank);
    }
}

static void begin_attempt(struct vv_team_writer *writer) {
    writer->number++;
    for (uint32_t i = 0; i < writer->team->count + writer->team->teams; i++) {
        struct vv_sender *sender =
            i < writer->team->count ? &writer->ranks[i] : &writer->others[i - writer->team->count];
        vv_buf_clear(&sender->dependencies);
        *sender = (struct vv_sender){.in = sender->in,
                                     .out = sender->out,
                                     .rank = sender->rank,
                                     .local = sender->local,
                                     .target = VV_NO_TARGET,
                                     .forwarded = {.owner = VV_NO_TARGET}};
    }
    writer->is_load_told = writer->is_balanced = writer->are_others_told = writer->are_dependencies_sent = 0;
    writer->load = writer->seen = writer->bytes_moved = writer->held_until_ns = 0;
    vv_buf_clear(&writer->moved);
    writer->turn = 0;
    writer->protected_bytes = writer->regions = 0;
    writer->has_failed = 0;
    writer->error = (struct varve_error){.rank = -1};
}

static void *run_writer(void *arg) {
    struct vv_team_writer *writer = arg;
    vv_thread_place(&writer->outputs->where);
    begin_attempt(writer);
    while (!atomic_load(&writer->is_closing)) {
        uint32_t seen = vv_doorbell_look(writer->bell);
        int is_any = take_turns(writer);
        advance(writer);
        if (ALL(writer, is_last) && are_others_over(writer))
            begin_attempt(writer);
        else if (!is_any) {
            vv_doorbell_wait(writer->bell, seen, LOOK_MS);
            int is_under_way = writer->ranks[0].has_begun || writer->has_failed;
            if (is_under_way && vv_doorbell_look(writer->bell) == seen)
                look_for_dead(writer);
        }
    }
    return NULL;
}

/* ---- its life ---- */

static void set_up(struct vv_team_writer *writer, uint32_t ranks_here) {
    struct vv_team *team = writer->team;
    for (uint32_t i = 0; i < team->count; i++) {
        struct vv_sender *sender = &writer->ranks[i];
        sender->rank = team->first + i;
        sender->local = team->local_first + i;
        sender->in = vv_post_up(team->post, sender->local, team->team, team->local_first);
        sender->out = vv_post_down(team->post, sender->local);
    }
    for (uint32_t i = 0; i < team->teams; i++) {
        struct vv_sender *sender = &writer->others[i];
        sender->local = vv_team_begin(ranks_here, team->teams, i);
        sender->rank = team->first - team->local_first + sender->local;
        sender->in = vv_post_across(team->post, i, team->team, team->local_first);
        sender->out = vv_post_across(team->post, team->team, i, sender->local);
    }
    writer->bell = writer->ranks[0].in.bell;
}

/* As many threads as its ranks would have had together, within the processors that there are. */
static unsigned threads_of(const struct vv_outputs *outputs) {
    struct vv_processors processors;
    vv_processors_look(&processors);
    unsigned own = (unsigned)outputs->job->settings.threads, all = own * outputs->team.count;
    unsigned most = processors.count > own ? (unsigned)processors.count : own;
    return all < most ? all : most;
}

static void free_writer(struct vv_team_writer *writer) {
    if (!writer)
        return;
    vv_free(writer->ranks);
    vv_free(writer->others);
    vv_free(writer->shares);
    vv_free(writer->orders);
    vv_free(writer);
}

int vv_team_writer_start(struct vv_outputs *outputs, struct vv_team_writer **out, struct varve_error *error) {
    struct vv_team_writer *writer = vv_calloc(1, sizeof *writer);
    struct vv_team *team = &outputs->team;
    int rc = writer ? 0 : -ENOMEM;
    if (rc == 0) {
        writer->outputs = outputs;
        writer->team = team;
        writer->threads = threads_of(outputs);
        writer->ranks = vv_calloc(team->count, sizeof *writer->ranks);
        writer->others = vv_calloc(team->teams, sizeof *writer->others);
        writer->shares = vv_calloc(team->teams, sizeof *writer->shares);
        writer->orders = vv_calloc(VV_KNOWN_ORDERS, sizeof *writer->orders);
        rc = writer->ranks && writer->others && writer->shares && writer->orders ? 0 : -ENOMEM;
    }
    if (rc == 0)
        rc = vv_pool_create(writer->threads, writer->threads + 2, &outputs->where, &writer->pool);
    if (rc == 0) {
        set_up(writer, outputs->job->comm->ops->node_size(outputs->job->comm, outputs->job->comm->node));
        rc = vv_thread_start(&writer->thread, run_writer, writer);
        if (rc)
            vv_pool_destroy(writer->pool);
    }
    if (rc) {
        free_writer(writer);
        return vv_error(error, rc, "the thread that writes for several ranks could not be started: %s",
                        varve_error_text(rc));
    }
    *out = writer;
    return 0;
}

void vv_team_writer_stop(struct vv_team_writer *writer) {
    if (!writer)
        return;
    atomic_store(&writer->is_closing, 1);
    vv_doorbell_ring(writer->bell);
    pthread_join(writer->thread, NULL);
    vv_writer_end_pack(writer);
    for (uint32_t i = 0; i < writer->team->count; i++)
        vv_buf_clear(&writer->ranks[i].dependencies);
    vv_buf_clear(&writer->moved);
    vv_pool_destroy(writer->pool);
    free_writer(writer);
}
