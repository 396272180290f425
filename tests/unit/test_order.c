/* The order of chunks in a block: what holds for any chunks and any step, and a few cases by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "encode/interleave.h"
#include "test.h"

#define CHUNK 4096u
#define MOST 600
#define ROUNDS 3000
#define OWNERS 128u

static uint64_t state = 1;

static uint32_t below(uint32_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % limit;
}

struct case_of {
    struct vv_order_piece in[MOST];
    size_t count;
    uint32_t bytes;
};

static void add(struct case_of *c, uint32_t owner, uint64_t address, uint32_t size) {
    c->in[c->count] = (struct vv_order_piece){owner, c->bytes, size, (uint32_t)c->count, address};
    c->count++;
    c->bytes += size;
}

/* Owners with regions of any length, gaps between what is new, short last chunks. */
static void add_owner(struct case_of *c, uint32_t owner, size_t most) {
    uint64_t address = (uint64_t)below(4) * CHUNK;
    for (size_t i = 0; i < most && c->count < MOST; i++) {
        int is_last = below(6) == 0;
        add(c, owner, address, is_last ? 1 + below(CHUNK) : CHUNK);
        address += CHUNK * (uint64_t)(1 + (below(5) == 0 ? below(3) : 0));
    }
}

/* Chunks of several ranks come in any order. */
static void mix(struct case_of *c) {
    for (size_t i = c->count; i > 1; i--) {
        size_t other = below((uint32_t)i);
        struct vv_order_piece kept = c->in[i - 1];
        c->in[i - 1] = c->in[other];
        c->in[other] = kept;
    }
    c->bytes = 0;
    for (size_t i = 0; i < c->count; i++) {
        c->in[i].at = c->bytes;
        c->in[i].chunk = (uint32_t)i;
        c->bytes += c->in[i].size;
    }
}

static void make_case(struct case_of *c) {
    uint32_t owners = 1 + below(below(2) ? 3 : 40);
    *c = (struct case_of){.count = 0};
    for (uint32_t i = 0; i < owners; i++)
        if (below(8))
            add_owner(c, 3 * i + below(3), 1 + below(below(2) ? 4 : 60));
    if (c->count == 0)
        add(c, 7, 0, CHUNK);
    if (below(4))
        mix(c);
}

static struct vv_order_piece *order(const struct case_of *c, uint32_t step, size_t *count_out) {
    size_t capacity = vv_order_capacity(c->in, c->count, step);
    struct vv_order_piece *out = malloc((capacity + 1) * sizeof *out);
    assert_non_null(out);
    out[capacity].size = 0xabcdef;
    *count_out = vv_order_make(c->in, c->count, step, out);
    assert_in_range(*count_out, c->count, capacity);
    assert_int_equal(out[capacity].size, 0xabcdef);
    return out;
}

/* ---- for all ---- */

/* The pieces of a chunk come in their order and leave nothing out. */
static void check_tiles(const struct case_of *c, const struct vv_order_piece *out, size_t count) {
    static uint32_t seen[MOST];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < count; i++) {
        assert_in_range(out[i].chunk, 0, c->count - 1);
        const struct vv_order_piece *whole = &c->in[out[i].chunk];
        uint32_t *so_far = &seen[out[i].chunk];
        assert_int_equal(out[i].owner, whole->owner);
        assert_int_equal(out[i].at, whole->at + *so_far);
        assert_int_equal(out[i].address, whole->address + *so_far);
        assert_in_range(out[i].size, 1, whole->size - *so_far);
        *so_far += out[i].size;
    }
    for (size_t i = 0; i < c->count; i++)
        assert_int_equal(seen[i], c->in[i].size);
}

static void check_sorted(const struct vv_order_piece *out, size_t count) {
    for (size_t i = 1; i < count; i++)
        assert_true(out[i].owner > out[i - 1].owner ||
                    (out[i].owner == out[i - 1].owner && out[i].address > out[i - 1].address));
}

