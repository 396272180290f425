/* Small objects: random values there and back; every flipped byte, every truncation, every failed allocation. */
#include "../format/random.h"
#include "base/alloc.h"
#include "format/job_log_object.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t store_id[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* Parse, encode what was parsed into again (when it was accepted), and free it. */
typedef int (*again_fn)(const void *data, size_t size, const struct vv_key *key, const uint8_t *id,
                        struct vv_buf *again, struct varve_error *error);

static struct vv_key random_key(int kind) {
    struct vv_key key = {.kind = kind};
    int has_writer = kind == VV_KIND_PACK;
    if (kind == VV_KIND_STORE)
        return key;
    random_text(key.name, 1, VV_NAME_MAX);
    if (kind == VV_KIND_CATALOGUE || kind == VV_KIND_TRIGGER)
        return key;
    key.generation = (uint32_t)random_bits(31) + 1;
    if (has_writer || kind == VV_KIND_WRITERS || kind == VV_KIND_RECORD) {
        key.version = random_bits(63);
        key.attempt = (uint32_t)random_bits(32);
    }
    if (kind == VV_KIND_PIN)
        key.version = random_bits(63);
    if (has_writer)
        key.writer = (uint32_t)random_bits(30);
    return key;
}

static struct vv_settings_store random_settings(void) {
    int is_sha = (int)random_below(2);
    return (struct vv_settings_store){is_sha ? VV_ID_SHA256 : VV_ID_XXH3, 12, (uint32_t)random_below(2),
                                      is_sha ? 0 : random_u64(), random_u64()};
}

static struct vv_attempt random_attempt(int may_be_none) {
    if (may_be_none && random_below(4) == 0)
        return (struct vv_attempt){0};
    return (struct vv_attempt){(uint32_t)random_bits(31) + 1, (uint32_t)random_bits(32), random_bits(63)};
}

static int again_store(const void *data, size_t size, const struct vv_key *key, const uint8_t *id, struct vv_buf *again,
                       struct varve_error *error) {
    struct vv_store_object store;
    (void)key;
    (void)id;
    int rc = vv_store_object_parse(data, size, &store, error);
    if (rc == 0)
        vv_store_object_encode(again, &store);
    return rc;
}

static int again_claim(const void *data, size_t size, const struct vv_key *key, const uint8_t *id, struct vv_buf *again,
                       struct varve_error *error) {
    struct vv_claim claim;
    int rc = vv_claim_parse(data, size, key, id, &claim, error);
    if (rc == 0)
        vv_claim_encode(again, key, claim.store_id, &claim);
    return rc;
}

static int again_heartbeat(const void *data, size_t size, const struct vv_key *key, const uint8_t *id,
                           struct vv_buf *again, struct varve_error *error) {
    struct vv_heartbeat heartbeat;
    int rc = vv_heartbeat_parse(data, size, key, id, &heartbeat, error);
    if (rc == 0)
        vv_heartbeat_encode(again, key, store_id, &heartbeat);
    return rc;
}

static int again_writers(const void *data, size_t size, const struct vv_key *key, const uint8_t *id,
                         struct vv_buf *again, struct varve_error *error) {
    struct vv_writers writers;
    struct vv_hash128 digest;
    int rc = vv_writers_parse(data, size, key, id, &writers, error);
    if (rc < 0)
        return rc;
    vv_writers_encode(again, key, store_id, &writers, &digest);
    assert_true(again->failed || vv_hash128_equal(digest, writers.digest));
    assert_int_equal(writers.length, size);
    vv_writers_clear(&writers);
    return 0;
}

static int again_record(const void *data, size_t size, const struct vv_key *key, const uint8_t *id,
                        struct vv_buf *again, struct varve_error *error) {
    struct vv_record record;
    struct vv_key without_attempt = *key;
    without_attempt.attempt = 0;
    int rc = vv_record_parse(data, size, &without_attempt, id, &record, error);
    if (rc < 0)
        return rc;
    assert_int_equal(record.attempt, key->attempt);
    vv_record_encode(again, key, record.store_id, &record);
    vv_record_clear(&record);
    return 0;
}

