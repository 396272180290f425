/* Both exchanges against an oracle that sees what all ranks hold. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "dedup/exchange.h"
#include "test.h"
#include "thread_group.h"

static _Thread_local struct varve_error ignored; /* ranks are threads */

static uint64_t mix(uint64_t value) {
    value = (value + 1) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return value ^ value >> 29;
}

/* ---- who holds what ---- */

enum spread { SAME, UNIQUE, PAIRS, SKEWED, ONE_HAS_ALL, UNEVEN, MIXED, SPREADS };
static const char *const spread_names[] = {"same", "unique", "pairs", "skewed", "one has all", "uneven", "mixed"};

struct scene {
    uint32_t ranks;
    enum spread spread;
    uint32_t ids; /* in all */
    int is_uneven_size;
    uint64_t fixed[64];
    uint64_t seed;
    /* the exchange: */
    int shape;
    size_t k; /* 0: exact */
    size_t capacity;
    int runs; /* one after the other, each a source of its own, all alive */
    /* what came of the last run: */
    struct vv_offer *offers[64];
    struct vv_verdict *verdicts[64];
    size_t counts[64];
    struct vv_exchange_sums sums[64];
    int codes[64];
    struct varve_error errors[64];
};

static int holds(const struct scene *scene, uint32_t rank, uint32_t id) {
    uint64_t word = mix(scene->seed + id), own = mix(word + rank);
    uint32_t ranks = scene->ranks;
    switch (scene->spread) {
    case SAME:
        return 1;
    case UNIQUE:
        return word % ranks == rank;
    case PAIRS:
        return word % ranks == rank || (word % ranks + 1) % ranks == rank;
    case SKEWED: /* a few by nearly all ranks, most by one or two */
        return word % ranks == rank || own % (1 + word / 64 % 64) == 0;
    case ONE_HAS_ALL:
        return rank == ranks / 2 || own % 16 == 0;
    case UNEVEN: /* rank 1 has nothing, the others more and more */
        return rank != 1 && own % (ranks + 1) <= rank;
    default: /* half the ids on all ranks, a quarter on two, a quarter on one */
        return id % 4 < 2 || word % ranks == rank || (id % 4 == 2 && (word + 1) % ranks == rank);
    }
}

static struct vv_offer offer_of(const struct scene *scene, uint32_t rank, uint32_t id) {
    uint64_t word = mix(scene->seed + id);
    uint32_t size = scene->is_uneven_size && word % 8 == 0 ? 1 + (uint32_t)(word >> 20) % 4096 : 4096;
    return (struct vv_offer){{mix(word), mix(word + 9)}, mix(word + rank) << 12, size};
}

static void make_offers(struct scene *scene, uint32_t rank) {
    struct vv_offer *offers = malloc((scene->ids + 1) * sizeof *offers);
    size_t count = 0;
    for (uint32_t i = 0; i < scene->ids; i++) { /* every rank in another order */
        uint32_t id = (uint32_t)((i + (uint64_t)rank * 77) % scene->ids);
        if (holds(scene, rank, id))
            offers[count++] = offer_of(scene, rank, id);
    }
    scene->offers[rank] = offers;
    scene->counts[rank] = count;
    scene->verdicts[rank] = malloc((count + 1) * sizeof **scene->verdicts);
    memset(scene->verdicts[rank], 0xee, (count + 1) * sizeof **scene->verdicts);
}

static void drop_offers(struct scene *scene) {
    for (uint32_t rank = 0; rank < scene->ranks; rank++) {
        free(scene->offers[rank]);
        free(scene->verdicts[rank]);
    }
}

static int open_exchange(const struct scene *scene, struct varve_comm *comm, struct vv_exchange **out) {
    struct varve_error error = {0};
    int rc =
        scene->k ? vv_exchange_topk(comm, scene->k, out, &error) : vv_exchange_exact(comm, scene->shape, out, &error);
    if (rc == 0 && scene->capacity)
        assert_int_equal(vv_exchange_exact_capacity(*out, scene->capacity), 0);
    return rc;
}

