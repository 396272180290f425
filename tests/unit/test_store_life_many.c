/* Lists of very many writers: a reader finds the one it needs, and reads little of the list. */
#include "store_life.h"

#include "read/view.h"
#include "read/view_parts.h"

static struct vv_store *store;

static int set_up(void **state) {
    char uri[80];
    (void)state;
    snprintf(uri, sizeof uri, "%s?count=1", fresh_uri());
    store = open_store(uri, VV_STORE_WRITE);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    vv_store_close(store);
    return 0;
}

static struct vv_backend_counts counts(void) {
    struct vv_backend_counts out;
    assert_int_equal(vv_count_get(store->backend, &out), 0);
    return out;
}

/* A list and its record, without packs. Each writer has up to `most` owners, or exactly one. */
static uint32_t put_list(uint64_t version, uint32_t count, uint32_t most) {
    struct vv_attempt attempt = at(1, version, 0);
    struct vv_key list_key = vv_attempt_key(NAME, &attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_RECORD, 0, 0);
    struct vv_writers writers = {.count = count, .list = calloc(count, sizeof *writers.list)};
    struct vv_record record = {.settings = store->settings, .writers = count};
    struct vv_buf buf;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t owners = most == 1 || i + 1 == count ? 1 : (uint32_t)rand() % (most + 1);
        writers.list[i] = (struct vv_writer){.first_owner = writers.ranks, .owners = owners, .pack_length = 1000};
        writers.ranks += owners;
    }
    vv_buf_init(&buf);
    vv_writers_encode(&buf, &list_key, store->id, &writers, &record.writers_digest);
    record.writers_length = buf.size;
    record.ranks = writers.ranks;
    ok(vv_object_create(store, &list_key, &buf, &error));
    vv_buf_clear(&buf);
    vv_buf_init(&buf);
    vv_record_encode(&buf, &key, store->id, &record);
    ok(vv_object_create(store, &key, &buf, &error));
    vv_buf_clear(&buf);
    free(writers.list);
    return writers.ranks;
}

/* What one rank reads of a list does not grow with the number of writers, and two requests are enough. */
static void reads_little(void **state) {
    static const uint32_t sizes[] = {4, 250, 512, 513, 4096, 32768, 1048576};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t ranks = put_list(i, sizes[i], 1), owner = ranks - 1 - ranks / 3, home = 0;
        struct vv_backend_counts before = counts();
        struct vv_view *view = NULL;
        ok(vv_view_open(store, NAME, 1, i, &view, &error));
        assert_int_equal(vv_view_home(view, 0, owner, &home, &error), 1);
        assert_int_equal(home, owner);
        struct vv_backend_counts after = counts();
        uint64_t gets = after.calls[VV_VERB_GET] - before.calls[VV_VERB_GET];
        uint64_t bytes = after.bytes_read - before.bytes_read;
        print_message("# %7u writers: %llu requests, %llu bytes, the record included\n", sizes[i],
                      (unsigned long long)gets, (unsigned long long)bytes);
        assert_true(gets <= 2 + 3); /* the record; the list, of which the longest needs three */
        assert_true(bytes <= 65536 + 400);
        vv_view_close(view);
    }
}

/* Writers of many owners and of none: the guess where an owner is goes wrong, and each is found all the same. */
static void finds_all(void **state) {
    (void)state;
    srand(7);
    uint32_t count = 5000, ranks = put_list(1, count, 9), last = 0;
    struct vv_view *view = NULL;
    ok(vv_view_open(store, NAME, 1, 1, &view, &error));
    for (uint32_t owner = 0; owner < ranks; owner++) {
        struct vv_listed listed;
        uint32_t home = 0;
        assert_int_equal(vv_view_home(view, 0, owner, &home, &error), 1);
        ok(vv_view_listed(view, 0, home, &listed, &error));
        assert_true(owner - listed.entry.first_owner < listed.entry.owners);
        assert_true(home >= last);
        last = home;
    }
    struct vv_listed listed;
    uint32_t home = 0;
    assert_int_equal(vv_view_home(view, 0, ranks, &home, &error), 0);
    assert_int_equal(vv_view_home(view, 0, UINT32_MAX, &home, &error), 0);
    assert_int_equal(vv_view_listed(view, 0, count, &listed, &error), VARVE_CORRUPT);
    vv_view_close(view);
}

/* A byte of the page that is needed is wrong, one of another page, or the page is cut off. */
static void damaged_pages(void **state) {
    char key[VV_KEY_CAPACITY];
    struct vv_buf bytes;
    (void)state;
    put_list(1, 2000, 1);
    key_text(at(1, 1, 0), VV_KIND_WRITERS, 0, 0, key);
    for (int i = 0; i < 3; i++) {
        struct vv_view *view = NULL;
        uint32_t home = 0;
        size_t size = 0;
        vv_buf_init(&bytes);
        ok(vv_backend_get_all(store->backend, key, UINT64_MAX, &bytes));
        uint64_t page = vv_writers_page_at(2000, 2, &size);
        bytes.data[page + 70] ^= 4;
        ok(vv_backend_replace(store->backend, key, bytes.data, i == 2 ? page : bytes.size));
        ok(vv_view_open(store, NAME, 1, 1, &view, &error));
        assert_int_equal(vv_view_home(view, 0, 3, &home, &error), 1);
        assert_int_equal(vv_view_home(view, 0, 1100, &home, &error), VARVE_CORRUPT);
        vv_view_close(view);
        bytes.data[page + 70] ^= 4;
        ok(vv_backend_replace(store->backend, key, bytes.data, bytes.size));
        vv_buf_clear(&bytes);
    }
}

enum { WRITERS = 600 };

/* Packs that are there, and a checkpoint of them. */
static void make_checkpoint(void) {
    struct vv_attempt attempt = at(1, 1, 0);
    struct vv_lease *lease = NULL;
    ok(take(store, 60, 0, &lease));
    for (uint32_t i = 0; i < WRITERS; i++) {
        struct pack_spec spec = {.writer = i, .writers = WRITERS};
        ok(write_pack(store, attempt, &spec));
    }
    ok(commit_votes(store, lease, NAME, &attempt, NULL, &error));
    vv_lease_release(lease);
}

/* Votes, commit, and the footer of each writer through the pages. */
static void commits(void **state) {
    struct vv_view *view = NULL;
    (void)state;
    make_checkpoint();
    ok(vv_view_open(store, NAME, 1, 1, &view, &error));
    for (uint32_t i = 0; i < WRITERS; i++) {
        struct vv_cached *footer = NULL;
        ok(vv_view_footer(view, 0, i, &footer, &error));
        assert_int_equal(((const struct vv_footer *)footer->object)->first_owner, i);
        vv_view_release(view, footer);
    }
    vv_view_close(view);
}

/* With the address of a store, only this checkpoint is made there: for programs that read it (tests/tools). */
int main(int argc, char **argv) {
    if (argc > 1) {
        store = open_store(argv[1], VV_STORE_WRITE);
        make_checkpoint();
        vv_store_close(store);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_little, set_up, tear_down),
        cmocka_unit_test_setup_teardown(finds_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
