/* The queues of the tiers, their threads, and who waits for them.
 *
 * A store takes checkpoints in the order in which they were saved, so a queue gives out the oldest first. When more
 * wait than may, the oldest of them is passed over: what is newest always gets there. */
#include "tiers/tiers.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/tier_address.h"
#include "encode/coding.h"
#include "storage/storage.h"
#include "tiers/tiers_private.h"

/* Moving runs beside the program: one thread encodes, with a codec that takes little time, unless one was chosen. */
static void choose_settings(struct vv_tiers *tiers, const struct vv_settings *given) {
    tiers->settings = *given;
    if (given->codec == VV_CHOOSE_CODEC_AUTO)
        tiers->settings.codec = VV_CHOOSE_CODEC_NAMED + VV_CODING_ZSTD;
    tiers->settings.threads = 1;
    tiers->where = (struct vv_placement){tiers->settings.nice, tiers->settings.cpus};
}

static int take_addresses(struct vv_tiers *tiers, struct varve_error *error) {
    const char *text = tiers->settings.tiers;
    struct vv_tier_address one;
    int rc = 0;
    while (tiers->tier_count < VV_TIERS_MOST - 1 && (rc = vv_tier_address_next(&text, &one, error)) == 1) {
        struct vv_tier *tier = &tiers->tiers[tiers->tier_count];
        tier->all = tiers;
        tier->number = ++tiers->tier_count + 1;
        tier->keep = one.keep < 0 ? tiers->settings.tiers_keep : one.keep;
        tier->waiting_most = one.waiting ? one.waiting : tiers->settings.tiers_waiting;
        tier->address = vv_address_absolute(one.text, strlen(one.text));
        if (!tier->address)
            return vv_error(error, -ENOMEM, "no memory for tiers");
    }
    return rc < 0 ? rc : 0;
}

int vv_tiers_open(const struct vv_tiers_options *options, struct vv_tiers **out, struct varve_error *error) {
    *out = NULL;
    if (!*options->settings->tiers)
        return 0;
    struct vv_tiers *tiers = vv_calloc(1, sizeof *tiers);
    if (!tiers)
        return vv_error(error, -ENOMEM, "no memory for tiers");
    pthread_mutex_init(&tiers->lock, NULL);
    vv_cond_init(&tiers->changed);
    tiers->log = options->log;
    choose_settings(tiers, options->settings);
    tiers->address = vv_address_absolute(options->address, strlen(options->address));
    tiers->name = vv_strdup(options->name);
    int rc = !tiers->address || !tiers->name ? vv_error(error, -ENOMEM, "no memory for tiers") : 0;
    if (rc == 0)
        rc = take_addresses(tiers, error);
    if (rc == 0)
        rc = vv_tiers_check_places(tiers, error);
    if (rc < 0)
        vv_tiers_close(tiers);
    else
        *out = tiers;
    return rc;
}

/* ---- the thread of a tier ---- */

static int is_idle(const struct vv_tier *tier) {
    return tier->count == 0 && tier->moving.generation == 0;
}

/* With the lock. */
static void take_oldest(struct vv_tier *tier) {
    tier->moving = tier->waiting[0];
    memmove(tier->waiting, tier->waiting + 1, --tier->count * sizeof tier->waiting[0]);
}

/* With the lock. */
static void note_move(struct vv_tier *tier, int rc, const struct vv_copy_result *result, uint64_t ns,
                      const struct varve_error *error) {
    struct vv_tiers_counts *counts = &tier->all->counts;
    if (rc == 0) {
        counts->moved++;
        counts->bytes += result->written;
        counts->moving_ns += ns;
    } else if (rc != -EINTR)
        counts->failed++;
    tier->last = tier->moving;
    tier->result = rc;
    tier->error = *error;
    tier->moving = (struct vv_attempt){0};
    pthread_cond_broadcast(&tier->all->changed);
}

static void tell_move(const struct vv_tier *tier, const struct vv_attempt *attempt, int rc,
                      const struct vv_copy_result *result, uint64_t ns, const struct varve_error *error) {
    const struct vv_tiers *all = tier->all;
    if (rc == 0)
        vv_log(all->log, VV_LOG_INFO, "version %" PRIu64 " of %s is in tier %u, %s: %" PRIu64 " bytes, %.3f s",
               attempt->version, all->name, tier->number, tier->address, result->written, (double)ns * 1e-9);
    else if (rc != -EINTR)
        vv_log(all->log, VV_LOG_WARN, "version %" PRIu64 " of %s did not get to tier %u, %s: %s", attempt->version,
               all->name, tier->number, tier->address, error->text);
}

static void move_oldest(struct vv_tier *tier) {
    struct vv_tiers *all = tier->all;
    struct vv_copy_result result;
    struct varve_error error = {.rank = -1};
    take_oldest(tier);
    struct vv_attempt attempt = tier->moving;
    pthread_mutex_unlock(&all->lock);
    uint64_t begin = vv_clock_ns();
    int rc = vv_tier_move(tier, &attempt, &result, &error);
    uint64_t ns = vv_clock_ns() - begin;
    if (rc < 0)
        vv_error_default(&error, rc, "%s", varve_error_text(rc));
    tell_move(tier, &attempt, rc, &result, ns, &error);
    pthread_mutex_lock(&all->lock);
    note_move(tier, rc, &result, ns, &error);
}

