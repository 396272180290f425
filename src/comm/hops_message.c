/* Messages of hops, little-endian:
 *
 *   0  u32  1: the sender has failed, and nothing follows; else 0
 *   4  u32  count
 *   8  u32  the size of the data of each, or all ones: sizes differ
 *  12  u32  1: the questions have homes that their ids do not tell
 *  16       for each: its id (16 bytes; questions only), its home (4; if they have some), its size (varint; if they
 *           differ), its data.
 *
 * Answers are in the order of the questions they belong to and have no ids. */
#include <errno.h>

#include "base/alloc.h"
#include "comm/hops_private.h"

#define DIFFERENT UINT32_MAX
#define ID 16

struct head {
    uint32_t is_marked, count, size, has_homes;
};

static void put_head(uint8_t *at, const struct head *head) {
    vv_put32(at, head->is_marked);
    vv_put32(at + 4, head->count);
    vv_put32(at + 8, head->size);
    vv_put32(at + 12, head->has_homes);
}

void vv_message_mark(uint8_t head[VV_MESSAGE_HEAD]) {
    put_head(head, &(struct head){.is_marked = 1});
}

static int get_head(const struct vv_hop_lane *lane, struct head *head) {
    if (lane->size < VV_MESSAGE_HEAD)
        return -EPROTO;
    *head = (struct head){vv_get32(lane->message), vv_get32(lane->message + 4), vv_get32(lane->message + 8),
                          vv_get32(lane->message + 12)};
    return head->is_marked > 1 || head->has_homes > 1 ? -EPROTO : 0;
}

static size_t size_bytes(uint32_t size) {
    size_t bytes = 1;
    while (size >>= 7)
        bytes++;
    return bytes;
}

static uint8_t *put_size(uint8_t *at, uint32_t size) {
    for (; size >= 0x80; size >>= 7)
        *at++ = (uint8_t)(size | 0x80);
    *at++ = (uint8_t)size;
    return at;
}

/* NULL: runs past the end, or too large. */
static const uint8_t *get_size(const uint8_t *at, const uint8_t *end, uint32_t *size) {
    if (at < end && *at < 0x80) {
        *size = *at;
        return at + 1;
    }
    struct vv_cursor cursor;
    vv_cursor_init(&cursor, at, (size_t)(end - at));
    uint64_t value = vv_cursor_varint(&cursor);
    *size = (uint32_t)value;
    return cursor.failed || value >= DIFFERENT ? NULL : cursor.at;
}

/* Most are a few words, for which a call of memcpy is dear. */
static void copy(uint8_t *to, const uint8_t *from, uint32_t size) {
    if (size > 64) {
        memcpy(to, from, size);
        return;
    }
    for (; size >= 8; size -= 8, to += 8, from += 8)
        memcpy(to, from, 8);
    while (size-- > 0)
        *to++ = *from++;
}

static uint8_t *put_data(uint8_t *at, const void *data, uint32_t size, const struct head *head) {
    if (head->size == DIFFERENT)
        at = put_size(at, size);
    copy(at, data, size);
    return at + size;
}

static const uint8_t *get_data(const uint8_t *at, const uint8_t *end, const struct head *head, const void **data,
                               uint32_t *size) {
    *size = head->size;
    if (head->size == DIFFERENT)
        at = get_size(at, end, size);
    if (!at || *size > (size_t)(end - at))
        return NULL;
    *data = at;
    return at + *size;
}

/* The lanes' messages lie in one box. Counts of the lanes, and sizes behind the heads, are known. */
static int make_box(struct vv_hop_lane *lanes, size_t lane_count, struct head *head, uint8_t **box) {
    size_t total = 0;
    for (size_t i = 0; i < lane_count; i++)
        total += lanes[i].size += VV_MESSAGE_HEAD;
    uint8_t *at = *box = vv_malloc(total ? total : 1);
    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < lane_count; at += lanes[i++].size) {
        head->count = lanes[i].count;
        put_head(at, head);
        lanes[i].message = at;
        lanes[i].at = at + VV_MESSAGE_HEAD;
    }
    return 0;
}

/* ---- questions ---- */

static struct head head_of_questions(const struct vv_question *questions, size_t count) {
    struct head head = {.size = count ? questions->size : 0};
    for (size_t i = 0; i < count; i++) {
        head.has_homes |= questions[i].home != VV_HOME_BY_ID;
        if (questions[i].size != head.size)
            head.size = DIFFERENT;
    }
    return head;
}

static void count_lanes(const struct vv_question *questions, size_t count, const uint32_t *next,
                        struct vv_hop_lane *lanes, size_t lane_count, const struct head *head) {
    size_t each = ID + (head->has_homes ? 4 : 0) + (head->size == DIFFERENT ? 0 : head->size);
    uint32_t first = 0;
    for (size_t i = 0; i < lane_count; i++)
        lanes[i].count = 0, lanes[i].size = 0;
    for (size_t i = 0; i < count; i++) {
        lanes[next[i]].count++;
        if (head->size == DIFFERENT)
            lanes[next[i]].size += size_bytes(questions[i].size) + questions[i].size;
    }
    for (size_t i = 0; i < lane_count; first += lanes[i++].count) {
        lanes[i].first = first;
        lanes[i].size += lanes[i].count * each;
    }
}

