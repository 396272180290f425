/* Questions that travel: who talks to whom, for every number of nodes; what arrives and what comes back, against what
 * all ranks are known to have asked; and what happens when one of them fails. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "comm/hops.h"
#include "comm/hops_grid.h"
#include "test.h"
#include "thread_group.h"

static _Thread_local struct varve_error ignored; /* ranks are threads */

static uint64_t mix(uint64_t value) {
    value = (value + 1) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return value ^ value >> 29;
}

/* ---- who talks to whom ---- */

struct world {
    struct thread_group *group;
    struct thread_comm *comms;
    struct vv_grid *grids;
};

static struct world make_world(uint32_t ranks, const uint32_t *node_of, int columns) {
    struct world world = {thread_group_create(ranks, node_of), calloc(ranks, sizeof *world.comms),
                          calloc(ranks, sizeof *world.grids)};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        world.comms[rank] = thread_comm_of(world.group, rank);
        vv_grid_init(&world.grids[rank], &world.comms[rank].comm);
        assert_int_equal(
            vv_grid_lay_out(&world.grids[rank], columns < 0 ? vv_grid_square(&world.grids[rank]) : (uint32_t)columns),
            0);
    }
    return world;
}

static void drop_world(struct world *world) {
    for (uint32_t rank = 0; rank < world->group->ranks; rank++)
        vv_grid_clear(&world->grids[rank]);
    thread_group_destroy(world->group);
    free(world->comms);
    free(world->grids);
}

/* Who sends is expected, and who is expected sends. */
static void check_partners(const struct world *world) {
    for (uint32_t rank = 0; rank < world->group->ranks; rank++) {
        const struct vv_grid *grid = &world->grids[rank];
        assert_int_equal(grid->stage_count, world->grids[0].stage_count);
        for (uint32_t s = 0; s < grid->stage_count; s++) {
            const struct vv_stage *stage = &grid->stages[s];
            for (uint32_t i = 0; i < stage->out.count; i++) {
                const struct vv_stage *other = &world->grids[stage->out.ranks[i]].stages[s];
                assert_int_equal(vv_partners_find(&stage->out, stage->out.ranks[i]),
                                 i); /* and so none is there twice */
                assert_int_not_equal(vv_partners_find(&other->from, rank), UINT32_MAX);
            }
            for (uint32_t i = 0; i < stage->from.count; i++) {
                const struct vv_stage *other = &world->grids[stage->from.ranks[i]].stages[s];
                assert_int_equal(vv_partners_find(&stage->from, stage->from.ranks[i]), i);
                assert_int_not_equal(vv_partners_find(&other->out, rank), UINT32_MAX);
            }
        }
    }
}

static uint32_t follow(const struct world *world, uint32_t from, struct vv_seat home) {
    uint32_t at = from;
    for (uint32_t s = 0; s < world->grids[0].stage_count; s++) {
        const struct vv_stage *stage = &world->grids[at].stages[s];
        uint32_t next = vv_grid_next(&world->grids[at], stage, home);
        assert_true(next < stage->out.count);
        at = stage->out.ranks[next];
    }
    return at;
}

static void check_ways(const struct world *world) {
    uint32_t ranks = world->group->ranks;
    for (uint32_t from = 0; from < ranks; from++) {
        for (uint32_t to = 0; to < ranks; to++)
            assert_int_equal(follow(world, from, vv_grid_place(&world->grids[from], to)), to);
        struct vv_hash128 id = {mix(from), mix(from + 1000)};
        struct vv_seat home = vv_grid_home(&world->grids[from], id);
        assert_int_equal(follow(world, from, home), vv_grid_rank(&world->grids[0], home));
        struct vv_seat same = vv_grid_home(&world->grids[0], id);
        assert_true(home.node == same.node && home.local == same.local);
    }
}