static int again_tombstone(const void *data, size_t size, const struct vv_key *key, const uint8_t *id,
                           struct vv_buf *again, struct varve_error *error) {
    struct vv_tombstone tombstone;
    int rc = vv_tombstone_parse(data, size, key, id, &tombstone, error);
    if (rc == 0)
        vv_tombstone_encode(again, key, store_id, &tombstone);
    return rc;
}

static int again_catalogue(const void *data, size_t size, const struct vv_key *key, const uint8_t *id,
                           struct vv_buf *again, struct varve_error *error) {
    struct vv_catalogue catalogue;
    int rc = vv_catalogue_parse(data, size, key, id, &catalogue, error);
    if (rc < 0)
        return rc;
    vv_catalogue_encode(again, key, store_id, &catalogue);
    vv_catalogue_clear(&catalogue);
    return 0;
}

static void make_store(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_store_object store = {.settings = random_settings()};
    (void)key;
    memcpy(store.store_id, store_id, 16);
    vv_store_object_encode(buf, &store);
}

static void make_claim(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_claim claim;
    random_fill(&claim, sizeof claim);
    claim.settings = random_settings();
    claim.ranks = (uint32_t)random_bits(31);
    random_text(claim.host, 0, VV_TEXT_CAPACITY - 1);
    random_text(claim.program, 0, VV_TEXT_CAPACITY - 1);
    vv_claim_encode(buf, key, store_id, &claim);
}

static void make_heartbeat(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_heartbeat heartbeat;
    random_fill(&heartbeat, sizeof heartbeat);
    heartbeat.state = (uint32_t)(1 + random_below(2));
    heartbeat.refers = random_attempt(1);
    vv_heartbeat_encode(buf, key, store_id, &heartbeat);
}

static struct vv_writers random_writers(uint32_t count) {
    struct vv_writers writers = {.count = count, .list = calloc(count, sizeof *writers.list)};
    assert_non_null(writers.list);
    for (uint32_t i = 0; i < count; i++) {
        struct vv_writer *writer = &writers.list[i];
        writer->first_owner = writers.ranks;
        writer->owners = (uint32_t)random_below(5) + (i == 0);
        writers.ranks += writer->owners;
        writer->parts = (uint32_t)random_bits(3);
        writer->parts_length = writer->parts ? writer->parts * 96 + random_bits(61) : 0;
        writer->pack_length = 96 + random_bits(61);
        writer->partner_count = (uint32_t)random_below(count < 4 ? count : 4);
        for (uint32_t j = 0; j < writer->partner_count; j++)
            writer->partners[j] = (i + 1 + j) % count;
        writer->footer_digest = random_hash();
    }
    return writers;
}

static void make_writers(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_writers writers = random_writers((uint32_t)(1 + random_below(9)));
    vv_writers_encode(buf, key, store_id, &writers, NULL);
    free(writers.list);
}

static void make_record(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_record record;
    struct vv_dependency dependencies[5];
    random_fill(&record, sizeof record);
    record.settings = random_settings();
    record.ranks = (uint32_t)random_bits(30) + 1;
    record.writers = (uint32_t)random_bits(25) + 1;
    record.writers_length = vv_writers_length(record.writers);
    record.parent = random_attempt(1);
    record.dependency_count = (uint32_t)random_below(6);
    record.dependencies = dependencies;
    for (uint32_t i = 0; i < record.dependency_count; i++) {
        dependencies[i].attempt =
            (struct vv_attempt){i / 2 + 1, (uint32_t)random_bits(32), 1000 * i + random_below(1000)};
        dependencies[i].writers_digest = random_hash();
    }
    random_text(record.program, 0, VV_TEXT_CAPACITY - 1);
    vv_record_encode(buf, key, store_id, &record);
}

static void make_tombstone(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_tombstone tombstone = {.reason = (uint32_t)(1 + random_below(4)), .time_ns = random_u64()};
    random_text(tombstone.text, 0, VV_TEXT_CAPACITY - 1);
    vv_tombstone_encode(buf, key, store_id, &tombstone);
}

static int again_pin(const void *data, size_t size, const struct vv_key *key, const uint8_t *id, struct vv_buf *again,
                     struct varve_error *error) {
    struct vv_pin pin;
    int rc = vv_pin_parse(data, size, key, id, &pin, error);
    if (rc == 0)
        vv_pin_encode(again, key, store_id, &pin);
    return rc;
}

