/* A checkpoint is what memory was at the call, whatever happens to the memory afterwards.
 *
 *     snapshot-truth --settings "capture=auto,staging=1M" [--must staged,held,frozen,traps,flight] [--rounds 20]
 *                    [--mib 8] [--limit 60MB] [--flags no-kernel] [--seed N] [--no-faults] [--nobody]
 *
 * Every round changes some or all pages, changes regions, takes a copy of everything, calls varve_checkpoint, and lets
 * threads write all over the regions from the moment the call returns; meanwhile regions move and go away. What is in
 * the store afterwards must be the copy. Some rounds go straight into the next checkpoint; in some the storage fails,
 * and nothing may be missing from the next. Every so many rounds the session ends, and another one restarts.
 *
 * --must names what has to have happened, so that a run cannot pass by never doing what it is there to test. --nobody:
 * as a user without any privilege. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "details.h"
#include "scene.h"

#define ROUNDS_PER_LIFE 10u

struct run {
    const char *settings, *must, *limit;
    unsigned rounds;
    size_t bytes;
    unsigned flags;
    uint64_t seed;
    int has_faults, is_fault_due; /* each life meets at least one */

    char folder[128], store[256], slow[320];
    struct scene scene;
    struct varve_session *session;
    struct dice dice;
    struct images now, before, good; /* this round's; one that is not looked at yet; the last that is stored */
    int64_t version;
    /* what happened */
    uint64_t failed, restored, in_flight, scribbled, straight;
    uint64_t staged, drained, held, frozen, wait, cow, avoided, ahead, trapped, memory;
    char tracker[16], reason[128];
};

/* ---- what it did ---- */

static void add_stats(struct run *run) {
    struct vv_details stats;
    kit_stats(run->session, &stats);
    run->staged += stats.bytes_staged;
    run->drained += stats.bytes_drained;
    run->held += stats.bytes_held;
    run->frozen += stats.bytes_frozen;
    run->wait += stats.pages_wait;
    run->cow += stats.pages_cow;
    run->avoided += stats.pages_avoided;
    run->ahead += stats.pages_ahead;
    run->trapped += stats.pages_trapped;
    if (stats.bytes_memory > run->memory)
        run->memory = stats.bytes_memory;
    memcpy(run->tracker, stats.tracker, sizeof run->tracker);
    memcpy(run->reason, stats.capture_reason, sizeof run->reason);
}

static void print_stats(const struct run *run) {
    const struct scene *scene = &run->scene;
    printf("%s: %u rounds, %" PRIu64 " of them failed as they should, %" PRIu64 " went straight on, %" PRIu64
           " restarts, seed %" PRIu64 "\n",
           run->settings, run->rounds, run->failed, run->straight, run->restored, run->seed);
    printf("  in flight when the call returned: %" PRIu64 "; pages written by others meanwhile: %" PRIu64 "\n",
           run->in_flight, run->scribbled);
    printf("  MiB staged %" PRIu64 ", drained %" PRIu64 ", held %" PRIu64 ", frozen %" PRIu64 "; pages wait %" PRIu64
           ", cow %" PRIu64 ", avoided %" PRIu64 ", ahead %" PRIu64 ", trapped %" PRIu64 "\n",
           run->staged >> 20, run->drained >> 20, run->held >> 20, run->frozen >> 20, run->wait, run->cow, run->avoided,
           run->ahead, run->trapped);
    printf("  regions moved %" PRIu64 ", left %" PRIu64 ", resized %" PRIu64 ", hollowed %" PRIu64 "; memory %" PRIu64
           " KiB; tracker %s; %s\n",
           scene->moved, scene->left, scene->resized, scene->hollowed, run->memory >> 10, run->tracker, run->reason);
}

static int is_wanted(const struct run *run, const char *word) {
    return strstr(run->must, word) != NULL;
}

