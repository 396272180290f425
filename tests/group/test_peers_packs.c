/* Packs that hold data of several ranks, read back by all of them: every block is read and decoded by one rank, the
 * others get their parts of it. The checkpoints are made here, by hand, so that every layout is possible. */
#include <inttypes.h>
#include <unistd.h>

#include "folder.h"
#include "group.h"
#include "peers/peers_private.h"
#include "read/view_private.h"
#include "restart/shared_packs.h"
#include "session/session.h"
#include "unit/store_data.h"

#define RANKS_MOST 8
#define OTHER_SHARES 2 /* the second version stores every second share anew */

/* How a checkpoint is stored: every block has a share of each rank of its group, in turns. */
struct layout {
    uint32_t ranks, writers;
    uint32_t share; /* bytes of one rank in a block */
    uint32_t turn;
    uint32_t shares; /* of each rank; the last one is a little shorter */
    int codec;
    uint64_t part_size; /* 0: no parts */
    int has_moved;      /* every third block is stored by the next writer */
    int is_apart;       /* every share is a block of its own */
};

struct plan {
    struct layout layout;
    const char *settings;
    int64_t version;
    uint64_t window;
    unsigned threads;
    int is_continued;  /* the bytes stay where they are */
    int removes;       /* one rank removes a pack before the bytes are read */
    int is_hostile;    /* questions with random changes */
    int is_told_later; /* only even ranks know that packs are shared */
    uint64_t fail_at;  /* the allocation of rank 1 that fails */
};

/* What the ranks tell the test. */
struct board {
    int code[RANKS_MOST];
    int64_t version[RANKS_MOST];
    uint64_t read[RANKS_MOST];
    uint64_t decoded[RANKS_MOST];
    uint64_t wishes[RANKS_MOST], refused[RANKS_MOST]; /* blocks of which others were asked for parts */
    char text[RANKS_MOST][256];
    uint64_t allocations; /* of rank 1 */
    uint64_t sound;       /* hostile questions that were answered */
};

static struct board *board;
static char folder[128];
static uint64_t blocks_made, stored_made; /* of the version made last */

/* ---- what is stored ---- */

static uint64_t size_of(const struct layout *layout) {
    return (uint64_t)layout->share * layout->shares - 123;
}

/* A few hundred different bytes in a row, then again: it compresses, and no two places are alike. */
static uint8_t byte_of(const struct layout *layout, uint32_t rank, int64_t version, uint64_t at) {
    uint64_t share = at / layout->share, made = version == 2 && share % OTHER_SHARES ? 2 : 1;
    if (version == 2 && share == 0) /* it is what the next rank has had */
        rank = (rank + 1) % layout->ranks;
    uint64_t x = rank * UINT64_C(1000003) + share * 10007 + made * 101 + (at / 1024) * 31 + at % 61;
    x = (x ^ (x >> 11)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint8_t)(x >> 48);
}

static void fill(const struct layout *layout, uint32_t rank, int64_t version, uint8_t *out) {
    for (uint64_t i = 0; i < size_of(layout); i++)
        out[i] = byte_of(layout, rank, version, i);
}

/* ---- making packs ---- */

struct making {
    const struct layout *layout;
    struct vv_store *store;
    int64_t version;
    uint8_t *fields[RANKS_MOST];
};

static int is_moved(const struct layout *layout, uint32_t share) {
    return layout->has_moved && layout->writers > 1 && share % 3 == 2;
}

static int is_made(int64_t version, uint32_t share) {
    return version == 1 || share % OTHER_SHARES == 1;
}

