/* Asking for parts of blocks: one question per block to the rank that decodes it for all, or more where the answer
 * would be too long. What this rank decodes for all, it takes from there, too. */
#include <errno.h>
#include <string.h>

#include "peers/peers_private.h"

/* Where we are in the parts of a wish. */
struct at {
    size_t part;
    uint32_t skip; /* bytes of it that are behind us */
};

/* ---- questions ---- */

/* Parts from `at` on, as many as one question may ask for, and where it ended: each as the step from the end of the one
 * before, and its length. Those that touch are one. */
static uint32_t add_parts(struct vv_buf *buf, const struct vv_block_wish *wish, struct at *at) {
    uint32_t total = 0, end = 0, from = 0, to = 0, written = 0;
    while (at->part < wish->count && total < VV_QUESTION) {
        const struct vv_block_part *part = &wish->parts[at->part];
        uint32_t left = part->length - at->skip, capacity = VV_QUESTION - total,
                 size = left < capacity ? left : capacity;
        uint32_t raw = part->raw + at->skip;
        if (to > from && raw != to) {
            if (written + 1 == VV_PARTS_MOST)
                break;
            vv_buf_svarint(buf, (int64_t)from - (int64_t)end);
            vv_buf_varint(buf, to - from);
            written++;
            end = to;
            from = to = 0;
        }
        if (to == from)
            from = to = raw;
        to += size;
        total += size;
        at->skip = size < left ? at->skip + size : 0;
        at->part += size == left;
    }
    vv_buf_svarint(buf, (int64_t)from - (int64_t)end);
    vv_buf_varint(buf, to - from);
    return total;
}

static void add_question(struct vv_buf *questions, struct vv_buf *list, const char *key, uint32_t home,
                         const struct vv_block_wish *wish, struct at *at) {
    struct vv_asking asking = {.home = home, .at = questions->size, .wish = wish, .part = at->part, .skip = at->skip};
    vv_peers_begin_question(questions, VV_ASKED_PARTS, key, wish->block->offset);
    vv_block_encode(questions, wish->block);
    asking.capacity = add_parts(questions, wish, at);
    if (!questions->failed)
        vv_put32(questions->data + asking.at + 4, asking.capacity);
    asking.size = (uint32_t)(questions->size - asking.at);
    vv_buf_append(list, &asking, sizeof asking);
}

static void ask_wish(struct vv_buf *questions, struct vv_buf *list, const char *key, uint32_t home,
                     const struct vv_block_wish *wish) {
    struct at at = {0};
    while (at.part < wish->count && !questions->failed && !list->failed)
        add_question(questions, list, key, home, wish, &at);
}

/* ---- answers ---- */

void vv_parts_place(const struct vv_asking *asking, const uint8_t *data, uint32_t size) {
    const struct vv_block_part *part = &asking->wish->parts[asking->part];
    for (uint32_t skip = asking->skip; size > 0; part++, skip = 0) {
        uint32_t n = part->length - skip < size ? part->length - skip : size;
        memcpy(part->out + skip, data, n);
        data += n;
        size -= n;
    }
}

static int take_here(struct vv_peers *peers, const char *key, const struct vv_block_wish *wish) {
    struct vv_whole *whole;
    int rc = vv_block_cache_acquire(peers->wholes, key, wish->block, &whole);
    for (size_t i = 0; i < wish->count && rc == 0; i++)
        memcpy(wish->parts[i].out, whole->data + wish->parts[i].raw, wish->parts[i].length);
    vv_block_cache_release(peers->wholes, whole);
    return rc;
}

/* ---- the operations ---- */

static int is_shared(void *arg, const struct vv_attempt *attempt, uint32_t writer) {
    const struct vv_peers *peers = arg;
    return peers->mode == VV_PEERS_SHARED && peers->is_running &&
           (vv_peers_span(peers, attempt) > 1 || writer % peers->comm->ranks != peers->comm->rank);
}

/* The questions are on their way while this rank looks at what it has to decode itself. */
static void get_parts(void *arg, const char *text, struct vv_block_wish *wishes, size_t count) {
    struct vv_peers *peers = arg;
    struct vv_buf questions, list;
    struct vv_key key;
    if (!peers->is_running || vv_key_parse(text, &key) < 0)
        return;
    vv_buf_init(&questions);
    vv_buf_init(&list);
    for (size_t i = 0; i < count; i++) {
        uint32_t home = vv_peers_home(peers, &key, wishes[i].block->offset);
        wishes[i].result = home == peers->comm->rank;
        if (!wishes[i].result)
            ask_wish(&questions, &list, text, home, &wishes[i]);
    }
    struct vv_asking *asked = (struct vv_asking *)list.data;
    size_t asked_count = list.size / sizeof *asked;
    int rc = questions.failed || list.failed ? -ENOMEM : vv_peers_put(peers, asked, asked_count, &questions);
    for (size_t i = 0; i < count; i++)
        wishes[i].result = wishes[i].result ? take_here(peers, text, &wishes[i]) : rc;
    if (rc == 0)
        vv_peers_wait(peers, asked, asked_count);
    for (size_t i = 0; i < asked_count && rc == 0; i++)
        if (asked[i].result < 0)
            wishes[asked[i].wish - wishes].result = (int)asked[i].result;
    vv_buf_clear(&questions);
    vv_buf_clear(&list);
}

const struct vv_parts_ops vv_peers_parts_ops = {.is_shared = is_shared, .get = get_parts};