/* At the end, once: no other checkpoint will come. */
static int must_try_again(const struct vv_tier *tier) {
    return tier->result < 0 && !tier->is_last_try;
}

static void try_again(struct vv_tier *tier) {
    tier->is_last_try = 1;
    tier->waiting[tier->count++] = tier->last;
}

static void *run(void *arg) {
    struct vv_tier *tier = arg;
    struct vv_tiers *all = tier->all;
    vv_thread_place(&all->where); /* threads that it starts inherit it */
    pthread_mutex_lock(&all->lock);
    while (!all->is_ended)
        if (tier->count > 0)
            move_oldest(tier);
        else if (all->is_closing && must_try_again(tier))
            try_again(tier);
        else if (all->is_closing)
            break;
        else
            pthread_cond_wait(&all->changed, &all->lock);
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

/* ---- what comes ---- */

/* With the lock: 1 if the oldest that waited was passed over. */
static int add(struct vv_tier *tier, const struct vv_attempt *attempt, struct vv_attempt *passed) {
    tier->waiting[tier->count++] = *attempt;
    if (tier->count <= (unsigned)tier->waiting_most)
        return 0;
    *passed = tier->waiting[0];
    memmove(tier->waiting, tier->waiting + 1, --tier->count * sizeof tier->waiting[0]);
    tier->all->counts.passed++;
    tier->passed++;
    return 1;
}

/* It cannot keep up: a warning the first time, and again as it goes on, but not each time. */
static void tell_passed(const struct vv_tier *tier, uint64_t version) {
    const struct vv_tiers *all = tier->all;
    vv_log(all->log, (tier->passed & (tier->passed - 1)) == 0 ? VV_LOG_WARN : VV_LOG_INFO,
           "tier %u, %s, cannot keep up: version %" PRIu64
           " of %s is passed over, since newer ones wait (tiers_waiting=%d);"
           " %" PRIu64 " so far",
           tier->number, tier->address, version, all->name, tier->waiting_most, tier->passed);
}

void vv_tiers_add(struct vv_tiers *tiers, const struct vv_attempt *attempt) {
    struct vv_attempt passed[VV_TIERS_MOST];
    int is_passed[VV_TIERS_MOST] = {0};
    if (!tiers)
        return;
    pthread_mutex_lock(&tiers->lock);
    for (unsigned i = 0; i < tiers->tier_count; i++)
        is_passed[i] = add(&tiers->tiers[i], attempt, &passed[i]);
    pthread_cond_broadcast(&tiers->changed);
    pthread_mutex_unlock(&tiers->lock);
    for (unsigned i = 0; i < tiers->tier_count; i++)
        if (is_passed[i])
            tell_passed(&tiers->tiers[i], passed[i].version);
}

static int lacks(const struct vv_tier *tier, const struct vv_tier_newest *first) {
    return first->attempt.generation != 0 &&
           (tier->newest.attempt.generation == 0 || tier->newest.attempt.version != first->attempt.version ||
            tier->newest.time_ns != first->time_ns);
}

int vv_tiers_start(struct vv_tiers *tiers, struct vv_store *first, struct vv_lease *lease, struct varve_error *error) {
    struct vv_tier_newest newest = {.time_ns = 0};
    int rc = tiers ? vv_tiers_check_stores(tiers, first, lease, error) : 0;
    if (tiers && rc == 0)
        rc = vv_tier_find_newest(first, tiers->name, &newest, error);
    for (unsigned i = 0; tiers && rc == 0 && i < tiers->tier_count; i++) {
        struct vv_tier *tier = &tiers->tiers[i];
        if (tier->count == 0 && lacks(tier, &newest))
            tier->waiting[tier->count++] = newest.attempt;
        rc = vv_thread_start(&tier->thread, run, tier);
        tier->has_thread = rc == 0;
        if (rc < 0)
            vv_error_sys(error, rc, "cannot start the thread of tier %u", tier->number);
    }
    return rc;
}

/* ---- who waits ---- */

static struct vv_tier *tier_of(struct vv_tiers *tiers, unsigned number) {
    return tiers && number >= 2 && number <= tiers->tier_count + 1 ? &tiers->tiers[number - 2] : NULL;
}

/* With the lock: ETIMEDOUT when the limit has passed. */
static int wait_for_change(struct vv_tiers *tiers) {
    return tiers->has_limit ? vv_cond_wait_until(&tiers->changed, &tiers->lock, tiers->until_ns)
                            : pthread_cond_wait(&tiers->changed, &tiers->lock);
}

/* With the lock. */
static void set_limit(struct vv_tiers *tiers) {
    double seconds = tiers->settings.tiers_seconds < 1e9 ? tiers->settings.tiers_seconds : 1e9;
    if (tiers->has_limit)
        return;
    tiers->until_ns = vv_clock_ns() + (uint64_t)(seconds * 1e9);
    tiers->has_limit = 1;
}

void vv_tiers_limit(struct vv_tiers *tiers) {
    if (!tiers)
        return;
    pthread_mutex_lock(&tiers->lock);
    set_limit(tiers);
    pthread_mutex_unlock(&tiers->lock);
}

static int tell_result(const struct vv_tier *tier, struct varve_error *error) {
    if (tier->result < 0)
        vv_error(error, tier->result,
                 "version %" PRIu64 " of %s is in the first store, and not in tier %u, %.150s: %.250s",
                 tier->last.version, tier->all->name, tier->number, tier->address, tier->error.text);
    return tier->result;
}

static int tell_late(const struct vv_tier *tier, struct varve_error *error) {
    const struct vv_attempt *late = tier->count > 0 ? &tier->waiting[tier->count - 1] : &tier->moving;
    return vv_error(error, -ETIMEDOUT,
                    "version %" PRIu64 " of %s is in the first store, and not yet in tier %u, %.150s, after the time"
                    " for it (tiers_seconds=%g)",
                    late->version, tier->all->name, tier->number, tier->address, tier->all->settings.tiers_seconds);
}

int vv_tiers_wait(struct vv_tiers *tiers, unsigned number, struct varve_error *error) {
    struct vv_tier *tier = tier_of(tiers, number);
    if (!tier)
        return 0;
    pthread_mutex_lock(&tiers->lock);
    int rc = 0;
    while (rc == 0 && !is_idle(tier) && !tiers->is_ended)
        rc = wait_for_change(tiers);
    rc = rc ? tell_late(tier, error) : tell_result(tier, error);
    pthread_mutex_unlock(&tiers->lock);
    return rc;
}

int vv_tiers_is_settled(struct vv_tiers *tiers, unsigned number) {
    struct vv_tier *tier = tier_of(tiers, number);
    if (!tier)
        return 1;
    pthread_mutex_lock(&tiers->lock);
    int is_settled = is_idle(tier);
    pthread_mutex_unlock(&tiers->lock);
    return is_settled;
}

size_t vv_tiers_spared(void *arg, struct vv_attempt *out, size_t capacity) {
    struct vv_tiers *tiers = arg;
    size_t count = 0;
    pthread_mutex_lock(&tiers->lock);
    for (unsigned i = 0; i < tiers->tier_count; i++) {
        const struct vv_tier *tier = &tiers->tiers[i];
        if (tier->moving.generation && count < capacity)
            out[count++] = tier->moving;
        for (unsigned j = 0; j < tier->count && count < capacity; j++)
            out[count++] = tier->waiting[j];
    }
    pthread_mutex_unlock(&tiers->lock);
    return count;
}

void vv_tiers_count(struct vv_tiers *tiers, struct vv_tiers_counts *out) {
    *out = (struct vv_tiers_counts){0};
    if (!tiers)
        return;
    pthread_mutex_lock(&tiers->lock);
    *out = tiers->counts;
    pthread_mutex_unlock(&tiers->lock);
}

/* ---- the end ---- */

static int are_idle(const struct vv_tiers *tiers) {
    for (unsigned i = 0; i < tiers->tier_count; i++)
        if (tiers->tiers[i].has_thread && (!is_idle(&tiers->tiers[i]) || must_try_again(&tiers->tiers[i])))
            return 0;
    return 1;
}

/* With the lock: until all have arrived, or the time is over. */
static void wait_for_all(struct vv_tiers *tiers) {
    tiers->is_closing = 1;
    set_limit(tiers);
    pthread_cond_broadcast(&tiers->changed);
    int rc = 0;
    while (rc == 0 && !are_idle(tiers))
        rc = wait_for_change(tiers);
    tiers->is_ended = 1;
    pthread_cond_broadcast(&tiers->changed);
}

static void tell_left(const struct vv_tier *tier) {
    const struct vv_tiers *all = tier->all;
    const struct vv_attempt *left = tier->count > 0 ? &tier->waiting[tier->count - 1] : &tier->last;
    if (tier->has_thread && (tier->count > 0 || tier->result < 0))
        vv_log(all->log, VV_LOG_WARN,
               "version %" PRIu64
               " of %s is not in tier %u (tiers_seconds=%g): varve flush '%s' '%s' --to '%s' copies it",
               left->version, all->name, tier->number, all->settings.tiers_seconds, all->address, all->name,
               tier->address);
}

void vv_tiers_close(struct vv_tiers *tiers) {
    if (!tiers)
        return;
    pthread_mutex_lock(&tiers->lock);
    wait_for_all(tiers);
    pthread_mutex_unlock(&tiers->lock);
    for (unsigned i = 0; i < tiers->tier_count; i++) {
        struct vv_tier *tier = &tiers->tiers[i];
        if (tier->has_thread)
            pthread_join(tier->thread, NULL);
        tell_left(tier);
        vv_tier_clear(tier);
        vv_free(tier->address);
    }
    pthread_cond_destroy(&tiers->changed);
    pthread_mutex_destroy(&tiers->lock);
    vv_free(tiers->address);
    vv_free(tiers->name);
    vv_free(tiers);
}