/* The block that has this share of some ranks. */
static void put_share(const struct making *making, struct vv_pack_writer *pack, uint32_t first, uint32_t owners,
                      uint32_t share) {
    const struct layout *layout = making->layout;
    uint32_t count = 0;
    uint64_t begin = (uint64_t)share * layout->share, size = size_of(layout) - begin;
    uint32_t length = size < layout->share ? (uint32_t)size : layout->share;
    struct vv_extent *extents = calloc((size_t)owners * (length / layout->turn + 1), sizeof *extents);
    uint8_t *raw = malloc((size_t)owners * length), *at = raw;
    for (uint32_t done = 0; done < length; done += layout->turn)
        for (uint32_t owner = first; owner < first + owners; owner++) {
            uint32_t n = length - done < layout->turn ? length - done : layout->turn;
            extents[count++] = (struct vv_extent){owner, begin + done, n};
            memcpy(at, making->fields[owner] + begin + done, n);
            at += n;
        }
    put_block(making->store, pack, extents, count, raw, layout->codec, layout->turn % VV_GRANULE == 0);
    blocks_made++;
    free(raw);
    free(extents);
}

static void put_manifest(const struct making *making, struct vv_pack_writer *pack, uint32_t owner) {
    const struct layout *layout = making->layout;
    uint64_t size = size_of(layout);
    struct mf mf;
    mf_begin(&mf, owner, size);
    mf_region(&mf, 1, "field", 0, size, VV_REGION_DESCRIBED);
    for (uint32_t i = 0; i < layout->shares; i++) {
        uint64_t begin = (uint64_t)i * layout->share, left = size - begin;
        uint64_t length = left < layout->share ? left : layout->share;
        struct vv_place place = {.dependency = 1, .owner = i ? owner : (owner + 1) % layout->ranks, .address = begin};
        if (making->version == 1 && i == 0)
            mf_run(&mf, VV_RUN_HERE, size, NULL, 0);
        if (making->version == 2)
            mf_run(&mf, is_made(2, i) ? VV_RUN_HERE : VV_RUN_FROM, length, is_made(2, i) ? NULL : &place, 0);
    }
    vv_manifest_region_end(&mf.writer, region_digest(making->store, making->fields[owner], size));
    mf.head.regions = 1;
    mf.head.protected_bytes = size;
    mf_store(&mf, pack, NULL);
}

static const struct making *moving;
static uint32_t moved_group;

/* A moved section, as a writer makes it that gave some of its blocks to the next one. */
static void add_moved(struct surgery *s, int is_footer_encoded) {
    const struct layout *layout = moving->layout;
    uint32_t owners = layout->ranks / layout->writers, count = s->footer.section_count;
    struct vv_extent_coder coder = {.owner = moved_group * owners};
    if (is_footer_encoded)
        return;
    s->footer.sections = vv_realloc(s->footer.sections, (count + 1) * sizeof s->footer.sections[0]);
    for (uint32_t i = count; i > 3; i--) { /* before the manifests */
        s->footer.sections[i] = s->footer.sections[i - 1];
        s->section[i] = s->section[i - 1];
    }
    s->footer.sections[3] = (struct vv_section){.kind = VV_SECTION_MOVED};
    s->footer.section_count = count + 1;
    vv_buf_init(&s->section[3]);
    for (uint32_t owner = moved_group * owners; owner < (moved_group + 1) * owners; owner++)
        for (uint32_t i = 0; i < layout->shares; i++) {
            uint64_t begin = (uint64_t)i * layout->share, left = size_of(layout) - begin;
            uint64_t length = left < layout->share ? left : layout->share;
            struct vv_moved moved = {.extent = {owner, begin, (uint32_t)length},
                                     .length = length,
                                     .writer = (moved_group + 1) % layout->writers};
            if (is_moved(layout, i) && is_made(moving->version, i))
                vv_moved_encode(&s->section[3], &coder, &moved);
        }
}

