/* Stories of jobs that lose nodes, made by chance: test_lost_chance [SEED [COUNT]].
 *
 * In every life of a story the ranks are on some of five nodes, unevenly; nodes are lost with their disks, replaced by
 * empty ones, left out, and come back with what they had; the number of copies changes; jobs are killed, also in the
 * middle of a checkpoint. What must come back is known: a version is safe if of every life that it is built on fewer
 * nodes are missing than there are copies. A life that finds something missing begins anew, and is built on nothing
 * before it. The restart may give a newer one than the last safe version, never an older one, and never wrong bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lives.h"
#include "test.h"

#define NODES 5
#define LIVES 6
#define RANKS_MOST 8

static uint64_t seed;
static int stories = 4;

static unsigned chance(unsigned below) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return below ? (unsigned)(seed >> 33) % below : 0;
}

/* A life that has passed. */
struct past {
    unsigned nodes;      /* it ran on these */
    unsigned lost;       /* of which these have lost their disk since */
    int copies;          /* of everything it wrote */
    int64_t first, last; /* versions it has begun */
    int64_t saved;       /* the last that survives; below first: none */
    int parent;          /* the life it was restarted from, or -1 when it is built on nothing */
};

struct story {
    struct past past[LIVES];
    int count;
    int64_t version; /* the last that was begun */
    uint32_t ranks;
};

/* How many of its nodes are missing in a job on these nodes. */
static int missing(const struct past *past, unsigned nodes) {
    return __builtin_popcount(past->nodes & (~nodes | past->lost));
}

static int is_safe(const struct story *story, int life, unsigned nodes) {
    for (; life >= 0; life = story->past[life].parent)
        if (missing(&story->past[life], nodes) >= story->past[life].copies)
            return 0;
    return 1;
}

static int is_complete(const struct story *story, int life, unsigned nodes) {
    for (; life >= 0; life = story->past[life].parent)
        if (missing(&story->past[life], nodes) > 0)
            return 0;
    return 1;
}

static int64_t last_safe(const struct story *story, unsigned nodes) {
    int64_t best = -1;
    for (int i = 0; i < story->count; i++)
        if (story->past[i].saved >= story->past[i].first && is_safe(story, i, nodes) && story->past[i].saved > best)
            best = story->past[i].saved;
    return best;
}

/* Does any of these nodes know of a checkpoint? */
static int is_known(const struct story *story, unsigned nodes) {
    for (int i = 0; i < story->count; i++)
        if (story->past[i].saved >= story->past[i].first && nodes & story->past[i].nodes & ~story->past[i].lost)
            return 1;
    return 0;
}

static int life_of(const struct story *story, int64_t version) {
    for (int i = 0; i < story->count; i++)
        if (version >= story->past[i].first && version <= story->past[i].last)
            return i;
    return -1;
}

/* ---- chance ---- */

static unsigned some_nodes(unsigned count) {
    unsigned nodes = 0;
    while ((unsigned)__builtin_popcount(nodes) < count)
        nodes |= 1u << chance(NODES);
    return nodes;
}

/* Every node gets one rank at least; the others anywhere, in any order. */
static void place(struct life *life, unsigned nodes) {
    uint32_t rank = 0;
    for (uint32_t node = 0; nodes >> node; node++)
        if (nodes >> node & 1)
            life->node_of[rank++] = node;
    for (; rank < life->ranks; rank++)
        life->node_of[rank] = life->node_of[chance(rank)];
    for (uint32_t i = life->ranks - 1; i > 0 && chance(3) == 0; i--) {
        uint32_t other = chance(i + 1), node = life->node_of[i];
        life->node_of[i] = life->node_of[other];
        life->node_of[other] = node;
    }
}

static unsigned choose_nodes(const struct story *story, unsigned lost) {
    unsigned before = story->past[story->count - 1].nodes, nodes = before & ~lost;
    switch (chance(8)) {
    case 0:
    case 1:
    case 2:
        nodes = before; /* lost ones are replaced */
        break;
    case 3:
    case 4:
        nodes |= some_nodes(1 + chance(3));
        break;
    case 5:
        if (__builtin_popcount(nodes) > 1)
            nodes &= nodes - 1;
        break;
    default:
        break;
    }
    while (!nodes || (unsigned)__builtin_popcount(nodes) > story->ranks)
        nodes = some_nodes(1 + chance(2));
    return nodes;
}

