/* The order of chunks in a block: sorted by owner and address; or that, dealt out in turns. */
#include "encode/interleave.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* An owner's chunks that have not had their turn. */
struct hand {
    const struct vv_order_piece *next, *end;
    uint32_t given; /* bytes of the next one */
};

size_t vv_order_capacity(const struct vv_order_piece *in, size_t count, uint32_t step) {
    size_t capacity = count;
    /* A chunk that is cut may begin in the middle of a turn: one piece more. */
    for (size_t i = 0; i < count && step > 0; i++)
        if (in[i].size > step)
            capacity += (in[i].size - 1) / step + 1;
    return capacity;
}

static int is_before(const struct vv_order_piece *a, const struct vv_order_piece *b) {
    return a->owner != b->owner ? a->owner < b->owner : a->address < b->address;
}

static int compare_parts(const void *a, const void *b) {
    return is_before(a, b) ? -1 : is_before(b, a);
}

/* Chunks of one rank come in their order: mostly there is nothing to sort. */
static void sort(const struct vv_order_piece *in, size_t count, struct vv_order_piece *out) {
    int is_sorted = 1;
    memcpy(out, in, count * sizeof *out);
    for (size_t i = 1; i < count && is_sorted; i++)
        is_sorted = is_before(&in[i - 1], &in[i]);
    if (!is_sorted)
        qsort(out, count, sizeof *out, compare_parts);
}

/* One hand for each owner. How many. */
static size_t take_hands(const struct vv_order_piece *sorted, size_t count, struct hand *hands) {
    size_t owners = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || sorted[i].owner != sorted[i - 1].owner)
            hands[owners++] = (struct hand){.next = &sorted[i]};
        hands[owners - 1].end = &sorted[i + 1];
    }
    return owners;
}

/* Does something of the hand's next chunk follow `last`, the last piece of this turn, or NULL? How much. */
static int follows(const struct hand *hand, const struct vv_order_piece *last, uint32_t left, uint32_t step,
                   uint32_t *size_out) {
    if (hand->next == hand->end || left == 0)
        return 0;
    if (last && last->address + last->size != hand->next->address + hand->given)
        return 0;
    uint32_t rest = hand->next->size - hand->given;
    *size_out = rest < left ? rest : left;
    return rest <= left || hand->next->size > step;
}

static size_t give_turn(struct hand *hand, uint32_t step, struct vv_order_piece *out) {
    uint32_t left = step, size;
    size_t given = 0;
    while (follows(hand, given ? &out[given - 1] : NULL, left, step, &size)) {
        struct vv_order_piece *piece = &out[given++];
        *piece = *hand->next;
        piece->at += hand->given;
        piece->address += hand->given;
        piece->size = size;
        left -= size;
        hand->given += size;
        if (hand->given == hand->next->size) {
            hand->next++;
            hand->given = 0;
        }
    }
    return given;
}

static size_t deal(struct hand *hands, size_t owners, uint32_t step, struct vv_order_piece *out) {
    size_t given = 0;
    while (owners > 0) {
        size_t stay = 0;
        for (size_t i = 0; i < owners; i++) {
            given += give_turn(&hands[i], step, out + given);
            if (hands[i].next < hands[i].end)
                hands[stay++] = hands[i];
        }
        owners = stay;
    }
    return given;
}

size_t vv_order_make(const struct vv_order_piece *in, size_t count, uint32_t step, struct vv_order_piece *out) {
    if (count == 0)
        return 0;
    if (step == 0) {
        sort(in, count, out);
        return count;
    }
    struct vv_order_piece *sorted = vv_malloc(count * sizeof *sorted);
    struct hand *hands = vv_malloc(count * sizeof *hands);
    size_t given = 0;
    if (sorted && hands) {
        sort(in, count, sorted);
        given = deal(hands, take_hands(sorted, count, hands), step, out);
    }
    vv_free(hands);
    vv_free(sorted);
    return given;
}

int vv_order_is_whole(size_t in_count, size_t out_count) {
    return in_count == out_count;
}