static void make_pack(const struct making *making, uint32_t writer, const struct vv_dependency *dependency) {
    const struct layout *layout = making->layout;
    uint32_t owners = layout->ranks / layout->writers, before = (writer + layout->writers - 1) % layout->writers;
    struct vv_pack_options options = {.writer = writer,
                                      .writers = layout->writers,
                                      .ranks = layout->ranks,
                                      .first_owner = writer * owners,
                                      .owners = owners,
                                      .part_size = layout->part_size ? layout->part_size : 1u << 30,
                                      .program = "test"};
    struct vv_pack_writer *pack = begin_pack(making->store, attempt_at(1, (uint64_t)making->version), &options);
    for (uint32_t i = 0; i < layout->shares; i++) {
        uint32_t first = (is_moved(layout, i) ? before : writer) * owners;
        for (uint32_t owner = first; owner < first + owners && is_made(making->version, i) && layout->is_apart; owner++)
            put_share(making, pack, owner, 1, i);
        if (is_made(making->version, i) && !layout->is_apart)
            put_share(making, pack, first, owners, i);
    }
    assert_ok(vv_pack_dependencies(pack, dependency, making->version == 2, &failure));
    for (uint32_t owner = writer * owners; owner < (writer + 1) * owners; owner++)
        put_manifest(making, pack, owner);
    struct vv_pack_sums sums;
    assert_ok(vv_pack_seal(pack, size_of(layout) * owners, owners, &sums, &failure));
    stored_made += sums.stored_bytes;
}

static void make_version(struct making *making, int64_t version, struct vv_dependency *dependency) {
    const struct layout *layout = making->layout;
    making->version = version;
    blocks_made = stored_made = 0;
    for (uint32_t i = 0; i < layout->ranks; i++) {
        making->fields[i] = malloc(size_of(layout));
        fill(layout, i, version, making->fields[i]);
    }
    for (uint32_t i = 0; i < layout->writers; i++)
        make_pack(making, i, dependency);
    commit(making->store, attempt_at(1, (uint64_t)version), dependency);
    moving = making;
    for (moved_group = 0; moved_group < layout->writers && layout->has_moved; moved_group++)
        operate(making->store, attempt_at(1, (uint64_t)version), moved_group, add_moved);
    struct vv_record record; /* its writers list may be another one now */
    assert_ok(vv_record_load(making->store, NAME, 1, (uint64_t)version, &record, &failure));
    dependency->writers_digest = record.writers_digest;
    vv_record_clear(&record);
    for (uint32_t i = 0; i < layout->ranks; i++)
        free(making->fields[i]);
}

static struct vv_store *open_folder(void) {
    char uri[256];
    snprintf(uri, sizeof uri, "file://%s?count=1", folder);
    return open_store(uri);
}

static void make(const struct layout *layout, int versions) {
    struct making making = {.layout = layout, .store = open_folder()};
    struct vv_dependency dependency;
    for (int64_t version = 1; version <= versions; version++)
        make_version(&making, version, &dependency);
    vv_store_close(making.store);
}

/* ---- in the ranks: reading as a restart does ---- */

struct rank {
    const struct plan *plan;
    struct varve_comm *comm;
    struct vv_store *store;
    struct vv_peers *peers;
    struct vv_view *view;
    uint8_t *field;
};

static void check(const struct rank *rank, int64_t version) {
    const struct layout *layout = &rank->plan->layout;
    for (uint64_t i = 0; i < size_of(layout); i++)
        if (rank->field[i] != byte_of(layout, rank->comm->rank, version, i))
            group_fail(rank->comm, "WRONG BYTES: version %" PRId64 " differs at %" PRIu64, version, i);
}

static int look(void *arg, struct vv_store *store, struct varve_error *error) {
    struct rank *rank = arg;
    int is_shared_pack = 0;
    int rc = vv_view_open(store, NAME, 1, (uint64_t)rank->plan->version, &rank->view, error);
    if (rc == 0)
        vv_view_expect_owner(rank->view, rank->comm->rank);
    if (rc == 0 && !(rank->plan->is_told_later && rank->comm->rank % 2))
        rc = vv_find_shared_packs(rank->view, rank->peers, rank->comm->rank, &is_shared_pack, error);
    return rc;
}

static int read_field(struct rank *rank, struct vv_fetch *fetch, struct varve_error *error) {
    struct vv_recipe *recipe;
    struct vv_recipe_region region;
    struct vv_run run;
    int rc = vv_recipe_open(rank->view, rank->comm->rank, &recipe, error);
    if (rc)
        return rc;
    rc = vv_recipe_next_region(recipe, &region, error);
    while (rc >= 0 && (rc = vv_recipe_next_run(recipe, &run, error)) > 0)
        rc = vv_fetch_add(fetch, &run, 0, run.length, rank->field + run.offset, 0, error);
    vv_recipe_close(recipe);
    return rc;
}