static void exchange(struct varve_comm *comm, void *arg) {
    static const uint8_t is_alive[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct scene *scene = arg;
    uint32_t rank = comm->rank;
    struct vv_exchange *exchange = NULL;
    int rc = open_exchange(scene, comm, &exchange);
    for (int run = 0; run < scene->runs && rc == 0; run++) {
        struct vv_exchange_in in = {
            scene->offers[rank], scene->counts[rank], scene->fixed[rank], (uint32_t)run, is_alive, 8};
        scene->sums[rank] = (struct vv_exchange_sums){0};
        rc = exchange->ops->run(exchange, &in, scene->verdicts[rank], &scene->sums[rank], &scene->errors[rank]);
    }
    scene->codes[rank] = rc;
    vv_exchange_close(exchange);
}

static void play(struct scene *scene, const uint32_t *node_of) {
    struct thread_group *group = thread_group_create(scene->ranks, node_of);
    if (scene->runs == 0)
        scene->runs = 1;
    for (uint32_t rank = 0; rank < scene->ranks; rank++)
        make_offers(scene, rank);
    thread_group_run(group, exchange, scene);
    thread_group_destroy(group);
}

/* ---- the oracle ---- */

struct holder {
    struct vv_hash128 id;
    uint32_t rank, size;
    uint64_t address;
    const struct vv_verdict *verdict;
};

static int compare_holders(const void *a, const void *b) {
    const struct holder *x = a, *y = b;
    if (x->id.low != y->id.low)
        return x->id.low < y->id.low ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

struct report {
    uint64_t loads[64];
    uint64_t forced[64]; /* fixed, and what nobody else holds */
    uint64_t shared;     /* ids with more than one holder */
    uint64_t found;      /* of them: stored once */
    uint64_t duplicates; /* of holders beyond the first */
    uint64_t removed;
    uint64_t known; /* offers */
};

static const struct holder *owner_among(const struct holder *list, size_t count) {
    const struct holder *owner = NULL;
    for (size_t i = 0; i < count; i++)
        if (list[i].verdict->kind == VV_MINE && (!owner || count == 1))
            owner = &list[i];
    return owner;
}

/* All holders have heard the same: one of them has stored it before. */
static void check_known_id(const struct holder *list, size_t count, struct report *report) {
    const struct vv_verdict *first = list->verdict;
    size_t owners = 0;
    for (size_t i = 0; i < count; i++) {
        const struct vv_verdict *verdict = list[i].verdict;
        assert_true(verdict->kind == VV_KNOWN && verdict->owner == first->owner && verdict->address == first->address &&
                    verdict->source == first->source);
        owners += list[i].rank == first->owner && list[i].address == first->address;
    }
    assert_int_equal(owners, 1);
    report->known += count;
}

/* All holders of one id. */
static void check_id(const struct scene *scene, const struct holder *list, size_t count, struct report *report) {
    const struct holder *owner = owner_among(list, count);
    size_t mine = 0;
    if (list->verdict->kind == VV_KNOWN) {
        check_known_id(list, count, report);
        return;
    }
    assert_non_null(owner);
    for (size_t i = 0; i < count; i++) {
        const struct vv_verdict *verdict = list[i].verdict;
        assert_true(verdict->kind == VV_MINE || verdict->kind == VV_THERE);
        mine += verdict->kind == VV_MINE;
        if (verdict->kind == VV_MINE) {
            report->loads[list[i].rank] += list[i].size;
            assert_int_equal(verdict->owner, list[i].rank);
            assert_true(verdict->address == list[i].address);
        } else {
            assert_int_equal(verdict->owner, owner->rank);
            assert_true(verdict->address == owner->address);
            report->removed++;
        }
    }
    if (count == 1)
        report->forced[list->rank] += list->size;
    if (scene->k == 0)
        assert_int_equal(mine, 1);
    else
        assert_true(mine == 1 || mine == count); /* in the list, or not */
    report->shared += count > 1;
    report->found += count > 1 && mine == 1;
    report->duplicates += count - 1;
}

static void check_sums(const struct scene *scene, uint32_t rank) {
    uint64_t bytes[3] = {0};
    for (size_t i = 0; i < scene->counts[rank]; i++)
        bytes[scene->verdicts[rank][i].kind] += scene->offers[rank][i].size;
    assert_true(bytes[VV_MINE] == scene->sums[rank].mine && bytes[VV_THERE] == scene->sums[rank].there &&
                bytes[VV_KNOWN] == scene->sums[rank].known);
}

static struct report check(const struct scene *scene) {
    struct report report = {0};
    size_t total = 0, at = 0;
    for (uint32_t rank = 0; rank < scene->ranks; rank++) {
        assert_int_equal(scene->codes[rank], 0);
        check_sums(scene, rank);
        report.loads[rank] = report.forced[rank] = scene->fixed[rank];
        total += scene->counts[rank];
    }
    struct holder *all = malloc((total + 1) * sizeof *all);
    for (uint32_t rank = 0; rank < scene->ranks; rank++)
        for (size_t i = 0; i < scene->counts[rank]; i++) {
            const struct vv_offer *offer = &scene->offers[rank][i];
            all[at++] = (struct holder){offer->id, rank, offer->size, offer->address, &scene->verdicts[rank][i]};
        }
    qsort(all, total, sizeof *all, compare_holders);
    for (size_t i = 0, end; i < total; i = end) {
        for (end = i + 1; end < total && vv_hash128_equal(all[i].id, all[end].id);)
            end++;
        check_id(scene, all + i, end - i, &report);
    }
    free(all);
    return report;
}

/* The largest load, as a multiple of the least that the largest can be. */
static double imbalance(const struct scene *scene, const struct report *report) {
    double sum = 0, most = 0, forced = 0, ranks = 0;
    for (uint32_t rank = 0; rank < scene->ranks; rank++) {
        double load = (double)report->loads[rank];
        sum += load;
        ranks += scene->counts[rank] > 0; /* the others cannot take anything */
        most = load > most ? load : most;
        forced = (double)report->forced[rank] > forced ? (double)report->forced[rank] : forced;
    }
    double mean = sum / ranks;
    return sum == 0 ? 1 : most / (mean > forced ? mean : forced);
}

/* ---- exact ---- */

static void exact_finds_everything(void **state) {
    static const uint32_t ranks[] = {1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 23};
    uint32_t node_of[64];
    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (int spread = 0; spread < SPREADS; spread++) {
            struct scene scene = {.ranks = ranks[i],
                                  .spread = (enum spread)spread,
                                  .ids = 200 + 37 * (uint32_t)spread,
                                  .is_uneven_size = 1,
                                  .seed = mix(i * 100 + (size_t)spread),
                                  .shape = spread % 3};
            uint32_t nodes = (ranks[i] + 2) / 3;
            for (uint32_t rank = 0; rank < ranks[i];
                 rank++) /* two or three ranks a node, the first of them neighbours */
                node_of[rank] = rank / 2 < nodes ? rank / 2 : rank % nodes;
            play(&scene, i % 2 ? node_of : NULL);
            struct report report = check(&scene);
            assert_int_equal(report.removed, report.duplicates); /* found: 1.0 */
            drop_offers(&scene);
        }
}

static void exact_finds_nothing_where_nothing_is(void **state) {
    struct scene scene = {.ranks = 5, .ids = 0};
    (void)state;
    play(&scene, NULL);
    check(&scene);
    drop_offers(&scene);
}

static void exact_levels_the_ranks(void **state) {
    (void)state;
    for (int spread = 0; spread < SPREADS; spread++) {
        struct scene scene = {.ranks = 12,
                              .spread = (enum spread)spread,
                              .ids = 24000,
                              .is_uneven_size = 1,
                              .shape = VV_HOPS_FLAT,
                              .seed = 5};
        play(&scene, NULL);
        struct report report = check(&scene);
        double times = imbalance(&scene, &report);
        printf("%s: the largest load is %.4f of the least possible\n", spread_names[spread], times);
        assert_true(times < 1.02);
        drop_offers(&scene);
    }
}

static void same_everywhere_is_shared_out_evenly(void **state) {
    struct scene scene = {.ranks = 16, .spread = SAME, .ids = 16384, .shape = VV_HOPS_FLAT};
    (void)state;
    play(&scene, NULL);
    struct report report = check(&scene);
    assert_true(imbalance(&scene, &report) <= 1.02);
    drop_offers(&scene);
}

static void what_a_rank_stores_anyway_counts(void **state) {
    struct scene scene = {.ranks = 6,
                          .spread = SAME,
                          .ids = 6000,
                          .shape = VV_HOPS_GRID,
                          .fixed = {0, 2000 * 4096, 500 * 4096, 1, 0, 100 * 4096}};
    (void)state;
    play(&scene, NULL);
    struct report report = check(&scene);
    assert_true(report.loads[1] == scene.fixed[1]); /* more than its share: gets nothing */
    assert_true(imbalance(&scene, &report) < 1.02);
    drop_offers(&scene);
}

/* Homes that see few ids each must not all think the same of a rank. */
static void a_little_more_does_not_starve_a_rank(void **state) {
    struct scene scene = {.ranks = 32, .spread = SAME, .ids = 640, .shape = VV_HOPS_FLAT, .fixed = {[7] = 2 * 4096}};
    (void)state;
    play(&scene, NULL);
    struct report report = check(&scene);
    assert_true(report.loads[7] > 12 * 4096 && report.loads[7] < 32 * 4096); /* 20 each */
    drop_offers(&scene);
}

/* ---- what homes remember ---- */

struct memory_scene {
    uint32_t ranks;
    int shape;
    int is_grown; /* room for the table comes in two steps */
};

#define FEW 300

/* Rank `holder` offers ids first..first+FEW; everybody else nothing. Returns how many are known. */
static size_t offer_alone(struct vv_exchange *exchange, const struct varve_comm *comm, uint32_t holder, uint32_t first,
                          uint32_t source, const uint8_t *is_alive, struct vv_verdict *verdicts) {
    struct vv_offer offers[FEW];
    struct vv_exchange_sums sums = {0};
    size_t known = 0;
    for (uint32_t i = 0; i < FEW; i++)
        offers[i] = (struct vv_offer){{mix(first + i), mix(first + i + 1)}, (uint64_t)(i + 1) << 12 | holder, 4096};
    struct vv_exchange_in in = {offers, comm->rank == holder ? FEW : 0, 0, source, is_alive, is_alive ? 6 : 0};
    assert_int_equal(exchange->ops->run(exchange, &in, verdicts, &sums, NULL), 0);
    for (uint32_t i = 0; i < in.count; i++) {
        known += verdicts[i].kind == VV_KNOWN;
        if (verdicts[i].kind == VV_MINE)
            assert_int_equal(verdicts[i].owner, holder);
        else
            assert_int_equal(verdicts[i].kind, VV_KNOWN);
    }
    return comm->rank == holder ? known : 0;
}

static void check_known(const struct vv_verdict *verdicts, uint32_t owner, uint32_t source) {
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(verdicts[i].kind, VV_KNOWN);
        assert_int_equal(verdicts[i].owner, owner);
        assert_int_equal(verdicts[i].source, source);
        assert_true(verdicts[i].address == ((uint64_t)(i + 1) << 12 | owner));
    }
}

static void remember(struct varve_comm *comm, void *arg) {
    const struct memory_scene *scene = arg;
    uint8_t is_alive[6] = {1, 1, 1, 1, 1, 1};
    struct vv_exchange *exchange = NULL;
    struct vv_verdict verdicts[FEW];
    uint32_t a = 0, b = comm->ranks - 1;
    int is_b = comm->rank == b, is_a = comm->rank == a;
    assert_int_equal(vv_exchange_exact(comm, scene->shape, &exchange, &ignored), 0);
    assert_int_equal(vv_exchange_exact_capacity(exchange, scene->is_grown ? 4096 : 16384), 0);
    /* stored by a as source 0, found by b in the next */
    assert_int_equal(offer_alone(exchange, comm, a, 0, 0, is_alive, verdicts), 0);
    if (scene->is_grown)
        assert_int_equal(vv_exchange_exact_capacity(exchange, 16384), 0);
    assert_int_equal(offer_alone(exchange, comm, b, 0, 1, is_alive, verdicts), is_b ? FEW : 0);
    if (is_b)
        check_known(verdicts, a, 0);
    /* half old, half new */
    assert_int_equal(offer_alone(exchange, comm, b, FEW / 2, 2, is_alive, verdicts), is_b ? FEW / 2 : 0);
    /* nothing from before may be used */
    assert_int_equal(offer_alone(exchange, comm, b, 0, 3, NULL, verdicts), 0);
    assert_int_equal(offer_alone(exchange, comm, b, 0, 3, is_alive, verdicts), 0); /* of this very checkpoint */
    /* 3 has failed: dead, and what it stored is not there */
    is_alive[3] = 0;
    assert_int_equal(offer_alone(exchange, comm, a, 0, 4, is_alive, verdicts), 0);
    assert_int_equal(offer_alone(exchange, comm, b, 0, 5, is_alive, verdicts), is_b ? FEW : 0);
    if (is_b)
        check_known(verdicts, a, 4);
    vv_exchange_exact_forget(exchange);
    assert_int_equal(offer_alone(exchange, comm, a, 0, 0, is_alive, verdicts), 0);
    assert_int_equal(offer_alone(exchange, comm, b, 0, 1, is_alive, verdicts), is_b ? FEW : 0);
    assert_int_equal(offer_alone(exchange, comm, a, 0, 1, is_alive, verdicts), is_a ? FEW : 0);
    vv_exchange_close(exchange);
}

static void homes_remember(void **state) {
    (void)state;
    for (uint32_t ranks = 2; ranks <= 9; ranks++) {
        struct memory_scene scene = {ranks, (int)ranks % 3, (int)ranks % 2};
        struct thread_group *group = thread_group_create(ranks, NULL);
        thread_group_run(group, remember, &scene);
        thread_group_destroy(group);
    }
}

static void a_second_time_all_is_known(void **state) {
    (void)state;
    for (int spread = 0; spread < SPREADS; spread++) {
        struct scene scene = {.ranks = 7,
                              .spread = (enum spread)spread,
                              .ids = 500,
                              .capacity = 100000,
                              .runs = 3,
                              .seed = (uint64_t)spread};
        play(&scene, NULL);
        for (uint32_t rank = 0; rank < scene.ranks; rank++) {
            assert_int_equal(scene.codes[rank], 0);
            for (size_t i = 0; i < scene.counts[rank]; i++) {
                assert_int_equal(scene.verdicts[rank][i].kind, VV_KNOWN);
                assert_int_equal(scene.verdicts[rank][i].source, 0);
            }
            assert_true(scene.sums[rank].table_bytes >= 100000 * 32);
        }
        drop_offers(&scene);
    }
}

static void a_full_home_forgets_but_does_not_lie(void **state) {
    struct scene scene = {.ranks = 3, .spread = MIXED, .ids = 4000, .capacity = 1024, .runs = 2};
    (void)state;
    play(&scene, NULL);
    struct report report = check(&scene);
    assert_true(report.known > 100 && report.known < scene.counts[0] + scene.counts[1] + scene.counts[2] - 100);
    drop_offers(&scene);
}

/* ---- top-k ---- */

static void topk_is_the_same_everywhere(void **state) {
    static const uint32_t ranks[] = {1, 2, 3, 5, 6, 8, 9, 13, 16, 21};
    static const size_t ks[] = {1, 10, 60, 200, 100000};
    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (int spread = 0; spread < SPREADS; spread++) {
            struct scene scene = {.ranks = ranks[i],
                                  .spread = (enum spread)spread,
                                  .ids = 150,
                                  .is_uneven_size = 1,
                                  .seed = mix(i * 10 + (size_t)spread),
                                  .k = ks[(i + (size_t)spread) % 5]};
            play(&scene, NULL);
            struct report report = check(&scene);
            assert_true(report.found <= scene.k);
            if (scene.k == 100000)
                assert_int_equal(report.removed, report.duplicates);
            if (spread == SAME && ranks[i] > 1)
                assert_int_equal(report.found, scene.k < 150 ? scene.k : 150);
            drop_offers(&scene);
        }
}

static void topk_keeps_the_most_frequent(void **state) {
    struct scene scene = {.ranks = 8, .spread = MIXED, .ids = 400, .k = 200};
    (void)state;
    play(&scene, NULL);
    struct report report = check(&scene);
    for (size_t i = 0; i < scene.counts[3]; i++) /* those that all ranks hold, of which there are k, are in */
        for (uint32_t id = 0; id < 400; id++)
            if (id % 4 < 2 && vv_hash128_equal(offer_of(&scene, 3, id).id, scene.offers[3][i].id))
                for (uint32_t rank = 0; rank < 8; rank++)
                    assert_true(scene.sums[rank].there > 0);
    assert_int_equal(report.found, 200);
    drop_offers(&scene);
}

static void topk_levels_the_ranks(void **state) {
    static const uint32_t ranks[] = {2, 3, 4, 7, 8, 16};
    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct scene scene = {.ranks = ranks[i], .spread = SAME, .ids = 8000, .k = 10000};
        play(&scene, NULL);
        struct report report = check(&scene);
        printf("top-k, same on %u ranks: max/mean %.4f\n", ranks[i], imbalance(&scene, &report));
        assert_true(imbalance(&scene, &report) < 1.02);
        drop_offers(&scene);
    }
}

