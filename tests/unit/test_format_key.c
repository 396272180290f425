/* Names and keys: there and back, and what is no key. */
#include "../format/random.h"
#include "format/key.h"
#include "test.h"

#include <errno.h>
#include <string.h>

static void expect_key(const struct vv_key *key, const char *text) {
    char printed[VV_KEY_CAPACITY];
    struct vv_key parsed;
    vv_key_print(key, printed);
    if (text)
        assert_string_equal(printed, text);
    assert_int_equal(vv_key_parse(printed, &parsed), 0);
    assert_int_equal(parsed.kind, key->kind);
    assert_string_equal(parsed.name, key->name);
    assert_int_equal(parsed.generation, key->generation);
    assert_int_equal(parsed.attempt, key->kind == VV_KIND_RECORD ? 0 : key->attempt);
    assert_true(parsed.version == key->version);
    assert_int_equal(parsed.writer, key->writer);
    assert_int_equal(parsed.part, key->part);
}

static void test_document_examples(void **state) {
    (void)state;
    expect_key(&(struct vv_key){.kind = VV_KIND_STORE}, "varve");
    expect_key(&(struct vv_key){.kind = VV_KIND_CLAIM, .name = "heat2d", .generation = 1}, "n/heat2d/claim/00000001");
    expect_key(&(struct vv_key){.kind = VV_KIND_HEARTBEAT, .name = "heat2d", .generation = 1},
               "n/heat2d/beat/00000001");
    expect_key(&(struct vv_key){.kind = VV_KIND_PACK, .name = "heat2d", .generation = 1, .version = 100},
               "n/heat2d/data/00000001/0000000000000064/00000000/00000000");
    expect_key(&(struct vv_key){.kind = VV_KIND_PART, .name = "heat2d", .generation = 1, .version = 100, .part = 10},
               "n/heat2d/data/00000001/0000000000000064/00000000/00000000.0000000a");
    expect_key(&(struct vv_key){.kind = VV_KIND_COPY, .name = "heat2d", .generation = 1, .version = 100, .writer = 255},
               "n/heat2d/data/00000001/0000000000000064/00000000/000000ff.copy");
    expect_key(&(struct vv_key){.kind = VV_KIND_WRITERS, .name = "heat2d", .generation = 1, .version = 100},
               "n/heat2d/data/00000001/0000000000000064/00000000/writers");
    expect_key(&(struct vv_key){.kind = VV_KIND_RECORD, .name = "heat2d", .generation = 1, .version = 100},
               "n/heat2d/record/fffffffeffffffffffffff9b");
    expect_key(&(struct vv_key){.kind = VV_KIND_PIN, .name = "heat2d", .generation = 1, .version = 100},
               "n/heat2d/pin.fffffffeffffffffffffff9b");
    expect_key(&(struct vv_key){.kind = VV_KIND_CATALOGUE, .name = "heat2d"}, "n/heat2d/catalogue");
    expect_key(&(struct vv_key){.kind = VV_KIND_TRIGGER, .name = "heat2d"}, "n/heat2d/trigger");
    expect_key(
        &(struct vv_key){.kind = VV_KIND_PARITY, .name = "heat2d", .generation = 1, .version = 100, .writer = 255},
        "n/heat2d/data/00000001/0000000000000064/00000000/000000ff.parity");
    expect_key(&(struct vv_key){.kind = VV_KIND_LOG, .name = "heat2d", .generation = 1}, "n/heat2d/log/00000001");
}

static void test_random_keys(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct vv_key key = {0};
        do
            key.kind = (int)(1 + random_below(VV_KIND_LAST));
        while (key.kind == VV_KIND_TOMBSTONE || key.kind == VV_KIND_SEALED);
        int has_writer = key.kind == VV_KIND_PACK || key.kind == VV_KIND_PART || key.kind == VV_KIND_COPY ||
                         key.kind == VV_KIND_PARITY;
        if (key.kind != VV_KIND_STORE)
            random_text(key.name, 1, VV_NAME_MAX);
        if (key.kind != VV_KIND_STORE && key.kind != VV_KIND_CATALOGUE && key.kind != VV_KIND_TRIGGER)
            key.generation = (uint32_t)random_bits(31) + 1;
        if (has_writer || key.kind == VV_KIND_WRITERS || key.kind == VV_KIND_RECORD) {
            key.version = random_bits(63);
            key.attempt = (uint32_t)random_bits(32);
        }
        if (key.kind == VV_KIND_PIN)
            key.version = random_bits(63);
        if (has_writer)
            key.writer = (uint32_t)random_bits(30);
        if (key.kind == VV_KIND_PART)
            key.part = (uint32_t)random_bits(20);
        expect_key(&key, NULL);
    }
}