/* Node n has width + extra(n) ranks; is_mixed: the ranks of a node are not neighbours. Returns how many. */
static uint32_t spread_ranks(uint32_t *node_of, uint32_t nodes, uint32_t width, uint32_t extra, int is_mixed) {
    uint32_t ranks = 0;
    for (uint32_t local = 0; local < width + extra; local++)
        for (uint32_t node = 0; node < nodes; node++)
            if (local < width || mix(node * 7 + local) % 2)
                node_of[ranks++] = node;
    for (uint32_t i = 0; i < ranks && !is_mixed; i++)
        for (uint32_t k = i + 1; k < ranks; k++)
            if (node_of[k] < node_of[i]) {
                uint32_t node = node_of[i];
                node_of[i] = node_of[k];
                node_of[k] = node;
            }
    return ranks;
}

static void every_way_leads_home(void **state) {
    uint32_t node_of[THREAD_RANKS_MAX];
    (void)state;
    for (uint32_t nodes = 1; nodes <= 27; nodes++)
        for (uint32_t kind = 0; kind < 8; kind++) {
            uint32_t ranks = spread_ranks(node_of, nodes, 1 + kind % 2 * 2, kind / 2 % 2 * 3, kind / 4);
            for (int columns = -1; columns <= (int)nodes; columns += 1 + (int)nodes / 4) {
                struct world world = make_world(ranks, node_of, columns);
                check_partners(&world);
                check_ways(&world);
                drop_world(&world);
            }
        }
}

static void partners_are_few(void **state) {
    uint32_t node_of[THREAD_RANKS_MAX];
    (void)state;
    for (uint32_t nodes = 1; nodes <= 200; nodes += nodes < 20 ? 1 : 13) {
        uint32_t ranks = spread_ranks(node_of, nodes, 2, 0, 0), root = 1, most = 0;
        struct world world = make_world(ranks, node_of, -1);
        while (root * root < nodes)
            root++;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            uint32_t out = 0, from = 0;
            for (uint32_t s = 0; s < world.grids[rank].stage_count; s++) {
                out += world.grids[rank].stages[s].out.count;
                from += world.grids[rank].stages[s].from.count;
            }
            most = out > most ? out : most;
            most = from > most ? from : most;
        }
        assert_true(most <= 2 + 2 * root + 2);
        drop_world(&world);
    }
}

static void knows_when_to_take_which_way(void **state) {
    uint32_t node_of[THREAD_RANKS_MAX];
    (void)state;
    uint32_t ranks = spread_ranks(node_of, 16, 8, 0, 0);
    struct world world = make_world(ranks, node_of, -1);
    struct vv_grid *grid = &world.grids[5];
    assert_int_equal(vv_grid_columns(grid, 65536), 0); /* 128 ranks: flat */
    assert_int_equal(vv_grid_columns(grid, 2048), 16); /* all nodes in one row */
    assert_int_equal(vv_grid_columns(grid, 100), 4);   /* 4 x 4 */
    drop_world(&world);
    world = make_world(16, node_of, -1);
    assert_int_equal(vv_grid_columns(&world.grids[0], 1), 0);
    drop_world(&world);
}

/* ---- asking ---- */

enum wrong { NOTHING, WRONG_MERGE, WRONG_ANSWER, WRONG_TAKE };

struct scene {
    uint32_t ranks;
    int shape;
    uint32_t asked;  /* questions of a rank, at most */
    uint32_t common; /* how many ids there are that any rank may ask about; every other question is the rank's own */
    int is_by_name;  /* homes are given */
    int is_plain;    /* no data, no merge */
    uint64_t seed;
    int rounds;
    enum wrong wrong;
    uint32_t wrong_rank;
    _Atomic uint64_t messages, answered;
    int codes[THREAD_RANKS_MAX];
    struct varve_error errors[THREAD_RANKS_MAX];
};

