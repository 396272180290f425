/* How a team's writer levels its load with those of the other teams on its node. */
#include "base/alloc.h"
#include "write/team_writer_private.h"

#define WAIT_NS UINT64_C(2000000000)

/* How much all writers of the node have, as soon as that is known. */
static void compare_loads(struct vv_team_writer *writer) {
    struct vv_team *team = writer->team;
    uint64_t *loads = vv_malloc(3 * team->teams * sizeof *loads);
    int is_known = loads != NULL;
    for (uint32_t i = 0; i < team->teams && is_known; i++)
        is_known = vv_post_ask_load(team->post, i, writer->number, &loads[i]);
    if (is_known) {
        uint64_t *gives = loads + team->teams;
        vv_balance(loads, team->teams, team->team, gives, gives + team->teams);
        for (uint32_t i = 0; i < team->teams; i++)
            writer->shares[i] = (struct vv_share){gives[i], 0};
        writer->is_balanced = 1;
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

void vv_writer_tell_nothing(struct vv_team_writer *writer) {
    if (writer->is_load_told)
        return;
    writer->is_load_told = 1;
    vv_post_tell_load(writer->team->post, writer->team->team, writer->number, 0);
    vv_post_ring_all(writer->team->post);
}

int vv_writer_must_wait(struct vv_team_writer *writer) {
    if (writer->team->teams == 1 || writer->is_balanced)
        return 0;
    uint64_t now = vv_clock_ns();
    if (writer->held_until_ns == 0)
        writer->held_until_ns = now + WAIT_NS;
    return now < writer->held_until_ns;
}

void vv_writer_balance(struct vv_team_writer *writer) {
    if (!writer->is_load_told)
        tell_load(writer);
    if (writer->is_load_told && !writer->is_balanced)
        compare_loads(writer);
}

static int is_same_variable(const struct vv_variable *a, const struct vv_variable *b) {
    return a->owner == b->owner && a->region == b->region && a->key == b->key && a->length == b->length;
}

int vv_writer_note_moved(struct vv_team_writer *writer, uint32_t owner, uint64_t address, uint32_t size, uint32_t by) {
    struct vv_moved moved = {.extent = {owner, address, size}, .length = size, .writer = by};
    struct vv_moved *last =
        writer->moved.size ? (struct vv_moved *)(void *)(writer->moved.data + writer->moved.size) - 1 : NULL;
    writer->bytes_moved += size;
    if (last && last->extent.owner == owner && last->writer == by && last->extent.address + last->length == address) {
        last->length += size;
        return 0;
    }
    vv_buf_append(&writer->moved, &moved, sizeof moved);
    return writer->moved.failed;
}

static int send_chunk(struct vv_team_writer *writer, const struct vv_sender *from, uint32_t team,
                      const struct vv_say_chunk *chunk) {
    struct vv_sender *to = &writer->others[team];
    int rc = 0;
    if (!is_same_variable(&to->forwarded, &from->variable)) {
        struct vv_say_variable say = {VV_SAY_VARIABLE, from->variable};
        rc = vv_post_send(&to->out, &say, sizeof say, NULL, 0);
        to->forwarded = from->variable;
    }
    if (rc == 0)
        rc = vv_post_send(&to->out, chunk, sizeof *chunk, chunk + 1, chunk->size);
    writer->shares[team].sent += chunk->size;
    uint32_t by = writer->team->writer - writer->team->team + team;
    return rc ? rc : vv_writer_note_moved(writer, chunk->owner, chunk->address, chunk->size, by);
}

int vv_writer_forward(struct vv_team_writer *writer, struct vv_sender *sender, const struct vv_say_chunk *chunk) {
    if (chunk->owner != sender->rank) /* it came from another node: nothing is moved twice */
        return 0;
    writer->seen += chunk->size;
    if (sender->left < chunk->size) {
        uint32_t count = writer->is_balanced ? writer->team->teams : 0;
        uint32_t target = vv_balance_target(writer->shares, count, writer->seen, writer->load);
        sender->target = target < count ? target : VV_NO_TARGET;
        sender->left = VV_BALANCE_STRETCH;
    }
    sender->left -= chunk->size;
    if (sender->target == VV_NO_TARGET)
        return 0;
    int rc = send_chunk(writer, sender, sender->target, chunk);
    return rc ? rc : 1;
}