static void check_must(const struct run *run) {
    if (is_wanted(run, "staged") && !run->staged)
        fail("nothing was ever staged: this run tested nothing");
    if (is_wanted(run, "held") && !run->held)
        fail("nothing was ever held: this run tested nothing; the library says: %s", run->reason);
    if (is_wanted(run, "frozen") && !run->frozen)
        fail("nothing was ever frozen: this run tested nothing; the library says: %s", run->reason);
    if (is_wanted(run, "traps") && !run->trapped)
        fail("no write was ever stopped: this run tested nothing");
    if (is_wanted(run, "flight") && run->in_flight < run->rounds / 4)
        fail("only %" PRIu64 " checkpoints were in flight when the call returned", run->in_flight);
    if (run->has_faults && run->rounds >= 20 && !run->failed)
        fail("no checkpoint failed although the storage did");
}

/* ---- one round ---- */

static unsigned some_share(struct run *run) {
    static const unsigned shares[] = {1, 1, 1, 2, 50, 50, 50, 50, 1000, 1000};
    return shares[roll_below(&run->dice, sizeof shares / sizeof *shares)];
}

static void change(struct run *run, int is_in_flight) {
    struct scene *scene = &run->scene;
    if (roll_below(&run->dice, 2) == 0)
        scene_disturb(scene, scene_sparse(scene));
    if (!is_in_flight && roll_below(&run->dice, 4) == 0)
        scene_hollow(scene);
    if (roll_below(&run->dice, 3))
        scene_write(scene, some_share(run), roll(&run->dice));
}

static void take_images(struct run *run) {
    images_clear(&run->now);
    run->now.version = ++run->version;
    scene_images(&run->scene, &run->now);
}

/* It is stored, and right. */
static void settle(struct run *run, struct images *images) {
    images_check(images, run->store);
    images_clear(&run->good);
    run->good = *images;
    *images = (struct images){.version = -1};
}

static int poll_until_done(struct run *run) {
    int rc;
    while ((rc = varve_test(run->session)) == 0)
        usleep(500);
    return rc == 1 ? 0 : rc;
}

static void round_failed(struct run *run, int rc, int is_broken) {
    if (!is_broken)
        fail("checkpoint %lld failed although nothing was wrong: %d: %s", (long long)run->version, rc,
             varve_session_error(run->session)->text);
    if (is_stored(run->store, run->version))
        fail("checkpoint %lld failed with %d, and is stored all the same", (long long)run->version, rc);
    run->failed++;
    images_clear(&run->now);
}

static void finish(struct run *run, int called, int is_broken) {
    int waited = roll_below(&run->dice, 2) ? varve_wait(run->session) : poll_until_done(run);
    storage_heal();
    if (called != 0 && waited == 0)
        fail("varve_checkpoint %lld returned %d, varve_wait then 0", (long long)run->version, called);
    if (run->before.count) /* a later one was begun, and they are stored in turn */
        settle(run, &run->before);
    if (waited != 0)
        round_failed(run, waited, is_broken);
    else
        settle(run, &run->now);
    add_stats(run);
}

static const uint64_t break_points[] = {0, 0, 4096, 100000, 1 << 20};

/* Returns whether the checkpoint may still be in flight. */
static int one_round(struct run *run, int was_straight) {
    struct scribble_target targets[SCENE_REGIONS];
    struct scene *scene = &run->scene;
    int breaks = run->has_faults && !was_straight && roll_below(&run->dice, 5) == 0;
    int breaks_before = breaks && roll_below(&run->dice, 2);
    uint64_t bytes = break_points[roll_below(&run->dice, sizeof break_points / sizeof *break_points)];
    change(run, was_straight);
    if (!breaks && !was_straight && run->is_fault_due && roll_below(&run->dice, 4) == 0) {
        breaks = breaks_before = 1;
        bytes = 0;
        run->is_fault_due = 0;
        scene_write(scene, 2, roll(&run->dice));
    }
    int is_straight = !breaks && roll_below(&run->dice, 4) == 0;
    take_images(run);
    struct region *sparse = roll_below(&run->dice, 2) == 0 ? scene_sparse(scene) : NULL;
    size_t count = scene_targets(scene, sparse, targets);
    struct scribblers *scribblers = scribblers_prepare(
        targets, count, (enum scribble_pattern)roll_below(&run->dice, PATTERNS), some_share(run), roll(&run->dice));
    if (breaks_before)
        storage_break(bytes);
    int rc = varve_checkpoint(run->session, run->version);
    scribblers_go(scribblers);
    if (rc == 0 && breaks && !breaks_before)
        storage_break(bytes);
    if (rc != 0 && !breaks_before)
        fail("checkpoint %lld: %d: %s", (long long)run->version, rc, varve_session_error(run->session)->text);
    run->in_flight += rc == 0 && varve_test(run->session) == 0;
    if (sparse && rc == 0)
        scene_disturb(scene, sparse);
    if (is_straight) {
        usleep((useconds_t)roll_below(&run->dice, 30000));
        run->straight++;
    } else {
        finish(run, rc, breaks);
    }
    run->scribbled += scribblers_stop(scribblers);
    if (is_straight) {
        if (run->before.count) /* the call waited for it */
            settle(run, &run->before);
        run->before = run->now;
        run->now = (struct images){.version = -1};
    }
    return is_straight;
}