/* What a rank asks is a function of its number, so that everybody knows everything. */
static uint32_t count_of(const struct scene *scene, uint32_t rank) {
    uint64_t word = mix(scene->seed + rank);
    return word % 5 == 0 ? 0 : (uint32_t)(word / 5 % (scene->asked + 1));
}

static struct vv_hash128 id_of(const struct scene *scene, uint32_t rank, uint32_t index) {
    uint64_t word = mix(scene->seed * 31 + rank * UINT64_C(1000003) + index);
    uint64_t number = word % 2 ? word / 2 % scene->common : (uint64_t)rank << 32 | index;
    struct vv_hash128 id = {mix(number), mix(number + 5)};
    if (number % 7 == 0) /* a caller's own numbers */
        id = (struct vv_hash128){number % 3, number};
    return id;
}

static uint32_t name_of(const struct scene *scene, struct vv_hash128 id) {
    return scene->is_by_name && id.high % 3 ? (uint32_t)((id.low ^ id.high) % scene->ranks) : VV_HOME_BY_ID;
}

/* Data: u64 sum of words, u64 count, then as many zeros as there were questions (at most 200). */
static uint64_t word_of(uint32_t rank, uint32_t index) {
    return mix((uint64_t)rank << 32 | index);
}

struct sum {
    uint64_t words, count;
};

struct asker {
    struct scene *scene;
    struct varve_comm *comm;
    uint32_t count;
    uint8_t *has_answer;
};

static void put_sum(struct vv_buf *out, const struct sum *sum) {
    uint64_t extra = sum->count < 200 ? sum->count : 200;
    vv_buf_u64(out, sum->words);
    vv_buf_u64(out, sum->count);
    vv_buf_zero(out, extra);
}

static struct sum get_sum(const void *data, uint32_t size) {
    struct sum sum = {vv_get64(data), vv_get64((const uint8_t *)data + 8)};
    assert_int_equal(size, 16 + (sum.count < 200 ? sum.count : 200));
    return sum;
}

static int is_wrong(const struct asker *asker, enum wrong wrong) {
    return asker->scene->wrong == wrong && asker->comm->rank == asker->scene->wrong_rank;
}

static int merge_sums(void *arg, const struct vv_question *same, size_t count, struct vv_buf *out) {
    struct asker *asker = arg;
    struct sum all = {0};
    assert_true(count >= 2);
    for (size_t i = 0; i < count; i++) {
        struct sum sum = get_sum(same[i].data, same[i].size);
        assert_true(vv_hash128_equal(same[i].id, same->id));
        all.words += sum.words;
        all.count += sum.count;
    }
    put_sum(out, &all);
    return is_wrong(asker, WRONG_MERGE) ? -EDOM : 0;
}

static int answer_sums(void *arg, const struct vv_question *questions, size_t count, struct vv_buf *out,
                       uint32_t *sizes) {
    struct asker *asker = arg;
    for (size_t i = 0; i < count; i++) {
        size_t before = out->size;
        struct vv_hash128 id = questions[i].id, last = i ? questions[i - 1].id : id;
        if (i)
            assert_true(last.low < id.low || (last.low == id.low && last.high < id.high));
        assert_int_equal(questions[i].home, name_of(asker->scene, id));
        if (questions[i].home != VV_HOME_BY_ID)
            assert_int_equal(questions[i].home, asker->comm->rank);
        vv_buf_append(out, &id, sizeof id);
        if (!asker->scene->is_plain)
            vv_buf_append(out, questions[i].data, questions[i].size);
        sizes[i] = (uint32_t)(out->size - before);
    }
    asker->scene->answered += count;
    return is_wrong(asker, WRONG_ANSWER) ? -EDOM : 0;
}

/* Of all ranks' questions about an id. */
static struct sum true_sum(const struct scene *scene, struct vv_hash128 id) {
    struct sum sum = {0};
    for (uint32_t rank = 0; rank < scene->ranks; rank++)
        for (uint32_t i = 0, count = count_of(scene, rank); i < count; i++)
            if (vv_hash128_equal(id_of(scene, rank, i), id)) {
                sum.words += word_of(rank, i);
                sum.count++;
            }
    return sum;
}