static void remove_pack(struct rank *rank) {
    struct vv_attempt attempt = attempt_at(1, (uint64_t)rank->plan->version);
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_PACK, 0, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    if (vv_backend_remove(rank->store->backend, text) != 0)
        group_fail(rank->comm, "%s cannot be removed", text);
}

/* The tables first, so that a pack can be removed when only the blocks are missing. */
static int fetch(void *arg, struct vv_store *store, struct varve_error *error) {
    struct rank *rank = arg;
    struct vv_pool *pool = NULL;
    struct vv_fetch *fetch = NULL;
    (void)store;
    int rc = vv_pool_create(rank->plan->threads, 4, NULL, &pool);
    if (rc == 0)
        rc = vv_fetch_create(rank->view, pool, &fetch);
    if (rc == 0)
        rc = read_field(rank, fetch, error);
    if (rc == 0 && rank->plan->removes && rank->comm->rank == 1)
        remove_pack(rank);
    if (rc == 0)
        rc = vv_fetch_run(fetch, error);
    vv_fetch_destroy(fetch);
    vv_pool_destroy(pool);
    return rc;
}

/* ---- in the ranks: questions that nobody should ask ---- */

/* A question about the first block of the first pack: `count` parts of `length` bytes, each `step` behind the one
 * before, the first at `first`. */
struct list {
    int64_t first, step;
    uint64_t length;
    uint32_t count;
};

static void make_question(struct rank *rank, const struct list *list, const char *name, struct vv_buf *out) {
    struct vv_attempt attempt = attempt_at(1, (uint64_t)rank->plan->version);
    struct vv_key key = vv_attempt_key(name, &attempt, VV_KIND_PACK, 0, 0);
    struct vv_cached *tables;
    char text[VV_KEY_CAPACITY];
    if (vv_view_tables(rank->view, 0, 0, &tables, &failure) < 0)
        group_fail(rank->comm, "%s", failure.text);
    const struct vv_block *block = &((struct vv_pack_tables *)tables->object)->blocks[0];
    vv_key_print(&key, text);
    vv_buf_init(out);
    vv_peers_begin_question(out, VV_ASKED_PARTS, text, block->offset);
    vv_block_encode(out, block);
    for (uint32_t i = 0; i < list->count; i++) {
        vv_buf_svarint(out, i ? list->step : list->first);
        vv_buf_varint(out, list->length);
    }
    vv_put32(out->data + 4, (uint32_t)(list->length * list->count));
    vv_view_release(rank->view, tables);
}

/* 1 if it was answered with bytes. */
static int answer_one(struct rank *rank, const struct vv_buf *data, uint32_t size) {
    struct vv_peers_round round = {.peers = rank->peers};
    uint8_t *exact = malloc(size ? size : 1); /* so that whoever reads behind it is caught */
    struct vv_question question = {.home = rank->comm->rank, .size = size, .data = exact};
    struct vv_buf out;
    uint32_t length = 0;
    memcpy(exact, data->data, size);
    vv_buf_init(&out);
    int rc = vv_peers_ask_ops.answer(&round, &question, 1, &out, &length);
    int is_answered = rc == 0 && length > 4;
    if (rc != 0 || length < 4 || length != out.size || (is_answered && vv_get32(out.data) != 0))
        group_fail(rank->comm, "an answer of %u bytes, %d", length, rc);
    vv_buf_clear(&out);
    free(exact);
    return is_answered;
}

static void expect_answer(struct rank *rank, struct list list, const char *name, int is_answered) {
    struct vv_buf question;
    make_question(rank, &list, name, &question);
    if (answer_one(rank, &question, (uint32_t)question.size) != is_answered)
        group_fail(rank->comm, "%" PRId64 " %" PRId64 " %" PRIu64 " %u of %s was %s", list.first, list.step,
                   list.length, list.count, name, is_answered ? "refused" : "answered");
    vv_buf_clear(&question);
}