/* ---- trouble ---- */

static void no_memory_is_said_by_all(void **state) {
#ifndef VARVE_FAULTS
    (void)state;
    skip();
#else
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        uint32_t failed = 0;
        for (uint64_t at = 1;; at++) {
            struct scene scene = {.ranks = 5, .spread = MIXED, .ids = 20, .k = k * 9, .shape = VV_HOPS_GRID};
            vv_alloc_fail_at(at);
            play(&scene, NULL);
            int is_over = vv_alloc_count() < at;
            vv_alloc_fail_at(0);
            for (uint32_t rank = 0; rank < scene.ranks; rank++)
                assert_int_equal(scene.codes[rank], is_over ? 0 : -ENOMEM);
            drop_offers(&scene);
            if (is_over)
                break;
            failed++;
        }
        assert_true(failed > 20);
    }
#endif
}

/* A comm that damages some of what it brings, another piece every time. */
static _Atomic uint64_t damage_seed;

struct damage {
    varve_gather_fn fn;
    void *arg;
};

static int take_damaged(void *arg, uint32_t rank, const void *data, size_t size) {
    const struct damage *damage = arg;
    uint64_t word = mix(damage_seed++);
    uint8_t *bytes = malloc(size + 8);
    memcpy(bytes, data, size);
    memset(bytes + size, 0x11, 8);
    if (word % 16 == 0)
        size = (word >> 8) % (size + 1);
    else if (word % 16 == 1)
        size += 1 + (word >> 8) % 8;
    else if (word % 16 == 2 && size)
        bytes[(word >> 8) % (size < 64 ? size : 64)] ^= (uint8_t)(1 << (word >> 40) % 8);
    else if (word % 16 == 3 && size)
        bytes[(word >> 8) % size] = (uint8_t)(word >> 40);
    int rc = damage->fn(damage->arg, rank, bytes, size);
    free(bytes);
    return rc;
}