/* The first chunk of an owner at or above an address, or NULL. */
static const struct vv_order_piece *find(const struct case_of *c, uint32_t owner, uint64_t address) {
    const struct vv_order_piece *best = NULL;
    for (size_t i = 0; i < c->count; i++)
        if (c->in[i].owner == owner && c->in[i].address + c->in[i].size > address &&
            (!best || c->in[i].address < best->address))
            best = &c->in[i];
    return best;
}

/* A turn that ended here had to: it was full, or nothing follows, or what follows would have been cut. */
static void check_end(const struct case_of *c, const struct vv_order_piece *last, uint32_t given, uint32_t step) {
    uint64_t end = last->address + last->size;
    const struct vv_order_piece *next = find(c, last->owner, end);
    assert_in_range(given, 1, step);
    if (given < step && next && next->address <= end)
        assert_true(next->size <= step && next->size > step - given);
}

/* Whose turn is next after owner's, and what comes of it: the slow way. at: where each has stopped; UINT64_MAX:
 * nothing is left. */
static const struct vv_order_piece *pass_on(const struct case_of *c, uint32_t *owner, uint64_t *at) {
    for (uint32_t tries = 0; tries < OWNERS; tries++) {
        *owner = (*owner + 1) % OWNERS;
        const struct vv_order_piece *next = at[*owner] < UINT64_MAX ? find(c, *owner, at[*owner]) : NULL;
        if (next)
            return next;
        at[*owner] = UINT64_MAX;
    }
    return NULL;
}

static void check_turns(const struct case_of *c, const struct vv_order_piece *out, size_t count, uint32_t step) {
    uint64_t at[OWNERS] = {0};
    uint32_t owner = OWNERS - 1;
    for (size_t i = 0; i < count;) {
        const struct vv_order_piece *next = pass_on(c, &owner, at);
        assert_non_null(next);
        uint64_t begin = next->address > at[owner] ? next->address : at[owner];
        uint32_t given = 0;
        assert_int_equal(out[i].owner, owner);
        assert_int_equal(out[i].address, begin);
        /* Pieces that go on are of the same turn as long as they fit; of a last owner the turns follow each other. */
        for (; i < count && out[i].owner == owner && out[i].address == begin + given && given + out[i].size <= step;
             i++)
            given += out[i].size;
        check_end(c, &out[i - 1], given, step);
        at[owner] = begin + given;
    }
}

static void test_any_chunks(void **arg) {
    static const uint32_t steps[] = {0, 1024, 2048, 3000, 4096, 6000, 8192, 16384, 65536};
    static struct case_of c;
    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        size_t count;
        uint32_t step = steps[round % (sizeof steps / sizeof steps[0])];
        make_case(&c);
        struct vv_order_piece *out = order(&c, step, &count);
        check_tiles(&c, out, count);
        if (step == 0)
            check_sorted(out, count);
        else if (round % 16 == 0)
            check_turns(&c, out, count, step);
        if (step == 0 || step >= CHUNK)
            assert_true(vv_order_is_whole(c.count, count));
        assert_int_equal(vv_order_is_whole(c.count, count), count == c.count);
        free(out);
    }
}

/* ---- by hand ---- */

struct expected {
    uint32_t owner;
    uint64_t address;
    uint32_t size;
};

static void check_is(const struct case_of *c, uint32_t step, const struct expected *list, size_t expected) {
    size_t count;
    struct vv_order_piece *out = order(c, step, &count);
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(out[i].owner, list[i].owner);
        assert_int_equal(out[i].address, list[i].address);
        assert_int_equal(out[i].size, list[i].size);
    }
    free(out);
}
#define CHECK_IS(c, step, ...)                                                                                         \
    do {                                                                                                               \
        static const struct expected list[] = {__VA_ARGS__};                                                           \
        check_is(c, step, list, sizeof list / sizeof list[0]);                                                         \
    } while (0)