static int take_sum(void *arg, size_t index, const void *data, uint32_t size) {
    struct asker *asker = arg;
    struct vv_hash128 id = id_of(asker->scene, asker->comm->rank, (uint32_t)index), told;
    assert_true(index < asker->count && size >= sizeof told);
    memcpy(&told, data, sizeof told);
    assert_true(vv_hash128_equal(id, told));
    if (asker->scene->is_plain) {
        assert_int_equal(size, sizeof told);
    } else {
        struct sum sum = get_sum((const uint8_t *)data + sizeof told, size - (uint32_t)sizeof told);
        struct sum expected = true_sum(asker->scene, id);
        assert_true(sum.words == expected.words && sum.count == expected.count);
    }
    assert_int_equal(asker->has_answer[index]++, 0);
    return is_wrong(asker, WRONG_TAKE) ? -EDOM : 0;
}

static void ask_once(struct scene *scene, struct varve_comm *comm, struct vv_hops *hops) {
    struct vv_hops_ops ops = {scene->is_plain ? NULL : merge_sums, answer_sums, take_sum};
    struct asker asker = {scene, comm, count_of(scene, comm->rank), NULL};
    struct vv_question *questions = calloc(asker.count + 1, sizeof *questions);
    uint8_t(*data)[17] = calloc(asker.count + 1, sizeof *data);
    struct vv_hops_sums sums = {0};
    asker.has_answer = calloc(asker.count + 1, 1);
    for (uint32_t i = 0; i < asker.count; i++) {
        struct vv_hash128 id = id_of(scene, comm->rank, i);
        vv_put64(data[i], word_of(comm->rank, i));
        vv_put64(data[i] + 8, 1);
        questions[i] = (struct vv_question){id, name_of(scene, id), scene->is_plain ? 0 : sizeof data[i], data[i]};
    }
    struct varve_error *error = &scene->errors[comm->rank];
    scene->codes[comm->rank] = vv_hops_ask(hops, questions, asker.count, &ops, &asker, &sums, error);
    scene->messages += sums.messages;
    for (uint32_t i = 0; i < asker.count && scene->codes[comm->rank] == 0; i++)
        assert_int_equal(asker.has_answer[i], 1);
    free(data);
    free(questions);
    free(asker.has_answer);
}

static void ask_some(struct varve_comm *comm, void *arg) {
    struct scene *scene = arg;
    struct vv_hops *hops = NULL;
    int rc = vv_hops_create(comm, scene->shape, &hops, &scene->errors[comm->rank]);
    rc = vv_comm_agree(comm, rc, &scene->errors[comm->rank]);
    scene->codes[comm->rank] = rc;
    for (int i = 0; i < scene->rounds && rc == 0; i++)
        ask_once(scene, comm, hops);
    vv_hops_destroy(hops);
}

static void play(struct scene *scene, const uint32_t *node_of) {
    struct thread_group *group = thread_group_create(scene->ranks, node_of);
    thread_group_run(group, ask_some, scene);
    thread_group_destroy(group);
}

static uint32_t true_ids(const struct scene *scene) {
    uint32_t ids = 0;
    for (uint32_t rank = 0; rank < scene->ranks; rank++)
        for (uint32_t i = 0, count = count_of(scene, rank); i < count; i++) {
            struct vv_hash128 id = id_of(scene, rank, i);
            int is_first = 1;
            for (uint32_t r = 0; r <= rank && is_first; r++)
                for (uint32_t k = 0, end = r == rank ? i : count_of(scene, r); k < end && is_first; k++)
                    is_first = !vv_hash128_equal(id_of(scene, r, k), id);
            ids += (uint32_t)is_first;
        }
    return ids;
}