static int send_damaged(struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                        const uint32_t *from, size_t from_count, varve_gather_fn fn, void *arg) {
    struct damage damage = {fn, arg};
    return thread_exchange(comm, out, out_count, from, from_count, take_damaged, &damage);
}

static void exchange_damaged(struct varve_comm *comm, void *arg) {
    struct varve_comm_ops ops = thread_ops;
    const struct varve_comm_ops *before = comm->ops;
    ops.exchange = send_damaged;
    comm->ops = &ops;
    exchange(comm, arg);
    comm->ops = before;
}

static void damaged_messages_are_survived(void **state) {
    uint32_t refused = 0;
    (void)state;
    for (uint64_t i = 0; i < 300; i++) {
        struct scene scene = {.ranks = 2 + (uint32_t)(i % 5),
                              .spread = (enum spread)(i % SPREADS),
                              .ids = 40,
                              .shape = i % 2 ? VV_HOPS_GRID : VV_HOPS_FLAT,
                              .k = i % 3 == 2 ? 20 : 0,
                              .runs = 2,
                              .capacity = i % 3 == 2 ? 0 : 64,
                              .seed = i};
        struct thread_group *group = thread_group_create(scene.ranks, NULL);
        for (uint32_t rank = 0; rank < scene.ranks; rank++)
            make_offers(&scene, rank);
        thread_group_run(group, exchange_damaged, &scene);
        thread_group_destroy(group);
        for (uint32_t rank = 0; rank < scene.ranks; rank++)
            assert_int_equal(scene.codes[rank], scene.codes[0]);
        refused += scene.codes[0] == -EPROTO;
        drop_offers(&scene);
    }
    assert_true(refused > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_finds_everything),
        cmocka_unit_test(exact_finds_nothing_where_nothing_is),
        cmocka_unit_test(exact_levels_the_ranks),
        cmocka_unit_test(same_everywhere_is_shared_out_evenly),
        cmocka_unit_test(what_a_rank_stores_anyway_counts),
        cmocka_unit_test(a_little_more_does_not_starve_a_rank),
        cmocka_unit_test(homes_remember),
        cmocka_unit_test(a_second_time_all_is_known),
        cmocka_unit_test(a_full_home_forgets_but_does_not_lie),
        cmocka_unit_test(topk_is_the_same_everywhere),
        cmocka_unit_test(topk_keeps_the_most_frequent),
        cmocka_unit_test(topk_levels_the_ranks),
        cmocka_unit_test(no_memory_is_said_by_all),
        cmocka_unit_test(damaged_messages_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