static void test_names(void **state) {
    (void)state;
    char component[VV_NAME_MAX * 3 + 1];
    char name[VV_NAME_MAX + 1];
    vv_name_encode(".a.b/c d%", component);
    assert_string_equal(component, "%2Ea.b%2Fc%20d%25");
    assert_int_equal(vv_name_decode(component, name), 0);
    assert_string_equal(name, ".a.b/c d%");
    vv_name_encode("..", component);
    assert_string_equal(component, "%2E.");
    static const char *const wrong[] = {"",   ".",   "..",  ".a",   "a/b", "a b",     "%",
                                        "%2", "%2f", "%41", "a%2E", "%00", "\xC3\xA9"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(vv_name_decode(wrong[i], name), -EINVAL);
    char longest[VV_NAME_MAX + 2];
    memset(longest, 0x80, sizeof longest);
    longest[VV_NAME_MAX + 1] = '\0';
    assert_int_equal(vv_name_check(longest), -EINVAL);
    longest[VV_NAME_MAX] = '\0';
    assert_int_equal(vv_name_check(longest), 0);
    assert_int_equal(vv_name_check(""), -EINVAL);
    vv_name_encode(longest, component);
    assert_int_equal(strlen(component), 240);
    assert_int_equal(vv_name_decode(component, name), 0);
    memset(component, 'a', VV_NAME_MAX + 1);
    component[VV_NAME_MAX + 1] = '\0';
    assert_int_equal(vv_name_decode(component, name), -EINVAL);
}

static void test_wrong_keys(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",
        "varve/",
        "/varve",
        "n",
        "n/",
        "n/a",
        "n/a/",
        "n//claim/00000001",
        "n/a/claim",
        "n/a/claim/",
        "n/a/claim/0000001",
        "n/a/claim/000000001",
        "n/a/claim/0000000A",
        "n/a/claim/00000000",
        "n/a/claim/00000001/",
        "n/a/catalogue/",
        "n/a/catalogues",
        "n/./catalogue",
        "n/a/beat/00000000",
        "m/a/catalogue",
        "tmp/x",
        "n/a/record/fffffffeffffffffffffff9",
        "n/a/record/fffffffeffffffffffffff9b0",
        "n/a/record/ffffffffffffffffffffff9b", /* generation 0 */
        "n/a/record/fffffffe7fffffffffffffff", /* version 2^63 */
        "n/a/data/00000001/0000000000000064/00000000",
        "n/a/data/00000001/0000000000000064/00000000/",
        "n/a/data/00000001/8000000000000000/00000000/writers",
        "n/a/data/00000001/0000000000000064/00000000/writer",
        "n/a/data/00000001/0000000000000064/00000000/0000000",
        "n/a/data/00000001/0000000000000064/00000000/00000000.",
        "n/a/data/00000001/0000000000000064/00000000/00000000.cop",
        "n/a/data/00000001/0000000000000064/00000000/00000000.00100000", /* part 2^20 */
        "n/a/data/00000001/0000000000000064/00000000/7fffffff",          /* writer 2^31 - 1 */
        "n/a/data/00000001/0000000000000064/00000000/00000000/x",
    };
    struct vv_key key;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (vv_key_parse(wrong[i], &key) != -EINVAL)
            print_message("accepted: %s\n", wrong[i]);
        assert_int_equal(vv_key_parse(wrong[i], &key), -EINVAL);
    }
}

static void test_prefixes(void **state) {
    (void)state;
    struct vv_key key = {.name = "a b", .generation = 2, .version = 3, .attempt = 4};
    char text[VV_KEY_CAPACITY];
    vv_prefix_claims("a b", text);
    assert_string_equal(text, "n/a%20b/claim");
    vv_prefix_heartbeats("a b", text);
    assert_string_equal(text, "n/a%20b/beat");
    vv_prefix_records("a b", text);
    assert_string_equal(text, "n/a%20b/record");
    vv_prefix_data(&key, 0, text);
    assert_string_equal(text, "n/a%20b/data");
    vv_prefix_data(&key, 1, text);
    assert_string_equal(text, "n/a%20b/data/00000002");
    vv_prefix_data(&key, 2, text);
    assert_string_equal(text, "n/a%20b/data/00000002/0000000000000003");
    vv_prefix_data(&key, 3, text);
    assert_string_equal(text, "n/a%20b/data/00000002/0000000000000003/00000004");
}

static void test_newest_first(void **state) {
    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint32_t g1 = (uint32_t)random_bits(4) + 1, g2 = (uint32_t)random_bits(4) + 1;
        uint64_t v1 = random_bits(63), v2 = random_bits(63);
        char a[25], b[25];
        vv_record_component(g1, v1, a);
        vv_record_component(g2, v2, b);
        int is_newer = g1 != g2 ? g1 > g2 : v1 > v2;
        assert_int_equal(strcmp(a, b) < 0, is_newer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document_examples),
        cmocka_unit_test(test_random_keys),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_newest_first),
    };
    random_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