static void play_well(struct scene *scene, const uint32_t *node_of) {
    scene->messages = scene->answered = 0;
    play(scene, node_of);
    for (uint32_t rank = 0; rank < scene->ranks; rank++)
        assert_int_equal(scene->codes[rank], 0);
    assert_int_equal(scene->answered, true_ids(scene) * (uint32_t)scene->rounds); /* each id once, at one home */
}

static void answers_come_back(void **state) {
    uint32_t node_of[THREAD_RANKS_MAX];
    (void)state;
    for (uint32_t ranks = 1; ranks <= 16; ranks++)
        for (uint32_t kind = 0; kind < 24; kind++) {
            struct scene scene = {.ranks = ranks,
                                  .shape = (int)(kind % 3),
                                  .asked = kind % 2 ? 40 : 3,
                                  .common = 25,
                                  .is_by_name = kind / 3 % 2,
                                  .is_plain = kind / 6 % 2,
                                  .seed = kind * 100 + ranks,
                                  .rounds = 2};
            for (uint32_t rank = 0; rank < ranks; rank++) /* every node has somebody; sizes differ */
                node_of[rank] = rank < (ranks + 2) / 3 ? rank : (uint32_t)mix(rank + kind) % ((ranks + 2) / 3);
            play_well(&scene, kind / 12 ? NULL : node_of);
        }
}

static void answers_come_back_over_many_nodes(void **state) {
    static const uint32_t nodes[] = {5, 7, 11, 12, 17, 20, 23, 31};
    uint32_t node_of[THREAD_RANKS_MAX];
    (void)state;
    for (uint32_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        struct scene scene = {.ranks = spread_ranks(node_of, nodes[i], 1 + i % 3, i % 2 * 2, (int)i % 2),
                              .shape = VV_HOPS_GRID,
                              .asked = 20,
                              .common = 30,
                              .is_by_name = 1,
                              .seed = i,
                              .rounds = 1};
        play_well(&scene, node_of);
        scene.is_plain = 1;
        scene.shape = VV_HOPS_AUTO;
        play_well(&scene, node_of);
    }
}

static void what_all_ask_costs_few_messages(void **state) {
    uint32_t node_of[THREAD_RANKS_MAX];
    (void)state;
    uint32_t ranks = spread_ranks(node_of, 36, 4, 0, 0);
    struct scene scene = {.ranks = ranks, .shape = VV_HOPS_GRID, .asked = 4, .common = 3, .is_plain = 1, .rounds = 1};
    play_well(&scene, node_of);
    assert_int_equal(scene.messages, 2 * ranks * (3 + 5 + 5)); /* questions and answers: node, row, column */
}

/* ---- trouble ---- */

static void one_fails_all_say_so(void **state) {
    uint32_t node_of[THREAD_RANKS_MAX];
    (void)state;
    for (uint32_t kind = 0; kind < 18; kind++) {
        uint32_t ranks = spread_ranks(node_of, 7, 2, kind % 2, 1);
        struct scene scene = {.ranks = ranks,
                              .shape = kind % 2 ? VV_HOPS_GRID : VV_HOPS_FLAT,
                              .asked = 30,
                              .common = 9,
                              .seed = 12,
                              .rounds = 1,
                              .wrong = (enum wrong)(1 + kind / 2 % 3),
                              .wrong_rank = kind / 6 * 4};
        while (count_of(&scene, scene.wrong_rank) < 20) /* enough for it to meet an id twice */
            scene.seed++;
        play(&scene, node_of);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            assert_int_equal(scene.codes[rank], -EDOM);
            assert_int_equal(scene.errors[rank].code, -EDOM);
            assert_int_equal(scene.errors[rank].rank, scene.wrong_rank);
        }
    }
}

static int answer_none(void *arg, const struct vv_question *questions, size_t count, struct vv_buf *out,
                       uint32_t *sizes) {
    (void)arg, (void)questions, (void)out, (void)sizes;
    assert_int_equal(count, 0);
    return 0;
}