/* ---- lives ---- */

static void go_back(struct run *run) {
    int64_t version = -1;
    int rc = varve_restart_regions(run->session, VARVE_LATEST, NULL, 0, VARVE_RESTART_RESIZE | VARVE_RESTART_MISSING,
                                   &version);
    if (rc != 0 || version != run->good.version)
        fail("going back: %d, version %lld instead of %lld: %s", rc, (long long)version, (long long)run->good.version,
             varve_session_error(run->session)->text);
    for (size_t i = 0; i < run->good.count; i++)
        for (size_t j = 0; j < SCENE_REGIONS; j++) {
            const struct region *region = &run->scene.regions[j];
            if (strcmp(region->name, run->good.list[i].name) == 0 && region->is_present &&
                region->size == run->good.list[i].size)
                image_compare(&run->good.list[i], region->ptr, region->size, "after going back");
        }
    run->restored++;
}

struct copy {
    uint8_t *data;
    uint64_t size;
};
static int copy_length(void *arg, uint64_t *out) {
    *out = ((struct copy *)arg)->size;
    return 0;
}
static int copy_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    memcpy(buffer, ((struct copy *)arg)->data + offset, size);
    return 0;
}
static int copy_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    struct copy *copy = arg;
    if (total != copy->size)
        return -ERANGE;
    memcpy(copy->data + offset, buffer, size);
    return 0;
}

/* Another session, other buffers. */
static void restart_elsewhere(struct run *run) {
    static const struct varve_callbacks callbacks = {sizeof callbacks, copy_length, copy_save, copy_load, 0};
    struct varve_session *session = kit_open(run->store, run->settings);
    struct copy copies[SCENE_REGIONS];
    int64_t version = -1;
    for (size_t i = 0; i < run->good.count; i++) {
        const struct image *image = &run->good.list[i];
        copies[i] = (struct copy){malloc(image->size + 1), image->size};
        int rc = strcmp(image->name, "calls") == 0
                     ? varve_protect_callback(session, image->name, &callbacks, &copies[i])
                     : varve_protect(session, image->name, copies[i].data, image->size);
        if (rc != 0)
            fail("protect for restart: %s", varve_session_error(session)->text);
    }
    int rc = varve_restart(session, VARVE_LATEST, &version);
    if (rc != 0 || version != run->good.version)
        fail("restart elsewhere: %d, version %lld instead of %lld: %s", rc, (long long)version,
             (long long)run->good.version, varve_session_error(session)->text);
    for (size_t i = 0; i < run->good.count; i++)
        image_compare(&run->good.list[i], copies[i].data, copies[i].size, "restarted elsewhere");
    if (varve_close(session) != 0)
        fail("closing after a restart");
    for (size_t i = 0; i < run->good.count; i++)
        free(copies[i].data);
    run->restored++;
}

static void open_run(struct run *run, int has_alias) {
    struct varve_error error = {0};
    kit_folder(run->folder, sizeof run->folder, "truth");
    snprintf(run->store, sizeof run->store, "file://%s/store", run->folder);
    snprintf(run->slow, sizeof run->slow, "%s?limit=%s", run->store, run->limit);
    int rc = kit_try_open(run->slow, run->settings, &run->session, &error);
    if (rc != 0) {
        kit_folder_remove(run->folder);
        fail("open with %s: %d: %s", run->settings, rc, error.text);
    }
    scene_create(&run->scene, run->bytes, run->flags, has_alias, roll(&run->dice));
    scene_enter(&run->scene, run->session);
}

