/* All ranks count the votes of a checkpoint together: whatever the nodes and writers, each vote is read once, by a rank
 * of another node, and rank 0 does not read them all. */
#include "store_life.h"

#include "job/job.h"
#include "thread_group.h"

enum { RANKS_MOST = 256 };

struct scene {
    const char *uris[2]; /* of the nodes with even and odd numbers */
    uint32_t writers;    /* for which packs were written */
    int is_by_node;      /* the ranks of a node share one */
    struct vv_lease *lease;
    struct vv_store *stores[RANKS_MOST];
    uint64_t requests[RANKS_MOST]; /* in the commit */
    int codes[RANKS_MOST];
    struct vv_tally tally; /* that rank 0 has */
};

static uint64_t gets_of(struct vv_store *store) {
    struct vv_backend_counts counts;
    return vv_count_get(store->backend, &counts) == 0 ? counts.calls[VV_VERB_GET] : 0;
}

static uint32_t node_itself(void *arg, uint32_t node, uint32_t local) {
    (void)arg, (void)local;
    return node;
}

static void commit(struct varve_comm *comm, void *arg) {
    struct scene *scene = arg;
    struct vv_attempt attempt = at(1, 1, 0);
    struct vv_hash128 digest;
    struct varve_error own = {0};
    struct vv_job job = {.name = NAME, .store = scene->stores[comm->rank], .comm = comm, .log = quiet};
    job.lease = comm->rank == 0 ? scene->lease : NULL;
    struct vv_writers_map map = {.writers = scene->writers, .writer_of = scene->is_by_node ? node_itself : NULL};
    struct vv_tally tally = {.changed = vv_spread_of(100 + comm->rank, comm->rank), /* the last rank has most, */
                             .took = vv_spread_of(1000 - comm->rank, comm->rank)};  /* and the first waits longest */
    tally.sums[VV_TALLY_STORED] = comm->rank + 1;
    uint64_t before = gets_of(job.store);
    scene->codes[comm->rank] = vv_leaders_commit(&job, &attempt, &map, &tally, &digest, &own);
    if (comm->rank == 0)
        scene->tally = tally;
    scene->requests[comm->rank] = gets_of(job.store) - before;
}

static uint32_t first_of(const uint32_t *node_of, uint32_t node) {
    uint32_t rank = 0;
    while (node_of[rank] != node)
        rank++;
    return rank;
}

/* Every rank writes its pack where its node's storage is, as long as there are writers; then they commit. */
static void run(struct scene *scene, uint32_t ranks, const uint32_t *node_of) {
    struct thread_group *group = thread_group_create(ranks, node_of);
    for (uint32_t rank = 0; rank < ranks; rank++)
        scene->stores[rank] = open_store(scene->uris[node_of ? node_of[rank] % 2 : 0], VV_STORE_WRITE);
    ok(take(scene->stores[0], 60, 0, &scene->lease));
    for (uint32_t writer = 0; writer < scene->writers; writer++) {
        struct pack_spec spec = {.writer = writer, .writers = scene->writers};
        uint32_t rank =
            scene->is_by_node ? first_of(node_of, writer) : (uint32_t)((uint64_t)writer * ranks / scene->writers);
        ok(write_pack(scene->stores[rank], at(1, 1, 0), &spec));
    }
    thread_group_run(group, commit, scene);
    thread_group_destroy(group);
}

static void end(struct scene *scene, uint32_t ranks) {
    vv_lease_release(scene->lease);
    for (uint32_t rank = 0; rank < ranks; rank++)
        vv_store_close(scene->stores[rank]);
}

/* What the ranks have done arrives with their votes, each once. */
static void expect_tally(const struct scene *scene, uint64_t ranks) {
    const struct vv_tally *tally = &scene->tally;
    assert_int_equal(tally->sums[VV_TALLY_STORED], ranks * (ranks + 1) / 2);
    assert_int_equal(tally->changed.sum, 100 * ranks + ranks * (ranks - 1) / 2);
    assert_int_equal(tally->changed.least, 100);
    assert_int_equal(tally->changed.most, 100 + ranks - 1);
    assert_int_equal(tally->changed.most_rank, ranks - 1);
    assert_int_equal(tally->took.least, 1000 - (ranks - 1));
    assert_int_equal(tally->took.most, 1000);
    assert_int_equal(tally->took.most_rank, 0);
    assert_int_equal(tally->writers, scene->writers);
    assert_true(tally->written.least > 0 && tally->written.least <= tally->written_median);
    assert_true(tally->written_median <= tally->written.most);
}

static void expect_committed(struct scene *scene, uint32_t ranks) {
    struct vv_record record;
    for (uint32_t rank = 0; rank < ranks; rank++)
        assert_int_equal(scene->codes[rank], 0);
    ok(vv_record_load(scene->stores[0], NAME, 1, 1, &record, &error));
    assert_int_equal(record.writers, scene->writers);
    vv_record_clear(&record);
    assert_whole(scene->stores[0]);
    expect_tally(scene, ranks);
}