static const char *choose_settings(void) {
    static const char *const settings[] = {NULL, NULL, "threads=0", "dedup=top-k", "dedup=local", "capture=sync"};
    return settings[chance(sizeof settings / sizeof *settings)];
}

/* ---- the story ---- */

static void tell(const struct story *story, const struct life *life, unsigned nodes, unsigned lost) {
    printf("  %d: lost %02x, nodes %02x (", story->count, lost, nodes);
    for (uint32_t rank = 0; rank < life->ranks; rank++)
        printf("%u", life->node_of[rank]);
    printf("), copies %d%s%s%s, saves %" PRId64 "-%" PRId64 ", kills %02x%s\n", life->copies,
           life->settings ? ", " : "", life->settings ? life->settings : "", life->has_second ? ", second comm" : "",
           life->first, life->last, life->killed, life->cut_us ? " in the middle" : "");
    fflush(stdout);
}

static struct life next_life(struct story *story, unsigned nodes, unsigned *lost_later) {
    struct life life = {.ranks = story->ranks, .copies = 1 + (int)(chance(6) + 3) / 4, .is_back = story->count > 0};
    place(&life, nodes);
    life.first = story->version + 1;
    life.last = story->version + 1 + chance(3);
    life.settings = choose_settings();
    life.has_second = chance(3) == 0;
    *lost_later = 0;
    for (unsigned tries = chance(3); tries > 0; tries--)
        *lost_later |= 1u << chance(NODES);
    *lost_later &= nodes;
    life.killed = *lost_later;
    if (life.killed && chance(3) == 0)
        life.cut_us = 200 + chance(30000);
    return life;
}

/* 0 when the story ends here. */
static int check_restart(struct story *story, const struct lived *lived, unsigned nodes, struct past *now) {
    int64_t best = last_safe(story, nodes);
    int rc = lived->open_code ? lived->open_code : lived->restart_code;
    if (rc == 0 && lived->version < best)
        fail_msg("version %" PRId64 " is safe, and it went back to %" PRId64 "\n%s", best, lived->version, lived->log);
    if (rc != 0 && best >= 0)
        fail_msg("version %" PRId64 " is safe, and it says %s: %s", best, varve_error_name(rc), lived->text);
    if (rc == VARVE_NO_CHECKPOINT && is_known(story, nodes))
        fail_msg("there are checkpoints, and it says that there is none: %s", lived->text);
    if (rc != 0)
        return 0;
    int from = life_of(story, lived->version);
    assert_true(from >= 0);
    now->parent = is_complete(story, from, nodes) ? from : -1;
    return 1;
}

static void lose_disks(struct story *story, unsigned lost) {
    lose(lost, 1);
    for (int i = 0; i < story->count; i++)
        story->past[i].lost |= lost & story->past[i].nodes;
}

static void tell_story(void) {
    struct story story = {.ranks = 2 + chance(RANKS_MOST - 1)};
    unsigned lost = 0, lost_later = 0;
    lives_clean();
    while (story.count < LIVES) {
        unsigned nodes = story.count ? choose_nodes(&story, lost) : some_nodes(2 + chance(story.ranks > 3 ? 3 : 1));
        struct life life = next_life(&story, nodes, &lost_later);
        int most = __builtin_popcount(nodes);
        struct past now = {.nodes = nodes, .copies = life.copies < most ? life.copies : most, .parent = -1};
        tell(&story, &life, nodes, lost);
        const struct lived *lived = live(&life);
        if (story.count && !check_restart(&story, lived, nodes, &now))
            return;
        if (lived->save_code)
            fail_msg("version %" PRId64 " was not saved: %s", lived->saved + 1, lived->text);
        now.first = life.first;
        now.last = story.version = life.last;
        now.saved = lived->saved;
        story.past[story.count++] = now;
        lost = lost_later;
        lose_disks(&story, lost);
    }
}

static void by_chance(void **state) {
    uint64_t first = seed;
    (void)state;
    for (int i = 0; i < stories; i++) {
        printf("story %" PRIu64 "\n", first + (uint64_t)i);
        seed = (first + (uint64_t)i) * UINT64_C(0x9e3779b97f4a7c15);
        tell_story();
    }
    printf("test_lost_chance: %d points, the first is story %" PRIu64 "\n", stories, first);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(by_chance, lives_setup, lives_teardown)};
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    stories = argc > 2 ? atoi(argv[2]) * lives_scale() / 100 : stories;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