static void ask_nobody(struct varve_comm *comm, void *arg) {
    struct vv_hops_ops ops = {NULL, answer_none, take_sum};
    struct asker asker = {NULL, comm, 0, NULL};
    struct vv_question question = {{1, 2}, 77, 0, NULL};
    struct vv_hops *hops = NULL;
    int *codes = arg;
    assert_int_equal(vv_hops_create(comm, VV_HOPS_GRID, &hops, &ignored), 0);
    codes[comm->rank] = vv_hops_ask(hops, &question, comm->rank == 1, &ops, &asker, NULL, NULL);
    assert_int_equal(vv_hops_ask(hops, NULL, 0, &ops, &asker, NULL, NULL), 0); /* and then goes on */
    vv_hops_destroy(hops);
}

static void wrong_homes_are_refused(void **state) {
    int codes[4];
    struct thread_group *group = thread_group_create(4, NULL);
    (void)state;
    thread_group_run(group, ask_nobody, codes);
    for (int rank = 0; rank < 4; rank++)
        assert_int_equal(codes[rank], -EINVAL);
    thread_group_destroy(group);
}

static void no_memory_leaves_nobody_waiting(void **state) {
#ifndef VARVE_FAULTS
    (void)state;
    skip();
#else
    uint32_t node_of[THREAD_RANKS_MAX];
    uint32_t ranks = spread_ranks(node_of, 5, 1, 1, 0), failed = 0;
    uint64_t ranks_told = 0;
    (void)state;
    for (uint64_t k = 1;; k++) {
        struct scene scene = {.ranks = ranks, .shape = VV_HOPS_GRID, .asked = 6, .common = 4, .seed = 8, .rounds = 1};
        vv_alloc_fail_at(k);
        play(&scene, node_of);
        int is_over = vv_alloc_count() < k;
        vv_alloc_fail_at(0);
        for (uint32_t rank = 0; rank < ranks; rank++)
            assert_int_equal(scene.codes[rank], scene.codes[0]);
        if (is_over)
            break;
        assert_true(scene.codes[0] == -ENOMEM);
        for (uint32_t rank = 0; rank < ranks; rank++) { /* all say the same rank, and what happened there */
            assert_true(scene.errors[rank].text[0] != 0);
            assert_int_equal(scene.errors[rank].rank, scene.errors[0].rank);
            ranks_told |= UINT64_C(1) << scene.errors[rank].rank;
        }
        failed++;
    }
    assert_true(failed > 50);
    assert_true((ranks_told & (ranks_told - 1)) != 0); /* not always the same one */
#endif
}

static void cannot_without_exchange(void **state) {
    struct varve_comm_ops ops = thread_ops;
    struct varve_comm comm = {.ops = &ops, .ranks = 2};
    struct vv_hops *hops = NULL;
    (void)state;
    ops.exchange = NULL;
    assert_int_equal(vv_hops_create(&comm, VV_HOPS_AUTO, &hops, &ignored), -ENOTSUP);
    ops.exchange = thread_exchange;
    ops.size = offsetof(struct varve_comm_ops, exchange);
    assert_int_equal(vv_hops_create(&comm, VV_HOPS_AUTO, &hops, &ignored), -ENOTSUP);
    assert_null(hops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_leads_home),
        cmocka_unit_test(partners_are_few),
        cmocka_unit_test(knows_when_to_take_which_way),
        cmocka_unit_test(answers_come_back),
        cmocka_unit_test(answers_come_back_over_many_nodes),
        cmocka_unit_test(what_all_ask_costs_few_messages),
        cmocka_unit_test(one_fails_all_say_so),
        cmocka_unit_test(wrong_homes_are_refused),
        cmocka_unit_test(no_memory_leaves_nobody_waiting),
        cmocka_unit_test(cannot_without_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