/* Owner 3: two chunks and a short one, then another region; owner 5: one chunk. */
static void test_by_hand(void **arg) {
    static struct case_of c;
    (void)arg;
    add(&c, 5, 8192, 4096);
    add(&c, 3, 4096, 4096);
    add(&c, 3, 0, 4096);
    add(&c, 3, 8192, 100);
    add(&c, 3, 12288, 4096);
    CHECK_IS(&c, 0, {3, 0, 4096}, {3, 4096, 4096}, {3, 8192, 100}, {3, 12288, 4096}, {5, 8192, 4096});
    CHECK_IS(&c, 4096, {3, 0, 4096}, {5, 8192, 4096}, {3, 4096, 4096}, {3, 8192, 100}, {3, 12288, 4096});
    CHECK_IS(&c, 65536, {3, 0, 4096}, {3, 4096, 4096}, {3, 8192, 100}, {5, 8192, 4096}, {3, 12288, 4096});
    CHECK_IS(&c, 8192, {3, 0, 4096}, {3, 4096, 4096}, {5, 8192, 4096}, {3, 8192, 100}, {3, 12288, 4096});
    CHECK_IS(&c, 2048, {3, 0, 2048}, {5, 8192, 2048}, {3, 2048, 2048}, {5, 10240, 2048}, {3, 4096, 2048},
             {3, 6144, 2048}, {3, 8192, 100}, {3, 12288, 2048}, {3, 14336, 2048});
    CHECK_IS(&c, 3072, {3, 0, 3072}, {5, 8192, 3072}, {3, 3072, 1024}, {3, 4096, 2048}, {5, 11264, 1024},
             {3, 6144, 2048}, {3, 8192, 100}, {3, 12288, 3072}, {3, 15360, 1024});
}

static void test_one_owner(void **arg) {
    static struct case_of c;
    (void)arg;
    for (uint32_t i = 0; i < 10; i++)
        add(&c, 9, UINT64_C(40960) - i * UINT64_C(4096), CHUNK);
    for (uint32_t step = 0; step <= 65536; step = step ? 2 * step : 1024) {
        size_t count;
        struct vv_order_piece *out = order(&c, step, &count);
        check_tiles(&c, out, count);
        check_sorted(out, count);
        assert_int_equal(count, step && step < CHUNK ? 10 * CHUNK / step : 10);
        free(out);
    }
}

/* Nothing, and pieces without bytes: nobody should, but it must end. */
static void test_nothing(void **arg) {
    struct vv_order_piece out[8];
    const struct vv_order_piece empty[2] = {{.owner = 1}, {.owner = 2, .address = 4096}};
    (void)arg;
    assert_int_equal(vv_order_capacity(NULL, 0, 1024), 0);
    assert_int_equal(vv_order_make(NULL, 0, 1024, out), 0);
    assert_int_equal(vv_order_make(NULL, 0, 0, out), 0);
    assert_in_range(vv_order_capacity(empty, 2, 1024), 2, 8);
    assert_int_equal(vv_order_make(empty, 2, 1024, out), 2);
}

static void test_no_memory(void **arg) {
    struct vv_order_piece in[2] = {{2, 0, 4096, 0, 0}, {1, 4096, 4096, 1, 0}}, out[10];
    (void)arg;
    vv_alloc_fail_at(1);
    if (vv_order_make(in, 2, 4096, out) != 0) { /* a build without fault points */
        vv_alloc_fail_at(0);
        skip();
    }
    vv_alloc_fail_at(2);
    assert_int_equal(vv_order_make(in, 2, 1024, out), 0);
    vv_alloc_fail_at(1);
    assert_int_equal(vv_order_make(in, 2, 0, out), 2);
    vv_alloc_fail_at(0);
    assert_int_equal(out[0].owner, 1);
    assert_int_equal(vv_order_make(in, 2, 4096, out), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_chunks), cmocka_unit_test(test_by_hand),   cmocka_unit_test(test_one_owner),
        cmocka_unit_test(test_nothing),    cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