static void ask_too_much(struct rank *rank) {
    int64_t raw = (int64_t)rank->plan->layout.share * 4;
    expect_answer(rank, (struct list){0, 0, (uint64_t)raw, 1}, NAME, 1);
    expect_answer(rank, (struct list){raw - 7, 0, 7, 1}, NAME, 1);
    expect_answer(rank, (struct list){0, -raw, (uint64_t)raw, 4}, NAME, 1); /* the same four times: 1 MiB */
    expect_answer(rank, (struct list){0, -raw, (uint64_t)raw, 5}, NAME, 0);
    expect_answer(rank, (struct list){0, 1, 1, VV_PARTS_MOST}, NAME, 1);
    expect_answer(rank, (struct list){0, 1, 1, VV_PARTS_MOST + 1}, NAME, 0);
    expect_answer(rank, (struct list){raw - 7, 0, 8, 1}, NAME, 0);
    expect_answer(rank, (struct list){raw, 0, 1, 1}, NAME, 0);
    expect_answer(rank, (struct list){-1, 0, 1, 1}, NAME, 0);
    expect_answer(rank, (struct list){INT64_MIN, 0, 1, 1}, NAME, 0);
    expect_answer(rank, (struct list){0, 0, UINT64_MAX, 1}, NAME, 0);
    expect_answer(rank, (struct list){0, 0, 0, 1}, NAME, 0);
    expect_answer(rank, (struct list){0, 0, 0, 0}, NAME, 0);
    expect_answer(rank, (struct list){0, 0, 1, 1}, "other", 0);
}

static int be_hostile(void *arg, struct vv_store *store, struct varve_error *error) {
    struct rank *rank = arg;
    struct vv_buf question, changed;
    (void)store, (void)error;
    if (rank->comm->rank != 0)
        return 0;
    ask_too_much(rank);
    make_question(rank, &(struct list){10, -50, 100, 4}, NAME, &question);
    random_state = 5;
    for (int i = 0; i < 4000; i++) {
        vv_buf_init(&changed);
        vv_buf_append(&changed, question.data, question.size);
        uint32_t size = random_below(4) ? (uint32_t)question.size : (uint32_t)random_below(question.size);
        for (uint32_t k = 0; k <= random_below(3); k++) /* mostly behind the key */
            changed.data[random_below(2) ? random_below(question.size) : question.size - 1 - random_below(72)] =
                (uint8_t)random_below(256);
        board->sound += (uint64_t)answer_one(rank, &changed, size);
        vv_buf_clear(&changed);
    }
    vv_buf_clear(&question);
    return 0;
}

/* ---- in the ranks: counting what others are asked for ---- */

static uint32_t counting; /* this rank */

static int count_shared(void *arg, const struct vv_attempt *attempt, uint32_t writer) {
    return vv_peers_parts_ops.is_shared(arg, attempt, writer);
}

static void count_get(void *arg, const char *key, struct vv_block_wish *list, size_t count) {
    vv_peers_parts_ops.get(arg, key, list, count);
    for (size_t i = 0; i < count; i++) {
        __atomic_fetch_add(&board->wishes[counting], 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&board->refused[counting], list[i].result != 0, __ATOMIC_RELAXED);
    }
}

static uint64_t bytes_read(struct vv_store *store, struct varve_comm *comm) {
    struct vv_backend_counts counts;
    if (vv_count_get(store->backend, &counts) != 0)
        group_fail(comm, "there is no count");
    return counts.bytes_read;
}