/* The first round of a life stores everything, the others what changed. */
static void one_life(struct run *run, unsigned first, unsigned rounds) {
    struct scene done = run->scene;
    int is_in_flight = 0, failed_last = 0;
    open_run(run, first / ROUNDS_PER_LIFE % 2);
    run->is_fault_due = run->has_faults;
    for (unsigned i = 0; i < rounds; i++) {
        snprintf(kit_where, sizeof kit_where, "%s, seed %" PRIu64 ", round %u", run->settings, run->seed, first + i);
        uint64_t failed = run->failed;
        is_in_flight = one_round(run, is_in_flight);
        failed_last = run->failed != failed;
        /* Not where one place would be filled from what is stored under two names. */
        if (!is_in_flight && run->good.count && !run->scene.has_alias && roll_below(&run->dice, 8) == 0)
            go_back(run);
    }
    int rc = varve_close(run->session); /* waits for what is in flight */
    if (rc != 0 && !failed_last)
        fail("varve_close: %d", rc);
    if (run->before.count)
        settle(run, &run->before);
    run->session = NULL;
    scene_leave(&run->scene);
    if (run->good.count)
        restart_elsewhere(run);
    images_clear(&run->good);
    scene_destroy(&run->scene);
    kit_folder_remove(run->folder);
    run->scene.moved += done.moved;
    run->scene.left += done.left;
    run->scene.resized += done.resized;
    run->scene.hollowed += done.hollowed;
}

/* ---- the command line ---- */

static const char *value_of(int argc, char **argv, const char *name, const char *otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

static int has_word(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return 0;
}

/* What this machine cannot do is not the library's fault. Whatever else goes wrong is. */
static void check_machine(const struct run *run) {
    if ((is_wanted(run, "held") || strstr(run->settings, "trap-uffd")) && !strstr(run->settings, "trap-mprotect") &&
        !has_kernel_uffd())
        skip("%s: no userfaultfd that stops system calls here (it takes root or vm.unprivileged_userfaultfd)",
             run->settings);
    if (strstr(run->settings, "tracker=scan") && !has_scan())
        skip("%s: the kernel does not note writes (PAGEMAP_SCAN, Linux 6.7)", run->settings);
    if (strstr(run->settings, "tracker=softdirty") && !has_softdirty())
        skip("%s: the kernel has no soft-dirty bits", run->settings);
}

int main(int argc, char **argv) {
    static struct run run;
    const char *scale = getenv("TEST_SCALE");
    run.settings = value_of(argc, argv, "--settings", "");
    run.must = value_of(argc, argv, "--must", "");
    run.limit = value_of(argc, argv, "--limit", "60MB");
    run.rounds = (unsigned)atoi(value_of(argc, argv, "--rounds", "20"));
    if (scale && atoi(scale) > 0 && atoi(scale) < 100)
        run.rounds = run.rounds * (unsigned)atoi(scale) / 100 + 2;
    run.bytes = (size_t)atoi(value_of(argc, argv, "--mib", "8")) * MIB;
    run.seed = strtoull(value_of(argc, argv, "--seed", "1"), NULL, 10);
    run.flags = strcmp(value_of(argc, argv, "--flags", ""), "no-kernel") == 0 ? VARVE_NO_KERNEL_WRITES : 0;
    run.has_faults = !has_word(argc, argv, "--no-faults");
    run.dice.state = mix(run.seed);
    run.now.version = run.before.version = run.good.version = -1;
    if (has_word(argc, argv, "--nobody"))
        become_nobody();
    check_machine(&run);
    for (unsigned done = 0; done < run.rounds; done += ROUNDS_PER_LIFE) {
        unsigned rounds = run.rounds - done;
        one_life(&run, done, rounds < ROUNDS_PER_LIFE ? rounds : ROUNDS_PER_LIFE);
    }
    print_stats(&run);
    kit_where[0] = '\0';
    check_must(&run);
    return 0;
}
