/* Moved sections, also such as no writer of ours makes, and copies of tables. */
#include "store_data.h"

#define BLOCK 4096u
#define SIZE (3 * BLOCK)

enum { S_MANIFEST = 3 }; /* after blocks, extents and ids */

static uint8_t content[SIZE];

/* A moved section of a writer that gave two of its blocks to another; by hand where ours refuses to make it. */
static uint32_t moved_to;

static void move_away(struct surgery *s, int is_footer_encoded) {
    struct vv_extent_coder coder = {0};
    if (is_footer_encoded)
        return;
    s->section[S_MANIFEST + 1] = s->section[S_MANIFEST];
    vv_buf_init(&s->section[S_MANIFEST]);
    s->footer.sections = vv_realloc(s->footer.sections, 5 * sizeof s->footer.sections[0]);
    s->footer.sections[4] = s->footer.sections[3];
    s->footer.sections[3] = (struct vv_section){.kind = VV_SECTION_MOVED};
    s->footer.section_count = 5;
    struct vv_moved moved = {.extent = {0, 0, BLOCK}, .length = BLOCK, .writer = moved_to};
    vv_moved_encode(&s->section[S_MANIFEST], &coder, &moved);
    moved = (struct vv_moved){.extent = {0, 2 * BLOCK, BLOCK}, .length = BLOCK, .writer = moved_to};
    vv_moved_encode(&s->section[S_MANIFEST], &coder, &moved);
}

static void write_moved(struct vv_store *store) {
    for (uint32_t writer = 0; writer < 2; writer++) {
        struct vv_pack_options options = {
            .writer = writer, .writers = 2, .ranks = 2, .first_owner = writer, .owners = 1, .part_size = 1u << 30};
        struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 1), &options);
        struct mf mf;
        for (uint32_t i = 0; i < 3; i++)
            if ((i == 1) == (writer == 0))
                put_extent(store, pack, 0, i * BLOCK, content + i * BLOCK, BLOCK, VV_CODEC_NONE, 1);
        if (writer == 0 && moved_to == 1) {
            const struct vv_moved moved[] = {{.extent = {0, 0, BLOCK}, .length = BLOCK, .writer = 1},
                                             {.extent = {0, 2 * BLOCK, BLOCK}, .length = BLOCK, .writer = 1}};
            assert_ok(vv_pack_moved(pack, moved, 2, &failure));
        }
        mf_begin(&mf, writer, writer ? 0 : SIZE);
        if (writer == 0) {
            mf_region(&mf, 1, "bytes", 0, SIZE, VV_REGION_DESCRIBED);
            mf_run(&mf, VV_RUN_HERE, SIZE, NULL, 0);
            vv_manifest_region_end(&mf.writer, region_digest(store, content, SIZE));
            mf.head.regions = 1;
            mf.head.protected_bytes = SIZE;
        }
        mf_store(&mf, pack, NULL);
        assert_ok(vv_pack_seal(pack, writer ? 0 : SIZE, !writer, NULL, &failure));
    }
    commit(store, attempt_at(1, 1), NULL);
    if (moved_to != 1)
        operate(store, attempt_at(1, 1), 0, move_away);
}

static void test_moved(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    moved_to = 1;
    write_moved(store);
    assert_ok(read_all(store, 1));
    assert_sound(store, NULL);
    vv_store_close(store);
    store = new_store();
    moved_to = 0; /* to itself, where it is not */
    write_moved(store);
    assert_int_equal(read_all(store, 1), VARVE_CORRUPT);
    vv_store_close(store);
    store = new_store();
    moved_to = 5;
    write_moved(store);
    assert_int_equal(read_all(store, 1), VARVE_CORRUPT);
    assert_non_null(strstr(failure.text, "writer 5"));
    vv_store_close(store);
}

/* A copy repeats sections, footer and end of its pack, without the blocks. */
static void test_copy(void **state) {
    (void)state;
    static struct findings findings;
    struct vv_store *store = new_store();
    struct vv_attempt attempt = attempt_at(1, 1);
    struct vv_pack_id id = {.store = store, .name = NAME, .attempt = attempt};
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_PACK, 0, 0);
    struct vv_key copy_key = vv_attempt_key(NAME, &attempt, VV_KIND_COPY, 0, 0);
    struct vv_footer footer, again;
    struct vv_buf pack, copy;
    char text[VV_KEY_CAPACITY];
    moved_to = 1;
    write_moved(store);
    get_object(store, &key, &pack);
    assert_ok(vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, NULL, &failure));
    vv_buf_init(&copy);
    vv_head_encode(&copy, &copy_key, store->id, 0);
    vv_buf_append(&copy, pack.data + footer.sections[0].offset, pack.size - footer.sections[0].offset);
    size_t size = copy.size;
    vv_key_print(&copy_key, text);
    assert_ok(vv_backend_put(store->backend, text, copy.data, size));
    assert_ok(vv_pack_footer_load(&id, VV_KIND_COPY, NULL, &again, NULL, &failure));
    assert_true(vv_hash128_equal(again.digest, footer.digest));
    assert_int_equal(again.sections[0].offset, footer.sections[0].offset);
    assert_int_equal(vv_pack_section(&again, &again.sections[0], VV_KIND_COPY).offset, VV_HEAD_SIZE);
    assert_sound(store, NULL);
    for (size_t at = 0; at < size; at++) {
        copy.data[at] ^= 0x40;
        assert_ok(vv_backend_replace(store->backend, text, copy.data, size));
        verify(store, NULL, 0, &findings);
        assert_true(findings.count[VV_FINDING_DAMAGE] + findings.count[VV_FINDING_NOTE] > 0);
        copy.data[at] ^= 0x40;
    }
    vv_footer_clear(&footer);
    vv_footer_clear(&again);
    vv_buf_clear(&pack);
    vv_buf_clear(&copy);
    vv_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moved), cmocka_unit_test(test_copy)};
    random_state = 11;
    random_fill(content, sizeof content);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