static void run_rank(struct varve_comm *comm, void *arg) {
    const struct plan *plan = arg;
    struct rank rank = {.plan = plan, .comm = comm, .field = malloc(size_of(&plan->layout)), .store = open_folder()};
    struct varve_error error = {0};
    uint32_t r = comm->rank;
    const struct vv_peers_options options = {
        .comm = comm, .store = rank.store, .name = NAME, .threads = plan->threads, .window = plan->window};
    uint64_t before = bytes_read(rank.store, comm);
    vv_alloc_fail_at(r == 1 ? plan->fail_at : 0);
    int rc = vv_comm_agree(comm, vv_peers_open(&options, &rank.peers, &error), &error);
    static const struct vv_parts_ops counted = {.is_shared = count_shared, .get = count_get};
    counting = r;
    if (rc == 0) {
        vv_peers_store(rank.peers)->parts = &counted;
        rc = vv_peers_work(rank.peers, look, &rank, &error);
        rc = vv_peers_need(rank.peers, rc, &(struct vv_peers_needs){.is_needed = 1}, &error);
    }
    if (rc == 0)
        rc = vv_peers_run(rank.peers, plan->is_hostile ? be_hostile : fetch, &rank, &error);
    if (r == 1)
        board->allocations = vv_alloc_count();
    vv_alloc_fail_at(0);
    board->code[r] = rc;
    board->read[r] = bytes_read(rank.store, comm) - before;
    board->decoded[r] = rank.peers ? vv_peers_decoded(rank.peers) : 0;
    snprintf(board->text[r], sizeof board->text[r], "%.255s", error.text);
    if (rc == 0 && !plan->is_hostile)
        check(&rank, plan->version);
    vv_view_close(rank.view);
    vv_peers_close(rank.peers);
    vv_store_close(rank.store);
    free(rank.field);
}

/* ---- in the ranks: a session ---- */

static void run_session(struct varve_comm *comm, void *arg) {
    const struct plan *plan = arg;
    struct rank rank = {.plan = plan, .comm = comm, .field = malloc(size_of(&plan->layout))};
    struct vv_restart_options options = {.version = plan->version};
    struct varve_error error = {0};
    struct vv_settings settings;
    struct vv_session *session;
    char text[256], address[256];
    uint32_t r = comm->rank;
    snprintf(text, sizeof text, "beat_seconds=1,dead_seconds=2,takeover_seconds=20,%s", plan->settings);
    snprintf(address, sizeof address, "file://%s?count=1", folder);
    vv_settings_init(&settings);
    int rc = vv_settings_load(&settings, text, &quiet, &error);
    if (rc == 0)
        rc = vv_session_open(address, NAME, &settings, &quiet, group_comm(comm), &session, &error);
    if (rc)
        group_fail(comm, "open: %s", error.text);
    if (vv_session_protect(session, "field", rank.field, size_of(&plan->layout), 0) != 0)
        group_fail(comm, "protect");
    uint64_t before = bytes_read(session->job.store, comm);
    vv_alloc_fail_at(r == 1 ? plan->fail_at : 0);
    board->code[r] = plan->is_continued ? vv_session_continue(session, plan->version, &board->version[r], &error)
                                        : vv_session_restart(session, &options, &board->version[r], &error);
    if (r == 1)
        board->allocations = vv_alloc_count();
    vv_alloc_fail_at(0);
    board->read[r] = bytes_read(session->job.store, comm) - before;
    snprintf(board->text[r], sizeof board->text[r], "%.255s", error.text);
    if (board->code[r] == 0 && !plan->is_continued)
        check(&rank, board->version[r]);
    struct varve_comm *inner = session->job.given;
    vv_session_close(session);
    inner->ops->close(inner);
    free(rank.field);
}

/* ---- in the test ---- */