static void make_pin(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_pin pin = {.time_ns = random_u64()};
    random_text(pin.host, 0, VV_TEXT_CAPACITY - 1);
    random_text(pin.reason, 0, VV_TEXT_CAPACITY - 1);
    vv_pin_encode(buf, key, store_id, &pin);
}

static int again_trigger(const void *data, size_t size, const struct vv_key *key, const uint8_t *id,
                         struct vv_buf *again, struct varve_error *error) {
    struct vv_trigger trigger;
    int rc = vv_trigger_parse(data, size, key, id, &trigger, error);
    if (rc == 0)
        vv_trigger_encode(again, key, store_id, &trigger);
    return rc;
}

static void make_trigger(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_trigger trigger = {.wish = (uint32_t)(1 + random_below(2)), .time_ns = random_u64()};
    random_text(trigger.host, 0, VV_TEXT_CAPACITY - 1);
    vv_trigger_encode(buf, key, store_id, &trigger);
}

static int again_job_log(const void *data, size_t size, const struct vv_key *key, const uint8_t *id,
                         struct vv_buf *again, struct varve_error *error) {
    const char *text;
    size_t length;
    int rc = vv_job_log_parse(data, size, key, id, &text, &length, error);
    if (rc == 0)
        vv_job_log_encode(again, key, store_id, text, length);
    return rc;
}

static void make_job_log(struct vv_buf *buf, const struct vv_key *key) {
    char text[512];
    random_text(text, 0, sizeof text - 1);
    vv_job_log_encode(buf, key, store_id, text, strlen(text));
}

static void make_catalogue(struct vv_buf *buf, const struct vv_key *key) {
    struct vv_catalogue_entry list[8];
    struct vv_catalogue catalogue = {.count = random_below(9), .list = list};
    random_fill(list, sizeof list);
    for (uint64_t i = 0; i < catalogue.count; i++) {
        list[i].attempt.generation = (uint32_t)(10 - i / 3);
        list[i].attempt.version = 10000 - 1000 * i - random_below(1000);
        list[i].is_tombstone = (uint32_t)random_below(2);
    }
    vv_catalogue_encode(buf, key, store_id, &catalogue);
}

static const struct {
    int key_kind;
    void (*make)(struct vv_buf *buf, const struct vv_key *key);
    again_fn again;
} kinds[] = {
    {VV_KIND_STORE, make_store, again_store},
    {VV_KIND_CLAIM, make_claim, again_claim},
    {VV_KIND_HEARTBEAT, make_heartbeat, again_heartbeat},
    {VV_KIND_WRITERS, make_writers, again_writers},
    {VV_KIND_RECORD, make_record, again_record},
    {VV_KIND_PACK, make_tombstone, again_tombstone},
    {VV_KIND_WRITERS, make_tombstone, again_tombstone},
    {VV_KIND_RECORD, make_tombstone, again_tombstone},
    {VV_KIND_PIN, make_pin, again_pin},
    {VV_KIND_PIN, make_tombstone, again_tombstone},
    {VV_KIND_TRIGGER, make_trigger, again_trigger},
    {VV_KIND_LOG, make_job_log, again_job_log},
    {VV_KIND_CATALOGUE, make_catalogue, again_catalogue},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static void test_round_trips(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < KINDS; i++) {
            struct vv_key key = random_key(kinds[i].key_kind);
            struct varve_error error = {0};
            struct vv_buf buf, again;
            vv_buf_init(&buf);
            vv_buf_init(&again);
            kinds[i].make(&buf, &key);
            int rc = kinds[i].again(buf.data, buf.size, &key, store_id, &again, &error);
            if (rc < 0)
                print_message("%s\n", error.text);
            assert_int_equal(rc, 0);
            assert_int_equal(again.size, buf.size);
            assert_memory_equal(again.data, buf.data, buf.size);
            vv_buf_clear(&buf);
            vv_buf_clear(&again);
        }
    }
}

static int refuse(size_t i, const uint8_t *data, size_t size, const struct vv_key *key) {
    struct varve_error error = {0};
    struct vv_buf again;
    vv_buf_init(&again);
    uint8_t *copy = malloc(size ? size : 1); /* exact, for the sanitizers */
    assert_non_null(copy);
    memcpy(copy, data, size);
    int rc = kinds[i].again(copy, size, key, store_id, &again, &error);
    assert_true(rc == 0 || error.text[0] != '\0');
    free(copy);
    vv_buf_clear(&again);
    return rc;
}