int vv_message_ask(const struct vv_question *questions, size_t count, const uint32_t *next, struct vv_hop_lane *lanes,
                   size_t lane_count, uint32_t *order, uint8_t **box) {
    struct head head = head_of_questions(questions, count);
    count_lanes(questions, count, next, lanes, lane_count, &head);
    int rc = make_box(lanes, lane_count, &head, box);
    if (rc)
        return rc;
    for (size_t i = 0; i < lane_count; i++)
        lanes[i].count = 0;
    for (size_t i = 0; i < count; i++) {
        struct vv_hop_lane *lane = &lanes[next[i]];
        uint8_t *at = lane->at;
        order[lane->first + lane->count++] = (uint32_t)i;
        vv_put64(at, questions[i].id.low);
        vv_put64(at + 8, questions[i].id.high);
        at += ID;
        if (head.has_homes) {
            vv_put32(at, questions[i].home);
            at += 4;
        }
        lane->at = put_data(at, questions[i].data, questions[i].size, &head);
    }
    return 0;
}

int vv_message_count(const struct vv_hop_lane *lane, uint32_t *count, int *is_marked) {
    struct head head;
    int rc = get_head(lane, &head);
    if (rc)
        return rc;
    *count = head.count;
    *is_marked = (int)head.is_marked;
    return head.count > lane->size / ID || (head.is_marked && head.count) ? -EPROTO : 0;
}

int vv_message_questions(const struct vv_hop_lane *lane, struct vv_question *out) {
    const uint8_t *at = lane->message + VV_MESSAGE_HEAD, *end = lane->message + lane->size;
    struct head head;
    int rc = get_head(lane, &head);
    if (rc)
        return rc;
    size_t fixed = ID + (head.has_homes ? 4 : 0);
    for (uint32_t i = 0; i < head.count; i++) {
        if (fixed > (size_t)(end - at))
            return -EPROTO;
        out[i].id = (struct vv_hash128){vv_get64(at), vv_get64(at + 8)};
        out[i].home = head.has_homes ? vv_get32(at + ID) : VV_HOME_BY_ID;
        at = get_data(at + fixed, end, &head, &out[i].data, &out[i].size);
        if (!at)
            return -EPROTO;
    }
    return at == end ? 0 : -EPROTO;
}

/* ---- answers ---- */

static struct head head_of_answers(const struct vv_answer *answers, size_t count) {
    struct head head = {.size = count ? answers->size : 0};
    for (size_t i = 1; i < count && head.size != DIFFERENT; i++)
        if (answers[i].size != head.size)
            head.size = DIFFERENT;
    return head;
}

static void size_lane(struct vv_hop_lane *lane, const struct vv_answer *answers, const uint32_t *met,
                      const struct head *head) {
    lane->size = 0;
    if (head->size != DIFFERENT)
        lane->size = (size_t)lane->count * head->size;
    else
        for (uint32_t i = 0; i < lane->count; i++) {
            uint32_t size = answers[met[lane->first + i]].size;
            lane->size += size_bytes(size) + size;
        }
}

int vv_message_answer(const struct vv_answer *answers, size_t count, const uint32_t *met, struct vv_hop_lane *lanes,
                      size_t lane_count, uint8_t **box) {
    struct head head = head_of_answers(answers, count);
    for (size_t i = 0; i < lane_count; i++)
        size_lane(&lanes[i], answers, met, &head);
    int rc = make_box(lanes, lane_count, &head, box);
    for (size_t i = 0; i < lane_count && rc == 0; i++) {
        uint8_t *at = lanes[i].at;
        for (uint32_t k = 0; k < lanes[i].count; k++) {
            const struct vv_answer *answer = &answers[met[lanes[i].first + k]];
            at = put_data(at, answer->data, answer->size, &head);
        }
    }
    return rc;
}

int vv_message_answers(const struct vv_hop_lane *lane, const uint32_t *order, struct vv_answer *answers,
                       int *is_marked) {
    const uint8_t *at = lane->message + VV_MESSAGE_HEAD, *end = lane->message + lane->size;
    struct head head;
    int rc = get_head(lane, &head);
    if (rc == 0 && head.is_marked) {
        *is_marked = 1;
        return 0;
    }
    if (rc || head.count != lane->count)
        return -EPROTO;
    for (uint32_t i = 0; i < head.count; i++) {
        const void *data = NULL;
        struct vv_answer *answer = &answers[order[lane->first + i]];
        at = get_data(at, end, &head, &data, &answer->size);
        if (!at)
            return -EPROTO;
        answer->data = data;
    }
    return at == end ? 0 : -EPROTO;
}