static int setup(void **state) {
    (void)state;
    board = group_memory(sizeof *board);
    return folder_make(NULL, "varve-packs", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(board, sizeof *board);
    return folder_remove(folder);
}

static void run(const struct plan *plan, group_fn fn) {
    struct group_options options = {.seconds = 60, .ranks_per_node = 4};
    memset(board, 0, sizeof *board);
    group_must_run(plan->layout.ranks, fn, plan, &options, NULL);
    for (uint32_t i = 1; i < plan->layout.ranks; i++)
        assert_int_equal(board->code[i], board->code[0]);
}

static void assert_well(const struct plan *plan) {
    for (uint32_t i = 0; i < plan->layout.ranks; i++)
        if (board->code[i] != 0)
            fail_msg("rank %u: %s", i, board->text[i]);
}

static uint64_t sum_of(const uint64_t *values, uint32_t count) {
    uint64_t sum = 0;
    while (count > 0)
        sum += values[--count];
    return sum;
}

/* Everything came, and every block was read once and decoded once in the job. */
static void assert_once(const struct plan *plan) {
    assert_well(plan);
    uint64_t decoded = sum_of(board->decoded, plan->layout.ranks), read = sum_of(board->read, plan->layout.ranks);
    print_message("[          ] %" PRIu64 " blocks, %" PRIu64 " decoded; %.3f of the stored bytes read\n", blocks_made,
                  decoded, (double)read / (double)stored_made);
    assert_int_equal(decoded, blocks_made);
    assert_true(sum_of(board->wishes, plan->layout.ranks) >= blocks_made * plan->layout.ranks / plan->layout.writers);
    assert_int_equal(sum_of(board->refused, plan->layout.ranks), 0);
}

static const struct layout usual = {
    .ranks = 8, .writers = 2, .share = 64u << 10, .turn = 4096, .shares = 40, .codec = VV_CODEC_ZSTD};

static void every_block_once(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 256u << 20, .threads = 4};
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_once(&plan);
    plan.threads = 0;
    run(&plan, run_rank);
    assert_once(&plan);
}

/* Whole shares one after the other, nothing compressed, in parts: several objects. */
static void concatenated(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 256u << 20, .threads = 4};
    plan.layout.turn = plan.layout.share;
    plan.layout.codec = VV_CODEC_NONE;
    plan.layout.part_size = 3u << 20;
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_once(&plan);
    assert_true((double)sum_of(board->read, 8) < 1.25 * (double)stored_made);
    for (uint32_t i = 0; i < 8; i++) /* the work is spread */
        assert_in_range(board->decoded[i], 1, blocks_made / 4);
}

static void moved(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 256u << 20, .threads = 4};
    plan.layout.has_moved = 1;
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_once(&plan);
}

static void many_small_pieces(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 256u << 20, .threads = 4};
    plan.layout.ranks = 4;
    plan.layout.share = 128u << 10;
    plan.layout.turn = 16; /* 8192 pieces per block: more than one question may have */
    plan.layout.shares = 4;
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_once(&plan);
    plan.layout.turn = 1000; /* no power of two */
    teardown(NULL);
    setup(NULL);
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_once(&plan);
}

/* A window of 1 MiB: less than a block, and less than what a rank wants of one. Blocks may be decoded again then. */
static void small_windows(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 1, .threads = 2};
    plan.layout.ranks = 4;
    plan.layout.share = 3u << 20;
    plan.layout.turn = 8192;
    plan.layout.shares = 3;
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_well(&plan);
    assert_true(sum_of(board->decoded, 4) >= blocks_made);
    plan.layout.turn = plan.layout.share; /* one part of it is more than one question may ask for */
    teardown(NULL);
    setup(NULL);
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_well(&plan);
    assert_true(sum_of(board->decoded, 4) >= blocks_made);
}

/* Blocks that have only one rank's bytes come as they are stored, and that rank decodes them. */
static void blocks_apart(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 256u << 20, .threads = 4};
    plan.layout.is_apart = 1;
    plan.layout.codec = VV_CODEC_NONE;
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_well(&plan);
    assert_int_equal(sum_of(board->decoded, 8), 0);
    assert_true((double)sum_of(board->read, 8) < 1.25 * (double)stored_made);
}

/* Who does not know that packs are shared asks others than those who do. */
static void not_all_know(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 256u << 20, .threads = 4, .is_told_later = 1};
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_well(&plan);
}

static void removed_meanwhile(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 1, .threads = 4, .removes = 1};
    plan.layout.shares = 100;
    make(&plan.layout, 1);
    run(&plan, run_rank);
    if (board->code[0] != 0) { /* unless all was in memory already */
        assert_int_equal(board->code[0], VARVE_CORRUPT);
        assert_non_null(strstr(board->text[0], "although the record"));
    }
}

static void hostile_questions(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 4u << 20, .threads = 0, .is_hostile = 1};
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_well(&plan);
    assert_in_range(board->sound, 1, 3000);
}