static void test_flips_and_truncations(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct vv_key key = random_key(kinds[i].key_kind);
        struct vv_buf buf;
        vv_buf_init(&buf);
        kinds[i].make(&buf, &key);
        for (size_t at = 0; at < buf.size; at++) {
            uint8_t flip = (uint8_t)(1 + random_below(255));
            buf.data[at] ^= flip;
            assert_int_equal(refuse(i, buf.data, buf.size, &key), VARVE_CORRUPT);
            buf.data[at] ^= flip;
            assert_int_equal(refuse(i, buf.data, at, &key), VARVE_CORRUPT);
        }
        vv_buf_u8(&buf, 0);
        assert_int_equal(refuse(i, buf.data, buf.size, &key), VARVE_CORRUPT);
        vv_buf_clear(&buf);
    }
}

static void test_wrong_identity(void **state) {
    (void)state;
    static const uint8_t other_id[16] = {9};
    struct varve_error error;
    struct vv_buf buf, again;
    vv_buf_init(&buf);
    vv_buf_init(&again);
    struct vv_key key = random_key(VV_KIND_WRITERS);
    make_writers(&buf, &key);
    assert_int_equal(again_writers(buf.data, buf.size, &key, NULL, &again, &error), 0);
    assert_int_equal(again_writers(buf.data, buf.size, &key, other_id, &again, &error), VARVE_CORRUPT);
    for (int i = 0; i < 5; i++) {
        struct vv_key wrong = key;
        if (i == 0)
            wrong.name[0] ^= 0x40;
        else if (i == 1)
            wrong.generation++;
        else if (i == 2)
            wrong.version ^= 1;
        else if (i == 3)
            wrong.attempt ^= 1;
        else
            wrong.kind = VV_KIND_PACK;
        if (wrong.name[0] != '\0')
            assert_int_equal(again_writers(buf.data, buf.size, &wrong, store_id, &again, &error), VARVE_CORRUPT);
    }
    vv_buf_clear(&buf);
    vv_buf_clear(&again);
}

static void test_forgotten(void **state) {
    (void)state;
    struct vv_key key = random_key(VV_KIND_RECORD);
    struct vv_record record;
    struct varve_error error;
    struct vv_buf buf;
    vv_buf_init(&buf);
    make_tombstone(&buf, &key);
    assert_int_equal(vv_record_parse(buf.data, buf.size, &key, store_id, &record, &error), VARVE_FORGOTTEN);
    buf.data[buf.size - 1] ^= 1;
    assert_int_equal(vv_record_parse(buf.data, buf.size, &key, store_id, &record, &error), VARVE_CORRUPT);
    vv_buf_clear(&buf);
}

static void test_many_writers(void **state) {
    (void)state;
    const uint32_t count = 32768;
    struct vv_key key = random_key(VV_KIND_WRITERS);
    struct vv_writers writers = random_writers(count), parsed;
    struct varve_error error;
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_writers_encode(&buf, &key, store_id, &writers, NULL);
    uint64_t begin = vv_clock_ns();
    assert_int_equal(vv_writers_parse(buf.data, buf.size, &key, store_id, &parsed, &error), 0);
    print_message("# %u writers parsed in %.2f ms\n", count, (double)(vv_clock_ns() - begin) / 1e6);
    assert_int_equal(parsed.count, count);
    assert_memory_equal(parsed.list, writers.list, count * sizeof *parsed.list);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < parsed.list[i].owners; j++)
            assert_int_equal(vv_writers_home(&parsed, parsed.list[i].first_owner + j), i);
    assert_int_equal(vv_writers_home(&parsed, parsed.ranks), -1);
    assert_int_equal(vv_writers_home(&parsed, UINT32_MAX), -1);
    vv_writers_clear(&parsed);
    vv_buf_clear(&buf);
    free(writers.list);
}