enum layout { UNKNOWN, ONE_NODE, IN_TURN, IN_BLOCKS, UNEVEN, LAYOUTS };

static const uint32_t *nodes(enum layout layout, uint32_t ranks, uint32_t *out) {
    for (uint32_t rank = 0; rank < ranks; rank++)
        out[rank] = layout == IN_TURN     ? rank % (ranks < 3 ? ranks : 3)
                    : layout == IN_BLOCKS ? rank * 2 / ranks
                    : layout == UNEVEN    ? rank > 0
                                          : 0;
    return layout == UNKNOWN ? NULL : out;
}

static void every_layout(void **state) {
    static const uint32_t sizes[] = {1, 2, 3, 7, 16};
    uint32_t node_of[RANKS_MOST];
    (void)state;
    for (int layout = 0; layout < LAYOUTS; layout++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const char *uri = fresh_uri();
            struct scene scene = {.uris = {uri, uri}, .writers = sizes[i]};
            run(&scene, sizes[i], nodes(layout, sizes[i], node_of));
            expect_committed(&scene, sizes[i]);
            end(&scene, sizes[i]);
        }
}

/* Ranks that share writers; or fewer ranks than wrote it, as when a smaller job adopts. */
static void other_numbers_of_writers(void **state) {
    static const uint32_t writers[] = {1, 2, 3, 5, 40};
    uint32_t node_of[RANKS_MOST];
    (void)state;
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        const char *uri = fresh_uri();
        struct scene scene = {.uris = {uri, uri}, .writers = writers[i]};
        run(&scene, 6, nodes(IN_BLOCKS, 6, node_of));
        expect_committed(&scene, 6);
        end(&scene, 6);
    }
}

static struct vv_store *open_like(const char *uri, const struct vv_store *like) {
    struct vv_backend_options options = {.may_create = 1};
    struct vv_store_object object = {.settings = like->settings};
    struct varve_backend *backend = NULL;
    struct vv_store *store = NULL;
    memcpy(object.store_id, like->id, sizeof object.store_id);
    ok(vv_backend_open(uri, &options, &backend, &error));
    ok(vv_store_open_as(backend, &object, &quiet, &store, &error));
    return store;
}

/* A node does not see the storage that the others share, and has written elsewhere: nobody else can read its packs, so
 * this must not become a checkpoint. */
static void expect_refused(uint32_t ranks, const uint32_t *node_of, uint32_t writers, int is_by_node) {
    char shared[64], elsewhere[64];
    snprintf(shared, sizeof shared, "%s", fresh_uri());
    snprintf(elsewhere, sizeof elsewhere, "%s", fresh_uri());
    struct scene scene = {.uris = {shared, elsewhere}, .writers = writers, .is_by_node = is_by_node};
    struct vv_store *first = open_store(shared, VV_STORE_WRITE), *other = open_like(elsewhere, first);
    run(&scene, ranks, node_of);
    for (uint32_t rank = 0; rank < ranks; rank++)
        assert_int_equal(scene.codes[rank], VARVE_DISAGREED);
    assert_int_equal(record_state(scene.stores[0], 1, 1), VARVE_NO_CHECKPOINT);
    end(&scene, ranks);
    vv_store_close(first);
    vv_store_close(other);
}

static void a_node_that_writes_elsewhere(void **state) {
    static const uint32_t uneven[] = {0, 1, 1, 2, 2, 2, 2, 2};
    uint32_t node_of[RANKS_MOST];
    (void)state;
    for (int layout = IN_TURN; layout <= UNEVEN; layout++)
        expect_refused(4, nodes(layout, 4, node_of), 4, 0);
    expect_refused(8, uneven, 3, 1);
}

/* Ranks of uneven nodes that share writers: each is counted once. */
static void writers_of_nodes(void **state) {
    static const uint32_t uneven[] = {0, 1, 1, 2, 2, 2, 2, 2};
    const char *uri = fresh_uri();
    struct scene scene = {.uris = {uri, uri}, .writers = 3, .is_by_node = 1};
    (void)state;
    run(&scene, 8, uneven);
    expect_committed(&scene, 8);
    end(&scene, 8);
}

/* Rank 0 does not make more requests than others, however many they are. */
static void many_ranks(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    char uri[96];
    (void)state;
    snprintf(uri, sizeof uri, "%s?count=1", fresh_uri());
    *scene = (struct scene){.uris = {uri, uri}, .writers = RANKS_MOST};
    run(scene, RANKS_MOST, NULL);
    expect_committed(scene, RANKS_MOST);
    print_message("# rank 0 made %llu requests to read, rank 1 made %llu\n", (unsigned long long)scene->requests[0],
                  (unsigned long long)scene->requests[1]);
    assert_in_range(scene->requests[0], 1, 8);
    end(scene, RANKS_MOST);
    free(scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),     cmocka_unit_test(other_numbers_of_writers),
        cmocka_unit_test(writers_of_nodes), cmocka_unit_test(a_node_that_writes_elsewhere),
        cmocka_unit_test(many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