/* ---- whole sessions ---- */

static void sessions(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = VARVE_LATEST, .settings = "threads=2"};
    plan.layout.has_moved = 1;
    make(&plan.layout, 2); /* half of it depends on the first */
    run(&plan, run_session);
    assert_well(&plan);
    assert_int_equal(board->version[0], 2);
    print_message("[          ] %.3f of the stored bytes read\n",
                  (double)sum_of(board->read, 8) / (2 * (double)stored_made));
    plan.version = 1;
    plan.settings = "threads=0,restart_window=1M";
    run(&plan, run_session);
    assert_well(&plan);
    assert_int_equal(board->version[0], 1);
}

/* Going on from it: only tables and ids are read, by one rank for all that need them. */
static void continued(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = VARVE_LATEST, .settings = "threads=2", .is_continued = 1};
    plan.layout.shares = 400; /* so that there is more than a few pages of it */
    plan.layout.share = 16u << 10;
    make(&plan.layout, 1);
    run(&plan, run_session);
    assert_well(&plan);
    uint64_t tables = plan.layout.shares * plan.layout.share / VV_GRANULE * 8 * 20; /* ids, and a little for extents */
    print_message("[          ] %.3f of the tables read\n", (double)sum_of(board->read, 8) / (double)tables);
    assert_true((double)sum_of(board->read, 8) < 5.5 * (double)tables); /* 7.4 if everybody reads all of it */
}

static void damage_pack(int64_t version, uint32_t writer, uint64_t at) {
    struct vv_store *store = open_folder();
    struct vv_attempt attempt = attempt_at(1, (uint64_t)version);
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_PACK, writer, 0);
    struct vv_buf bytes;
    get_object(store, &key, &bytes);
    bytes.data[at] ^= 0x10;
    put_object(store, &key, &bytes);
    vv_store_close(store);
}

static void damaged(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = VARVE_LATEST, .settings = "threads=2"};
    make(&plan.layout, 2);
    damage_pack(2, 1, 200);
    plan.version = 2;
    run(&plan, run_session);
    assert_int_equal(board->code[0], VARVE_CORRUPT);
    if (!strstr(board->text[0], "block 0 at byte 96 is damaged: its sum does not match"))
        fail_msg("%s", board->text[0]);
    plan.version = VARVE_LATEST;
    run(&plan, run_session);
    assert_well(&plan);
    assert_int_equal(board->version[0], 1);
}

static void missing_pack(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = VARVE_LATEST, .settings = "threads=2"};
    make(&plan.layout, 2);
    struct vv_store *store = open_folder();
    struct vv_attempt attempt = attempt_at(1, 2);
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_PACK, 1, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    assert_ok(vv_backend_remove(store->backend, text));
    vv_store_close(store);
    run(&plan, run_session);
    assert_well(&plan);
    assert_int_equal(board->version[0], 1);
}

/* One rank has no memory at some point: all are told the same, and nobody waits for ever. */
static void no_memory(void **state) {
    (void)state;
    struct plan plan = {.layout = usual, .version = 1, .window = 4u << 20, .threads = 2};
    uint64_t failed = 0;
    plan.layout.ranks = 4;
    plan.layout.shares = 6;
    make(&plan.layout, 1);
    run(&plan, run_rank);
    assert_well(&plan);
    uint64_t count = board->allocations;
    if (count == 0)
        skip(); /* a build without fault points */
    for (uint64_t k = 1; k <= count; k += count / 40 + 1) {
        plan.fail_at = k;
        run(&plan, run_rank);
        assert_true(board->code[0] == 0 || board->code[0] == -ENOMEM);
        failed += board->code[0] != 0;
    }
    assert_true(failed > 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(every_block_once),  TEST(concatenated),      TEST(moved),
                                       TEST(many_small_pieces), TEST(small_windows),     TEST(blocks_apart),
                                       TEST(not_all_know),      TEST(removed_meanwhile), TEST(sessions),
                                       TEST(hostile_questions), TEST(continued),         TEST(damaged),
                                       TEST(missing_pack),      TEST(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