/* A rank among many reads the beginning of the list and the page of its writer. */
static void test_pages_of_writers(void **state) {
    (void)state;
    const uint32_t count = 1300; /* two full pages, and a part of one */
    struct vv_key key = random_key(VV_KIND_WRITERS);
    struct vv_writers writers = random_writers(count);
    struct vv_writer page[VV_WRITERS_PAGE];
    struct vv_writers_index index;
    struct vv_hash128 digest;
    struct varve_error error;
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_writers_encode(&buf, &key, store_id, &writers, &digest);
    assert_int_equal(buf.size, vv_writers_length(count));
    size_t need = (size_t)vv_writers_index_size(buf.data, 256);
    assert_true(need < 256);
    assert_int_equal(vv_writers_index_parse(buf.data, need, &key, store_id, &index, &error), 0);
    assert_true(vv_hash128_equal(index.digest, digest));
    assert_int_equal(index.length, buf.size);
    for (uint32_t i = 0; i < 3; i++) {
        size_t size;
        uint8_t *at = buf.data + vv_writers_page_at(count, i, &size);
        assert_int_equal(vv_writers_page_parse(&index, i, at, size, &key, page, &error), 0);
        assert_memory_equal(page, writers.list + i * VV_WRITERS_PAGE, size / 64 * sizeof *page);
        at[random_below(size)] ^= 1;
        assert_int_equal(vv_writers_page_parse(&index, i, at, size, &key, page, &error), VARVE_CORRUPT);
        assert_int_equal(vv_writers_page_parse(&index, i, at, size - 64, &key, page, &error), VARVE_CORRUPT);
    }
    vv_writers_index_clear(&index);
    for (size_t cut = 0; cut < need; cut++)
        assert_true(vv_writers_index_parse(buf.data, cut, &key, store_id, &index, &error) < 0);
    buf.data[need - 1] ^= 1; /* the digest of a page: another list, and no record names it */
    assert_int_equal(vv_writers_index_parse(buf.data, need, &key, store_id, &index, &error), 0);
    assert_false(vv_hash128_equal(index.digest, digest));
    vv_writers_index_clear(&index);
    vv_buf_clear(&buf);
    free(writers.list);
}

/* A foreign writer may store longer texts than we keep: they are cut between characters. */
static void test_long_text(void **state) {
    (void)state;
    struct vv_key key = random_key(VV_KIND_PACK);
    struct vv_tombstone tombstone = {.reason = 1};
    struct varve_error error;
    struct vv_buf buf, body;
    vv_buf_init(&buf);
    vv_buf_init(&body);
    vv_tombstone_encode(&buf, &key, store_id, &tombstone);
    vv_buf_append(&body, buf.data, VV_HEAD_SIZE + 16);
    vv_buf_u16(&body, 300);
    for (int i = 0; i < 150; i++)
        vv_buf_append(&body, "\xC3\xA9", 2);
    vv_buf_u64(&body, body.size + VV_TAIL_SIZE);
    struct vv_hash128 digest = vv_digest(body.data, body.size);
    vv_buf_u64(&body, digest.low);
    vv_buf_u64(&body, digest.high);
    assert_int_equal(vv_tombstone_parse(body.data, body.size, &key, store_id, &tombstone, &error), 0);
    assert_int_equal(strlen(tombstone.text), 254);
    vv_buf_clear(&buf);
    vv_buf_clear(&body);
}

static void test_no_memory(void **state) {
    (void)state;
#ifdef VARVE_FAULTS
    for (size_t i = 0; i < KINDS; i++) {
        struct vv_key key = random_key(kinds[i].key_kind);
        struct vv_buf buf;
        vv_buf_init(&buf);
        kinds[i].make(&buf, &key);
        for (uint64_t k = 1; k < 50; k++) {
            struct varve_error error;
            struct vv_buf again;
            vv_buf_init(&again);
            vv_alloc_fail_at(k);
            int rc = kinds[i].again(buf.data, buf.size, &key, store_id, &again, &error);
            uint64_t count = vv_alloc_count();
            vv_alloc_fail_at(0);
            assert_true(rc == -ENOMEM || (rc == 0 && (again.failed == -ENOMEM || again.size == buf.size)));
            vv_buf_clear(&again);
            if (count < k)
                break;
        }
        vv_buf_clear(&buf);
    }
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),    cmocka_unit_test(test_flips_and_truncations),
        cmocka_unit_test(test_wrong_identity), cmocka_unit_test(test_forgotten),
        cmocka_unit_test(test_many_writers),   cmocka_unit_test(test_pages_of_writers),
        cmocka_unit_test(test_long_text),      cmocka_unit_test(test_no_memory),
    };
    random_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
